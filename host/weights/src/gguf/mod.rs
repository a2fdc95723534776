//! Models in the GGUF format, versions 2 and 3.
//!
//! Written from the format's definition (`ggml/docs/gguf.md`). Tensors come out as the transformers library orders them:
//! what llama.cpp's converter permutes or fuses is undone row by row.

mod config;
mod cursor;
mod encoder;
mod error;
mod experts;
mod header;
mod keys;
mod kinds;
mod lookup;
mod nearest;
mod parts;
mod rope;
mod summary;
mod unread;
mod vocabulary;

use std::path::Path;

use config::Family;
use header::Header;
use keys::Keys;
use lookup::Lookup;
use parts::{Part, Parts, Split};
use tidegate_contract::GgufVocabulary;

use crate::checkpoint::{ReadFile, read};
use crate::config::{Architecture, EncoderConfig, ModelConfig};
use crate::error::{CheckpointError, TensorError};
use crate::names::{DecoderTensor, EncoderTensor};
use crate::reencoding::Losses;
use crate::tensor::Tensor;

pub(crate) use config::architectures;
pub use error::{GgufError, PartError};
pub use nearest::{gguf_nearest, nearest_architecture};
pub use summary::{GgufFormat, GgufPart, GgufSummary, GgufTokenizer, gguf_summary};

/// The tokenizer in a GGUF file of any architecture, also in one that holds nothing else; nothing if it has none. Of a model in
/// several parts the first has it, whichever is given.
///
/// # Errors
/// The file cannot be read or is damaged, a table is not what it must be, or the first part is not there.
pub fn gguf_vocabulary(
    path: &Path,
    files: &dyn ReadFile,
) -> Result<Option<GgufVocabulary>, CheckpointError> {
    let there = |path: &Path| {
        read(files, path)?.ok_or_else(|| CheckpointError::NoModel {
            path: path.to_owned(),
        })
    };
    let wrong = |source| CheckpointError::Config {
        path: path.to_owned(),
        source,
    };
    let mut header = parts::parse(path, &there(path)?)?;
    if let Some(split) = Split::of(&header.keys).map_err(wrong)?
        && split.number > 0
    {
        let paths = parts::paths(path, split).map_err(|source| CheckpointError::Part {
            path: path.to_owned(),
            source,
        })?;
        for first in paths.iter().take(1) {
            header = parts::parse(first, &there(first)?)?;
        }
    }
    vocabulary::read(Keys(&header.keys)).map_err(wrong)
}

/// A GGUF file whose header was read, or all parts of one.
pub(crate) struct Gguf {
    parts: Parts,
    header: Header,
    family: Family,
    vocabulary: Option<GgufVocabulary>,
}

impl Gguf {
    /// Reads the header of a file, and of the other parts if it is one of several.
    pub(crate) fn open(
        path: &Path,
        files: &dyn ReadFile,
    ) -> Result<(Gguf, Architecture), CheckpointError> {
        let (mut header, parts) = parts::open(path, files)?;
        if header.tensors.is_empty() {
            return Err(CheckpointError::NoTensors {
                path: path.to_owned(),
            });
        }
        let wrong = |source| CheckpointError::Config {
            path: parts.first().to_owned(),
            source,
        };
        let (family, config) = config::read(&header, &parts).map_err(wrong)?;
        let vocabulary = vocabulary::read(Keys(&header.keys)).map_err(wrong)?;
        // They have been read; a vocabulary is not to be held twice.
        header.keys.clear();
        let gguf = Gguf {
            parts,
            header,
            family,
            vocabulary,
        };
        Ok((gguf, config))
    }

    /// Its files whole, in order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        let parts = self.parts.0.iter();
        parts.map(|Part { path, bytes }| (path.as_path(), (**bytes).as_ref()))
    }

    pub(crate) fn vocabulary(&self) -> Option<&GgufVocabulary> {
        self.vocabulary.as_ref()
    }

    /// A tensor, its shape checked. What its rows lose is counted in `losses`.
    pub(crate) fn tensor<'a>(
        &'a self,
        config: &ModelConfig,
        tensor: DecoderTensor,
        shape: &[usize],
        losses: &'a Losses,
    ) -> Result<Tensor<'a>, TensorError> {
        self.lookup(Some(losses)).tensor(config, tensor, shape)
    }

    /// An encoder's tensor, its shape checked. What its rows lose is counted in `losses`.
    pub(crate) fn encoder_tensor<'a>(
        &'a self,
        config: &EncoderConfig,
        tensor: EncoderTensor,
        shape: &[usize],
        losses: &'a Losses,
    ) -> Result<Tensor<'a>, TensorError> {
        self.lookup(Some(losses))
            .encoder_tensor(config, tensor, shape)
    }

    /// The first tensor of a layer past the last of so many, with its layer.
    pub(crate) fn surplus(&self, layers: usize) -> Option<(usize, String)> {
        let (layer, name) = self.lookup(None).surplus(layers)?;
        Some((layer, name.to_owned()))
    }

    fn lookup<'a>(&'a self, losses: Option<&'a Losses>) -> Lookup<'a> {
        Lookup {
            header: &self.header,
            parts: &self.parts,
            losses,
            family: self.family,
        }
    }
}
