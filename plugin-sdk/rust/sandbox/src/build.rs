//! Building an operator's crate for WebAssembly from its test.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::SandboxError;

/// Names the file of a component that is built already: [`build`] then builds nothing.
const BUILT: &str = "TIDEGATE_COMPONENT";
const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the crate in this directory (`env!("CARGO_MANIFEST_DIR")` in its own test) in release mode for
/// `wasm32-unknown-unknown`, with the cargo that runs the test, and says where its module is. Cargo builds only what has
/// changed. The environment variable `TIDEGATE_COMPONENT` names a file to be taken instead.
pub fn build(package: impl AsRef<Path>) -> Result<PathBuf, SandboxError> {
    if let Some(built) = std::env::var_os(BUILT) {
        return Ok(built.into());
    }
    let package = package.as_ref();
    let failed = |why: String| SandboxError::Build {
        package: package.to_owned(),
        why,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--lib", "--target", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .output()
        .map_err(|error| failed(format!("cargo does not start: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}\n{said}", output.status)));
    }
    // Each line is a message; the last module that was made is that of the package itself.
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut modules = messages.lines().filter_map(module);
    modules
        .next_back()
        .ok_or_else(|| failed("it makes no module: its `crate-type` has no \"cdylib\"".to_owned()))
}

/// The module that a message of cargo's is about.
fn module(message: &str) -> Option<PathBuf> {
    use tidegate_sdk::serde_json::Value;

    let message: Value = tidegate_sdk::serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let files = message["filenames"].as_array()?;
    let mut files = files.iter().filter_map(Value::as_str);
    files
        .find(|file| file.ends_with(".wasm"))
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_built_is_named_with_what_cargo_said() {
        let nowhere = Path::new(env!("CARGO_MANIFEST_DIR")).join("no-crate");
        let error = match build(&nowhere) {
            Ok(built) => panic!("it built {}", built.display()),
            Err(error) => error.to_string(),
        };
        assert!(
            error.contains("no-crate") && error.contains("Cargo.toml"),
            "{error}"
        );
    }

    #[test]
    fn the_module_is_found_among_what_cargo_says() {
        let artifact = r#"{"reason":"compiler-artifact","filenames":["/t/a.rlib","/t/a.wasm"]}"#;
        assert_eq!(module(artifact), Some(PathBuf::from("/t/a.wasm")));
        for other in [
            r#"{"reason":"compiler-artifact","filenames":["/t/a.rlib"]}"#,
            r#"{"reason":"build-finished","success":true}"#,
            "not JSON",
        ] {
            assert_eq!(module(other), None, "{other}");
        }
    }
}
