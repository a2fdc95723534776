//! Making a revision ready beside the one that runs: whether it fits, how it answers recorded records, its instances.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::OperatorError;

use crate::component::Component;
use crate::description::Description;
use crate::instance::Instance;
use crate::revision::{Revision, SlotContext};
use crate::tokens;

/// Whether instances of a version have to start before it is switched to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// It is refused otherwise.
    Must,
    /// The same, so long after then.
    Within(Instant, Duration),
    /// It has run before: what keeps it from starting may pass.
    May,
}

impl Start {
    /// When it is too late, if it ever is.
    pub(super) fn until(self) -> Option<Instant> {
        match self {
            Start::Within(began, time) => Some(began + time),
            Start::Must | Start::May => None,
        }
    }
}

/// What it takes to make a revision ready.
pub(super) struct Prepare<'a> {
    pub(super) context: &'a SlotContext,
    pub(super) required_outputs: &'a [String],
    pub(super) requires_tokens: bool,
    pub(super) tasks: usize,
    pub(super) start: Start,
}

impl Prepare<'_> {
    /// A revision that fits; `known` is what it said of itself when it ran.
    pub(super) fn revision(
        &self,
        component: Component,
        config: Arc<str>,
        known: Option<Description>,
    ) -> Result<Revision, OperatorError> {
        let label = component.label().to_owned();
        let revision = Revision::known(component, self.context.clone(), config, known)?;
        revision.check_config()?;
        for output in self.required_outputs {
            if !revision.description.version.outputs.contains(output) {
                return Err(OperatorError::Unfit {
                    component: label,
                    why: format!("the pipeline uses its output {output:?}, which it does not have"),
                });
            }
        }
        if self.requires_tokens && !revision.description.handles_tokens {
            return Err(OperatorError::Unfit {
                component: label,
                why: "the pipeline has tokens of answers handled here, and it handles no tokens"
                    .into(),
            });
        }
        Ok(revision)
    }

    /// The revision with its instances.
    pub(super) fn ready(
        &self,
        revision: Revision,
    ) -> Result<(Arc<Revision>, Vec<Instance>), OperatorError> {
        let revision = Arc::new(revision);
        let mut warm = Vec::new();
        match (self.warm(&revision, &mut warm), self.start) {
            (Ok(()), _) => {}
            (Err(error @ OperatorError::Start { .. }), Start::May) => tracing::warn!(
                target: "tidegate::operator",
                slot = self.context.shared.name,
                instances = warm.len(),
                "goes on with fewer instances than tasks: {error}"
            ),
            (Err(error), _) => return Err(error),
        }
        Ok((revision, warm))
    }

    /// Makes an instance for every task; those that could be made stay after an error.
    fn warm(
        &self,
        revision: &Arc<Revision>,
        warm: &mut Vec<Instance>,
    ) -> Result<(), OperatorError> {
        self.in_time(revision, 0)?;
        if self.requires_tokens {
            tokens::try_out(revision)?;
            self.in_time(revision, 0)?;
        }
        let mut first = Instance::new(Arc::clone(revision))?;
        let samples = self.context.samples.all();
        for sample in &samples {
            if let Err(why) = first.try_out(sample)? {
                let records = sample.len();
                return Err(OperatorError::Unfit {
                    component: revision.component.label().to_owned(),
                    why: format!("it does not answer {records} recorded records: {why}"),
                });
            }
            self.in_time(revision, 0)?;
        }
        // An instance that has seen samples may remember them: it does not serve the stream.
        warm.extend(Some(first).filter(|_| samples.is_empty()));
        while warm.len() < self.tasks {
            self.in_time(revision, warm.len())?;
            warm.push(Instance::new(Arc::clone(revision))?);
        }
        self.in_time(revision, warm.len())
    }

    fn in_time(&self, revision: &Revision, ready: usize) -> Result<(), OperatorError> {
        match self.start {
            Start::Within(since, time) if since.elapsed() >= time => Err(OperatorError::Late {
                component: revision.component.label().to_owned(),
                why: format!("{ready} of {} instances within {time:?}", self.tasks),
            }),
            _ => Ok(()),
        }
    }
}
