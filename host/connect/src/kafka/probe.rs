//! Whether brokers and topics answer, asked without reading or writing anything.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::BaseConsumer;
use rdkafka::metadata::Metadata;

use super::Properties;
use super::begin::{has_position, positions};
use super::client::{Settings, ask, find, patiently, text_of};
use super::internal::InternalTopic;
use super::options::KafkaSourceOptions;
use super::rebalance::Context;
use super::target::KafkaSinkOptions;
use super::topic::{Rules, asker, settings};
use super::transaction::{ChangelogOptions, check_rules};

/// What the brokers say of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicReport {
    /// How many partitions it has.
    pub partitions: usize,
    /// Those that no broker leads now: they can be neither read nor written.
    pub without_leader: Vec<i32>,
    /// In how many the group has a position; none for a sink.
    pub positions: Option<usize>,
    /// Whether it is not there yet, and a run makes it.
    pub to_be_made: bool,
    /// What a topic that is there has otherwise than it would have been made, if it is one of the program's own.
    pub differences: Vec<String>,
}

/// Asks about the topic of a source, for as long as its patience lasts. The error says what is missing.
pub fn probe_read(options: &KafkaSourceOptions) -> Result<TopicReport, String> {
    let topic = options.topic.as_str();
    let mut config = Settings::reader(options).config(&options.properties)?;
    let place = place(topic, &options.brokers);
    let began = Instant::now();
    let metadata = find(&config, &place, topic, options.patience)?;
    let left = options.patience.saturating_sub(began.elapsed());
    // The name of a static member belongs to the one who reads.
    config.remove("group.instance.id");
    let made: Result<BaseConsumer<Context>, _> = config.create_with_context(Context::default());
    let consumer = made.map_err(|error| text_of(&error))?;
    let positions = patiently(&place, left, || positions(&consumer, topic))
        .map_err(|error| format!("the positions of group {}: {error}", options.group))?;
    let known = positions.elements().into_iter();
    let known = known.filter(|element| has_position(element.offset()));
    Ok(report(&metadata, topic, Some(known.count())))
}

/// Asks about the topic of a sink, for as long as its patience lasts. The error says what is missing.
pub fn probe_write(options: &KafkaSinkOptions) -> Result<TopicReport, String> {
    let topic = options.topic.as_str();
    let config = Settings::writer(options).config(&options.properties)?;
    let place = place(topic, &options.brokers);
    match &options.made {
        None => {
            let metadata = find(&config, &place, topic, options.patience)?;
            Ok(report(&metadata, topic, None))
        }
        Some(made) => {
            let metadata = ask(&config, &place, topic, options.patience)?;
            Ok(report_internal(&metadata, topic, made, &config))
        }
    }
}

/// Asks about a changelog, for as long as this. The error says why it cannot be used as it is.
pub fn probe_changelog(
    changelog: &ChangelogOptions,
    brokers: &str,
    properties: &Properties,
    patience: Duration,
) -> Result<TopicReport, String> {
    let topic = changelog.topic.as_str();
    let config = Settings::internal(brokers, &[], &[]).config(properties)?;
    let place = place(topic, brokers);
    let metadata = ask(&config, &place, topic, patience)?;
    let report = report_internal(&metadata, topic, &changelog.made, &config);
    if report.to_be_made {
        return Ok(report);
    }
    // Who may not ask for its settings is told so by a run.
    if let Ok(rules) = Rules::of(&asker(&config)?, topic) {
        check_rules(changelog, &rules, &config)?;
    }
    Ok(report)
}

fn report_internal(
    metadata: &Metadata,
    topic: &str,
    made: &InternalTopic,
    config: &ClientConfig,
) -> TopicReport {
    let mut found = report(metadata, topic, None);
    found.to_be_made = found.partitions == 0;
    if !found.to_be_made {
        let topics = metadata.topics().iter();
        let partitions = topics
            .filter(|found| found.name() == topic)
            .flat_map(|found| found.partitions());
        let replicas = partitions.map(|one| one.replicas().len()).min();
        let told = asker(config).and_then(|asker| settings(&asker, topic));
        found.differences = told
            .map(|told| made.differences(&told, replicas.unwrap_or(0)))
            .unwrap_or_default();
    }
    found
}

fn place(topic: &str, brokers: &str) -> String {
    format!("topic {topic} at {brokers}")
}

fn report(metadata: &Metadata, topic: &str, positions: Option<usize>) -> TopicReport {
    let topics = metadata.topics().iter();
    let partitions = topics
        .filter(|found| found.name() == topic)
        .flat_map(|found| found.partitions());
    let leaders: Vec<(i32, i32)> = partitions
        .map(|partition| (partition.id(), partition.leader()))
        .collect();
    let without_leader = leaders.iter().filter(|(_, leader)| *leader < 0);
    TopicReport {
        partitions: leaders.len(),
        without_leader: without_leader.map(|(number, _)| *number).collect(),
        positions,
        to_be_made: false,
        differences: Vec::new(),
    }
}
