//! How components are compiled: by this program once more, as a child.

use std::io::IsTerminal;
use std::path::PathBuf;

use tidegate_operator::{ChildCompiler, Compiler, Compiling};
use tidegate_telemetry::plain;

use crate::exit::tell;

/// The command of the child.
pub(crate) const COMPILER: &str = "compile-component";

/// This program as a compiler.
pub(crate) fn compiler() -> std::io::Result<Compiler> {
    Ok(Compiler::Child(ChildCompiler {
        program: this_program()?,
        arguments: vec![COMPILER.into()],
    }))
}

/// The file that runs, also where another one has its name by now: what it compiles must fit the engine of this one.
fn this_program() -> std::io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && own.exists() {
        return Ok(own);
    }
    std::env::current_exe()
}

/// Most bytes of compiled components that this user's cache has.
pub(crate) const CACHE_BYTES: u64 = 1 << 30;

/// Where this user's compiled components are, of commands that have no state directory.
pub(crate) fn user_cache() -> Option<PathBuf> {
    Some(tidegate_project::user_cache()?.join("compiled"))
}

/// Most bytes of a component's name that are shown.
const NAME_BYTES: usize = 256;
/// Seconds between two lines where they stay.
const EVERY: u64 = 10;

/// Says on standard error how a compilation goes on: on a terminal in one line that changes.
pub(crate) fn progress(compiling: &Compiling<'_>) {
    let terminal = std::io::stderr().is_terminal();
    let seconds = compiling.elapsed.as_secs();
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let name = plain(compiling.component, NAME_BYTES);
    if compiling.is_done {
        let end = if terminal { "\r\x1b[K" } else { "" };
        tell(format_args!("{end}{name}: its compiler took {seconds} s\n"));
        return;
    }
    let size = mebibytes(compiling.bytes as u64);
    let memory = compiling.memory.map(mebibytes);
    let memory = memory.map_or_else(String::new, |memory| format!(", {memory} of memory"));
    let line = format!("compiling {name} ({size}): {seconds} s{memory}");
    if terminal {
        tell(format_args!("\r\x1b[K{line}"));
    } else if seconds % EVERY == 1 {
        tell(format_args!("{line}\n"));
    }
}
