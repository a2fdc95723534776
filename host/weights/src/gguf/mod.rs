//! Models in the GGUF format, versions 2 and 3.
//!
//! Written from the format's definition (`ggml/docs/gguf.md`). Tensors come out as the transformers library orders them:
//! what llama.cpp's converter permutes or fuses is undone row by row.

mod config;
mod cursor;
mod error;
mod header;
mod keys;
mod lookup;
mod rope;
mod vocabulary;

use std::path::Path;

use config::Family;
use header::Header;
use keys::Keys;
use lookup::Lookup;
use tidegate_contract::GgufVocabulary;

use crate::checkpoint::{FileBytes, ReadFile, read};
use crate::config::ModelConfig;
use crate::error::{CheckpointError, TensorError};
use crate::names::DecoderTensor;
use crate::tensor::Tensor;

pub use error::GgufError;

/// The tokenizer in a GGUF file of any architecture, also in one that holds nothing else; nothing if it has none.
///
/// # Errors
/// The file cannot be read or is damaged, or a table is not what it must be.
pub fn gguf_vocabulary(
    path: &Path,
    files: &dyn ReadFile,
) -> Result<Option<GgufVocabulary>, CheckpointError> {
    let bytes = read(files, path)?.ok_or_else(|| CheckpointError::NoModel {
        path: path.to_owned(),
    })?;
    let header = header(path, (*bytes).as_ref())?;
    vocabulary::read(Keys(&header.keys)).map_err(|source| CheckpointError::Config {
        path: path.to_owned(),
        source,
    })
}

fn header(path: &Path, content: &[u8]) -> Result<Header, CheckpointError> {
    Header::parse(content).map_err(|source| CheckpointError::Gguf {
        path: path.to_owned(),
        bytes: content.len() as u64,
        source,
    })
}

/// A GGUF file whose header was read.
pub(crate) struct Gguf {
    bytes: FileBytes,
    header: Header,
    family: Family,
    vocabulary: Option<GgufVocabulary>,
}

impl Gguf {
    /// Reads the header of a whole file.
    pub(crate) fn open(
        path: &Path,
        bytes: FileBytes,
    ) -> Result<(Gguf, ModelConfig), CheckpointError> {
        let content: &[u8] = (*bytes).as_ref();
        let mut header = header(path, content)?;
        // The first of several parts may have none; what it lacks is said below.
        if header.tensors.is_empty() && !header.keys.contains_key("split.count") {
            return Err(CheckpointError::NoTensors {
                path: path.to_owned(),
            });
        }
        let wrong = |source| CheckpointError::Config {
            path: path.to_owned(),
            source,
        };
        let (family, config) = config::read(&header, content).map_err(wrong)?;
        let vocabulary = vocabulary::read(Keys(&header.keys)).map_err(wrong)?;
        // They have been read; a vocabulary is not to be held twice.
        header.keys.clear();
        let gguf = Gguf {
            bytes,
            header,
            family,
            vocabulary,
        };
        Ok((gguf, config))
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    pub(crate) fn vocabulary(&self) -> Option<&GgufVocabulary> {
        self.vocabulary.as_ref()
    }

    /// A tensor, its shape checked.
    pub(crate) fn tensor(
        &self,
        config: &ModelConfig,
        tensor: DecoderTensor,
        shape: &[usize],
    ) -> Result<Tensor<'_>, TensorError> {
        self.lookup(config).tensor(tensor, shape)
    }

    /// The first tensor of a layer past the last, with its layer.
    pub(crate) fn surplus(&self, config: &ModelConfig) -> Option<(usize, String)> {
        let (layer, name) = self.lookup(config).surplus()?;
        Some((layer, name.to_owned()))
    }

    fn lookup<'a, 'c>(&'a self, config: &'c ModelConfig) -> Lookup<'a, 'c> {
        Lookup {
            header: &self.header,
            bytes: self.bytes(),
            config,
            family: self.family,
        }
    }
}
