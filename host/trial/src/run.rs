//! Runs cases: in the crate that runs operators in production, with its limits, its bisection and its retries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::{Operator, OperatorError, Processed, Slot as _};
use tidegate_operator::{Component, ComponentSlot, Grants, Limits, SlotOptions};
use tidegate_record::{Batch, OutcomesView};

use crate::answer::answer_all;
use crate::cases::{Case, CaseRecord, Expected, ExpectedOutcome, Measurement, batch};
use crate::heard::{Heard, Lines};
use crate::metrics::{Sums, counted};
use crate::outcome::{Came, Class, Refusal};
use crate::tokens::{self, Handled, Unhandled};

/// Slots that are kept: most cases have one configuration.
const SLOTS: usize = 4;
/// Of a retry's delay so much counts, as in a pipeline.
const LONGEST_DELAY: Duration = Duration::from_secs(600);

/// What came of a case.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: End,
    pub(crate) lines: Lines,
    pub(crate) metrics: Vec<Measurement>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum End {
    /// No instance started with the configuration.
    Refused(Refusal),
    /// The batch failed, in words.
    Failed(Refusal),
    /// An outcome for each record; and those of the records given one by one, where there are several.
    Answered {
        came: Vec<Came>,
        alone: Option<Vec<Came>>,
    },
    /// What went on of a text.
    Handled(Handled),
    /// It took longer than a case may.
    Late(Duration),
    /// Something else: the records are too large for a batch, or the answer is none.
    Broken(String),
}

/// Runs cases over one component.
pub(crate) struct Runner {
    component: Component,
    grants: Grants,
    limits: Limits,
    /// How long a case may take.
    time: Duration,
    slots: Vec<Started>,
}

struct Started {
    config: String,
    limits: Limits,
    seed: [u8; 16],
    slot: ComponentSlot,
    heard: Arc<Heard>,
}

/// What comes before the answers, where there are none.
enum Stopped {
    Operator(OperatorError),
    Broken(String),
    /// The time was over before.
    Late,
}

impl From<OperatorError> for Stopped {
    fn from(error: OperatorError) -> Stopped {
        Stopped::Operator(error)
    }
}

impl Runner {
    pub(crate) fn new(
        component: Component,
        grants: Grants,
        limits: Limits,
        time: Duration,
    ) -> Runner {
        Runner {
            component,
            grants,
            limits,
            time,
            slots: Vec::new(),
        }
    }

    /// The schema of its configuration, as the operator said it in a case that started.
    pub(crate) fn config_schema(&self) -> Option<String> {
        self.slots
            .last()
            .map(|started| started.slot.config_schema())
    }

    /// Runs a case with an instance that was started for it.
    pub(crate) fn run(&mut self, case: &Case) -> Ran {
        let nothing = |end| Ran {
            end,
            lines: Lines::default(),
            metrics: Vec::new(),
        };
        let until = Instant::now() + self.time;
        let time = self.time;
        let started = match self.started(case) {
            Ok(started) => started,
            Err(error) => return nothing(refused(error)),
        };
        if let Some(text) = &case.tokens {
            let (end, lines) = match tokens::handle(&started.slot, &started.heard, text, until) {
                Ok(mut handled) => {
                    let lines = std::mem::take(&mut handled.lines);
                    (End::Handled(handled), lines)
                }
                Err(unhandled) => (ended_text(unhandled, time), started.heard.take()),
            };
            return Ran {
                lines,
                ..nothing(end)
            };
        }
        let batch = match batch(&case.records, case.clock) {
            Ok(batch) => batch,
            Err(refused) => return nothing(End::Broken(refused.to_string())),
        };
        // The lines of an instance begin with those of its start.
        started.heard.take();
        let mut operator = match started.slot.instance() {
            Ok((_, operator)) => operator,
            Err(error) => return nothing(refused(error)),
        };
        let before = counted(&started.slot.metrics());
        let mut asked = Asked {
            started,
            operator: &mut *operator,
            sums: Sums::default(),
            until,
        };
        let came = asked.outcomes(&batch).and_then(|mut came| {
            if let Expected::Outcomes(expected) = &case.expected {
                asked.retries(case, expected, &mut came)?;
            }
            Ok(came)
        });
        let mut metrics = asked.sums.all();
        let after = counted(&started.slot.metrics()).into_iter();
        metrics.extend(after.filter_map(|(name, sum)| {
            let more = sum - before.get(&name).copied().unwrap_or(0);
            (more > 0).then(|| Measurement {
                name,
                labels: Vec::new(),
                value: crate::cases::Measured::Number(more as f64),
            })
        }));
        let lines = started.heard.take();
        let end = match came {
            Ok(came) => match one_by_one(started, case, (until, time)) {
                Ok(alone) => End::Answered { came, alone },
                Err(end) => end,
            },
            Err(stopped) => ended(stopped, time),
        };
        let metrics = match end {
            // What a call measured that failed does not count.
            End::Failed(_) => Vec::new(),
            _ => metrics,
        };
        Ran {
            end,
            lines,
            metrics,
        }
    }

