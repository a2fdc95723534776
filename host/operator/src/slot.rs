//! The place a component is swapped in: the running version, the deployment of the next, the way back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tidegate_contract::{Operator, OperatorError, OperatorVersion, Slot};

use crate::budget::Budget;
use crate::component::Wanted;
use crate::engine::Engine;
use crate::grants::Grants;
use crate::instance::{Instance, Live};
use crate::limits::Limits;
use crate::metrics::{Metric, Value};
use crate::revision::{Revision, SlotContext};
use crate::samples::Samples;
use crate::shared::{Shared, SlotStats, lock};

/// What a pipeline says of a slot.
#[derive(Clone, Debug)]
pub struct SlotOptions {
    /// Name of the stage; the operator's log lines carry it.
    pub name: String,
    /// What the operator may import.
    pub grants: Grants,
    /// What its instances may use.
    pub limits: Limits,
    /// The stage's configuration as JSON text: `{}` for none.
    pub config: String,
    /// Named outputs that the pipeline uses: a version without one of them is refused.
    pub required_outputs: Vec<String>,
    /// Instances that are made before a version is switched to: one for each task.
    pub tasks: usize,
}

impl SlotOptions {
    /// A slot of this name: nothing granted, default limits, an empty configuration, one task.
    pub fn new(name: impl Into<String>) -> SlotOptions {
        SlotOptions {
            name: name.into(),
            grants: Grants::default(),
            limits: Limits::default(),
            config: "{}".into(),
            required_outputs: Vec::new(),
            tasks: 1,
        }
    }
}

/// A switch from one version to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The version that ran.
    pub old: Arc<OperatorVersion>,
    /// The version that runs now.
    pub new: Arc<OperatorVersion>,
    /// Its generation.
    pub generation: u64,
}

/// What the instances of one version have measured.
#[derive(Clone, Debug)]
pub struct RevisionMetrics {
    /// The version.
    pub version: Arc<OperatorVersion>,
    /// Every metric with what was measured, by the values of its labels.
    pub metrics: Vec<(Metric, BTreeMap<Vec<String>, Value>)>,
    /// Measurements that were left out, because there were too many combinations of labels.
    pub refused: u64,
}

/// Holds the running version of an operator and hands out instances of it. Deployments compile and run guest code:
/// call them from a thread that may block.
pub struct ComponentSlot {
    engine: Engine,
    context: SlotContext,
    required_outputs: Vec<String>,
    tasks: usize,
    current: ArcSwap<Current>,
    generation: AtomicU64,
    warm: Mutex<Vec<Instance>>,
    /// Instances that tasks have.
    live: Arc<AtomicUsize>,
    /// Held while a deployment is prepared, so that there is one at a time.
    deploying: Mutex<()>,
}

struct Current {
    generation: u64,
    revision: Arc<Revision>,
    /// What ran before it.
    previous: Option<Arc<Revision>>,
}

impl ComponentSlot {
    /// Makes a slot with its first version, generation 1. `label` names the component in errors: usually its path.
    pub fn new(
        engine: &Engine,
        options: SlotOptions,
        bytes: &[u8],
        label: &str,
    ) -> Result<ComponentSlot, OperatorError> {
        ComponentSlot::make(engine, options, bytes, label, Start::Must)
    }

    /// The same for a version that has run before: where no instance of it can be started now, the slot is made without,
    /// and whoever needs one tries again.
    pub fn resume(
        engine: &Engine,
        options: SlotOptions,
        bytes: &[u8],
        label: &str,
    ) -> Result<ComponentSlot, OperatorError> {
        ComponentSlot::make(engine, options, bytes, label, Start::May)
    }

    fn make(
        engine: &Engine,
        options: SlotOptions,
        bytes: &[u8],
        label: &str,
        start: Start,
    ) -> Result<ComponentSlot, OperatorError> {
        let memory = Budget::of_slot(options.limits.total_memory, &engine.inner.memory);
        let context = SlotContext {
            grants: options.grants,
            limits: options.limits,
            shared: Arc::new(Shared::within(options.name, memory)),
            samples: Arc::new(Samples::default()),
        };
        let prepare = Prepare {
            engine,
            context: &context,
            required_outputs: &options.required_outputs,
            tasks: options.tasks,
            beside: false,
        };
        let (revision, warm) = prepare.version(bytes, label, options.config.into(), start)?;
        Ok(ComponentSlot {
            engine: engine.clone(),
            context,
            required_outputs: options.required_outputs,
            tasks: options.tasks,
            current: ArcSwap::from_pointee(Current {
                generation: 1,
                revision,
                previous: None,
            }),
            generation: AtomicU64::new(1),
            warm: Mutex::new(warm),
            live: Arc::default(),
            deploying: Mutex::new(()),
        })
    }

