//! Weight-only quantization: any decoder or encoder to this project's int8 or int4, as safetensors with a `config.json`.
//!
//! A matrix `name` becomes `name`, I8 `[rows, width]` or U8 `[rows, width / 2]` (two nibbles a byte, the first element
//! low), and `name_scale`, F16 `[rows, width / 32]`. Norms, biases and rows that are no multiple of 32 stay floats, and so do an
//! encoder's positions and token types, which are added to words once while a model is loaded. Of an int4 model the embedding and
//! the head are int8: the loss by them is the largest, and of a small model they are a large part of the weights. Matrices that an
//! architecture has as one (queries, keys and values of ModernBERT) are written as one. `config.json` gets `"quantization_config": {"quant_method": "tidegate", "bits": 8,
//! "group_size": 32}`.

mod describe;
mod plan;
mod rows;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use describe::Described;
use plan::{Kind, Part, Planned};
use write::Pending;

use crate::checkpoint::Checkpoint;
use crate::config::{Architecture, Quantization};
use crate::error::TensorError;
use crate::format::Format;
use crate::safetensors::{INDEX, WHOLE};
use crate::tensor::Tensor;

/// Most bytes of data in one file.
const LARGEST_SHARD: u64 = 2 << 30;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertReport {
    /// The files, `config.json` last; of an encoder also those of sentence-transformers beside it.
    pub files: Vec<PathBuf>,
    /// Bytes of the tensors as they were stored.
    pub bytes_before: u64,
    /// Bytes of the tensors as they are stored now.
    pub bytes_after: u64,
    /// Matrices that were quantized.
    pub quantized: usize,
    /// Matrices that stayed floats because their rows are no multiple of 32, or because they say which experts a row goes
    /// through. An encoder's positions and token types are not among them.
    pub left_as_they_are: Vec<String>,
}

