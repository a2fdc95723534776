//! Operators into slots, and deployed components across restarts.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tidegate_contract::{Recovered, Slot as _, SlotVersion};
use tidegate_control::config::{self, Node, Pipeline, StageKind};
use tidegate_operator::{
    CompileLimits, ComponentSlot, Engine, EngineOptions, Grants, Limits, SlotOptions, Ungranted,
    digest,
};

use crate::components::Components;
use crate::exit::Failure;

/// How many tasks a pipeline can have: one for each partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks {
    /// Instances made ahead of a switch.
    pub(crate) warm: usize,
    /// Instances there is room for. Room is address space, not memory.
    pub(crate) most: usize,
}

/// Where compiled components are kept.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    /// In a state directory, which is swept.
    State(PathBuf),
    /// In this user's cache, if there is a place for it.
    User,
}

impl Compiled {
    /// The options of an engine that keeps them there.
    pub(crate) fn options(self) -> std::io::Result<EngineOptions> {
        let (cache_dir, cache_bytes) = match self {
            Compiled::State(directory) => (Some(directory), None),
            Compiled::User => (super::user_cache(), Some(super::CACHE_BYTES)),
        };
        Ok(EngineOptions {
            cache_dir,
            cache_bytes,
            compiler: super::compiler()?,
            progress: Some(super::progress),
            ..EngineOptions::default()
        })
    }
}

/// Takes components away that no slot and no cut needs, deployed and compiled ones.
pub(crate) fn sweep<'a>(
    components: &Components,
    slots: impl IntoIterator<Item = &'a Arc<ComponentSlot>>,
    cut: &[SlotVersion],
) {
    let slots: Vec<_> = slots.into_iter().collect();
    let running = slots.iter().flat_map(|slot| slot.digests());
    let named = cut.iter().map(|slot| slot.digest.clone());
    let stay = components.sweep(running.chain(named));
    if let Some(slot) = slots.first() {
        slot.engine().forget_compiled(&stay);
    }
}

/// The slots of a pipeline's operator stages, in its order, each with the component of the pipeline file. A component
/// that does not fit its stage is a mistake of configuration. One that cannot be started is one too, unless the last cut
/// names it: then it has run, records may wait for it, and the stage waits until it starts.
pub(crate) fn slots(
    pipeline: &Pipeline,
    compiled: Compiled,
    tasks: Tasks,
    cut: &[SlotVersion],
) -> Result<Vec<Arc<ComponentSlot>>, Failure> {
    let operators = pipeline
        .stages
        .iter()
        .filter(|s| matches!(s.kind, StageKind::Operator(_)))
        .count();
    // Each task has an instance, and a deployment warms as many beside them.
    let instances = (operators * tasks.most * 2 + 16).max(64) as u32;
    let engine = Engine::new(EngineOptions {
        instances,
        compile: CompileLimits {
            memory: pipeline.operators.compile_memory,
            time: pipeline.operators.compile_time,
        },
        memory: super::memory::of_operators(pipeline),
        ..compiled.options()?
    })?;
    let mut slots = Vec::new();
    let mut refused = Vec::new();
    for (index, stage) in pipeline.stages.iter().enumerate() {
        let StageKind::Operator(operator) = &stage.kind else {
            continue;
        };
        let label = operator.component.display().to_string();
        let bytes = crate::component::read(&operator.component)?;
        let mut options = SlotOptions::new(&stage.name);
        options.grants = Grants::from_names(operator.grants.iter().map(|grant| grant.name()))?;
        options.grants.ungranted = match operator.ungranted {
            config::Ungranted::Refuse => Ungranted::Refuse,
            config::Ungranted::Trap => Ungranted::Trap,
        };
        options.limits = Limits {
            memory: operator.limits.memory,
            total_memory: operator.limits.total_memory,
            output: operator.limits.output,
            deadline: operator.limits.deadline,
            bisect: operator.limits.bisect,
            ..Limits::default()
        };
        options.config = serde_json::Value::Object(operator.config.clone()).to_string();
        options.required_outputs = used_outputs(pipeline, index);
        options.tasks = tasks.warm;
        let named = digest(&bytes);
        let has_run = |known: &SlotVersion| {
            known.slot == stage.name && (known.configured == named || known.digest == named)
        };
        let made = if cut.iter().any(has_run) {
            ComponentSlot::resume(&engine, options, &bytes, &label)
        } else {
            ComponentSlot::new(&engine, options, &bytes, &label)
        };
        match made {
            Ok(slot) => slots.push(Arc::new(slot)),
            Err(error) => refused.push(format!(
                "{}: stage.{}: {error}",
                pipeline.file.display(),
                stage.name
            )),
        }
    }
    if refused.is_empty() {
        Ok(slots)
    } else {
        Err(Failure::Usage(refused.join("\n")))
    }
}

/// Named outputs of a stage that somebody takes.
fn used_outputs(pipeline: &Pipeline, stage: usize) -> Vec<String> {
    let inputs = pipeline
        .stages
        .iter()
        .flat_map(|stage| &stage.inputs)
        .chain(pipeline.sinks.iter().flat_map(|sink| &sink.inputs));
    let mut used: Vec<String> = inputs
        .filter(|input| input.from == Node::Stage(stage))
        .filter_map(|input| input.output.clone())
        .collect();
    used.sort();
    used.dedup();
    used
}

/// Puts the components that the last cut ran back into their slots, where the pipeline file still names the component
/// that they replaced. Returns the digests that the pipeline file names, one for each slot.
pub(crate) fn restore(
    slots: &[Arc<ComponentSlot>],
    recovered: &Recovered,
    components: &Components,
) -> Result<Vec<String>, Failure> {
    let mut configured = Vec::new();
    for slot in slots {
        let named = slot.version().digest.clone();
        let deployed = recovered.slots.iter().find(|known| {
            known.slot == slot.name() && known.configured == named && known.digest != named
        });
        if let Some(deployed) = deployed {
            let path = components.path(&deployed.digest);
            let bytes = fs::read(&path).with_context(|| {
                format!(
                    "slot {} ran the deployed component {}, which cannot be read from {}; put it back, or give the \
                     pipeline file the component that shall run",
                    slot.name(),
                    deployed.digest,
                    path.display()
                )
            })?;
            if digest(&bytes) != deployed.digest {
                return Err(Failure::Run(anyhow::anyhow!(
                    "{} is damaged: it has the digest {}; put the deployed component back, or give the pipeline file the \
                     component that shall run",
                    path.display(),
                    digest(&bytes)
                )));
            }
            slot.deploy_again(&bytes, &path.display().to_string())?;
            tracing::info!(
                slot = slot.name(),
                digest = deployed.digest,
                "goes on with the deployed component"
            );
        }
        configured.push(named);
    }
    Ok(configured)
}
