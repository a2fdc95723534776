//! A model stage: answers in, in the order of their lanes out.

use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{Answer, Choice, Finish, Made, ModelError, ModelTask, Timings};
use tidegate_record::{BatchBuilder, Patch};
use tidegate_telemetry::events::{ModelAnswered, ModelFailed};

use super::again::refusal;
use super::{Task, clock};
use crate::asked::Refusal;
use crate::audit::Outcome;
use crate::entry::{Entry, State};
use crate::error::FlowError;
use crate::handlers::Halt;
use crate::hearing::At;
use crate::output::{Death, Output};
use crate::showing::{Finished, Showing};
use crate::topology::{Ask, ModelStage, StageKind, Topology};
use crate::traced::Asking;
use crate::versions::Versions;

/// What follows for a request and its model from what was shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Handlers have ended the answer with it: the model need not go on.
    pub is_ended: bool,
    pub then: Then,
}

/// How an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// With what comes of it.
    Waits,
    /// With what has come, from this time on.
    GoesOn(Instant),
    /// Its request is done.
    Done,
    /// It does not go on, or not with this request.
    Left,
}

impl From<Then> for Shown {
    fn from(then: Then) -> Shown {
        Shown {
            is_ended: false,
            then,
        }
    }
}

/// An answer that handlers ended, of which the model that made it says nothing.
fn ended_early(topology: &Topology, kind: &ModelStage, entry: &Entry, choices: u32) -> Answer {
    let prompt_tokens = || {
        let asked = crate::asked::asked(topology, kind, entry, &entry.view()?).ok()?;
        let chosen = kind.chosen(asked.wants.as_ref().and_then(|wants| wants.which));
        match &asked.task {
            ModelTask::Generate { prompt, .. } => chosen.model.prompt_tokens(prompt).ok(),
            ModelTask::Encode { .. } | ModelTask::Recognize { .. } | ModelTask::Rank { .. } => None,
        }
    };
    let choice = |number: u32| Choice {
        text: String::new(),
        reasoning: String::new(),
        reasoning_tokens: 0,
        calls: Vec::new(),
        tokens: match number {
            0 => entry.tokens.to_vec(),
            _ => Vec::new(),
        },
        finish: Finish::Filtered,
        logprobs: Vec::new(),
    };
    Answer {
        made: Made::Choices((0..choices).map(choice).collect()),
        prompt_tokens: prompt_tokens().unwrap_or_default() as u32,
        adapter: String::new(),
        timings: Timings::default(),
    }
}

/// Where an answered record goes, and what it went through.
type Goes<'a> = (Option<&'a str>, Versions);

/// Bytes of answered records that go on in one batch.
const MAX_ANSWERS: usize = 16 << 20;

impl Task {
    /// An answer came, or a model's refusal. Sends on what may go now.
    pub(crate) fn on_answer(
        &mut self,
        stage: usize,
        number: u64,
        request: u64,
        result: Result<Answer, ModelError>,
        output: &mut Output,
    ) -> Result<Shown, FlowError> {
        let expected = self.waiting[stage].get(number).map(|entry| &entry.state);
        if !matches!(expected, Some(State::Submitted(id)) if *id == request) {
            return Ok(Then::Done.into());
        }
        if let Some(Some(showing)) = self.waiting[stage].showing(number) {
            showing.answered(result);
            return self.show(stage, number, output);
        }
        self.take_result(stage, number, result, None, output)?;
        Ok(Then::Done.into())
    }

    /// Has handlers, and whoever sees the answer, take what has come of it; its end, too, once they have taken the rest.
    pub(crate) fn show(
        &mut self,
        stage: usize,
        number: u64,
        output: &mut Output,
    ) -> Result<Shown, FlowError> {
        let topology = self.topology.clone();
        let StageKind::Model(kind) = &topology.stages[stage].kind else {
            return Ok(Then::Done.into());
        };
        let Some(Some(showing)) = self.waiting[stage].showing(number) else {
            return Ok(Then::Waits.into());
        };
        let mut finished = showing.finish();
        if let Ok(Finished::EndedEarly { choices }) = finished {
            let early = self.waiting[stage].get(number);
            let early = early.map(|entry| ended_early(&topology, kind, entry, choices));
            let (Some(Some(showing)), Some(early)) = (self.waiting[stage].showing(number), early)
            else {
                return Ok(Then::Done.into());
            };
            showing.complete(early);
            finished = showing.finish();
        }
        let showing = self.waiting[stage].showing(number).and_then(Option::as_mut);
        let is_ended = showing.is_some_and(|showing| showing.has_just_ended());
        let then = match finished {
            Ok(Finished::NotYet | Finished::EndedEarly { .. }) => Then::Waits,
            Ok(Finished::Refused(error)) => {
                self.take_result(stage, number, Err(error), None, output)?;
                Then::Done
            }
            Ok(Finished::Answer(answer)) => {
                let showing = self.waiting[stage].showing(number).and_then(Option::take);
                self.take_result(stage, number, Ok(answer), showing, output)?;
                Then::Done
            }
            Err(Halt::Turn) => Then::GoesOn(Instant::now()),
            Err(Halt::Later(until)) => Then::GoesOn(until),
            Err(Halt::Failed(why)) => {
                self.end_unshown(stage, number, why, output)?;
                Then::Left
            }
            Err(Halt::Differs(why)) => {
                if !self.show_anew(kind, stage, number, &why, output) {
                    self.end_unshown(stage, number, why, output)?;
                }
                Then::Left
            }
        };
        Ok(Shown { is_ended, then })
    }

