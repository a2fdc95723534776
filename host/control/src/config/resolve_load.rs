//! What the steps of a gateway source under load mean: their models are there, and the stages that answer can do it.

use super::answering::answering_of;
use super::findings::{Findings, Typed};
use super::gateway::LoadStep;
use super::models::{Ask, Model, ModelStage};
use super::nearest::nearest;
use super::pipeline::{Sink, Source, SourceKind, Stage, StageKind};
use super::read_load::TypedLoadStep;
use super::remote_models::RemoteProtocol;

/// What steps are held against.
pub(crate) struct Answering<'p> {
    pub(crate) sources: &'p mut [Source],
    pub(crate) stages: &'p mut [Stage],
    pub(crate) models: &'p [Model],
    pub(crate) sinks: &'p [Sink],
    /// Whether a stage asks each model.
    pub(crate) used: &'p mut [bool],
}

/// The steps of every source; the stages that answer get the models of theirs.
pub(crate) fn resolve_under_load(found: &Findings, all: &mut Answering<'_>) {
    for index in 0..all.sources.len() {
        let SourceKind::Gateway(route) = &all.sources[index].kind else {
            continue;
        };
        let (steps, max_waiting) = (route.places.under_load.clone(), route.max_waiting);
        if steps.is_empty() {
            continue;
        }
        let stages = answering_of(index, all.sinks, all.stages);
        let mut asks: Vec<&mut ModelStage> = Vec::new();
        for (index, stage) in all.stages.iter_mut().enumerate() {
            if let StageKind::Model(asked) = &mut stage.kind
                && stages.contains(&index)
                && asked.messages
            {
                asks.push(asked);
            }
        }
        let mut resolved = Vec::with_capacity(steps.len());
        for step in steps {
            let model = step
                .model
                .as_ref()
                .and_then(|typed| resolve_model(found, typed, &asks, all.models));
            if let Some(model) = model {
                all.used[model] = true;
                for asked in &mut asks {
                    if !asked.asks(model) {
                        asked.alternatives.push(model);
                        let models: Vec<_> =
                            (asked.models().map(|index| &all.models[index])).collect();
                        asked.settle_length(models);
                    }
                }
            }
            check_max_tokens(found, &step, &asks);
            resolved.push(LoadStep {
                waiting: step.waiting.map(|typed| typed.value),
                oldest: step.oldest.map(|typed| typed.value),
                model,
                max_tokens: step
                    .max_tokens
                    .map(|typed| u32::try_from(typed.value).unwrap_or(u32::MAX)),
                refuse: step.refuse.is_some(),
            });
        }
        for asked in asks {
            make_room(found, asked, max_waiting, all.models);
        }
        if let SourceKind::Gateway(route) = &mut all.sources[index].kind {
            route.under_load = resolved;
        }
    }
}

fn resolve_model(
    found: &Findings,
    typed: &Typed<String>,
    asks: &[&mut ModelStage],
    models: &[Model],
) -> Option<usize> {
    let name = &typed.value;
    let Some(index) = models.iter().position(|model| model.name == *name) else {
        let near = nearest(name, models.iter().map(|model| model.name.as_str()));
        let what = match near {
            Some(near) => format!("there is no model {name:?}; did you mean {near:?}?"),
            None => format!("there is no model {name:?}; write [model.{name}] with its path"),
        };
        found.about(typed, what);
        return None;
    };
    let remote = models[index].remote.as_ref();
    if asks.is_empty() {
        let what =
            "can be asked by no stage: none of those that answer this source has messages = true";
        found.about(typed, what);
    } else if asks.iter().all(|asked| asked.model == index) {
        found.about(
            typed,
            format!("model {name:?} answers already; name another"),
        );
    } else if remote.is_some_and(|remote| matches!(remote.protocol, RemoteProtocol::Kserve { .. }))
    {
        let what = format!("model {name:?} is of type \"kserve\", which makes no texts");
        found.about(typed, what);
    }
    Some(index)
}

/// A limit that shortens something, and nothing that has a form.
fn check_max_tokens(found: &Findings, step: &TypedLoadStep, asks: &[&mut ModelStage]) {
    let Some(typed) = &step.max_tokens else {
        return;
    };
    if asks.is_empty() {
        let what = "shortens nothing: no stage that answers this source has messages = true";
        found.about(typed, what);
    }
    let parameters = asks.iter().filter_map(|asked| match &asked.ask {
        Ask::Generate(generate) => Some(&generate.parameters),
        Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => None,
    });
    let parameters: Vec<_> = parameters.collect();
    if parameters.iter().any(|one| one.structure.is_some()) {
        let what =
            "would cut answers before they have their form; a stage with a schema is not shortened";
        found.about(typed, what);
    }
    let most = parameters.iter().map(|one| one.max_tokens).max();
    if let Some(most) = most.filter(|most| typed.value >= *most as usize) {
        let what = format!(
            "{} shortens nothing: max-tokens of the stage is {most}",
            typed.value
        );
        found.about(typed, what);
    }
}

/// Records for another model must get past those that wait for the first.
fn make_room(found: &Findings, asked: &mut ModelStage, max_waiting: usize, models: &[Model]) {
    if asked.alternatives.is_empty() {
        return;
    }
    let running = asked.models().map(|index| {
        let model = &models[index];
        let remote = model.remote.as_ref().map(|remote| remote.in_flight);
        remote.unwrap_or(model.sequences)
    });
    let needed = max_waiting + running.sum::<usize>();
    if let Some(typed) = asked.per_key.as_ref().filter(|typed| typed.value < needed) {
        let what = format!(
            "{} is less than {needed}: all that may wait of a source with models under load, and all that they answer at \
             once, or those of a client for one model would wait behind its own for another; leave it out",
            typed.value
        );
        found.about(typed, what);
    }
    match &asked.in_flight {
        None => asked.max_in_flight = asked.max_in_flight.max(needed),
        Some(typed) if typed.value < needed => {
            let what = format!(
                "{} is less than {needed}: all that may wait of a source with models under load, and all that they \
                 answer at once, or those for one model would wait behind those for another",
                typed.value
            );
            found.about(typed, what);
        }
        Some(_) => {}
    }
}
