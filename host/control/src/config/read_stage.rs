//! Reads a `[[stage]]`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Number, Value as Json};
use tidegate_contract::PromptTemplate;
use toml::de::DeValue;

use super::findings::{Findings, Typed};
use super::pipeline::{Grant, Into, Limits, Order};
use super::read::check_name;
use super::reader::{Table, Value, not_one_of};
use super::text::{Place, byte_in_literal};
use super::typed::{TypedModelStage, TypedOperator, TypedStage, TypedStageKind};

const OPERATOR_KEYS: [&str; 4] = ["config", "grants", "limits", "retries"];
const MODEL_KEYS: [&str; 15] = [
    "system",
    "prompt",
    "truncate",
    "prompt-tokens",
    "max-tokens",
    "temperature",
    "top-p",
    "stop",
    "seed",
    "order",
    "max-in-flight",
    "max-in-flight-per-key",
    "deadline",
    "attempts",
    "into",
];

pub(crate) fn read_stage(mut table: Table<'_>) -> TypedStage {
    let name = table.string("name");
    match &name {
        Some(name) => {
            check_name(table.found, name);
            if name.value == "decode" {
                table.found.about(
                    name,
                    "\"decode\" is the name under which undecodable input becomes a dead letter; choose another",
                );
            }
            table.key = format!("stage.{}", name.value);
        }
        None if table.get("name").is_none() => table.missing("name", "name = \"redact\""),
        None => {}
    }
    let inputs = table.strings("inputs");
    let kind = match (table.get("operator"), table.get("model")) {
        (Some(_), None) => {
            let operator = read_operator(&table).map(TypedStageKind::Operator);
            table.misplaced(
                &MODEL_KEYS,
                "belongs to a model stage; this one runs an operator",
            );
            Some(operator)
        }
        (None, Some(_)) => {
            let model =
                read_model_stage(&table).map(|stage| TypedStageKind::Model(Box::new(stage)));
            table.misplaced(
                &OPERATOR_KEYS,
                "belongs to an operator; this stage asks a model",
            );
            Some(model)
        }
        (Some(_), Some(model)) => {
            table.found.mistake(
                &model.place,
                &model.key,
                "a stage runs an operator or asks a model, not both; make two stages of it",
            );
            None
        }
        (None, None) => {
            table.missing(
                "operator",
                "operator = \"redact.wasm\", or model = the name of a model",
            );
            None
        }
    };
    let place = table.place.clone();
    // A stage of neither kind says nothing of its other keys: they may well be right.
    if kind.is_some() {
        table.finish();
    }
    TypedStage {
        name,
        place,
        inputs,
        kind: kind.flatten(),
    }
}

fn read_operator(table: &Table<'_>) -> Option<TypedOperator> {
    let component = table.string("operator");
    let config = table.get("config").map(|value| match value.raw {
        DeValue::Table(_) => match json(&value, table.found) {
            Json::Object(config) => config,
            _ => Map::new(),
        },
        _ => {
            value.wrong(table.found, "a table", "{ language = \"en\" }");
            Map::new()
        }
    });
    let grants = match table.strings("grants") {
        None => Grant::ALL.into_iter().collect(),
        Some(names) => {
            let mut grants = BTreeSet::new();
            for name in names {
                match Grant::ALL.iter().find(|grant| grant.name() == name.value) {
                    Some(grant) => {
                        grants.insert(*grant);
                    }
                    None => {
                        let known = Grant::ALL.iter().map(|grant| grant.name());
                        table.found.about(&name, not_one_of(&name.value, known));
                    }
                }
            }
            grants
        }
    };
    let limits = table.table("limits").map(read_limits).unwrap_or_default();
    let retries = table.number("retries", 0..=1000);
    Some(TypedOperator {
        component: component?,
        config: config.unwrap_or_default(),
        grants,
        limits,
        retries: retries.map_or(3, |typed| typed.value as u32),
    })
}

fn read_limits(table: Table<'_>) -> Limits {
    let usual = Limits::default();
    let times = Duration::from_millis(1)..=Duration::from_secs(3600);
    let limits = Limits {
        memory: table
            .size("memory", 64 << 10..=4 << 30)
            .map_or(usual.memory, |typed| typed.value),
        deadline: table
            .duration("deadline", "ms", times.clone())
            .map_or(usual.deadline, |typed| typed.value),
        output: table
            .size("output", 1 << 10..=1 << 30)
            .map_or(usual.output, |typed| typed.value),
        bisect: table
            .duration("bisect", "ms", times)
            .map_or(usual.bisect, |typed| typed.value),
    };
    table.finish();
    limits
}

