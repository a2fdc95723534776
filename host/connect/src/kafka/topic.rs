//! What a topic takes, as far as the broker tells.
//!
//! A broker refuses a whole batch for one record of it, and takes the batches behind it: what goes once more then stands
//! after later records. So what can be known beforehand is kept out of batches.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use tidegate_record::PublicRecord;

use super::source::ASK;
use crate::now_micros;

/// The settings of a topic by which it refuses records. What it does not tell, it is not held to.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Most bytes of a batch.
    pub(super) largest_batch: Option<usize>,
    /// Whether it takes only records with a key.
    pub(super) needs_key: bool,
    /// Its `cleanup.policy`.
    pub(super) policy: Option<String>,
    /// How far ahead of now a record's time may lie, milliseconds.
    ahead: Option<i64>,
    /// How far behind.
    behind: Option<i64>,
    /// When the clock was read last, milliseconds since 1970.
    read_at: AtomicI64,
}

impl Rules {
    /// Asks the broker. The error says why it does not tell, for example because that is not allowed.
    pub(super) fn of(asker: &AdminClient<Asker>, topic: &str) -> Result<Rules, String> {
        settings(asker, topic).map(|settings| Rules::read(&settings))
    }

    pub(super) fn read(settings: &ConfigResource) -> Rules {
        let text = |name: &str| settings.get(name).and_then(|entry| entry.value.as_deref());
        let millis = |name: &str| text(name).and_then(|value| value.parse::<i64>().ok());
        // Otherwise the broker sets the time itself.
        let keeps_time = text("message.timestamp.type") != Some("LogAppendTime");
        let limit = |name: &str| {
            // Brokers before 3.6 have one setting for both; until 4.0 it holds where the others are not set.
            let names = [name, "message.timestamp.difference.max.ms"];
            let mut set = names.into_iter().filter_map(millis);
            set.find(|limit| keeps_time && *limit < i64::MAX)
        };
        Rules {
            largest_batch: text("max.message.bytes").and_then(|value| value.parse().ok()),
            needs_key: text("cleanup.policy").is_some_and(|policy| policy.contains("compact")),
            policy: text("cleanup.policy").map(str::to_owned),
            ahead: limit("message.timestamp.after.max.ms"),
            behind: limit("message.timestamp.before.max.ms"),
            read_at: AtomicI64::new(now_micros() / 1000),
        }
    }

    /// Why the topic would refuse this record, if that is certain.
    pub(super) fn against(&self, record: &PublicRecord<'_>, millis: Option<i64>) -> Option<String> {
        if self.needs_key && record.key().is_none() {
            return Some("it has no key, and a compacted topic takes only records with one".into());
        }
        let millis = millis?;
        // Time only goes on: a record that was not too far ahead a moment ago is not now. So most need no clock.
        let known = self.read_at.load(Ordering::Relaxed);
        if self.behind.is_none() && self.ahead.is_none_or(|limit| millis - known <= limit) {
            return None;
        }
        let now = now_micros() / 1000;
        self.read_at.store(now, Ordering::Relaxed);
        let ahead = millis - now;
        let beyond = |limit: Option<i64>, distance: i64| limit.filter(|limit| distance > *limit);
        if let Some(limit) = beyond(self.ahead, ahead) {
            let limit = limit / 1000;
            return Some(format!(
                "its event time lies more than {limit} s ahead, which the broker refuses"
            ));
        }
        let limit = beyond(self.behind, ahead.saturating_neg())? / 1000;
        Some(format!(
            "its event time lies more than {limit} s back, which the topic refuses"
        ))
    }
}

/// What a topic is set to. The error says why the broker does not tell.
pub(super) fn settings(asker: &AdminClient<Asker>, topic: &str) -> Result<ConfigResource, String> {
    let options = AdminOptions::new().request_timeout(Some(ASK));
    let asked = [ResourceSpecifier::Topic(topic)];
    let answer = wait_for(asker.describe_configs(&asked, &options), 2 * ASK)
        .ok_or_else(|| format!("no answer within {} s", 2 * ASK.as_secs()))?
        .map_err(|error| error.to_string())?;
    match answer.into_iter().next() {
        Some(Ok(settings)) => Ok(settings),
        Some(Err(code)) => Err(code.to_string()),
        None => Err("the answer is empty".into()),
    }
}

/// A client that asks about topics, and logs like the others.
pub(super) struct Asker;

/// Connects one with this configuration.
pub(super) fn asker(config: &ClientConfig) -> Result<AdminClient<Asker>, String> {
    let made = config.create_with_context(Asker);
    made.map_err(|error| error.to_string())
}

impl ClientContext for Asker {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        super::log(level, facility, message);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The future's result; none if it takes longer.
pub(super) fn wait_for<T>(future: impl Future<Output = T>, time: Duration) -> Option<T> {
    let deadline = Instant::now() + time;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::admin::{ConfigEntry, ConfigSource, OwnedResourceSpecifier};

    use super::*;

    fn settings(settings: &[(&str, &str)]) -> ConfigResource {
        let entry = |(name, value): &(&str, &str)| ConfigEntry {
            name: (*name).into(),
            value: Some((*value).into()),
            source: ConfigSource::Default,
            is_read_only: false,
            is_default: true,
            is_sensitive: false,
        };
        ConfigResource {
            specifier: OwnedResourceSpecifier::Topic("tickets".into()),
            entries: settings.iter().map(entry).collect(),
        }
    }

    #[test]
    fn a_topic_is_held_to_no_rule_that_it_does_not_tell() {
        let none = Rules::read(&settings(&[]));
        assert_eq!((none.largest_batch, none.policy), (None, None));
        assert_eq!(
            (none.needs_key, none.ahead, none.behind),
            (false, None, None)
        );
        assert_eq!(
            (Rules::default().ahead, Rules::default().behind),
            (None, None)
        );
        let ahead = ("message.timestamp.after.max.ms", "3600000");
        assert_eq!(Rules::read(&settings(&[ahead])).ahead, Some(3_600_000));
        let stamped = ("message.timestamp.type", "LogAppendTime");
        assert_eq!(Rules::read(&settings(&[ahead, stamped])).ahead, None);
    }

    #[test]
    fn the_one_limit_of_brokers_before_3_6_goes_both_ways() {
        let both = |told: &[(&str, &str)]| {
            let rules = Rules::read(&settings(told));
            (rules.behind, rules.ahead)
        };
        let one = ("message.timestamp.difference.max.ms", "60000");
        assert_eq!(both(&[one]), (Some(60_000), Some(60_000)));
        // Brokers that have all three hold a record to the new ones where these are set.
        let unset = ("message.timestamp.before.max.ms", "9223372036854775807");
        let ahead = ("message.timestamp.after.max.ms", "3600000");
        assert_eq!(both(&[one, unset, ahead]), (Some(60_000), Some(3_600_000)));
        let stamped = ("message.timestamp.type", "LogAppendTime");
        assert_eq!(both(&[one, stamped]), (None, None));
    }
}
