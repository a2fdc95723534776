//! Components, and cases over them.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use tidegate_operator::{Engine, EngineOptions, Limits};
use tidegate_trial::{CaseFile, Options, Report, Trial};

pub(crate) static ENGINE: LazyLock<Engine> =
    LazyLock::new(|| Engine::new(EngineOptions::default()).unwrap());

/// A guest of `tests/guests`, as `cargo xtask operators` has built it.
pub(crate) fn guest(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")),
        PathBuf::from,
    );
    let path = target.join("operators").join(format!("{name}.wasm"));
    assert!(
        path.is_file(),
        "{} is missing; run `cargo xtask operators` first",
        path.display()
    );
    path
}

pub(crate) fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(guest(name)).unwrap()
}

/// Deadlines that a busy machine does not miss.
pub(crate) fn patient() -> Options {
    let patient = Duration::from_secs(60);
    Options {
        limits: Limits {
            deadline: patient,
            init_deadline: patient,
            bisect: patient,
            ..Limits::default()
        },
        ..Options::default()
    }
}

/// A file of these cases for a guest in this mode.
pub(crate) fn file(mode: &str, cases: &str) -> CaseFile {
    let text = format!("{{\"config\": {{\"mode\": \"{mode}\"}}, \"cases\": [{cases}]}}");
    CaseFile::parse(Path::new("cases.json"), text).unwrap()
}

/// Runs cases over a component.
pub(crate) fn run_over(component: &[u8], cases: CaseFile) -> Report {
    let mut trial = Trial::new(&ENGINE, component, "guest", &patient()).unwrap();
    trial.run(&[cases]).unwrap()
}

/// Runs cases over the hostile guest.
pub(crate) fn run(mode: &str, cases: &str) -> Report {
    run_over(&bytes_of("hostile"), file(mode, cases))
}

#[track_caller]
pub(crate) fn passes(report: &Report) {
    assert!(report.failed() == 0 && report.passed() > 0, "{report}");
}

/// What is said of the one case.
#[track_caller]
pub(crate) fn differences(report: &Report) -> Vec<String> {
    assert_eq!(report.cases.len(), 1, "{report}");
    let differences = report.cases[0].differences.iter();
    differences.map(ToString::to_string).collect()
}
