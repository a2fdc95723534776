//! The place revisions are swapped in: the one that runs, the deployment of the next, the way back.

mod history;
mod prepare;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tidegate_component::digest;
use tidegate_contract::{Handling, KeptRevision, Operator, OperatorError, OperatorVersion, Slot};

use crate::breaker::Breaker;
use crate::budget::Budget;
use crate::component::{Component, Wanted};
use crate::description::Description;
use crate::ending::Ending;
use crate::engine::Engine;
use crate::given::Given;
use crate::grants::Grants;
use crate::instance::{Instance, Live};
use crate::limits::Limits;
use crate::listener::Listener;
use crate::names::{Names, Seat};
use crate::recent::LogLines;
use crate::remembered;
use crate::revision::{Revision, SlotContext};
use crate::samples::Samples;
use crate::shared::{Shared, lock};
use crate::tokens::Tokens;

use history::History;
pub use history::{RevisionMetrics, RevisionReport};
use prepare::{Prepare, Start};

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
    /// Whether the pipeline has tokens of answers handled here: a version that handles none is refused.
    pub requires_tokens: bool,
    /// Instances that are made before a version is switched to: one for each task.
    pub tasks: usize,
    /// How often a revision may fail before it is run no more.
    pub breaker: Breaker,
    /// What operators draw random numbers from; none for what is made of the name.
    pub seed: Option<[u8; 16]>,
    /// Who takes the operator's lines in the log's place; none for the log.
    pub listener: Option<Arc<dyn Listener>>,
    /// When all that its instances do ends; none for never.
    pub ending: Option<Arc<Ending>>,
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
            requires_tokens: false,
            tasks: 1,
            breaker: Breaker::default(),
            seed: None,
            listener: None,
            ending: None,
        }
    }

    /// Digest of the revision that a component would be with these options: `sha256:` and 64 hexadecimal digits.
    pub fn revision(&self, component: &[u8]) -> String {
        remembered::identity(&digest(component), &self.config, self.grants, &self.limits)
    }
}

/// What a deployment changes; what it does not name stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// The component's bytes.
    pub component: Option<&'a [u8]>,
    /// Names the component in errors: usually its path.
    pub label: &'a str,
    /// The configuration as JSON text.
    pub config: Option<&'a str>,
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

/// Holds the revision that runs and hands out instances of it. Deployments compile and run guest code: call them from a
/// thread that may block.
pub struct ComponentSlot {
    engine: Engine,
    context: SlotContext,
    required_outputs: Vec<String>,
    requires_tokens: bool,
    tasks: usize,
    current: ArcSwap<Current>,
    generation: AtomicU64,
    warm: Mutex<Vec<Instance>>,
    /// Instances that tasks have.
    live: Arc<AtomicUsize>,
    /// Held while a deployment is prepared, so that there is one at a time.
    deploying: Mutex<()>,
    history: Mutex<History>,
    /// Its place among those whose metrics have names.
    seat: Seat,
}

struct Current {
    generation: u64,
    revision: Arc<Revision>,
    /// What ran before it, and was done deploying.
    previous: Option<Arc<Revision>>,
    /// Its deployment, as long as that may be undone.
    open: Option<Open>,
}

/// A deployment that is not done yet.
struct Open {
    /// What the way back was before it.
    previous: Option<Arc<Revision>>,
}

impl Current {
    /// Every revision that it holds, the one that runs at the end.
    fn revisions(&self) -> impl Iterator<Item = &Arc<Revision>> {
        let earlier = self.open.as_ref().and_then(|open| open.previous.as_ref());
        let before = earlier.into_iter().chain(&self.previous);
        before.chain([&self.revision])
    }
}

