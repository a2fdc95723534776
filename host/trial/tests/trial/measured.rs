//! What an operator costs.

use std::time::Duration;

use tidegate_operator::Limits;
use tidegate_trial::{BenchError, BenchOptions, Lines, bench, read_records};

use crate::support::*;

fn options(mode: &str) -> BenchOptions {
    BenchOptions {
        config: format!("{{\"mode\": \"{mode}\"}}"),
        time: Duration::from_millis(200),
        limits: Limits {
            deadline: Duration::from_secs(60),
            ..Limits::default()
        },
        ..BenchOptions::default()
    }
}

#[test]
fn an_operator_is_measured_beside_one_that_lets_everything_pass() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lines.txt");
    std::fs::write(&path, format!("{}\n", "x".repeat(200)).repeat(1000)).unwrap();
    let batches = read_records(&path, Lines::Values, 256, 7).unwrap();
    let operator = bytes_of("bench-operator");
    let measured = bench(&operator, "bench-operator", &batches, &options("echo")).unwrap();
    assert_eq!(
        (measured.records, measured.bytes, measured.batch),
        (1000, 200_000, 256)
    );
    assert_eq!(measured.outcomes, [0, 0, 1000, 0, 0, 0, 0]);
    for speed in [measured.speed, measured.pass] {
        assert!(
            speed.minimum > 0.0 && speed.minimum <= speed.median,
            "{speed:?}"
        );
    }
    assert!(measured.border() > 0.0 && measured.border() <= 1.0);
    assert!(measured.start.cached.is_some(), "it was kept on disk");
    assert!(measured.rounds >= 5 && measured.memory >= 1 << 16);
    let said = measured.to_json();
    for member in [
        "ns-per-record",
        "mb-per-second",
        "border",
        "start-ms",
        "memory",
        "outcomes",
    ] {
        assert!(!said[member].is_null(), "{member} in {said}");
    }
    let shown = measured.to_string();
    for line in [
        "1,000 records",
        "operator ",
        "pass-through ",
        "border ",
        "start ",
        "memory ",
        "1,000 replace",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
}

#[test]
fn a_record_without_an_answer_is_no_measurement() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lines.txt");
    std::fs::write(&path, "good\nbad\n").unwrap();
    let batches = read_records(&path, Lines::Values, 256, 7).unwrap();
    let error = bench(&bytes_of("hostile"), "hostile", &batches, &options("trap")).unwrap_err();
    match error {
        BenchError::Record { record, reason } => {
            assert_eq!(record, "0/0/1");
            assert!(reason.starts_with("trap: "), "{reason}");
        }
        other => panic!("{other}"),
    }
}
