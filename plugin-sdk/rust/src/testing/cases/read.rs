//! Reads a file of cases, strictly: what is unknown or of another form is an error that names its place.

use serde_json::{Map, Value, json};
use tidegate_record::layout::MAX_PIECES;
use tidegate_record::{Origin, RecordId};

use super::bytes;
use super::tokens::{self, TokensCase};
use crate::Timestamp;
use crate::testing::TestRecord;

/// Most headers or attributes of a record.
const MOST_PAIRS: usize = 65_535;

/// A case. What is expected is in one form: bytes as [`bytes::canonical`] has them, repetitions written out.
pub(super) struct Case {
    pub(super) name: String,
    /// JSON text.
    pub(super) config: String,
    pub(super) clock: Timestamp,
    pub(super) seed: [u8; 16],
    pub(super) sandbox: bool,
    pub(super) records: Vec<TestRecord>,
    /// In place of records.
    pub(super) tokens: Option<TokensCase>,
    pub(super) expected: Expected,
    pub(super) log: Option<Vec<Value>>,
    pub(super) metrics: Option<Vec<Value>>,
}

pub(super) enum Expected {
    /// One for each record; none of a text.
    Outcomes(Vec<Value>),
    /// Of the whole batch.
    Failure(Value),
    /// It does not start.
    Refused(Value),
}

/// The cases of a file.
pub(super) fn cases(text: &str) -> Result<Vec<Case>, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let members = only(&file, &["$schema", "config", "cases"])?;
    let none = json!({});
    let config = members.get("config").unwrap_or(&none);
    let mut cases: Vec<Case> = Vec::new();
    for (index, value) in list(&file, "cases")?.iter().enumerate() {
        let name = value["name"].as_str().map(str::to_owned);
        let Some(name) = name else {
            return Err(format!("cases[{}] has no name", index + 1));
        };
        if cases.iter().any(|case| case.name == name) {
            return Err(format!("two cases have the name \"{name}\""));
        }
        let read = case(value, config, name.clone());
        cases.push(read.map_err(|why| format!("case \"{name}\": {why}"))?);
    }
    Ok(cases)
}

const MEMBERS: [&str; 13] = [
    "name", "config", "clock", "seed", "limits", "sandbox", "records", "tokens", "outcomes", "log",
    "metrics", "failure", "refused",
];

fn case(value: &Value, config: &Value, name: String) -> Result<Case, String> {
    let members = only(value, &MEMBERS)?;
    let mut records = Vec::new();
    if members.contains_key("records") {
        for (index, value) in list(value, "records")?.iter().enumerate() {
            let read = record(value, index as u64);
            records.push(read.map_err(|why| format!("records[{}]{why}", index + 1))?);
        }
    }
    let expected = ["outcomes", "failure", "refused"];
    let there: Vec<&str> = expected
        .into_iter()
        .filter(|name| members.contains_key(*name))
        .collect();
    let expected = match there[..] {
        [] if members.contains_key("tokens") => Expected::Outcomes(Vec::new()),
        ["outcomes"] => Expected::Outcomes(outcomes(value, records.len())?),
        ["failure"] => {
            Expected::Failure(failure(&value["failure"]).map_err(|why| format!("failure{why}"))?)
        }
        ["refused"] => {
            Expected::Refused(failure(&value["refused"]).map_err(|why| format!("refused{why}"))?)
        }
        _ => {
            return Err(format!(
                "has {there:?}, expected one of outcomes, failure and refused"
            ));
        }
    };
    let lists = |name: &str| match members.contains_key(name) {
        true => list(value, name).map(|list| Some(list.clone())),
        false => Ok(None),
    };
    let is_sandbox = members.get("sandbox").map_or(Some(false), Value::as_bool);
    Ok(Case {
        name,
        config: members.get("config").unwrap_or(config).to_string(),
        clock: match members.get("clock") {
            None => Timestamp::from_secs(1_700_000_000),
            Some(clock) => {
                Timestamp::from_micros(whole(clock).map_err(|why| format!("clock{why}"))?)
            }
        },
        seed: match members.get("seed") {
            None => *b"a seed for tests",
            Some(seed) => self::seed(seed)
                .ok_or_else(|| format!("seed is {seed}, expected 32 hexadecimal digits"))?,
        },
        sandbox: is_sandbox.ok_or("sandbox is neither true nor false")?,
        records,
        tokens: members
            .get("tokens")
            .map(|tokens| tokens::read(tokens).map_err(|why| format!("tokens{why}")))
            .transpose()?,
        expected,
        log: lists("log")?,
        metrics: lists("metrics")?,
    })
}

fn seed(value: &Value) -> Option<[u8; 16]> {
    let text = value
        .as_str()
        .filter(|text| text.len() == 32 && text.is_ascii())?;
    let mut seed = [0; 16];
    for (at, byte) in seed.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(seed)
}

