//! Runs the programs of toolchains: what they say is taken, and none runs for ever.

mod group;

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use self::group::end_all;

use self::group::Group;
use crate::toolchain::BuildError;

/// How long a program may take that only says what it is.
const ASKED: Duration = Duration::from_secs(60);
/// How long a build or an installation may take.
pub(crate) const WORKING: Duration = Duration::from_secs(30 * 60);
/// How much of what a program says is kept; the rest is read and left.
const KEPT: u64 = 16 << 20;
/// Between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(20);
/// How long a stream may stay open after the program that had it.
const GRACE: Duration = Duration::from_secs(2);

/// What a program said.
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
}

impl Said {
    /// What stands on both streams, as a person reads it.
    pub(crate) fn text(&self) -> String {
        let streams = [&self.errors, &self.output];
        let texts = streams.map(|stream| String::from_utf8_lossy(stream).trim_end().to_owned());
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }
}

/// What a program says to its standard output if it succeeds; none where it is not there or fails.
pub(crate) fn ask(command: &mut Command) -> Option<String> {
    let said = take(command, Stdio::piped(), ASKED).ok()?;
    let output = String::from_utf8_lossy(&said.output).into_owned();
    said.status.success().then_some(output)
}

/// Runs a program to its end; one that fails is an error with all that it said.
pub(crate) fn work(command: &mut Command) -> Result<Said, BuildError> {
    finish(command, Stdio::piped())
}

/// The same with its standard error shown as it goes on: what it says there is not kept.
pub(crate) fn work_aloud(command: &mut Command) -> Result<Said, BuildError> {
    finish(command, Stdio::inherit())
}

/// Runs a program to its end, with all that it says shown on standard error as it goes on; whether it succeeded.
pub fn run_aloud(command: &mut Command) -> Result<bool, BuildError> {
    let mut run = || -> io::Result<ExitStatus> {
        command
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .stderr(Stdio::inherit());
        wait(&mut Group::start(command)?, WORKING)
    };
    match run() {
        Ok(status) => Ok(status.success()),
        Err(error) => Err(BuildError::Start {
            program: called(command),
            error,
        }),
    }
}

fn finish(command: &mut Command, errors: Stdio) -> Result<Said, BuildError> {
    let said = take(command, errors, WORKING).map_err(|error| BuildError::Start {
        program: called(command),
        error,
    })?;
    match said.status.success() {
        true => Ok(said),
        false => Err(BuildError::Failed {
            program: called(command),
            status: said.status.to_string(),
            said: said.text(),
        }),
    }
}

/// A program as people call it, with what it was asked to do: `cargo build`.
pub(crate) fn called(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let mut words = vec![program.to_string_lossy()];
    let asked = command.get_args().map(|word| word.to_string_lossy());
    let is_word = |word: &str| word == "-m" || word.bytes().all(|byte| byte.is_ascii_lowercase());
    words.extend(asked.take_while(|word| is_word(word)));
    words.join(" ")
}

fn take(command: &mut Command, errors: Stdio, limit: Duration) -> io::Result<Said> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let mut group = Group::start(command)?;
    let output = group.child().stdout.take().map(gather);
    let errors = group.child().stderr.take().map(gather);
    let status = wait(&mut group, limit)?;
    Ok(Said {
        status,
        output: rest(output),
        errors: rest(errors),
    })
}

fn wait(group: &mut Group, limit: Duration) -> io::Result<ExitStatus> {
    let until = Instant::now() + limit;
    // A short program is not kept waiting for the length of a look.
    let mut look = Duration::from_millis(1);
    loop {
        if let Some(status) = group.ended()? {
            return Ok(status);
        }
        if Instant::now() >= until {
            group.end();
            let seconds = limit.as_secs();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it did not end within {seconds} s"),
            ));
        }
        thread::sleep(look);
        look = (look * 2).min(LOOK);
    }
}

/// Reads a stream to its end on a thread of its own, so that no program waits for a reader.
fn gather(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (done, gathered) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is what there is.
        let _ = stream.by_ref().take(KEPT).read_to_end(&mut bytes);
        let _ = io::copy(&mut stream, &mut io::sink());
        let _ = done.send(bytes);
    });
    gathered
}

/// What a stream had; nothing of one that something else keeps open.
fn rest(stream: Option<Receiver<Vec<u8>>>) -> Vec<u8> {
    let Some(stream) = stream else {
        return Vec::new();
    };
    stream.recv_timeout(GRACE).unwrap_or_default()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    /// A pipe with a name is open for whoever writes to it, so its end is read when none of them is left.
    #[test]
    fn a_program_that_takes_too_long_is_ended_with_what_it_started() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let (read, ended) = channel();
        let of = pipe.clone();
        thread::spawn(move || read.send(fs::read_to_string(of)));
        // The first child ends when it is asked to, the second does not, and their parent waits for both.
        let script =
            r#"exec 3> "$0"; sleep 600 & (trap "" TERM; sleep 600) & echo started >&3; wait"#;
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&pipe);
        let error = match take(&mut command, Stdio::piped(), Duration::from_secs(5)) {
            Ok(said) => panic!("{}", said.text()),
            Err(error) => error,
        };
        assert_eq!(error.to_string(), "it did not end within 5 s");
        let said = ended.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(said.unwrap(), "started\n");
    }
}
