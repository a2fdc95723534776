//! Stands in for Kafka's own `kafka-topics.sh`, of whose options it knows those that the guide uses.

use std::error::Error;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is = |name: &str| arguments.iter().any(|argument| argument == name);
    let value = |name: &str| {
        let mut pairs = arguments.windows(2);
        let found = pairs.find(|pair| pair[0] == name);
        found
            .map(|pair| pair[1].as_str())
            .ok_or_else(|| format!("{name} is missing"))
    };
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", value("--bootstrap-server")?)
        .create()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let options = AdminOptions::new();
    let topic = value("--topic")?;
    let done = match (is("--create"), is("--delete")) {
        (true, false) => {
            let partitions = value("--partitions")?.parse()?;
            let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(-1));
            runtime.block_on(admin.create_topics([&new], &options))?
        }
        (false, true) => runtime.block_on(admin.delete_topics(&[topic], &options))?,
        _ => return Err("neither --create nor --delete".into()),
    };
    for result in done {
        match result {
            Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) if is("--if-exists") => {}
            Err((topic, code)) => return Err(format!("{topic}: {code}").into()),
            Ok(topic) if is("--create") => println!("Created topic {topic}."),
            Ok(_) => {}
        }
    }
    Ok(())
}
