//! One version of a slot's operator, checked and ready to be instantiated.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidegate_contract::{OperatorError, OperatorVersion};
use tidegate_record::Fields;
use wasmtime::component::InstancePre;

use crate::component::Component;
use crate::failure::Failure;
use crate::grants::Grants;
use crate::guest::Guest;
use crate::host::{Host, WitDescription};
use crate::limits::Limits;
use crate::samples::Samples;
use crate::shared::Shared;

/// What a component says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name, version, digest, fields and outputs.
    pub version: Arc<OperatorVersion>,
    /// JSON Schema of its configuration, as text.
    pub config_schema: String,
}

/// What the versions of a slot have in common.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) grants: Grants,
    pub(crate) limits: Limits,
    pub(crate) shared: Arc<Shared>,
    pub(crate) samples: Arc<Samples>,
}

/// See the module.
pub(crate) struct Plan {
    pub(crate) component: Component,
    pub(crate) pre: InstancePre<Host>,
    pub(crate) place: Place,
    pub(crate) config: Arc<str>,
    pub(crate) description: Description,
    /// Number of named outputs.
    pub(crate) outputs: u16,
    seed: [u8; 32],
}

impl Plan {
    /// Links the component with its grants and asks it once what it is.
    pub(crate) fn new(
        component: Component,
        place: Place,
        config: Arc<str>,
    ) -> Result<Plan, OperatorError> {
        let pre = component.link(place.grants)?;
        let mut hash = Sha256::new();
        hash.update(component.digest());
        hash.update(&place.shared.name);
        let mut plan = Plan {
            component,
            pre,
            place,
            config,
            description: Description {
                version: Arc::new(OperatorVersion {
                    name: String::new(),
                    version: String::new(),
                    digest: String::new(),
                    reads: Fields::NONE,
                    outputs: Vec::new(),
                }),
                config_schema: String::new(),
            },
            outputs: 0,
            seed: hash.finalize().into(),
        };
        let said = Guest::open(&plan)
            .and_then(|mut guest| guest.describe(&plan))
            .map_err(|failure| plan.start_error("describe", &failure))?;
        plan.description = understand(&plan.component, said)?;
        plan.outputs = plan.description.version.outputs.len() as u16;
        Ok(plan)
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
            Arc::clone(&self.place.shared),
            Arc::clone(&self.config),
            &self.place.limits,
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
        let place = Place {
            grants,
            limits: Limits::default(),
            shared: Arc::new(Shared::new(self.label().to_owned())),
            samples: Arc::default(),
        };
        Ok(Plan::new(self.clone(), place, "{}".into())?.description)
    }
}

fn understand(component: &Component, said: WitDescription) -> Result<Description, OperatorError> {
    let wrong = |why: String| OperatorError::NotAnOperator {
        component: component.label().to_owned(),
        why: format!("describe: {why}"),
    };
    if said.name.is_empty() {
        return Err(wrong("it has no name".into()));
    }
    let mut reads = Fields::NONE;
    for field in &said.reads {
        let known = Fields::named(field).ok_or_else(|| {
            wrong(format!(
                "it reads {field:?}; there are key, value, headers and attributes"
            ))
        })?;
        reads = reads.and(known);
    }
    if said.outputs.len() > usize::from(u16::MAX) {
        let outputs = said.outputs.len();
        return Err(wrong(format!(
            "it has {outputs} named outputs, limit {}",
            u16::MAX
        )));
    }
    for (index, output) in said.outputs.iter().enumerate() {
        if output.is_empty() || said.outputs[..index].contains(output) {
            return Err(wrong(format!(
                "its output {output:?} is there twice or has no name"
            )));
        }
    }
    Ok(Description {
        version: Arc::new(OperatorVersion {
            name: said.name,
            version: said.version,
            digest: component.digest().to_owned(),
            reads,
            outputs: said.outputs,
        }),
        config_schema: said.config_schema,
    })
}
