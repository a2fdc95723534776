//! Giving models the records whose turn it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_contract::{Callers, ModelError, Partition, Request, RequestId};
use tidegate_record::{Origin, RecordId};

use super::begins::Begins;
use super::{MAX_SUBMITTED, TaskReply, Worker};
use crate::asked::{self, Asked, Refusal};
use crate::entry::{Entry, State, UNKNOWN_MODEL};
use crate::error::FlowError;
use crate::feeding::{self, Attempts, Fed};
use crate::handlers::{Handler, Handlers};
use crate::showing::{Of, Seen, Showing};
use crate::topology::{ModelStage, StageKind, Topology, Which};

impl Worker {
    /// Gives models the records whose turn it is, as far as models and limits take them.
    pub(super) fn submit(&mut self) -> Result<(), FlowError> {
        for (stage, request) in self.kept.expired(Instant::now()) {
            self.cancel(stage, request);
        }
        // Partitions take turns in being the first, so that a busy one does not take every place that comes free.
        self.turn = self.turn.wrapping_add(1);
        for stage in 0..self.shared.topology.stages.len() {
            let mut partitions = self.tasks.asking();
            let first = self.turn % partitions.len().max(1);
            partitions.rotate_left(first);
            // Where somebody waits, they are first.
            let topology = self.shared.topology.clone();
            partitions.sort_by_key(|partition| topology.callers_of(partition.source).is_none());
            for partition in partitions {
                let more = self.submit_stage(partition, stage);
                if let Some(mut task) = self.tasks.get_mut(partition) {
                    task.counts.add(std::mem::take(&mut self.output.counts));
                }
                if !more? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the model still takes requests.
    fn submit_stage(&mut self, partition: Partition, stage: usize) -> Result<bool, FlowError> {
        let topology = self.shared.topology.clone();
        let StageKind::Model(kind) = &topology.stages[stage].kind else {
            return Ok(true);
        };
        let Some(mut task) = self.tasks.get_mut(partition) else {
            return Ok(true);
        };
        // Models that take no more now: those for another one go past the records that wait for these.
        let mut full: Vec<Which> = Vec::new();
        let mut from = 0;
        while let Some(number) = task.waiting[stage].next_ready(from) {
            from = number + 1;
            if self.submitted >= MAX_SUBMITTED {
                return Ok(false);
            }
            let Some(entry) = task.waiting[stage].get(number) else {
                continue;
            };
            let which = entry.wants.as_ref().map(|wants| wants.which);
            if which.is_some_and(|which| full.contains(&which)) {
                continue;
            }
            // It is there where the model had no room when it was asked.
            let before = task.waiting[stage].take_asked(number);
            let Some(entry) = task.waiting[stage].get(number) else {
                continue;
            };
            let Some(record) = entry.view() else { continue };
            let id = record.id();
            let asked = match before {
                Some(asked) => Ok(asked),
                None => asked::asked(&topology, kind, entry, &record),
            };
            let asked = match asked {
                Ok(asked) => asked,
                Err(refusal) => {
                    task.bury_entry(stage, number, &refusal, &mut self.output)?;
                    task.send_answers(stage, &mut self.output)?;
                    continue;
                }
            };
            let which = asked.wants.as_ref().and_then(|wants| wants.which);
            let chosen = kind.chosen(which);
            if full.contains(&which) {
                task.waiting[stage].keep_asked(number, asked);
                continue;
            }
            let digest = chosen.model.facts().digest;
            if *entry.model != *digest && !task.goes_to(stage, number, &digest) {
                self.output.counts.requests += 1;
                self.output.counts.failed += 1;
                task.bury_entry(stage, number, &replaced(), &mut self.output)?;
                task.send_answers(stage, &mut self.output)?;
                continue;
            }
            let Some(entry) = task.waiting[stage].get(number) else {
                continue;
            };
            let identity = (partition, stage, entry.id);
            let question = || asked.canonical(kind, entry);
            let kept = self.kept.take(&identity, question, &digest);
            match kept {
                None => {}
                Some(Err(other)) => kind.cancel(RequestId(other)),
                Some(Ok(kept)) => {
                    let request = kept.request;
                    task.waiting[stage].change(number, |entry| {
                        (entry.prompt, entry.wants) = (asked.text, asked.wants);
                        entry.tokens = kept.tokens;
                        (entry.showing, entry.by) = (kept.showing, kept.by);
                        entry.fed = kept.fed;
                        entry.state = State::Submitted(request);
                    });
                    self.requests.insert(request, (partition, stage, number));
                    let output = &mut self.output;
                    let shown = match kept.answer {
                        // What came meanwhile woke nobody.
                        None => task.show(stage, number, output)?,
                        Some(answer) => task.on_answer(stage, number, request, answer, output)?,
                    };
                    drop(task);
                    self.shown(stage, request, shown);
                    let Some(again) = self.tasks.get_mut(partition) else {
                        return Ok(true);
                    };
                    task = again;
                    continue;
                }
            }
            let Some(handlers) = handlers_of(&mut self.handlers, &topology, kind, entry) else {
                // Nothing is shown past one that there is not.
                task.waiting[stage].keep_asked(number, asked);
                return Ok(false);
            };
            let callers = topology.callers_of(partition.source);
            let callers = callers.filter(|_| id.origin == Origin::Source);
            let terms = callers.and_then(|callers| callers.terms(id.into()));
            let is_heard = self.output.hearing.is_heard(stage, id.into());
            let seen = match (callers, &terms) {
                (Some(callers), Some(_)) if is_heard => {
                    let before = task.waiting[stage].showing(number);
                    let before = before.and_then(|showing| showing.as_mut()?.take_seen());
                    task.waiting[stage]
                        .get(number)
                        .and_then(|entry| listens(callers, entry, before, id))
                }
                _ => None,
            };
            let fed = match task.waiting[stage].get(number) {
                Some(entry) if !kind.token_feeds.is_empty() => fed(
                    kind,
                    &topology.stages[stage].name,
                    entry,
                    &self.shared.attempts,
                ),
                _ => None,
            };
            let attempt_fed = fed.as_ref().map(Fed::attempt);
            let made = task.waiting[stage].get(number);
            let made = made.map_or_else(Vec::new, |entry| entry.tokens.to_vec());
            let tally = match (callers, &terms, task.waiting[stage].get(number)) {
                (Some(callers), Some(_), Some(entry)) => {
                    let made = u32::try_from(made.len()).unwrap_or(u32::MAX);
                    callers.tally(id.into(), entry.attempt + 1, made)
                }
                _ => None,
            };
            let is_shown = seen.is_some() || fed.is_some() || !handlers.is_empty();
            let showing = is_shown.then(|| {
                let of = Of {
                    record: id.to_string(),
                    model: chosen.name.to_owned(),
                    attributes: attributes(task.waiting[stage].get(number), !handlers.is_empty()),
                };
                let parameters = asked::parameters(kind, asked.wants.as_deref());
                let choices = parameters.map_or(1, |parameters| parameters.n);
                Box::new(Showing::new(of, choices, handlers, seen, fed))
            });
            let pieces = showing.as_ref().map(|showing| showing.pieces());
            if let Some(place) = task.waiting[stage].showing(number) {
                *place = showing;
            }
            let Some(entry) = task.waiting[stage].get(number) else {
                continue;
            };
            let request = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
            let traceparent = match chosen.model.is_remote() {
                true => self.output.traces.traceparent(stage, entry),
                false => None,
            };
            let reply = TaskReply {
                traceparent,
                sender: self.sender.clone(),
                request,
                tokens: entry.tokens.clone(),
                pieces,
                tally: tally.clone(),
                begins: Begins::new(&topology, id, terms.is_some(), chosen.name),
                meters: self.output.meters.clone(),
            };
            let attempt = entry.attempt + 1;
            let submitted = Instant::now();
            let own_deadline = terms.and_then(|terms| terms.deadline);
            let deadline = kind.deadline.map(|deadline| Instant::now() + deadline);
            let until = own_deadline.filter(|own| deadline.is_none_or(|of_stage| *own <= of_stage));
            let (text, wants) = (asked.text.clone(), asked.wants.clone());
            let result = chosen.model.submit(Request {
                id: RequestId(request),
                attempt,
                seed: asked::seed(kind, wants.as_deref(), id),
                task: asked.going_on(made),
                class: kind.class(terms.map(|terms| terms.class)),
                deadline: own_deadline.into_iter().chain(deadline).min(),
                reply: Box::new(reply),
            });
            // Replaced just now: which of the two has it is not known, and neither is whose tokens will come.
            let facts = chosen.model.facts();
            let replaced = facts.digest != digest;
            match result {
                Ok(()) => {
                    self.submitted += 1;
                    if let Some(tally) = tally {
                        tally.asked();
                    }
                    self.requests.insert(request, (partition, stage, number));
                    task.waiting[stage].change(number, |entry| {
                        (entry.prompt, entry.wants) = (text, wants);
                        entry.state = State::Submitted(request);
                        entry.fed = attempt_fed.unwrap_or(entry.fed);
                        entry.until = until;
                        entry.submitted = Some(submitted);
                        entry.by.adapter = facts.adapter.into();
                        if replaced {
                            entry.model = UNKNOWN_MODEL.into();
                        }
                    });
                }
                // No room, or unloaded: it may come back.
                Err((given_back, ModelError::Full { .. } | ModelError::Unknown(_))) => {
                    let asked = Asked {
                        text,
                        task: given_back.task,
                        wants,
                    };
                    task.waiting[stage].keep_asked(number, asked);
                    full.push(which);
                    if full.len() > kind.alternatives.len() {
                        return Ok(false);
                    }
                }
                // The stage can do nothing without its own model.
                Err((_, error @ ModelError::Closed)) if which.is_none() => {
                    return Err(FlowError::Model {
                        name: topology.stages[stage].name.clone(),
                        why: error.to_string(),
                    });
                }
                Err((_, error)) => {
                    let is_closed = error == ModelError::Closed;
                    if is_closed && task.ask_again(kind, stage, number, &error, &mut self.output) {
                        from = number;
                        continue;
                    }
                    self.output.counts.requests += 1;
                    self.output.counts.failed += 1;
                    task.bury_entry(stage, number, &error.into(), &mut self.output)?;
                    task.send_answers(stage, &mut self.output)?;
                }
            }
        }
        Ok(true)
    }
}

/// The handlers of an entry's answer: those it began with, where somebody has seen what they let through and it goes on,
/// or else those of the versions that run. None where one of these cannot be had now.
fn handlers_of(
    handlers: &mut Handlers,
    topology: &Topology,
    kind: &ModelStage,
    entry: &Entry,
) -> Option<Vec<Arc<Handler>>> {
    let before = entry.showing.as_ref();
    if let Some(kept) = before.and_then(|showing| showing.kept_handlers(entry)) {
        return Some(kept.to_vec());
    }
    let operators = (kind.tokens.iter()).filter_map(|of| match &topology.stages[*of].kind {
        StageKind::Operator(operator) => Some((*of, operator)),
        StageKind::Model(_) => None,
    });
    operators
        .map(|(of, operator)| handlers.of(of, operator.slot.as_ref()))
        .collect()
}

/// Another model is asked from now on, and somebody was shown an answer of the one before.
fn replaced() -> Refusal {
    let reason = "the model was replaced after a part of its answer was shown";
    reason.to_owned().into()
}

/// What feeds are sent of the attempt that begins.
fn fed(kind: &ModelStage, stage: &str, entry: &Entry, attempts: &Attempts) -> Option<Fed> {
    let record = entry.view()?;
    let key = record.key().and_then(|key| std::str::from_utf8(key).ok());
    Some(Fed::new(
        &kind.token_feeds,
        feeding::request(stage, &record, entry.id),
        key.map(str::to_owned),
        attempts.next(entry.fed),
    ))
}

/// Whoever sees the answer of an entry: as before, if the same attempt goes on, or anew.
fn listens(
    callers: &dyn Callers,
    entry: &Entry,
    before: Option<Seen>,
    id: RecordId,
) -> Option<Seen> {
    let last = before.as_ref().map_or(0, |seen| seen.attempt);
    if let Some(seen) = before
        && seen.continues(entry)
    {
        return Some(seen);
    }
    let attempt = (entry.attempt + 1).max(last + 1);
    let listener = callers.listen(id.into(), attempt)?;
    Some(Seen::new(
        listener,
        attempt,
        entry.model.clone(),
        entry.attempt,
    ))
}

/// What handlers are told of a record's attributes, if there are handlers.
fn attributes(entry: Option<&Entry>, wanted: bool) -> Vec<(String, Vec<u8>)> {
    let record = entry.filter(|_| wanted).and_then(Entry::view);
    let pairs = record.into_iter().flat_map(|record| record.attributes());
    pairs
        .map(|pair| {
            let value = pair.value.unwrap_or_default().to_vec();
            (pair.name.to_owned(), value)
        })
        .collect()
}
