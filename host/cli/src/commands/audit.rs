//! `tidegate audit`: whether a chain is whole, and what its lines say.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{Value, json};
use tidegate_contract::EntryCipher;
use tidegate_state::audit::{
    Against, AuditFlaw, AuditHead, Committed, FilesFlaw, ONE_APPEND, OpenEnd, Verified, closed,
    files, is_written, opened, verify as verify_chain,
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
    /// The state directory of the pipeline, by whose key lines are closed and contents opened; can be given more than once,
    /// where the key was changed. TIDEGATE_STATE_KEY goes before the key in each.
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
    // Before the chain is read, which only grows: what the log has is in it by then.
    let known = Known::of(arguments)?;
    let against = Against {
        head: head.as_deref(),
        after: after.as_ref(),
        keys: &ciphers(&keys),
        committed: &known.committed,
    };
    let not_whole = |why: String| {
        if arguments.json {
            print_json(&json!({"whole": false, "why": why}).to_string())?;
        }
        Err(Failure::Run(anyhow::anyhow!(why)))
    };
    let verified = match verify_chain(&arguments.path, &against) {
        Ok(verified) => verified,
        Err(AuditFlaw::Files(unread @ FilesFlaw::Read { .. })) => {
            return Err(Failure::usage(unread));
        }
        Err(flaw) => return not_whole(flaw.to_string()),
    };
    let open = known.open(arguments, &verified)?;
    if let OpenBy::Nobody(why) = open {
        return not_whole(why);
    }
    let signed = !keys.is_empty();
    match arguments.json {
        true => print_json(&as_json(&verified, signed).to_string()),
        false => print(&as_text(&verified, signed, &open)),
    }
}

/// What state directories say of an audit.
struct Known {
    committed: Vec<Committed>,
    /// A run that holds one of them writes it.
    runs: bool,
}

/// Who may have written what lies behind the last mark.
enum OpenBy {
    /// The run that goes on.
    Run,
    /// The run that was cut short, or somebody.
    CutShort,
    /// It is not known whether there is one.
    Anybody,
    /// No run, and why.
    Nobody(String),
}

impl std::fmt::Display for OpenBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OpenBy::Run => "a run is writing them",
            OpenBy::CutShort => {
                "a run was cut short as it wrote them, or somebody without the key did; they prove nothing, and the next run \
                 takes them away"
            }
            OpenBy::Anybody => "a run writes them, was cut short, or somebody without the key wrote them",
            OpenBy::Nobody(why) => why,
        })
    }
}

/// Whether a run writes this audit that holds one of these directories.
fn runs(arguments: &VerifyArguments) -> Result<bool, Failure> {
    for state in &arguments.state {
        let held = StateDirectory::in_use(state).map_err(Failure::usage)?;
        if held.is_none() {
            continue;
        }
        let recorded = StateDirectory::recorded(state).map_err(Failure::usage)?;
        if recorded.is_none_or(|recorded| is_written(&recorded, &arguments.path)) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Known {
    fn of(arguments: &VerifyArguments) -> Result<Known, Failure> {
        let mut known = Known {
            committed: Vec::new(),
            runs: runs(arguments)?,
        };
        for state in &arguments.state {
            let recorded = StateDirectory::recorded(state).map_err(Failure::usage)?;
            let Some(recorded) = recorded else { continue };
            let Some(committed) = Committed::of(&recorded, &arguments.path) else {
                continue;
            };
            // Of files that were archived elsewhere, whoever checks them may say with which line they end.
            if committed.is_in_place() || arguments.head.is_none() {
                known.committed.push(committed);
            }
        }
        Ok(known)
    }

    /// Who may have written what lies behind the last mark.
    fn open(&self, arguments: &VerifyArguments, verified: &Verified) -> Result<OpenBy, Failure> {
        let OpenEnd { lines, bytes } = verified.open;
        if arguments.state.is_empty() || verified.open == OpenEnd::default() {
            return Ok(OpenBy::Anybody);
        }
        let runs = self.runs || runs(arguments)?;
        // A mark behind what the log had is of a run that has begun since.
        let committed = verified.committed;
        let has_ended =
            committed.is_some_and(|last| last.ended && last.number == verified.head.lines);
        let nobody = |why: &str| {
            Ok(OpenBy::Nobody(format!(
                "behind line {} lie {lines} lines and {bytes} bytes that no mark closes, and {why}: somebody wrote them who \
                 does not have the key",
                verified.head.lines
            )))
        };
        match runs {
            // A run begins with a mark.
            _ if verified.ended && lines > 0 => nobody("the run before them had ended"),
            true => Ok(OpenBy::Run),
            false if has_ended => nobody("the last run that wrote it had ended"),
            false if verified.open_bytes > ONE_APPEND => nobody(&format!(
                "they are {} bytes, of which a run writes at most {ONE_APPEND} at once",
                verified.open_bytes
            )),
            false => Ok(OpenBy::CutShort),
        }
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
        "undecided": verified.undecided, "committed": verified.committed.map(|last| last.number),
    })
}

fn as_text(verified: &Verified, signed: bool, open: &OpenBy) -> String {
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
        text += &format!("behind it {lines} lines and {bytes} bytes that no mark closes: {open}\n");
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
    if signed && verified.committed.is_none() {
        text += "its end was held against no commit log: whether lines are missing there is not known\n";
    }
    text
}

/// Prints the lines; with the content opened where a state directory has the key. Exit code 1 if one could not be opened.
fn show(arguments: &ShowArguments) -> Result<(), Failure> {
    if arguments.decrypt && arguments.state.is_empty() {
        return Err(Failure::usage(
            "--decrypt needs the state directory of the pipeline: --state DIRECTORY",
        ));
    }
    let keys = keys(&arguments.state)?;
    let keys = ciphers(&keys);
    let closed = closed(&arguments.path, &keys).map_err(Failure::usage)?;
    let mut unopened = 0_u64;
    for path in files(&arguments.path).map_err(Failure::usage)? {
        let file = std::fs::File::open(&path).map_err(|error| {
            Failure::usage(format_args!("cannot read {}: {error}", path.display()))
        })?;
        show_file(BufReader::new(file), &path, |line| {
            let line = with_closed(line, closed);
            if !arguments.decrypt {
                return line;
            }
            match opened(&line, &keys) {
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

/// The line, and whether a mark closes it.
fn with_closed(mut line: Value, closed: u64) -> Value {
    let number = line.get("number").and_then(Value::as_u64);
    if let Some(members) = line.as_object_mut() {
        let is_closed = number.is_some_and(|number| number <= closed);
        members.insert("closed".to_owned(), is_closed.into());
    }
    line
}

/// The line with what its content says in the place of the sealed one.
fn with_content(mut line: Value, content: Option<Value>) -> Value {
    if let (Some(content), Some(members)) = (content, line.as_object_mut()) {
        members.insert("content".to_owned(), content);
    }
    line
}
