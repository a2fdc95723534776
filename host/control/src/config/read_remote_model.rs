//! Reads a `[model.NAME]` that another server has.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::DeValue;

use super::findings::Typed;
use super::models::DEFAULT_CONTEXT;
use super::read_gateway_access::{read_names, read_variable};
use super::read_url::{Expected, check_url};
use super::reader::Table;
use super::remote_models::{
    RemoteBreaker, RemoteHedge, RemoteModel, RemoteProtocol, RemoteTimeouts,
};
use super::typed::TypedRemote;

/// Times that a server can be waited for.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// Keys of a model that is loaded here.
pub(crate) const LOCAL_KEYS: [&str; 10] = [
    "path",
    "adapter",
    "adapters",
    "sequences",
    "kv-memory",
    "kv-precision",
    "reproducible",
    "kernels",
    "pre-tokenizer",
    "draft",
];
/// Keys of a model that another server has.
pub(crate) const REMOTE_KEYS: [&str; 20] = [
    "url",
    "model",
    "key-variable",
    "certificates",
    "max-tokens",
    "in-flight",
    "timeouts",
    "attempts",
    "retry-budget",
    "hedge-after",
    "breaker",
    "batch",
    "dialect",
    "limit-name",
    "version",
    "input",
    "output",
    "column",
    "logits",
    "labels",
];
/// Those of them that belong to one protocol.
const OPENAI_KEYS: [&str; 2] = ["dialect", "limit-name"];
const KSERVE_KEYS: [&str; 6] = ["version", "input", "output", "column", "logits", "labels"];

/// The protocols, as `type` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    OpenAi,
    Kserve,
}

pub(crate) fn read_remote(
    name: &Typed<String>,
    kind: Type,
    table: &Table<'_>,
    context: Option<usize>,
) -> Option<TypedRemote> {
    let url = table.string("url");
    if table.get("url").is_none() {
        let example = match kind {
            Type::OpenAi => "url = \"https://HOST/v1\"",
            Type::Kserve => "url = \"http://HOST:8000\"",
        };
        table.missing("url", example);
    }
    let key_variable = read_variable(table, "key-variable").map(|typed| typed.value);
    if let Some(url) = &url {
        let expected = Expected {
            whose: "a server",
            example: "https://HOST/v1",
            secret: key_variable.as_ref().map(|_| "the key of key-variable is"),
        };
        check_url(table, url, &expected);
    }
    let protocol = match kind {
        Type::OpenAi => {
            table.misplaced(&KSERVE_KEYS, "belongs to type = \"kserve\" only");
            read_openai(table)
        }
        Type::Kserve => {
            table.misplaced(&OPENAI_KEYS, "belongs to type = \"openai\" only");
            read_kserve(table)
        }
    };
    let certificates = table.string("certificates");
    let model = RemoteModel {
        protocol,
        model: table
            .string("model")
            .map_or_else(|| name.value.clone(), |typed| typed.value),
        key_variable,
        certificates: None,
        max_tokens: read_max_tokens(table, context),
        in_flight: table
            .count("in-flight", 1..=10_000)
            .map_or(32, |typed| typed.value),
        timeouts: table
            .table("timeouts")
            .map_or_else(RemoteTimeouts::default, read_timeouts),
        attempts: table
            .number("attempts", 1..=10)
            .map_or(3, |typed| typed.value as u32),
        retry_budget: table
            .real("retry-budget", |b| (0.0..=1.0).contains(&b), "0.0 to 1.0")
            .map_or(0.1, |typed| typed.value),
        hedge: read_hedge(table),
        breaker: table
            .table("breaker")
            .map_or_else(RemoteBreaker::default, read_breaker),
        batch: table
            .count("batch", 1..=1024)
            .map_or(1, |typed| typed.value),
        url: url.as_ref()?.value.trim_end_matches('/').to_owned(),
    };
    Some(TypedRemote {
        model,
        url: url?,
        certificates,
    })
}

/// An answer is a part of the positions.
fn read_max_tokens(table: &Table<'_>, context: Option<usize>) -> Option<u32> {
    let typed = table.number("max-tokens", 1..=1_048_576)?;
    let positions = context.unwrap_or(DEFAULT_CONTEXT);
    if typed.value > positions as u64 {
        let what = match context {
            Some(_) => format!("{} exceeds context, which is {positions}", typed.value),
            None => format!(
                "{} exceeds the context of {positions} that a model has whose file says none; write context, as its \
                 server has it",
                typed.value
            ),
        };
        table.found.about(&typed, what);
    }
    Some(typed.value as u32)
}

fn read_openai(table: &Table<'_>) -> RemoteProtocol {
    let dialects = [("openai", false), ("vllm", true)];
    let names = [("max_tokens", false), ("max_completion_tokens", true)];
    let is = |name, words: &[(&'static str, bool)]| {
        table.word(name, words).is_some_and(|typed| typed.value)
    };
    RemoteProtocol::OpenAi {
        vllm: is("dialect", &dialects),
        completion_tokens: is("limit-name", &names),
    }
}

fn read_kserve(table: &Table<'_>) -> RemoteProtocol {
    let text = |name, usual: &str| {
        let typed = table.string(name);
        typed.map_or_else(|| usual.to_owned(), |typed| typed.value)
    };
    let is = |name| table.truth(name).is_some_and(|typed| typed.value);
    let labels = read_names(table, "labels").unwrap_or_default();
    RemoteProtocol::Kserve {
        version: table.string("version").map(|typed| typed.value),
        input: text("input", "text"),
        output: text("output", "output"),
        column: is("column"),
        logits: is("logits"),
        labels: labels.into_iter().map(|typed| typed.value).collect(),
    }
}

/// `hedge-after`: a time, or `"late"`, which is learnt.
fn read_hedge(table: &Table<'_>) -> RemoteHedge {
    let Some(value) = table.get("hedge-after") else {
        return RemoteHedge::Off;
    };
    if matches!(value.raw, DeValue::String(text) if text.as_ref() == "late") {
        return RemoteHedge::Late;
    }
    table
        .duration("hedge-after", "ms", TIMES)
        .map_or(RemoteHedge::Off, |typed| RemoteHedge::After(typed.value))
}

fn read_timeouts(table: Table<'_>) -> RemoteTimeouts {
    let usual = RemoteTimeouts::default();
    let time = |name, usual| {
        let typed = table.duration(name, "s", TIMES);
        typed.map_or(usual, |typed| typed.value)
    };
    let timeouts = RemoteTimeouts {
        connect: time("connect", usual.connect),
        first: time("first", usual.first),
        between: time("between", usual.between),
        whole: time("whole", usual.whole),
    };
    table.finish();
    timeouts
}

fn read_breaker(table: Table<'_>) -> RemoteBreaker {
    let usual = RemoteBreaker::default();
    let breaker = RemoteBreaker {
        within: table
            .duration("within", "s", TIMES)
            .map_or(usual.within, |typed| typed.value),
        least: table
            .number("least", 1..=10_000)
            .map_or(usual.least, |typed| typed.value as u32),
        share: table
            .real(
                "share",
                |share| share > 0.0 && share <= 1.0,
                "more than 0.0 and at most 1.0",
            )
            .map_or(usual.share, |typed| typed.value),
        open: table
            .duration("open", "s", TIMES)
            .map_or(usual.open, |typed| typed.value),
    };
    table.finish();
    breaker
}
