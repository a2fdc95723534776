//! What two answers of a host make together: rates.

use std::time::Instant;

use tidegate_control::StatusReport;

/// The last answer, and the one before it.
#[derive(Default)]
pub(super) struct Figures {
    last: Option<(Instant, StatusReport)>,
    before: Option<(Instant, StatusReport)>,
}

impl Figures {
    /// Another answer. What counts anew, of a host that was started again, has no rate until the next.
    pub(super) fn take(&mut self, now: Instant, report: StatusReport) {
        let last = self.last.replace((now, report));
        self.before = last.filter(|(_, before)| {
            self.last.as_ref().is_some_and(|(_, now)| {
                now.instance == before.instance && now.uptime_seconds >= before.uptime_seconds
            })
        });
    }

    /// The last answer.
    pub(super) fn report(&self) -> Option<&StatusReport> {
        self.last.as_ref().map(|(_, report)| report)
    }

    /// How much a count of it grows in a second; none if that is not known.
    pub(super) fn rate(&self, count: impl Fn(&StatusReport) -> Option<u64>) -> Option<f64> {
        self.growth(|report| count(report).map(|count| count as f64))
    }

    /// The same of what is not whole.
    pub(super) fn growth(&self, amount: impl Fn(&StatusReport) -> Option<f64>) -> Option<f64> {
        let ((now, last), (then, before)) = (self.last.as_ref()?, self.before.as_ref()?);
        let seconds = now.saturating_duration_since(*then).as_secs_f64();
        let grown = amount(last)? - amount(before)?;
        (seconds > 0.0 && grown >= 0.0).then(|| grown / seconds)
    }
}
