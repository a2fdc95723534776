//! What made a component: the section `producers`, as the tool conventions of WebAssembly have it.

use wasm_metadata::Producers;

use crate::encode::EncodeError;

/// One of those that made a component.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Producer {
    /// `language`, `processed-by` or `sdk`.
    pub field: String,
    /// `C`, `clang`, `tidegate-c`.
    pub name: String,
    /// Empty where there is none.
    pub version: String,
}

impl Producer {
    /// What the language is.
    pub fn language(name: &str) -> Producer {
        Producer::new("language", name, "")
    }

    /// A program that worked on it.
    pub fn processed_by(name: &str, version: &str) -> Producer {
        Producer::new("processed-by", name, version)
    }

    /// The SDK that it was written with.
    pub fn sdk(name: &str, version: &str) -> Producer {
        Producer::new("sdk", name, version)
    }

    fn new(field: &str, name: &str, version: &str) -> Producer {
        Producer {
            field: field.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }
}

/// The component with these added to those that it names.
pub fn sign(component: &[u8], producers: &[Producer]) -> Result<Vec<u8>, EncodeError> {
    let mut section = Producers::empty();
    for producer in producers {
        section.add(&producer.field, &producer.name, &producer.version);
    }
    section
        .add_to_wasm(component)
        .map_err(|error| malformed(&error))
}

/// What a module or component says made it, in its order: anybody may have written it. Nothing where it says nothing.
pub fn producers(component: &[u8]) -> Result<Vec<Producer>, EncodeError> {
    let section = Producers::from_wasm(component).map_err(|error| malformed(&error))?;
    let mut found = Vec::new();
    for (field, values) in section.iter().flat_map(|section| section.iter()) {
        let values = values.iter();
        found.extend(values.map(|(name, version)| Producer::new(field, name, version)));
    }
    Ok(found)
}

/// The library has errors of a kind that this crate does not name.
fn malformed(error: &impl std::fmt::Display) -> EncodeError {
    EncodeError::Malformed {
        what: "component",
        why: format!("{error:#}"),
    }
}
