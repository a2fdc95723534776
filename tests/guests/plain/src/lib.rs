//! An operator of the world `plain-operator-alone`, made with nothing but a WIT generator. Its configuration is the name
//! of what it does, as JSON: `{"mode": "every"}`. What it answers well is what the guest `hostile` answers in the packed
//! world (`tests/guests/hostile/src/every.rs`).

#![cfg(target_family = "wasm")]
#![allow(
    unsafe_code,
    unreachable_pub,
    reason = "the exports of a component have the C calling convention, and the generator makes them public"
)]

#[allow(missing_docs, reason = "generated")]
mod bindings;
mod every;

use std::cell::RefCell;

use bindings::exports::tidegate::operator::plain::{
    Answer, Batch, Description, Emission, Failure, FieldChange, Guest, Outcome, Pair, PairChange,
    Patch, Sample, TimeChange,
};
use bindings::tidegate::operator::types::{FailureClass, Fields, Metric, MetricKind};

thread_local! {
    static CONFIG: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Plain;

impl Guest for Plain {
    fn describe(config: String) -> Result<Description, Failure> {
        if is(&config, "undescribed") {
            return Err(failure(FailureClass::BadConfiguration, "no such mode"));
        }
        let reads = match is(&config, "keys") {
            true => Fields::KEY,
            false => Fields::all(),
        };
        let metric = |name: &str, kind, labels: &[&str], bounds| Metric {
            name: name.into(),
            kind,
            help: String::new(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            bounds,
        };
        Ok(Description {
            name: "answer-plainly".into(),
            version: "1.0.0".into(),
            config_schema: r#"{"type": "object"}"#.into(),
            reads,
            outputs: vec!["side".into(), "other".into()],
            metrics: vec![
                metric("seen", MetricKind::Counter, &[], Vec::new()),
                metric("level", MetricKind::Gauge, &["lang"], Vec::new()),
                metric("took", MetricKind::Histogram, &[], vec![0.5, 1.0]),
            ],
            handlers: Vec::new(),
            extensions: Vec::new(),
        })
    }

    fn init(config: String) -> Result<(), Failure> {
        if is(&config, "uninitialised") {
            return Err(failure(FailureClass::Permanent, "not today"));
        }
        CONFIG.set(config);
        Ok(())
    }

    fn process(batch: Batch) -> Result<Answer, Failure> {
        CONFIG.with_borrow(|config| answer(config, &batch))
    }
}

/// Whether the configuration names this mode.
fn is(config: &str, mode: &str) -> bool {
    config.contains(&format!("\"{mode}\""))
}

fn failure(class: FailureClass, message: &str) -> Failure {
    Failure {
        class,
        code: "plain".into(),
        message: message.into(),
    }
}

/// What changes nothing.
fn same() -> Patch {
    Patch {
        key: FieldChange::Keep,
        value: FieldChange::Keep,
        event_time: TimeChange::Keep,
        headers: Vec::new(),
        attributes: Vec::new(),
    }
}

fn answer(config: &str, batch: &Batch) -> Result<Answer, Failure> {
    if is(config, "every") {
        return Ok(every::every(batch));
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut samples = Vec::new();
    for (index, message) in batch.messages.iter().enumerate() {
        if is(config, "echo") || is(config, "keys") {
            outcomes.push(Outcome::DeadLetter(every::rendered(batch, message)));
            continue;
        }
        let is_bad = message.value.as_deref() == Some(b"bad");
        outcomes.push(match is_bad {
            true => bad(config, index, &mut samples)?,
            false => Outcome::Pass,
        });
        if is_bad && is(config, "count") {
            outcomes.push(Outcome::Pass);
        }
    }
    Ok(Answer { outcomes, samples })
}

/// What is done with a bad record.
fn bad(config: &str, index: usize, samples: &mut Vec<Sample>) -> Result<Outcome, Failure> {
    let sample = |message: usize, metric, labels: &[&str], value| Sample {
        message: message as u32,
        metric,
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        value,
    };
    let named = |name: String, value| Pair { name, value };
    let classes = [
        ("transient", FailureClass::Transient),
        ("permanent", FailureClass::Permanent),
        ("bad-configuration", FailureClass::BadConfiguration),
    ];
    for (mode, class) in classes {
        if is(config, mode) {
            return Err(failure(class, "this batch is not for me"));
        }
    }
    let to = |name: &str, patch| Emission {
        output: Some(name.into()),
        patch,
    };
    let replaced = |headers| Outcome::Replace(Patch { headers, ..same() });
    match () {
        () if is(config, "output") => return Ok(Outcome::Route(to("nowhere", same()))),
        () if is(config, "piece") => return Ok(Outcome::Split(vec![to("Side", same())])),
        () if is(config, "pieces") => {
            let piece = to("side", same());
            return Ok(Outcome::Split(vec![piece; 4096]));
        }
        () if is(config, "name") => {
            let long = PairChange::Add(named("n".repeat(65_536), None));
            return Ok(replaced(vec![long]));
        }
        () if is(config, "changes") => {
            let one = PairChange::Add(named("n".into(), None));
            return Ok(replaced(vec![one; 65_536]));
        }
        () if is(config, "long") => {
            let value = FieldChange::Set(vec![b'x'; 20 << 20]);
            return Ok(Outcome::Replace(Patch { value, ..same() }));
        }
        () if is(config, "trap") => panic!("a bad record"),
        () => {}
    }
    match () {
        () if is(config, "record") => samples.push(sample(1000, 0, &[], 1.0)),
        () if is(config, "metric") => samples.push(sample(index, 3, &[], 1.0)),
        () if is(config, "labels") => samples.push(sample(index, 1, &["de", "en"], 1.0)),
        () if is(config, "label") => {
            samples.push(sample(index, 1, &[&"d".repeat(65_536)], 1.0));
        }
        () if is(config, "fraction") => samples.push(sample(index, 0, &[], 1.5)),
        () if is(config, "negative") => samples.push(sample(index, 0, &[], -1.0)),
        () if is(config, "nan") => samples.push(sample(index, 2, &[], f64::NAN)),
        () if is(config, "many") => {
            samples.extend((0..10_000).map(|_| sample(index, 0, &[], 1.0)));
        }
        () => {}
    }
    Ok(Outcome::Pass)
}

bindings::export_component!(Plain with_types_in bindings);
