//! How far a copy has come, by what a reader of committed records may see, and what it took.

use std::fs;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::json;

use crate::config;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(25);
/// For so long nothing more comes before it is over.
const QUIET: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(300);
/// Clock ticks of /proc a second, on every Linux of today.
const TICKS: f64 = 100.0;

/// What was seen at one look.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    /// Offsets up to which the partitions are committed, in sum. Marks of transactions are among them, some in a second.
    reached: u64,
    /// CPU seconds of the client and the broker.
    cpu: [f64; 2],
}

fn cpu(process: &str) -> f64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        return f64::NAN;
    };
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |index: usize| fields[index].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / TICKS
}

/// The most memory that a process has had, MiB.
fn peak(process: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| (kilobytes / 1024.0).round())
}

/// The partitions of a topic. Of one that was made just now the broker may not know yet.
pub(crate) fn partitions(consumer: &BaseConsumer, topic: &str) -> Vec<i32> {
    let began = Instant::now();
    loop {
        let metadata = consumer
            .fetch_metadata(Some(topic), Duration::from_secs(20))
            .unwrap();
        let found = metadata.topics()[0].partitions();
        if !found.is_empty() {
            return found.iter().map(|partition| partition.id()).collect();
        }
        assert!(
            began.elapsed() < DEADLINE,
            "topic {topic} has no partitions"
        );
        std::thread::sleep(LOOK);
    }
}

/// Where a partition ends for a reader of committed records. One that was made just now may not have its leader yet.
pub(crate) fn end(consumer: &BaseConsumer, topic: &str, partition: i32) -> i64 {
    let began = Instant::now();
    loop {
        match consumer.fetch_watermarks(topic, partition, Duration::from_secs(20)) {
            Ok((_, end)) => return end.max(0),
            Err(error) => assert!(began.elapsed() < DEADLINE, "{error}"),
        }
        std::thread::sleep(LOOK);
    }
}

pub(crate) fn watch(brokers: &str, topic: &str, records: u64, processes: [&str; 2]) {
    let settings = [
        ("group.id", "kafka-bench-watch"),
        ("isolation.level", "read_committed"),
    ];
    let consumer: BaseConsumer = config(brokers, &settings).create().unwrap();
    let partitions = partitions(&consumer, topic);
    let began = Instant::now();
    let mut looks: Vec<Look> = Vec::new();
    loop {
        let ends = partitions
            .iter()
            .map(|partition| end(&consumer, topic, *partition) as u64);
        let reached = ends.sum();
        let at = Instant::now();
        let last = looks.last().map_or(0, |look| look.reached);
        if reached > last {
            looks.push(Look {
                at,
                reached,
                cpu: processes.map(cpu),
            });
        }
        let quiet = looks.last().is_some_and(|look| look.at.elapsed() > QUIET);
        if reached >= records && quiet {
            break;
        }
        let so_far = format!("{reached} of {records} after {DEADLINE:?}");
        assert!(began.elapsed() < DEADLINE, "{so_far}");
        std::thread::sleep(LOOK);
    }
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    let half = looks.iter().find(|look| look.reached >= last.reached / 2);
    let half = *half.unwrap();
    let between = |from: Look| {
        // Looks come at intervals, so the first has seen some records already.
        let share = (last.reached - from.reached) as f64 / last.reached as f64;
        let seconds = (last.at - from.at).as_secs_f64();
        json!({
            "share": share,
            "seconds": seconds,
            "cpu_s": last.cpu[0] - from.cpu[0],
            "broker_cpu_s": last.cpu[1] - from.cpu[1],
        })
    };
    // The longest time in which nothing came out.
    let pauses = looks.windows(2).map(|pair| pair[1].at - pair[0].at);
    let pause = pauses.max().unwrap_or_default();
    println!(
        "{}",
        json!({
            "whole": between(first),
            "second_half": between(half),
            "until_first_s": (first.at - began).as_secs_f64(),
            "longest_pause_ms": pause.as_secs_f64() * 1000.0,
            "cpu_s_with_start": last.cpu[0],
            "peak_mib": peak(processes[0]),
        })
    );
}
