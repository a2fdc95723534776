//! `tidegate audit`: whether a chain is whole, and what its lines say.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{Value, json};
use tidegate_contract::EntryCipher;
use tidegate_state::audit::{
    Against, AuditFlaw, AuditHead, FilesFlaw, OpenEnd, Verified, files, opened,
    verify as verify_chain,
};
use tidegate_state::{StateDirectory, StateKey};

use super::{print, print_json};
use crate::exit::{Failure, tell};

/// Longest line that is read.
const LONGEST_LINE: u64 = 64 << 20;

/// What is done with an audit.
#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no line of an audit was altered, taken away, doubled, moved or put in.
    #[command(after_help = "Examples:\n  \
        tidegate audit verify --state state audit/audit.jsonl\n  \
        tidegate audit verify audit/audit.jsonl --head 5f0c...\n  \
        tidegate audit verify audit/audit.jsonl --after 4711:93b7...")]
    Verify(VerifyArguments),
    /// Print the lines.
    #[command(
        after_help = "Example:\n  tidegate audit show --decrypt --state state audit/audit.jsonl"
    )]
    Show(ShowArguments),
}

/// Does what is said.
pub(crate) fn audit(command: &AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Verify(arguments) => verify(arguments),
        AuditCommand::Show(arguments) => show(arguments),
    }
}

