//! Why a call of a guest failed, in one sentence with value and limit.

use std::fmt::Write as _;

use tidegate_telemetry::{is_plain, plain};
use wasmtime::{FrameInfo, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::host::DeadlinePassed;
use crate::limits::{Refused, size};

/// Longest text of a reason or a backtrace, in bytes.
pub(crate) const TEXT_BYTES: usize = 4096;
/// Longest name of a function or module in a backtrace, in bytes.
const FRAME_BYTES: usize = 256;

/// A failed call. Both texts can be shown as they are, the backtrace with a line for each frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) backtrace: Option<String>,
    /// Whether the call took longer than it was allowed to.
    pub(crate) is_late: bool,
}

impl Failure {
    /// The guest answered, but not with what was asked for.
    pub(crate) fn answer(reason: &str) -> Failure {
        Failure {
            reason: plain(reason, TEXT_BYTES).into_owned(),
            backtrace: None,
            is_late: false,
        }
    }

    /// The guest answered, and by the time its answer was read and checked the deadline had passed.
    pub(crate) fn late(passed: DeadlinePassed) -> Failure {
        Failure {
            is_late: true,
            ..Failure::answer(&format!("deadline: {passed}"))
        }
    }

    /// The guest, or what it passed, made the call fail.
    pub(crate) fn call(
        error: &wasmtime::Error,
        refused: Option<Refused>,
        output: usize,
    ) -> Failure {
        let backtrace = error.downcast_ref::<WasmBacktrace>();
        let passed = error.downcast_ref::<DeadlinePassed>();
        let reason = if let Some(passed) = passed {
            format!("deadline: {passed}")
        } else if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
            format!("exit: the operator ended itself with code {code}")
        } else if let Some(refused) = refused {
            // What a guest does about memory it did not get differs; the cause is the refusal.
            format!("{refused}")
        } else if let Some(trap) = error.downcast_ref::<Trap>() {
            format!("trap: {trap}")
        } else {
            let cause = error.root_cause().to_string();
            let crossing = cause.contains("fuel allocated for hostcalls");
            match (crossing, backtrace) {
                (true, None) => format!("output: the answer exceeds the limit of {}", size(output)),
                (true, Some(_)) => format!(
                    "host call: it passes more than the limit of {}",
                    size(output)
                ),
                (false, None) => format!("bad answer: {cause}"),
                (false, Some(_)) => format!("host call: {cause}"),
            }
        };
        Failure {
            backtrace: backtrace
                .filter(|backtrace| !backtrace.frames().is_empty())
                .map(lines),
            is_late: passed.is_some(),
            ..Failure::answer(&reason)
        }
    }

    /// No instance could be made.
    pub(crate) fn start(error: &wasmtime::Error, refused: Option<Refused>) -> Failure {
        let guests = error.is::<Trap>() || error.is::<DeadlinePassed>() || error.is::<I32Exit>();
        if guests || refused.is_some() {
            return Failure::call(error, refused, 0);
        }
        Failure::answer(&format!("{error:#}"))
    }

    /// Reason and backtrace in one text.
    pub(crate) fn text(&self) -> String {
        match &self.backtrace {
            None => self.reason.clone(),
            Some(backtrace) => format!("{}\n{backtrace}", self.reason),
        }
    }
}

/// A backtrace as wasmtime writes it, if the names in it are what they seem; otherwise line by line with names that
/// can be shown. The names are the component's own.
fn lines(backtrace: &WasmBacktrace) -> String {
    let names = |frame: &FrameInfo| {
        [frame.module().name(), frame.func_name()]
            .into_iter()
            .flatten()
            .all(|name| name.len() <= FRAME_BYTES && is_plain(name))
    };
    let mut text = if backtrace.frames().iter().all(names) {
        backtrace.to_string()
    } else {
        let mut text = "error while executing at wasm backtrace:".to_owned();
        for (number, frame) in backtrace.frames().iter().enumerate() {
            let module = plain(frame.module().name().unwrap_or("<unknown>"), FRAME_BYTES);
            let function = plain(frame.func_name().unwrap_or("<unknown>"), FRAME_BYTES);
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {number:>3}: {module}!{function}");
        }
        text
    };
    if text.len() > TEXT_BYTES {
        text.truncate(text.floor_char_boundary(TEXT_BYTES));
        text.push('…');
    }
    text
}
