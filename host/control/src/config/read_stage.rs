//! Reads a `[[stage]]`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Number, Value as Json};
use toml::de::DeValue;

use super::findings::Findings;
use super::pipeline::{Breaker, Grant, Limits, Operators, Then, Ungranted};
use super::read::check_name;
use super::read_model_stage::{all_model_keys, read_model_stage};
use super::reader::{Table, Value, not_one_of};
use super::text::Span;
use super::typed::{TypedOperator, TypedStage, TypedStageKind};

const OPERATOR_KEYS: [&str; 8] = [
    "config",
    "grants",
    "limits",
    "retries",
    "breaker",
    "max-failed-records",
    "samples",
    "ungranted",
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
    let does: Vec<(&str, Value<'_>)> = [
        "operator",
        "model",
        "embed",
        "classify",
        "recognize",
        "rerank",
    ]
    .into_iter()
    .filter_map(|name| Some((name, table.get(name)?)))
    .collect();
    let kind = match does.as_slice() {
        [("operator", _)] => {
            let operator =
                read_operator(&table).map(|stage| TypedStageKind::Operator(Box::new(stage)));
            table.misplaced(
                &all_model_keys(),
                "belongs to a model stage; this one runs an operator",
            );
            Some(operator)
        }
        [(name, _)] => {
            let model =
                read_model_stage(&table, name).map(|stage| TypedStageKind::Model(Box::new(stage)));
            table.misplaced(
                &OPERATOR_KEYS,
                "belongs to an operator; this stage asks a model",
            );
            Some(model)
        }
        [] => {
            table.missing(
                "operator",
                "operator = \"redact.wasm\", or model, embed, classify, recognize or rerank = the name of a model",
            );
            None
        }
        [.., (_, last)] => {
            table.found.mistake(
                &last.place,
                &last.key,
                "a stage runs an operator, or asks one model one thing; make two stages of it",
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
    let ungranted = table.word(
        "ungranted",
        &[("refuse", Ungranted::Refuse), ("trap", Ungranted::Trap)],
    );
    let limits = table.table("limits").map(read_limits).unwrap_or_default();
    let retries = table.number("retries", 0..=1000);
    Some(TypedOperator {
        component: component?,
        config: config.unwrap_or_default(),
        grants,
        ungranted: ungranted.map_or(Ungranted::Refuse, |typed| typed.value),
        limits,
        retries: retries.map_or(3, |typed| typed.value as u32),
        breaker: table.table("breaker").and_then(read_breaker),
        max_failed_records: table
            .number("max-failed-records", 0..=u64::MAX)
            .map(|typed| typed.value),
        samples: table.string("samples"),
    })
}

/// Reads `[operators]`.
pub(crate) fn read_operators(table: Table<'_>) -> Operators {
    let usual = Operators::default();
    let operators = Operators {
        memory: table
            .size("memory", 1 << 20..=1 << 44)
            .map(|typed| typed.value as u64),
        compile_memory: table
            .size("compile-memory", 64 << 20..=1 << 40)
            .map_or(usual.compile_memory, |typed| typed.value as u64),
        compile_time: table
            .duration(
                "compile-time",
                "s",
                Duration::from_secs(1)..=Duration::from_secs(24 * 3600),
            )
            .map_or(usual.compile_time, |typed| typed.value),
    };
    table.finish();
    operators
}

fn read_breaker(table: Table<'_>) -> Option<Breaker> {
    let number = |name| table.number(name, 0..=u64::MAX).map(|typed| typed.value);
    let breaker = Breaker {
        lost_instances: number("lost-instances"),
        failed_records: number("failed-records"),
        within: table
            .duration(
                "within",
                "s",
                Duration::from_secs(1)..=Duration::from_secs(24 * 3600),
            )
            .map_or(Duration::from_secs(60), |typed| typed.value),
        then: table
            .word(
                "then",
                &[("fall-back", Then::FallBack), ("stop", Then::Stop)],
            )
            .map_or(Then::FallBack, |typed| typed.value),
    };
    let counts = ["lost-instances", "failed-records"];
    let counts = counts.into_iter().any(|name| table.get(name).is_some());
    if !counts {
        table.missing(
            "lost-instances",
            "breaker = { lost-instances = 20 }, or failed-records = 100",
        );
    }
    table.finish();
    counts.then_some(breaker)
}

fn read_limits(table: Table<'_>) -> Limits {
    let usual = Limits::default();
    let times = Duration::from_millis(1)..=Duration::from_secs(3600);
    let limits = Limits {
        memory: table
            .size("memory", 64 << 10..=4 << 30)
            .map_or(usual.memory, |typed| typed.value),
        total_memory: table
            .size("total-memory", 64 << 10..=1 << 44)
            .map(|typed| typed.value as u64),
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
pub(crate) fn json(value: &Value<'_>, found: &Findings) -> Json {
    let inner = |raw, span, key: String| {
        json(
            &Value {
                raw,
                place: Span(span),
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
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Json::Number(integer.into()),
            Err(_) => {
                let what = format!(
                    "{value} is no whole number of TOML, which has {} to {}; write one of those, or a string",
                    i64::MIN,
                    i64::MAX
                );
                found.mistake(&value.place, &value.key, what);
                Json::Null
            }
        },
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
