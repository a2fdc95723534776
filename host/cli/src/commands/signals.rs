//! Signals that ask the program to stop: SIGINT and SIGTERM. And SIGXFSZ, which would end it without a word.

/// Listens from now on: what comes between two looks is not lost.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// A file may not grow any more (`ulimit -f`). Whoever is heard is not ended by it, and what writes gets an error with its place.
    _no_room: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// None if signals cannot be listened to; they end the process then.
    pub(super) fn listen() -> Option<Signals> {
        use rustix::process::Signal;
        use tokio::signal::unix::{SignalKind, signal};
        Some(Signals {
            interrupt: signal(SignalKind::interrupt()).ok()?,
            terminate: signal(SignalKind::terminate()).ok()?,
            _no_room: signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).ok()?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Listens from now on.
#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// None if signals cannot be listened to; they end the process then.
    pub(super) fn listen() -> Option<Signals> {
        Some(Signals)
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
