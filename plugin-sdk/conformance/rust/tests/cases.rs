//! The operator against the cases, natively.

use conformance_rust::Conformance;
use tidegate_sdk::prelude::*;

#[test]
fn every_case_that_needs_no_sandbox_has_its_outcomes() {
    Harness::<Conformance>::run_cases("../cases");
}
