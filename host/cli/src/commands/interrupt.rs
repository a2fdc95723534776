//! Signals while toolchains are at work: they are in process groups of their own, which a terminal's Ctrl-C does not reach.

use std::thread;

use crate::exit::Failure;

/// Has SIGINT, SIGTERM, SIGHUP and SIGQUIT end what the program's builds and tests have started, and then the program. One
/// that whoever started the program wants ignored is ignored.
#[cfg(unix)]
pub(super) fn end_on_signal() -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _within = runtime.enter();
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
    drop(_within);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let number = runtime.block_on(std::future::poll_fn(|context| {
                let came = signals.iter_mut().find_map(|(number, signal)| {
                    signal.poll_recv(context).is_ready().then_some(*number)
                });
                came.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
            }));
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
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}
