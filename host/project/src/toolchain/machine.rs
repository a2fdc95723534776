//! The machine that a build runs on: where its programs are, and where toolchains are kept.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What would make another component of the same sources, or take flags of the build away.
const SWAYING: [&str; 21] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
    "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER",
    "RUST_BACKTRACE",
    "RUSTC_BOOTSTRAP",
    "CPATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "CCC_OVERRIDE_OPTIONS",
    "GOEXPERIMENT",
    "GOWASM",
    "NODE_OPTIONS",
    "NODE_PATH",
    "ESBUILD_BINARY_PATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONOPTIMIZE",
];

/// Where programs are looked for and toolchains are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// As `PATH` has it.
    path: OsString,
    /// None where there is no place for it.
    toolchains: Option<PathBuf>,
}

impl Machine {
    /// This one: its `PATH`, and the user's cache.
    pub fn here() -> Machine {
        Machine {
            path: env::var_os("PATH").unwrap_or_default(),
            toolchains: user_cache().map(|cache| cache.join("toolchains")),
        }
    }

    /// One with another `PATH` and another place for toolchains.
    pub fn new(path: impl Into<OsString>, toolchains: impl Into<PathBuf>) -> Machine {
        Machine {
            path: path.into(),
            toolchains: Some(toolchains.into()),
        }
    }

    /// Where a toolchain of this name is kept, whether it is there or not.
    pub(crate) fn kept(&self, name: &str) -> Option<PathBuf> {
        Some(self.toolchains.as_ref()?.join(name))
    }

    /// The file of a program on the `PATH`.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        env::split_paths(&self.path)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(name))
            .find(|file| is_program(file))
    }

    /// A command that sees this machine, and nothing that would make its output another one elsewhere or tomorrow.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(directory)
            .env("PATH", &self.path)
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("SOURCE_DATE_EPOCH", "0")
            .env("PYTHONHASHSEED", "0")
            .env("GOWORK", "off")
            // An empty one would leave what `go env -w` has set.
            .env("GOFLAGS", "-buildvcs=false");
        for name in SWAYING {
            command.env_remove(name);
        }
        command
    }
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// Where this user's files of Tidegate are that can be made again: `tidegate` below `$XDG_CACHE_HOME` or `~/.cache`.
pub fn user_cache() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(set("HOME")?).join(".cache"));
    // A place that is not absolute is none, as the XDG Base Directory Specification has it.
    let caches = caches
        .filter(|caches| caches.is_absolute())
        .or_else(|| home().filter(|caches| caches.is_absolute()))?;
    Some(caches.join("tidegate"))
}
