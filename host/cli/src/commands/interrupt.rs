//! Signals while toolchains are at work: they are in process groups of their own, which a terminal's Ctrl-C does not reach.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::exit::Failure;

/// Whether the program is about to be ended by a signal.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Longer than that takes.
const ENDING: Duration = Duration::from_secs(60);

/// Leaves the end of the program to the signal that is ending it: what became of its work meanwhile is no news.
pub(crate) fn leave_to_signal() {
    if IS_ENDING.load(Ordering::Acquire) {
        thread::sleep(ENDING);
    }
}

/// Has SIGINT, SIGTERM, SIGHUP and SIGQUIT end what the program's builds and tests have started, and then the program. One
/// that whoever started the program wants ignored is ignored.
#[cfg(unix)]
pub(super) fn end_on_signal() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let within = runtime.enter();
    let mut signals = Vec::new();
    for kind in [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ] {
        if !is_ignored(kind.as_raw_value()) {
            signals.push((kind.as_raw_value(), signal(kind)?));
        }
    }
    drop(within);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let number = runtime.block_on(std::future::poll_fn(|context| {
                let came = signals.iter_mut().find_map(|(number, signal)| {
                    signal.poll_recv(context).is_ready().then_some(*number)
                });
                came.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
            }));
            IS_ENDING.store(true, Ordering::Release);
            tidegate_project::end_all();
            // As a shell says that a signal ended a program.
            std::process::exit(128 + number);
        })?;
    Ok(())
}

/// Elsewhere a console's Ctrl-C reaches all that run there.
#[cfg(not(unix))]
pub(super) fn end_on_signal() -> Result<(), Failure> {
    Ok(())
}

/// Whether the program was started with this signal ignored, as `nohup` does; false where the system does not tell.
#[cfg(unix)]
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (number - 1)) & 1 == 1)
}