/// What `tidegate audit verify` is asked.
#[derive(clap::Args)]
pub(crate) struct VerifyArguments {
    /// Its first file.
    path: PathBuf,
    /// A hash that was noted before, of any line: nothing up to that one may be missing at the end.
    #[arg(long)]
    head: Option<String>,
    /// The state directory of the pipeline, of which the key signs marks: checks that nobody without it wrote lines. Can be
    /// given more than once; TIDEGATE_STATE_KEY goes before the key in each.
    #[arg(long, value_name = "DIRECTORY")]
    state: Vec<PathBuf>,
    /// The last line of the files that were archived, as verify shows it of each file: the rest must follow it.
    #[arg(long, value_name = "NUMBER:HASH")]
    after: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `tidegate audit show` is asked.
#[derive(clap::Args)]
pub(crate) struct ShowArguments {
    /// Its first file.
    path: PathBuf,
    /// With what was asked and answered, opened with the key of the state.
    #[arg(long)]
    decrypt: bool,
    /// The state directory of the pipeline; can be given more than once, where the key was changed. TIDEGATE_STATE_KEY
    /// goes before the key in each.
    #[arg(long, value_name = "DIRECTORY")]
    state: Vec<PathBuf>,
}

fn is_hash(hash: &str) -> bool {
    hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn keys(states: &[PathBuf]) -> Result<Vec<StateKey>, Failure> {
    let keys = states.iter().map(|state| StateDirectory::key_of(state));
    keys.collect::<Result<_, _>>().map_err(Failure::usage)
}

fn ciphers(keys: &[StateKey]) -> Vec<&dyn EntryCipher> {
    keys.iter().map(|key| key as &dyn EntryCipher).collect()
}

fn after(text: &str) -> Result<AuditHead, Failure> {
    let parts = text.split_once(':').and_then(|(number, hash)| {
        let lines = number.parse().ok()?;
        is_hash(hash).then(|| AuditHead {
            lines,
            hash: hash.to_ascii_lowercase(),
        })
    });
    parts.ok_or_else(|| {
        Failure::usage(format_args!(
            "--after {text:?} is no line: NUMBER:HASH, as verify shows the last one of each file"
        ))
    })
}

/// Reads a chain from its first line to its last; exit code 1 if it is not as it was written.
fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    if let Some(head) = arguments.head.as_ref().filter(|head| !is_hash(head)) {
        return Err(Failure::usage(format_args!(
            "--head {head:?} is no hash: 64 hexadecimal digits, as status and verify show them"
        )));
    }
    let head = arguments
        .head
        .as_ref()
        .map(|head| head.to_ascii_lowercase());
    let after = arguments.after.as_deref().map(after).transpose()?;
    let keys = keys(&arguments.state)?;
    let against = Against {
        head: head.as_deref(),
        after: after.as_ref(),
        keys: &ciphers(&keys),
    };
    let verified = match verify_chain(&arguments.path, &against) {
        Ok(verified) => verified,
        Err(AuditFlaw::Files(unread @ FilesFlaw::Read { .. })) => {
            return Err(Failure::usage(unread));
        }
        Err(flaw) => {
            if arguments.json {
                print_json(&json!({"whole": false, "why": flaw.to_string()}).to_string())?;
            }
            return Err(Failure::Run(flaw.into()));
        }
    };
    let signed = !keys.is_empty();
    match arguments.json {
        true => print_json(&as_json(&verified, signed).to_string()),
        false => print(&as_text(&verified, signed)),
    }
}

fn as_json(verified: &Verified, signed: bool) -> Value {
    let files = verified
        .files
        .iter()
        .map(|(path, last)| json!({"path": path, "lines": last.lines, "head": last.hash}));
    let OpenEnd { lines, bytes } = verified.open;
    json!({
        "whole": true, "lines": verified.head.lines, "entries": verified.entries, "head": verified.head.hash,
        "signed": signed, "files": files.collect::<Vec<_>>(), "open": {"lines": lines, "bytes": bytes},
        "undecided": verified.undecided,
    })
}

fn as_text(verified: &Verified, signed: bool) -> String {
    let files = match verified.files.len() {
        1 => "1 file".to_owned(),
        number => format!("{number} files"),
    };
    let (head, entries) = (&verified.head, verified.entries);
    let mut text = format!(
        "OK: {} lines ({entries} entries) in {files}, head {}\n",
        head.lines, head.hash
    );
    if let [_, _, ..] = &verified.files[..] {
        for (path, last) in &verified.files {
            text += &format!(
                "  {} ends with {}:{}\n",
                path.display(),
                last.lines,
                last.hash
            );
        }
    }
    if verified.open != OpenEnd::default() {
        let OpenEnd { lines, bytes } = verified.open;
        text += &format!(
            "behind it {lines} lines and {bytes} bytes that no mark closes: a run writes them, or was cut short\n"
        );
    }
    if let [first, ..] = verified.undecided[..] {
        let number = verified.undecided.len();
        text += &format!(
            "of {number} transactions, the first of which ends with line {first}, it does not say what became of them: a run is \
             in the middle of them, or others have gone on from there\n"
        );
    }
    text += match signed {
        true => "every mark is signed with the key\n",
        false => "without --state it is not known whether somebody without the key wrote lines\n",
    };
    text
}

/// Prints the lines; with the content opened where a state directory has the key. Exit code 1 if one could not be opened.
fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    if arguments.decrypt && arguments.state.is_empty() {
        return Err(Failure::usage(
            "--decrypt needs the state directory of the pipeline: --state DIRECTORY",
        ));
    }
    let keys = match arguments.decrypt {
        true => keys(&arguments.state)?,
        false => Vec::new(),
    };
    let keys = arguments.decrypt.then(|| ciphers(&keys));
    let mut unopened = 0_u64;
    for path in files(&arguments.path).map_err(Failure::usage)? {
        let file = std::fs::File::open(&path).map_err(|error| {
            Failure::usage(format_args!("cannot read {}: {error}", path.display()))
        })?;
        show_file(BufReader::new(file), &path, |line| {
            let Some(keys) = &keys else {
                return line;
            };
            match opened(&line, keys) {
                Ok(content) => with_content(line, content),
                Err(why) => {
                    unopened += 1;
                    let number = line.get("number").unwrap_or(&Value::Null);
                    tell(format_args!("line {number} cannot be opened: {why}\n"));
                    line
                }
            }
        })?;
    }
    match unopened {
        0 => Ok(()),
        number => Err(Failure::Run(anyhow::anyhow!(
            "{number} lines could not be opened"
        ))),
    }
}

fn show_file(
    mut lines: BufReader<std::fs::File>,
    path: &Path,
    mut with: impl FnMut(Value) -> Value,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line);
        if read.with_context(|| format!("cannot read {}", path.display()))? == 0 {
            return Ok(());
        }
        let value: Value = match serde_json::from_slice(&line) {
            Ok(value) => value,
            // The last one, of a run that is writing it.
            Err(_) if !line.ends_with(b"\n") => return Ok(()),
            Err(error) => {
                return Err(Failure::Run(anyhow::Error::new(error).context(format!(
                    "{} has a line that is no JSON: see tidegate audit verify",
                    path.display()
                ))));
            }
        };
        print_json(&with(value).to_string())?;
    }
}

/// The line with what its content says in the place of the sealed one.
fn with_content(mut line: Value, content: Option<Value>) -> Value {
    if let (Some(content), Some(members)) = (content, line.as_object_mut()) {
        members.insert("content".to_owned(), content);
    }
    line
}
