//! Why an adapter was not accepted.

use std::path::PathBuf;

use crate::error::{CheckpointError, TensorError};

/// What would work in the place of an adapter that needs more than is run.
const MERGED: &str = "an adapter of plain pairs of matrices, or the model that merge_and_unload of peft makes of it and its base";

/// Why a low-rank adapter could not be opened, or does not fit its base.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoraError {
    /// The path holds no adapter.
    #[error(
        "{path} holds no adapter: expected a directory with adapter_config.json and adapter_model.safetensors"
    )]
    NoAdapter {
        /// The path.
        path: PathBuf,
    },
    /// The adapter is a GGUF file.
    #[error(
        "{path}: adapters as GGUF files are not read; give the directory that it was converted from, with \
         adapter_config.json and adapter_model.safetensors"
    )]
    Gguf {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read or is damaged.
    #[error(transparent)]
    File(#[from] CheckpointError),
    /// `adapter_config.json` says something that is not run, or cannot be right.
    #[error("{path}: `{key}` is {value}, must be {limit}")]
    Key {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is run.
        limit: String,
    },
    /// A tensor belongs to no adapted matrix that is known.
    #[error("{path}: tensor `{name}` {reason}")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// One of the two matrices of a pair is not there.
    #[error("{path}: tensor `{name}` is there without its partner `{partner}`")]
    Partner {
        /// The file.
        path: PathBuf,
        /// The tensor that is there.
        name: String,
        /// The one that is not.
        partner: String,
    },
    /// A tensor does not fit its base, or its partner.
    #[error("{path}: tensor `{name}` has shape {found:?}, must be {expected:?} {why}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// What it must be.
        expected: [usize; 2],
        /// By what.
        why: String,
    },
    /// The rank of a pair is out of range.
    #[error("{path}: tensor `{name}` has rank {rank}, must be between 1 and {most}")]
    Rank {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its rank.
        rank: usize,
        /// The largest.
        most: usize,
    },
    /// The factor of a pair is no number that can be multiplied by.
    #[error(
        "{path}: the scale of `{module}` is {scale}, {alpha} by rank {rank}; must be a finite number of f32"
    )]
    Scale {
        /// The file.
        path: PathBuf,
        /// The adapted matrix.
        module: String,
        /// The scale.
        scale: f64,
        /// `lora_alpha`, or what `alpha_pattern` has.
        alpha: f64,
        /// The rank.
        rank: usize,
    },
    /// A tensor is stored in a precision that is not read, or holds what no weight can be.
    #[error("{path}: {source}")]
    Tensor {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: TensorError,
    },
    /// The file adapts nothing.
    #[error("{path} adapts nothing: it has no tensors")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl LoraError {
    /// The nearest thing that works.
    #[must_use]
    pub fn nearest(&self) -> &'static str {
        match self {
            LoraError::NoAdapter { .. }
            | LoraError::File(_)
            | LoraError::Partner { .. }
            | LoraError::Tensor { .. }
            | LoraError::Empty { .. } => {
                "the whole directory of the adapter, as save_pretrained of peft writes it"
            }
            LoraError::Gguf { .. } => "the directory that it was converted from",
            LoraError::Key { .. } | LoraError::Rank { .. } | LoraError::Scale { .. } => MERGED,
            LoraError::Unknown { .. } | LoraError::Shape { .. } => {
                "the base that the adapter was trained on, or the model that merge_and_unload of peft makes of both"
            }
        }
    }
}
