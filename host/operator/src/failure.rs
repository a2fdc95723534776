//! Why a call of a guest failed, in one sentence with value and limit.

use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::host::DeadlinePassed;
use crate::limits::{Refused, size};

/// Longest text of a reason or a backtrace, in bytes.
const TEXT_BYTES: usize = 4096;

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) backtrace: Option<String>,
}

impl Failure {
    /// The guest answered, but not with what was asked for.
    pub(crate) fn answer(reason: String) -> Failure {
        Failure {
            reason: cut(reason),
            backtrace: None,
        }
    }

    /// The guest, or what it passed, made the call fail.
    pub(crate) fn call(
        error: &wasmtime::Error,
        refused: Option<Refused>,
        output: usize,
    ) -> Failure {
        let backtrace = error.downcast_ref::<WasmBacktrace>();
        let reason = if let Some(passed) = error.downcast_ref::<DeadlinePassed>() {
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
        let backtrace = backtrace
            .filter(|backtrace| !backtrace.frames().is_empty())
            .map(|backtrace| cut(backtrace.to_string()));
        Failure {
            reason: cut(reason),
            backtrace,
        }
    }

    /// No instance could be made.
    pub(crate) fn start(error: &wasmtime::Error, refused: Option<Refused>) -> Failure {
        let guests = error.is::<Trap>() || error.is::<DeadlinePassed>() || error.is::<I32Exit>();
        if guests || refused.is_some() {
            return Failure::call(error, refused, 0);
        }
        Failure::answer(format!("{error:#}"))
    }

    /// Reason and backtrace in one text.
    pub(crate) fn text(&self) -> String {
        match &self.backtrace {
            None => self.reason.clone(),
            Some(backtrace) => format!("{}\n{backtrace}", self.reason),
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES {
        text.truncate(text.floor_char_boundary(TEXT_BYTES));
        text.push('…');
    }
    text
}
