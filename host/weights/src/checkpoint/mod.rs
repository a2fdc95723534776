//! A model on disk, opened.

mod files;
mod open;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tidegate_contract::GgufVocabulary;

use crate::config::{Architecture, Beside, EncoderConfig, ModelConfig, encoder_family};
use crate::error::{CheckpointError, TensorError};
use crate::format::Format;
use crate::gguf::Gguf;
use crate::lora::Lora;
use crate::names::{DecoderTensor, EncoderTensor, LayerTensor};
use crate::packed::Stored;
use crate::random::RandomRows;
use crate::reencoding::{Losses, Reencoded};
use crate::safetensors::Weights;
use crate::tensor::{Layout, Order, Tensor};

pub use files::{FileBytes, ReadFile, ReadWhole};

pub(crate) use files::{json, read};

/// Bytes that are hashed between two words about it.
const TOLD: usize = 4 << 20;

/// A model on disk, opened: what it is, and its tensors.
///
/// Files are taken to stay as they are while it lives.
pub struct Checkpoint {
    path: PathBuf,
    architecture: Architecture,
    source: Source,
    /// What matrices are encoded to when they are read, if not what they are stored in.
    encoding: Option<Format>,
    /// Whether what no kernel reads is handed on in f32, with nothing lost.
    exact: bool,
    /// What was lost so far where it is not.
    losses: Losses,
    /// Low-rank adapters of it, in the order of their numbers.
    loras: Vec<Lora>,
}

/// Where the tensors come from.
enum Source {
    Safetensors {
        weights: Weights,
        /// The bytes of `config.json`.
        config: FileBytes,
        /// What stands beside it.
        beside: Box<Beside>,
    },
    Gguf(Box<Gguf>),
    Random {
        format: Format,
        seed: u64,
    },
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("path", &self.path)
            .field("architecture", &self.architecture)
            .finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// A decoder with made-up weights: rows are made when they are read, the same from the same seed.
    ///
    /// Matrices are in `format` and their elements have the deviation `1 / sqrt(width)` about 0; norms are about 1, and
    /// biases small. What the format cannot store (norms, biases, rows that are no multiple of its block) is f32; of an
    /// int4 model the embedding and the head are int8, as `convert` makes them.
    #[must_use]
    pub fn random(config: ModelConfig, format: Format, seed: u64) -> Checkpoint {
        Checkpoint {
            path: PathBuf::from("random"),
            architecture: Architecture::Decoder(config),
            source: Source::Random { format, seed },
            encoding: None,
            exact: false,
            losses: Losses::default(),
            loras: Vec::new(),
        }
    }

    /// The same model with its matrices in `format`, as [`convert`](crate::convert) would write them: encoded when they
    /// are read, each time anew, with nothing written. What the format cannot store stays as it is stored.
    ///
    /// `None` where rows cannot be encoded to the format ([`Format::Q4K`], [`Format::Q6K`]).
    #[must_use]
    pub fn encoded(self, format: Format) -> Option<Checkpoint> {
        format.is_encoded().then(|| Checkpoint {
            encoding: Some(format),
            ..self
        })
    }

    /// The same model with nothing lost: tensors in formats that no kernel reads are handed on in f32 instead of int8. That
    /// takes four times the memory.
    #[must_use]
    pub fn exact(self) -> Checkpoint {
        Checkpoint {
            exact: true,
            ..self
        }
    }

    /// The same decoder with low-rank adapters, which were [opened](Lora::open) for it: a step names one by its place here, counted
    /// from 1.
    #[must_use]
    pub fn adapted(self, loras: Vec<Lora>) -> Checkpoint {
        Checkpoint { loras, ..self }
    }

    /// Its low-rank adapters.
    #[must_use]
    pub fn loras(&self) -> &[Lora] {
        &self.loras
    }

