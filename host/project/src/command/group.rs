//! Programs with all that they start: each leads a process group of its own, which is ended as one.
//!
//! A toolchain is many programs: cargo starts compilers, npm starts node. To end the first alone leaves the rest at work.
//! The price of a group of its own is that a terminal's Ctrl-C does not reach it, so who hears of one calls [`end_all`].

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// How long programs that are asked to end may put things in order.
const ORDER: Duration = Duration::from_secs(2);
/// Between two looks at programs that are to end.
const LOOK: Duration = Duration::from_millis(10);

/// What runs now.
static RUNNING: Mutex<Running> = Mutex::new(Running {
    is_over: false,
    leaders: Vec::new(),
});

struct Running {
    /// Whether nothing is started any more.
    is_over: bool,
    /// By the ids of their leaders, which have not been waited for: no other process has such an id.
    leaders: Vec<u32>,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Ends every program that this process has started for a build or a test, with all that they have started, and starts none
/// from now on. They are asked first, so that an installation can put things in order, and have two seconds for it.
pub fn end_all() {
    let leaders = {
        let mut running = running();
        running.is_over = true;
        running.leaders.clone()
    };
    signal(&leaders, Ending::Asked);
    let until = Instant::now() + ORDER;
    // Who waits for a leader takes it out of the list.
    while Instant::now() < until && !running().leaders.is_empty() {
        thread::sleep(LOOK);
    }
    signal(&leaders, Ending::Forced);
}

/// A program that was started.
pub(super) struct Group {
    child: Child,
    /// Whether it has been waited for.
    has_ended: bool,
}

impl Group {
    /// Starts a program as the leader of its own group.
    pub(super) fn start(command: &mut Command) -> io::Result<Group> {
        lead(command);
        // Held until its id stands in the list, so that none is started unseen.
        let mut running = running();
        if running.is_over {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "it was interrupted",
            ));
        }
        let child = command.spawn()?;
        running.leaders.push(child.id());
        Ok(Group {
            child,
            has_ended: false,
        })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How it ended; none while it runs. What it has started and left behind goes on, as a server may that is meant to.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        // An id that was waited for may be another's: none is in the list, whoever looks at it.
        let mut running = running();
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.has_ended = true;
            running.leaders.retain(|leader| *leader != self.child.id());
        }
        Ok(status)
    }

    /// Ends it with all that it has started.
    pub(super) fn end(&mut self) {
        let leader = self.child.id();
        signal(&[leader], Ending::Asked);
        let until = Instant::now() + ORDER;
        while Instant::now() < until && matches!(self.ended(), Ok(None)) {
            thread::sleep(LOOK);
        }
        // A group has its id as long as one of it is left, so nobody else is meant.
        signal(&[leader], Ending::Forced);
        if !self.has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.has_ended = true;
            running().leaders.retain(|other| *other != leader);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end();
        }
    }
}

#[derive(Clone, Copy)]
enum Ending {
    Asked,
    Forced,
}

/// `sudo` asks for a password at the terminal, which only the group in front may read: it stays in ours.
#[cfg(unix)]
fn lead(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    let program = std::path::Path::new(command.get_program()).file_name();
    if program != Some("sudo".as_ref()) {
        command.process_group(0);
    }
}

#[cfg(unix)]
fn signal(leaders: &[u32], ending: Ending) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let signal = match ending {
        Ending::Asked => Signal::TERM,
        Ending::Forced => Signal::KILL,
    };
    for leader in leaders {
        if let Some(group) = i32::try_from(*leader).ok().and_then(Pid::from_raw) {
            // There is none where all have ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Other systems have no groups: a console's Ctrl-C reaches all that run there.
#[cfg(not(unix))]
fn lead(_: &mut Command) {}

#[cfg(not(unix))]
fn signal(_: &[u32], _: Ending) {}
