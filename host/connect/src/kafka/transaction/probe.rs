//! Which messages of an aborted transaction are at fault: sent again, in halves of halves, in transactions that are
//! always aborted, so that nobody sees them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::producer::Producer as _;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::RefusedRecord;

use super::super::deliveries::{
    NotTaken, Producer, Returned, Sent, is_of_the_message, is_size, produce, refusal,
};
use super::super::letter::Letter;
use super::super::settle::divide;
use super::super::target::Message;
use super::courier::{Undelivered, deliver_all};
use super::line::Line;
use super::outbox::{Destination, Load, Stub};

/// How long one such transaction may take.
const TIME: Duration = Duration::from_secs(8);
/// After so long, or with so many, the search ends with what it has: the rest is found when the cut is tried again.
const SEARCH: Duration = Duration::from_secs(20);
const MOST: usize = 1000;
/// Smallest piece of an entry that is tried.
const SMALLEST_PIECE: usize = 256;

/// Why the records at fault were not all found.
pub(super) enum Unfound {
    /// The brokers did not take what was tried: another time they may.
    Undelivered(String),
    /// Something cannot be written at all, or there are no brokers any more.
    Hopeless(String),
}

/// Finds the records at fault, each with the name of its sink. Where there are none although messages were refused,
/// batches are smaller from now on; what is learnt of dead letters and of pieces of entries is kept with their topics.
pub(super) fn find(
    line: &mut Line,
    producer: &mut Arc<Producer>,
    destinations: &[Destination],
    load: &Load,
    returned: Vec<Returned>,
    refused: &mut Vec<(String, RefusedRecord)>,
) -> Result<(), Unfound> {
    // A topic may take less than it told when it was opened.
    let sizes = returned.iter().any(|message| is_size(message.code));
    let mut learnt = sizes && line.ask_limits(destinations);
    if learnt {
        reconnect(line, producer)?;
    }
    let mut groups = Vec::new();
    divide(&mut groups, returned);
    let began = Instant::now();
    while let Some(group) = groups.pop() {
        if !refused.is_empty() && (began.elapsed() >= SEARCH || refused.len() >= MOST) {
            break;
        }
        let mut probe = Probe {
            line,
            producer,
            destinations,
            load,
        };
        let alone = group.len() == 1;
        let back = probe.send(&group)?;
        if !alone {
            divide(&mut groups, back);
            continue;
        }
        let Some(message) = back.into_iter().find(is_at_fault) else {
            continue;
        };
        match probe.fault(message)? {
            Some(record) => refused.push(record),
            None => learnt = true,
        }
    }
    if refused.is_empty() && !learnt {
        // Each is taken alone: a batch of them was too large.
        line.halve_batches();
        reconnect(line, producer)?;
    }
    Ok(())
}

fn is_at_fault(message: &Returned) -> bool {
    is_of_the_message(message.code)
}

/// A new producer in place of the old one.
fn reconnect(line: &Line, producer: &mut Arc<Producer>) -> Result<(), Unfound> {
    *producer = line.connect().map_err(Unfound::Hopeless)?;
    Ok(())
}

struct Probe<'a> {
    line: &'a Line,
    producer: &'a mut Arc<Producer>,
    destinations: &'a [Destination],
    load: &'a Load,
}

