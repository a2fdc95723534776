//! An operator stage: a batch in, its outcomes out to where they go, record by record.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::{Became, OperatorVersion, Processed};
use tidegate_record::{Batch, Outcome, OutcomesView, RecordView};
use tidegate_telemetry::events::{BatchProcessed, InstanceLost, RecordPutOff};
use tidegate_telemetry::plain;

use super::Task;
use super::collected::{Collected, Fate, REASON_BYTES};
use super::inbox::Untaken;
use crate::error::FlowError;
use crate::hearing::At;
use crate::output::{Death, Output};
use crate::topology::{Order, StageKind, Target};
use crate::traced::Batched;
use crate::versions::Versions;
use crate::waiting::lane;

/// An operator's answer to a batch.
pub(crate) struct Answered {
    processed: Vec<Processed>,
    /// How many records it is for, from the first; the others the operator has not been given.
    tried: usize,
    version: Arc<OperatorVersion>,
    /// That one, after those that the records went through before.
    versions: Versions,
    /// Who takes each output.
    routes: Arc<[Vec<Target>]>,
}

/// Why a record comes to its operator again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The operator wants to see it again after so many milliseconds.
    After(u32),
    /// It is held behind one of its lane.
    Behind,
}

impl Task {
    /// Runs an operator over a batch and takes its answer as far as that is due: what it makes of the rest comes when
    /// the stages after it have taken what there is. What it has not been given comes to it with its next turn.
    pub(super) fn operate(
        &mut self,
        stage: usize,
        untaken: &mut Untaken,
        output: &mut Output,
    ) -> Result<(), FlowError> {
        let began = Instant::now();
        let mut answered = match untaken.answered.take() {
            Some(answered) => answered,
            None => {
                let came = (&untaken.batch, &untaken.versions);
                let free = self.hold_back(stage, came, untaken.since, output)?;
                if let Some(free) = free {
                    untaken.keep_only(free);
                }
                if untaken.batch.is_empty() {
                    return Ok(());
                }
                let came = (&untaken.batch, &untaken.versions);
                match self.ask_operator(stage, came, 1, output) {
                    Some(answered) => answered,
                    // It stays here until the stage has an instance.
                    None => return Ok(()),
                }
            }
        };
        let (batch, from) = (&untaken.batch, untaken.taken);
        let go = Go {
            stage,
            batch,
            from,
            attempt: 1,
            again: false,
            rest: std::mem::replace(&mut untaken.begun, true),
            since: untaken.since,
            began,
        };
        let (taken, again) = self.take_answer(&go, &mut answered, output)?;
        self.keep(
            stage,
            (batch, &untaken.versions),
            again,
            untaken.since,
            output,
        )?;
        let tried = answered.tried;
        untaken.take(taken);
        if untaken.taken < tried {
            untaken.answered = Some(answered);
        } else {
            untaken.cut_off_taken();
        }
        Ok(())
    }

    /// Has the operator of a stage answer for a batch; none if it has no instance and none can be started now.
    pub(super) fn ask_operator(
        &mut self,
        stage: usize,
        (batch, came): (&Batch, &Versions),
        attempt: u32,
        output: &Output,
    ) -> Option<Answered> {
        let call = output.pulse.calls(stage);
        let ready = self.ready(stage);
        let began = Instant::now();
        let processed = match (ready, &mut self.operators[stage]) {
            (Ok(()), Some(instance)) => {
                if let (Some(called), StageKind::Operator(kind)) =
                    (&self.topology.callers, &self.topology.stages[stage].kind)
                    && instance.generation != kind.slot.generation()
                {
                    called.outdated.count();
                }
                let processed = instance.operator.process(batch);
                if let Some(meters) = output.meters.stages().get(stage) {
                    meters.time.observe(began.elapsed());
                }
                for lost in instance.operator.take_losses() {
                    let version = instance.operator.version();
                    InstanceLost {
                        stage,
                        version: &version.version,
                        digest: &version.digest,
                        records: lost.records,
                        reason: &lost.reason,
                    }
                    .emit(&output.meters);
                }
                processed.map_err(|error| {
                    let why = error.to_string();
                    let cost = began.elapsed();
                    self.starts.failed(stage, instance.generation, cost, &why);
                    why
                })
            }
            (Ok(()), None) => Err("it has no instance".to_owned()),
            (Err(why), _) => Err(why),
        };
        drop(call);
        match &processed {
            Err(why) => self.suspend(stage, why, &output.meters),
            Ok(_) => self.resume(stage, &output.meters),
        }
        let (Ok(processed), Some(instance)) = (processed, &mut self.operators[stage]) else {
            return None;
        };
        let answered = Answered {
            tried: tried(&processed).unwrap_or(batch.len()),
            processed,
            version: instance.operator.version().clone(),
            versions: instance.adds.to(came),
            routes: instance.routes.clone(),
        };
        let mut traced = output.traces.of_batch(batch);
        traced.retain(|(index, _)| *index < answered.tried);
        if !traced.is_empty() {
            let batched = Batched {
                stage,
                batch,
                version: &answered.version,
                traced: &traced,
                attempt,
                began,
                ended: Instant::now(),
            };
            (output.traces).operated(&batched, |index| answered.word(index));
        }
        Some(answered)
    }