/// Why a model was not converted. Nothing that was begun is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// There is a model already.
    #[error("{path} is there already: convert into an empty or a new directory")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A format that is not written.
    #[error("cannot convert to {}, supported: int8, int4", .format.name())]
    Format {
        /// The format.
        format: Format,
    },
    /// No family of the transformers library has the model's properties together.
    #[error("{path}: no config.json describes a model like this {architecture}: {reason}")]
    Description {
        /// The model.
        path: PathBuf,
        /// Its architecture.
        architecture: String,
        /// Of the family that is nearest, and what it does not have.
        reason: String,
    },
    /// A tensor is missing or damaged.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl ConvertError {
    fn write(path: &Path, source: std::io::Error) -> Self {
        ConvertError::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// Writes `checkpoint` to the directory `out`, which is made if need be, with its matrices in `format` ([`Format::Int8`]
/// or [`Format::Int4`]). Rows that are stored so already are copied as they are. `progress` is told the bytes that are
/// written and those that there will be. Tokenizer files are the caller's business.
///
/// Every file has a temporary name until all are whole and on disk; `config.json` gets its name last, so that a
/// conversion that is cut off leaves no model.
///
/// # Errors
/// There is a model in `out`, the model cannot be converted, a tensor is damaged, or the disk fails.
pub fn convert(
    checkpoint: &Checkpoint,
    format: Format,
    out: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ConvertReport, ConvertError> {
    convert_in_shards(checkpoint, format, out, LARGEST_SHARD, progress)
}

pub(crate) fn convert_in_shards(
    checkpoint: &Checkpoint,
    format: Format,
    out: &Path,
    largest_shard: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ConvertReport, ConvertError> {
    let quantization = match format {
        Format::Int8 => (Quantization::Int8, 8),
        Format::Int4 => (Quantization::Int4, 4),
        format => return Err(ConvertError::Format { format }),
    };
    let path = checkpoint.path().to_owned();
    let undescribed = |architecture: &str, reason| ConvertError::Description {
        path: path.clone(),
        architecture: architecture.to_owned(),
        reason,
    };
    let original = checkpoint.config_object();
    let (described, planned) = match checkpoint.architecture() {
        Architecture::Decoder(config) => {
            let described = describe::describe(config, original, quantization);
            let described = described.map_err(|why| undescribed(&config.architecture, why))?;
            // What `config.json` will say of norms may be another thing than the source says.
            let norm_offset = if config.post_norms { 1.0 } else { 0.0 };
            let planned = plan::plan(checkpoint, config, norm_offset, format)?;
            (Described::alone(described), planned)
        }
        Architecture::Encoder(config) => {
            let beside = checkpoint.beside();
            let described = describe::describe_encoder(config, original, beside, quantization);
            let described = described.map_err(|why| undescribed(&config.architecture, why))?;
            (described, plan::plan_encoder(checkpoint, config, format)?)
        }
    };
    let shards = plan::shards(&planned, largest_shard);
    let names: Vec<String> = match shards.len() {
        1 => vec![WHOLE.to_owned()],
        count => (1..=count)
            .map(|number| format!("model-{number:05}-of-{count:05}.safetensors"))
            .collect(),
    };
    refuse_to_overwrite(out, &names, &described)?;
    std::fs::create_dir_all(out).map_err(|source| ConvertError::write(out, source))?;
    let total = planned.iter().map(Planned::bytes).sum();
    let mut done = 0;
    let mut pending = Vec::new();
    let mut places = BTreeMap::new();
    for (shard, name) in shards.iter().zip(&names) {
        places.extend(
            shard
                .iter()
                .map(|tensor| (tensor.name.clone(), name.clone())),
        );
        pending.push(write_shard(checkpoint, out, name, shard, &mut |bytes| {
            done += bytes;
            progress(done, total);
        })?);
    }
    if shards.len() > 1 {
        let index = json!({"metadata": {"total_size": total}, "weight_map": places});
        pending.push(write::small(out, INDEX, &index)?);
    }
    for (name, content) in &described.beside {
        let path = out.join(name);
        let directory = path.parent().unwrap_or(out);
        std::fs::create_dir_all(directory)
            .map_err(|source| ConvertError::write(directory, source))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        pending.push(write::small(directory, &name, content)?);
    }
    pending.push(write::small(out, "config.json", &described.config.into())?);
    let files = keep(pending)?;
    // Each that a file was put into, and the one itself last, which may have got directories.
    let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    for directory in directories.into_iter().filter(|found| *found != out) {
        sync_directory(directory)?;
    }
    sync_directory(out)?;
    report(checkpoint, &planned, files)
}

/// Gives every file its name, or none.
fn keep(pending: Vec<Pending>) -> Result<Vec<PathBuf>, ConvertError> {
    let mut files = Vec::with_capacity(pending.len());
    for file in pending {
        match file.keep() {
            Ok(path) => files.push(path),
            Err(error) => {
                for path in files {
                    // What is told is why the one failed, not that others stay.
                    let _ = std::fs::remove_file(path);
                }
                return Err(error);
            }
        }
    }
    Ok(files)
}

fn refuse_to_overwrite(
    out: &Path,
    shards: &[String],
    described: &Described,
) -> Result<(), ConvertError> {
    let taken = ["config.json", WHOLE, INDEX]
        .into_iter()
        .chain(described.beside.iter().map(|(name, _)| *name))
        .chain(shards.iter().map(String::as_str))
        .map(|name| out.join(name))
        .find(|path| path.exists());
    match taken {
        Some(path) => Err(ConvertError::Exists { path }),
        None => Ok(()),
    }
}

fn write_shard(
    checkpoint: &Checkpoint,
    out: &Path,
    name: &str,
    shard: &[Planned],
    wrote: &mut dyn FnMut(u64),
) -> Result<Pending, ConvertError> {
    let (pending, mut writer) = Pending::begin(out, name)?;
    let path = out.join(name);
    let mut put = |bytes: &[u8]| {
        writer
            .write_all(bytes)
            .map_err(|source| ConvertError::write(&path, source))
    };
    put(&write::header(shard))?;
    for planned in shard {
        let part = |part: &Part| -> Result<Tensor<'_>, TensorError> {
            let tensor = part.of(checkpoint)?;
            Ok(match planned.kind {
                // What is handed on so already, and may have lost nothing by that, is not rounded again.
                Kind::Quantized(format) if format == tensor.format() => tensor,
                _ => tensor.exact(),
            })
        };
        let parts: Vec<Tensor<'_>> = planned.parts.iter().map(part).collect::<Result<_, _>>()?;
        rows::convert(&parts, planned, &mut |bytes| {
            wrote(bytes.len() as u64);
            put(bytes)
        })?;
    }
    pending.finish(writer)?;
    Ok(pending)
}

/// Brings the names to the disk, where the system can.
fn sync_directory(out: &Path) -> Result<(), ConvertError> {
    if cfg!(unix) {
        let directory = std::fs::File::open(out).and_then(|directory| directory.sync_all());
        directory.map_err(|source| ConvertError::write(out, source))?;
    }
    Ok(())
}

fn report(
    checkpoint: &Checkpoint,
    planned: &[Planned],
    files: Vec<PathBuf>,
) -> Result<ConvertReport, ConvertError> {
    let mut bytes_before = 0;
    for tensor in checkpoint.all_tensors() {
        bytes_before += tensor?.stored_bytes();
    }
    let floats = planned
        .iter()
        .filter(|planned| matches!(planned.kind, Kind::Floats { .. }));
    Ok(ConvertReport {
        files,
        bytes_before,
        bytes_after: planned.iter().map(Planned::bytes).sum(),
        quantized: planned
            .iter()
            .filter(|planned| matches!(planned.kind, Kind::Quantized(_)))
            .count(),
        left_as_they_are: floats
            .filter(|planned| planned.shape.len() == 2 && !planned.parts.iter().all(Part::is_added))
            .map(|planned| planned.name.clone())
            .collect(),
    })
}
