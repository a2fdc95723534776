//! Topics that are the program's own: made if they are missing, used as they are if they are there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, TopicReplication};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use tracing::{info, warn};

use super::client::{REFUSED_PATIENCE, SETTLING};
use super::source::ASK;
use super::topic::{Asker, settings, wait_for};
use super::{Trouble, is_transient};

/// How a topic of the program's own is made. One that is there is used as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InternalTopic {
    /// Copies of each partition; as many as the cluster makes by itself if none is given.
    pub replication: Option<u16>,
    /// Settings of the topic, such as `min.insync.replicas`.
    pub settings: BTreeMap<String, String>,
}

impl InternalTopic {
    /// ` with replication 3, min.insync.replicas 2`, or nothing.
    fn shown(&self) -> String {
        let replication = self.replication.iter().map(|n| format!("replication {n}"));
        let settings = self.settings.iter();
        let settings = settings.map(|(name, value)| format!("{name} {value}"));
        let all: Vec<String> = replication.chain(settings).collect();
        match all.is_empty() {
            true => String::new(),
            false => format!(" with {}", all.join(", ")),
        }
    }

    /// What a topic that is there has otherwise, as far as it tells: `min.insync.replicas 1 instead of 2`.
    pub(super) fn differences(&self, told: &ConfigResource, replicas: usize) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(wanted) = self.replication
            && usize::from(wanted) != replicas
        {
            found.push(format!("replication {replicas} instead of {wanted}"));
        }
        for (name, wanted) in &self.settings {
            match told.get(name).map(|entry| entry.value.as_deref()) {
                None => found.push(format!("no setting {name}")),
                Some(Some(value)) if value != wanted => {
                    found.push(format!("{name} {value} instead of {wanted}"));
                }
                Some(_) => {}
            }
        }
        found
    }
}

/// A topic to be found, or made.
pub(super) struct Wanted<'a> {
    /// What it is, to stand before its name: `changelog topic`.
    pub(super) what: &'static str,
    pub(super) topic: &'a str,
    /// As many as the cluster makes by itself if none are given.
    pub(super) partitions: Option<usize>,
    pub(super) made: &'a InternalTopic,
    /// What the file says of it: only that is told where the topic is there and has it otherwise.
    pub(super) said: &'a InternalTopic,
}

impl Wanted<'_> {
    /// How many partitions it has; it is made if it is missing. Says what is otherwise than it would have been made.
    pub(super) fn find_or_make(
        &self,
        asker: &AdminClient<Asker>,
        place: &str,
        patience: Duration,
    ) -> Result<usize, String> {
        let mut away = Trouble::new(patience);
        let mut refused = Trouble::new(REFUSED_PATIENCE.min(patience));
        let mut was_there = true;
        let mut made: Option<Instant> = None;
        loop {
            let asked = asker.inner().fetch_metadata(Some(self.topic), ASK);
            let why = match asked {
                Ok(metadata) => {
                    let mut topics = metadata.topics().iter();
                    let found = topics.find(|topic| topic.name() == self.topic);
                    let partitions = found.map_or(&[][..], |topic| topic.partitions());
                    if !partitions.is_empty() {
                        if was_there {
                            let replicas = partitions.iter().map(|one| one.replicas().len());
                            self.tell_differences(asker, place, replicas.min().unwrap_or(0));
                        }
                        return Ok(partitions.len());
                    }
                    was_there = false;
                    match self.make(asker) {
                        Ok(()) => {
                            info!(place, "made the topic{}", self.made.shown());
                            made = made.or(Some(Instant::now()));
                            "it is being made".to_owned()
                        }
                        Err(Some(RDKafkaErrorCode::TopicAlreadyExists)) => {
                            made = made.or(Some(Instant::now()));
                            "it is being made".to_owned()
                        }
                        Err(Some(code)) => {
                            let why = format!("cannot be made{}: {code}", self.made.shown());
                            let said = || format!("{} {} {why}", self.what, self.topic);
                            match fate(code) {
                                Fate::Final => return Err(said()),
                                // Brokers that are down for a moment are missing among those that would have it.
                                Fate::Soon => refused.note(place, &why).map_err(|_| said())?,
                                Fate::Passing => {}
                            }
                            format!("it {why}")
                        }
                        Err(None) => "it cannot be made: no answer".to_owned(),
                    }
                }
                Err(error) if is_transient(&error) => error.to_string(),
                Err(error) => return Err(format!("{} {}: {error}", self.what, self.topic)),
            };
            // Brokers may take a moment to know it.
            let is_settling = made.is_some_and(|made| made.elapsed() < SETTLING.min(patience));
            if !is_settling {
                away.note(place, &why)?;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn tell_differences(&self, asker: &AdminClient<Asker>, place: &str, replicas: usize) {
        if *self.said == InternalTopic::default() {
            return;
        }
        // Who may not ask is told so by those who need the answer.
        let Ok(told) = settings(asker, self.topic) else {
            return;
        };
        let differences = self.said.differences(&told, replicas);
        if !differences.is_empty() {
            warn!(
                place,
                "the topic was there and is used as it is: it has {}",
                differences.join(", ")
            );
        }
    }

    /// Asks for the topic once.
    fn make(&self, asker: &AdminClient<Asker>) -> Result<(), Option<RDKafkaErrorCode>> {
        let replication = self.made.replication.map_or(-1, i32::from);
        let partitions = self.partitions.map_or(-1, |number| number as i32);
        let replication = TopicReplication::Fixed(replication);
        let mut topic = NewTopic::new(self.topic, partitions, replication);
        for (name, value) in &self.made.settings {
            topic = topic.set(name, value);
        }
        let asked = AdminOptions::new().request_timeout(Some(5 * ASK));
        let made = wait_for(asker.create_topics([&topic], &asked), 10 * ASK);
        match made {
            Some(Ok(made)) => match made.into_iter().next() {
                Some(Err((_, code))) => Err(Some(code)),
                _ => Ok(()),
            },
            Some(Err(error)) => Err(error.rdkafka_error_code()),
            None => Err(None),
        }
    }
}

/// What becomes of a topic that is not made.
enum Fate {
    /// It never is, as it is asked for.
    Final,
    /// If it is not soon, it never is.
    Soon,
    /// Time may mend it.
    Passing,
}

fn fate(code: RDKafkaErrorCode) -> Fate {
    use RDKafkaErrorCode as Code;
    match code {
        Code::InvalidConfig | Code::InvalidTopic | Code::InvalidPartitions => Fate::Final,
        Code::PolicyViolation => Fate::Final,
        Code::InvalidReplicationFactor => Fate::Soon,
        code if is_transient(&KafkaError::Global(code)) => Fate::Passing,
        _ => Fate::Final,
    }
}
