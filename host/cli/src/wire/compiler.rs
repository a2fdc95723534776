//! How components are compiled: by this program once more, as a child.

use std::path::PathBuf;

use tidegate_operator::{ChildCompiler, Compiler};

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
