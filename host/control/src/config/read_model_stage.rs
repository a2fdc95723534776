//! Reads a `[[stage]]` that asks a model: for an answer, a vector, a label, or an order.

use std::time::Duration;

use tidegate_contract::{
    Aggregation, MOST_DOCUMENTS, MOST_LOGPROBS, MOST_STOPS, Parameters, Role, Speculation,
};
use toml::de::DeValue;

use super::findings::Typed;
use super::models::{Into, Order, Turn};
use super::read_form::{read_bias, read_structure};
use super::read_gateway_access::read_names;
use super::read_turns::{TypedMessages, read_messages, read_template, read_template_arguments};
use super::reader::Table;
use super::typed::{TypedAsk, TypedGenerate, TypedModelStage};

/// Keys of every stage that asks a model.
const COMMON_KEYS: [&str; 9] = [
    "truncate",
    "priority",
    "order",
    "max-in-flight",
    "max-in-flight-per-key",
    "deadline",
    "attempts",
    "into",
    "field",
];
/// Keys of a stage that wants an answer.
const GENERATE_KEYS: [&str; 29] = [
    "raw",
    "system",
    "prompt",
    "messages",
    "tokens",
    "tokens-to",
    "max-tokens",
    "temperature",
    "top-k",
    "top-p",
    "min-p",
    "repetition-penalty",
    "presence-penalty",
    "frequency-penalty",
    "logit-bias",
    "logprobs",
    "n",
    "stop",
    "seed",
    "schema",
    "regex",
    "choices",
    "grammar",
    "speculative",
    "prompt-tokens",
    "template-arguments",
    "reasoning",
    "reasoning-tokens",
    "pin-prefix",
];
/// Keys of a stage that wants a vector or a label.
const ENCODE_KEYS: [&str; 1] = ["text"];
/// Keys of a stage that wants a vector.
const EMBED_KEYS: [&str; 1] = ["prompt-name"];
/// Keys of a stage that wants a label, or entities.
const CLASSIFY_KEYS: [&str; 1] = ["threshold"];
/// Keys of a stage that wants entities.
const RECOGNIZE_KEYS: [&str; 1] = ["aggregation"];
/// Keys of a stage that wants an order.
const RERANK_KEYS: [&str; 3] = ["query", "documents", "top"];

/// Every key of a stage that asks a model.
pub(crate) fn all_model_keys() -> Vec<&'static str> {
    [
        &COMMON_KEYS[..],
        &GENERATE_KEYS,
        &ENCODE_KEYS,
        &EMBED_KEYS,
        &CLASSIFY_KEYS,
        &RECOGNIZE_KEYS,
        &RERANK_KEYS,
    ]
    .concat()
}

