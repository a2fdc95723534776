//! What an operator costs: nanoseconds a record, its start, its memory, and how much of its time is the border's.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_contract::{Operator, OperatorError, OperatorVersion, Processed, Slot as _};
use tidegate_operator::{
    ComponentSlot, Engine, EngineOptions, Grants, Limits, OUTCOMES, SlotOptions,
};
use tidegate_record::{Batch, OutcomesView};
use tidegate_telemetry::{count, plain};

use crate::answer::answer_all;

/// An operator that lets everything pass: see `bench/pass.wat`.
pub(crate) const PASS: &[u8] = include_bytes!("bench/pass.wasm");

/// Least time of a round, so that clocks and interrupts matter little.
const ROUND: Duration = Duration::from_millis(20);
/// Least number of rounds.
const ROUNDS: usize = 5;
/// Instances that are started to see how long one takes.
const STARTS: usize = 5;

/// How an operator is measured.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Its configuration, JSON text.
    pub config: String,
    /// What it may import.
    pub grants: Grants,
    /// What it may use.
    pub limits: Limits,
    /// About how long rounds are run, of the operator and of the pass-through together.
    pub time: Duration,
    /// How components are compiled; its cache is not used.
    pub engine: EngineOptions,
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        BenchOptions {
            config: "{}".into(),
            grants: Grants::ALL,
            limits: Limits::default(),
            time: Duration::from_secs(3),
            engine: EngineOptions::default(),
        }
    }
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The operator does not start, or cannot work.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// It has no answer for a record.
    #[error("record {record} has no answer: {reason}")]
    Record {
        /// The record's identity.
        record: String,
        /// Why.
        reason: String,
    },
    /// There is no place for compiled components.
    #[error("cannot make a directory for compiled components: {0}")]
    Directory(std::io::Error),
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The operator's name and version.
    pub operator: String,
    /// Records of a round.
    pub records: usize,
    /// Bytes of their keys, values, headers and attributes.
    pub bytes: usize,
    /// Records of a batch.
    pub batch: usize,
    /// Rounds that were run.
    pub rounds: usize,
    /// Outcomes of one pass over the records, by kind, in the order of [`OUTCOMES`].
    pub outcomes: [u64; OUTCOMES.len()],
    /// The operator's time.
    pub speed: Speed,
    /// The time of an operator that reads the same and lets everything pass.
    pub pass: Speed,
    /// How it starts.
    pub start: Start,
    /// Bytes of memories and tables of one instance, after the records.
    pub memory: u64,
}

/// Nanoseconds a record, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// The fastest round.
    pub minimum: f64,
    /// The round in the middle.
    pub median: f64,
}

/// How long it takes until there is an instance.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Compiling the component.
    pub compile: Duration,
    /// Taking what was compiled from disk, the engine included; none where it is not kept there.
    pub cached: Option<Duration>,
    /// Starting an instance: the fastest of a few.
    pub instance: Duration,
}

impl Bench {
    /// The share of the time that the border takes: packing and unpacking, and the call of an operator that does nothing.
    pub fn border(&self) -> f64 {
        (self.pass.median / self.speed.median).min(1.0)
    }

    /// Millions of bytes a second, by the median.
    pub fn megabytes_per_second(&self) -> f64 {
        // Bytes a nanosecond are thousands of megabytes a second.
        self.bytes as f64 / self.records as f64 / self.speed.median * 1e3
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let speed = |speed: Speed| json!({"minimum": speed.minimum, "median": speed.median});
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let outcomes = OUTCOMES.iter().zip(self.outcomes);
        let outcomes = outcomes.map(|(kind, number)| ((*kind).to_owned(), number.into()));
        json!({
            "operator": self.operator,
            "records": self.records,
            "bytes": self.bytes,
            "batch": self.batch,
            "rounds": self.rounds,
            "outcomes": outcomes.collect::<serde_json::Map<_, _>>(),
            "ns-per-record": speed(self.speed),
            "mb-per-second": self.megabytes_per_second(),
            "pass-through-ns-per-record": speed(self.pass),
            "border": self.border(),
            "start-ms": {
                "compile": milliseconds(self.start.compile),
                "cached": self.start.cached.map(milliseconds),
                "instance": milliseconds(self.start.instance),
            },
            "memory": self.memory,
        })
    }
}

