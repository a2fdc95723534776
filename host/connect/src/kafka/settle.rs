//! Which messages of a refused batch are at fault.

use rdkafka::producer::Producer;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::{RefusedRecord, SinkError};

use super::deliveries::{Returned, Sent};
use super::sink::{KafkaSink, Message};

impl KafkaSink {
    /// A batch is refused for what one of its messages is, or for being too large as a whole. What came back goes once
    /// more, in halves of halves; what is refused alone is itself at fault.
    pub(super) fn settle(&mut self, returned: Vec<Returned>) -> Result<(), SinkError> {
        let mut groups = Vec::new();
        divide(&mut groups, returned);
        while let Some(group) = groups.pop() {
            let alone = group.len() == 1;
            for message in group {
                self.send_again(message)?;
            }
            self.drain()?;
            let mut returned = self.producer.context().take_returned();
            if !alone {
                divide(&mut groups, returned);
            } else if let Some(message) = returned.pop() {
                self.refuse(message)?;
            }
        }
        Ok(())
    }

    fn send_again(&mut self, returned: Returned) -> Result<(), SinkError> {
        let sent = match returned.sent {
            Sent::Letter(mut letter) if self.rules.needs_key => {
                letter.key_by_place();
                return self.send_letter(*letter);
            }
            sent => sent,
        };
        let message = Message {
            key: returned.key.as_deref(),
            value: returned.value.as_deref(),
            millis: returned.millis,
            headers: returned.headers,
        };
        self.send(message, sent)
    }

    /// A record is handed back. A dead letter is cut until it fits.
    fn refuse(&mut self, mut returned: Returned) -> Result<(), SinkError> {
        loop {
            let code = returned.code;
            let why = refusal(&self.options.topic, code, returned.key.is_some());
            let mut letter = match returned.sent {
                Sent::Record(id) => {
                    self.refused.push(RefusedRecord {
                        id,
                        key: returned.key,
                        value: returned.value,
                        reason: why,
                    });
                    return Ok(());
                }
                Sent::Letter(letter) => letter,
            };
            // The topic may have become a compacted one, or does not tell. Then it keeps only the last letter of a key,
            // so letters with a key are not to go under it any more either.
            let invalid = code == RDKafkaErrorCode::InvalidRecord;
            self.rules.needs_key |= invalid && returned.key.is_none();
            let keyed = invalid && letter.key_by_place();
            let may_fit = keyed || (is_size(code) && letter.shorten());
            if !may_fit {
                let bytes = returned.value.map_or(0, |value| value.len());
                return Err(self.write_error(format!(
                    "a dead letter of {bytes} bytes, cut as far as helps, was refused: {why}"
                )));
            }
            self.send_letter(*letter)?;
            self.drain()?;
            match self.producer.context().take_returned().pop() {
                Some(again) => returned = again,
                None => return Ok(()),
            }
        }
    }
}

/// Puts both halves on the stack, the first on top: messages keep their order.
fn divide(groups: &mut Vec<Vec<Returned>>, mut returned: Vec<Returned>) {
    let second = returned.split_off(returned.len().div_ceil(2));
    let halves = [second, returned];
    groups.extend(halves.into_iter().filter(|half| !half.is_empty()));
}

/// Whether less of the message may help.
fn is_size(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::MessageSizeTooLarge | Code::MessageBatchTooLarge)
}

/// Why a message was refused, for a person.
fn refusal(topic: &str, code: RDKafkaErrorCode, has_key: bool) -> String {
    let why = match code {
        code if is_size(code) => "it is larger than the topic's max.message.bytes".to_owned(),
        RDKafkaErrorCode::InvalidRecord if !has_key => {
            format!("{code}; it has no key, and a compacted topic takes only records with one")
        }
        code => code.to_string(),
    };
    format!("topic {topic} refuses the record: {why}")
}
