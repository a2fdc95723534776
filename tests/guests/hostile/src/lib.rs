//! An operator that misbehaves in the way its configuration names, for the tests of the host: `{"mode": "loop"}`. Modes
//! that take time take the turns of a loop that it names: `{"mode": "slow", "turns": 1000000}`.
//!
//! Most modes misbehave only when a record of the batch has the value `bad`, or one of JSON whose last member is that, so
//! that a test can say where the poison is; every other record passes. It writes the exports by hand, since the SDK would keep it from lying.

#![cfg(target_family = "wasm")]
#![allow(
    unsafe_code,
    reason = "the exports of a component have the C calling convention"
)]

mod every;

use std::cell::{Cell, RefCell};

use tidegate_record::layout::OUTCOMES_HEADER;
use tidegate_record::{Batch, BatchView, OutcomesBuilder, PatchBuilder};
use tidegate_sdk::bindings::exports::tidegate::operator::packed::{Description, Failure, Guest};
use tidegate_sdk::bindings::tidegate::operator::types::{FailureClass, Fields, Metric, MetricKind};
use tidegate_sdk::{Level, log_line, serde_json};

thread_local! {
    static MODE: RefCell<String> = const { RefCell::new(String::new()) };
    static CONFIG: RefCell<String> = const { RefCell::new(String::new()) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

/// Text that would clear a terminal, forge a line and turn what follows around.
const RUDE: &str = "\x1b[2J\x1b]0;owned\x07\r\nERROR forged=line \u{202e}";

struct Hostile;

impl Guest for Hostile {
    fn describe(config: String) -> Result<Description, Failure> {
        let mode = |mode: &str| config.contains(&format!("\"{mode}\""));
        let metric = |name: &str, kind, labels: &[&str], bounds| Metric {
            name: name.into(),
            kind,
            help: "Records seen".into(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            bounds,
        };
        let mut metrics = vec![metric("seen", MetricKind::Counter, &[], Vec::new())];
        if mode("every") || mode("series") {
            metrics.push(metric("level", MetricKind::Gauge, &["lang"], Vec::new()));
            metrics.push(metric("took", MetricKind::Histogram, &[], vec![0.5, 1.0]));
        }
        Ok(Description {
            name: "misbehave".into(),
            version: "1.0.0".into(),
            config_schema: "{}".into(),
            reads: match mode("keys") {
                true => Fields::KEY,
                false => Fields::all(),
            },
            outputs: vec!["side".into(), "other".into()],
            metrics,
            handlers: match mode("handles-tokens") {
                true => vec!["tokens".into()],
                false => Vec::new(),
            },
            extensions: Vec::new(),
        })
    }

    fn init(text: String) -> Result<(), Failure> {
        let config: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| failure(error.to_string()))?;
        let mode = config["mode"].as_str().unwrap_or("pass").to_owned();
        CONFIG.set(text);
        TURNS.set(config["turns"].as_u64().unwrap_or(0));
        match mode.as_str() {
            "init-trap" => {
                log_line(Level::Error, "no start today");
                panic!("no start today")
            }
            "init-loop" => spin(),
            "init-error" => return Err(failure("the configuration does not please me".into())),
            "init-grow" => grow(),
            "init-rude" => return Err(failure(RUDE.repeat(10_000))),
            "rude" => {
                log_line(Level::Info, &format!("{RUDE}said at the start"));
                MODE.set(mode);
            }
            _ => MODE.set(mode),
        }
        Ok(())
    }

    fn process(batch: Vec<u8>) -> Result<Vec<u8>, Failure> {
        CALLS.set(CALLS.get() + 1);
        let batch = Batch::from_bytes(batch).map_err(|error| failure(error.to_string()))?;
        MODE.with_borrow(|mode| answer(mode, &batch.view()))
            .map_err(failure)
    }
}

/// Passes all, and measures something by a label that is the whole value.
fn series(batch: &BatchView<'_>) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    for (index, record) in batch.records().enumerate() {
        outcomes.pass();
        let label = String::from_utf8_lossy(record.value().unwrap_or_default());
        outcomes.sample(index as u32, 1, 1.0f64.to_bits(), &[&label]);
    }
    outcomes.finish()
}

/// A failure for good.
fn failure(message: String) -> Failure {
    Failure {
        class: FailureClass::Permanent,
        code: "hostile".into(),
        message,
    }
}

fn answer(mode: &str, batch: &BatchView<'_>) -> Result<Vec<u8>, String> {
    let bad = |record: &tidegate_record::RecordView<'_>| {
        let value = record.value().unwrap_or_default();
        value == b"bad" || value.ends_with(b":\"bad\"}")
    };
    let poisoned = batch.records().any(|record| bad(&record));
    match mode {
        "outcomes" => return Ok(every_kind(batch)),
        "config" => return Ok(dead_letters(batch, &CONFIG.with_borrow(String::clone))),
        "clock" => return Ok(dead_letters(batch, &batch.clock().to_string())),
        "every" => return Ok(every::every(batch)),
        "series" => return Ok(series(batch)),
        "echo" | "keys" => return Ok(rendered(batch)),
        "present" => return Ok(present(batch)),
        "flood" => {
            flood();
            log_line(Level::Warn, &"long ".repeat(100_000));
        }
        "last-words" => log_line(Level::Info, &format!("call {}", CALLS.get())),
        "count" if !poisoned => return Ok(counts(batch, 0)),
        "slow" => take(TURNS.get() * batch.len() as u64),
        "cold" => {
            let first = if CALLS.get() == 1 { 20 } else { 0 };
            take(TURNS.get() * (first + batch.len() as u64));
        }
        "rude" => return Ok(dead_letters(batch, &RUDE.repeat(10_000))),
        "rude-retry" => return Ok(retries(batch, 0, &RUDE.repeat(1000))),
        "put-off" => return Ok(retries(batch, 600_000, "not before noon")),
        // Fails because of what it remembers, not because of a record.
        "forgetful" if CALLS.get() == 3 => panic!("I cannot remember"),
        "leak" => std::mem::forget(std::hint::black_box(vec![1u8; 4 << 20])),
        _ => {}
    }
    if poisoned {
        match mode {
            "loop" => spin(),
            "grow" => grow(),
            "trap" | "count" => panic!("a bad record"),
            "recurse" => log_line(Level::Info, &recurse(1).to_string()),
            "last-words" => {
                log_line(Level::Error, "panicked at src/lib.rs:1:2:\nboom \x1b[2J");
                panic!("boom")
            }
            "last-words-flood" => {
                flood();
                panic!("boom")
            }
            "error" => return Err("I refuse".into()),
            "rude-error" => return Err(RUDE.repeat(10_000)),
            "empty" => return Ok(Vec::new()),
            "fewer" => return Ok(passes(batch.len() - 1)),
            "action" => {
                let mut bytes = passes(batch.len());
                bytes[OUTCOMES_HEADER] = 99;
                return Ok(bytes);
            }
            "offsets" => {
                // A replacement whose value reaches far beyond the answer.
                let mut bytes = passes(batch.len());
                bytes[OUTCOMES_HEADER] = 2;
                let payload = [2, 0xff, 0xff, 0xff, 0x7f];
                bytes.extend_from_slice(&payload);
                let total = bytes.len() as u32;
                bytes[4..8].copy_from_slice(&total.to_le_bytes());
                bytes[28..32].copy_from_slice(&(payload.len() as u32).to_le_bytes());
                return Ok(bytes);
            }
            "output" => {
                let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
                batch
                    .records()
                    .for_each(|_| outcomes.route(7, &PatchBuilder::default()));
                return Ok(outcomes.finish());
            }
            "long" => return Ok(vec![b'x'; 20 << 20]),
            "huge" => return Ok(vec![b'x'; 1 << 30]),
            // SAFETY: none; the length is a lie, which is what the host is to find before anyone reads it.
            "huge-lie" => {
                return Ok(unsafe { Vec::from_raw_parts(16 as *mut u8, 1 << 30, 1 << 30) });
            }
            _ => {}
        }
    }
    Ok(passes(batch.len()))
}

