//! Topics, as the pipeline file has them and as `connect` takes them.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_connect::kafka::timeouts::{TRANSACTION, of_transactions};
use tidegate_connect::kafka::{
    ChangelogOptions, ChangelogPartitions, InternalTopic, KafkaAgainOptions, KafkaSinkOptions,
    KafkaSourceOptions, KafkaStart, PropertyFault, TopicReport, check_reader, check_writer,
    probe_changelog, probe_read, probe_write,
};
use tidegate_contract::CommitPoint;
use tidegate_control::config::{
    KafkaEnd, KafkaSink, KafkaSource, Mistakes, NewTopic, Pipeline, PropertyMistake, SinkKind,
    Source, SourceKind, Start, cluster_of,
};

/// The property by which a sink says how long transactions last.
const TRANSACTION_TIMEOUT: &str = "transaction.timeout.ms";
/// Dead letters stay until somebody removes them, as they do in a file.
const LETTERS: [(&str, &str); 3] = [
    ("cleanup.policy", "delete"),
    ("retention.bytes", "-1"),
    ("retention.ms", "-1"),
];

/// How the topic of a source is read, by a worker of its own name if it has one.
pub(super) fn source_options(
    number: u16,
    topic: &KafkaSource,
    instance: Option<String>,
) -> KafkaSourceOptions {
    let brokers = topic.brokers.join(",");
    let mut options = KafkaSourceOptions::new(number, brokers, &topic.topic, &topic.group);
    options.instance = instance;
    options.start = match topic.start {
        Start::Earliest => KafkaStart::Earliest,
        Start::Latest => KafkaStart::Latest,
        Start::At { millis } => KafkaStart::At(millis),
    };
    options.properties = topic.properties.clone();
    options
}

/// How the topic of a sink is written.
pub(super) fn sink_options(pipeline: &str, topic: &KafkaSink) -> KafkaSinkOptions {
    let brokers = topic.brokers.join(",");
    let mut options = KafkaSinkOptions::new(brokers, &topic.topic, pipeline);
    options.properties = topic.properties.clone();
    options.made = topic.made.as_ref().map(|made| internal(made, &LETTERS));
    options
}

/// The topic that keeps what waits of a source.
pub(super) fn changelog(source: &Source) -> ChangelogOptions {
    let partitions = match &source.kind {
        SourceKind::Kafka(topic) => ChangelogPartitions::As(topic.topic.clone()),
        _ => ChangelogPartitions::Number(1),
    };
    let mut options = ChangelogOptions::new(&source.name, &source.changelog.topic, partitions);
    options.made = internal(&source.changelog.made, &[]);
    options
}

/// Where letters of a source are sent again, on the cluster of the transactions.
pub(super) fn again(pipeline: &Pipeline, source: &Source, cluster: &str) -> KafkaAgainOptions {
    let mut options = KafkaAgainOptions::new(cluster, source.again_topic(&pipeline.name));
    options.made = internal(&source.changelog.made, &[]);
    options.properties = pipeline.connection(cluster);
    // A contradiction was refused when the file was read.
    options.transaction_timeout = transaction_timeout(pipeline).unwrap_or(TRANSACTION);
    options
}

/// Who reads them: the group of the same name, with the patience and the name of those who read the source.
pub(super) fn again_reader(
    pipeline: &Pipeline,
    source: &Source,
    number: u16,
) -> (KafkaSourceOptions, BTreeMap<String, String>) {
    let topic = source.again_topic(&pipeline.name);
    let mut options = KafkaSourceOptions::new(number, "", &topic, &topic);
    let cluster = match pipeline.commit_point() {
        CommitPoint::Transaction { cluster } => cluster,
        CommitPoint::Log => String::new(),
    };
    match &source.kind {
        SourceKind::Kafka(read) => {
            options.instance.clone_from(&read.instance);
            (options, read.properties.clone())
        }
        _ => (options, pipeline.connection(&cluster)),
    }
}

/// How a topic is made, with these settings unless the file has others.
fn internal(made: &NewTopic, ours: &[(&str, &str)]) -> InternalTopic {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut topic = InternalTopic {
        replication: made.replication,
        settings: ours.iter().map(owned).collect(),
    };
    let largest = made
        .max_message
        .map(|bytes| ("max.message.bytes".to_owned(), bytes.to_string()));
    topic.settings.extend(largest);
    topic.settings.extend(made.properties.clone());
    topic
}

/// How long the brokers leave a transaction open by itself; what contradicts that is a mistake of the file.
pub(super) fn transaction_timeout(pipeline: &Pipeline) -> Result<Duration, String> {
    let sources = pipeline
        .sources
        .iter()
        .filter_map(|source| match &source.kind {
            SourceKind::Kafka(topic) => Some((source.name.as_str(), &topic.properties)),
            _ => None,
        });
    let sink =
        transactional(pipeline).find(|topic| topic.properties.contains_key(TRANSACTION_TIMEOUT));
    let properties = sink.map(|topic| topic.properties.clone());
    of_transactions(sources, &properties.unwrap_or_default())
}

/// The topics that are written in transactions.
fn transactional(pipeline: &Pipeline) -> impl Iterator<Item = &KafkaSink> {
    let cluster = match pipeline.commit_point() {
        CommitPoint::Transaction { cluster } => Some(cluster),
        CommitPoint::Log => None,
    };
    let sinks = pipeline.sinks.iter().map(|sink| &sink.kind);
    let sinks = sinks.chain([&pipeline.dead_letters]);
    sinks.filter_map(move |kind| match kind {
        SinkKind::Kafka(topic) => {
            (cluster.as_ref() == Some(&cluster_of(&topic.brokers))).then_some(topic)
        }
        _ => None,
    })
}

