//! What the host looks at by itself while a run goes on, on a thread of its own: breakers, and totals that grow.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::host::RunningHost;
use crate::lately::EVERY;

/// How often breakers are looked at. Meanwhile a revision that has failed too often answers nothing.
const TICK: Duration = Duration::from_millis(50);

/// Goes round until the run is over.
pub(crate) struct Rounds {
    /// Nothing is sent: it ends with this.
    until: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Rounds {
    /// Begins.
    pub(crate) fn begin(host: &Arc<RunningHost>) -> std::io::Result<Rounds> {
        let (until, over) = mpsc::sync_channel::<()>(0);
        // Without a breaker in the pipeline file there is none to look after.
        let tick = match host.slots.iter().any(|hosted| hosted.breaker.is_some()) {
            true => TICK,
            false => EVERY,
        };
        let host = host.clone();
        let look = move || {
            let mut noted: Option<Instant> = None;
            loop {
                host.look_after_breakers();
                if noted.is_none_or(|noted| noted.elapsed() >= EVERY) {
                    host.note_totals();
                    noted = Some(Instant::now());
                }
                if over.recv_timeout(tick) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("rounds".to_owned());
        let thread = thread.spawn(look)?;
        Ok(Rounds { until, thread })
    }

    /// The run is over.
    pub(crate) fn end(self) {
        drop(self.until);
        // It has nothing to say but what the log has.
        let _ = self.thread.join();
    }
}