    /// Every tensor, in a fixed order.
    ///
    /// # Errors
    /// As [`Checkpoint::tensor`], at the first of which that is so.
    pub fn all_tensors(&self) -> impl Iterator<Item = Result<Tensor<'_>, TensorError>> {
        let decoder = self.decoder().into_iter().flat_map(ModelConfig::tensors);
        let encoder = self.encoder().into_iter().flat_map(EncoderConfig::tensors);
        let decoder = decoder.map(|tensor| self.tensor(tensor));
        decoder.chain(encoder.map(|tensor| self.encoder_tensor(tensor)))
    }

    /// The tensors that are handed on in another format than they are stored in, by that: how many, their
    /// sizes, and what the rows lost that were read so far.
    ///
    /// # Errors
    /// As [`Checkpoint::tensor`].
    pub fn reencoded(&self) -> Result<Vec<Reencoded>, TensorError> {
        let mut all: BTreeMap<(Stored, Format), Reencoded> = BTreeMap::new();
        for tensor in self.all_tensors() {
            let tensor = tensor?;
            let stored = tensor.stored();
            if stored.is_kept() {
                continue;
            }
            let held = tensor.format();
            let of = all.entry((stored, held)).or_insert_with(|| Reencoded {
                stored,
                held,
                tensors: 0,
                stored_bytes: 0,
                handed_on_bytes: 0,
                loss: self.losses.of((stored, held)),
            });
            of.tensors += 1;
            of.stored_bytes += tensor.stored_bytes();
            of.handed_on_bytes += tensor.bytes();
        }
        Ok(all.into_values().collect())
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    #[must_use]
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The configuration, if it is a decoder.
    #[must_use]
    pub fn decoder(&self) -> Option<&ModelConfig> {
        match &self.architecture {
            Architecture::Decoder(config) => Some(config),
            Architecture::Encoder(_) => None,
        }
    }

    /// The configuration, if it is an encoder.
    #[must_use]
    pub fn encoder(&self) -> Option<&EncoderConfig> {
        match &self.architecture {
            Architecture::Encoder(config) => Some(config),
            Architecture::Decoder(_) => None,
        }
    }

    /// A decoder's tensor, its shape checked against the configuration.
    ///
    /// # Errors
    /// The model has no such tensor, or the file has it not, or in another shape or precision.
    pub fn tensor(&self, tensor: DecoderTensor) -> Result<Tensor<'_>, TensorError> {
        let absent = || TensorError::Absent {
            tensor: format!("{tensor:?}"),
        };
        let config = self.decoder().ok_or_else(absent)?;
        let shape = config.shape(tensor).ok_or_else(absent)?;
        let stored = match &self.source {
            Source::Safetensors { weights, .. } => {
                weights.decoder_tensor(config, tensor, &shape, &self.losses)
            }
            Source::Gguf(gguf) => gguf.tensor(config, tensor, &shape, &self.losses),
            Source::Random { format, seed } => Ok(random(config, tensor, &shape, *format, *seed)),
        }?;
        // Encoding goes out from what is stored by itself.
        let stored = match (self.exact, self.encoding) {
            (true, None) => stored.exact(),
            _ => stored,
        };
        Ok(match self.encoding {
            Some(format) if can_store(format, tensor, &shape) => {
                stored.encoded(format_of(format, tensor, &shape))
            }
            // Whatever tool has quantized it.
            _ if chooses_experts(tensor) && !stored.format().is_float() => {
                stored.encoded(Format::F32)
            }
            _ => stored,
        })
    }

    /// The same tensor with nothing lost: f32 where it would be handed on in another format than it is stored in.
    pub(crate) fn exact_tensor(&self, tensor: DecoderTensor) -> Result<Tensor<'_>, TensorError> {
        Ok(self.tensor(tensor)?.exact())
    }

    /// An encoder's tensor, its shape checked against the configuration.
    ///
    /// # Errors
    /// As [`Checkpoint::tensor`].
    pub fn encoder_tensor(&self, tensor: EncoderTensor) -> Result<Tensor<'_>, TensorError> {
        let absent = || TensorError::Absent {
            tensor: format!("{tensor:?}"),
        };
        let config = self.encoder().ok_or_else(absent)?;
        let shape = config.shape(tensor).ok_or_else(absent)?;
        let stored = match &self.source {
            Source::Safetensors { weights, .. } => {
                weights.encoder_tensor(config, tensor, &shape, &self.losses)
            }
            Source::Gguf(gguf) => gguf.encoder_tensor(config, tensor, &shape, &self.losses),
            Source::Random { .. } => Err(absent()),
        }?;
        Ok(match self.encoding {
            Some(format) => match encoder_format_of(format, tensor, &shape) {
                Some(format) => stored.encoded(format),
                None => stored.exact(),
            },
            None if self.exact => stored.exact(),
            None => stored,
        })
    }

    /// The same tensor with nothing lost.
    pub(crate) fn exact_encoder_tensor(
        &self,
        tensor: EncoderTensor,
    ) -> Result<Tensor<'_>, TensorError> {
        Ok(self.encoder_tensor(tensor)?.exact())
    }

    /// What `config.json` says, if there is one.
    pub(crate) fn config_object(&self) -> Option<Map<String, Value>> {
        match &self.source {
            Source::Safetensors { config, .. } => serde_json::from_slice((**config).as_ref()).ok(),
            Source::Gguf(_) | Source::Random { .. } => None,
        }
    }

    /// What stands beside `config.json`, if there is one.
    pub(crate) fn beside(&self) -> Option<&Beside> {
        match &self.source {
            Source::Safetensors { beside, .. } => Some(beside),
            Source::Gguf(_) | Source::Random { .. } => None,
        }
    }

    /// The tokenizer in the file, if it is a GGUF file that has one.
    #[must_use]
    pub fn gguf_vocabulary(&self) -> Option<GgufVocabulary> {
        match &self.source {
            Source::Gguf(gguf) => gguf.vocabulary().cloned(),
            Source::Safetensors { .. } | Source::Random { .. } => None,
        }
    }

    /// Checks that every tensor the configuration calls for is there, in its shape, and that none is left over without which it
    /// would be a different model.
    ///
    /// In a GGUF file that is any tensor but those for images and sounds, the head where vectors are made, and frequencies that the
    /// keys say again. In safetensors it is what lies in a layer, or in or below the module of a tensor that is read, but for tables
    /// of rotary positions, scales and zero points of activations, and biases and zero points of weights of at most 16 MiB that are
    /// all zeros.
    ///
    /// # Errors
    /// The first tensor that is not there, that belongs to a layer past the last, or that nothing reads.
    pub fn check(&self) -> Result<(), CheckpointError> {
        let wrong = |source| CheckpointError::Tensor {
            path: self.path.clone(),
            source,
        };
        let mut read = BTreeSet::new();
        for tensor in self.all_tensors() {
            read.extend(tensor.map_err(wrong)?.names());
        }
        if let Some(surplus) = self.surplus() {
            return Err(surplus);
        }
        let unread = match &self.source {
            Source::Safetensors { weights, .. } => weights.unread(&self.architecture, &read),
            Source::Gguf(gguf) => gguf.unread(&self.architecture, &read),
            Source::Random { .. } => None,
        };
        unread.map_or(Ok(()), |unread| Err(wrong(unread)))
    }

    /// The first tensor of a layer past the last.
    fn surplus(&self) -> Option<CheckpointError> {
        let layers = match &self.architecture {
            Architecture::Decoder(config) => config.layers.len(),
            Architecture::Encoder(config) => config.layers.len(),
        };
        let (path, key, (layer, name)) = match (&self.source, &self.architecture) {
            (Source::Safetensors { weights, .. }, architecture) => {
                let (layer, name) = weights.surplus(architecture)?;
                let key = match architecture {
                    Architecture::Decoder(_) => "num_hidden_layers",
                    Architecture::Encoder(config) => {
                        encoder_family(&config.architecture).layers_key()
                    }
                };
                (
                    self.path.join("config.json"),
                    key.to_owned(),
                    (layer, name.to_owned()),
                )
            }
            (Source::Gguf(gguf), architecture) => {
                let key = format!("{}.block_count", architecture.name());
                (self.path.clone(), key, gguf.surplus(layers)?)
            }
            (Source::Random { .. }, _) => return None,
        };
        Some(CheckpointError::SurplusLayer {
            path,
            key,
            name,
            layer,
            layers,
        })
    }

    /// Bytes of its configuration and its weights.
    fn file_bytes(&self) -> u64 {
        let bytes = match &self.source {
            Source::Safetensors {
                weights, config, ..
            } => {
                let files = weights.store.files().map(|(_, bytes)| bytes.len());
                (**config).as_ref().len() + files.sum::<usize>()
            }
            Source::Gguf(gguf) => gguf.files().map(|(_, bytes)| bytes.len()).sum(),
            Source::Random { .. } => 0,
        };
        bytes as u64
    }

    /// SHA-256 over every file of the model (its configuration and its weights, with their names and lengths) and over the
    /// format it is [encoded](Checkpoint::encoded) to, as `sha256:` and lower-case hexadecimal digits. Reads all of it.
    ///
    /// # Errors
    /// None today; files that are read piece by piece could fail.
    pub fn digest(&self) -> Result<String, CheckpointError> {
        self.digest_told(&mut |_, _| {})
    }

    /// The same. `told` is how many bytes are hashed, and how many there are.
    ///
    /// # Errors
    /// As [`Checkpoint::digest`].
    pub fn digest_told(&self, told: &mut dyn FnMut(u64, u64)) -> Result<String, CheckpointError> {
        let of = self.file_bytes();
        let mut done = 0;
        let mut hash = Sha256::new();
        let mut add = |name: &Path, bytes: &[u8]| {
            let name = name
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
            hash.update((bytes.len() as u64).to_le_bytes());
            for piece in bytes.chunks(TOLD) {
                hash.update(piece);
                done += piece.len() as u64;
                told(done.min(of), of);
            }
        };
        if let Some(format) = self.encoding {
            add(Path::new("encoding"), format.name().as_bytes());
        }
        match &self.source {
            Source::Safetensors {
                weights, config, ..
            } => {
                add(Path::new("config.json"), (**config).as_ref());
                weights
                    .store
                    .files()
                    .for_each(|(path, bytes)| add(path, bytes));
            }
            Source::Gguf(gguf) => gguf.files().for_each(|(path, bytes)| add(path, bytes)),
            Source::Random { format, seed } => {
                let what = format!("{:?} {format:?} {seed}", self.architecture);
                add(Path::new("random"), what.as_bytes());
            }
        }
        let digits: Vec<String> = hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(format!("sha256:{}", digits.concat()))
    }
}

