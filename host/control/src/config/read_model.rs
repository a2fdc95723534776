//! Reads `[engine]` and `[model.NAME]`.

use tidegate_contract::SUMS_BY_ROWS;
use toml::de::DeValue;

use super::findings::Typed;
use super::models::{AdapterChoice, KvPrecision};
use super::read_remote_model::{LOCAL_KEYS, REMOTE_KEYS, Type, read_remote};
use super::reader::{Table, Value};
use super::text::Span;
use super::typed::{TypedEngine, TypedModel};

/// The kernels that can be asked for, as `TIDEGATE_KERNELS` names them.
const KERNELS: [(&str, Option<&str>); 7] = [
    ("auto", None),
    ("portable", Some("portable")),
    ("software", Some("software")),
    ("subgroup", Some("subgroup")),
    ("f16", Some("f16")),
    ("cooperative", Some("cooperative")),
    ("dot", Some("dot")),
];

/// Tokens of a step at most, of any model: what is read of it may be less ([`Pipeline::mistake_of_step_tokens`]).
///
/// [`Pipeline::mistake_of_step_tokens`]: super::pipeline::Pipeline::mistake_of_step_tokens
const MOST_STEP_TOKENS: u64 = 16_384;

/// Reads `[engine]`.
pub(crate) fn read_engine(table: Table<'_>) -> TypedEngine {
    let engine = TypedEngine {
        memory: table
            .size("memory", 1 << 20..=1 << 44)
            .map(|typed| typed.value as u64),
        step_tokens: table.count("step-tokens", 1..=MOST_STEP_TOKENS),
    };
    table.finish();
    engine
}

/// Where a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Local,
    /// It is another that is loaded here, through a low-rank adapter.
    Lora,
    Remote(Type),
}

const TYPES: [(&str, Where); 4] = [
    ("local", Where::Local),
    ("lora", Where::Lora),
    ("openai", Where::Remote(Type::OpenAi)),
    ("kserve", Where::Remote(Type::Kserve)),
];

/// Keys that a model with a low-rank adapter has of its base.
const BASE_KEYS: [&str; 11] = [
    "adapter",
    "adapters",
    "sequences",
    "context",
    "queue",
    "kv-memory",
    "kv-precision",
    "reproducible",
    "kernels",
    "pre-tokenizer",
    "draft",
];

/// Reads a `[model.NAME]`.
pub(crate) fn read_model(name: Typed<String>, table: Table<'_>) -> TypedModel {
    let kind = table.word("type", &TYPES);
    let known = table.get("type").is_none() || kind.is_some();
    let place = kind.map_or(Where::Local, |typed| typed.value);
    let protocol = match place {
        Where::Remote(protocol) => Some(protocol),
        Where::Local | Where::Lora => None,
    };
    let base = match place {
        Where::Lora => {
            table.misplaced(&BASE_KEYS, "belongs to the model that base names");
            table.misplaced(&REMOTE_KEYS, "belongs to a model that another server has");
            let base = table.string("base");
            if table.get("base").is_none() {
                table.missing("base", "base = \"chat\", the model that is adapted");
            }
            base
        }
        Where::Local | Where::Remote(_) => {
            table.misplaced(&["base"], "belongs to a model of type \"lora\"");
            None
        }
    };
    let context = table
        .count("context", 16..=1_048_576)
        .map(|typed| typed.value);
    let remote = protocol
        .and_then(|protocol| read_remote(&name, protocol, &table, context))
        .map(Box::new);
    if protocol.is_some() {
        table.misplaced(&LOCAL_KEYS, "belongs to a model that is loaded here");
    }
    let path = table.string("path");
    if known && protocol.is_none() && table.get("path").is_none() {
        let example = match place {
            Where::Lora => "path = \"adapter\", the adapter's directory",
            _ => "path = \"model\", the model's directory or .gguf file",
        };
        table.missing("path", example);
    }
    let precisions = [
        ("f32", KvPrecision::F32),
        ("f16", KvPrecision::F16),
        ("int8", KvPrecision::Int8),
    ];
    let reproducible = table.truth("reproducible").is_none_or(|typed| typed.value);
    let model = TypedModel {
        name,
        path,
        adapters: read_adapters(&table),
        sequences: table.count("sequences", 1..=1024),
        context,
        queue: table
            .count("queue", 1..=1_000_000)
            .map_or(256, |typed| typed.value),
        kv_memory: table
            .size("kv-memory", 1 << 10..=1 << 40)
            .map(|typed| typed.value as u64),
        kv_precision: table
            .word("kv-precision", &precisions)
            .map_or(KvPrecision::default(), |typed| typed.value),
        reproducible,
        kernels: read_kernels(&table, reproducible),
        pre_tokenizer: table.string("pre-tokenizer").map(|typed| typed.value),
        draft: table.string("draft"),
        is_lora: place == Where::Lora,
        base,
        remote,
    };
    // One of no known type says nothing of its other keys: they may well be right.
    if known {
        table.misplaced(
            &REMOTE_KEYS,
            "belongs to a model that another server has, of type \"openai\" or \"kserve\"",
        );
        table.finish();
    }
    model
}