fn record(value: &Value, index: u64) -> Result<TestRecord, String> {
    let known = ["key", "value", "headers", "attributes", "event-time", "id"];
    let members = only(value, &known)?;
    let field = |name: &str| match members.get(name) {
        None => Ok(None),
        Some(value) => bytes::read(value).map_err(|why| format!(".{name} {why}")),
    };
    let mut record = TestRecord::default();
    if let Some(value) = field("value")? {
        record = TestRecord::of(value);
    }
    if let Some(key) = field("key")? {
        record = record.with_key(key);
    }
    for (name, value) in pairs(members.get("headers")).map_err(|why| format!(".headers{why}"))? {
        record = match value {
            Some(value) => record.with_header(&name, value),
            None => record.with_null_header(&name),
        };
    }
    for (name, value) in
        pairs(members.get("attributes")).map_err(|why| format!(".attributes{why}"))?
    {
        record = match value {
            Some(value) => record.with_attribute(&name, value),
            None => record.with_null_attribute(&name),
        };
    }
    match members.get("event-time") {
        None | Some(Value::Null) => {}
        Some(time) => {
            let time = whole(time).map_err(|why| format!(".event-time{why}"))?;
            record = record.with_event_time(Timestamp::from_micros(time));
        }
    }
    let id = identity(members.get("id"), index).map_err(|why| format!(".id{why}"))?;
    Ok(record.with_id(id))
}

fn identity(value: Option<&Value>, index: u64) -> Result<RecordId, String> {
    let none = json!({});
    let value = value.unwrap_or(&none);
    let members = only(value, &["origin", "source", "partition", "offset", "emit"])?;
    let number = |name: &str, most: u64, default: u64| match members.get(name) {
        None => Ok(default),
        Some(found) => found
            .as_u64()
            .filter(|found| *found <= most)
            .ok_or_else(|| format!(".{name} is {found}, expected a whole number, at most {most}")),
    };
    Ok(RecordId {
        origin: match members.get("origin").map(Value::as_str) {
            None | Some(Some("source")) => Origin::Source,
            Some(Some("timer")) => Origin::Timer,
            Some(_) => {
                return Err(format!(
                    ".origin is {}, expected \"source\" or \"timer\"",
                    value["origin"]
                ));
            }
        },
        source: number("source", u16::MAX.into(), 0)? as u16,
        partition: number("partition", u32::MAX.into(), 0)? as u32,
        offset: number("offset", u64::MAX, index)?,
        emit: number("emit", u64::MAX, 0)?,
    })
}

pub(super) type OwnedPairs = Vec<(String, Option<Vec<u8>>)>;

/// A list of pairs, an object, or one pair many times.
pub(super) fn pairs(value: Option<&Value>) -> Result<OwnedPairs, String> {
    let pair = |value: &Value| match value.as_array().map(Vec::as_slice) {
        Some([Value::String(name), value]) => Ok((
            name.clone(),
            bytes::read(value).map_err(|why| format!(" {why}"))?,
        )),
        _ => Err(format!(" has {value}, expected [name, value]")),
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(pair).collect(),
        Some(value @ Value::Object(members))
            if members.get("repeat").is_some_and(Value::is_array) =>
        {
            only(value, &["repeat", "times"])?;
            let times = bytes::times(value, MOST_PAIRS).map_err(|why| format!(" {why}"))?;
            Ok(vec![pair(&members["repeat"])?; times])
        }
        Some(Value::Object(members)) => members
            .iter()
            .map(|(name, value)| {
                let value = bytes::read(value).map_err(|why| format!(".{name} {why}"))?;
                Ok((name.clone(), value))
            })
            .collect(),
        Some(other) => Err(format!(" is {other}, expected a list or an object")),
    }
}

fn outcomes(case: &Value, records: usize) -> Result<Vec<Value>, String> {
    let list = list(case, "outcomes")?;
    if list.len() != records {
        return Err(format!("outcomes are {}, records {records}", list.len()));
    }
    let read =
        |(index, value)| outcome(value).map_err(|why| format!("outcomes[{}]{why}", index + 1));
    list.iter().enumerate().map(read).collect()
}

fn outcome(value: &Value) -> Result<Value, String> {
    let members = match value {
        Value::String(text) if text == "pass" || text == "drop" => return Ok(value.clone()),
        Value::Object(members) if members.len() == 1 => members,
        other => {
            return Err(format!(
                " is {other}, expected \"pass\", \"drop\" or an object of one member"
            ));
        }
    };
    let Some((kind, value)) = members.iter().next() else {
        return Err(" is empty".into());
    };
    let read = match kind.as_str() {
        "replace" => {
            patch(value, false).map(|patch| match patch.as_object().is_some_and(Map::is_empty) {
                true => "pass".into(),
                false => json!({"replace": patch}),
            })
        }
        "route" if !value["to"].is_string() => Err(".to is missing".into()),
        "route" => patch(value, true).map(|patch| json!({"route": patch})),
        "split" => pieces(value).map(|pieces| match pieces.is_empty() {
            true => "drop".into(),
            false => json!({"split": pieces}),
        }),
        "retry" => retry(value),
        "dead-letter" | "poison" | "raised" => text(value).map(|()| json!({kind: value})),
        _ => return Err(format!(" is the outcome {kind:?}, which there is not")),
    };
    read.map_err(|why| format!(".{kind}{why}"))
}

