//! The one thread that advances the engine's epoch, so that guest code can be interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One epoch.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// How long the ticker sleeps while no guest runs. A call that begins meanwhile gets its first tick late, never early.
const DOZE: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    stop: AtomicBool,
}

/// Ticks until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: wasmtime::Engine) -> std::io::Result<Ticker> {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("wasm-epochs".into())
            .spawn(move || tick(&engine, &seen))?;
        Ok(Ticker {
            shared,
            thread: Some(thread),
        })
    }

    /// Marks a guest as running for as long as the mark lives.
    pub(crate) fn running(&self) -> Running<'_> {
        self.shared.running.fetch_add(1, Ordering::Relaxed);
        Running(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A ticker that panicked has nothing left to stop.
            let _ = thread.join();
        }
    }
}

/// See [`Ticker::running`].
pub(crate) struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Epochs until `left` has passed, at least one.
pub(crate) fn ticks(left: Duration) -> u64 {
    (left.as_micros() as u64)
        .div_ceil(TICK.as_micros() as u64)
        .max(1)
}

fn tick(engine: &wasmtime::Engine, shared: &Shared) {
    let mut last = Instant::now();
    while !shared.stop.load(Ordering::Acquire) {
        if shared.running.load(Ordering::Relaxed) == 0 {
            std::thread::park_timeout(DOZE);
            engine.increment_epoch();
            last = Instant::now();
        } else {
            std::thread::park_timeout(TICK);
            // A late wake-up is made good, so that deadlines stay near the clock on a busy machine.
            let elapsed = last.elapsed();
            let whole = (elapsed.as_micros() / TICK.as_micros()).max(1) as u32;
            last += TICK.saturating_mul(whole).min(elapsed);
            for _ in 0..whole {
                engine.increment_epoch();
            }
        }
    }
}
