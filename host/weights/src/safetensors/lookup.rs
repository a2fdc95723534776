//! Tensors by what they are for, in the safetensors files of a known architecture.

use safetensors::tensor::Dtype;

use super::together::Together;
use super::{Store, StoredTensor};
use crate::config::{Architecture, EncoderConfig, ModelConfig, Quantization, encoder_family};
use crate::error::TensorError;
use crate::format::{Format, GROUP};
use crate::names::{
    DecoderTensor, EncoderTensor, LayerTensor, decoder_layer_of, decoder_name, encoder_layer_of,
    encoder_name, encoder_prefixes, encoder_rows, of_decoder, old_norm_name,
};
use crate::reencoding::Losses;
use crate::tensor::{Layout, Slice, Tensor};

const SUPPORTED: &str = "F32, F16, BF16, and what quantization_config in config.json says";

/// What is appended to the name of a quantized tensor to name its scales.
pub(crate) const SCALE_SUFFIX: &str = "_scale";

/// The weights of a model whose names are known.
pub(crate) struct Weights {
    pub(crate) store: Store,
    /// What every name begins with.
    prefix: &'static str,
}

impl Weights {
    /// Finds out what the names begin with: models with several parts have their text part below another name, and
    /// bare models have no prefix.
    pub(crate) fn new(store: Store, architecture: &Architecture) -> Weights {
        let decoder: (&[&'static str], &str) = (
            &[
                "model.",
                "model.language_model.",
                "language_model.model.",
                "",
            ],
            "embed_tokens.weight",
        );
        let (candidates, known) = match architecture {
            Architecture::Decoder(_) => decoder,
            Architecture::Encoder(config) if config.decoder.is_some() => decoder,
            Architecture::Encoder(config) => encoder_prefixes(encoder_family(&config.architecture)),
        };
        let there = |prefix: &&&str| store.get(&format!("{prefix}{known}")).is_some();
        let prefix = candidates.iter().find(there).unwrap_or(&candidates[0]);
        Weights { prefix, store }
    }

    /// A decoder's tensor. What rows lose that are encoded anew is counted in `losses`.
    pub(crate) fn decoder_tensor<'a>(
        &'a self,
        config: &ModelConfig,
        tensor: DecoderTensor,
        shape: &[usize],
        losses: &'a Losses,
    ) -> Result<Tensor<'a>, TensorError> {
        let name = decoder_name(config, self.prefix, tensor);
        if let DecoderTensor::Layer(layer, part) = tensor
            && let Some((fused, rows, first)) = fused(config, part)
        {
            let fused = format!("{}layers.{layer}.{fused}", self.prefix);
            if !self.has(&name) && self.has(&fused) {
                let slice = Slice {
                    rows: shape[0],
                    first,
                    step: 1,
                };
                return self.tensor(
                    fused,
                    &[rows, config.hidden],
                    Some(slice),
                    config.quantization,
                    losses,
                );
            }
        }
        if let DecoderTensor::Layer(layer, part) = tensor
            && let Some(of) = Together::of(config, layer, part)
            && !self.has(&name)
        {
            return self.among_experts(of, layer, config.quantization, losses);
        }
        self.tensor(name, shape, None, config.quantization, losses)
    }

    /// What every name begins with.
    pub(super) fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// An encoder's tensor.
    pub(crate) fn encoder_tensor<'a>(
        &'a self,
        config: &EncoderConfig,
        tensor: EncoderTensor,
        shape: &[usize],
        losses: &'a Losses,
    ) -> Result<Tensor<'a>, TensorError> {
        if let Some(decoder) = &config.decoder {
            let absent = || TensorError::Absent {
                tensor: format!("{tensor:?}"),
            };
            let tensor = of_decoder(tensor).ok_or_else(absent)?;
            return self.decoder_tensor(decoder, tensor, shape, losses);
        }
        let (family, quantization) = (encoder_family(&config.architecture), config.quantization);
        let name = encoder_name(family, self.prefix, config, tensor);
        let name = match old_norm_name(&name) {
            Some(old) if self.store.get(&name).is_none() && self.store.get(&old).is_some() => old,
            _ => name,
        };
        match encoder_rows(family, config, tensor) {
            Some((rows, first)) => {
                let slice = Slice {
                    rows: shape[0],
                    first,
                    step: 1,
                };
                let shape = [rows, config.hidden];
                self.tensor(name, &shape, Some(slice), quantization, losses)
            }
            None => self.tensor(name, shape, None, quantization, losses),
        }
    }

    /// The first tensor of a layer past the last, with its layer.
    pub(crate) fn surplus(&self, architecture: &Architecture) -> Option<(usize, &str)> {
        let layers = match architecture {
            Architecture::Decoder(config) => config.layers.len(),
            Architecture::Encoder(config) => config.layers.len(),
        };
        self.store
            .names()
            .filter_map(|name| Some((self.layer_of(architecture, name)?, name)))
            .filter(|(layer, _)| *layer >= layers)
            .min()
    }

    /// The layer that a tensor belongs to; none if it belongs to no layer that is read.
    pub(super) fn layer_of(&self, architecture: &Architecture, name: &str) -> Option<usize> {
        match architecture {
            Architecture::Decoder(_) => decoder_layer_of(self.prefix, name),
            Architecture::Encoder(config) if config.decoder.is_some() => {
                decoder_layer_of(self.prefix, name)
            }
            Architecture::Encoder(config) => {
                encoder_layer_of(encoder_family(&config.architecture), self.prefix, name)
            }
        }
    }

    fn tensor<'a>(
        &'a self,
        name: String,
        shape: &[usize],
        slice: Option<Slice>,
        quantization: Option<Quantization>,
        losses: &'a Losses,
    ) -> Result<Tensor<'a>, TensorError> {
        if let (Some(Quantization::Packed(scheme)), [rows, width]) = (quantization, shape)
            && let Some(packed) = self.packed(&name, [*rows, *width], scheme)?
        {
            return Ok(Tensor::packed(name, packed, slice, losses));
        }
        let Some(stored) = self.store.get(&name) else {
            return Err(TensorError::Missing {
                name,
                expected: shape.to_vec(),
            });
        };
        let (stored_rows, width) = match *shape {
            [width] => (1, width),
            [rows, width] => (rows, width),
            _ => return Err(TensorError::Absent { tensor: name }),
        };
        let (format, layout) = match stored.dtype {
            Dtype::F32 => (Format::F32, whole(&name, &stored, shape)?),
            Dtype::F16 => (Format::F16, whole(&name, &stored, shape)?),
            Dtype::BF16 => (Format::Bf16, whole(&name, &stored, shape)?),
            Dtype::I8
                if matches!(quantization, Some(Quantization::Int8 | Quantization::Int4))
                    && shape.len() == 2 =>
            {
                (Format::Int8, self.apart(&name, &stored, shape, width)?)
            }
            Dtype::U8 if quantization == Some(Quantization::Int4) && shape.len() == 2 => {
                (Format::Int4, self.apart(&name, &stored, shape, width / 2)?)
            }
            other => {
                return Err(TensorError::Precision {
                    name,
                    found: format!("{other:?}"),
                    supported: SUPPORTED,
                });
            }
        };
        let slice = slice.unwrap_or(Slice {
            rows: stored_rows,
            first: 0,
            step: 1,
        });
        Ok(Tensor {
            name,
            rows: slice.rows,
            width,
            format,
            layout,
            order: slice.order(),
        })
    }

    /// Values of `value_width` bytes a row, and their scales.
    fn apart<'a>(
        &'a self,
        name: &str,
        values: &StoredTensor<'a>,
        shape: &[usize],
        value_width: usize,
    ) -> Result<Layout<'a>, TensorError> {
        let [rows, width] = [shape[0], shape[1]];
        if !width.is_multiple_of(GROUP) {
            return Err(TensorError::Precision {
                name: name.to_owned(),
                found: format!(
                    "int8 or int4 with rows of {width} elements, no multiple of {GROUP}"
                ),
                supported: SUPPORTED,
            });
        }
        let checked = |name: &str, found: &[usize], expected: [usize; 2]| {
            if found == expected {
                return Ok(());
            }
            Err(TensorError::Shape {
                name: name.to_owned(),
                found: found.to_vec(),
                expected: expected.to_vec(),
            })
        };
        checked(name, values.shape, [rows, value_width])?;
        let scale_name = format!("{name}{SCALE_SUFFIX}");
        let expected = [rows, width / GROUP];
        let scales = self
            .store
            .get(&scale_name)
            .ok_or_else(|| TensorError::Missing {
                name: scale_name.clone(),
                expected: expected.to_vec(),
            })?;
        if scales.dtype != Dtype::F16 {
            return Err(TensorError::Precision {
                name: scale_name,
                found: format!("{:?}", scales.dtype),
                supported: "F16 for scales",
            });
        }
        checked(&scale_name, scales.shape, expected)?;
        Ok(Layout::Apart {
            values: values.bytes,
            scales: scales.bytes,
        })
    }
}

fn whole<'a>(
    name: &str,
    stored: &StoredTensor<'a>,
    shape: &[usize],
) -> Result<Layout<'a>, TensorError> {
    if stored.shape == shape {
        return Ok(Layout::Rows {
            bytes: stored.bytes,
        });
    }
    Err(TensorError::Shape {
        name: name.to_owned(),
        found: stored.shape.to_vec(),
        expected: shape.to_vec(),
    })
}

/// The fused tensor that holds a part (Phi-3): its name, its rows, and the first row of the part.
fn fused(config: &ModelConfig, part: LayerTensor) -> Option<(&'static str, usize, usize)> {
    let (query, key) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let qkv = |first| Some(("self_attn.qkv_proj.weight", query + 2 * key, first));
    let gate_up = |first| Some(("mlp.gate_up_proj.weight", 2 * config.intermediate, first));
    match part {
        LayerTensor::Query => qkv(0),
        LayerTensor::Key => qkv(query),
        LayerTensor::Value => qkv(query + key),
        LayerTensor::Gate => gate_up(0),
        LayerTensor::Up => gate_up(config.intermediate),
        _ => None,
    }
}
