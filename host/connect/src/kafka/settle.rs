//! Which messages of a refused batch are at fault.

use rdkafka::producer::Producer as _;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::{RefusedRecord, SinkError};

use super::deliveries::{Returned, Sent, is_size, refusal};
use super::sink::KafkaSink;

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
            } else if let Some(mut message) = returned.pop() {
                // It may be the headers of the host that make it too large.
                if is_size(message.code) && self.leave_out(&mut message) {
                    groups.push(vec![message]);
                } else {
                    self.refuse(message)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a record had headers of the host; it has none any more.
    fn leave_out(&mut self, returned: &mut Returned) -> bool {
        match self.sent.get_mut(returned.number) {
            Some(Sent::Record { of_host, .. }) => returned.leave_out(std::mem::take(of_host)),
            _ => false,
        }
    }

    /// What a message stands for that is to be sent again, under another number.
    fn take_sent(&mut self, returned: &Returned) -> Sent {
        let sent = self.sent.get_mut(returned.number);
        sent.map(std::mem::take).unwrap_or_default()
    }

    fn send_again(&mut self, returned: Returned) -> Result<(), SinkError> {
        let sent = match self.take_sent(&returned) {
            Sent::Letter(mut letter) if self.target.rules.needs_key => {
                letter.key_by_place();
                return self.give_letter(*letter);
            }
            sent => sent,
        };
        self.send(returned.message(), sent)
    }

    /// A record is handed back. A dead letter is cut until it fits.
    fn refuse(&mut self, mut returned: Returned) -> Result<(), SinkError> {
        loop {
            let code = returned.code;
            let why = refusal(&self.target.options.topic, code, returned.key.is_some());
            let mut letter = match self.take_sent(&returned) {
                Sent::Record { id, .. } => {
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
            self.target.rules.needs_key |= invalid && returned.key.is_none();
            let keyed = invalid && letter.key_by_place();
            let may_fit = keyed || (is_size(code) && letter.shorten());
            if !may_fit {
                let bytes = returned.value.map_or(0, |value| value.len());
                return Err(self.target.write_error(format!(
                    "a dead letter of {bytes} bytes, cut as far as helps, was refused: {why}"
                )));
            }
            self.give_letter(*letter)?;
            self.drain()?;
            match self.producer.context().take_returned().pop() {
                Some(again) => returned = again,
                None => return Ok(()),
            }
        }
    }
}

/// Puts both halves on the stack, the first on top: messages keep their order.
pub(super) fn divide(groups: &mut Vec<Vec<Returned>>, mut returned: Vec<Returned>) {
    let second = returned.split_off(returned.len().div_ceil(2));
    let halves = [second, returned];
    groups.extend(halves.into_iter().filter(|half| !half.is_empty()));
}
