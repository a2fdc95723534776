//! One version of a slot's operator, checked and ready to be instantiated.

use std::collections::HashSet;
use std::sync::Arc;

use semver::Version;
use sha2::{Digest, Sha256};
use tidegate_contract::{OperatorError, OperatorVersion};
use tidegate_record::Fields;
use tidegate_telemetry::{is_plain, plain};
use wasmtime::component::InstancePre;

use crate::component::Component;
use crate::failure::Failure;
use crate::grants::Grants;
use crate::guest::Guest;
use crate::host::{Host, WitDescription};
use crate::limits::{Limits, NAME_BYTES, OUTPUTS, READS, SCHEMA_BYTES, size};
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
pub(crate) struct SlotContext {
    pub(crate) grants: Grants,
    pub(crate) limits: Limits,
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
    /// Number of named outputs.
    pub(crate) outputs: u16,
    seed: [u8; 32],
}

impl Revision {
    /// Links the component with its grants and asks it once what it is.
    pub(crate) fn new(
        component: Component,
        context: SlotContext,
        config: Arc<str>,
    ) -> Result<Revision, OperatorError> {
        let pre = component.link(context.grants)?;
        let mut hash = Sha256::new();
        hash.update(component.digest());
        hash.update(&context.shared.name);
        let mut revision = Revision {
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
                }),
                config_schema: String::new(),
            },
            outputs: 0,
            seed: hash.finalize().into(),
        };
        let said = Guest::open(&revision)
            .and_then(|mut guest| guest.describe(&revision))
            .map_err(|failure| revision.start_error("describe", &failure))?;
        revision.description = understand(&revision.component, said)?;
        revision.outputs = revision.description.version.outputs.len() as u16;
        Ok(revision)
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
            shared: Arc::new(Shared::new(self.label().to_owned())),
            samples: Arc::default(),
        };
        Ok(Revision::new(self.clone(), context, "{}".into())?.description)
    }
}

fn understand(component: &Component, said: WitDescription) -> Result<Description, OperatorError> {
    let wrong = |why: String| OperatorError::NotAnOperator {
        component: component.label().to_owned(),
        why: format!("describe: {why}"),
    };
    check(&said).map_err(wrong)?;
    let mut reads = Fields::NONE;
    for field in &said.reads {
        let known = Fields::named(field).ok_or_else(|| {
            wrong(format!(
                "it reads \"{}\"; there are key, value, headers and attributes",
                plain(field, NAME_BYTES)
            ))
        })?;
        reads = reads.and(known);
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

/// Holds a description against what the WIT says of it. From here on its names can be shown and kept as they are.
fn check(said: &WitDescription) -> Result<(), String> {
    name("name", &said.name)?;
    name("version", &said.version)?;
    if let Err(error) = Version::parse(&said.version) {
        return Err(format!(
            "its version \"{}\" is not semver, such as 1.2.3: {error}",
            said.version
        ));
    }
    if said.config_schema.len() > SCHEMA_BYTES {
        return Err(format!(
            "its configuration schema has {}, limit {}",
            size(said.config_schema.len()),
            size(SCHEMA_BYTES)
        ));
    }
    let count = |what: &str, found: usize, limit: usize| match found > limit {
        true => Err(format!("it has {found} {what}, limit {limit}")),
        false => Ok(()),
    };
    count("fields that it reads", said.reads.len(), READS)?;
    count("named outputs", said.outputs.len(), OUTPUTS)?;
    let mut known = HashSet::new();
    for output in &said.outputs {
        name("output", output)?;
        if !known.insert(output) {
            return Err(format!("its output \"{output}\" is there twice"));
        }
    }
    Ok(())
}

/// A name is short and can be shown: it is printed, logged, counted by and kept with every record that waits.
fn name(what: &str, name: &str) -> Result<(), String> {
    // Scripts need them in a text, and a name needs nothing that cannot be seen.
    let joiners = ['\u{200c}', '\u{200d}'];
    let shown = plain(name, NAME_BYTES)
        .replace(joiners[0], "\\u{200c}")
        .replace(joiners[1], "\\u{200d}");
    if name.is_empty() {
        Err(match what {
            "output" => "one of its outputs has no name".into(),
            what => format!("it has no {what}"),
        })
    } else if name.len() > NAME_BYTES {
        let bytes = name.len();
        Err(format!(
            "its {what} has {bytes} bytes, limit {NAME_BYTES}: \"{shown}\""
        ))
    } else if !is_plain(name) || name.contains(joiners) {
        Err(format!(
            "its {what} has characters that cannot be shown: \"{shown}\""
        ))
    } else {
        Ok(())
    }
}
