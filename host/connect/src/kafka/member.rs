//! The client by which a source is a member of its group, and what takes its place when its name is taken over.
//!
//! A broker that is lost while a member with a name joins may have let it join without telling: it asks again, gets its
//! place a second time, and is taken for one that was taken over by itself. librdkafka never gets over that.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::types::RDKafkaErrorCode;
use tidegate_contract::SourceError;
use tracing::warn;

use super::native::Messages;
use super::rebalance::Context;
use super::source::KafkaSource;

/// How often it takes its name back within [`SPAN`]: between two processes of one name that has an end.
const MOST: usize = 3;
const SPAN: Duration = Duration::from_secs(120);

/// The client that is a member now.
pub(super) struct Member(Mutex<Weak<BaseConsumer<Context>>>);

impl Member {
    /// Nobody, for now.
    pub(super) fn nobody() -> Arc<Member> {
        Arc::new(Member(Mutex::new(Weak::new())))
    }

    /// Whoever keeps it for a cut keeps that of the cut's tasks: a later one may have a generation in which they are
    /// others'.
    pub(super) fn now(&self) -> Weak<BaseConsumer<Context>> {
        let member = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Weak::clone(&member)
    }

    pub(super) fn becomes(&self, consumer: &Arc<BaseConsumer<Context>>) {
        let mut member = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *member = Arc::downgrade(consumer);
    }
}

impl KafkaSource {
    /// Why another has this member's name, if one has.
    pub(super) fn is_taken_over(&self) -> Option<String> {
        match self.consumer.client().fatal_error() {
            Some((RDKafkaErrorCode::FencedInstanceId, why)) => Some(why),
            _ => None,
        }
    }

    /// Has all partitions given up, and a new client take the name back; from another process not for ever.
    pub(super) fn take_name_back(&mut self, why: &str) -> Result<(), SourceError> {
        if !self.consumer.context().begin_anew() {
            return Ok(());
        }
        let now = Instant::now();
        self.taken_over.retain(|at| now.duration_since(*at) < SPAN);
        let instance = self.options.instance.as_deref().unwrap_or_default();
        // Brokers that were away are why, as long as they are; for how long that may be is their own matter.
        let by_another = !self.troubles.are_there();
        if by_another && self.taken_over.len() >= MOST {
            return Err(self.read_error(format!(
                "the name {instance} in group {} was taken over {} times in {} s, another process has it: {why}",
                self.options.group,
                MOST + 1,
                SPAN.as_secs(),
            )));
        }
        if by_another {
            self.taken_over.push(now);
        }
        warn!(
            place = self.place,
            instance, "another has this member's name, which is taken back: {why}"
        );
        Ok(())
    }

    /// Comes to the group with a new client.
    pub(super) fn come_anew(&mut self) -> Result<(), SourceError> {
        let consumer: KafkaResult<BaseConsumer<Context>> =
            self.config.create_with_context(Context::default());
        let consumer = consumer.map_err(|error| self.read_error(error))?;
        consumer
            .subscribe(&[&self.options.topic])
            .map_err(|error| self.read_error(error))?;
        let consumer = Arc::new(consumer);
        // What the old client fetched is let go before that client is.
        self.messages = Messages::new(Arc::clone(&consumer));
        self.member.becomes(&consumer);
        let taken_over = std::mem::replace(&mut self.consumer, consumer);
        taken_over.context().close();
        Ok(())
    }
}
