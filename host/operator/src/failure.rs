//! Why a call of a guest failed, in one sentence with value and limit.

use std::fmt::Write as _;

use tidegate_telemetry::plain;
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::host::DeadlinePassed;
use crate::limits::{Refused, size};
use crate::panics::caught;

/// Longest text of a reason or a backtrace, in bytes.
pub(crate) const TEXT_BYTES: usize = 4096;
/// Longest name of a function or module in a backtrace, in bytes.
const FRAME_BYTES: usize = 256;
/// Longest name of a function that is made readable, in bytes.
const SYMBOL_BYTES: usize = 4096;

/// A failed call. Both texts can be shown as they are, the backtrace with a line for each frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) backtrace: Option<String>,
    /// Whether the call took longer than it was allowed to.
    pub(crate) is_late: bool,
    /// Whether it got no memory because the instances of all operators had too much of it.
    pub(crate) is_crowded: bool,
    /// How the guest classed it, if it said so itself: then it has not cost the instance.
    pub(crate) class: Option<Class>,
}

/// Whether something failed for good, in the guest's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The same call may succeed later.
    Transient,
    /// The same call fails again.
    Permanent,
    /// Only another configuration helps.
    BadConfiguration,
}

impl Failure {
    /// The guest answered, but not with what was asked for.
    pub(crate) fn answer(reason: &str) -> Failure {
        Failure {
            reason: plain(reason, TEXT_BYTES).into_owned(),
            backtrace: None,
            is_late: false,
            is_crowded: false,
            class: None,
        }
    }

    /// The guest answered with an error of its own, which may have megabytes. Its code is checked.
    pub(crate) fn said(class: Class, code: &str, text: &str) -> Failure {
        let text = plain(text, TEXT_BYTES);
        let reason = match class {
            Class::Transient => format!("operator error {code} (transient): {text}"),
            Class::Permanent => format!("operator error {code}: {text}"),
            Class::BadConfiguration => format!("operator error {code} (bad configuration): {text}"),
        };
        Failure {
            reason,
            backtrace: None,
            is_late: false,
            is_crowded: false,
            class: Some(class),
        }
    }

    /// The guest of the contract 0.1.0 answered with an error: a text and nothing else.
    pub(crate) fn text_of(text: &str) -> Failure {
        Failure {
            reason: format!("operator error: {}", plain(text, TEXT_BYTES)),
            backtrace: None,
            is_late: false,
            is_crowded: false,
            class: Some(Class::Permanent),
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
        caught(|| Failure::of(error, refused, output))
            .unwrap_or_else(|panic| Failure::answer(&panic))
    }

    fn of(error: &wasmtime::Error, refused: Option<Refused>, output: usize) -> Failure {
        let backtrace = error.downcast_ref::<WasmBacktrace>();
        let passed = error.downcast_ref::<DeadlinePassed>();
        let crowded = refused.filter(|refused| matches!(refused, Refused::Crowded(_)));
        let reason = if let Some(passed) = passed {
            format!("deadline: {passed}")
        } else if let Some(crowded) = crowded {
            // However it ended: what it did not get explains it.
            format!("{crowded}")
        } else if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
            format!("exit: the operator ended itself with code {code}")
        } else if let Some(refused) = refused {
            // What a guest does about memory it did not get differs; the cause is the refusal.
            format!("{refused}")
        } else if let Some(trap) = error.downcast_ref::<Trap>() {
            format!("trap: {trap}")
        } else {
            let cause = bounded(format_args!("{}", error.root_cause()), TEXT_BYTES);
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
            is_crowded: passed.is_none() && crowded.is_some(),
            ..Failure::answer(&reason)
        }
    }

    /// No instance could be made.
    pub(crate) fn start(error: &wasmtime::Error, refused: Option<Refused>) -> Failure {
        let guests = error.is::<Trap>() || error.is::<DeadlinePassed>() || error.is::<I32Exit>();
        if guests || refused.is_some() {
            return Failure::call(error, refused, 0);
        }
        // A backtrace is among what an error says of itself: of one that has it the cause is enough.
        if error.is::<WasmBacktrace>() {
            return Failure::call(error, None, 0);
        }
        let text = caught(|| bounded(format_args!("{error:#}"), TEXT_BYTES));
        Failure::answer(&text.unwrap_or_else(|panic| panic))
    }

    /// With what the guest said in that call, before the backtrace.
    pub(crate) fn with_last_words(mut self, words: Option<String>) -> Failure {
        if let Some(words) = words {
            self.backtrace = Some(match self.backtrace.take() {
                None => words,
                Some(backtrace) => format!("{words}\n{backtrace}"),
            });
        }
        self
    }