/// Most replicas of a model.
const MOST_REPLICAS: usize = 16;

/// What a model runs on: `adapter`, or a replica on each of `adapters`.
fn read_adapters(table: &Table<'_>) -> Vec<Option<Typed<AdapterChoice>>> {
    let one = table
        .get("adapter")
        .map(|value| read_adapter(table, &value));
    let Some(list) = table.get("adapters") else {
        return vec![one];
    };
    if one.is_some() {
        let why = "says the same as adapter; leave one of them out";
        table.found.mistake(&list.place, &list.key, why);
    }
    let DeValue::Array(values) = list.raw else {
        list.wrong(table.found, "a list of adapters", "[\"0\", \"1\"]");
        return vec![None];
    };
    if !(1..=MOST_REPLICAS).contains(&values.len()) {
        let what = format!(
            "has {} adapters, must have 1 to {MOST_REPLICAS}: a replica of the model runs on each",
            values.len()
        );
        table.found.mistake(&list.place, &list.key, what);
        return vec![None];
    }
    let each = values.iter().map(|value| {
        let value = Value {
            raw: value.get_ref(),
            place: Span(value.span()),
            key: list.key.clone(),
        };
        Some(read_adapter(table, &value))
    });
    each.collect()
}

/// An adapter by its number, a part of its name, or `cpu`.
fn read_adapter(table: &Table<'_>, value: &Value<'_>) -> Typed<AdapterChoice> {
    let choice = match value.raw {
        DeValue::Integer(integer) => {
            let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
            match number.and_then(|number| u8::try_from(number).ok()) {
                Some(number) => AdapterChoice::Index(number.into()),
                None => {
                    let what =
                        format!("{value} is out of range: adapters have numbers from 0 to 255");
                    table.found.mistake(&value.place, &value.key, what);
                    AdapterChoice::Any
                }
            }
        }
        DeValue::String(text) if !text.is_empty() => AdapterChoice::from(&**text),
        _ => {
            value.wrong(
                table.found,
                "an adapter: its number, part of its name, or \"cpu\"",
                "\"cpu\"",
            );
            AdapterChoice::Any
        }
    };
    Typed {
        value: choice,
        place: value.place.clone(),
        key: value.key.clone(),
    }
}

/// The kernels by name; of those that are not for a reproducible model the reason is [`SUMS_BY_ROWS`].
fn read_kernels(table: &Table<'_>, reproducible: bool) -> Option<String> {
    let kernels = table.word("kernels", &KERNELS)?;
    if reproducible && kernels.value == Some("f16") {
        table.found.mistake(
            &kernels.place,
            &kernels.key,
            format!("{SUMS_BY_ROWS}; write reproducible = false too"),
        );
    }
    kernels.value.map(str::to_owned)
}
