//! The worlds of the contracts that were released, and what an operator of each says.
//!
//! A component is known by the interface that it exports. Whatever that is, what it says comes out of here in one form:
//! a [`Said`], and answers in the packed arena.

pub(crate) mod arena;
pub(crate) mod plain;
pub(crate) mod tokens;
pub(crate) mod version0_1;
pub(crate) mod version1;

use tidegate_record::Fields;
use tidegate_telemetry::plain as shown;
use wasmtime::component::ComponentExportIndex;

use self::tokens::TokenExports;
use crate::limits::NAME_BYTES;
use crate::metrics::Metric;

/// The package whose interfaces an operator imports and exports.
const PACKAGE: &str = "tidegate:operator";

/// The handler of a world: the interface that an operator exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    /// Of 1.0.0: batches as arenas of layout 2.
    Packed,
    /// Of 1.0.0: batches as typed records.
    Plain,
    /// Of 0.1.0: batches as arenas of layout 1.
    Version0_1,
}

impl Handler {
    /// Whether a configuration is held against the schema that the operator describes. In 0.1.0 it was for people alone.
    pub(crate) fn has_checked_schema(self) -> bool {
        self != Handler::Version0_1
    }
}

/// What is run, the first that is there.
const HANDLERS: [(Handler, &str); 3] = [
    (Handler::Packed, "tidegate:operator/packed@1.0.0"),
    (Handler::Plain, "tidegate:operator/plain@1.0.0"),
    (Handler::Version0_1, "tidegate:operator/operator@0.1.0"),
];

/// Interfaces that an operator may import, with the versions in which they were released.
const INTERFACES: [(&str, &[&str]); 4] = [
    ("types", &["1.0.0"]),
    ("log", &["0.1.0", "1.0.0"]),
    ("config", &["0.1.0"]),
    ("metrics", &["0.1.0"]),
];

/// Where the functions of an operator are among its exports.
#[derive(Clone, Copy)]
pub(crate) struct Exports {
    pub(crate) handler: Handler,
    pub(crate) describe: ComponentExportIndex,
    pub(crate) init: ComponentExportIndex,
    pub(crate) process: ComponentExportIndex,
    /// The optional handler of tokens, if it is exported.
    pub(crate) tokens: Option<TokenExports>,
}

/// Finds the operator among what a component exports, or says what is there instead.
pub(crate) fn exports(
    component: &wasmtime::component::Component,
    engine: &wasmtime::Engine,
) -> Result<Exports, String> {
    let found = HANDLERS.iter().find_map(|(handler, name)| {
        let index = component.get_export_index(None, name)?;
        Some((*handler, *name, index))
    });
    let Some((handler, name, operator)) = found else {
        let known = "this host runs tidegate:operator/packed@1.0.0, plain@1.0.0 and operator@0.1.0";
        let other = component
            .component_type()
            .exports(engine)
            .map(|(name, _)| name.to_owned())
            .find(|name| name.starts_with(PACKAGE));
        return Err(match other {
            Some(other) => format!("it exports {other}; {known}"),
            None => format!("it exports no operator; {known}"),
        });
    };
    let function = |interface: &str, of: &ComponentExportIndex, function: &str| {
        component
            .get_export_index(Some(of), function)
            .ok_or_else(|| format!("its {interface} has no function {function}"))
    };
    // The contract 0.1.0 has no optional handlers: what is called so there is the operator's own matter.
    let tokens = match handler {
        Handler::Packed | Handler::Plain => component.get_export_index(None, tokens::INTERFACE),
        Handler::Version0_1 => None,
    };
    let tokens = tokens.map(|index| {
        let function = |name| function(tokens::INTERFACE, &index, name);
        Ok::<_, String>(TokenExports {
            open: function("open")?,
            step: function("step")?,
            close: function("close")?,
        })
    });
    Ok(Exports {
        handler,
        describe: function(name, &operator, "describe")?,
        init: function(name, &operator, "init")?,
        process: function(name, &operator, "process")?,
        tokens: tokens.transpose()?,
    })
}

/// What an import asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Import<'a> {
    /// An interface of this name, of the contract.
    Own(&'a str),
    /// One that this host does not have, and why.
    Unknown(String),
    /// None of the contract's.
    Other,
}

/// Looks at the name of an import.
pub(crate) fn import(name: &str) -> Import<'_> {
    let Some(own) = name
        .strip_prefix(PACKAGE)
        .and_then(|rest| rest.strip_prefix('/'))
    else {
        return Import::Other;
    };
    let (interface, version) = own.split_once('@').unwrap_or((own, ""));
    match INTERFACES.iter().find(|(known, _)| *known == interface) {
        Some((_, versions)) if versions.contains(&version) => Import::Own(interface),
        Some((_, versions)) => Import::Unknown(format!(
            "it imports {name}; this host has {interface} in {}",
            versions.join(" and ")
        )),
        None => Import::Unknown(format!("it imports {name}, which this host does not have")),
    }
}

/// What an operator says of itself, as it says it: nothing of it is checked but that it is bounded.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) config_schema: String,
    pub(crate) reads: Fields,
    pub(crate) outputs: Vec<String>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) handlers: Vec<String>,
    pub(crate) extensions: Vec<String>,
}

/// Fields by their names.
fn fields(names: &[String]) -> Result<Fields, String> {
    names.iter().try_fold(Fields::NONE, |reads, name| {
        let field = Fields::named(name).ok_or_else(|| {
            format!(
                "it reads \"{}\"; there are key, value, headers and attributes",
                shown(name, NAME_BYTES)
            )
        })?;
        Ok(reads.and(field))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_in_a_version_that_was_not_released_is_named_with_those_that_were() {
        assert_eq!(import("tidegate:operator/log@0.1.0"), Import::Own("log"));
        assert_eq!(import("tidegate:operator/log@1.0.0"), Import::Own("log"));
        assert_eq!(import("wasi:cli/exit@0.2.0"), Import::Other);
        let why = |name| match import(name) {
            Import::Unknown(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            why("tidegate:operator/log@1.1.0"),
            "it imports tidegate:operator/log@1.1.0; this host has log in 0.1.0 and 1.0.0"
        );
        assert_eq!(
            why("tidegate:operator/state@1.1.0"),
            "it imports tidegate:operator/state@1.1.0, which this host does not have"
        );
        assert!(why("tidegate:operator/log").contains("0.1.0 and 1.0.0"));
    }
}
