//! What a component says of itself, held against what the WIT says of it.

use std::collections::HashSet;
use std::sync::Arc;

use semver::Version;
use tidegate_contract::{OperatorError, OperatorVersion};
use tidegate_telemetry::{is_plain, plain};

use crate::component::Component;
use crate::limits::{NAME_BYTES, OUTPUTS, SCHEMA_BYTES, size};
use crate::metrics::{self, Metric};
use crate::schema;
use crate::world::{Said, tokens};

/// What a component says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name, version, digest, fields and outputs.
    pub version: Arc<OperatorVersion>,
    /// JSON Schema of its configuration, as text.
    pub config_schema: String,
    /// Its metrics.
    pub metrics: Vec<Metric>,
    /// Whether it handles tokens under its configuration.
    pub handles_tokens: bool,
}

/// Takes what a component says; an error names what is wrong with it.
pub(crate) fn understand(
    component: &Component,
    said: Result<Said, String>,
) -> Result<Description, OperatorError> {
    let wrong = |why: String| OperatorError::NotAnOperator {
        component: component.label().to_owned(),
        why: format!("describe: {why}"),
    };
    let mut said = said.map_err(wrong)?;
    check(&said).map_err(wrong)?;
    check_handlers(&said.handlers, component.exports.tokens.is_some()).map_err(wrong)?;
    metrics::check(&mut said.metrics).map_err(wrong)?;
    if component.exports.handler.has_checked_schema() {
        schema::check(&said.config_schema).map_err(wrong)?;
    }
    Ok(Description {
        version: Arc::new(OperatorVersion {
            name: said.name,
            version: said.version,
            digest: component.digest().to_owned(),
            reads: said.reads,
            outputs: said.outputs,
            revision: Default::default(),
        }),
        config_schema: said.config_schema,
        metrics: said.metrics,
        handles_tokens: !said.handlers.is_empty(),
    })
}

/// Holds a description against what the WIT says of it. From here on its names can be shown and kept as they are.
fn check(said: &Said) -> Result<(), String> {
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
    count("named outputs", said.outputs.len(), OUTPUTS)?;
    if let Some(extension) = said.extensions.first() {
        return Err(format!(
            "it declares {extension}, which this host does not know"
        ));
    }
    let mut known = HashSet::new();
    for output in &said.outputs {
        name("output", output)?;
        if !known.insert(output) {
            return Err(format!("its output \"{output}\" is there twice"));
        }
    }
    Ok(())
}

/// The handlers that it names: this host knows one, which has to be exported.
fn check_handlers(handlers: &[String], exports_tokens: bool) -> Result<(), String> {
    if let Some(other) = handlers.iter().find(|name| *name != tokens::HANDLER) {
        let handler = plain(other, NAME_BYTES);
        return Err(format!(
            "it has the handler \"{handler}\", which this host does not know"
        ));
    }
    let (named, interface) = (handlers.len(), tokens::INTERFACE);
    if named > 1 {
        return Err(format!("it names the handler \"tokens\" {named} times"));
    }
    match named == 1 && !exports_tokens {
        true => Err(format!(
            "it has the handler \"tokens\" and does not export {interface}"
        )),
        false => Ok(()),
    }
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