impl ComponentSlot {
    /// Makes a slot with its first version, generation 1. `label` names the component in errors: usually its path.
    pub fn new<'a>(
        engine: &Engine,
        options: SlotOptions,
        component: impl Into<Given<'a>>,
        label: &str,
    ) -> Result<ComponentSlot, OperatorError> {
        let config = options.config.clone();
        ComponentSlot::make(engine, options, (&component.into(), label, &config), None)
    }

    /// The same with a component that is compiled already: a slot for each of many configurations.
    pub fn of(component: &Component, options: SlotOptions) -> Result<ComponentSlot, OperatorError> {
        let config = options.config.clone();
        let names = Arc::clone(&component.engine.inner.names);
        ComponentSlot::with(component.clone(), options, names, (&config, None))
    }

    /// A slot of its own with the revision that runs now: what its instances do counts there alone, under names that no
    /// other slot has to do with, no breaker looks at it, this listener takes its lines, and it ends with this end.
    pub fn beside(
        &self,
        listener: Arc<dyn Listener>,
        ending: Arc<Ending>,
    ) -> Result<ComponentSlot, OperatorError> {
        let revision = self.current.load().revision.clone();
        let options = SlotOptions {
            name: self.context.shared.name.clone(),
            grants: self.context.grants,
            limits: self.context.limits.clone(),
            config: revision.config.to_string(),
            required_outputs: self.required_outputs.clone(),
            requires_tokens: self.requires_tokens,
            tasks: 1,
            breaker: Breaker::default(),
            seed: self.context.seed,
            listener: Some(listener),
            ending: Some(ending),
        };
        let config = Arc::clone(&revision.config);
        let component = revision.component.clone();
        ComponentSlot::with(component, options, Arc::default(), (&config, None))
    }

    /// The same where the log says what ran: the configuration that was deployed stays while that of the pipeline file
    /// does, and where the revision is the one that ran, and no instance of it can be started or asked now, the slot is
    /// made without, and whoever needs one tries again. Anything else has to start.
    pub fn resume<'a>(
        engine: &Engine,
        options: SlotOptions,
        component: impl Into<Given<'a>>,
        label: &str,
        ran: &KeptRevision,
    ) -> Result<ComponentSlot, OperatorError> {
        let config = remembered::config(ran, &options.config).to_owned();
        let given = component.into();
        let component = given.digest();
        let same = remembered::identity(component, &config, options.grants, &options.limits);
        let known = remembered::described(component, &ran.description);
        let known = known.filter(|_| same == ran.digest);
        ComponentSlot::make(engine, options, (&given, label, &config), known)
    }

    fn make(
        engine: &Engine,
        options: SlotOptions,
        (given, label, config): (&Given<'_>, &str, &str),
        known: Option<Description>,
    ) -> Result<ComponentSlot, OperatorError> {
        let component = engine.compile_for(Wanted {
            grants: Some(options.grants),
            slot: Some(&options.name),
            ..Wanted::new(given, label)
        })?;
        let names = Arc::clone(&engine.inner.names);
        ComponentSlot::with(component, options, names, (config, known))
    }

    fn with(
        component: Component,
        options: SlotOptions,
        names: Arc<Names>,
        (config, known): (&str, Option<Description>),
    ) -> Result<ComponentSlot, OperatorError> {
        let engine = component.engine.clone();
        let memory = Budget::of_slot(options.limits.total_memory, &engine.inner.memory);
        let context = SlotContext {
            grants: options.grants,
            limits: options.limits,
            configured: options.config.into(),
            breaker: options.breaker,
            seed: options.seed,
            shared: Arc::new(
                Shared::within(options.name, memory)
                    .named(Arc::clone(&names))
                    .heard_by(options.listener)
                    .ending(options.ending),
            ),
            samples: Arc::new(Samples::default()),
        };
        let start = match known {
            Some(_) => Start::May,
            None => Start::Must,
        };
        let prepare = Prepare {
            context: &context,
            required_outputs: &options.required_outputs,
            requires_tokens: options.requires_tokens,
            tasks: options.tasks,
            start,
        };
        let revision = prepare.revision(component, config.into(), known)?;
        let (revision, warm) = prepare.ready(revision)?;
        let seat = names.seat(&context.shared.name);
        seat.stand(vec![Arc::clone(&revision.metrics)], true);
        Ok(ComponentSlot {
            engine,
            context,
            seat,
            required_outputs: options.required_outputs,
            requires_tokens: options.requires_tokens,
            tasks: options.tasks,
            current: ArcSwap::from_pointee(Current {
                generation: 1,
                revision,
                previous: None,
                open: None,
            }),
            generation: AtomicU64::new(1),
            warm: Mutex::new(warm),
            live: Arc::default(),
            deploying: Mutex::new(()),
            history: Mutex::default(),
        })
    }

    /// Compiles a version, checks that it fits, tries it on recorded samples and starts an instance for every task
    /// beside the running one, then switches. Tasks change over at their next batch, when they see the generation. An
    /// error leaves the running version as it is.
    pub fn deploy(&self, bytes: &[u8], label: &str) -> Result<Deployment, OperatorError> {
        let change = Change {
            component: Some(bytes),
            label,
            config: None,
        };
        self.change(&change, Start::Must)
            .inspect(|deployment| self.finish(deployment))
    }

    /// The same with another configuration.
    pub fn deploy_with(
        &self,
        bytes: &[u8],
        label: &str,
        config: &str,
    ) -> Result<Deployment, OperatorError> {
        let change = Change {
            component: Some(bytes),
            label,
            config: Some(config),
        };
        self.change(&change, Start::Must)
            .inspect(|deployment| self.finish(deployment))
    }

    /// The same with a new component, a new configuration or both, within so much time: a version whose instances are
    /// not ready by then is refused. A compilation is ended then; what else is under way (the start of one instance, a
    /// trial of some records) is still waited for. The deployment may be undone until it is told to be done, with
    /// [`ComponentSlot::finish`], or another follows.
    pub fn deploy_within(
        &self,
        change: &Change<'_>,
        time: Duration,
    ) -> Result<Deployment, OperatorError> {
        self.change(change, Start::Within(Instant::now(), time))
    }

    fn change(&self, change: &Change<'_>, start: Start) -> Result<Deployment, OperatorError> {
        let _deploying = lock(&self.deploying);
        let current = self.current.load_full();
        let config = match change.config {
            Some(config) => config.into(),
            None => Arc::clone(&current.revision.config),
        };
        let component = match change.component {
            Some(bytes) => self.engine.compile_for(Wanted {
                grants: Some(self.context.grants),
                slot: Some(&self.context.shared.name),
                beside: true,
                until: start.until(),
                ..Wanted::new(&Given::from(bytes), change.label)
            })?,
            None => current.revision.component.clone(),
        };
        let prepare = Prepare {
            context: &self.context,
            required_outputs: &self.required_outputs,
            requires_tokens: self.requires_tokens,
            // So many tasks as there are now; before the first, so many as there may be.
            tasks: match self.live.load(Ordering::Relaxed) {
                0 => self.tasks,
                live => live,
            },
            start,
        };
        let mut revision = prepare.revision(component, config, None)?;
        self.go_on_measuring(&mut revision);
        let (revision, warm) = prepare.ready(revision)?;
        let next = Current {
            generation: current.generation + 1,
            revision,
            previous: Some(Arc::clone(&current.revision)),
            open: Some(Open {
                previous: current.previous.clone(),
            }),
        };
        Ok(self.switch(&current, next, warm))
    }

    /// The deployment is done: from now on the version before it is the way back. Without effect where another followed.
    pub fn finish(&self, deployment: &Deployment) {
        let _deploying = lock(&self.deploying);
        let current = self.current.load_full();
        if current.generation == deployment.generation && current.open.is_some() {
            let done = Current {
                generation: current.generation,
                revision: Arc::clone(&current.revision),
                previous: current.previous.clone(),
                open: None,
            };
            self.store(&current, done);
        }
    }

    /// Undoes a deployment that is not done: the version before it runs again, and the way back is what it was. The
    /// version that was deployed is never gone back to. As with a rollback, instances may be missing.
    pub fn undo(&self, deployment: &Deployment) -> Result<Deployment, OperatorError> {
        let _deploying = lock(&self.deploying);
        let current = self.current.load_full();
        match (&current.previous, &current.open) {
            (Some(previous), Some(open)) if current.generation == deployment.generation => {
                let next = Current {
                    generation: current.generation + 1,
                    revision: Arc::clone(previous),
                    previous: open.previous.clone(),
                    open: None,
                };
                Ok(self.switch(&current, next, Vec::new()))
            }
            _ => Err(OperatorError::Unfit {
                component: current.revision.component.label().to_owned(),
                why: format!(
                    "deployment {} of slot {} is done, or another followed it",
                    deployment.generation, self.context.shared.name
                ),
            }),
        }
    }

    /// Switches back to the version before the current one, with its configuration. A second call goes forth again. It
    /// does not fail for want of instances: tasks that still have one of that version keep it, others start their own.
    /// A version that has failed too often is not gone back to.
    pub fn rollback(&self) -> Result<Deployment, OperatorError> {
        let _deploying = lock(&self.deploying);
        let current = self.current.load_full();
        let unfit = |why: String| OperatorError::Unfit {
            component: current.revision.component.label().to_owned(),
            why,
        };
        let name = &self.context.shared.name;
        let Some(revision) = current.previous.clone() else {
            return Err(unfit(format!("slot {name} has had no other version")));
        };
        if let Some(why) = revision.tally.tripped() {
            return Err(unfit(format!(
                "the version of slot {name} before it has failed too often: {why}"
            )));
        }
        let next = Current {
            generation: current.generation + 1,
            revision,
            previous: Some(Arc::clone(&current.revision)),
            open: None,
        };
        Ok(self.switch(&current, next, Vec::new()))
    }

    /// Why the revision that runs is to run no more, if it has failed more often than the slot allows. Its instances
    /// answer nothing from then on, and its records wait.
    pub fn tripped(&self) -> Option<String> {
        let current = self.current.load();
        current.revision.tally.tripped().map(str::to_owned)
    }

    fn switch(&self, left: &Current, next: Current, warm: Vec<Instance>) -> Deployment {
        let new = Arc::clone(&next.revision.description.version);
        let generation = next.generation;
        next.revision.spares.revive();
        *lock(&self.warm) = warm;
        self.store(left, next);
        // After the version, so that who sees the number gets the version.
        self.generation.store(generation, Ordering::Release);
        left.revision.spares.retire();
        let old = Arc::clone(&left.revision.description.version);
        tracing::info!(
            target: "tidegate::operator",
            slot = self.context.shared.name,
            generation,
            old = old.digest,
            new = new.digest,
            old_revision = old.revision.digest,
            new_revision = new.revision.digest,
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

    /// Puts what is current in place of what was, and remembers the revisions that it does not hold any more. What is shown
    /// from now on has the names of its metrics.
    fn store(&self, left: &Current, next: Current) {
        let next = Arc::new(next);
        self.current.store(Arc::clone(&next));
        for gone in left.revisions() {
            if !next.revisions().any(|kept| Arc::ptr_eq(kept, gone)) {
                self.remember(gone);
            }
        }
        let is_new = !Arc::ptr_eq(&left.revision, &next.revision);
        self.seat.stand(self.shown(), is_new);
    }

    /// The engine that its components are compiled with.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The last lines of its log, of this number and later.
    pub fn log(&self, from: u64) -> LogLines {
        self.context.shared.recent(from)
    }

    /// Name of the stage.
    pub fn name(&self) -> &str {
        &self.context.shared.name
    }

    /// The configuration of the running version, as JSON text.
    pub fn config(&self) -> Arc<str> {
        Arc::clone(&self.current.load().revision.config)
    }

    /// The configuration of the pipeline file, as JSON text.
    pub fn configured(&self) -> Arc<str> {
        Arc::clone(&self.context.configured)
    }

    /// Whether a component with the configuration of the pipeline file would be a revision that has failed more often
    /// than the slot allows.
    pub fn has_tripped_with(&self, component: &[u8]) -> bool {
        let (grants, limits) = (self.context.grants, &self.context.limits);
        let configured = &self.context.configured;
        let revision = remembered::identity(&digest(component), configured, grants, limits);
        let tripped = |report: &RevisionReport| {
            report.tripped.is_some() && report.version.revision.digest == revision
        };
        self.revisions().iter().any(tripped)
    }

    /// Digests of the components that may run: the current one and, for the way back, the one before it and what an open
    /// deployment would restore.
    pub fn digests(&self) -> Vec<String> {
        let current = self.current.load();
        current
            .revisions()
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
            None => Instance::new(Arc::clone(&current.revision))?,
        };
        instance.live = Some(Live::count(&self.live));
        Ok((current.generation, Box::new(instance)))
    }

    fn handles_tokens(&self) -> bool {
        self.current.load().revision.description.handles_tokens
    }

    fn tokens(&self) -> Result<Handling, OperatorError> {
        let current = self.current.load_full();
        let handler = Tokens::new(Arc::clone(&current.revision))?;
        Ok(Handling {
            generation: current.generation,
            version: Arc::clone(&current.revision.description.version),
            handler: Box::new(handler),
        })
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
