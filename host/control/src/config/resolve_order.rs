//! In which order answers leave a stage, and how many of one key its model has at once, where the file does not say it.
//!
//! Requests of clients are answered each by itself: one that came later is told as soon as its answer is there, whoever
//! asks. So on their way there is no order of keys; a client's key would be one for all that it asks.

use super::answering::{leading, reaches};
use super::findings::Findings;
use super::models::{ModelStage, Order};
use super::pipeline::{Sink, Source, SourceKind, Stage, StageKind};

/// Most of one key that a model has at once, where nobody waits for its answers.
const OF_A_KEY: usize = 4;

/// Orders and bounds of keys of all stages that ask a model; their models and `max-in-flight` are known.
pub(crate) fn resolve_orders(
    found: &Findings,
    sources: &[Source],
    stages: &mut [Stage],
    sinks: &[Sink],
) {
    let is_asked = asked(sources, stages, sinks);
    for (stage, is_asked) in stages.iter_mut().zip(is_asked) {
        if let StageKind::Model(asks) = &mut stage.kind {
            fill(asks, is_asked);
            check(found, asks);
            if !asks.alternatives.is_empty() && asks.typed_order.is_none() && !is_asked {
                let what = "is \"key\", as records of other sources come here too, and answers of one model would wait \
                            for those of another; write order = \"none\", or give them a stage of their own";
                found.mistake(&stage.place, &format!("stage.{}.order", stage.name), what);
            }
        }
    }
}

fn fill(asks: &mut ModelStage, is_asked: bool) {
    asks.order = match &asks.typed_order {
        Some(typed) => typed.value,
        None if is_asked => Order::None,
        None => Order::Key,
    };
    asks.max_in_flight_per_key = match &asks.per_key {
        Some(typed) => typed.value,
        None if is_asked || !asks.alternatives.is_empty() => asks.max_in_flight,
        None => OF_A_KEY.min(asks.max_in_flight),
    };
}

fn check(found: &Findings, asks: &ModelStage) {
    if let Some(typed) = &asks.per_key
        && typed.value > asks.max_in_flight
    {
        let what = format!(
            "{} must not exceed max-in-flight, which is {}",
            typed.value, asks.max_in_flight
        );
        found.about(typed, what);
    }
    if let Some(typed) = &asks.typed_order
        && !asks.alternatives.is_empty()
        && typed.value != Order::None
    {
        let what = "holds answers of a model under load behind those of the model that is too slow; leave it out, or \
                    write \"none\"";
        found.about(typed, what);
    }
}

/// The stages on the way from a client's request to its answer that nothing else comes to.
fn asked(sources: &[Source], stages: &[Stage], sinks: &[Sink]) -> Vec<bool> {
    let only_asked = |stage: &Stage| {
        let mut reaching = (sources.iter().enumerate())
            .filter(|(index, _)| reaches(*index, &stage.inputs, stages))
            .peekable();
        reaching.peek().is_some()
            && reaching.all(|(_, source)| matches!(source.kind, SourceKind::Gateway(_)))
    };
    let both = leading(sinks, stages).into_iter().zip(stages);
    both.map(|(leads, stage)| leads && only_asked(stage))
        .collect()
}