/// Reads the keys of a stage that asks a model; `asks` is `model`, `embed`, `classify`,
/// `recognize` or `rerank`.
pub(crate) fn read_model_stage(table: &Table<'_>, asks: &'static str) -> Option<TypedModelStage> {
    let model = table.string(asks);
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
    let messages = match asks {
        "model" => read_messages(table),
        _ => TypedMessages::None,
    };
    let (messages, turns) = match messages {
        TypedMessages::None => (false, None),
        TypedMessages::FromRecord => (true, None),
        TypedMessages::Turns(turns) => (false, Some(turns)),
    };
    let prompt = match asks {
        _ if messages || turns.is_some() => None,
        "model" => read_template(table, "prompt"),
        "rerank" => read_template(table, "query"),
        _ => read_template(table, "text"),
    };
    let mut seed = 0;
    let mut prompt_tokens = None;
    let mut prompt_name = None;
    if asks != "embed" {
        table.misplaced(&EMBED_KEYS, "belongs to embed");
    }
    let (ask, field) = match asks {
        "model" => {
            seed = table
                .number("seed", 0..=i64::MAX as u64)
                .map_or(0, |typed| typed.value);
            prompt_tokens = table.count("prompt-tokens", 1..=1_048_576);
            let generate =
                TypedAsk::Generate(Box::new(read_generate(table, turns.unwrap_or_default())));
            table.misplaced(
                &ENCODE_KEYS,
                "belongs to embed, classify or recognize; write prompt",
            );
            table.misplaced(&CLASSIFY_KEYS, "belongs to classify or recognize");
            table.misplaced(&RECOGNIZE_KEYS, "belongs to recognize");
            table.misplaced(&RERANK_KEYS, "belongs to rerank");
            (generate, "answer")
        }
        "embed" => {
            table.misplaced(&GENERATE_KEYS, "belongs to a stage that asks for an answer");
            table.misplaced(&CLASSIFY_KEYS, "belongs to classify or recognize");
            table.misplaced(&RECOGNIZE_KEYS, "belongs to recognize");
            table.misplaced(&RERANK_KEYS, "belongs to rerank");
            prompt_name = table.string("prompt-name");
            (TypedAsk::Embed, "embedding")
        }
        "rerank" => {
            table.misplaced(&GENERATE_KEYS, "belongs to a stage that asks for an answer");
            table.misplaced(
                &ENCODE_KEYS,
                "belongs to embed, classify or recognize; write query and documents",
            );
            table.misplaced(&CLASSIFY_KEYS, "belongs to classify or recognize");
            table.misplaced(&RECOGNIZE_KEYS, "belongs to recognize");
            let top = table.count("top", 1..=MOST_DOCUMENTS as u64);
            let documents = read_documents(table);
            let top = top.map(|typed| typed.value);
            (TypedAsk::Rerank { documents, top }, "ranking")
        }
        _ => {
            table.misplaced(&RERANK_KEYS, "belongs to rerank");
            let threshold = table.real("threshold", |t| (0.0..=1.0).contains(&t), "0.0 to 1.0");
            table.misplaced(&GENERATE_KEYS, "belongs to a stage that asks for an answer");
            let threshold = threshold.map_or(0.0, |typed| typed.value as f32);
            match asks {
                "recognize" => {
                    let aggregation = table.word("aggregation", &Aggregation::ALL);
                    let ask = TypedAsk::Recognize {
                        aggregation: aggregation.map_or_else(Aggregation::default, |t| t.value),
                        threshold,
                    };
                    (ask, "entities")
                }
                _ => {
                    table.misplaced(&RECOGNIZE_KEYS, "belongs to recognize");
                    (TypedAsk::Classify { threshold }, "labels")
                }
            }
        }
    };
    let names = |key| match asks {
        "model" => read_names(table, key).unwrap_or_default(),
        _ => Vec::new(),
    };
    Some(TypedModelStage {
        model: model?,
        ask,
        prompt,
        prompt_name,
        messages,
        tokens: names("tokens"),
        tokens_to: names("tokens-to"),
        truncate: table.string("truncate"),
        prompt_tokens,
        seed,
        priority: table
            .number("priority", 0..=9)
            .map(|typed| typed.value as u8),
        order: table.word("order", &orders),
        in_flight: table.count("max-in-flight", 1..=100_000),
        per_key: table.count("max-in-flight-per-key", 1..=100_000),
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
        field: read_field(table).unwrap_or_else(|| field.to_owned()),
    })
}

/// Where the list of documents stands: a member of the value, or a path of members.
fn read_documents(table: &Table<'_>) -> Vec<String> {
    let Some(typed) = table.string("documents") else {
        if table.get("documents").is_none() {
            table.missing("documents", "documents = \"documents\"");
        }
        return Vec::new();
    };
    let path: Vec<String> = typed.value.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        table.found.about(
            &typed,
            format!(
                "{:?} is no member of a value; write for example \"documents\" or \"search.results\"",
                typed.value
            ),
        );
    }
    path
}