/// The format a tensor gets where a whole model is asked for in `format`: what the format cannot store stays f32, and of
/// an int4 model the embedding and the head are int8, because the loss by them is the largest.
pub(crate) fn format_of(format: Format, tensor: DecoderTensor, shape: &[usize]) -> Format {
    let format = match tensor {
        DecoderTensor::Embedding | DecoderTensor::Head if format == Format::Int4 => Format::Int8,
        _ => format,
    };
    if can_store(format, tensor, shape) {
        format
    } else {
        Format::F32
    }
}

/// The format a tensor of an encoder gets where a whole model is asked for in `format`: nothing where it stays as it is
/// stored. Tables that are added to words stay, since that is done once while a model is loaded; the words and the head of an
/// int4 model are int8, as those of decoders.
pub(crate) fn encoder_format_of(
    format: Format,
    tensor: EncoderTensor,
    shape: &[usize],
) -> Option<Format> {
    let format = match tensor {
        EncoderTensor::Positions | EncoderTensor::Types => return None,
        EncoderTensor::Words | EncoderTensor::HeadDense | EncoderTensor::HeadOutput
            if format == Format::Int4 =>
        {
            Format::Int8
        }
        _ => format,
    };
    matches!(*shape, [_, width] if width.is_multiple_of(format.block())).then_some(format)
}