    /// Compiles a version, checks that it fits, tries it on recorded samples and starts an instance for every task
    /// beside the running one, then switches. Tasks change over at their next batch, when they see the generation. An error leaves the
    /// running version as it is.
    pub fn deploy(&self, bytes: &[u8], label: &str) -> Result<Deployment, OperatorError> {
        self.deploy_inner(bytes, label, None, Start::Must)
    }

    /// Switches to a version that was deployed before and has run: where no instance of it can be started now, there is
    /// none, and whoever needs one tries again.
    pub fn deploy_again(&self, bytes: &[u8], label: &str) -> Result<Deployment, OperatorError> {
        self.deploy_inner(bytes, label, None, Start::May)
    }

    /// The same within so much time: a version whose instances are not ready by then is refused. A compilation is ended
    /// then; what else is under way (the start of one instance, a trial of some records) is still waited for.
    pub fn deploy_within(
        &self,
        bytes: &[u8],
        label: &str,
        time: Duration,
    ) -> Result<Deployment, OperatorError> {
        let until = Instant::now() + time;
        self.deploy_inner(bytes, label, None, Start::MustBy(until))
    }

    /// The same with another configuration.
    pub fn deploy_with(
        &self,
        bytes: &[u8],
        label: &str,
        config: &str,
    ) -> Result<Deployment, OperatorError> {
        self.deploy_inner(bytes, label, Some(config), Start::Must)
    }

    fn deploy_inner(
        &self,
        bytes: &[u8],
        label: &str,
        config: Option<&str>,
        start: Start,
    ) -> Result<Deployment, OperatorError> {
        let _deploying = lock(&self.deploying);
        let config = match config {
            Some(config) => config.into(),
            None => Arc::clone(&self.current.load().revision.config),
        };
        let (revision, warm) = self.prepare().version(bytes, label, config, start)?;
        Ok(self.switch(revision, warm))
    }

    /// Switches back to the version before the current one, with its configuration. A second call goes forth again. It
    /// does not fail for want of instances: tasks that still have one of that version keep it, others start their own.
    pub fn rollback(&self) -> Result<Deployment, OperatorError> {
        let _deploying = lock(&self.deploying);
        let current = self.current.load_full();
        let Some(revision) = current.previous.clone() else {
            return Err(OperatorError::Unfit {
                component: current.revision.component.label().to_owned(),
                why: format!("slot {} has had no other version", self.context.shared.name),
            });
        };
        Ok(self.switch(revision, Vec::new()))
    }

    fn prepare(&self) -> Prepare<'_> {
        Prepare {
            engine: &self.engine,
            context: &self.context,
            required_outputs: &self.required_outputs,
            // So many tasks as there are now; before the first, so many as there may be.
            tasks: match self.live.load(Ordering::Relaxed) {
                0 => self.tasks,
                live => live,
            },
            beside: true,
        }
    }

    fn switch(&self, revision: Arc<Revision>, warm: Vec<Instance>) -> Deployment {
        let new = Arc::clone(&revision.description.version);
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        *lock(&self.warm) = warm;
        let left = self.current.load_full();
        self.current.store(Arc::new(Current {
            generation,
            revision,
            previous: Some(Arc::clone(&left.revision)),
        }));
        // After the version, so that who sees the number gets the version.
        self.generation.store(generation, Ordering::Release);
        let old = Arc::clone(&left.revision.description.version);
        tracing::info!(
            target: "tidegate::operator",
            slot = self.context.shared.name,
            generation,
            old = old.digest,
            new = new.digest,
            "operator deployed: {} {}",
            new.name,
            new.version
        );
        Deployment {
            old,
            new,
            generation,
        }
    }

    /// The engine that its components are compiled with.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Name of the stage.
    pub fn name(&self) -> &str {
        &self.context.shared.name
    }

    /// The configuration of the running version, as JSON text.
    pub fn config(&self) -> Arc<str> {
        Arc::clone(&self.current.load().revision.config)
    }

    /// Digests of the components that may run: the current one and, for the way back, the one before it.
    pub fn digests(&self) -> Vec<String> {
        let current = self.current.load();
        let revisions = current.previous.iter().chain([&current.revision]);
        revisions
            .map(|revision| revision.component.digest().to_owned())
            .collect()
    }

    /// JSON Schema of the running version's configuration, as text.
    pub fn config_schema(&self) -> String {
        self.current
            .load()
            .revision
            .description
            .config_schema
            .clone()
    }

    /// Imports of the running version: its permission list.
    pub fn imports(&self) -> Vec<String> {
        self.current.load().revision.component.imports().to_vec()
    }

    /// What the operator has measured, over all instances of the running version and of the one before it.
    pub fn metrics(&self) -> Vec<RevisionMetrics> {
        let current = self.current.load();
        let revisions = [Some(&current.revision), current.previous.as_ref()];
        revisions
            .into_iter()
            .flatten()
            .map(|revision| RevisionMetrics {
                version: Arc::clone(&revision.description.version),
                metrics: revision.metrics.all(),
                refused: revision.metrics.refused(),
            })
            .collect()
    }

    /// Bytes of all memories and tables of its instances at this moment, those made ready for tasks included.
    pub fn memory(&self) -> u64 {
        self.context.shared.memory.used()
    }

    /// What has happened in the slot since it was made.
    pub fn stats(&self) -> SlotStats {
        self.context.shared.stats()
    }
}

