//! `tidegate check`.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tidegate_contract::Slot as _;
use tidegate_control::config::{Pipeline, StageKind, guarantee};
use tidegate_operator::ComponentSlot;

use super::try_out::failed_samples;
use super::{check_state, print, read_pipeline, warnings};
use crate::exit::{Failure, tell};
use crate::{models, wire};

/// Reads a pipeline, compiles its operators, checks their configurations and has them answer their samples; says what it
/// guarantees.
pub(crate) fn check(path: &Path, as_json: bool) -> Result<(), Failure> {
    let pipeline = read_pipeline(path)?;
    check_state(&pipeline)?;
    models::check(&pipeline)?;
    // A state directory is not made for a question.
    let compiled = pipeline.state.join("compiled");
    let compiled = match compiled.is_dir() {
        true => wire::Compiled::State {
            directory: compiled,
            quiet: false,
        },
        false => wire::Compiled::User,
    };
    let one = wire::Tasks { warm: 1, most: 1 };
    let (slots, _) = wire::slots(&pipeline, compiled, one, &[], None)?;
    check_samples(&pipeline, &slots)?;
    let warnings = warnings(&pipeline, &slots)?;
    let guarantee = guarantee(&pipeline);
    if as_json {
        let parts: Vec<_> = guarantee
            .parts
            .iter()
            .map(|part| json!({"name": part.name, "level": part.level.name(), "reason": part.reason}))
            .collect();
        let slots: Vec<_> = slots
            .iter()
            .map(|slot| {
                let version = slot.version();
                json!({"slot": slot.name(), "name": version.name, "version": version.version,
                    "digest": version.digest, "imports": slot.imports()})
            })
            .collect();
        let report = json!({"pipeline": pipeline.name, "guarantee": guarantee.level.name(), "parts": parts,
            "slots": slots, "warnings": warnings});
        return print(&format!("{report:#}\n"));
    }
    for warning in &warnings {
        tell(format_args!("warning: {warning}\n"));
    }
    let mut text = format!("{}: no mistakes\n{guarantee}\n", pipeline.name);
    for slot in &slots {
        let version = slot.version();
        let imports = slot.imports();
        let imports = if imports.is_empty() {
            "nothing".to_owned()
        } else {
            imports.join(", ")
        };
        text += &format!(
            "slot {}: {} {}, imports {imports}\n",
            slot.name(),
            version.name,
            version.version
        );
    }
    print(&text)
}

/// Has the operators of stages with samples answer them; what one cannot answer is a mistake of configuration.
fn check_samples(pipeline: &Pipeline, slots: &[Arc<ComponentSlot>]) -> Result<(), Failure> {
    let mut mistakes = Vec::new();
    for slot in slots {
        let stage = pipeline
            .stages
            .iter()
            .find(|stage| stage.name == slot.name());
        let Some(StageKind::Operator(operator)) = stage.map(|stage| &stage.kind) else {
            continue;
        };
        let Some(samples) = &operator.samples else {
            continue;
        };
        let (file, stage) = (pipeline.file.display(), slot.name());
        let failed = failed_samples(slot, samples)?;
        mistakes.extend(
            failed
                .iter()
                .map(|why| format!("{file}: stage.{stage}: {why}")),
        );
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(mistakes.join("\n"))),
    }
}
