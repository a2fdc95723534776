//! `tidegate audit`: whether a chain is whole, and what its lines say.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{Value, json};
use tidegate_state::StateDirectory;
use tidegate_state::audit::{AuditFlaw, FilesFlaw, files, opened, verify as verify_chain};

use super::print;
use crate::exit::Failure;

/// Longest line that is read.
const LONGEST_LINE: u64 = 64 << 20;

/// What is done with an audit.
#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no line of an audit was altered, taken away, doubled, moved or put in.
    #[command(after_help = "Examples:\n  \
        tidegate audit verify audit/audit.jsonl\n  \
        tidegate audit verify audit/audit.jsonl --head 5f0c...")]
    Verify {
        /// Its first file.
        path: PathBuf,
        /// A hash that was noted before, of any line: nothing up to that one may be missing at the end.
        #[arg(long)]
        head: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the lines.
    #[command(
        after_help = "Example:\n  tidegate audit show --decrypt --state state audit/audit.jsonl"
    )]
    Show {
        /// Its first file.
        path: PathBuf,
        /// With what was asked and answered, opened with the key of the state.
        #[arg(long)]
        decrypt: bool,
        /// The state directory of the pipeline; TIDEGATE_STATE_KEY goes before the key in it.
        #[arg(long, value_name = "DIRECTORY")]
        state: Option<PathBuf>,
    },
}

/// Does what is said.
pub(crate) fn audit(command: &AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Verify { path, head, json } => verify(path, head.as_deref(), *json),
        AuditCommand::Show {
            path,
            decrypt,
            state,
        } => show(path, *decrypt, state.as_deref()),
    }
}

/// Reads a chain from its first line to its last; exit code 1 if it is not as it was written.
fn verify(path: &Path, head: Option<&str>, as_json: bool) -> Result<(), Failure> {
    let is_hash = |head: &str| head.len() == 64 && head.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(head) = head.filter(|head| !is_hash(head)) {
        return Err(Failure::usage(format_args!(
            "--head {head:?} is no hash: 64 hexadecimal digits, as status and verify show them"
        )));
    }
    let head = head.map(str::to_ascii_lowercase);
    let verified = match verify_chain(path, head.as_deref()) {
        Ok(verified) => verified,
        Err(AuditFlaw::Files(unread @ FilesFlaw::Read { .. })) => {
            return Err(Failure::usage(unread));
        }
        Err(flaw) => {
            if as_json {
                print(&format!(
                    "{}\n",
                    json!({"whole": false, "why": flaw.to_string()})
                ))?;
            }
            return Err(Failure::Run(flaw.into()));
        }
    };
    if as_json {
        let report = json!({
            "whole": true, "lines": verified.head.lines, "head": verified.head.hash, "files": verified.files,
        });
        return print(&format!("{report}\n"));
    }
    let files = match verified.files.len() {
        1 => "1 file".to_owned(),
        number => format!("{number} files"),
    };
    print(&format!(
        "OK: {} lines in {files}, head {}\n",
        verified.head.lines, verified.head.hash
    ))
}

/// Prints the lines; with the content opened where a state directory has the key.
fn show(path: &Path, decrypt: bool, state: Option<&Path>) -> Result<(), Failure> {
    let key = match (decrypt, state) {
        (false, _) => None,
        (true, Some(state)) => Some(StateDirectory::key_of(state).map_err(Failure::usage)?),
        (true, None) => {
            return Err(Failure::usage(
                "--decrypt needs the state directory of the pipeline: --state DIRECTORY",
            ));
        }
    };
    for path in files(path).map_err(Failure::usage)? {
        let file = std::fs::File::open(&path).map_err(|error| {
            Failure::usage(format_args!("cannot read {}: {error}", path.display()))
        })?;
        show_file(BufReader::new(file), &path, |line| match &key {
            None => line,
            Some(key) => {
                let content = opened(&line, key);
                with_content(line, content)
            }
        })?;
    }
    Ok(())
}

fn show_file(
    mut lines: BufReader<std::fs::File>,
    path: &Path,
    with: impl Fn(Value) -> Value,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line);
        if read.with_context(|| format!("cannot read {}", path.display()))? == 0 {
            return Ok(());
        }
        let value: Value = serde_json::from_slice(&line).with_context(|| {
            format!(
                "{} has a line that is no JSON: see tidegate audit verify",
                path.display()
            )
        })?;
        // JSON escapes what would move a terminal's cursor.
        print(&format!("{}\n", with(value)))?;
    }
}

/// The line with what its content says in the place of the sealed one.
fn with_content(mut line: Value, content: Option<Value>) -> Value {
    if let (Some(content), Some(members)) = (content, line.as_object_mut()) {
        members.insert("content".to_owned(), content);
    }
    line
}
