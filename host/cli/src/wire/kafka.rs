//! Topics, as the pipeline file has them and as `connect` takes them.

use std::time::Duration;

use tidegate_connect::kafka::{
    KafkaSinkOptions, KafkaSourceOptions, KafkaStart, PropertyFault, TopicReport, check_reader,
    check_writer, probe_read, probe_write,
};
use tidegate_control::config::{
    KafkaEnd, KafkaSink, KafkaSource, Mistakes, Pipeline, PropertyMistake, Start,
};

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
    options
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
        faults.into_iter().map(mistake).collect()
    })
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
