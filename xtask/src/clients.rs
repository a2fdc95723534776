//! The clients that the gateway is tested with, as they are published: OpenAI's for Python and Node.js, LangChain's, and
//! schemathesis; axe-core for the page; and the schemas of Kubernetes and KEDA. They stay in `target/clients`. Beside
//! them Chromium, which the system has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::operators::target_directory;
use crate::setup;
use crate::steps::run;
use crate::toolchains::is_new;

/// Fetches what is not there yet, or is there in another version.
pub(crate) fn fetch(root: &Path) -> Result<()> {
    setup::pip()?;
    setup::node()?;
    setup::chromium()?;
    let target = target_directory(root).join("clients");
    let clients = Place {
        sources: root.join("tests/clients"),
        python: target.join("python"),
        node: target.join("node"),
    };
    clients.fetch("openai_node.mjs")?;
    // The schemas that what is in deploy/ is held against.
    let manifests = target.join("manifests");
    let schemas = Place {
        sources: root.join("tests/deploy"),
        python: manifests.join("python"),
        node: manifests.join("node"),
    };
    schemas.fetch("custom_object.mjs")
}

/// What is wanted, and where it goes.
struct Place {
    sources: PathBuf,
    python: PathBuf,
    node: PathBuf,
}

impl Place {
    fn fetch(&self, module: &str) -> Result<()> {
        let Place {
            sources,
            python,
            node,
        } = self;
        for directory in [python, node] {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let (wanted, installed) = (
            sources.join("requirements.txt"),
            python.join("requirements.txt"),
        );
        if is_new(&wanted, &installed)? {
            run(Command::new("python3")
                .args(["-m", "pip", "install", "-q", "--no-warn-conflicts"])
                .args(["--root-user-action=ignore", "--upgrade", "--target"])
                .arg(python)
                .arg("-r")
                .arg(&wanted))?;
            copy(&wanted, &installed)?;
        }
        let (wanted, installed) = (sources.join("package.json"), node.join("installed.json"));
        if is_new(&wanted, &installed)? {
            copy(&wanted, &node.join("package.json"))?;
            run(Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent"])
                .current_dir(node))?;
            copy(&wanted, &installed)?;
        }
        // A module finds its libraries beside itself.
        copy(&sources.join(module), &node.join(module))
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}