fn pieces(value: &Value) -> Result<Vec<Value>, String> {
    let read = |(index, value)| patch(value, true).map_err(|why| format!("[{}]{why}", index + 1));
    match value {
        Value::Array(list) => list.iter().enumerate().map(read).collect(),
        Value::Object(members) if members.contains_key("repeat") => {
            only(value, &["repeat", "times"])?;
            let times =
                bytes::times(value, MAX_PIECES as usize).map_err(|why| format!(" {why}"))?;
            Ok(vec![patch(&members["repeat"], true)?; times])
        }
        other => Err(format!(" is {other}, expected a list of pieces")),
    }
}

/// What becomes of the record when it comes again is for the sandbox.
fn retry(value: &Value) -> Result<Value, String> {
    let members = only(value, &["after-ms", "reason", "then"])?;
    let (after, reason) = (&value["after-ms"], &value["reason"]);
    text(reason).map_err(|why| format!(".reason{why}"))?;
    whole(after).map_err(|why| format!(".after-ms{why}"))?;
    if let Some(then) = members.get("then") {
        outcome(then).map_err(|why| format!(".then{why}"))?;
    }
    Ok(json!({"retry": {"after-ms": after, "reason": reason}}))
}

fn patch(value: &Value, is_sent: bool) -> Result<Value, String> {
    let known = ["key", "value", "headers", "attributes", "event-time", "to"];
    let known = if is_sent { &known[..] } else { &known[..5] };
    let mut patch = Map::new();
    for (name, value) in only(value, known)? {
        let read = match name.as_str() {
            "key" | "value" => bytes::read(value)
                .map(|bytes| bytes::canonical(bytes.as_deref()))
                .map_err(|why| format!(" {why}")),
            "headers" | "attributes" => changes(value),
            "event-time" if value.is_null() => Ok(Value::Null),
            "event-time" => whole(value).map(Value::from),
            _ => match value.is_string() {
                true => Ok(value.clone()),
                false => Err(format!(" is {value}, expected the name of an output")),
            },
        };
        let read = read.map_err(|why| format!(".{name}{why}"))?;
        if read != json!([]) {
            patch.insert(name.clone(), read);
        }
    }
    Ok(Value::Object(patch))
}

/// Changes of headers or attributes.
fn changes(value: &Value) -> Result<Value, String> {
    let list = value
        .as_array()
        .ok_or_else(|| format!(" is {value}, expected a list of changes"))?;
    let change = |(index, value): (usize, &Value)| {
        let change = value.as_array().map(Vec::as_slice);
        match change {
            Some([Value::String(operation), Value::String(name), value])
                if operation == "set" || operation == "add" =>
            {
                let bytes = bytes::read(value).map_err(|why| format!("[{}] {why}", index + 1))?;
                Ok(json!([operation, name, bytes::canonical(bytes.as_deref())]))
            }
            Some([Value::String(operation), Value::String(_)]) if operation == "remove" => {
                Ok(value.clone())
            }
            _ => Err(format!(
                "[{}] is {value}, expected [\"set\" or \"add\", name, value] or [\"remove\", name]",
                index + 1
            )),
        }
    };
    list.iter().enumerate().map(change).collect()
}

fn failure(value: &Value) -> Result<Value, String> {
    let members = only(value, &["class", "code", "message"])?;
    for name in ["class", "code"] {
        if members.get(name).is_some_and(|value| !value.is_string()) {
            return Err(format!(".{name} is {}, expected a text", value[name]));
        }
    }
    match members.get("message") {
        None => {}
        Some(message) => text(message).map_err(|why| format!(".message{why}"))?,
    }
    Ok(value.clone())
}

/// That a value is a text, or the parts of one.
pub(super) fn text(value: &Value) -> Result<(), String> {
    let parts = value["contains"].as_array();
    let is_parts = value.as_object().is_some_and(|members| members.len() == 1)
        && parts.is_some_and(|parts| parts.iter().all(Value::is_string));
    match value.is_string() || is_parts {
        true => Ok(()),
        false => Err(format!(
            " is {value}, expected a text or {{\"contains\": [texts]}}"
        )),
    }
}

fn whole(value: &Value) -> Result<i64, String> {
    value
        .as_i64()
        .ok_or_else(|| format!(" is {value}, expected a whole number"))
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, String> {
    let found = &value[name];
    found
        .as_array()
        .ok_or_else(|| format!("{name} is {found}, expected a list"))
}

/// The members of an object that has none but these.
pub(super) fn only<'a>(value: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let Some(members) = value.as_object() else {
        return Err(format!(" is {value}, expected an object"));
    };
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!(
            " has the member \"{name}\", known are {}",
            known.join(", ")
        )),
        None => Ok(members),
    }
}
