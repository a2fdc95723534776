//! What `benches/kafka/run.py` needs beside the programs that it compares: it makes topics, fills them, watches and counts
//! what comes out, sends at a pace and measures how long that takes, and copies a topic with nothing but librdkafka.
//!
//! Every command prints one line of JSON, or nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod copy;
mod count;
mod pace;
mod record;
mod topic;
mod watch;

use rdkafka::ClientConfig;

const USAGE: &str = "kafka-bench BROKERS COMMAND

  topic NAME PARTITIONS                      makes a topic
  remove NAME                                removes it
  fill TOPIC RECORDS                         writes records of 200 bytes
  watch TOPIC RECORDS CLIENT BROKER          waits until so many are committed, and says what the two processes took
  count TOPIC RECORDS KEPT                   reads what is committed: which of the records that are kept came how often
  pace IN OUT RATE WARM SECONDS              sends at a rate, reads what comes, and says how long it took
  copy IN OUT GROUP DELIVERY INTERVAL LINGER copies until it is killed: at-least-once or exactly-once, milliseconds";

/// A client's configuration, with these settings.
fn config(brokers: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    match arguments.as_slice() {
        [brokers, "topic", name, partitions] => {
            topic::make(brokers, name, number(partitions) as i32);
        }
        [brokers, "remove", name] => topic::remove(brokers, name),
        [brokers, "fill", name, records] => topic::fill(brokers, name, number(records)),
        [brokers, "watch", name, records, client, broker] => {
            watch::watch(brokers, name, number(records), [client, broker]);
        }
        [brokers, "count", name, records, kept] => {
            count::count(brokers, name, number(records), *kept == "all");
        }
        [brokers, "pace", input, output, rate, warm, seconds] => {
            let seconds = [number(warm), number(seconds)];
            pace::pace(brokers, [input, output], number(rate), seconds);
        }
        [
            brokers,
            "copy",
            input,
            output,
            group,
            delivery,
            interval,
            linger,
        ] => {
            let exactly_once = match *delivery {
                "exactly-once" => true,
                "at-least-once" => false,
                other => panic!("delivery {other} is neither at-least-once nor exactly-once"),
            };
            let interval = std::time::Duration::from_millis(number(interval));
            copy::copy(
                brokers,
                [input, output],
                group,
                exactly_once,
                interval,
                linger,
            );
        }
        _ => {
            eprintln!("{USAGE}");
            std::process::exit(2);
        }
    }
}
