//! What two answers of a host make together: rates.

use tidegate_control::StatusReport;

/// The last answer, and the one before it.
#[derive(Default)]
pub(super) struct Figures {
    last: Option<StatusReport>,
    before: Option<StatusReport>,
}

impl Figures {
    /// Another answer. What counts anew, of a host that was started again, has no rate until the next.
    pub(super) fn take(&mut self, report: StatusReport) {
        let last = self.last.replace(report);
        self.before = last.filter(|before| {
            self.last.as_ref().is_some_and(|now| {
                now.instance == before.instance && now.uptime_seconds >= before.uptime_seconds
            })
        });
    }

    /// The last answer.
    pub(super) fn report(&self) -> Option<&StatusReport> {
        self.last.as_ref()
    }

    /// How much a count of it grows in a second; none if that is not known.
    pub(super) fn rate(&self, count: impl Fn(&StatusReport) -> Option<u64>) -> Option<f64> {
        self.growth(|report| count(report).map(|count| count as f64))
    }

    /// The same as [`rate`](Figures::rate) of what is not whole. The seconds are the host's own: how long an answer has lain
    /// here, in a terminal that was stopped or on a slow line, is no part of them.
    pub(super) fn growth(&self, amount: impl Fn(&StatusReport) -> Option<f64>) -> Option<f64> {
        let (last, before) = (self.last.as_ref()?, self.before.as_ref()?);
        let seconds = last.uptime_seconds - before.uptime_seconds;
        let grown = amount(last)? - amount(before)?;
        (seconds > 0.0 && grown >= 0.0).then(|| grown / seconds)
    }
}
