//! From a core module to a component.

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::read::module_imports;

/// Why there is no component, or no stripped or signed one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It is no module or component that can be read.
    #[error("the {what} is malformed: {why}")]
    Malformed {
        /// `core module` or `component`.
        what: &'static str,
        /// What is wrong, and where.
        why: String,
    },
    /// There is no such world.
    #[error("the contract has no world {world:?}: {why}")]
    World {
        /// Its name.
        world: String,
        /// What the parser of WIT says.
        why: String,
    },
    /// It does not fit its world.
    #[error("the core module cannot be made a component: {why}")]
    DoesNotFit {
        /// What the encoder says.
        why: String,
    },
}

impl EncodeError {
    pub(crate) fn malformed(
        what: &'static str,
    ) -> impl Fn(wasmparser::BinaryReaderError) -> EncodeError {
        move |error| EncodeError::Malformed {
            what,
            why: error.to_string(),
        }
    }
}

/// Writes into a core module of which world it is: `wit` is the text of the contract.
pub fn embed(module: &mut Vec<u8>, wit: &str, world: &str) -> Result<(), EncodeError> {
    check(module)?;
    let mut resolve = Resolve::default();
    let found = resolve
        .push_source("tidegate.wit", wit)
        .and_then(|package| resolve.select_world(&[package], Some(world)));
    let embedded = found
        .and_then(|found| embed_component_metadata(module, &resolve, found, StringEncoding::UTF8));
    embedded.map_err(|error| EncodeError::World {
        world: world.to_owned(),
        why: format!("{error:#}"),
    })
}

/// The component of a core module that carries its world (as [`embed`] and wit-bindgen leave it in a custom section). What
/// the module imports of WASI preview 1 is taken to WASI 0.2 by an adapter within it.
pub fn encode(module: &[u8]) -> Result<Vec<u8>, EncodeError> {
    // The encoder takes a well-formed module for granted and panics on one that is cut short.
    check(module)?;
    let made = || {
        let mut encoder = ComponentEncoder::default().validate(true).module(module)?;
        if module_imports(module).contains(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME) {
            encoder = encoder.adapter(
                WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
            )?;
        }
        encoder.encode()
    };
    made().map_err(|error| EncodeError::DoesNotFit {
        why: format!("{error:#}"),
    })
}

fn check(module: &[u8]) -> Result<(), EncodeError> {
    wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
        .validate_all(module)
        .map(drop)
        .map_err(EncodeError::malformed("core module"))
}
