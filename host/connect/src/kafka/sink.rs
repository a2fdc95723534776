//! Writing to a topic, at least once.

use std::fmt;
use std::time::Instant;

use rdkafka::producer::{Producer as _, PurgeConfig};
use tidegate_contract::{DeadLetter, HostHeaders, RefusedRecord, Sink, SinkError, SinkPosition};
use tidegate_record::PublicRecord;

use super::client::Settings;
use super::deliveries::{Deliveries, NotTaken, Producer, Pushes, Sent, produce};
use super::letter::Letter;
use super::target::{KafkaSinkOptions, Message, Target, follow_topic, limit_batches, send_letter};

/// A topic as a sink. Records keep key, value, headers and event time; a null value is a tombstone.
///
/// What the broker refuses is known only when its answer comes: `flush` finds the messages at fault among those that
/// were in a batch with them.
pub struct KafkaSink {
    pub(super) target: Target,
    pub(super) producer: Producer,
    /// What the messages since the last flush stand for, by their numbers.
    pub(super) sent: Vec<Sent>,
    /// Bytes given to librdkafka since the last flush.
    pending: usize,
    pub(super) refused: Vec<RefusedRecord>,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("place", &self.target.place)
            .finish_non_exhaustive()
    }
}

impl KafkaSink {
    /// Connects. Waits for the brokers, as long as its patience lasts; a topic that does not exist is an error.
    pub fn open(options: KafkaSinkOptions) -> Result<KafkaSink, SinkError> {
        let place = Target::place_of(&options);
        let fail = |why: String| SinkError::Write {
            place: place.clone(),
            why,
        };
        let settings = Settings::writer(&options);
        let mut config = settings.config(&options.properties).map_err(fail)?;
        let target = Target::open(options, &config).map_err(fail)?;
        follow_topic(&mut config, target.rules.largest_batch);
        if let Some(largest) = target.rules.largest_batch {
            limit_batches(&mut config, largest);
        }
        let producer = config
            .create_with_context(Deliveries::default())
            .map_err(|error| fail(error.to_string()))?;
        Ok(KafkaSink {
            target,
            producer,
            sent: Vec::new(),
            pending: 0,
            refused: Vec::new(),
        })
    }

    fn check(&self) -> Result<(), SinkError> {
        match self.producer.context().take_failure() {
            Some(why) => Err(self.target.write_error(why)),
            None => Ok(()),
        }
    }

    /// Gives a message to librdkafka, waiting while its queue is full.
    pub(super) fn send(&mut self, message: Message<'_>, sent: Sent) -> Result<(), SinkError> {
        let bytes = message.on_its_way();
        if bytes > self.target.largest {
            return Err(self.target.too_large(bytes));
        }
        let options = &self.target.options;
        let number = self.sent.len();
        let given = produce(
            &self.producer,
            &options.topic,
            message,
            number,
            options.patience,
        );
        given.map_err(|why| match why {
            NotTaken::Full => self.target.full(),
            NotTaken::TooLarge => self.target.too_large(bytes),
            NotTaken::Undelivered(why) => self.target.write_error(why),
            NotTaken::Failed(error) => self.target.write_error(error.to_string()),
        })?;
        self.sent.push(sent);
        self.pending += bytes + 1;
        Ok(())
    }

    /// Gives a dead letter to librdkafka, as much of it as a message holds.
    pub(super) fn give_letter(&mut self, letter: Letter) -> Result<(), SinkError> {
        let place = self.target.place.clone();
        send_letter(&place, letter, |message, letter| {
            self.send(message, Sent::Letter(Box::new(letter.clone())))
        })
    }

    /// Waits until the brokers have answered for everything.
    pub(super) fn drain(&mut self) -> Result<(), SinkError> {
        let patience = self.target.options.patience;
        let deadline = Instant::now() + patience;
        let mut pushes = Pushes::new();
        loop {
            pushes.push(&self.producer);
            self.check()?;
            let in_flight = self.producer.in_flight_count();
            if in_flight == 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let patience = patience.as_secs();
                return Err(self.target.write_error(format!(
                    "{in_flight} records were not acknowledged within {patience} s"
                )));
            }
        }
    }
}

impl Sink for KafkaSink {
    fn settles_late(&self) -> bool {
        true
    }

    fn write(&mut self, record: PublicRecord<'_>, host: HostHeaders<'_>) -> Result<(), SinkError> {
        let (message, sent) = self.target.message(&record, host, self.target.largest)?;
        self.send(message, sent)
    }

    fn write_dead(&mut self, letter: &DeadLetter<'_>) -> Result<(), SinkError> {
        let letter = self.target.letter(letter);
        self.give_letter(letter)
    }

    fn pending(&self) -> usize {
        self.pending
    }

    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        self.drain()?;
        let returned = self.producer.context().take_returned();
        self.settle(returned)?;
        self.pending = 0;
        self.sent.clear();
        Ok(None)
    }

    fn discard(&mut self) {
        // What is with the brokers already is written; whatever they say of it is of no record that comes again.
        self.producer.purge(PurgeConfig::default().queue());
        if let Err(error) = self.drain() {
            self.producer.context().fail(error.to_string());
        }
        self.producer.context().take_returned();
        self.pending = 0;
        self.sent.clear();
    }

    fn take_refused(&mut self) -> Vec<RefusedRecord> {
        std::mem::take(&mut self.refused)
    }

    fn recover(&mut self, _known: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}
