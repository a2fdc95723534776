//! Faults that were put in on purpose: the scenes that are to find them do. Those that lie deeper than around a source
//! are in `tests/planted`, for `cargo xtask planted`.

use tidegate_tests::mock::{OFFSETS_FIRST, RECORDS_KEPT};

use super::groups::joining;
use super::kills::{AT_ONCE, killed};
use super::scene::{Plan, Program};

#[test]
fn records_that_are_kept_while_their_partition_is_anothers_are_found() {
    let (fault, at_once) = (RECORDS_KEPT, 32);
    let ended = joining("records-kept", Program::Planted { fault, at_once });
    assert!(ended.findings.repeats() > 0, "{}", ended.said);
}

#[test]
fn offsets_that_are_committed_before_their_outputs_are_found() {
    let (fault, at_once) = (OFFSETS_FIRST, AT_ONCE);
    let ended = killed(Plan::new(
        "offsets-first",
        Program::Planted { fault, at_once },
    ));
    assert!(!ended.findings.missing.is_empty(), "{}", ended.said);
}
