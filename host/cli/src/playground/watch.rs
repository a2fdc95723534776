//! What ends a trial before its end, and what it waited for then.

use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tidegate_control::Hearer;
use tidegate_flow::Controls;
use tidegate_operator::Ending;
use tidegate_telemetry::Meters;

use super::lent::Loans;
use super::taps::Gathered;

/// How long what is under way still has once a trial has ended.
pub(super) const DRAIN: Duration = Duration::from_secs(1);
/// How often it is looked at.
pub(super) const TICK: Duration = Duration::from_millis(2);
/// Most records that may be seen between the stages, and most questions to models.
const RECORDS: u64 = 10_000;
pub(super) const QUESTIONS: usize = 64;

/// Why a trial was ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It took longer than this.
    Time(Duration),
    Records,
    Questions,
    /// The stream's run ends.
    Stopping,
    /// Whoever has tried it has gone.
    Nobody,
}

impl Why {
    /// Whether nobody waited for it to its end, and nothing was wrong with it.
    pub(super) fn is_left(self) -> bool {
        matches!(self, Why::Time(_) | Why::Stopping | Why::Nobody)
    }

    pub(super) fn words(self) -> String {
        match self {
            Why::Time(time) => format!("it took longer than {} s", time.as_secs()),
            Why::Records => format!("more than {RECORDS} records came of it"),
            Why::Questions => format!("it asks models more than {QUESTIONS} times"),
            Why::Stopping => "the pipeline is ending".to_owned(),
            Why::Nobody => "nobody waits for it".to_owned(),
        }
    }
}

/// How a trial was ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) why: Why,
    /// For what each stage waited, where time was what it had not enough of.
    pub(super) waits: Vec<(usize, String)>,
}

/// A trial's own run, once that has started.
pub(super) struct OwnRun {
    pub(super) meters: Arc<Meters>,
    pub(super) controls: Controls,
    /// Of each stage, whether it asks a model.
    pub(super) asks: Vec<bool>,
}

impl OwnRun {
    fn waits(&self) -> Vec<(usize, String)> {
        let mut health = self.controls.health().into_iter();
        let called = health.find_map(|worker| worker.calls);
        waits(&self.meters, &self.asks, called)
    }
}

/// For what each stage waits; `called` is the one whose operator is at work.
fn waits(meters: &Meters, asks: &[bool], called: Option<usize>) -> Vec<(usize, String)> {
    let stages = meters.stages().iter().zip(asks).enumerate();
    let waits = stages.filter_map(|(index, (stage, asks))| {
        if let Some(unavailable) = stage.unavailable() {
            return Some((
                index,
                format!("it could not answer: {}", unavailable.reason),
            ));
        }
        let is_called = called == Some(index);
        if stage.waiting.get() == 0 && !is_called {
            return None;
        }
        let why = match (stage.put_off(), asks) {
            // Whatever it had put off: that is what it works at, or waits behind it.
            (_, false) if is_called => "its operator was at work still".to_owned(),
            (Some(reason), false) => format!("its operator had put the record off: {reason}"),
            // Behind one that is.
            (None, false) => "records waited for others of their key".to_owned(),
            (Some(reason), true) => format!("its model was asked again, after: {reason}"),
            (None, true) => "its model had not answered".to_owned(),
        };
        Some((index, why))
    });
    waits.collect()
}

/// What ends a trial, from the start of its first instance on.
pub(super) struct Watch {
    /// Of the stream's run.
    pub(super) controls: Controls,
    pub(super) seen: Gathered,
    pub(super) loans: Arc<Loans>,
    /// Of all instances: no operator goes on then, whatever its deadline is.
    pub(super) ending: Arc<Ending>,
    pub(super) began: Instant,
    pub(super) patience: Duration,
    pub(super) own: OnceLock<OwnRun>,
    /// How it was ended, once it was.
    pub(super) ended: OnceLock<Ended>,
}