impl std::fmt::Display for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = |name: &str, speed: Speed| {
            let Speed { median, minimum } = speed;
            format!("{name:<12} {median:>10.1} ns a record, {minimum:.1} at best")
        };
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(
            f,
            "{}: {} records, {:.2} MiB, batches of {}, {} rounds",
            self.operator,
            count(self.records as u64),
            mebibytes(self.bytes as u64),
            self.batch,
            self.rounds,
        )?;
        let throughput = self.megabytes_per_second();
        writeln!(f, "{}, {throughput:.0} MB/s", line("operator", self.speed))?;
        writeln!(f, "{}", line("pass-through", self.pass))?;
        writeln!(
            f,
            "{:<12} {:>10.1} % of the time",
            "border",
            self.border() * 100.0
        )?;
        let Start {
            compile,
            cached,
            instance,
        } = self.start;
        writeln!(
            f,
            "{:<12} {:>10.1} ms to compile, {}{:.2} ms for an instance",
            "start",
            milliseconds(compile),
            cached.map_or_else(String::new, |cached| {
                format!("{:.1} ms from the cache, ", milliseconds(cached))
            }),
            milliseconds(instance)
        )?;
        writeln!(
            f,
            "{:<12} {:>10.2} MiB an instance",
            "memory",
            mebibytes(self.memory)
        )?;
        let kinds = OUTCOMES.iter().zip(self.outcomes);
        let kinds = kinds.filter(|(_, number)| *number > 0);
        let kinds: Vec<_> = kinds
            .map(|(kind, number)| format!("{} {kind}", count(number)))
            .collect();
        write!(f, "{:<12} {}", "outcomes", kinds.join(", "))
    }
}

/// Measures an operator on these batches, beside one that lets everything pass.
pub fn bench(
    component: &[u8],
    label: &str,
    batches: &[Batch],
    options: &BenchOptions,
) -> Result<Bench, BenchError> {
    let directory = tempfile::tempdir().map_err(BenchError::Directory)?;
    let engine = || {
        Engine::new(EngineOptions {
            // Made by the engine, for nobody but this user.
            cache_dir: Some(directory.path().join("compiled")),
            ..options.engine.clone()
        })
    };
    let first = engine()?;
    let began = Instant::now();
    first.compile(component, label)?;
    let compile = began.elapsed();
    let began = Instant::now();
    let engine = engine()?;
    let component = engine.compile(component, label)?;
    let cached = component.is_from_disk().then(|| began.elapsed());
    let slot = |config: &str| SlotOptions {
        grants: options.grants,
        limits: options.limits.clone(),
        config: config.to_owned(),
        ..SlotOptions::new("bench")
    };
    let slot_of_operator = ComponentSlot::of(&component, slot(&options.config))?;
    // The slot's own is not the first of those that are timed.
    let mut operator = slot_of_operator.instance()?.1;
    let mut instance = Duration::MAX;
    for _ in 0..STARTS {
        let began = Instant::now();
        drop(slot_of_operator.instance()?);
        instance = instance.min(began.elapsed());
    }
    let version = slot_of_operator.version();
    let reads = format!("{{\"reads\":\"{:x}\"}}", version.reads.bits());
    let pass = engine.compile(PASS, "pass-through")?;
    let slot_of_pass = ComponentSlot::of(&pass, slot(&reads))?;
    let mut pass = slot_of_pass.instance()?.1;
    let outcomes = outcomes(&mut *operator, batches)?;
    let mut operator = Rounds::of(&mut *operator, batches)?;
    let mut pass = Rounds::of(&mut *pass, batches)?;
    let until = Instant::now() + options.time;
    while operator.times.len() < ROUNDS || Instant::now() < until {
        // In turns, so that whatever else the machine does falls on both.
        operator.round()?;
        pass.round()?;
    }
    Ok(Bench {
        operator: name(&version),
        records: batches.iter().map(Batch::len).sum(),
        bytes: batches.iter().map(bytes).sum(),
        batch: batches.iter().map(Batch::len).max().unwrap_or(0),
        rounds: operator.times.len(),
        outcomes,
        speed: operator.speed(),
        pass: pass.speed(),
        start: Start {
            compile,
            cached,
            instance,
        },
        memory: slot_of_operator.memory(),
    })
}