    /// Sends on what an operator made of a batch, from one of its records on, until that is as much as a batch may
    /// have. Returns how many records were taken, all that it was given or fewer, and which of them must come again.
    pub(super) fn take_answer(
        &mut self,
        go: &Go<'_>,
        answered: &mut Answered,
        output: &mut Output,
    ) -> Result<(usize, Vec<(usize, Again)>), FlowError> {
        let topology = self.topology.clone();
        let (stage, batch, from) = (go.stage, go.batch, go.from);
        let StageKind::Operator(kind) = &topology.stages[stage].kind else {
            return Ok((batch.len(), Vec::new()));
        };
        let routes = answered.routes.clone();
        if from == 0 && answered.all_pass(batch.len()) {
            let records = batch.len() as u64;
            BatchProcessed {
                stage,
                rest: go.rest,
                records,
                output: records,
                time: go.began.elapsed(),
                ..BatchProcessed::default()
            }
            .emit(&output.meters);
            answered.accept(0..batch.len());
            let main = routes.first().map_or(&[][..], Vec::as_slice);
            let on = (batch.clone(), answered.versions.clone());
            self.send(Some(stage), main, on, go.since, output)?;
            return Ok((batch.len(), Vec::new()));
        }
        let version = answered.version.clone();
        let view = batch.view();
        let mut collected = Collected::new(routes.len(), topology.batch, topology.batch_bytes);
        let mut again = Vec::new();
        let mut blocked = HashSet::new();
        let dead = |record: &RecordView<'_>, reason: &str, backtrace, output: &mut Output| {
            output.bury(
                record,
                &Death {
                    at: At::Stage(stage),
                    reason,
                    component: Some(&version.digest),
                    backtrace,
                    attempts: go.attempt,
                    error: None,
                },
            )
        };
        let mut taken = 0;
        let mut accepted = Vec::new();
        let is_called = topology.callers_of(self.partition.source).is_some();
        let none_waits = self.waiting[stage].is_empty();
        for (index, verdict) in answered.verdicts(answered.tried).enumerate().skip(from) {
            if taken > 0 && collected.bytes >= topology.batch_bytes {
                break;
            }
            taken += 1;
            let Some(record) = view.get(index) else {
                continue;
            };
            let outcome = match verdict {
                Verdict::Outcome(outcome) => outcome,
                Verdict::Poison { reason, backtrace } => {
                    dead(&record, reason, backtrace, output)?;
                    continue;
                }
                Verdict::BadAnswer(reason) => {
                    dead(&record, &reason, None, output)?;
                    continue;
                }
            };
            // A record that comes again stands in its lane itself.
            let is_free = go.again || (none_waits && blocked.is_empty());
            if !is_free {
                let own = lane(Order::Key, &record, 0);
                if blocked.contains(&own) || self.waiting[stage].blocks(own) {
                    again.push((index, Again::Behind));
                    continue;
                }
            }
            let (dropped, split) = (collected.dropped, collected.split);
            let fate = collected.take(&record, &outcome);
            if is_called {
                // Before any piece has an end.
                let more = (collected.split - split) as usize;
                if more > 0 {
                    output.multiplied(record.id(), At::Stage(stage), more + 1);
                }
                if collected.dropped > dropped {
                    let name = &topology.stages[stage].name;
                    let dropped = Became::Dropped { stage: name };
                    output.tell(record.id(), At::Stage(stage), &dropped);
                }
            }
            match fate {
                Fate::Gone => accepted.push(index),
                Fate::Dead(reason) if matches!(outcome, Outcome::DeadLetter { .. }) => {
                    accepted.push(index);
                    dead(&record, &reason, None, output)?;
                }
                Fate::Dead(reason) => dead(&record, &reason, None, output)?,
                Fate::Retry { reason, .. } if go.attempt > kind.retries => {
                    let reason = format!(
                        "operator asked to retry {} times, the limit is {}: {}",
                        go.attempt,
                        kind.retries,
                        plain(reason, REASON_BYTES)
                    );
                    dead(&record, &reason, None, output)?;
                }
                Fate::Retry { delay_ms, reason } => {
                    RecordPutOff { stage, reason }.emit(&output.meters);
                    again.push((index, Again::After(delay_ms)));
                    if record.key().is_some() {
                        blocked.insert(lane(Order::Key, &record, 0));
                    }
                    output.counts.retried += 1;
                }
            }
        }
        answered.accept(accepted);
        output.counts.dropped += collected.dropped;
        output.counts.split += collected.split;
        BatchProcessed {
            stage,
            rest: go.rest,
            records: taken as u64,
            output: collected.records,
            dropped: collected.dropped,
            retried: again
                .iter()
                .filter(|(_, again)| matches!(again, Again::After(_)))
                .count() as u64,
            split: collected.split,
            time: go.began.elapsed(),
        }
        .emit(&output.meters);
        for (route, builder) in collected.finish() {
            let on = (builder.finish(view.clock()), answered.versions.clone());
            self.send(Some(stage), &routes[route], on, go.since, output)?;
        }
        Ok((taken, again))
    }
}

