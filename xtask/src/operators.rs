//! Builds the shipped operators and the test guests for WebAssembly, and unpacks those of other languages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::setup::{WASM_TARGET, WasmToolchain, wasm_target};
use crate::steps::{cargo, run};
use crate::toolchains;

/// The operator of the conformance cases, in `plugin-sdk/conformance/rust`.
const CONFORMANCE: &str = "conformance-rust";

/// Builds it and every crate under `plugins/` and `tests/guests/` into `target/operators/NAME.wasm`, and puts the committed ones
/// of other languages beside them.
pub(crate) fn build(root: &Path) -> Result<()> {
    let mut packages = Vec::new();
    for room in ["plugins", "tests/guests"] {
        packages.extend(crates(&root.join(room))?);
    }
    packages.push(CONFORMANCE.to_owned());
    let target = target_directory(root);
    let mut command = match wasm_target(root)? {
        WasmToolchain::Rustup => {
            let mut command = cargo();
            command.arg("build");
            command
        }
        // The standard library is compiled too; a directory of its own keeps the two compilers' files apart.
        WasmToolchain::DebianWeb => {
            let mut command = Command::new("/usr/bin/cargo");
            command
                .args(["build", "-Zbuild-std=std,panic_abort", "--target-dir"])
                .arg(target.join("wasm-web"))
                .env("RUSTC", "/usr/bin/rustc")
                .env("RUSTC_BOOTSTRAP", "1")
                .env(
                    "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER",
                    "/usr/bin/wasm-ld",
                );
            command
        }
    };
    let web = command.get_program() == "/usr/bin/cargo";
    command
        .args(["--quiet", "--profile", "operator", "--target", WASM_TARGET])
        .current_dir(root);
    command.arg("--config").arg(without_paths(root));
    for package in &packages {
        command.args(["--package", package]);
    }
    run(&mut command)?;
    let built = if web {
        target.join("wasm-web")
    } else {
        target.clone()
    };
    let built = built.join(WASM_TARGET).join("operator");
    let place = place(root);
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    for package in &packages {
        let from = built.join(format!("{}.wasm", package.replace('-', "_")));
        let to = place.join(format!("{package}.wasm"));
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        write_if_other(&to, &bytes)?;
    }
    let unpacked = toolchains::unpack(root)?;
    for_pipelines(root)?;
    println!(
        "{} operators in {}",
        packages.len() + unpacked,
        place.display()
    );
    Ok(())
}

/// Flags beside those of `.cargo/config.toml`: places in panics are not those of this machine, so that the same sources
/// make the same component wherever they lie.
fn without_paths(root: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut flags = vec![format!("--remap-path-prefix={}=tidegate", root.display())];
    flags.extend(home.map(|home| format!("--remap-path-prefix={}=cargo", home.display())));
    // A list of JSON strings is one of TOML.
    format!("target.{WASM_TARGET}.rustflags={flags:?}")
}

/// Where operators and test guests are.
pub(crate) fn place(root: &Path) -> PathBuf {
    target_directory(root).join("operators")
}

/// Puts the components where the pipeline files of this repository name them, for who has cargo build elsewhere.
pub(crate) fn for_pipelines(root: &Path) -> Result<()> {
    let (place, named) = (place(root), root.join("target/operators"));
    fs::create_dir_all(&named).with_context(|| format!("cannot make {}", named.display()))?;
    let cannot = || format!("cannot list {}", place.display());
    if named.canonicalize()? == place.canonicalize()? {
        return Ok(());
    }
    for entry in fs::read_dir(&place).with_context(cannot)? {
        let from = entry.with_context(cannot)?.path();
        if let (Some("wasm"), Some(name)) = (
            from.extension().and_then(|extension| extension.to_str()),
            from.file_name(),
        ) {
            let bytes =
                fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            write_if_other(&named.join(name), &bytes)?;
        }
    }
    Ok(())
}

/// Only what changed is written, so that a running host's files keep their time.
pub(crate) fn write_if_other(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Where cargo builds.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path))
}

/// Names of the crates right below a directory, sorted. Their directory is their name.
fn crates(room: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let Ok(entries) = fs::read_dir(room) else {
        return Ok(names);
    };
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", room.display()))?;
        if entry.path().join("Cargo.toml").exists() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
