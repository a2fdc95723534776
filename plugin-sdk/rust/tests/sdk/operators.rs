//! What authors write, and what comes of it.

use std::time::Duration;

use serde::Deserialize;
use tidegate_sdk::metrics::{Counter, Gauge, Histogram};
use tidegate_sdk::prelude::*;
use tidegate_sdk::{Described, FailureClass, Fields, Origin, RecordId};

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
    assert!(operator.outputs().is_empty());
    let wrong = Harness::<HasKey>::start(r#"{"a":1}"#).unwrap_err();
    assert_eq!(wrong.class, FailureClass::BadConfiguration);
    assert!(wrong.message.contains("`a`"), "{wrong}");
}

/// A configuration of a function.
#[derive(Debug, Configuration)]
struct Limits {
    longest: usize,
}

#[operator(name = "keep-short", version = "2.1.0", reads = ["value", "headers"])]
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
    Ok(Changes::new()
        .header("kept", "yes")
        .remove_header("old")
        .event_time(record.now())
        .into())
}

#[test]
fn an_error_of_a_function_is_a_dead_letter() {
    let mut operator = Harness::<KeepShort>::start(r#"{"longest": 3}"#).unwrap();
    operator.set_clock(Timestamp::from_micros(77));
    let kept = operator.run_one(
        TestRecord::of("abc")
            .with_key("k")
            .with_header("old", "1")
            .with_header("x", "2"),
    );
    assert_eq!(kept.record().header_text("kept"), Some("yes"));
    assert_eq!(kept.record().header_text("old"), None);
    assert_eq!(kept.record().header_text("x"), Some("2"));
    assert_eq!(kept.record().event_time(), Some(Timestamp::from_micros(77)));
    assert_eq!(
        kept.record().key(),
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
    assert_eq!(
        Harness::<KeepShort>::start("{}").unwrap_err().message,
        "config key `longest` is missing"
    );
}

/// An operator that shows every outcome, as its value says.
struct Sorter;

#[derive(Deserialize)]
struct Order {
    to: String,
}

#[derive(Output)]
enum Side {
    Left,
    #[output(name = "right")]
    OtherLeft,
}

const SEEN: Counter = Counter::new("seen", "Records seen").labels(&["kind"]);

#[operator(name = "sort-orders", reads = ["value", "attributes"], metrics = [SEEN])]
impl Operator for Sorter {
    type Output = Side;

    fn new(_: NoConfig) -> Result<Sorter, Failure> {
        Ok(Sorter)
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome<Side> {
        SEEN.add_for(&["order"], 1);
        let order: Order = match record.json() {
            Ok(order) => order,
            Err(error) => {
                log!(Level::Warn, "record {}: {error}", record.id());
                return Outcome::dead_letter(error.to_string());
            }
        };
        match order.to.as_str() {
            "left" => Outcome::route(Side::Left),
            "right" => Outcome::route_changed(
                Side::OtherLeft,
                Changes::new().value("changed").attribute("secret", "s"),
            ),
            "both" => Outcome::split([
                Piece::from(Changes::new().null_value().null_key().no_event_time()),
                Piece::to(
                    Side::OtherLeft,
                    Changes::new()
                        .key("k")
                        .add_header("h", "1")
                        .add_header("h", "2"),
                ),
            ]),
            "nowhere" => Outcome::split(Vec::<Changes>::new()),
            "later" => Outcome::retry(Duration::from_secs(2), "not yet"),
            "down" => Outcome::Fail(Failure::transient("table-closed", "no table is open")),
            "many" => Outcome::split(vec![Changes::new(); 5000]),
            "long" => Outcome::replace(Changes::new().header(&"n".repeat(65_536), "")),
            _ => Outcome::replace(Changes::new()),
        }
    }
}

fn order(to: &str) -> TestRecord {
    TestRecord::of(format!(r#"{{"to":"{to}"}}"#))
        .with_key("old")
        .with_attribute("secret", "old")
        .with_event_time(Timestamp::from_secs(5))
}

#[test]
fn every_outcome_arrives_as_it_was_meant() {
    let mut operator = Harness::<Sorter>::start(serde_json::json!({})).unwrap();
    let answers =
        operator.run(&["left", "right", "both", "nowhere", "later", "on", "many"].map(order));
    assert_eq!(answers[0], Answer::Route("left".into(), order("left")));
    assert_eq!(answers[1].output(), Some("right"));
    assert_eq!(answers[1].record().text(), Ok("changed"));
    assert_eq!(answers[1].record().attribute_text("secret"), Some("s"));
    let Answer::Split(pieces) = &answers[2] else {
        panic!("{:?}", answers[2])
    };
    assert_eq!(pieces[0].0, None);
    assert_eq!((pieces[0].1.key(), pieces[0].1.value()), (None, None));
    assert_eq!(pieces[0].1.event_time(), None);
    assert_eq!(
        pieces[0].1.id(),
        RecordId {
            origin: Origin::Source,
            emit: 1,
            ..RecordId::default()
        }
    );
    assert_eq!(pieces[1].0.as_deref(), Some("right"));
    assert_eq!(pieces[1].1.headers().count(), 2);
    assert_eq!(pieces[1].1.attribute_text("secret"), Some("old"));
    assert_eq!(pieces[1].1.event_time(), Some(Timestamp::from_secs(5)));
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

const LEVEL: Gauge = Gauge::new("level", "The level").labels(&["tank"]);
const FLOW: Histogram = Histogram::new("flow", "The flow");

/// Measures what the host would refuse.
#[operator(name = "measure-much", metrics = [LEVEL, FLOW])]
fn measure_much(record: &Record) -> Result<Outcome, FieldError> {
    match record.text()? {
        "many" => (0..257).for_each(|_| FLOW.observe(1.0)),
        "without" => LEVEL.set(1.0),
        tank => {
            for value in [f64::NAN, f64::INFINITY, 2.0] {
                LEVEL.set_for(&[tank], value);
                FLOW.observe(value);
            }
        }
    }
    Ok(Outcome::Pass)
}

#[test]
fn what_the_host_would_refuse_of_measurements_is_cut_ignored_or_fails_the_test() {
    let mut operator = Harness::<MeasureMuch>::start("").unwrap();
    let tank = "é".repeat(200);
    operator.run_one(TestRecord::of(tank.as_str()));
    assert_eq!(operator.values("level", &[&tank[..256]]), [2.0]);
    assert_eq!(operator.values("level", &[&tank]), [2.0], "as it was given");
    assert_eq!(operator.values("flow", &[]), [2.0]);
    for (value, expected) in [
        (
            "many",
            "record 0 of the batch has more than 256 measurements",
        ),
        (
            "without",
            "metric level is measured with 0 labels, it has 1",
        ),
    ] {
        let failure = operator.try_run(&[TestRecord::of(value)]).unwrap_err();
        assert_eq!(failure.message, expected);
    }
}

#[test]
fn a_header_that_cannot_be_written_makes_a_dead_letter_and_is_not_cut() {
    let mut operator = Harness::<Sorter>::start("").unwrap();
    assert_eq!(
        operator.run_one(order("long")).reason(),
        Some(
            "changes cannot be applied: name of 65536 bytes among the headers of a record exceeds the limit of 65535 \
             bytes"
        )
    );
}

#[test]
fn an_operator_may_fail_the_whole_call() {
    let mut operator = Harness::<Sorter>::start("").unwrap();
    let failure = operator.try_run(&[order("left"), order("down")]);
    let failure = failure.unwrap_err();
    assert_eq!(failure.class, FailureClass::Transient);
    assert_eq!(failure.to_string(), "table-closed: no table is open");
    // What was measured before it failed counts no more.
    operator.run(&[order("left")]);
    assert_eq!(operator.counter("seen", &["order"]), 1);
}

/// An operator that cannot start yet.
struct Late;

#[operator]
impl Operator for Late {
    fn new(_: NoConfig) -> Result<Late, Failure> {
        Err(Failure::transient("no-list", "the list is not there yet"))
    }

    fn process(&mut self, _: &Record<'_>) -> Outcome {
        Outcome::Pass
    }
}

#[test]
fn an_operator_may_say_that_it_can_start_later() {
    let failure = Harness::<Late>::start("").unwrap_err();
    assert_eq!(failure.class, FailureClass::Transient);
    assert_eq!(Failure::from("why").class, FailureClass::BadConfiguration);
}

/// Goes where the configuration says, or somewhere it does not.
struct Names(NamedConfig);

#[derive(Configuration)]
struct NamedConfig {
    outputs: Vec<OutputName>,
}

#[operator(name = "name-outputs")]
impl Operator for Names {
    type Config = NamedConfig;
    type Output = OutputName;

    fn new(config: NamedConfig) -> Result<Names, Failure> {
        Ok(Names(config))
    }

    fn outputs(config: &NamedConfig) -> Vec<OutputName> {
        config.outputs.clone()
    }

    fn process(&mut self, record: &Record<'_>) -> Outcome<OutputName> {
        match self.0.outputs.first() {
            Some(first) if record.key().is_none() => Outcome::route(first.clone()),
            _ => match OutputName::new("elsewhere") {
                Ok(elsewhere) => Outcome::route(elsewhere),
                Err(why) => Outcome::dead_letter(why),
            },
        }
    }
}

#[test]
fn a_configuration_may_name_the_outputs() {
    let config = serde_json::json!({"outputs": ["one", "two", "one"]});
    let mut operator = Harness::<Names>::start(config).unwrap();
    assert_eq!(operator.outputs(), ["one", "two"]);
    assert_eq!(operator.run_one(TestRecord::of("")).output(), Some("one"));
    let elsewhere = TestRecord::of("").with_key("k");
    assert_eq!(
        operator.try_run(&[elsewhere]).unwrap_err().message,
        r#"operator name-outputs has no output "elsewhere", it describes ["one", "two"]"#
    );
    let empty = serde_json::json!({"outputs": [""]});
    let wrong = Harness::<Names>::start(empty).unwrap_err().message;
    assert!(
        wrong.contains("`outputs[0]` is \"\", expected a name of 1 to 128 bytes"),
        "{wrong}"
    );
}

/// Says what it drew.
#[operator(name = "draw")]
fn draw(record: &Record) -> Changes {
    Changes::new().header("drawn", record.random().bits().to_string())
}

#[test]
fn a_record_that_comes_again_draws_the_same() {
    let drawn = |operator: &mut Harness<Draw>, offset| {
        let id = RecordId {
            offset,
            ..RecordId::default()
        };
        let answer = operator.run_one(TestRecord::of("").with_id(id));
        answer.record().header_text("drawn").unwrap().to_owned()
    };
    let mut operator = Harness::<Draw>::start("").unwrap();
    let first = drawn(&mut operator, 1);
    assert_ne!(drawn(&mut operator, 2), first);
    assert_eq!(drawn(&mut operator, 1), first);
    operator.set_clock(Timestamp::from_secs(1));
    assert_eq!(drawn(&mut Harness::<Draw>::start("").unwrap(), 1), first);
    operator.set_seed([1; 16]);
    assert_ne!(
        drawn(&mut operator, 1),
        first,
        "another slot draws otherwise"
    );
}

#[test]
fn a_record_is_looked_at_in_tests_as_in_operators() {
    let record = TestRecord::of("7")
        .with_header("h", [0xff])
        .with_header("t", "text");
    let (header, text): (Option<&[u8]>, Option<&str>) =
        (record.header("h"), record.header_text("t"));
    assert_eq!((header, text), (Some(&[0xff][..]), Some("text")));
    assert_eq!(record.header_text("h"), None);
    assert_eq!(record.json::<u8>(), Ok(7));
    assert_eq!(
        record.headers().map(|pair| pair.name).collect::<Vec<_>>(),
        ["h", "t"]
    );
    assert_eq!(TestRecord::default().text(), Err(FieldError::Null));
}

#[test]
fn what_is_logged_can_be_looked_at() {
    let mut operator = Harness::<Sorter>::start("").unwrap();
    let record = TestRecord::of("[]").with_id(RecordId {
        origin: Origin::Source,
        source: 1,
        partition: 2,
        offset: 3,
        emit: 0,
    });
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