/// What is wrong with the time that a sink gives transactions.
fn transaction_fault(pipeline: &Pipeline, sink: &KafkaSink) -> Option<PropertyMistake> {
    let set = sink.properties.get(TRANSACTION_TIMEOUT)?;
    let mut others =
        transactional(pipeline).filter_map(|topic| topic.properties.get(TRANSACTION_TIMEOUT));
    let why = if !transactional(pipeline).any(|topic| topic == sink) {
        "cannot be set: what is written here is in no transaction, as tidegate check says"
            .to_owned()
    } else if let Some(other) = others.find(|other| *other != set) {
        format!(
            "is {set} here and {other} elsewhere: one producer writes the transactions of a worker"
        )
    } else if let Err(why) = transaction_timeout(pipeline) {
        format!("contradicts others: {why}")
    } else {
        return None;
    };
    Some(PropertyMistake {
        name: Some(TRANSACTION_TIMEOUT.to_owned()),
        why,
        known: Vec::new(),
    })
}

/// A batch that waits for longer than a transaction lasts comes too late for it.
fn linger_fault(pipeline: &Pipeline, sink: &KafkaSink) -> Option<PropertyMistake> {
    const LINGER: &str = "linger.ms";
    let linger: f64 = sink.properties.get(LINGER)?.parse().ok()?;
    let timeout = transaction_timeout(pipeline).ok()?.as_millis() as f64;
    let written = transactional(pipeline).any(|topic| topic == sink);
    (written && linger >= timeout).then(|| PropertyMistake {
        name: Some(LINGER.to_owned()),
        why: format!("is {linger}, and a transaction is over after {timeout}"),
        known: Vec::new(),
    })
}

/// Holds the properties of every topic against what librdkafka knows. Nothing is connected.
pub(crate) fn check_properties(pipeline: &Pipeline) -> Result<(), Mistakes> {
    pipeline.check_properties(|end| {
        let faults = match end {
            KafkaEnd::Source(topic) => {
                check_reader(&source_options(0, topic, topic.instance.clone()))
            }
            KafkaEnd::Sink(topic) => check_writer(&sink_options(&pipeline.name, topic)),
        };
        let mistake = |PropertyFault { name, why, known }| PropertyMistake { name, why, known };
        let mut mistakes: Vec<PropertyMistake> = faults.into_iter().map(mistake).collect();
        if let (KafkaEnd::Sink(topic), true) = (end, mistakes.is_empty()) {
            mistakes.extend(transaction_fault(pipeline, topic));
            mistakes.extend(linger_fault(pipeline, topic));
        }
        mistakes
    })
}

/// The topics that a run makes if they are missing, each with what it is for and its brokers.
pub(crate) fn internal_topics(pipeline: &Pipeline) -> Vec<(String, String, String)> {
    let cluster = match pipeline.commit_point() {
        CommitPoint::Transaction { cluster } => cluster,
        CommitPoint::Log => String::new(),
    };
    let mut topics: Vec<_> = pipeline
        .changelogs()
        .map(|source| {
            let what = format!("changelog of source {}", source.name);
            (what, source.changelog.topic.clone(), cluster.clone())
        })
        .collect();
    if let SinkKind::Kafka(topic) = &pipeline.dead_letters
        && topic.made.is_some()
    {
        let brokers = topic.brokers.join(",");
        topics.push(("dead letters".to_owned(), topic.topic.clone(), brokers));
    }
    topics
}

/// A topic that was asked for, and what its brokers said.
pub(crate) struct Probed {
    /// `source tickets`.
    pub(crate) end: String,
    pub(crate) topic: String,
    pub(crate) brokers: String,
    /// What is missing, if the topic cannot be used.
    pub(crate) report: Result<TopicReport, String>,
}

/// Asks about all topics at once, each for so long.
pub(crate) fn probe(pipeline: &Pipeline, patience: Duration) -> Vec<Probed> {
    let name = pipeline.name.as_str();
    std::thread::scope(|scope| {
        let mut asked = Vec::new();
        for (end, topic) in pipeline.kafka_ends() {
            let (name_of_topic, brokers) = match topic {
                KafkaEnd::Source(topic) => (&topic.topic, &topic.brokers),
                KafkaEnd::Sink(topic) => (&topic.topic, &topic.brokers),
            };
            let answer = scope.spawn(move || match topic {
                KafkaEnd::Source(topic) => {
                    let mut options = source_options(0, topic, None);
                    options.patience = patience;
                    probe_read(&options)
                }
                KafkaEnd::Sink(topic) => {
                    let mut options = sink_options(name, topic);
                    options.patience = patience;
                    probe_write(&options)
                }
            });
            asked.push((end, name_of_topic.clone(), brokers.join(","), answer));
        }
        let cluster = match pipeline.commit_point() {
            CommitPoint::Transaction { cluster } => cluster,
            CommitPoint::Log => String::new(),
        };
        let properties = pipeline.connection(&cluster);
        for source in pipeline.changelogs() {
            let (options, brokers) = (changelog(source), cluster.clone());
            let (topic, properties) = (options.topic.clone(), properties.clone());
            let answer = scope.spawn({
                let brokers = brokers.clone();
                move || probe_changelog(&options, &brokers, &properties, patience)
            });
            let what = format!("changelog of source {}", source.name);
            asked.push((what, topic, brokers, answer));
        }
        let asked = asked.into_iter();
        asked
            .map(|(end, topic, brokers, answer)| Probed {
                end,
                topic,
                brokers,
                report: answer
                    .join()
                    .unwrap_or_else(|_| Err("the one who asked panicked".to_owned())),
            })
            .collect()
    })
}