fn read_generate(table: &Table<'_>, turns: Vec<Turn>) -> TypedGenerate {
    let real = |name, fits: fn(f64) -> bool, bounds: &str, usual: f32| {
        let typed = table.real(name, fits, bounds);
        typed.map_or(usual, |typed| typed.value as f32)
    };
    let penalty = |name, usual| real(name, |p| (-2.0..=2.0).contains(&p), "-2.0 to 2.0", usual);
    let words = [
        ("auto", Speculation::Auto),
        ("prompt-lookup", Speculation::PromptLookup),
        ("off", Speculation::Off),
    ];
    let usual = Parameters::default();
    let n = table.number("n", 1..=16);
    let structure = read_structure(table);
    let max_tokens = table.count("max-tokens", 1..=1_048_576);
    let thoughts = table.number("reasoning-tokens", 0..=1_048_576);
    let temperature = real(
        "temperature",
        |t| (0.0..=2.0).contains(&t),
        "0.0 to 2.0",
        usual.temperature,
    );
    if let Some(n) = n.as_ref().filter(|n| n.value > 1)
        && temperature == 0.0
    {
        table.found.warning(
            &n.place,
            &n.key,
            "at temperature 0 all answers are the same; set temperature, or leave n out",
        );
    }
    let parameters = Parameters {
        temperature,
        top_k: table
            .number("top-k", 0..=1_048_576)
            .map_or(usual.top_k, |typed| typed.value as u32),
        top_p: real(
            "top-p",
            |p| p > 0.0 && p <= 1.0,
            "more than 0.0 and at most 1.0",
            usual.top_p,
        ),
        min_p: real(
            "min-p",
            |p| (0.0..1.0).contains(&p),
            "at least 0.0 and less than 1.0",
            usual.min_p,
        ),
        repetition_penalty: real(
            "repetition-penalty",
            |p| p > 0.0 && p <= 10.0,
            "more than 0.0 and at most 10.0",
            usual.repetition_penalty,
        ),
        presence_penalty: penalty("presence-penalty", usual.presence_penalty),
        frequency_penalty: penalty("frequency-penalty", usual.frequency_penalty),
        logprobs: table
            .number("logprobs", 0..=u64::from(MOST_LOGPROBS))
            .map(|typed| typed.value as u8),
        n: n.map_or(usual.n, |typed| typed.value as u32),
        stop: read_stop(table, structure.is_some()),
        reasoning_tokens: thoughts.as_ref().map(|typed| typed.value as u32),
        speculation: table
            .word("speculative", &words)
            .map_or(usual.speculation, |typed| typed.value),
        ..usual
    };
    let raw = table.truth("raw").is_some_and(|typed| typed.value);
    let system = table.string("system");
    // Beside messages it has been said that it is to be one of them.
    let has_turns = table
        .get("messages")
        .is_some_and(|messages| matches!(messages.raw, DeValue::Array(_)));
    if let (true, false, Some(system)) = (raw, has_turns, &system) {
        table.found.about(
            system,
            "a raw prompt has no messages; leave system out, or write it into prompt",
        );
    }
    if raw {
        for name in ["template-arguments", "reasoning", "reasoning-tokens"] {
            if let Some(value) = table.get(name) {
                let why = "has no place beside raw = true: such a prompt has no template, and what the model makes is one text";
                table.found.mistake(&value.place, &value.key, why);
            }
        }
    }
    let begun = turns
        .last()
        .is_some_and(|turn| turn.role == Role::Assistant);
    if let (true, true, Some(value)) = (begun, structure.is_some(), table.get("messages")) {
        let why = "ends with a message of the assistant, and an answer with a form has it from its first character on; \
                   leave one of them out";
        table.found.mistake(&value.place, &value.key, why);
    }
    TypedGenerate {
        pin_prefix: table.truth("pin-prefix").filter(|pins| pins.value),
        raw,
        turns,
        template_arguments: read_template_arguments(table),
        reasoning: read_reasoning(table),
        reasoning_tokens: thoughts,
        system: system.map(|typed| typed.value),
        max_tokens,
        parameters,
        bias: read_bias(table),
        structure,
    }
}

/// Where an answer ends, unless it has a form: `structured`.
fn read_stop(table: &Table<'_>, structured: bool) -> Vec<String> {
    let stop = table.strings("stop").unwrap_or_default();
    if let (false, Some(value)) = (stop.is_empty(), table.get("stop")) {
        let wrong = |what: String| table.found.mistake(&value.place, &value.key, what);
        if structured {
            wrong("would cut an answer before it has its form; leave it out".to_owned());
        }
        if stop.len() > MOST_STOPS {
            wrong(format!(
                "has {} texts; at most {MOST_STOPS} are looked for",
                stop.len()
            ));
        }
    }
    if let Some(empty) = stop.iter().find(|text| text.value.is_empty()) {
        table.found.about(
            empty,
            "\"\" would end every answer at once; leave it out, or write the text to stop at",
        );
    }
    stop.into_iter().map(|typed| typed.value).collect()
}

/// The name of the member and attribute that the reasoning becomes.
fn read_reasoning(table: &Table<'_>) -> Option<Typed<String>> {
    let typed = table.string("reasoning")?;
    if !is_field(&typed.value) {
        table.found.about(&typed, no_field(&typed.value));
        return None;
    }
    let field = table.string("field");
    let field = field
        .as_ref()
        .map_or("answer", |field| field.value.as_str());
    let taken = [
        field.to_owned(),
        format!("{field}_choices"),
        format!("{field}_number"),
        "model".to_owned(),
    ];
    if taken.contains(&typed.value) {
        table.found.about(
            &typed,
            format!("{:?} is taken by the answer; choose another", typed.value),
        );
        return None;
    }
    Some(typed)
}

fn is_field(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= 64 && name.chars().all(fits)
}

fn no_field(name: &str) -> String {
    format!("{name:?} is not the name of a field: 1 to 64 of a-z, A-Z, 0-9, _ and -")
}

/// The name of an answer's member and attribute; none where it can be none, so that nothing else follows from it.
pub(crate) fn read_field(table: &Table<'_>) -> Option<String> {
    let typed = table.string("field")?;
    if !is_field(&typed.value) {
        table.found.about(&typed, no_field(&typed.value));
        return None;
    }
    if typed.value == "model" {
        table.found.about(
            &typed,
            "\"model\" is the attribute that says where an answer comes from; choose another",
        );
        return None;
    }
    Some(typed.value)
}
