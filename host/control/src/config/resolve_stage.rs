//! What a stage means: its component is there, its model is known.

use super::disk::Directory;
use super::files::{check_component, check_samples};
use super::findings::Findings;
use super::models::Model;
use super::nearest::nearest;
use super::pipeline::{Input, OperatorStage, Stage, StageKind};
use super::resolve_model_stage::resolve_model_stage;
use super::typed::{TypedStage, TypedStageKind};

pub(crate) fn resolve_stage(
    found: &Findings,
    directory: &Directory,
    typed: TypedStage,
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
            if let Some(used) = used_models.get_mut(model) {
                *used = true;
            }
            StageKind::Model(Box::new(resolve_model_stage(
                found,
                directory,
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
