//! `[audit]`: who was answered what, in a chain of lines.

use std::path::PathBuf;

use super::findings::Typed;
use super::reader::Table;

/// Bytes after which a file of the audit is followed by another.
const FILE: u64 = 64 << 20;
/// Bytes of what was asked and answered that are kept in one line.
const CONTENT: usize = 256 << 10;

/// Where the audit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Its first file, absolute.
    pub path: PathBuf,
    /// A file that has so many bytes is followed by another.
    pub max_file: u64,
    /// Most bytes of what was asked and answered in one line.
    pub max_content: usize,
}

#[derive(Debug)]
pub(crate) struct TypedAudit {
    pub(crate) path: Option<Typed<String>>,
    pub(crate) max_file: u64,
    pub(crate) max_content: usize,
}

pub(crate) fn read_audit(table: Table<'_>) -> TypedAudit {
    let path = table.string("path");
    if path.is_none() && table.get("path").is_none() {
        table.missing("path", "path = \"audit/audit.jsonl\"");
    }
    // The last file is read as a whole when a run begins.
    let max_file = table.size("max-file", 1 << 10..=1 << 30);
    let max_content = table.size("max-content", 1 << 10..=16 << 20);
    let typed = TypedAudit {
        path,
        max_file: max_file.map_or(FILE, |typed| typed.value as u64),
        max_content: max_content.map_or(CONTENT, |typed| typed.value),
    };
    table.finish();
    typed
}
