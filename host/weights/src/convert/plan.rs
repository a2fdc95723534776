//! Which tensors a converted model has, and in which of its files each lies.

use safetensors::tensor::Dtype;

use crate::checkpoint::{Checkpoint, encoder_format_of, format_of};
use crate::config::{EncoderConfig, ModelConfig, encoder_family};
use crate::error::TensorError;
use crate::format::{Format, GROUP};
use crate::names::{
    DecoderTensor, EncoderTensor, LayerTensor, decoder_name, encoder_name, of_decoder,
};
use crate::safetensors::SCALE_SUFFIX;
use crate::tensor::Tensor;

/// A tensor of a model that is converted.
pub(super) struct Planned {
    /// What its rows are, one after another: one tensor, or those that the architecture has as one.
    pub(super) parts: Vec<Part>,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
}

/// A tensor by what it is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Decoder(DecoderTensor),
    Encoder(EncoderTensor),
}

impl Part {
    /// The tensor itself.
    pub(super) fn of<'a>(&self, checkpoint: &'a Checkpoint) -> Result<Tensor<'a>, TensorError> {
        match self {
            Part::Decoder(tensor) => checkpoint.tensor(*tensor),
            Part::Encoder(tensor) => checkpoint.encoder_tensor(*tensor),
        }
    }

    /// Whether it is a table that is added to words.
    pub(super) fn is_added(&self) -> bool {
        matches!(
            self,
            Part::Encoder(EncoderTensor::Positions | EncoderTensor::Types)
        )
    }
}

/// What is written of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its elements in a float format. Of Gemma's norms out of a GGUF file, which have their 1 added, less that 1.
    Floats { format: Format, less_one: bool },
    /// Its numbers in this format, then their scales as a tensor of their own.
    Quantized(Format),
}

/// A tensor as it is written.
pub(super) struct Written {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
}

impl Written {
    pub(super) fn bytes(&self) -> u64 {
        let elements: u64 = self.shape.iter().map(|n| *n as u64).product();
        elements * (self.dtype.bitsize() / 8) as u64
    }
}

impl Planned {
    /// What is written, in this order.
    pub(super) fn written(&self) -> Vec<Written> {
        let per_row = |by: usize| {
            let mut shape = self.shape.clone();
            if let Some(width) = shape.last_mut() {
                *width /= by;
            }
            shape
        };
        let one = |dtype: Dtype, shape: Vec<usize>| Written {
            name: self.name.clone(),
            dtype,
            shape,
        };
        let values = match self.kind {
            Kind::Floats { format, .. } => {
                let dtype = match format {
                    Format::F16 => Dtype::F16,
                    Format::Bf16 => Dtype::BF16,
                    _ => Dtype::F32,
                };
                return vec![one(dtype, per_row(1))];
            }
            Kind::Quantized(Format::Int4) => one(Dtype::U8, per_row(2)),
            Kind::Quantized(_) => one(Dtype::I8, per_row(1)),
        };
        let scales = Written {
            name: format!("{}{SCALE_SUFFIX}", self.name),
            dtype: Dtype::F16,
            shape: per_row(GROUP),
        };
        vec![values, scales]
    }

    /// Bytes that are written.
    pub(super) fn bytes(&self) -> u64 {
        self.written().iter().map(Written::bytes).sum()
    }
}

/// Every tensor, in the order it is written: wide elements first, so that each begins at a multiple of its size.
pub(super) fn plan(
    checkpoint: &Checkpoint,
    config: &ModelConfig,
    norm_offset: f32,
    format: Format,
) -> Result<Vec<Planned>, TensorError> {
    let mut all = Vec::new();
    for tensor in config.tensors() {
        let Some(shape) = config.shape(tensor) else {
            continue;
        };
        let stored = checkpoint.exact_tensor(tensor)?;
        let target = format_of(format, tensor, &shape);
        let kind = if target.is_float() {
            let less_one = is_norm(tensor) && norm_offset != config.norm_offset;
            let format = if less_one || !stored.format().is_float() {
                Format::F32
            } else {
                stored.format()
            };
            Kind::Floats { format, less_one }
        } else {
            Kind::Quantized(target)
        };
        all.push(Planned {
            parts: vec![Part::Decoder(tensor)],
            name: decoder_name(config, "model.", tensor),
            kind,
            shape,
        });
    }
    wide_first(&mut all);
    Ok(all)
}

fn wide_first(all: &mut [Planned]) {
    all.sort_by_key(|planned| {
        std::cmp::Reverse(match planned.kind {
            Kind::Floats { format, .. } => format.block_bytes(),
            Kind::Quantized(_) => 0,
        })
    });
}

/// The same of an encoder. Tensors of one name are one tensor, in the order in which the architecture has them.
pub(super) fn plan_encoder(
    checkpoint: &Checkpoint,
    config: &EncoderConfig,
    format: Format,
) -> Result<Vec<Planned>, TensorError> {
    let mut all: Vec<Planned> = Vec::new();
    for tensor in config.tensors() {
        let Some(shape) = config.shape(tensor) else {
            continue;
        };
        let stored = checkpoint.exact_encoder_tensor(tensor)?;
        let kind = match encoder_format_of(format, tensor, &shape) {
            Some(format) => Kind::Quantized(format),
            None => Kind::Floats {
                format: match stored.format() {
                    format if format.is_float() => format,
                    _ => Format::F32,
                },
                less_one: false,
            },
        };
        let name = match &config.decoder {
            None => {
                let family = encoder_family(&config.architecture);
                encoder_name(family, "", config, tensor)
            }
            Some(decoder) => {
                let tensor = of_decoder(tensor).ok_or_else(|| TensorError::Absent {
                    tensor: format!("{tensor:?}"),
                })?;
                decoder_name(decoder, "model.", tensor)
            }
        };
        let part = Part::Encoder(tensor);
        let Some(fused) = all.iter_mut().find(|planned| planned.name == name) else {
            all.push(Planned {
                parts: vec![part],
                name,
                kind,
                shape,
            });
            continue;
        };
        fused.parts.push(part);
        if let (Some(rows), Some(more)) = (fused.shape.first_mut(), shape.first()) {
            *rows += more;
        }
        if fused.kind != kind {
            // Floats of several formats, which f32 holds all of.
            fused.kind = Kind::Floats {
                format: Format::F32,
                less_one: false,
            };
        }
    }
    wide_first(&mut all);
    Ok(all)
}

/// Cuts the tensors into files of at most `most` bytes of data each, one at least in each.
pub(super) fn shards(planned: &[Planned], most: u64) -> Vec<&[Planned]> {
    let mut shards = Vec::new();
    let (mut first, mut bytes) = (0, 0u64);
    for (index, tensor) in planned.iter().enumerate() {
        if index > first && bytes + tensor.bytes() > most {
            shards.push(&planned[first..index]);
            (first, bytes) = (index, 0);
        }
        bytes += tensor.bytes();
    }
    shards.push(&planned[first..]);
    shards
}

fn is_norm(tensor: DecoderTensor) -> bool {
    match tensor {
        DecoderTensor::FinalNorm => true,
        DecoderTensor::Embedding | DecoderTensor::Head => false,
        DecoderTensor::Layer(_, part) => matches!(
            part,
            LayerTensor::AttentionNorm
                | LayerTensor::MlpNorm
                | LayerTensor::QueryNorm
                | LayerTensor::KeyNorm
                | LayerTensor::PostAttentionNorm
                | LayerTensor::PostMlpNorm
        ),
    }
}
