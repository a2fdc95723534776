//! Sending at a rate that does not wait for the copy, and the time until each record comes out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::topic_partition_list::Offset;
use serde_json::json;

use crate::watch::{end, partitions};
use crate::{config, record, topic};

/// Records are due in groups, one in this time.
const TICK: Duration = Duration::from_millis(1);
/// For so long the reader waits for what is missing.
const PATIENCE: Duration = Duration::from_secs(20);

/// When records are due that are sent before the others.
const PROBE: u64 = 0;

/// Sends a record now and then until one comes out: until the copy runs.
fn wait_for_the_first(brokers: &str, input: &str, consumer: &BaseConsumer) {
    let producer: BaseProducer = config(brokers, &[]).create().unwrap();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record::write(1, PROBE, &mut key, &mut value);
    let deadline = Instant::now() + 6 * PATIENCE;
    loop {
        topic::send(&producer, input, &key, &value);
        producer.flush(PATIENCE).unwrap();
        if let Some(message) = consumer.poll(Duration::from_millis(500)) {
            message.unwrap();
            return;
        }
        assert!(Instant::now() < deadline, "nothing comes out");
    }
}

pub(crate) fn pace(
    brokers: &str,
    [input, output]: [&str; 2],
    rate: u64,
    [warm, seconds]: [u64; 2],
) {
    let settings = [
        ("group.id", "kafka-bench-pace"),
        ("isolation.level", "read_committed"),
        ("enable.auto.commit", "false"),
    ];
    let consumer: BaseConsumer = config(brokers, &settings).create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in partitions(&consumer, output) {
        let end = Offset::Offset(end(&consumer, output, partition));
        list.add_partition_offset(output, partition, end).unwrap();
    }
    consumer.assign(&list).unwrap();
    wait_for_the_first(brokers, input, &consumer);
    let total = rate * (warm + seconds);
    let (sent, late) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let nanos = || began.elapsed().as_nanos() as u64;
    let measured_from = warm * 1_000_000_000;
    let mut times = Histogram::<u64>::new_with_bounds(1, 600_000_000, 3).unwrap();
    let mut read = 0u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let settings = [("linger.ms", "1"), ("acks", "all")];
            let producer: BaseProducer = config(brokers, &settings).create().unwrap();
            let (mut key, mut value) = (Vec::new(), Vec::new());
            let mut number = 0;
            for tick in 1u64.. {
                let due = TICK.as_nanos() as u64 * tick;
                if let Some(early) = due.checked_sub(nanos()) {
                    std::thread::sleep(Duration::from_nanos(early));
                }
                let until = (due as u128 * rate as u128 / 1_000_000_000) as u64;
                while number < until.min(total) {
                    // Every record is one that the filter keeps.
                    let kept = number * record::DROPPED + 1;
                    record::write(kept, due, &mut key, &mut value);
                    topic::send(&producer, input, &key, &value);
                    number += 1;
                }
                late.fetch_max(nanos() - due.min(nanos()), Ordering::Relaxed);
                producer.poll(Duration::ZERO);
                if number == total {
                    break;
                }
            }
            producer.flush(PATIENCE).unwrap();
            sent.store(number, Ordering::Release);
        });
        let mut last = Instant::now();
        while read < total && (sent.load(Ordering::Acquire) == 0 || last.elapsed() < PATIENCE) {
            let Some(message) = consumer.poll(Duration::from_millis(100)) else {
                continue;
            };
            let message = message.unwrap();
            let now = nanos();
            let due = record::due(message.payload().unwrap());
            if due == PROBE {
                continue;
            }
            last = Instant::now();
            read += 1;
            if due >= measured_from {
                times.saturating_record((now.saturating_sub(due)) / 1000);
            }
        }
    });
    let took = began.elapsed().as_secs_f64();
    let millis = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1000.0;
    println!(
        "{}",
        json!({
            "rate": rate,
            "sent": total,
            "read": read,
            "measured": times.len(),
            "p50_ms": millis(0.5),
            "p99_ms": millis(0.99),
            "p999_ms": millis(0.999),
            "max_ms": times.max() as f64 / 1000.0,
            // More than a few milliseconds: the sender itself had no core.
            "sender_late_ms": late.load(Ordering::Relaxed) as f64 / 1e6,
            "seconds": took,
        })
    );
}
