//! Python, by componentize-py: the interpreter, its library and the modules in one component, started before it is
//! written.

use tidegate_component::{Names, Producer};

use super::packages::{python, with_pip};
use super::{Build, Made, within};
use crate::command::{ask, work};
use crate::language::Language;
use crate::toolchain::{BuildError, INTO, Missing, dotted, version};

const TOOL: &str = "componentize-py";
const VERSION: &str = "0.25.1";
/// The module that exports the contract, of the SDK.
const GLUE: &str = "tidegate_glue";

pub(super) fn make(build: &Build<'_>) -> Result<Made, BuildError> {
    let mut command = find(build)?;
    let entry = build.project.manifest().entry.first();
    let entry = entry.map_or("", String::as_str);
    let module = entry.trim_end_matches(".py").replace('/', ".");
    let glue = build.write_glue("py", &format!("{GLUE}.py"), &module)?;
    let glue = within(build, &glue);
    let mut sources = build.sources()?;
    sources.push(glue);
    let tool = format!("{TOOL} {VERSION} {entry}");
    let (component, said) = build.remembered(&tool, sources, |stage, out| {
        command
            .current_dir(stage)
            .arg("-d")
            .arg(build.wit_file()?)
            .args(["-w", build.world()])
            .args(["componentize", GLUE, "-p", "build", "-p", ".", "-o"])
            .arg(out);
        let said = work(&mut command)?;
        Ok(String::from_utf8_lossy(&said.errors).trim_end().to_owned())
    })?;
    Ok(Made {
        component,
        producers: vec![
            Producer::language("Python"),
            Producer::processed_by(TOOL, VERSION),
            build.sdk(),
        ],
        names: Names::Drop,
        said,
    })
}

/// The program, of the cache or on the `PATH`.
fn find(build: &Build<'_>) -> Result<std::process::Command, BuildError> {
    let python = python(build)?;
    let name = format!("{TOOL}-{VERSION}");
    if let Some(kept) = build.machine().installed(&name) {
        // Its own program names the Python that installed it; the one at hand imports it as well.
        let mut command = build.command(&python);
        // Isolated, so that no module of the directory that it runs in takes the place of one of its own.
        let start = "import sys; sys.path.insert(0, sys.argv.pop(1)); \
                     from componentize_py import script; sys.exit(script())";
        command.args(["-I", "-c", start]).arg(&kept.directory);
        return Ok(command);
    }
    let on_path = build.machine().program(TOOL);
    let said = on_path
        .as_ref()
        .and_then(|program| ask(build.command(program).arg("--version")));
    let found = said
        .as_deref()
        .and_then(version)
        .map(|found| dotted(&found));
    match (on_path, &found) {
        (Some(program), Some(found)) if found == VERSION => Ok(build.command(program)),
        _ => {
            with_pip(build, &python)?;
            let wanted = format!("{TOOL}=={VERSION}");
            let install = [
                "python3",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--target",
                INTO,
                &wanted,
            ];
            Err(Missing {
                language: Language::Python,
                wanted: format!("{TOOL} {VERSION}"),
                found: found.map(|found| format!("{TOOL} {found}")),
                remedy: build.machine().remedy(&name, &install),
            }
            .into())
        }
    }
}
