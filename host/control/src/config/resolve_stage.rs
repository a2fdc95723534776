//! What a stage means: its component is there, its model is known.

use super::disk::Directory;
use super::findings::{Findings, Typed};
use super::models::Model;
use super::named::{check_component, check_samples};
use super::nearest::nearest;
use super::pipeline::{Input, OperatorStage, Stage, StageKind};
use super::remote_models::RemoteProtocol;
use super::resolve_model_stage::resolve_model_stage;
use super::typed::{TypedAsk, TypedStage, TypedStageKind};

pub(crate) fn resolve_stage(
    found: &Findings,
    directory: &Directory,
    (typed, (tokens, tokens_to)): (TypedStage, (Vec<usize>, Vec<usize>)),
    inputs: Vec<Input>,
    models: &[Model],
    used_models: &mut [bool],
) -> Option<Stage> {
    let kind = match typed.kind? {
        TypedStageKind::Operator(operator) => StageKind::Operator(Box::new(OperatorStage {
            component: check_component(found, directory, &operator.component),
            config: operator.config,
            grants: operator.grants,
            ungranted: operator.ungranted,
            limits: operator.limits,
            retries: operator.retries,
            breaker: operator.breaker,
            max_failed_records: operator.max_failed_records,
            samples: operator
                .samples
                .map(|samples| check_samples(found, directory, &samples)),
        })),
        TypedStageKind::Model(stage) => {
            let name = &stage.model.value;
            let Some(model) = models.iter().position(|model| model.name == *name) else {
                let known = models.iter().map(|model| model.name.as_str());
                found.about(
                    &stage.model,
                    match nearest(name, known) {
                        Some(near) => format!("there is no model {name:?}; did you mean {near:?}?"),
                        None => {
                            format!(
                                "there is no model {name:?}; write [model.{name}] with its path"
                            )
                        }
                    },
                );
                return None;
            };
            if let Some(asked) = models.get(model) {
                check_protocol(found, &stage.model, &stage.ask, asked);
            }
            if let Some(used) = used_models.get_mut(model) {
                *used = true;
            }
            StageKind::Model(Box::new(resolve_model_stage(
                found,
                directory,
                (*stage, tokens, tokens_to),
                model,
                models.get(model)?,
            )))
        }
    };
    Some(Stage {
        name: typed.name?.value,
        inputs,
        kind,
        place: typed.place,
    })
}

/// What other servers cannot be asked for.
fn check_protocol(found: &Findings, typed: &Typed<String>, ask: &TypedAsk, model: &Model) {
    let Some(remote) = &model.remote else { return };
    let what = match (&remote.protocol, ask) {
        (RemoteProtocol::Kserve { .. }, TypedAsk::Generate(_)) => {
            "is of type \"kserve\", which is asked for vectors and labels; for answers write type = \"openai\""
        }
        (RemoteProtocol::OpenAi { .. }, TypedAsk::Classify { .. }) => {
            "is of type \"openai\", which knows no labels; write type = \"kserve\""
        }
        (_, TypedAsk::Recognize { .. }) => {
            "is on another server, which is asked for no entities; name a model of this host"
        }
        (_, TypedAsk::Rerank { .. }) => {
            "is on another server, which is asked for no ranking; name a model of this host"
        }
        (RemoteProtocol::Kserve { labels, .. }, TypedAsk::Classify { .. }) if labels.is_empty() => {
            "has no labels; write labels = [...] in the order in which the server numbers them"
        }
        (RemoteProtocol::Kserve { labels, .. }, TypedAsk::Embed) if !labels.is_empty() => {
            "has labels, and makes no vectors; leave labels out"
        }
        _ => return,
    };
    found.about(typed, format!("model {:?} {what}", typed.value));
}

/// For each stage those whose handlers see its answer, by index: each runs an operator.
pub(crate) fn resolve_tokens(found: &Findings, stages: &[TypedStage]) -> Vec<Vec<usize>> {
    let named = |stage: &TypedStage| stage.name.as_ref().map(|name| name.value.clone());
    let names: Vec<Option<String>> = stages.iter().map(named).collect();
    let is_operator =
        |index: usize| matches!(stages[index].kind, Some(TypedStageKind::Operator(_)) | None);
    let resolve = |each: &Typed<String>| {
        let index = names
            .iter()
            .position(|name| name.as_ref() == Some(&each.value));
        if let Some(index) = index.filter(|index| is_operator(*index)) {
            return Some(index);
        }
        let operators = (0..stages.len()).filter(|index| is_operator(*index));
        let known: Vec<&str> = operators
            .filter_map(|index| names[index].as_deref())
            .collect();
        found.about(
            each,
            match (index, nearest(&each.value, known.iter().copied())) {
                (Some(_), _) => format!(
                    "stage {:?} asks a model; name a stage that runs an operator",
                    each.value
                ),
                (None, Some(near)) => {
                    format!("there is no stage {:?}; did you mean {near:?}?", each.value)
                }
                (None, None) => format!(
                    "there is no stage {:?} that runs an operator; write it as [[stage]]",
                    each.value
                ),
            },
        );
        None
    };
    let of = |stage: &TypedStage| match &stage.kind {
        Some(TypedStageKind::Model(asks)) => asks.tokens.iter().filter_map(resolve).collect(),
        _ => Vec::new(),
    };
    stages.iter().map(of).collect()
}
