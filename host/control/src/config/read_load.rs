//! Reads `[[source.NAME.under-load]]`: what is done, step by step, when many requests wait.

use std::time::Duration;

use toml::de::DeValue;

use super::findings::Typed;
use super::reader::{Table, Value};
use super::text::Span;

/// A step, its model not yet looked for.
#[derive(Clone, Debug)]
pub(crate) struct TypedLoadStep {
    pub(crate) waiting: Option<Typed<usize>>,
    pub(crate) oldest: Option<Typed<Duration>>,
    pub(crate) model: Option<Typed<String>>,
    pub(crate) max_tokens: Option<Typed<usize>>,
    pub(crate) refuse: Option<Typed<bool>>,
}

/// The steps of a source, beyond which so many waiting and so long a wait never come.
pub(crate) fn read_under_load(
    table: &Table<'_>,
    max_waiting: usize,
    deadline: Duration,
) -> Vec<TypedLoadStep> {
    let Some(value) = table.get("under-load") else {
        return Vec::new();
    };
    let DeValue::Array(list) = value.raw else {
        let what = format!("steps have an order; write each as [[{}]]", value.key);
        table.found.mistake(&value.place, &value.key, what);
        return Vec::new();
    };
    let mut steps: Vec<TypedLoadStep> = Vec::new();
    for (number, each) in list.iter().enumerate() {
        let each = Value {
            raw: each.get_ref(),
            place: Span(each.span()),
            key: format!("{}[{}]", value.key, number + 1),
        };
        if let Some(each) = each.table(table.found) {
            let step = read_step(each);
            check_reached(table, &step, &steps, (max_waiting, deadline));
            steps.push(step);
        }
    }
    steps
}

fn read_step(table: Table<'_>) -> TypedLoadStep {
    let times = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    let step = TypedLoadStep {
        waiting: table.count("waiting", 1..=1_000_000),
        oldest: table.duration("oldest", "s", times),
        model: table.string("model"),
        max_tokens: table.count("max-tokens", 1..=1_048_576),
        refuse: table.truth("refuse").filter(|refuse| {
            if !refuse.value {
                table.found.about(
                    refuse,
                    "is what every step is that does not say it; leave it out",
                );
            }
            refuse.value
        }),
    };
    let has = |names: &[&'static str]| names.iter().any(|name| table.get(name).is_some());
    let wrong = |what| table.found.mistake(&table.place, &table.key, what);
    if !has(&["waiting", "oldest"]) {
        wrong("does not say when; write waiting = 64, or oldest = \"5s\"");
    }
    if !has(&["model", "max-tokens", "refuse"]) {
        wrong("does not say what; write model = \"...\", max-tokens = 128, or refuse = true");
    }
    if let Some(refuse) = &step.refuse
        && has(&["model", "max-tokens"])
    {
        table.found.about(
            refuse,
            "leaves nothing to answer; write it in a step of its own",
        );
    }
    table.finish();
    step
}

/// A step is reached behind all that stand before it, and before there is no room.
fn check_reached(
    table: &Table<'_>,
    step: &TypedLoadStep,
    before: &[TypedLoadStep],
    (max_waiting, deadline): (usize, Duration),
) {
    let found = table.found;
    if let Some(waiting) = step
        .waiting
        .as_ref()
        .filter(|most| most.value >= max_waiting)
    {
        let what = format!(
            "{} is never reached: max-waiting is {max_waiting}, and more are told to come again",
            waiting.value
        );
        found.about(waiting, what);
    }
    if let Some(oldest) = step.oldest.as_ref().filter(|most| most.value >= deadline) {
        let what = format!("is never reached: the source's deadline is {deadline:?}");
        found.about(oldest, what);
    }
    if let Some(refuse) = before.last().and_then(|before| before.refuse.as_ref()) {
        found.about(
            refuse,
            "must be the last step: nothing is left to those behind it",
        );
    }
    const ORDER: &str =
        "is reached before a step above it; steps stand in the order in which load grows";
    let most = before.iter().filter_map(|step| step.waiting.as_ref());
    let most = most.map(|waiting| waiting.value).max();
    if let Some(waiting) = &step.waiting
        && most.is_some_and(|most| waiting.value < most)
    {
        found.about(waiting, ORDER);
    }
    let longest = before.iter().filter_map(|step| step.oldest.as_ref());
    let longest = longest.map(|oldest| oldest.value).max();
    if let Some(oldest) = &step.oldest
        && longest.is_some_and(|longest| oldest.value < longest)
    {
        found.about(oldest, ORDER);
    }
}