impl Slot for ComponentSlot {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError> {
        let current = self.current.load_full();
        let warm = {
            let mut warm = lock(&self.warm);
            let of_current = warm
                .iter()
                .position(|instance| Arc::ptr_eq(instance.revision(), &current.revision));
            of_current.map(|index| warm.swap_remove(index))
        };
        let mut instance = match warm {
            Some(instance) => instance,
            None => Instance::start(Arc::clone(&current.revision))?,
        };
        instance.live = Some(Live::count(&self.live));
        Ok((current.generation, Box::new(instance)))
    }

    fn version(&self) -> Arc<OperatorVersion> {
        Arc::clone(&self.current.load().revision.description.version)
    }
}

impl std::fmt::Debug for ComponentSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComponentSlot")
            .field("name", &self.context.shared.name)
            .field("generation", &self.generation)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

/// Whether instances of a version have to start before it is switched to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// It is refused otherwise.
    Must,
    /// The same, by then.
    MustBy(Instant),
    /// It has run before: what keeps it from starting may pass.
    May,
}

/// What it takes to make a version ready.
struct Prepare<'a> {
    engine: &'a Engine,
    context: &'a SlotContext,
    required_outputs: &'a [String],
    tasks: usize,
    /// Whether a stream runs beside it.
    beside: bool,
}

impl Prepare<'_> {
    fn version(
        &self,
        bytes: &[u8],
        label: &str,
        config: Arc<str>,
        start: Start,
    ) -> Result<(Arc<Revision>, Vec<Instance>), OperatorError> {
        let component = self.engine.compile_for(Wanted {
            grants: Some(self.context.grants),
            beside: self.beside,
            until: match start {
                Start::MustBy(until) => Some(until),
                Start::Must | Start::May => None,
            },
            ..Wanted::new(bytes, label)
        })?;
        let revision = Arc::new(Revision::new(component, self.context.clone(), config)?);
        let unfit = |why: String| OperatorError::Unfit {
            component: label.to_owned(),
            why,
        };
        for output in self.required_outputs {
            if !revision.description.version.outputs.contains(output) {
                return Err(unfit(format!(
                    "the pipeline uses its output {output:?}, which it does not have"
                )));
            }
        }
        let mut warm = Vec::new();
        match (self.warm(&revision, &mut warm, start), start) {
            (Ok(()), _) => {}
            (Err(error @ OperatorError::Start { .. }), Start::May) => tracing::warn!(
                target: "tidegate::operator",
                slot = self.context.shared.name,
                instances = warm.len(),
                "goes on with fewer instances than tasks: {error}"
            ),
            (Err(error), _) => return Err(error),
        }
        Ok((revision, warm))
    }

    /// Makes an instance for every task; those that could be made stay after an error.
    fn warm(
        &self,
        revision: &Arc<Revision>,
        warm: &mut Vec<Instance>,
        start: Start,
    ) -> Result<(), OperatorError> {
        let unfit = |why: String| OperatorError::Unfit {
            component: revision.component.label().to_owned(),
            why,
        };
        let in_time = |ready: usize| match start {
            Start::MustBy(until) if Instant::now() >= until => Err(unfit(format!(
                "the time for its deployment is over with {ready} of {} instances ready",
                self.tasks
            ))),
            _ => Ok(()),
        };
        in_time(0)?;
        let mut first = Instance::start(Arc::clone(revision))?;
        let samples = self.context.samples.all();
        for sample in &samples {
            if let Err(why) = first.try_out(sample)? {
                let records = sample.len();
                return Err(unfit(format!(
                    "it does not answer {records} recorded records: {why}"
                )));
            }
            in_time(0)?;
        }
        // An instance that has seen samples may remember them: it does not serve the stream.
        warm.extend(Some(first).filter(|_| samples.is_empty()));
        while warm.len() < self.tasks {
            in_time(warm.len())?;
            warm.push(Instance::start(Arc::clone(revision))?);
        }
        in_time(warm.len())
    }
}
