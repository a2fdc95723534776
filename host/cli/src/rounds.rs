//! What the host looks at by itself while a run goes on: breakers, and totals that grow. Each on a thread of its own: a
//! breaker may have something compiled and wait for tasks that change over, and totals are noted all the same.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::host::RunningHost;
use crate::lately::EVERY;

/// How often breakers are looked at. Meanwhile a revision that has failed too often answers nothing.
const TICK: Duration = Duration::from_millis(50);

/// Goes round until the run is over.
#[derive(Default)]
pub(crate) struct Rounds(Vec<Round>);

struct Round {
    /// Nothing is sent: it ends with this.
    until: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Rounds {
    /// Begins.
    pub(crate) fn begin(host: &Arc<RunningHost>) -> std::io::Result<Rounds> {
        let mut rounds = Rounds::default();
        let own = Arc::clone(host);
        rounds.go("totals", EVERY, move || own.note_totals())?;
        // Without a breaker in the pipeline file there is none to look after.
        if host.slots.iter().any(|hosted| hosted.breaker.is_some()) {
            let own = Arc::clone(host);
            rounds.go("breakers", TICK, move || own.look_after_breakers())?;
        }
        Ok(rounds)
    }

    /// Looks at something now and so often.
    fn go(
        &mut self,
        name: &str,
        tick: Duration,
        look: impl Fn() + Send + 'static,
    ) -> std::io::Result<()> {
        let (until, over) = mpsc::sync_channel::<()>(0);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            look();
            while over.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                look();
            }
        })?;
        self.0.push(Round { until, thread });
        Ok(())
    }

    /// The run is over.
    pub(crate) fn end(self) {
        let threads = self.0.into_iter().map(|Round { until, thread }| {
            drop(until);
            thread
        });
        // All are told before one is waited for. They have nothing to say but what the log has.
        for thread in threads.collect::<Vec<_>>() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn what_one_round_waits_for_keeps_no_other_from_going_on_and_all_end_with_the_run() {
        let mut rounds = Rounds::default();
        let (go_on, waits) = mpsc::channel::<()>();
        let (looks, seen) = mpsc::channel();
        // The first looks once and is held up; it ends when this test lets it.
        let held_up = move || _ = waits.recv_timeout(LIMIT);
        rounds.go("held-up", LIMIT, held_up).unwrap();
        let tick = Duration::from_millis(1);
        rounds
            .go("goes-on", tick, move || _ = looks.send(()))
            .unwrap();
        for _ in 0..5 {
            seen.recv_timeout(LIMIT).unwrap();
        }
        drop(go_on);
        rounds.end();
        while seen.try_recv().is_ok() {}
        let gone = seen.try_recv();
        assert_eq!(gone, Err(mpsc::TryRecvError::Disconnected));
    }
}
