//! Operators in other languages: the projects of `plugins/` and `plugin-sdk/conformance/`, built by `tidegate build`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::operators::{for_pipelines, place, target_directory, write_if_other};
use crate::setup;
use crate::steps::{cargo, run};

/// Where projects are. Their directory is the name of the operator, or what goes with it: `conformance-c`.
const ROOMS: [(&str, &str); 2] = [("plugins", ""), ("plugin-sdk/conformance", "conformance-")];
/// A project of JavaScript that is also built with the other engine, where the long tests run.
const TWICE: &str = "plugin-sdk/conformance/js";

/// What fetches the library of an operator.
const LIBRARY: &str = "plugins/map-fields/fetch-jmespath.mjs";

/// Builds the program, and with it every project into `target/operators/NAME.wasm`. Toolchains that are missing are
/// installed. `full` builds from nothing but them, without components that were kept, and JavaScript with SpiderMonkey too.
pub(crate) fn build(root: &Path, full: bool) -> Result<()> {
    let projects = projects(root)?;
    if projects.is_empty() {
        return Ok(());
    }
    // What `tidegate build` asks for and does not fetch itself without more ado.
    setup::clang_for_wasi()?;
    setup::pip()?;
    setup::node()?;
    run(cargo()
        .args(["build", "--quiet", "--release", "--workspace", "--bins"])
        .current_dir(root))?;
    // The library of an operator in JavaScript comes by name, and is not kept here.
    run(Command::new("node").arg(root.join(LIBRARY)))?;
    for (name, project) in &projects {
        if full {
            remove(&project.join("build"))?;
        }
        make(root, name, project, full)?;
    }
    let twice = root.join(TWICE);
    if full && twice.join(MANIFEST).is_file() {
        make(
            root,
            "conformance-spidermonkey",
            &spidermonkey(root, &twice)?,
            full,
        )?;
    }
    for_pipelines(root)?;
    println!(
        "{} operators of projects in {}",
        projects.len(),
        place(root).display()
    );
    Ok(())
}

const MANIFEST: &str = "operator.toml";

/// The projects that are no crates of the workspace, sorted, with what their components are called.
fn projects(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut projects = Vec::new();
    for (room, prefix) in ROOMS {
        let Ok(entries) = fs::read_dir(root.join(room)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {room}"))?;
            let path = entry.path();
            if path.join(MANIFEST).is_file() && !path.join("Cargo.toml").exists() {
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                projects.push((name, path));
            }
        }
    }
    projects.sort();
    Ok(projects)
}

/// Writes the SDK into a project, builds it, and puts the component where tests look for it.
fn make(root: &Path, name: &str, project: &Path, full: bool) -> Result<()> {
    let tidegate = || {
        let program = format!("release/tidegate{}", std::env::consts::EXE_SUFFIX);
        Command::new(target_directory(root).join(program))
    };
    run(tidegate().arg("sdk").arg(project))?;
    let mut build = tidegate();
    build.args(["build", "--install"]).arg(project);
    if full {
        build.arg("--fresh");
    }
    run(&mut build)?;
    let built = built(project)?;
    let bytes = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    let place = place(root);
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    write_if_other(&place.join(format!("{name}.wasm")), &bytes)
}

/// The component of a project: the manifest says its name.
fn built(project: &Path) -> Result<PathBuf> {
    let file = project.join(MANIFEST);
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.with_context(|| format!("{} has no name", file.display()))?;
    let name = name.split('"').nth(1).unwrap_or_default();
    Ok(project.join(format!("{name}.wasm")))
}

/// A copy of a project for SpiderMonkey. Its cases are run from where they are.
fn spidermonkey(root: &Path, project: &Path) -> Result<PathBuf> {
    let copy = target_directory(root).join("projects").join("spidermonkey");
    remove(&copy)?;
    fs::create_dir_all(&copy).with_context(|| format!("cannot make {}", copy.display()))?;
    for entry in
        fs::read_dir(project).with_context(|| format!("cannot list {}", project.display()))?
    {
        let path = entry
            .with_context(|| format!("cannot list {}", project.display()))?
            .path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, copy.join(name))
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    let manifest = copy.join(MANIFEST);
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    fs::write(
        &manifest,
        format!("{}\nengine = \"spidermonkey\"\n", text.trim_end()),
    )
    .with_context(|| format!("cannot write {}", manifest.display()))?;
    Ok(copy)
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}
