//! What systemd is told, where it has started the process: that it runs, how it is, and that it is not hung.
//!
//! The protocol is that of `sd_notify(3)`: datagrams of lines to the socket that `NOTIFY_SOCKET` names. Without one nothing
//! is told.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use std::{env, io, process};

use anyhow::Context as _;
use tidegate_control::HealthReport;
use tidegate_telemetry::plain;

/// How often it is told at the least; three times as often as a watchdog looks.
const TURN: Duration = Duration::from_secs(5);
/// How often at the most, whatever watchdog somebody asks for.
const LEAST_TURN: Duration = Duration::from_millis(50);
/// A start goes on for so long without being told again: models are loaded in it, which may take minutes.
const STARTS: Duration = Duration::from_secs(60);
/// For the other side to take what it is told.
const TAKEN: Duration = Duration::from_secs(1);
/// Most bytes of a status.
const STATUS: usize = 400;

/// Tells systemd until it is dropped.
pub(crate) struct Supervised {
    news: Sender<()>,
}

impl Supervised {
    /// Begins to tell how the host is, if somebody listens. `runs` says whether it has started.
    pub(crate) fn begin(
        health: impl Fn() -> HealthReport + Send + 'static,
        runs: impl Fn() -> bool + Send + 'static,
    ) -> anyhow::Result<Option<Supervised>> {
        let Some(socket) = env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
            return Ok(None);
        };
        let (watchdog, process) = (env::var("WATCHDOG_USEC"), env::var("WATCHDOG_PID"));
        let turn = turn(watchdog.ok().as_deref(), process.ok().as_deref());
        Supervised::telling(Told::to(&socket), turn, health, runs).map(Some)
    }

    fn telling(
        mut told: Told,
        turn: Duration,
        health: impl Fn() -> HealthReport + Send + 'static,
        runs: impl Fn() -> bool + Send + 'static,
    ) -> anyhow::Result<Supervised> {
        let (news, heard) = mpsc::channel();
        let tell = move || {
            loop {
                told.turn(&health(), runs());
                if heard.recv_timeout(turn) == Err(RecvTimeoutError::Disconnected) {
                    return told.say("STOPPING=1\n");
                }
            }
        };
        thread::Builder::new()
            .name("supervised".to_owned())
            .spawn(tell)
            .context("cannot start the thread that tells systemd")?;
        Ok(Supervised { news })
    }

    /// Something has changed that is to be told at once: it runs.
    pub(crate) fn has_news(&self) {
        // Whoever tells ends when this is dropped, and not before.
        let _ = self.news.send(());
    }
}

/// How often a watchdog is told, by what the environment says of it: 0 is none, and so is one of another process.
fn turn(watchdog: Option<&str>, process: Option<&str>) -> Duration {
    let is_ours = process.is_none_or(|process| process.parse() == Ok(process::id()));
    let watchdog = watchdog.filter(|_| is_ours);
    let microseconds = watchdog.and_then(|watchdog| watchdog.parse().ok());
    match microseconds {
        None | Some(0) => TURN,
        Some(microseconds) => (Duration::from_micros(microseconds) / 3).clamp(LEAST_TURN, TURN),
    }
}

/// What was told so far, and to whom.
struct Told {
    /// As the environment names it.
    name: String,
    socket: io::Result<SocketAddr>,
    ready: bool,
    status: String,
    /// Nobody has heard the last of it.
    is_lost: bool,
}