/// Whether a tensor of this shape is a matrix whose rows the format can store. What says which experts a row goes through is
/// not rounded: it would go through others.
fn can_store(format: Format, tensor: DecoderTensor, shape: &[usize]) -> bool {
    matches!(*shape, [_, width] if width.is_multiple_of(format.block()))
        && (format.is_float() || !chooses_experts(tensor))
}

fn chooses_experts(tensor: DecoderTensor) -> bool {
    matches!(
        tensor,
        DecoderTensor::Layer(_, LayerTensor::Router | LayerTensor::SharedRouter)
    )
}

fn random(
    config: &ModelConfig,
    tensor: DecoderTensor,
    shape: &[usize],
    format: Format,
    seed: u64,
) -> Tensor<'static> {
    let (rows, width) = match *shape {
        [rows, width] => (rows, width),
        _ => (1, shape.iter().product()),
    };
    let is_bias = matches!(
        tensor,
        DecoderTensor::Layer(
            _,
            LayerTensor::QueryBias
                | LayerTensor::KeyBias
                | LayerTensor::ValueBias
                | LayerTensor::OutputBias
                | LayerTensor::Sinks
                | LayerTensor::RouterBias
                | LayerTensor::ExpertGateBias(_)
                | LayerTensor::ExpertUpBias(_)
                | LayerTensor::ExpertDownBias(_)
        )
    );
    let (mean, deviation) = match shape {
        [_, width] => (0.0, 1.0 / (*width as f32).sqrt()),
        _ if is_bias => (0.0, 0.1),
        _ => (1.0 - config.norm_offset, 0.1),
    };
    Tensor {
        name: format!("{tensor:?}"),
        rows,
        width,
        format: format_of(format, tensor, shape),
        layout: Layout::Random(RandomRows {
            seed,
            tensor: number_of(config, tensor),
            mean,
            deviation,
        }),
        order: Order::STRAIGHT,
    }
}

/// What tells a made-up tensor from the others of its model. Experts are many: they are not looked for.
fn number_of(config: &ModelConfig, tensor: DecoderTensor) -> u64 {
    let of_expert = |layer: usize, expert: usize, which: u64| {
        (1 << 48) | ((layer as u64) << 24) | ((expert as u64) << 2) | which
    };
    let bias_of = |layer, expert, which| (1 << 49) | of_expert(layer, expert, which);
    match tensor {
        DecoderTensor::Layer(layer, LayerTensor::ExpertGate(expert)) => of_expert(layer, expert, 0),
        DecoderTensor::Layer(layer, LayerTensor::ExpertUp(expert)) => of_expert(layer, expert, 1),
        DecoderTensor::Layer(layer, LayerTensor::ExpertDown(expert)) => of_expert(layer, expert, 2),
        DecoderTensor::Layer(layer, LayerTensor::ExpertGateBias(of)) => bias_of(layer, of, 0),
        DecoderTensor::Layer(layer, LayerTensor::ExpertUpBias(of)) => bias_of(layer, of, 1),
        DecoderTensor::Layer(layer, LayerTensor::ExpertDownBias(of)) => bias_of(layer, of, 2),
        tensor => {
            let number = config.tensors().position(|other| other == tensor);
            number.unwrap_or_default() as u64
        }
    }
}