/// A TOML value as JSON. Dates become strings.
fn json(value: &Value<'_>, found: &Findings) -> Json {
    let inner = |raw, span, key: String| {
        json(
            &Value {
                raw,
                place: Place(span),
                key,
            },
            found,
        )
    };
    let number = |number: Option<Number>| match number {
        Some(number) => Json::Number(number),
        None => {
            found.mistake(
                &value.place,
                &value.key,
                format!("{value} has no form in JSON; write a finite number, or a string"),
            );
            Json::Null
        }
    };
    match value.raw {
        DeValue::String(text) => Json::String(text.clone().into_owned()),
        DeValue::Integer(integer) => number(
            i64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .map(Number::from),
        ),
        DeValue::Float(float) => number(float.as_str().parse().ok().and_then(Number::from_f64)),
        DeValue::Boolean(truth) => Json::Bool(*truth),
        DeValue::Datetime(date) => Json::String(date.to_string()),
        DeValue::Array(values) => Json::Array(
            values
                .iter()
                .map(|each| inner(each.get_ref(), each.span(), value.key.clone()))
                .collect(),
        ),
        DeValue::Table(table) => Json::Object(
            table
                .iter()
                .map(|(name, each)| {
                    let name: &str = name.get_ref();
                    let key = format!("{}.{name}", value.key);
                    (name.to_owned(), inner(each.get_ref(), each.span(), key))
                })
                .collect(),
        ),
    }
}

fn read_model_stage(table: &Table<'_>) -> Option<TypedModelStage> {
    let model = table.string("model");
    let in_flight = table.count("max-in-flight", 1..=100_000);
    let per_key = table.count("max-in-flight-per-key", 1..=100_000);
    let max_in_flight = in_flight.as_ref().map_or(64, |typed| typed.value);
    if let Some(per_key) = &per_key
        && per_key.value > max_in_flight
    {
        table.found.about(
            per_key,
            format!(
                "{} must not exceed max-in-flight, which is {max_in_flight}",
                per_key.value
            ),
        );
    }
    let stop = table.strings("stop").unwrap_or_default();
    if let Some(empty) = stop.iter().find(|text| text.value.is_empty()) {
        table.found.about(
            empty,
            "\"\" would end every answer at once; leave it out, or write the text to stop at",
        );
    }
    let orders = [
        ("key", Order::Key),
        ("partition", Order::Partition),
        ("none", Order::None),
    ];
    let places = [
        ("member", Into::Member),
        ("value", Into::Value),
        ("attributes", Into::Attributes),
    ];
    let stage = TypedModelStage {
        model: model?,
        system: table.string("system").map(|typed| typed.value),
        prompt: read_prompt(table),
        truncate: table.string("truncate"),
        prompt_tokens: table.count("prompt-tokens", 1..=1_048_576),
        max_tokens: table.count("max-tokens", 1..=1_048_576),
        temperature: table
            .real("temperature", |t| (0.0..=2.0).contains(&t), "0.0 to 2.0")
            .map_or(0.0, |typed| typed.value as f32),
        top_p: table
            .real(
                "top-p",
                |p| p > 0.0 && p <= 1.0,
                "more than 0.0 and at most 1.0",
            )
            .map_or(1.0, |typed| typed.value as f32),
        stop: stop.into_iter().map(|typed| typed.value).collect(),
        seed: table
            .number("seed", 0..=i64::MAX as u64)
            .map_or(0, |typed| typed.value),
        order: table
            .word("order", &orders)
            .map_or(Order::Key, |typed| typed.value),
        max_in_flight,
        max_in_flight_per_key: per_key.map_or(4.min(max_in_flight), |typed| typed.value),
        deadline: table
            .duration(
                "deadline",
                "s",
                Duration::from_millis(1)..=Duration::from_secs(24 * 3600),
            )
            .map(|typed| typed.value),
        attempts: table
            .number("attempts", 1..=100)
            .map_or(2, |typed| typed.value as u32),
        into: table
            .word("into", &places)
            .map_or(Into::Member, |typed| typed.value),
    };
    Some(stage)
}

fn read_prompt(table: &Table<'_>) -> Option<PromptTemplate> {
    let Some(value) = table.get("prompt") else {
        table.missing("prompt", "prompt = \"{text}\"");
        return None;
    };
    let typed: Typed<String> = value.string(table.found)?;
    if typed.value.trim().is_empty() {
        table
            .found
            .about(&typed, "is empty; write for example \"{text}\"");
        return None;
    }
    match PromptTemplate::parse(&typed.value) {
        Ok(prompt) => Some(prompt),
        Err(error) => {
            let span = &typed.place.0;
            let literal = table.found.text.content.get(span.clone()).unwrap_or("");
            let at = span.start + byte_in_literal(literal, error.at);
            table
                .found
                .mistake(&Place(at..at + 1), &typed.key, error.why);
            None
        }
    }
}
