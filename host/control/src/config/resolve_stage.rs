//! What a stage means: its component is there, its model is known, its prompt fits.

use super::disk::Directory;
use super::files::check_component;
use super::findings::Findings;
use super::nearest::nearest;
use super::pipeline::{Input, Model, ModelStage, OperatorStage, Stage, StageKind, Truncated};
use super::typed::{TypedModelStage, TypedStage, TypedStageKind};

/// Default of `max-tokens`.
const MAX_TOKENS: usize = 256;

pub(crate) fn resolve_stage(
    found: &Findings,
    directory: &Directory,
    typed: TypedStage,
    inputs: Vec<Input>,
    models: &[Model],
    used_models: &mut [bool],
) -> Option<Stage> {
    let kind = match typed.kind? {
        TypedStageKind::Operator(operator) => StageKind::Operator(OperatorStage {
            component: check_component(found, directory, &operator.component),
            config: operator.config,
            grants: operator.grants,
            limits: operator.limits,
            retries: operator.retries,
        }),
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
            if let Some(used) = used_models.get_mut(model) {
                *used = true;
            }
            StageKind::Model(Box::new(resolve_model_stage(
                found,
                *stage,
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

fn resolve_model_stage(
    found: &Findings,
    typed: TypedModelStage,
    index: usize,
    model: &Model,
) -> ModelStage {
    let prompt = typed.prompt.unwrap_or_default();
    let truncate = typed.truncate.as_ref().map(|name| {
        let truncated = match name.value.trim_end_matches('?') {
            "$value" => Truncated::Value,
            path => Truncated::Field(path.split('.').map(str::to_owned).collect()),
        };
        let stands = prompt.parts.iter().any(|part| truncated.matches(part));
        if !stands && !prompt.parts.is_empty() {
            found.about(
                name,
                format!(
                    "{:?} is not a field of the prompt; name one that stands there in braces",
                    name.value
                ),
            );
        }
        truncated
    });
    let max_tokens = match (&typed.max_tokens, model.context) {
        (Some(typed), _) => typed.value,
        (None, Some(context)) => MAX_TOKENS.min(context / 2),
        (None, None) => MAX_TOKENS,
    };
    let prompt_tokens = typed.prompt_tokens.as_ref();
    if let (Some(context), Some(last)) =
        (model.context, prompt_tokens.or(typed.max_tokens.as_ref()))
    {
        let wanted = prompt_tokens.map_or(1, |typed| typed.value) + max_tokens;
        if wanted > context {
            found.about(
                last,
                format!(
                    "prompt and answer may take {wanted} tokens, and model {:?} has a context of {context}",
                    model.name
                ),
            );
        }
    }
    ModelStage {
        model: index,
        system: typed.system,
        prompt,
        truncate,
        prompt_tokens: typed.prompt_tokens.map(|typed| typed.value),
        max_tokens,
        temperature: typed.temperature,
        top_p: typed.top_p,
        stop: typed.stop,
        seed: typed.seed,
        order: typed.order,
        max_in_flight: typed.max_in_flight,
        max_in_flight_per_key: typed.max_in_flight_per_key,
        deadline: typed.deadline,
        attempts: typed.attempts,
        into: typed.into,
    }
}
