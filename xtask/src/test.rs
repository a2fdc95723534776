//! Every test, lint and format check.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::steps::{Aside, Steps, cargo, run};
use crate::{
    FULL, FUZZ_SECONDS, binaries, clients, docs, fuzz, kafka, operators, planted, projects,
    prometheus, setup, swiftshader, toolchains,
};

/// What SmartModules are built for.
const FLUVIO_TARGET: &str = "wasm32-wasip1";

/// Sets up and runs them; `full` adds what takes minutes.
pub(crate) fn test(root: &Path, full: bool) -> Result<()> {
    let mut steps = Steps::default();
    let result = all(root, full, &mut steps);
    steps.report();
    result
}

fn all(root: &Path, full: bool, steps: &mut Steps) -> Result<()> {
    steps.step("set up", || {
        setup::c_toolchain()?;
        setup::pip()?;
        setup::adapter()
    })?;
    steps.step("format", || {
        run(cargo().args(["fmt", "--all", "--check"]).current_dir(root))?;
        // Workspaces of their own.
        ["host/weights/fuzz", "host/record/fuzz"]
            .iter()
            .try_for_each(|fuzz| {
                run(cargo()
                    .args(["fmt", "--check"])
                    .current_dir(root.join(fuzz)))
            })
    })?;
    steps.step("build the operators", || operators::build(root))?;
    if full {
        steps.step("make operators of Python and JavaScript", || {
            toolchains::large(root)
        })?;
    }
    // One profile for the binary, the tests and the demo: the heavy dependencies are compiled once.
    steps.step("build tidegate", || {
        run(cargo()
            .args(["build", "--release", "--workspace", "--bins"])
            .current_dir(root))
    })?;
    steps.step("build the operators of other languages", || {
        projects::build(root, full)
    })?;
    steps.step("fetch the clients of the gateway", || clients::fetch(root))?;
    steps.step("fetch Prometheus", || prometheus::fetch(root))?;
    let binaries = steps.step("build the tests", || binaries::build(root))?;
    let broker = steps.step("start Kafka", || kafka::start_or_find(root))?;
    // Tests wait much: what only compiles does so meanwhile.
    let mut aside = fuzz::builds(root)?;
    aside.insert(0, lint(root));
    let aside = Aside::begin(aside)?;
    let mut variables = broker.variables();
    if full {
        variables.push((FULL, "1".to_owned()));
    }
    let tested = steps.step("test", || binaries::test(root, binaries, &variables));
    // After them: each scene is to fail, and a busy machine is no reason.
    let found = match (&tested, full) {
        (Ok(()), true) => steps.step("find faults that were planted", || {
            planted::find_all(root, &broker)
        }),
        _ => Ok(()),
    };
    drop(broker);
    let linted = steps.step("lint, as far as it is not done yet", || aside.finish());
    tested.and(found).and(linted)?;
    if full {
        steps.step("the same filter in Fluvio's engine", || {
            setup::add_target(root, FLUVIO_TARGET)?;
            let script = root.join("benches/fluvio/run.py");
            run(Command::new("python3").arg(script).current_dir(root))
        })?;
        steps.step("make the book", || docs::book(root))?;
    }
    if swiftshader::runs_here() {
        steps.step("test what a device computes on SwiftShader", || {
            swiftshader::test(root, full)
        })?;
    }
    steps.step("fuzz what reads models, batches and answers", || {
        fuzz::fuzz(root, FUZZ_SECONDS)
    })
}

fn lint(root: &Path) -> Command {
    let mut lint = cargo();
    lint.args(["clippy", "--release", "--workspace", "--all-targets"])
        .args(["--", "-D", "warnings"])
        .current_dir(root);
    lint
}
