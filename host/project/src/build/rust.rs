//! Rust, by cargo, for `wasm32-unknown-unknown`.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_component::{Names, Producer};

use super::{Build, Made};
use crate::command::{ask, called, work, work_aloud};
use crate::language::Language;
use crate::toolchain::{BuildError, Missing, Remedy, dotted, version};

const TARGET: &str = "wasm32-unknown-unknown";
/// The oldest compiler that builds the SDK.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

pub(super) fn make(build: &Build<'_>) -> Result<Made, BuildError> {
    let compiler = find(build)?;
    let mut command = build.command("cargo");
    command
        .args([
            "build",
            "--lib",
            "--profile",
            "operator",
            "--target",
            TARGET,
        ])
        .args(["--message-format", "json-render-diagnostics"])
        .arg("--config")
        .arg(flags(build));
    for setting in profile(build.options.quick) {
        command.arg("--config").arg(setting);
    }
    let said = match build.options.aloud {
        true => work_aloud(&mut command),
        false => work(command.arg("--quiet")),
    };
    let said = said.map_err(without_messages)?;
    let messages = String::from_utf8_lossy(&said.output);
    let module = messages.lines().filter_map(module).next_back();
    let module = module.ok_or_else(|| BuildError::Nothing {
        program: called(&command),
        what: "module",
        hint: ": write crate-type = [\"cdylib\", \"rlib\"] under [lib] in Cargo.toml",
    })?;
    Ok(Made {
        // The bindings of the SDK carry the world.
        component: build.encode(&module)?,
        producers: vec![
            Producer::language("Rust"),
            Producer::processed_by("rustc", &compiler),
            build.sdk(),
        ],
        names: Names::Keep,
        said: String::from_utf8_lossy(&said.errors).trim_end().to_owned(),
    })
}

/// The compiler's version.
fn find(build: &Build<'_>) -> Result<String, BuildError> {
    let missing = |found: Option<String>, wanted: String, remedy: Remedy| Missing {
        language: Language::Rust,
        wanted,
        found,
        remedy,
    };
    let said = build
        .machine()
        .program("cargo")
        .and_then(|_| ask(build.command("rustc").arg("--version")));
    let found = said.as_deref().and_then(version);
    let oldest = version(OLDEST);
    let Some(found) = found.filter(|found| Some(found) >= oldest.as_ref()) else {
        let update = Remedy::Commands(vec![vec![
            "rustup".into(),
            "update".into(),
            "stable".into(),
        ]]);
        let get = Remedy::Words("Install it as https://rustup.rs says".into());
        let rustup = build.machine().program("rustup");
        return Err(missing(
            said.map(|said| said.trim().to_owned()),
            format!("cargo and rustc {OLDEST} or newer"),
            if rustup.is_some() { update } else { get },
        )
        .into());
    };
    let libraries =
        ask(build
            .command("rustc")
            .args(["--print", "target-libdir", "--target", TARGET]));
    if !libraries.is_some_and(|directory| Path::new(directory.trim()).is_dir()) {
        let add = ["rustup", "target", "add", TARGET].map(str::to_owned);
        return Err(missing(
            Some(format!("rustc {} without it", dotted(&found))),
            format!("Rust's target {TARGET}"),
            Remedy::Commands(vec![add.to_vec()]),
        )
        .into());
    }
    Ok(dotted(&found))
}

/// Flags beside those of the project's own `.cargo/config.toml`. Places in panics are not those of this machine, so that
/// the same sources make the same component wherever they lie.
fn flags(build: &Build<'_>) -> String {
    let project = build.directory.display();
    let name = build.project.name();
    let mut flags = vec![
        "-Ctarget-feature=+simd128".to_owned(),
        format!("--remap-path-prefix={project}={name}"),
    ];
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    flags.extend(home.map(|home| format!("--remap-path-prefix={}=cargo", home.display())));
    // A list of JSON strings is one of TOML.
    format!("target.{TARGET}.rustflags={}", Value::from(flags))
}

/// The profile `operator`: small and fast, or quickly made.
fn profile(quick: bool) -> [&'static str; 6] {
    let inherits = "profile.operator.inherits=\"release\"";
    let panic = "profile.operator.panic=\"abort\"";
    let strip = "profile.operator.strip=\"debuginfo\"";
    match quick {
        false => [
            inherits,
            panic,
            strip,
            "profile.operator.lto=true",
            "profile.operator.codegen-units=1",
            "profile.operator.incremental=false",
        ],
        true => [
            inherits,
            panic,
            strip,
            "profile.operator.lto=false",
            "profile.operator.codegen-units=16",
            "profile.operator.incremental=true",
        ],
    }
}

/// What a failed cargo said without the messages that are for programs.
fn without_messages(error: BuildError) -> BuildError {
    match error {
        BuildError::Failed {
            program,
            status,
            said,
        } => {
            let lines: Vec<&str> = said
                .lines()
                .filter(|line| !line.starts_with("{\"reason\":"))
                .collect();
            BuildError::Failed {
                program,
                status,
                said: lines.join("\n"),
            }
        }
        other => other,
    }
}

/// The module that a message of cargo's is about.
fn module(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let mut files = message["filenames"].as_array()?.iter();
    files
        .find_map(|file| file.as_str().filter(|file| file.ends_with(".wasm")))
        .map(PathBuf::from)
}
