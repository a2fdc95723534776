//! Why a tensor or a checkpoint was not accepted.

use std::path::PathBuf;

use crate::config::{ConfigError, cut};
use crate::gguf::{GgufError, PartError};

/// Characters of the name of a tensor in a message, where it is in no configuration and may be as long as the file.
const LONGEST_NAME: usize = 200;

/// Why a tensor could not be had or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// A tensor that the configuration calls for is absent.
    #[error("tensor `{name}` is missing, expected shape {expected:?}")]
    Missing {
        /// The tensor.
        name: String,
        /// Shape it must have.
        expected: Vec<usize>,
    },
    /// The model has no such tensor, for example a bias where there are none.
    #[error("the model has no tensor {tensor}")]
    Absent {
        /// What was asked for.
        tensor: String,
    },
    /// A tensor has another shape than the configuration calls for.
    #[error(
        "tensor `{name}` has shape {found:?}, expected {expected:?} by the model's configuration"
    )]
    Shape {
        /// The tensor.
        name: String,
        /// Shape in the file.
        found: Vec<usize>,
        /// Shape it must have.
        expected: Vec<usize>,
    },
    /// A tensor is stored in a precision that is not implemented.
    #[error("tensor `{name}` is stored as {found}, supported: {supported}")]
    Precision {
        /// The tensor.
        name: String,
        /// Precision in the file.
        found: String,
        /// What would be accepted.
        supported: &'static str,
    },
    /// A tensor holds a value that no weight can have.
    #[error(
        "tensor `{name}` holds {value} at element {element} of row {row}, every weight must be finite"
    )]
    NotFinite {
        /// The tensor.
        name: String,
        /// The row, counted from 0.
        row: usize,
        /// Index of the first such element in the row.
        element: usize,
        /// The value.
        value: f32,
    },
    /// A tensor is there that nothing reads, without which it would be a different model.
    #[error("tensor `{}` is there, {}", cut(name, LONGEST_NAME), instead(model, supported.as_deref()))]
    Unread {
        /// The tensor.
        name: String,
        /// What does not use it.
        model: String,
        /// What may be there in its place, if that can be said.
        supported: Option<String>,
    },
    /// The order of groups of a quantized matrix names one that is not there.
    #[error("tensor `{name}` puts element {element} in group {group}, must be in 0..{groups}")]
    NoSuchGroup {
        /// The tensor of the order.
        name: String,
        /// Index of the first such element of a row.
        element: usize,
        /// Its group.
        group: i32,
        /// Groups of a row.
        groups: usize,
    },
    /// A row was asked for that is not there.
    #[error("tensor `{name}` has {rows} rows, asked for row {row}")]
    NoSuchRow {
        /// The tensor.
        name: String,
        /// The row, counted from 0.
        row: usize,
        /// Rows there are.
        rows: usize,
    },
}

/// Why a tensor that `model` does not use is refused.
fn instead(model: &str, supported: Option<&str>) -> String {
    match supported {
        Some(supported) => format!("supported: {supported}"),
        None => {
            format!("but {model} does not use it; without it this would be a different model")
        }
    }
}

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not the JSON that was expected.
    #[error("{path} is not {expected}: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A JSON file is larger than any model's.
    #[error("{path} has {bytes} bytes, must have at most {limit}")]
    LargeJson {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The configuration is absurd or not implemented.
    #[error("{path}: {source}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ConfigError,
    },
    /// The path holds no model.
    #[error(
        "{path} holds no model: expected a directory with config.json and model.safetensors (or \
         model.safetensors.index.json), or a .gguf file"
    )]
    NoModel {
        /// The path.
        path: PathBuf,
    },
    /// A GGUF file of a vocabulary alone.
    #[error(
        "{path} holds no model: its header says at byte 8 that it has 0 tensors; a vocabulary-only file has a tokenizer, \
         but no weights"
    )]
    NoTensors {
        /// The file.
        path: PathBuf,
    },
    /// A header is damaged, or the file was cut short.
    #[error("{path} is not a whole {kind} file ({bytes} bytes): {reason}")]
    Header {
        /// The file.
        path: PathBuf,
        /// The format it should have.
        kind: &'static str,
        /// Its length.
        bytes: u64,
        /// What is wrong.
        reason: String,
    },
    /// The header of a GGUF file is damaged, or the file was cut short.
    #[error("{path} is not a whole GGUF file ({bytes} bytes): {source}")]
    Gguf {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// What is wrong.
        source: GgufError,
    },
    /// Parts of a model are not beside the one that was given.
    #[error("{path} is one of {count} parts; put beside it {}", listed(missing))]
    MissingParts {
        /// The part that was given.
        path: PathBuf,
        /// Parts of the model.
        count: u64,
        /// Those that are not there.
        missing: Vec<PathBuf>,
    },
    /// A file is not the part of a model that it should be.
    #[error("{path}: {source}")]
    Part {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: PartError,
    },
    /// `model.safetensors.index.json` says something that cannot be right.
    #[error("{path}: {reason}")]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A tensor is missing or not as it must be.
    #[error("{path}: {source}")]
    Tensor {
        /// The model.
        path: PathBuf,
        /// What is wrong.
        source: TensorError,
    },
    /// The files hold more layers than the configuration names.
    #[error(
        "tensor `{name}` belongs to layer {layer} (the first is 0), but `{key}` is {layers} in {path}"
    )]
    SurplusLayer {
        /// Where the number of layers stands.
        path: PathBuf,
        /// The key of the number of layers.
        key: String,
        /// The tensor.
        name: String,
        /// Its layer, counted from 0.
        layer: usize,
        /// Layers the configuration names.
        layers: usize,
    },
}

/// Names of files, the first few of them.
fn listed(files: &[PathBuf]) -> String {
    const MOST: usize = 4;
    let names = files.iter().take(MOST).map(|file| {
        let name = file.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    });
    let names: Vec<String> = names.collect();
    match files.len().checked_sub(MOST) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names.join(", ")),
    }
}
