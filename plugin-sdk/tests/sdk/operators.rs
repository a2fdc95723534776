//! What authors write, and what comes of it.

use std::time::Duration;

use serde::Deserialize;
use tidegate_sdk::metrics::Counter;
use tidegate_sdk::prelude::*;
use tidegate_sdk::testing::check_schema;
use tidegate_sdk::{Described, Fields, NoConfig, Origin, RecordId};

/// A bare function: everything by default.
#[operator]
fn has_key(record: &Record) -> bool {
    record.key().is_some()
}

#[test]
fn a_function_may_answer_by_true_and_false() {
    let mut operator = Harness::<HasKey>::start("{}").unwrap();
    let answers = operator.run(&[TestRecord::of("a").with_key("k"), TestRecord::of("b")]);
    assert!(answers[0].is_pass() && answers[1].is_drop());
    let description = HasKey::DESCRIPTION;
    assert_eq!(
        (description.name, description.version),
        ("tidegate-sdk", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(description.reads, Fields::ALL);
    assert!(description.outputs.is_empty());
    check_schema::<HasKey>();
    assert!(
        Harness::<HasKey>::start(r#"{"a":1}"#)
            .unwrap_err()
            .contains("`a`")
    );
}

/// A configuration of a function.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    longest: usize,
}

const LIMITS: &str = r#"{
    "type": "object", "properties": {"longest": {"type": "integer"}}, "required": ["longest"],
    "additionalProperties": false, "examples": [{"longest": 3}]
}"#;

#[operator(name = "keep-short", version = "2.1.0", reads = ["value", "headers"], schema = LIMITS)]
fn keep_short(record: &Record, limits: &Limits) -> Result<Outcome, String> {
    let text = record.text().map_err(|error| error.to_string())?;
    assert!(
        record.key().is_none(),
        "a field that is not read is not there"
    );
    if text.len() > limits.longest {
        return Err(format!(
            "{} bytes are more than {}",
            text.len(),
            limits.longest
        ));
    }
    Ok(Outcome::replace()
        .header("kept", "yes")
        .remove_header("old")
        .event_time(record.now()))
}

#[test]
fn an_error_of_a_function_is_a_dead_letter() {
    let mut operator = Harness::<KeepShort>::start(r#"{"longest": 3}"#).unwrap();
    operator.set_clock(77);
    let kept = operator.run_one(
        TestRecord::of("abc")
            .with_key("k")
            .with_header("old", "1")
            .with_header("x", "2"),
    );
    assert_eq!(kept.record().header("kept"), Some("yes"));
    assert_eq!(kept.record().header("old"), None);
    assert_eq!(kept.record().header("x"), Some("2"));
    assert_eq!(kept.record().event_time, Some(77));
    assert_eq!(
        kept.record().key.as_deref(),
        Some(&b"k"[..]),
        "what is not read is kept"
    );
    assert_eq!(
        operator.run_one(TestRecord::of("abcd")).reason(),
        Some("4 bytes are more than 3")
    );
    assert_eq!(
        operator.run_one(TestRecord::default()).reason(),
        Some("value is null")
    );
    let not_text = operator.run_one(TestRecord::of([b'a', 0xff]));
    assert_eq!(not_text.reason(), Some("value is not UTF-8 at byte 1"));
    assert_eq!(KeepShort::DESCRIPTION.version, "2.1.0");
    check_schema::<KeepShort>();
    assert_eq!(
        Harness::<KeepShort>::start("{}").unwrap_err(),
        "config: missing field `longest`"
    );
}

/// An operator with memory that shows every outcome, as its value says.
struct Sorter {
    seen: u64,
}

#[derive(Deserialize)]
struct Order {
    to: String,
}

const SEEN: Counter = Counter::new("seen", "Records seen").labels(&["kind"]);

#[operator(name = "sort-orders", reads = ["value", "attributes"], outputs = ["left", "right"], metrics = [SEEN])]
impl Operator for Sorter {
    type Config = NoConfig;
    const CONFIG_SCHEMA: &'static str = NoConfig::SCHEMA;

    fn new(_: NoConfig) -> Result<Sorter, String> {
        Ok(Sorter { seen: 0 })
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome {
        self.seen += 1;
        SEEN.add_for(&["order"], 1);
        let order: Order = match record.json() {
            Ok(order) => order,
            Err(error) => {
                log!(Level::Warn, "record {}: {error}", record.id());
                return Outcome::dead_letter(error.to_string());
            }
        };
        match order.to.as_str() {
            "left" => Outcome::route("left"),
            "right" => Outcome::route("right")
                .value(self.seen.to_string())
                .attribute("secret", "s"),
            "both" => Outcome::split([
                Piece::from(Changes::new().null_value().null_key()),
                Piece::to(
                    "right",
                    Changes::new()
                        .key("k")
                        .add_header("h", "1")
                        .add_header("h", "2"),
                ),
            ]),
            "nowhere" => Outcome::split(Vec::<Changes>::new()),
            "later" => Outcome::retry(Duration::from_secs(2), "not yet"),
            "up" => Outcome::route("up"),
            "many" => Outcome::split(vec![Changes::new(); 5000]),
            _ => Outcome::replace(),
        }
    }
}

fn order(to: &str) -> TestRecord {
    TestRecord::of(format!(r#"{{"to":"{to}"}}"#))
        .with_key("old")
        .with_attribute("secret", "old")
}

#[test]
fn every_outcome_arrives_as_it_was_meant() {
    let mut operator = Harness::<Sorter>::start(serde_json::json!({})).unwrap();
    let answers =
        operator.run(&["left", "right", "both", "nowhere", "later", "on", "many"].map(order));
    assert_eq!(answers[0], Answer::Route("left".into(), order("left")));
    assert_eq!(answers[1].output(), Some("right"));
    assert_eq!(answers[1].record().text(), "2");
    assert_eq!(answers[1].record().attribute("secret"), Some("s"));
    let Answer::Split(pieces) = &answers[2] else {
        panic!("{:?}", answers[2])
    };
    assert_eq!(pieces[0].0, None);
    assert_eq!((&pieces[0].1.key, &pieces[0].1.value), (&None, &None));
    assert_eq!(
        pieces[0].1.id,
        RecordId {
            origin: Origin::Source,
            emit: 1,
            ..RecordId::default()
        }
    );
    assert_eq!(pieces[1].0.as_deref(), Some("right"));
    assert_eq!(pieces[1].1.headers.len(), 2);
    assert_eq!(pieces[1].1.attribute("secret"), Some("old"));
    assert_eq!(answers[3], Answer::Split(Vec::new()));
    assert_eq!(
        answers[4],
        Answer::Retry {
            after: Duration::from_secs(2),
            reason: "not yet".into()
        }
    );
    assert!(
        answers[5].is_pass(),
        "a replacement that changes nothing passes"
    );
    assert!(answers[6].reason().unwrap().contains("5000 pieces"));
    // One of the seven comes again, and does not count yet.
    assert_eq!(operator.counter("seen", &["order"]), 6);
}

#[test]
fn an_output_that_was_not_described_fails_the_batch_by_name() {
    let mut operator = Harness::<Sorter>::start("").unwrap();
    let error = operator.try_run(&[order("up")]).unwrap_err();
    assert_eq!(
        error,
        r#"operator sort-orders has no output "up", it describes ["left", "right"]"#
    );
}

#[test]
fn what_is_logged_can_be_looked_at() {
    let mut operator = Harness::<Sorter>::start("").unwrap();
    let mut record = TestRecord::of("[]");
    record.id = RecordId {
        origin: Origin::Source,
        source: 1,
        partition: 2,
        offset: 3,
        emit: 0,
    };
    assert!(
        operator
            .run_one(record)
            .reason()
            .unwrap()
            .starts_with("value is not the expected JSON: invalid length 0")
    );
    let lines = operator.log_lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].0 == Level::Warn && lines[0].1.starts_with("record 1/2/3: value is not"));
}

#[test]
fn a_batch_that_is_none_is_an_error() {
    let mut runner = tidegate_sdk::Runner::<Sorter>::start("{}").unwrap();
    assert!(
        runner
            .process(b"TGB")
            .unwrap_err()
            .message
            .contains("64 bytes")
    );
}

#[test]
#[should_panic(expected = "keys of the schema and of the type")]
fn a_schema_that_lies_is_found_out() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        #[serde(rename = "real")]
        _real: Option<u8>,
    }
    struct Liar;
    #[operator(name = "lie")]
    impl Operator for Liar {
        type Config = Config;
        const CONFIG_SCHEMA: &'static str =
            r#"{"type":"object","properties":{"other":{}},"additionalProperties":false}"#;
        fn new(_: Config) -> Result<Liar, String> {
            Ok(Liar)
        }
        fn process(&mut self, _: &Record<'_>) -> Outcome {
            Outcome::Pass
        }
    }
    check_schema::<Liar>();
}