fn name(version: &OperatorVersion) -> String {
    plain(&format!("{} {}", version.name, version.version), 300).into_owned()
}

/// Bytes of all fields.
fn bytes(batch: &Batch) -> usize {
    let records = batch.view().records();
    let sizes = records.map(|record| record.size() - tidegate_record::layout::ENTRY);
    sizes.sum()
}

/// The outcomes of one pass over the batches, by kind.
fn outcomes(
    operator: &mut dyn Operator,
    batches: &[Batch],
) -> Result<[u64; OUTCOMES.len()], BenchError> {
    let outputs = operator.version().outputs.len() as u16;
    let mut kinds = [0; OUTCOMES.len()];
    for batch in batches {
        each_answer(operator, batch, |count, outcomes| {
            let view = OutcomesView::parse(outcomes, count, outputs);
            let view = view.map_err(|error| OperatorError::Engine(error.to_string()))?;
            for (sum, number) in kinds.iter_mut().zip(view.kinds()) {
                *sum += number;
            }
            Ok(())
        })?;
    }
    Ok(kinds)
}

/// Answers with their number of records; a record without one is an error.
fn each_answer(
    operator: &mut dyn Operator,
    batch: &Batch,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    answer_all(operator, batch, None, |batch, processed| match processed {
        Processed::Answer {
            count, outcomes, ..
        } => each(count, &outcomes),
        Processed::Poison(cause) => Err(BenchError::Record {
            record: batch
                .view()
                .get(cause.record)
                .map_or_else(String::new, |record| record.id().to_string()),
            reason: cause.reason,
        }),
        Processed::Untried { .. } => Ok(()),
    })
    .map(drop)
}

/// The rounds of one operator.
struct Rounds<'a> {
    operator: &'a mut dyn Operator,
    batches: &'a [Batch],
    /// Passes over all batches in a round.
    passes: usize,
    /// Nanoseconds a record, of each round.
    times: Vec<f64>,
}

impl<'a> Rounds<'a> {
    /// With as many passes in a round as make it long enough, by a first one that does not count.
    fn of(operator: &'a mut dyn Operator, batches: &'a [Batch]) -> Result<Rounds<'a>, BenchError> {
        let mut rounds = Rounds {
            operator,
            batches,
            passes: 1,
            times: Vec::new(),
        };
        let began = Instant::now();
        rounds.round()?;
        let took = began.elapsed().max(Duration::from_micros(1));
        rounds.passes = (ROUND.as_nanos() / took.as_nanos()).max(1) as usize;
        rounds.times.clear();
        Ok(rounds)
    }

    fn round(&mut self) -> Result<(), BenchError> {
        let began = Instant::now();
        for _ in 0..self.passes {
            for batch in self.batches {
                each_answer(self.operator, batch, |_, _| Ok(()))?;
            }
        }
        let nanoseconds = began.elapsed().as_secs_f64() * 1e9;
        let records: usize = self.batches.iter().map(Batch::len).sum();
        let records = records.max(1) * self.passes;
        self.times.push(nanoseconds / records as f64);
        Ok(())
    }

    fn speed(&mut self) -> Speed {
        self.times.sort_by(f64::total_cmp);
        Speed {
            minimum: self.times.first().copied().unwrap_or(0.0),
            median: self.times.get(self.times.len() / 2).copied().unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_of_the_pass_through_is_its_text() {
        let text = include_str!("bench/pass.wat");
        assert_eq!(wat::parse_str(text).unwrap(), PASS);
    }
}