    /// Nothing more can be shown of an answer: its record is a dead letter.
    fn end_unshown(
        &mut self,
        stage: usize,
        number: u64,
        why: String,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        output.counts.requests += 1;
        output.counts.failed += 1;
        self.bury_entry(stage, number, &why.into(), output)?;
        self.send_answers(stage, output)
    }

    /// What became of a request, and the answer as it was shown, if it was and is there.
    fn take_result(
        &mut self,
        stage: usize,
        number: u64,
        result: Result<Answer, ModelError>,
        mut showing: Option<Box<Showing>>,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let topology = self.topology.clone();
        let StageKind::Model(kind) = &topology.stages[stage].kind else {
            return Ok(());
        };
        if let Some(showing) = &showing {
            let handlers = showing.handled_by(&topology);
            self.waiting[stage].change(number, |entry| entry.by.handlers = handlers);
        }
        if let Ok(answer) = &result
            && !answer.adapter.is_empty()
        {
            // Of several replicas the one that it was made on.
            let adapter = answer.adapter.as_str().into();
            self.waiting[stage].change(number, |entry| entry.by.adapter = adapter);
        }
        if let Some(entry) = self.waiting[stage].get(number) {
            let asking = Asking {
                stage,
                kind,
                entry,
                result: &result,
            };
            output.traces.answered(&asking);
        }
        if let Err(error) = &result
            && self.ask_again(kind, stage, number, error, output)
        {
            return Ok(());
        }
        output.counts.requests += 1;
        let entry = self.waiting[stage].get(number);
        let is_other = entry.is_some_and(|entry| crate::asked::which(kind, entry).is_some());
        match result {
            Ok(answer) => {
                output.counts.tokens += crate::answer::tokens(&answer);
                output.counts.prompt_tokens += u64::from(answer.prompt_tokens);
                let wants = self.waiting[stage].get(number);
                let wants = wants.and_then(|entry| crate::asked::wants(kind, entry));
                // A caller is told that its answer was cut, and has what there is.
                let called = topology.sources[usize::from(self.partition.source)].called;
                let handled = showing
                    .as_ref()
                    .is_some_and(|showing| showing.has_handled_first());
                let formless = match called {
                    true => None,
                    false => crate::answer::formless(kind, wants.as_deref(), &answer, handled),
                };
                if let Some(reason) = formless {
                    if let Some(showing) = &mut showing {
                        showing.lost();
                    }
                    output.counts.failed += 1;
                    self.bury_entry(stage, number, &reason.into(), output)?;
                    return self.send_answers(stage, output);
                }
                if let Some(showing) = &mut showing {
                    showing.end(&answer);
                }
                self.waiting[stage].change(number, |entry| {
                    entry.state = State::Answered(Box::new(answer));
                });
            }
            // The stage can do nothing without its own model.
            Err(error @ (ModelError::Closed | ModelError::Cancelled)) if !is_other => {
                return Err(FlowError::Model {
                    name: topology.stages[stage].name.clone(),
                    why: error.to_string(),
                });
            }
            Err(error) => {
                output.counts.failed += 1;
                // A caller's own deadline may be earlier.
                let called = topology.callers_of(self.partition.source).is_some();
                let refusal = Refusal {
                    reason: refusal(&error, kind.deadline.filter(|_| !called)),
                    error: Some(error),
                };
                self.bury_entry(stage, number, &refusal, output)?;
            }
        }
        self.send_answers(stage, output)
    }

