//! The demo: everything built, the support bot run over its tickets.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps::{Steps, cargo, run};
use crate::{operators, setup};

/// Sets up, builds and runs.
pub(crate) fn demo(root: &Path) -> Result<()> {
    let mut steps = Steps::default();
    steps.step("set up", || {
        setup::c_toolchain()?;
        setup::adapter()
    })?;
    steps.step("build the operators", || operators::build(root))?;
    steps.step("build tidegate (the first time takes some minutes)", || {
        run(cargo()
            .args(["build", "--release", "--workspace", "--bins"])
            .current_dir(root))
    })?;
    let example = root.join("examples/support-bot");
    for old in ["out", "state"] {
        let path = example.join(old);
        if path.exists() {
            fs::remove_dir_all(&path)
                .with_context(|| format!("cannot remove {} of an earlier demo", path.display()))?;
        }
    }
    let binary = operators::target_directory(root).join("release/tidegate");
    steps.step("run examples/support-bot/pipeline.toml", || {
        run(Command::new(&binary)
            .arg("run")
            .arg(example.join("pipeline.toml"))
            .current_dir(root))
    })?;
    println!("\nthe answers:       examples/support-bot/out/answers.jsonl");
    println!("the dead letters:  examples/support-bot/out/dead-letters.jsonl");
    println!("the summary:       examples/support-bot/out/summary.json");
    let binary = binary.strip_prefix(root).unwrap_or(&binary);
    println!(
        "run it again with: {} run examples/support-bot/pipeline.toml",
        binary.display()
    );
    Ok(())
}
