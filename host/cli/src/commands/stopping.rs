//! How a run is told to end: by signals, from its first moment on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_control::admin::AdminServer;
use tidegate_flow::Controls;
use tokio::sync::watch;

use super::signals::Signals;
use crate::exit::{Failure, tell};
use crate::printing::fail;
use crate::wire::PARTING;
use crate::wire::gateway::Serving;

/// How long a run may take to stop: within the half minute that service managers give. It lies above the time that
/// answers are waited for (`wire::stages`), so that a cut and leaving the group have theirs.
const STOP_DEADLINE: Duration = Duration::from_secs(28);
/// How long one that has not begun may take to come to a point at which it ends in order. It may wait for brokers or
/// load a model, for minutes, and nothing is lost where it does.
const START_DEADLINE: Duration = Duration::from_secs(3);

/// What a run and the thread that hears signals have in common. The first SIGINT or SIGTERM ends the run after a cut, the
/// second ends the process; so does a stop that takes too long, for example because brokers are away. The next run goes on
/// from the last cut in any case.
pub(super) struct Stopping(Arc<Shared>);

struct Shared {
    /// A signal has come.
    told: AtomicBool,
    /// From now on it may read.
    begins: AtomicBool,
    /// Those of the run, once it runs.
    controls: watch::Sender<Option<Controls>>,
    admin: Mutex<Option<AdminServer>>,
    gateway: Mutex<Option<Arc<Serving>>>,
}

/// How the process ends.
enum End {
    /// Nothing was read.
    NotBegun,
    AtOnce,
    TooLate,
}

impl Stopping {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Stopping, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let within = runtime.enter();
        let signals = Signals::listen();
        drop(within);
        let shared = Arc::new(Shared {
            told: AtomicBool::new(false),
            begins: AtomicBool::new(false),
            controls: watch::Sender::new(None),
            admin: Mutex::new(None),
            gateway: Mutex::new(None),
        });
        let stopping = Stopping(Arc::clone(&shared));
        if let Some(signals) = signals {
            std::thread::Builder::new()
                .name("signals".to_owned())
                .spawn(move || {
                    let end = runtime.block_on(shared.hear(signals));
                    shared.end(end)
                })?;
        }
        Ok(stopping)
    }

    /// Has the admin API's file taken away however the process ends.
    pub(super) fn keep(&self, admin: Option<AdminServer>) {
        let mut kept = self.0.admin.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = admin;
    }

    /// Whether it is to end before it has begun.
    pub(super) fn is_told(&self) -> bool {
        self.0.told.load(Ordering::SeqCst)
    }

    /// Whether it may begin to read. If it may, a signal that comes now waits for [`Stopping::runs`].
    pub(super) fn begins(&self) -> bool {
        self.0.begins.store(true, Ordering::SeqCst);
        let begins = !self.is_told();
        // One that is told ends in a while, or is ended.
        self.0.begins.store(begins, Ordering::SeqCst);
        begins
    }

    /// It runs: a signal ends it after a last cut, and after the answers that clients of its gateway wait for.
    pub(super) fn runs(&self, controls: Controls, gateway: Option<Arc<Serving>>) {
        *self
            .0
            .gateway
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = gateway;
        self.0.controls.send_replace(Some(controls));
    }

    /// The run is over: whoever still waits is told so.
    pub(super) fn stop_gateway(&self) {
        if let Some(gateway) = self.0.take_gateway() {
            gateway.stop_now();
        }
    }

    /// The run is over: the admin API takes no more requests.
    pub(super) fn stop_admin(&self) {
        let kept = self.0.take_admin();
        if let Some(admin) = kept {
            admin.stop();
        }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.stop_admin();
    }
}

impl Shared {
    fn take_admin(&self) -> Option<AdminServer> {
        let mut kept = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }

    fn take_gateway(&self) -> Option<Arc<Serving>> {
        let mut kept = self.gateway.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }

    async fn hear(&self, mut signals: Signals) -> End {
        signals.next().await;
        self.told.store(true, Ordering::SeqCst);
        let mut runs = self.controls.subscribe();
        if runs.borrow().is_none() {
            tell(format_args!(
                "\nstopping before anything is read; once more to stop at once\n"
            ));
        } else {
            tell(format_args!(
                "\nstopping after a last cut; once more to stop at once\n"
            ));
        }
        while runs.borrow().is_none() {
            tokio::select! {
                _ = runs.changed() => {}
                () = signals.next() => return End::AtOnce,
                () = tokio::time::sleep(START_DEADLINE) => {
                    if !self.begins.load(Ordering::SeqCst) {
                        return End::NotBegun;
                    }
                }
            }
        }
        let until = tokio::time::Instant::now() + STOP_DEADLINE;
        // Nobody is to be sent here while clients of the gateway still have their answers.
        if let Some(controls) = &*runs.borrow() {
            controls.will_stop();
        }
        if let Some(gateway) = self.take_gateway() {
            tokio::select! {
                () = gateway.stop(PARTING) => {}
                () = signals.next() => return End::AtOnce,
            }
        }
        if let Some(controls) = &*runs.borrow() {
            controls.stop();
        }
        match tokio::time::timeout_at(until, signals.next()).await {
            Ok(()) => End::AtOnce,
            Err(_) => End::TooLate,
        }
    }

    /// Ends the process without waiting for the run.
    fn end(&self, end: End) -> ! {
        if let Some(admin) = self.take_admin() {
            admin.withdraw();
            // Its end would wait for requests that are under way.
            std::mem::forget(admin);
        }
        let code = match end {
            End::NotBegun => 0,
            End::AtOnce => 1,
            End::TooLate => {
                fail(&format!(
                    "tidegate: not stopped within {} s, ended without a last cut; the next run goes on from the one before",
                    STOP_DEADLINE.as_secs()
                ));
                1
            }
        };
        std::process::exit(code)
    }
}