    /// A waiting record ends as a dead letter.
    pub(crate) fn bury_entry(
        &mut self,
        stage: usize,
        number: u64,
        refusal: &Refusal,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let reason = refusal.reason.as_str();
        let Some(mut entry) = self.waiting[stage].remove(number) else {
            return Ok(());
        };
        let failed = Outcome::Failed(reason);
        output.audit_of(stage, &entry, failed)?;
        if let Some(showing) = &mut entry.showing {
            showing.lost();
        }
        // The one that ends here is an attempt too.
        let attempts = entry.attempt + 1;
        ModelFailed {
            stage,
            trace: output.traces.of_entry(&entry),
            attempt: attempts,
            again: false,
            reason,
        }
        .emit(&output.meters);
        output.finished.push((entry.arrived, 1));
        match entry.view() {
            None => Ok(()),
            Some(record) => output.bury(
                &record,
                &Death {
                    at: At::Stage(stage),
                    reason,
                    component: None,
                    backtrace: None,
                    attempts,
                    error: refusal.error.as_ref(),
                },
            ),
        }
    }

    /// Sends on every answered record that has nothing before it in its lane, in the order of arrival, until a stage
    /// after this one is full.
    pub(crate) fn send_answers(
        &mut self,
        stage: usize,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let topology = self.topology.clone();
        let StageKind::Model(kind) = &topology.stages[stage].kind else {
            return Ok(());
        };
        loop {
            self.answers_held[stage] = false;
            let ready: Vec<u64> = self.waiting[stage].answered().collect();
            if ready.is_empty() {
                return Ok(());
            }
            if self.is_held(stage, output) {
                self.answers_held[stage] = true;
                return Ok(());
            }
            // Those full, and one open for each output and way there, in the order in which outputs come up.
            let mut full: Vec<(Goes<'_>, BatchBuilder)> = Vec::new();
            let mut batches: Vec<(Goes<'_>, BatchBuilder)> = Vec::new();
            let mut oldest = Instant::now();
            for number in ready {
                // The rest goes in the next round.
                let bytes: usize = full.iter().chain(&batches).map(|(_, b)| b.bytes()).sum();
                if bytes > MAX_ANSWERS {
                    break;
                }
                let Some(mut entry) = self.waiting[stage].remove(number) else {
                    continue;
                };
                let State::Answered(answer) = std::mem::replace(&mut entry.state, State::Queued)
                else {
                    continue;
                };
                let answer: Arc<Answer> = answer.into();
                let Some(record) = entry.view() else {
                    continue;
                };
                let described = &topology.stages[stage].name;
                let heard = output.answered(record.id(), stage, &answer);
                let id = record.id();
                output.audit_of(stage, &entry, Outcome::Answered(&answer))?;
                let patch = crate::answer::patch(described, kind, &entry, &answer, heard, id);
                let mut bytes = Vec::new();
                patch.write(&mut bytes);
                let Ok(patch) = Patch::parse(&bytes) else {
                    continue;
                };
                let goes = (crate::answer::route(kind, &answer), entry.versions.clone());
                let at = match batches.iter().position(|(open, _)| *open == goes) {
                    Some(at) => at,
                    None => {
                        batches.push((goes.clone(), BatchBuilder::default()));
                        batches.len() - 1
                    }
                };
                let (_, batch) = &mut batches[at];
                let size = batch.bytes() + record.size() + patch.size();
                let over = batch.len() >= topology.batch || size > topology.batch_bytes;
                if over && !batch.is_empty() {
                    full.push((goes, std::mem::take(batch)));
                }
                let (_, batch) = &mut batches[at];
                oldest = oldest.min(entry.arrived);
                if let Err(full) = batch.push_patched(&record, &patch, record.id().emit) {
                    let reason = format!("the record with its answer: {full}");
                    self.bury(stage, &record, &reason, entry.attempt + 1, output)?;
                }
                ModelAnswered {
                    stage,
                    trace: output.traces.of_entry(&entry),
                    prompt_tokens: u64::from(answer.prompt_tokens),
                    tokens: crate::answer::tokens(&answer),
                    finish: crate::answer::finish(&answer),
                    queued: answer.timings.queued,
                    prefill: answer.timings.prefill,
                    decode: answer.timings.decode,
                }
                .emit(&output.meters);
                output.finished.push((entry.arrived, 1));
                self.has_left(stage, entry, answer);
            }
            for ((route, versions), builder) in full.into_iter().chain(batches) {
                if builder.is_empty() {
                    continue;
                }
                let targets = match (route, &kind.ask) {
                    (Some(label), Ask::Classify { routes, .. }) => &routes[label],
                    _ => &topology.stages[stage].targets,
                };
                self.send(
                    Some(stage),
                    targets,
                    (builder.finish(clock()), versions),
                    oldest,
                    output,
                )?;
            }
            self.advance(output)?;
        }
    }
}
