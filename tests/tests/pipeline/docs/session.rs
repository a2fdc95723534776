//! A terminal in which the commands of a page are typed, one after the other.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tidegate_tests::tidegate;

/// How long one block of commands may take; toolchains are installed in it.
const PATIENCE: Duration = Duration::from_mins(20);

/// A terminal: a directory that commands are typed in, and the variables they export.
pub(super) struct Session {
    /// What is its own: output, and what a block hands on to the next.
    own: tempfile::TempDir,
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
    /// What runs in other terminals.
    others: Vec<Child>,
    blocks: usize,
}

/// A block that was typed.
pub(super) struct Typed {
    /// Holds what it has printed so far, both streams as a terminal shows them.
    output: PathBuf,
}

impl Typed {
    /// What it has printed so far.
    pub(super) fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }
}

impl Session {
    /// A terminal in a directory, with `tidegate` on the path and these variables set.
    pub(super) fn new(directory: &Path, environment: Vec<(OsString, OsString)>) -> Session {
        Session::with_path(directory, environment, std::env::var_os("PATH").unwrap())
    }

    /// The same with this path, on which `tidegate` comes first.
    pub(super) fn with_path(
        directory: &Path,
        environment: Vec<(OsString, OsString)>,
        rest: OsString,
    ) -> Session {
        let mut environment = environment;
        let mut path = tidegate().parent().unwrap().as_os_str().to_owned();
        path.push(":");
        path.push(rest);
        environment.push(("PATH".into(), path));
        Session {
            own: tempfile::tempdir().unwrap(),
            directory: directory.to_owned(),
            environment,
            others: Vec::new(),
            blocks: 0,
        }
    }

    /// Where a person at this terminal is.
    pub(super) fn directory(&self) -> PathBuf {
        let named = std::fs::read_to_string(self.own.path().join("directory"));
        named.map_or_else(|_| self.directory.clone(), |name| name.trim_end().into())
    }

    /// Types commands and waits for their end.
    pub(super) fn run(&mut self, text: &str) -> (Typed, ExitStatus) {
        let own = self.own.path().display().to_string();
        // The next block goes on in the directory, and with the variables, that this one leaves.
        let text = format!(
            "trap 'pwd > \"{own}/directory\"; export -p > \"{own}/exports\"' EXIT\n\
             [ ! -f \"{own}/exports\" ] || . \"{own}/exports\"\n{text}"
        );
        let (typed, mut child) = self.spawn(&text);
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return (typed, status);
            }
            if Instant::now() > until {
                end(&mut child);
                panic!("not done within {PATIENCE:?}: {text}\n{}", typed.printed());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types commands into another terminal, in the same directory, where they run until this one is closed.
    pub(super) fn start(&mut self, text: &str) -> Typed {
        let (typed, child) = self.spawn(text);
        self.others.push(child);
        typed
    }

    /// The same with the variables of this terminal.
    pub(super) fn stay(&mut self, text: &str) -> Typed {
        let own = self.own.path().display().to_string();
        self.start(&format!(
            "[ ! -f \"{own}/exports\" ] || . \"{own}/exports\"\n{text}"
        ))
    }

    fn spawn(&mut self, text: &str) -> (Typed, Child) {
        self.blocks += 1;
        let path = self.own.path().join(format!("output-{}", self.blocks));
        let output = File::create(&path).unwrap();
        let child = Command::new("bash")
            .args(["-euo", "pipefail", "-c", text])
            .current_dir(self.directory())
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            // So that all it starts is ended with it.
            .process_group(0)
            .spawn()
            .unwrap();
        (Typed { output: path }, child)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.others.iter_mut().for_each(end);
    }
}

/// Ends a child and what it has started.
fn end(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
}

#[test]
fn a_block_goes_on_where_the_one_before_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(folder.path(), vec![("WORD".into(), "a".into())]);
    let (typed, status) =
        session.run("mkdir inner\ncd inner\nexport WORD=\"$WORD b\"\necho to stderr >&2");
    assert!(status.success());
    assert_eq!(typed.printed(), "to stderr\n");
    let (typed, status) =
        session.run("basename \"$PWD\"\necho \"$WORD\"\nfalse | true\necho never");
    assert!(!status.success());
    assert_eq!(typed.printed(), "inner\na b\n");
    let (typed, _) = session.run("command -v tidegate");
    assert_eq!(Path::new(typed.printed().trim_end()), tidegate());
    let other = session.start("echo begun\nsleep 600");
    tidegate_tests::until("its output", Duration::from_mins(1), || {
        other.printed() == "begun\n"
    });
    let id = session.others[0].id();
    drop(session);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
}