/// What of an answer is to be taken.
pub(super) struct Go<'a> {
    pub stage: usize,
    /// What the operator was given.
    pub batch: &'a Batch,
    /// Index of the first record to be taken.
    pub from: usize,
    /// Counted from 1.
    pub attempt: u32,
    /// Whether the record waited in the stage.
    pub again: bool,
    /// Whether more of its batch was counted before.
    pub rest: bool,
    /// When its records were read.
    pub since: Instant,
    pub began: Instant,
}

/// What an operator said of a record.
enum Verdict<'a> {
    Outcome(Outcome<'a>),
    /// It could not answer for it.
    Poison {
        reason: &'a str,
        backtrace: Option<&'a str>,
    },
    /// What it said cannot be understood.
    BadAnswer(String),
}

/// How many records an operator has been given, if not all.
fn tried(processed: &[Processed]) -> Option<usize> {
    let untried = processed.iter().filter_map(|part| match part {
        Processed::Untried { first, .. } => Some(*first),
        _ => None,
    });
    untried.min()
}

impl Answered {
    fn outputs(&self) -> u16 {
        self.routes.len().saturating_sub(1) as u16
    }

    /// What the outcomes of these records cause beside counts now; they ascend. One walk over both: a batch may have as
    /// many parts as records.
    fn accept(&mut self, records: impl IntoIterator<Item = usize>) {
        let mut parts: Vec<_> = self
            .processed
            .iter_mut()
            .filter_map(|part| match part {
                Processed::Answer {
                    first,
                    count,
                    effects: Some(effects),
                    ..
                } => Some((*first, *count, effects)),
                _ => None,
            })
            .collect();
        parts.sort_by_key(|(first, ..)| *first);
        let mut parts = parts.into_iter().peekable();
        if parts.peek().is_none() {
            return;
        }
        for record in records {
            while parts
                .next_if(|(first, count, _)| first + count <= record)
                .is_some()
            {}
            match parts.peek_mut() {
                Some((first, _, effects)) if *first <= record => effects.accept(record - *first),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Whether every record goes on as it is, so that the batch itself is the result.
    fn all_pass(&self, records: usize) -> bool {
        match self.processed.as_slice() {
            [
                Processed::Answer {
                    first: 0,
                    count,
                    outcomes,
                    ..
                },
            ] if *count == records => OutcomesView::parse(outcomes, records, self.outputs())
                .is_ok_and(|outcomes| outcomes.all_pass()),
            _ => false,
        }
    }

    /// What it says of a record, in a word.
    fn word(&self, record: usize) -> &'static str {
        let said = self.processed.iter().find_map(|part| match part {
            Processed::Answer {
                first,
                count,
                outcomes,
                ..
            } => {
                let index = record.checked_sub(*first).filter(|index| index < count)?;
                OutcomesView::word(outcomes, index)
            }
            _ => None,
        });
        said.unwrap_or("failed")
    }

    /// One for each record, made when it is asked for: the pieces of all splits together are far more than the answer.
    fn verdicts(&self, records: usize) -> impl Iterator<Item = Verdict<'_>> {
        let first = |part: &&Processed| match part {
            Processed::Poison(cause) => cause.record,
            Processed::Answer { first, .. } | Processed::Untried { first, .. } => *first,
        };
        let mut parts: Vec<&Processed> = self.processed.iter().collect();
        parts.sort_by_key(first);
        let outputs = self.outputs();
        let mut said = parts
            .into_iter()
            .flat_map(move |part| verdicts_of(part, outputs))
            .peekable();
        (0..records).map(move |record| {
            while said.next_if(|(index, _)| *index < record).is_some() {}
            match said.next_if(|(index, _)| *index == record) {
                Some((_, verdict)) => verdict,
                None => Verdict::BadAnswer("operator did not answer for this record".to_owned()),
            }
        })
    }
}

/// What a part of an answer says, by index of the record.
fn verdicts_of(
    part: &Processed,
    outputs: u16,
) -> Box<dyn Iterator<Item = (usize, Verdict<'_>)> + '_> {
    match part {
        Processed::Poison(cause) => {
            let (reason, backtrace) = (cause.reason.as_str(), cause.backtrace.as_deref());
            Box::new(std::iter::once((
                cause.record,
                Verdict::Poison { reason, backtrace },
            )))
        }
        // Those have no verdict, and none is asked for.
        Processed::Untried { .. } => Box::new(std::iter::empty()),
        Processed::Answer {
            first,
            count,
            outcomes,
            ..
        } => match OutcomesView::parse(outcomes, *count, outputs) {
            Ok(outcomes) => Box::new((*first..).zip(outcomes.iter().map(Verdict::Outcome))),
            Err(error) => {
                let indexes = (*first..).take(*count);
                Box::new(indexes.map(move |at| (at, Verdict::BadAnswer(error.to_string()))))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tidegate_contract::Effects;
    use tidegate_record::Fields;

    use super::*;

    /// Remembers what was accepted, by the part's name.
    #[derive(Debug)]
    struct Told(char, Arc<Mutex<Vec<(char, usize)>>>);

    impl Effects for Told {
        fn accept(&mut self, record: usize) {
            self.1.lock().unwrap().push((self.0, record));
        }
    }

    #[test]
    fn each_part_of_an_answer_is_told_of_its_own_records_that_were_accepted() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let part = |name: Option<char>, first, count| Processed::Answer {
            first,
            count,
            outcomes: Vec::new(),
            effects: name.map(|name| Box::new(Told(name, told.clone())) as Box<dyn Effects>),
        };
        let mut answered = Answered {
            processed: vec![
                part(Some('c'), 7, 2),
                part(Some('a'), 0, 2),
                part(None, 2, 1),
                part(Some('b'), 4, 3),
            ],
            tried: 9,
            version: Arc::new(OperatorVersion {
                name: String::new(),
                version: String::new(),
                digest: String::new(),
                reads: Fields::NONE,
                outputs: Vec::new(),
                revision: Default::default(),
            }),
            versions: Versions::default(),
            routes: Vec::new().into(),
        };
        answered.accept([1, 2, 3, 4, 6]);
        // What is taken later goes on where that ended.
        answered.accept([8, 9]);
        let expected = [('a', 1), ('b', 0), ('b', 2), ('c', 1)];
        assert_eq!(*told.lock().unwrap(), expected);
    }
}