fn flood() {
    for line in 0..10_000 {
        log_line(Level::Info, &format!("line {line}"));
    }
}

fn passes(records: usize) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(records);
    (0..records).for_each(|_| outcomes.pass());
    outcomes.finish()
}

fn every_kind(batch: &BatchView<'_>) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    for record in batch.records() {
        let mut patch = PatchBuilder::default();
        patch.set_value(Some(b"changed".into()));
        match record.id().offset % 7 {
            0 => outcomes.pass(),
            1 => outcomes.drop_record(),
            2 => outcomes.replace(&patch),
            3 => outcomes.split([(0, &patch), (2, &patch)].into_iter()),
            4 => outcomes.route(1, &patch),
            5 => outcomes.retry(250, "later"),
            _ => outcomes.dead_letter("not for me"),
        }
    }
    outcomes.finish()
}

fn dead_letters(batch: &BatchView<'_>, reason: &str) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    batch.records().for_each(|_| outcomes.dead_letter(reason));
    outcomes.finish()
}

/// Dead-letters each record with all that is known of it.
fn rendered(batch: &BatchView<'_>) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    for record in batch.records() {
        outcomes.dead_letter(&every::rendered(batch, &record));
    }
    outcomes.finish()
}

fn retries(batch: &BatchView<'_>, milliseconds: u32, reason: &str) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    batch
        .records()
        .for_each(|_| outcomes.retry(milliseconds, reason));
    outcomes.finish()
}

/// Counts every record, of which each second comes again.
fn counts(batch: &BatchView<'_>, metric: u16) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    for (index, record) in batch.records().enumerate() {
        outcomes.sample(index as u32, metric, 1, &[]);
        match record.id().offset % 2 {
            0 => outcomes.pass(),
            _ => outcomes.retry(0, "once more"),
        }
    }
    outcomes.finish()
}

/// Dead-letters each record with the fields it came with.
fn present(batch: &BatchView<'_>) -> Vec<u8> {
    let mut outcomes = OutcomesBuilder::with_capacity(batch.len());
    for record in batch.records() {
        outcomes.dead_letter(&record.fields().bits().to_string());
    }
    outcomes.finish()
}

/// Takes the time of so many turns.
fn take(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

fn spin() {
    let mut turns = 0u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

fn grow() {
    let mut held = Vec::new();
    loop {
        held.push(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
    }
}

#[allow(unconditional_recursion, reason = "it is meant to overflow the stack")]
fn recurse(depth: u64) -> u64 {
    let deeper = std::hint::black_box([depth; 64]);
    recurse(deeper[7] + 1) + deeper[9]
}

tidegate_sdk::bindings::export_component!(Hostile with_types_in tidegate_sdk::bindings);
