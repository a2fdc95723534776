//! One revision of a slot: a component, checked, with its configuration, grants and limits, ready to be instantiated.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidegate_contract::{OperatorError, OperatorVersion};
use tidegate_record::Fields;
use wasmtime::component::InstancePre;

use crate::breaker::{Breaker, Tally};
use crate::component::Component;
use crate::description::{Description, understand};
use crate::failure::Failure;
use crate::grants::Grants;
use crate::guest::Guest;
use crate::host::Host;
use crate::json;
use crate::limits::Limits;
use crate::meters::RevisionMeters;
use crate::metrics::Metrics;
use crate::remembered;
use crate::samples::Samples;
use crate::schema;
use crate::shared::Shared;
use crate::spares::Spares;

/// What the revisions of a slot have in common.
#[derive(Clone)]
pub(crate) struct SlotContext {
    pub(crate) grants: Grants,
    pub(crate) limits: Limits,
    /// The configuration of the pipeline file.
    pub(crate) configured: Arc<str>,
    pub(crate) breaker: Breaker,
    /// What operators draw random numbers from, where it is not made of the slot's name.
    pub(crate) seed: Option<[u8; 16]>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) samples: Arc<Samples>,
}

/// See the module.
pub(crate) struct Revision {
    pub(crate) component: Component,
    pub(crate) pre: InstancePre<Host>,
    pub(crate) context: SlotContext,
    pub(crate) config: Arc<str>,
    pub(crate) description: Description,
    /// What its instances have measured.
    pub(crate) metrics: Arc<Metrics>,
    /// Number of named outputs.
    pub(crate) outputs: u16,
    /// What operators draw random numbers from: the same for every revision of the slot.
    pub(crate) batch_seed: [u8; 16],
    pub(crate) meters: Arc<RevisionMeters>,
    pub(crate) tally: Tally,
    pub(crate) spares: Spares,
    /// What a WASI guest draws them from.
    seed: [u8; 32],
}

impl Revision {
    /// Links the component with its grants and asks it once what it is.
    pub(crate) fn new(
        component: Component,
        context: SlotContext,
        config: Arc<str>,
    ) -> Result<Revision, OperatorError> {
        Revision::known(component, context, config, None)
    }

    /// The same of a revision that has run: where it cannot be asked now, it is what it said then.
    pub(crate) fn known(
        component: Component,
        context: SlotContext,
        config: Arc<str>,
        known: Option<Description>,
    ) -> Result<Revision, OperatorError> {
        let pre = component.link(context.grants)?;
        if component.exports.handler.has_checked_schema() {
            // Before the operator sees it: what it means is not left to the reader of a language.
            json::check(&config).map_err(|why| OperatorError::Unfit {
                component: component.label().to_owned(),
                why: format!("config: {why}"),
            })?;
        }
        let slot = Sha256::digest(&context.shared.name);
        let of_name = || slot.first_chunk().copied().unwrap_or_default();
        let batch_seed = context.seed.unwrap_or_else(of_name);
        let mut hash = Sha256::new();
        hash.update(component.digest());
        hash.update(&context.shared.name);
        let mut revision = Revision {
            meters: Arc::default(),
            tally: Tally::new(context.breaker.clone()),
            spares: Spares::default(),
            component,
            pre,
            context,
            config,
            description: Description {
                version: Arc::new(OperatorVersion {
                    name: String::new(),
                    version: String::new(),
                    digest: String::new(),
                    reads: Fields::NONE,
                    outputs: Vec::new(),
                    revision: Default::default(),
                }),
                config_schema: String::new(),
                metrics: Vec::new(),
                handles_tokens: false,
            },
            metrics: Arc::new(Metrics::new(Vec::new(), &Arc::default())),
            outputs: 0,
            batch_seed,
            seed: hash.finalize().into(),
        };
        let said = Guest::open(&revision)
            .and_then(|mut guest| guest.describe(&revision))
            .map_err(|failure| revision.start_error("describe", &failure));
        let mut described = match (said, known) {
            (Ok(said), _) => understand(&revision.component, said)?,
            (Err(error), Some(known)) => {
                tracing::warn!(
                    target: "tidegate::operator",
                    slot = revision.context.shared.name,
                    "goes on with what it said when it ran: {error}"
                );
                known
            }
            (Err(error), None) => return Err(error),
        };
        let (component, context) = (&revision.component, &revision.context);
        let (grants, limits) = (context.grants, &context.limits);
        let identity = remembered::identity(component.digest(), &revision.config, grants, limits);
        let kept = remembered::kept(identity, &revision.config, &context.configured, &described);
        Arc::make_mut(&mut described.version).revision = kept;
        revision.description = described;
        revision.outputs = revision.description.version.outputs.len() as u16;
        let shared = &revision.context.shared;
        let metrics = Metrics::new(revision.description.metrics.clone(), &shared.names);
        revision.metrics = Arc::new(metrics);
        Ok(revision)
    }

    /// Holds the configuration against the schema of the operator.
    pub(crate) fn check_config(&self) -> Result<(), OperatorError> {
        if !self.component.exports.handler.has_checked_schema() {
            return Ok(());
        }
        schema::check_config(&self.description.config_schema, &self.config).map_err(|why| {
            OperatorError::Unfit {
                component: self.component.label().to_owned(),
                why,
            }
        })
    }

    /// An instance that has been initialised.
    pub(crate) fn start(&self) -> Result<Guest, OperatorError> {
        let mut guest =
            Guest::open(self).map_err(|failure| self.start_error("instantiate", &failure))?;
        guest
            .init(self)
            .map_err(|failure| self.start_error("init", &failure))?;
        Ok(guest)
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(
            Arc::clone(&self.context.shared),
            Arc::clone(&self.config),
            &self.context.limits,
            self.seed,
        )
    }

    fn start_error(&self, step: &str, failure: &Failure) -> OperatorError {
        OperatorError::Start {
            component: self.component.label().to_owned(),
            why: format!("{step}: {}", failure.text()),
        }
    }
}

impl Component {
    /// Asks the component what it is, in a throw-away instance with default limits.
    pub fn describe(&self, grants: Grants) -> Result<Description, OperatorError> {
        let context = SlotContext {
            grants,
            limits: Limits::default(),
            configured: "{}".into(),
            breaker: Breaker::default(),
            seed: None,
            shared: Arc::new(Shared::new(self.label().to_owned())),
            samples: Arc::default(),
        };
        Ok(Revision::new(self.clone(), context, "{}".into())?.description)
    }
}
