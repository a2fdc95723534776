//! Operators into slots, and deployed components across restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tidegate_contract::SlotVersion;
use tidegate_control::config::{self, Mistake, Node, OperatorStage, Pipeline, StageKind};
use tidegate_operator::{
    Breaker, CompileLimits, ComponentSlot, Engine, EngineOptions, Given, Grants, KeptFunctions,
    Limits, SlotOptions, Ungranted,
};

use crate::components::Components;
use crate::exit::Failure;
use crate::terminal::works;

/// How many tasks a pipeline can have: one for each partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks {
    /// Instances made ahead of a switch.
    pub(crate) warm: usize,
    /// Instances that there is to be room for: address space, not memory. There may be more.
    pub(crate) most: usize,
}

/// Where compiled components are kept.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    /// In this directory within a state directory, which is swept.
    State(PathBuf),
    /// In this user's cache, if there is a place for it.
    User,
    /// There too, with functions of the project in this directory, of which all of it is.
    Project(PathBuf),
}

impl Compiled {
    /// The options of an engine that keeps them there.
    pub(crate) fn options(self) -> std::io::Result<EngineOptions> {
        let functions = match &self {
            Compiled::State(_) => KeptFunctions::OfSlots,
            // What is looked at there may be anybody's.
            Compiled::User => KeptFunctions::Nobodys,
            // One project by whatever path.
            Compiled::Project(directory) => KeptFunctions::OfProject(fs::canonicalize(directory)?),
        };
        // The start of a run waits for what is compiled, and nothing of it runs yet.
        let gives_way = !matches!(self, Compiled::State(_));
        let (cache_dir, cache_bytes) = match self {
            Compiled::State(directory) => (Some(directory), None),
            Compiled::User | Compiled::Project(_) => {
                (super::user_cache(), Some(super::CACHE_BYTES))
            }
        };
        Ok(EngineOptions {
            cache_dir,
            cache_bytes,
            functions,
            compiler: super::compiler()?,
            gives_way,
            works: works().clone(),
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

/// The slots of a pipeline's operator stages, in its order, and the digests of the components that the pipeline file
/// names. A slot has the component of the pipeline file, or the one that was deployed in its place and that the last cut
/// ran. A component that does not fit its stage is a mistake of configuration. One that cannot be started is one too,
/// unless the last cut names the very same revision: then it has run, records may wait for it, and the stage waits until
/// it starts. Where there is a `mistake`, its stage has no slot.
pub(crate) fn slots(
    pipeline: &Pipeline,
    compiled: Compiled,
    tasks: Tasks,
    cut: &[SlotVersion],
    components: Option<&Components>,
    mistakes: &mut Vec<Mistake>,
) -> Result<(Vec<Arc<ComponentSlot>>, Vec<String>), Failure> {
    let operators = pipeline
        .stages
        .iter()
        .filter(|s| matches!(s.kind, StageKind::Operator(_)))
        .count();
    // Each task has an instance, a deployment warms as many beside them, and a record that is tried has one.
    let instances = (operators * (tasks.most * 2 + 1) + 16).max(64) as u32;
    let engine = Engine::new(EngineOptions {
        instances,
        compile: CompileLimits {
            memory: pipeline.operators.compile_memory,
            time: pipeline.operators.compile_time,
        },
        memory: super::memory::of_operators(pipeline),
        ..compiled.options()?
    })?;
    let (mut slots, mut configured) = (Vec::new(), Vec::new());
    for (index, stage) in pipeline.stages.iter().enumerate() {
        let StageKind::Operator(operator) = &stage.kind else {
            continue;
        };
        let given = engine.open(&operator.component, crate::component::read)?;
        let mut options = options(&stage.name, operator)?;
        options.required_outputs = used_outputs(pipeline, index);
        options.requires_tokens = handles_tokens(pipeline, index);
        options.tasks = tasks.warm;
        let named = given.digest().to_owned();
        let ran = cut.iter().find(|known| {
            known.slot == stage.name && (known.configured == named || known.digest == named)
        });
        let made = match (ran, components) {
            (None, _) => {
                let label = operator.component.display().to_string();
                ComponentSlot::new(&engine, options, &given, &label)
            }
            (Some(ran), Some(components)) if ran.digest != named => {
                let (path, given) = deployed(ran, components, &engine)?;
                let label = path.display().to_string();
                ComponentSlot::resume(&engine, options, &given, &label, &ran.revision).inspect(
                    |_| {
                        tracing::info!(
                            slot = stage.name,
                            digest = ran.digest,
                            "goes on with the deployed component"
                        );
                    },
                )
            }
            (Some(ran), _) => {
                let label = operator.component.display().to_string();
                ComponentSlot::resume(&engine, options, &given, &label, &ran.revision)
            }
        };
        match made {
            Ok(slot) => slots.push(Arc::new(slot)),
            Err(error) => mistakes.push(pipeline.mistake_of_stage(stage, error)),
        }
        configured.push(named);
    }
    Ok((slots, configured))
}

/// What the pipeline file says of a stage, for its slot.
fn options(name: &str, operator: &OperatorStage) -> Result<SlotOptions, Failure> {
    let mut options = SlotOptions::new(name);
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
    if let Some(breaker) = operator.breaker {
        options.breaker = Breaker {
            lost_instances: breaker.lost_instances,
            failed_records: breaker.failed_records,
            window: breaker.within,
        };
    }
    Ok(options)
}

/// The component that was deployed into a slot, as it was kept.
fn deployed(
    ran: &SlotVersion,
    components: &Components,
    engine: &Engine,
) -> Result<(PathBuf, Given<'static>), Failure> {
    let path = components.path(&ran.digest);
    let read = |path: &Path| fs::read(path);
    let given = engine.open(&path, read).with_context(|| {
        format!(
            "slot {} ran the deployed component {}, which cannot be read from {}; put it back, or give the pipeline \
             file the component that shall run",
            ran.slot,
            ran.digest,
            path.display()
        )
    })?;
    let found = given.digest();
    if found != ran.digest {
        return Err(Failure::Run(anyhow::anyhow!(
            "{} is damaged: it has the digest {found}; put the deployed component back, or give the pipeline file the \
             component that shall run",
            path.display()
        )));
    }
    Ok((path, given))
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

/// Whether a model stage has its tokens handled by this one.
fn handles_tokens(pipeline: &Pipeline, stage: usize) -> bool {
    pipeline.stages.iter().any(|asking| match &asking.kind {
        StageKind::Model(asks) => asks.tokens.contains(&stage),
        StageKind::Operator(_) => false,
    })
}
