//! Why a model was not loaded.

use tidegate_weights::{Architecture, Checkpoint, TensorError};

/// Why the reference cannot run a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The checkpoint holds the other kind of model.
    #[error("{architecture} is no {wanted}")]
    Kind {
        /// The name in the file.
        architecture: String,
        /// "decoder" or "encoder".
        wanted: &'static str,
    },
    /// A tensor is missing, has another shape, or holds a value that is not finite.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl LoadError {
    /// The name of a checkpoint's architecture.
    pub(crate) fn name(checkpoint: &Checkpoint) -> String {
        match checkpoint.architecture() {
            Architecture::Decoder(config) => config.architecture.clone(),
            Architecture::Encoder(config) => config.architecture.clone(),
        }
    }
}