    /// Reason and backtrace in one text.
    pub(crate) fn text(&self) -> String {
        match &self.backtrace {
            None => self.reason.clone(),
            Some(backtrace) => format!("{}\n{backtrace}", self.reason),
        }
    }
}

/// A backtrace with a line for each frame. The names in it are the component's own: a short one can stand for gigabytes
/// in C++'s way of writing, or hide what turns a terminal's text around, so nothing but what is here writes them.
fn lines(backtrace: &WasmBacktrace) -> String {
    let mut text = "error while executing at wasm backtrace:".to_owned();
    for (number, frame) in backtrace.frames().iter().enumerate() {
        let offset = frame.module_offset().unwrap_or_default();
        let module = plain(frame.module().name().unwrap_or("<unknown>"), FRAME_BYTES);
        let function = function(frame.func_name().unwrap_or("<unknown>"));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {number:>3}: {offset:#6x} - {module}!{function}");
        if text.len() > TEXT_BYTES {
            text.truncate(text.floor_char_boundary(TEXT_BYTES));
            text.push('…');
            break;
        }
    }
    text
}

/// The name of a function as people read it, if it is one of Rust's; others stay as they are.
fn function(name: &str) -> String {
    let readable = (name.len() <= SYMBOL_BYTES)
        .then(|| rustc_demangle::try_demangle(name).ok())
        .flatten();
    match readable {
        // Without the hash at its end.
        Some(symbol) => plain(
            &bounded(format_args!("{symbol:#}"), FRAME_BYTES),
            TEXT_BYTES,
        )
        .into_owned(),
        None => plain(name, FRAME_BYTES).into_owned(),
    }
}

/// What can be written, as far as the limit in bytes: what would be longer is not made and then cut.
fn bounded(text: std::fmt::Arguments<'_>, limit: usize) -> String {
    let mut bounded = Bounded {
        text: String::new(),
        limit,
    };
    if bounded.write_fmt(text).is_err() {
        bounded.text.push('…');
    }
    bounded.text
}

/// Takes so many bytes, and ends whoever writes more.
struct Bounded {
    text: String,
    limit: usize,
}

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        let left = self.limit.saturating_sub(self.text.len());
        self.text.push_str(&more[..more.floor_char_boundary(left)]);
        match more.len() > left {
            true => Err(std::fmt::Error),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number in a symbol of Rust.
    fn base62(number: usize) -> String {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        match number {
            0 => "_".into(),
            n => {
                let (mut n, mut digits) = (n - 1, String::new());
                loop {
                    digits.insert(0, DIGITS[n % 62] as char);
                    n /= 62;
                    if n == 0 {
                        return digits + "_";
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_rust_are_readable_and_no_name_is_written_beyond_its_bound() {
        assert_eq!(
            function("_ZN4core9panicking5panic17h0123456789abcdefE"),
            "core::panicking::panic"
        );
        assert_eq!(function("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(function("_ZN8$u202e$x17h0123456789abcdefE"), "\\u{202e}x");
        // Each pair is written twice by the next: 2^30 of the first.
        let mut doubled = "_RINvC1m1fTuuE".to_owned();
        let mut pair = "INvC1m1f".len();
        for _ in 0..30 {
            let next = doubled.len() - "_R".len();
            let again = format!("B{}", base62(pair));
            doubled += &format!("T{again}{again}E");
            pair = next;
        }
        doubled += "E";
        assert!(
            function(&doubled).starts_with("m::f::<((), ()), "),
            "{}",
            function(&doubled)
        );
        assert!(function(&doubled).len() < 2 * FRAME_BYTES);
        let cpp = format!(
            "_Z1f1aIiiiiES_IS0_S0_S0_S0_E{}",
            "S_IS1_S1_S1_S1_E".repeat(8)
        );
        assert_eq!(function(&cpp), cpp, "C++'s are not written out");
        assert!(function(&"n".repeat(1 << 20)).len() < 2 * FRAME_BYTES);
    }

    #[test]
    fn a_text_ends_where_its_bound_is_and_whoever_writes_it_as_well() {
        struct Endless;
        impl std::fmt::Display for Endless {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                loop {
                    f.write_str("more ")?;
                }
            }
        }
        assert_eq!(bounded(format_args!("{Endless}"), 12), "more more mo…");
        assert_eq!(bounded(format_args!("é{}", 1), 2), "é…");
        assert_eq!(bounded(format_args!("{}", 12), 2), "12");
    }
}