    /// The slot of a case, which is made if none of the last was like it.
    fn started(&mut self, case: &Case) -> Result<&Started, OperatorError> {
        let limits = case.limits.applied_to(&self.limits);
        let same = |started: &Started| {
            (&started.config, &started.limits, started.seed) == (&case.config, &limits, case.seed)
        };
        if let Some(at) = self.slots.iter().position(same) {
            let started = self.slots.remove(at);
            self.slots.push(started);
        } else {
            if self.slots.len() >= SLOTS {
                self.slots.remove(0);
            }
            let heard = Arc::new(Heard::default());
            let options = SlotOptions {
                grants: self.grants,
                limits: limits.clone(),
                config: case.config.clone(),
                seed: Some(case.seed),
                listener: Some(heard.clone()),
                ..SlotOptions::new("test")
            };
            let slot = ComponentSlot::of(&self.component, options)?;
            // The instance that it has made was heard before there was a case.
            drop(slot.instance()?);
            self.slots.push(Started {
                config: case.config.clone(),
                limits,
                seed: case.seed,
                slot,
                heard,
            });
        }
        let at = self.slots.len() - 1;
        Ok(&self.slots[at])
    }
}

/// An instance, and what came of it so far.
struct Asked<'a> {
    started: &'a Started,
    operator: &'a mut dyn Operator,
    sums: Sums,
    until: Instant,
}

impl Asked<'_> {
    /// The outcomes of a batch.
    fn outcomes(&mut self, batch: &Batch) -> Result<Vec<Came>, Stopped> {
        if Instant::now() >= self.until {
            return Err(Stopped::Late);
        }
        let mut came = Vec::with_capacity(batch.len());
        let outputs = self.operator.version().outputs.clone();
        let metrics = self.started.slot.metrics().into_iter().next();
        let metrics: Vec<_> = metrics.map_or_else(Vec::new, |revision| {
            let metrics = revision.metrics.into_iter();
            metrics.map(|(metric, _)| metric).collect()
        });
        let sums = &mut self.sums;
        let each = |_: &Batch, processed| -> Result<(), Stopped> {
            match processed {
                Processed::Answer {
                    count, outcomes, ..
                } => {
                    let view = OutcomesView::parse(&outcomes, count, outputs.len() as u16)
                        .map_err(|error| Stopped::Broken(error.to_string()))?;
                    let first = came.len();
                    came.extend(view.iter().map(|outcome| Came::of(&outcome, &outputs)));
                    sums.add(&view, &metrics, |record| {
                        came.get(first + record).is_none_or(Came::comes_again)
                    });
                }
                Processed::Poison(cause) => came.push(Came::Poison {
                    reason: cause.reason,
                    beneath: cause.backtrace.unwrap_or_default(),
                }),
                Processed::Untried { .. } => {}
            }
            Ok(())
        };
        let in_time = answer_all(self.operator, batch, Some(self.until), each)?;
        match in_time {
            true => Ok(came),
            false => Err(Stopped::Late),
        }
    }

    /// Gives records again whose retry the case says something of, with the clock so much later.
    fn retries(
        &mut self,
        case: &Case,
        expected: &[ExpectedOutcome],
        came: &mut [Came],
    ) -> Result<(), Stopped> {
        for ((record, expected), came) in case.records.iter().zip(expected).zip(came) {
            self.retry(record, case.clock, expected, came)?;
        }
        Ok(())
    }

    fn retry(
        &mut self,
        record: &CaseRecord,
        clock: i64,
        expected: &ExpectedOutcome,
        came: &mut Came,
    ) -> Result<(), Stopped> {
        let ExpectedOutcome::Retry {
            then: Some(expected),
            ..
        } = expected
        else {
            return Ok(());
        };
        let Came::Retry { after_ms, then, .. } = came else {
            return Ok(());
        };
        let delay = Duration::from_millis((*after_ms).into()).min(LONGEST_DELAY);
        let clock = clock.saturating_add(delay.as_micros() as i64);
        let again = batch(std::slice::from_ref(record), clock)
            .map_err(|refused| Stopped::Broken(refused.to_string()))?;
        let again = self.outcomes(&again)?.pop();
        if let Some(mut again) = again {
            self.retry(record, clock, expected, &mut again)?;
            *then = Some(Box::new(again));
        }
        Ok(())
    }
}

