//! What systemd is told, where it has started the process: that it runs, how it is, and that it is not hung.
//!
//! The protocol is that of `sd_notify(3)`. Without `NOTIFY_SOCKET` nothing is told.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use sd_notify::{NotifyState, notify, watchdog_enabled};
use tidegate_control::{HealthReport, Host};
use tidegate_telemetry::plain;

/// How often it is told at the least; three times as often as a watchdog looks.
const TURN: Duration = Duration::from_secs(5);
/// A start goes on for so long without being told again: models are loaded in it, which may take minutes.
const STARTS: Duration = Duration::from_secs(60);
/// Most bytes of a status.
const STATUS: usize = 400;

/// Tells systemd until it is dropped.
pub(crate) struct Supervised {
    /// Nothing is sent: it ends with this.
    _until: Sender<()>,
}

impl Supervised {
    /// Begins to tell how a host is, if somebody listens. `runs` says whether it has started.
    pub(crate) fn begin<H: Host + 'static>(
        host: Arc<H>,
        runs: impl Fn(&H) -> bool + Send + 'static,
    ) -> anyhow::Result<Option<Supervised>> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(None);
        }
        let turn = watchdog_enabled().map_or(TURN, |watchdog| TURN.min(watchdog / 3));
        let (until, ended) = mpsc::channel();
        let tell = move || {
            let mut told = Told::default();
            loop {
                told.turn(&host.health(), runs(&host));
                if ended.recv_timeout(turn) != Err(RecvTimeoutError::Timeout) {
                    return said(&[NotifyState::Stopping]);
                }
            }
        };
        thread::Builder::new()
            .name("supervised".to_owned())
            .spawn(tell)
            .context("cannot start the thread that tells systemd")?;
        Ok(Some(Supervised { _until: until }))
    }
}

/// What was told so far.
#[derive(Default)]
struct Told {
    ready: bool,
    status: String,
}

impl Told {
    fn turn(&mut self, health: &HealthReport, runs: bool) {
        let status = status(health);
        let mut states = Vec::new();
        if runs && !self.ready {
            self.ready = true;
            states.push(NotifyState::Ready);
        } else if !runs && health.live {
            // A start that hangs is given no more time, and is ended.
            states.push(NotifyState::ExtendTimeoutUsec(STARTS.as_micros() as u32));
        }
        if health.live {
            states.push(NotifyState::Watchdog);
        }
        if status != self.status {
            states.push(NotifyState::Status(&status));
        }
        said(&states);
        self.status = status;
    }
}

/// One line of how it is.
fn status(health: &HealthReport) -> String {
    match health.reasons.is_empty() {
        true => "running".to_owned(),
        false => plain(&health.reasons.join("; "), STATUS).to_string(),
    }
}

/// Nobody hears it: the next turn says it again.
fn said(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        tracing::debug!(%error, "systemd was not told");
    }
}

#[cfg(test)]
mod tests {
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
}