impl Watch {
    /// Looks at it until it is done or has to end.
    pub(super) fn until_it_ends(&self, done: &mpsc::Receiver<()>, hearer: &dyn Hearer) {
        while done.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
            if let Some(why) = self.why(hearer) {
                let own = self.own.get().filter(|_| matches!(why, Why::Time(_)));
                let waits = own.map_or_else(Vec::new, OwnRun::waits);
                // The one place where it is set, and before what is under way can tell of its end.
                let _ = self.ended.set(Ended { why, waits });
                self.ending.end();
                // What models still have is of no use.
                self.loans.call_in();
                return;
            }
        }
    }

    /// Why it ends before its end, if it does.
    fn why(&self, hearer: &dyn Hearer) -> Option<Why> {
        if self.began.elapsed() >= self.patience {
            return Some(Why::Time(self.patience));
        }
        if self.seen.number() > RECORDS {
            return Some(Why::Records);
        }
        if self.loans.is_over() {
            return Some(Why::Questions);
        }
        if self.controls.is_stopping() {
            return Some(Why::Stopping);
        }
        (!hearer.is_there()).then_some(Why::Nobody)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_telemetry::events::{
        ModelAnswered, ModelFailed, RecordPutOff, RecordTakenAgain, StageUnavailable,
    };

    use super::*;

    #[test]
    fn what_each_stage_waited_for_is_said_with_the_operators_own_reason() {
        let names = ["idle", "busy", "later", "again", "model", "failed"];
        let meters = Meters::new("p", names).beside();
        let asks = [false, false, false, false, true, true];
        StageUnavailable {
            stage: 2,
            first: true,
            reason: "operator error later (transient): the database is away",
        }
        .emit(&meters);
        for (stage, reason) in [(3, "not before noon"), (5, "answered 503")] {
            RecordPutOff { stage, reason }.emit(&meters);
        }
        for stage in [3, 4, 5] {
            meters.stages()[stage].waiting.change(0, 1);
        }
        let waits = waits(&meters, &asks, Some(1));
        let waits: Vec<_> = waits.iter().map(|(at, why)| (*at, why.as_str())).collect();
        assert_eq!(
            waits,
            [
                (1, "its operator was at work still"),
                (
                    2,
                    "it could not answer: operator error later (transient): the database is away"
                ),
                (3, "its operator had put the record off: not before noon"),
                (4, "its model had not answered"),
                (5, "its model was asked again, after: answered 503"),
            ]
        );
    }

    #[test]
    fn a_reason_is_said_only_as_long_as_a_record_has_to_come_again_for_it() {
        let meters = Meters::new("p", ["guest", "model"]).beside();
        let said = |called| -> Vec<String> {
            let waits = waits(&meters, &[false, true], called).into_iter();
            waits.map(|(_, why)| why).collect()
        };
        let put_off = |reason| RecordPutOff { stage: 0, reason }.emit(&meters);
        let fails = |again| {
            ModelFailed {
                trace: None,
                stage: 1,
                attempt: 1,
                again,
                reason: "answered 503",
            }
            .emit(&meters);
        };
        let (noon, model) = (
            "its operator had put the record off: not before noon",
            "its model had not answered",
        );
        for stage in meters.stages() {
            stage.waiting.change(0, 1);
        }
        put_off("not before noon");
        put_off("not before noon");
        assert_eq!(said(None), [noon, model]);
        assert_eq!(said(Some(0)), ["its operator was at work still", model]);
        RecordTakenAgain { stage: 0 }.emit(&meters);
        assert_eq!(said(None), [noon, model], "the other still waits for it");
        RecordTakenAgain { stage: 0 }.emit(&meters);
        let behind = "records waited for others of their key";
        assert_eq!(said(None), [behind, model]);
        let again = "its model was asked again, after: answered 503";
        fails(true);
        assert_eq!(said(None), [behind, again]);
        fails(false);
        assert_eq!(said(None), [behind, model]);
        fails(true);
        ModelAnswered {
            trace: None,
            stage: 1,
            prompt_tokens: 1,
            tokens: 1,
            finish: "end",
            queued: Duration::ZERO,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
        }
        .emit(&meters);
        assert_eq!(said(None), [behind, model]);
    }

    #[test]
    fn whoever_leaves_or_has_no_time_has_not_failed() {
        let left = [
            Why::Time(Duration::from_secs(60)),
            Why::Stopping,
            Why::Nobody,
        ];
        assert!(left.into_iter().all(Why::is_left));
        assert!(![Why::Records, Why::Questions].into_iter().any(Why::is_left));
    }
}