/// The outcomes of the records given one by one to another instance; none where there are not several.
fn one_by_one(
    started: &Started,
    case: &Case,
    (until, time): (Instant, Duration),
) -> Result<Option<Vec<Came>>, End> {
    if case.records.len() < 2 {
        return Ok(None);
    }
    let (_, mut operator) = started.slot.instance().map_err(refused)?;
    let mut asked = Asked {
        started,
        operator: &mut *operator,
        sums: Sums::default(),
        until,
    };
    let mut alone = Vec::with_capacity(case.records.len());
    for record in &case.records {
        let one = batch(std::slice::from_ref(record), case.clock)
            .map_err(|refused| End::Broken(refused.to_string()))?;
        let came = asked.outcomes(&one);
        alone.extend(came.map_err(|stopped| ended(stopped, time))?);
    }
    Ok(Some(alone))
}

fn ended_text(unhandled: Unhandled, time: Duration) -> End {
    match unhandled {
        Unhandled::Failed(refusal) => End::Failed(refusal),
        Unhandled::Broken(why) => End::Broken(why),
        Unhandled::Late => End::Late(time),
    }
}

fn ended(stopped: Stopped, time: Duration) -> End {
    match stopped {
        Stopped::Operator(OperatorError::Failed { why, .. }) => End::Failed(Refusal::said(&why)),
        Stopped::Operator(error) => refused(error),
        Stopped::Broken(why) => End::Broken(why),
        Stopped::Late => End::Late(time),
    }
}

/// Whether an operator refuses its configuration, by its schema or in its own words.
pub fn refuses_configuration(error: &OperatorError) -> bool {
    match error {
        OperatorError::Unfit { .. } => true,
        OperatorError::Start { why, .. } => {
            Refusal::said(of_start(why)).class == Some(Class::BadConfiguration)
        }
        _ => false,
    }
}

/// What is said of a start without the step that failed.
fn of_start(why: &str) -> &str {
    let steps = ["instantiate: ", "describe: ", "init: "];
    let said = steps.iter().find_map(|step| why.strip_prefix(step));
    said.unwrap_or(why)
}

/// Why no instance started.
fn refused(error: OperatorError) -> End {
    match error {
        OperatorError::Start { why, .. } => End::Refused(Refusal::said(of_start(&why))),
        OperatorError::Unfit { why, .. } => End::Refused(Refusal {
            class: Some(Class::BadConfiguration),
            message: why,
            ..Refusal::default()
        }),
        other => End::Broken(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_operator::{Engine, EngineOptions};

    use super::*;
    use crate::cases::Text;

    #[test]
    fn a_record_that_comes_again_when_the_time_is_over_is_late() {
        let engine = Engine::new(EngineOptions::default()).unwrap();
        let component = engine.compile(crate::bench::PASS, "pass").unwrap();
        let options = SlotOptions {
            config: r#"{"reads":"0"}"#.into(),
            ..SlotOptions::new("test")
        };
        let started = Started {
            config: options.config.clone(),
            limits: Limits::default(),
            seed: [0; 16],
            slot: ComponentSlot::of(&component, options).unwrap(),
            heard: Arc::default(),
        };
        let (_, mut operator) = started.slot.instance().unwrap();
        let expected = ExpectedOutcome::Retry {
            after_ms: 1,
            reason: Text::Whole("later".into()),
            then: Some(Box::new(ExpectedOutcome::Drop)),
        };
        let came = Came::Retry {
            after_ms: 1,
            reason: "later".into(),
            then: None,
        };
        let mut ask = |until| {
            let mut asked = Asked {
                started: &started,
                operator: &mut *operator,
                sums: Sums::default(),
                until,
            };
            asked.retry(&CaseRecord::default(), 0, &expected, &mut came.clone())
        };
        let now = Instant::now();
        assert!(ask(now + Duration::from_secs(600)).is_ok());
        assert!(matches!(ask(now), Err(Stopped::Late)));
    }
}