impl Told {
    /// A socket by its path, or by a name after `@` that is in no file system.
    fn to(socket: &OsStr) -> Told {
        Told {
            name: socket.to_string_lossy().into_owned(),
            socket: match socket.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(socket),
            },
            ready: false,
            status: String::new(),
            is_lost: false,
        }
    }

    fn turn(&mut self, health: &HealthReport, runs: bool) {
        let status = status(health);
        let mut lines = String::new();
        if runs && !self.ready {
            lines += "READY=1\n";
        } else if !runs && health.live {
            // A start that hangs is given no more time, and is ended. Writing to a string cannot fail.
            let _ = writeln!(lines, "EXTEND_TIMEOUT_USEC={}", STARTS.as_micros());
        }
        if health.live {
            lines += "WATCHDOG=1\n";
        }
        if status != self.status {
            let _ = writeln!(lines, "STATUS={status}");
        }
        self.say(&lines);
        // What nobody has heard is said again.
        if !self.is_lost {
            (self.ready, self.status) = (runs, status);
        }
    }

    fn say(&mut self, lines: &str) {
        if lines.is_empty() {
            return;
        }
        let said = self.sent(lines);
        if let Err(error) = &said
            && !self.is_lost
        {
            let socket = &*self.name;
            tracing::warn!(socket, %error, "whoever started this process cannot be told how it is");
        }
        self.is_lost = said.is_err();
    }

    fn sent(&self, lines: &str) -> io::Result<()> {
        let address = self.socket.as_ref();
        let address = address.map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(TAKEN))?;
        // A datagram goes as a whole or not at all.
        socket
            .send_to_addr(lines.as_bytes(), address)
            .map(|_bytes| ())
    }
}

/// One line of how it is.
fn status(health: &HealthReport) -> String {
    match health.reasons.is_empty() {
        true => "running".to_owned(),
        false => plain(&health.reasons.join("; "), STATUS).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_status_is_one_line_whatever_the_reasons_are() {
        let health = HealthReport {
            live: true,
            ready: false,
            reasons: vec!["stage a\nREADY=1".to_owned(), "x".repeat(1 << 20)],
        };
        let status = status(&health);
        assert!(
            !status.contains('\n') && status.len() < 2 * STATUS,
            "{status}"
        );
    }

    #[test]
    fn a_watchdog_is_told_three_times_as_often_as_it_looks_and_none_makes_it_spin() {
        let ours = process::id().to_string();
        for (watchdog, process, expected) in [
            (None, None, TURN),
            (Some("0"), None, TURN),
            (Some("1"), None, LEAST_TURN),
            (Some("3000000"), Some(&*ours), Duration::from_secs(1)),
            (Some("3000000"), Some("0"), TURN),
            (Some("60000000"), None, TURN),
            (Some("x"), None, TURN),
            (Some("18446744073709551616"), None, TURN),
        ] {
            assert_eq!(
                turn(watchdog, process),
                expected,
                "{watchdog:?} {process:?}"
            );
        }
    }

    fn listening(name: &str) -> (UnixDatagram, Told) {
        let name = format!("tidegate-{name}-{}", process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let patience = Duration::from_secs(120);
        socket.set_read_timeout(Some(patience)).unwrap();
        (socket, Told::to(OsStr::new(&format!("@{name}"))))
    }

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn that_it_runs_is_told_when_it_does_and_not_with_the_next_turn() {
        let (socket, told) = listening("ready");
        let runs = Arc::new(AtomicBool::new(false));
        let has_started = runs.clone();
        let never = Duration::from_secs(86_400);
        let supervised = Supervised::telling(told, never, HealthReport::well, move || {
            has_started.load(Ordering::SeqCst)
        });
        let supervised = supervised.unwrap();
        let first = heard(&socket);
        assert!(
            first.contains("EXTEND_TIMEOUT_USEC=60000000\nWATCHDOG=1\nSTATUS=running\n"),
            "{first}"
        );
        runs.store(true, Ordering::SeqCst);
        supervised.has_news();
        assert_eq!(heard(&socket), "READY=1\nWATCHDOG=1\n");
        drop(supervised);
        assert_eq!(heard(&socket), "STOPPING=1\n");
    }

    #[test]
    fn what_nobody_has_heard_is_said_again() {
        let (socket, mut told) = listening("again");
        let name = socket.local_addr().unwrap();
        drop(socket);
        let well = HealthReport::well();
        told.turn(&well, true);
        assert!(told.is_lost && !told.ready);
        let socket = UnixDatagram::bind_addr(&name).unwrap();
        told.turn(&well, true);
        assert_eq!(heard(&socket), "READY=1\nWATCHDOG=1\nSTATUS=running\n");
        // A name that is too long for a socket is one that nobody hears.
        let mut long = Told::to(OsStr::new(&"x".repeat(200)));
        long.turn(&well, true);
        assert!(long.is_lost);
    }
}