impl Probe<'_> {
    fn stub(&self, number: usize) -> Result<(&Stub, &Destination), Unfound> {
        let stub = self.load.stub(number);
        let found = stub.and_then(|stub| {
            let destination = self.destinations.get(usize::from(stub.to))?;
            Some((stub, destination))
        });
        found.ok_or_else(|| Unfound::Hopeless(format!("message {number} is unknown")))
    }

    fn begin(&self) -> Result<(), Unfound> {
        let begun = self.producer.begin_transaction();
        begun.map_err(|error| Unfound::Undelivered(error.to_string()))
    }

    /// Sends these messages in a transaction and aborts it: those that were refused, or taken back behind a refused one.
    fn send(&mut self, group: &[Returned]) -> Result<Vec<Returned>, Unfound> {
        self.begin()?;
        for message in group {
            let (_, destination) = self.stub(message.number)?;
            let given = self.give(destination, message.message(), message.number);
            match given {
                Ok(()) => {}
                // The transaction has failed already, for one before this: it is taken for taken back.
                // Neither where the queue stays full: those before it are not delivered.
                Err(NotTaken::Failed(_) | NotTaken::Undelivered(_) | NotTaken::Full) => break,
                Err(why @ NotTaken::TooLarge) => {
                    let why = format!("cannot try a refused record again: {why:?}");
                    return Err(Unfound::Hopeless(why));
                }
            }
        }
        self.end()
    }

    fn give(
        &self,
        destination: &Destination,
        message: Message<'_>,
        number: usize,
    ) -> Result<(), NotTaken> {
        produce(self.producer, &destination.topic, message, number, TIME)
    }

    /// Waits for the messages of the open transaction and aborts it.
    fn end(&mut self) -> Result<Vec<Returned>, Unfound> {
        let delivered = deliver_all(self.producer, Instant::now() + TIME);
        let aborted = self.line.abort(self.producer);
        let returned = self.producer.context().take_returned();
        self.producer.context().take_failure();
        if !aborted {
            reconnect(self.line, self.producer)?;
        }
        match delivered {
            Err(Undelivered::Failed(why)) if returned.is_empty() => Err(Unfound::Undelivered(why)),
            _ => Ok(returned),
        }
    }

    /// What follows of a message that is refused alone: the record, or none where something was learnt of the topic.
    fn fault(&mut self, mut message: Returned) -> Result<Option<(String, RefusedRecord)>, Unfound> {
        let (stub, destination) = self.stub(message.number)?;
        let (destination, sink) = (destination.clone(), destination.sink.clone());
        match (&stub.sent, sink) {
            (Some(Sent::Record { id, of_host }), Some(sink)) => {
                let (id, of_host) = (*id, *of_host);
                let with_host = message.message().on_its_way();
                // It may be the headers of the host that make it too large.
                if is_size(message.code) && message.leave_out(of_host) {
                    let back = self.send(std::slice::from_ref(&message))?;
                    match back.into_iter().find(is_at_fault) {
                        Some(again) => message = again,
                        None => {
                            destination.learnt.no_host_headers_at(with_host);
                            return Ok(None);
                        }
                    }
                }
                let why = refusal(&destination.topic, message.code, message.key.is_some());
                if message.code == RDKafkaErrorCode::InvalidRecord && message.key.is_none() {
                    destination.learnt.takes_only_keys();
                }
                Ok(Some((
                    sink,
                    RefusedRecord {
                        id,
                        key: message.key,
                        value: message.value,
                        reason: why,
                    },
                )))
            }
            (Some(Sent::Letter(letter)), _) => {
                let letter = letter.as_ref().clone();
                self.shorten(&destination, letter, message)?;
                Ok(None)
            }
            _ => {
                let bytes = message.value.as_ref().map_or(0, Vec::len);
                let smaller = bytes / 2;
                if !is_size(message.code) || smaller < SMALLEST_PIECE {
                    let why = refusal(&destination.topic, message.code, message.key.is_some());
                    let why = format!("what waits cannot be kept: {why}");
                    return Err(Unfound::Hopeless(why));
                }
                destination.learnt.at_most(smaller);
                Ok(None)
            }
        }
    }

    /// Finds out how a dead letter must be for the topic to take it, for this one and all later ones.
    fn shorten(
        &mut self,
        destination: &Destination,
        mut letter: Letter,
        mut refused: Returned,
    ) -> Result<(), Unfound> {
        loop {
            let invalid = refused.code == RDKafkaErrorCode::InvalidRecord;
            if invalid && refused.key.is_none() {
                destination.learnt.takes_only_keys();
            }
            let keyed = invalid && letter.key_by_place();
            let size = is_size(refused.code);
            if size {
                let bytes = refused.message().on_its_way();
                destination.learnt.at_most(bytes.saturating_sub(1));
            }
            let may_fit = keyed || (size && letter.shorten());
            if !may_fit {
                let why = refusal(&destination.topic, refused.code, refused.key.is_some());
                let bytes = refused.value.map_or(0, |value| value.len());
                return Err(Unfound::Hopeless(format!(
                    "a dead letter of {bytes} bytes, cut as far as helps, was refused: {why}"
                )));
            }
            let number = refused.number;
            self.begin()?;
            let written = letter.write();
            let message = Message {
                key: written.key.as_deref(),
                value: Some(&written.value),
                millis: None,
                headers: Some(written.headers),
                partition: None,
            };
            match self.give(destination, message, number) {
                Ok(()) => {}
                Err(NotTaken::Failed(_) | NotTaken::Undelivered(_) | NotTaken::Full) => {
                    self.end()?;
                    let why = "a dead letter was not taken for another try".to_owned();
                    return Err(Unfound::Undelivered(why));
                }
                Err(why @ NotTaken::TooLarge) => {
                    let why = format!("cannot try a dead letter again: {why:?}");
                    return Err(Unfound::Hopeless(why));
                }
            }
            match self.end()?.into_iter().find(is_at_fault) {
                Some(again) => refused = again,
                None => return Ok(()),
            }
        }
    }
}
