//! The sink that answers: what the stages are done with is what the caller reads.

use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_contract::{CallerId, DeadLetter, HostHeaders, Sink, SinkError, SinkPosition};
use tidegate_record::{Origin, PublicRecord};

use super::{Failure, Patience, Requests, Written};

/// Follows the answer's name where all choices of it are.
const CHOICES: &str = "_choices";
/// The member that stages write vectors to where their `field` says nothing else.
const EMBEDDING: &str = "embedding";

/// How long a cut waits for answers to be kept. After that it goes on: after a kill they are made anew.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers at once. Nothing is pending but answers that are to outlive the process: a cut that lets go of their records
/// waits until they are kept.
pub struct GatewaySink {
    requests: Requests,
    unsettled: Vec<Patience>,
}

impl GatewaySink {
    pub(super) fn new(requests: Requests) -> GatewaySink {
        GatewaySink {
            requests,
            unsettled: Vec::new(),
        }
    }

    /// The answer in a record. What the model said, if it is the whole value, is one whatever it looks like.
    fn find(&self, record: &PublicRecord<'_>, said: Option<&str>) -> Option<Written> {
        let member = &self.requests.0.options.answer;
        let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
        let value = record.value().unwrap_or_default();
        if said.is_some_and(|said| !said.is_empty() && said.as_bytes() == value) {
            return Some(written(text(value), None));
        }
        match serde_json::from_slice(value) {
            Ok(Value::Object(mut object)) => {
                let choices = match object.remove(&format!("{member}{CHOICES}")) {
                    Some(Value::Array(choices)) => Some(choices),
                    _ => None,
                };
                if let Some(answer) = object.remove(member).or_else(|| object.remove(EMBEDDING)) {
                    return Some(written(answer, choices));
                }
            }
            // Not an object: a stage put its answer in the place of the value.
            _ if !value.is_empty() => return Some(written(text(value), None)),
            _ => {}
        }
        let header = record.headers().last(member)?.value?;
        Some(written(text(header), None))
    }
}

fn written(answer: Value, choices: Option<Vec<Value>>) -> Written {
    Written { answer, choices }
}

impl Sink for GatewaySink {
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        let id = record.id();
        // What a timer makes has the place of a record and is none of it.
        let caller = (id.origin == Origin::Source)
            .then(|| self.requests.caller(CallerId::from(id)))
            .flatten();
        let Some(caller) = caller else {
            return Ok(());
        };
        let said = caller.model_text();
        match self.find(&record, said.as_deref()) {
            Some(written) => {
                self.requests.forget(caller.id);
                let patience = caller.patience.clone();
                self.unsettled.extend(patience.filter(Patience::is_open));
                caller.answer(written);
            }
            // Another piece may still bring one.
            None => caller.came_without(),
        }
        Ok(())
    }

    /// Callers are told of their dead letters by `flow`.
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        Ok(())
    }

    fn pending(&self) -> usize {
        self.unsettled.len()
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        let until = Instant::now() + PATIENCE;
        for patience in self.unsettled.drain(..) {
            patience.wait_settled(until);
        }
        Ok(None)
    }

    fn discard(&mut self) {
        self.unsettled.clear();
    }

    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}

impl super::Caller {
    fn came_without(&self) {
        super::lock(&self.state).came_without = true;
    }

    /// A record that came to the gateway and brought nothing is the pipeline's mistake, not its judgement.
    pub(super) fn lacks(&self, why: Failure, member: &str) -> Failure {
        if why == Failure::NotAnswered && super::lock(&self.state).came_without {
            return Failure::NoAnswer {
                member: member.to_owned(),
            };
        }
        why
    }
}
