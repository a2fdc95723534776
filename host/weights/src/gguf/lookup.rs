//! Tensors by what they are for, in a GGUF file.

use super::config::Family;
use super::experts;
use super::header::{Entry, Header};
use super::kinds::{Kind, SUPPORTED};
use super::parts::Parts;
use crate::config::ModelConfig;
use crate::error::TensorError;
use crate::format::StoredFormat;
use crate::names::{DecoderTensor, LayerTensor};
use crate::reencoding::Losses;
use crate::tensor::{Layout, Order, Tensor};

/// The tensors of a file whose header was read.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub(super) header: &'a Header,
    pub(super) parts: &'a Parts,
    pub(super) losses: Option<&'a Losses>,
    pub(super) family: Family,
}

impl<'a> Lookup<'a> {
    pub(super) fn tensor(
        self,
        config: &ModelConfig,
        tensor: DecoderTensor,
        shape: &[usize],
    ) -> Result<Tensor<'a>, TensorError> {
        if let DecoderTensor::Layer(layer, part) = tensor
            && let Some((name, among)) = experts::place(self.header, layer, part)
        {
            return self.expert(config, name, among, (layer, shape));
        }
        if let DecoderTensor::Layer(layer, part) = tensor
            && let Some((name, expert)) = experts::bias_place(layer, part)
        {
            let mut bias = self.whole(name, &[experts::together(config, layer), shape[0]])?;
            (bias.rows, bias.order.first) = (1, expert);
            return Ok(bias);
        }
        let name = match tensor {
            // There the name that others have is the norm's before the feed-forward layer.
            DecoderTensor::Layer(layer, LayerTensor::MlpNorm) if self.family == Family::GptOss => {
                format!("blk.{layer}.post_attention_norm.weight")
            }
            tensor => name(tensor),
        };
        if let DecoderTensor::Layer(layer, part) = tensor
            && self.family == Family::Phi3
            && let Some((part, rows, first)) = fused(config, part)
        {
            let fused = format!("blk.{layer}.{part}");
            let fused_shape = [rows, config.hidden];
            // `ffn_up` is gate and up, or up alone beside a gate.
            let is_fused =
                |entry: &Entry| part != "ffn_up.weight" || entry.shape.get(1) == Some(&rows);
            if self.header.tensors.get(&fused).is_some_and(is_fused) {
                let mut whole = self.whole(fused, &fused_shape)?;
                whole.rows = shape[0];
                whole.order.first = first;
                return Ok(whole);
            }
        }
        let mut whole = self.whole(name, shape)?;
        let interleaved = matches!(
            tensor,
            DecoderTensor::Layer(
                _,
                LayerTensor::Query
                    | LayerTensor::QueryBias
                    | LayerTensor::Key
                    | LayerTensor::KeyBias
            )
        );
        if interleaved && self.family.interleaves() {
            whole.order.interleaved_head = Some(config.head_dim);
        }
        Ok(whole)
    }

    /// A matrix of an expert of a layer, in this tensor by itself or as one among several.
    fn expert(
        self,
        config: &ModelConfig,
        name: String,
        among: Option<usize>,
        (layer, shape): (usize, &[usize]),
    ) -> Result<Tensor<'a>, TensorError> {
        let Some(expert) = among else {
            return self.whole(name, shape);
        };
        let count = experts::together(config, layer);
        let all: Vec<usize> = std::iter::once(count)
            .chain(shape.iter().copied())
            .collect();
        let mut matrix = self.whole(name, &all)?;
        matrix.rows = shape[0];
        matrix.order.first = expert * shape[0];
        Ok(matrix)
    }

    /// The first tensor of a layer past the last of so many, with its layer.
    pub(super) fn surplus(self, layers: usize) -> Option<(usize, &'a str)> {
        let names = self.header.tensors.keys().map(String::as_str);
        names
            .filter_map(|name| Some((block_of(name)?.0, name)))
            .filter(|(layer, _)| *layer >= layers)
            .min()
    }

    pub(super) fn whole(self, name: String, shape: &[usize]) -> Result<Tensor<'a>, TensorError> {
        let Some(entry) = self.header.tensors.get(&name) else {
            return Err(TensorError::Missing {
                name,
                expected: shape.to_vec(),
            });
        };
        // Rows come last in a GGUF shape; trailing ones may be written out.
        let mut found: Vec<usize> = entry.shape.clone();
        while found.len() > shape.len() && found.last() == Some(&1) {
            found.pop();
        }
        found.reverse();
        // A matrix of one row may be written as that.
        if shape.first() == Some(&1) && found == shape[1..] {
            found.insert(0, 1);
        }
        if found != shape {
            return Err(TensorError::Shape {
                name,
                found,
                expected: shape.to_vec(),
            });
        }
        let format = match entry.kind {
            Kind::Known(format) => format,
            kind @ Kind::Other(_) => {
                return Err(TensorError::Precision {
                    name,
                    found: kind.name(),
                    supported: SUPPORTED,
                });
            }
        };
        let (rows, width) = match *shape {
            [rows, width] => (rows, width),
            [count, rows, width] => (count * rows, width),
            _ => (1, shape.iter().product()),
        };
        // A bias may not be stored in blocks, whose order could not be undone.
        if rows == 1
            && shape.len() == 1
            && !matches!(format, StoredFormat::Kept(format) if format.is_float())
        {
            return Err(TensorError::Precision {
                name,
                found: format.gguf_name().to_owned(),
                supported: "f32, f16, bf16 for a tensor of one dimension",
            });
        }
        Ok(Tensor {
            name,
            rows,
            width,
            format: format.handed_on(),
            layout: Layout::of_rows(self.parts.data(entry), format, self.losses),
            order: Order::STRAIGHT,
        })
    }
}

/// The number of the block that a tensor belongs to, and what its name says behind it; none of what belongs to no block.
pub(super) fn block_of(name: &str) -> Option<(usize, &str)> {
    let (block, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((block.parse().ok()?, part))
}

/// The name of a tensor (`gguf-py/gguf/constants.py`).
fn name(tensor: DecoderTensor) -> String {
    let (layer, part) = match tensor {
        DecoderTensor::Embedding => return "token_embd.weight".to_owned(),
        DecoderTensor::FinalNorm => return "output_norm.weight".to_owned(),
        DecoderTensor::Head => return "output.weight".to_owned(),
        DecoderTensor::Layer(layer, part) => (layer, part),
    };
    let part = match part {
        LayerTensor::AttentionNorm => "attn_norm.weight",
        LayerTensor::Query => "attn_q.weight",
        LayerTensor::QueryBias => "attn_q.bias",
        LayerTensor::Key => "attn_k.weight",
        LayerTensor::KeyBias => "attn_k.bias",
        LayerTensor::Value => "attn_v.weight",
        LayerTensor::ValueBias => "attn_v.bias",
        LayerTensor::QueryNorm => "attn_q_norm.weight",
        LayerTensor::KeyNorm => "attn_k_norm.weight",
        LayerTensor::Output => "attn_output.weight",
        LayerTensor::OutputBias => "attn_output.bias",
        LayerTensor::Sinks => "attn_sinks.weight",
        LayerTensor::PostAttentionNorm => "post_attention_norm.weight",
        LayerTensor::MlpNorm => "ffn_norm.weight",
        LayerTensor::Gate => "ffn_gate.weight",
        LayerTensor::Up => "ffn_up.weight",
        LayerTensor::Down => "ffn_down.weight",
        LayerTensor::PostMlpNorm => "post_ffw_norm.weight",
        LayerTensor::Router => "ffn_gate_inp.weight",
        LayerTensor::RouterBias => "ffn_gate_inp.bias",
        // Others are told apart by where they lie: `experts::place`, `experts::bias_place`.
        LayerTensor::ExpertGate(_) => "ffn_gate_exps.weight",
        LayerTensor::ExpertUp(_) => "ffn_up_exps.weight",
        LayerTensor::ExpertDown(_) => "ffn_down_exps.weight",
        LayerTensor::ExpertGateBias(_) => "ffn_gate_exps.bias",
        LayerTensor::ExpertUpBias(_) => "ffn_up_exps.bias",
        LayerTensor::ExpertDownBias(_) => "ffn_down_exps.bias",
        LayerTensor::SharedRouter => "ffn_gate_inp_shexp.weight",
        LayerTensor::SharedGate => "ffn_gate_shexp.weight",
        LayerTensor::SharedUp => "ffn_up_shexp.weight",
        LayerTensor::SharedDown => "ffn_down_shexp.weight",
    };
    format!("blk.{layer}.{part}")
}

/// The fused tensor that holds a part: its name, its rows, and the first row of the part.
fn fused(config: &ModelConfig, part: LayerTensor) -> Option<(&'static str, usize, usize)> {
    let (query, key) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let qkv = |first| Some(("attn_qkv.weight", query + 2 * key, first));
    let gate_up = |first| Some(("ffn_up.weight", 2 * config.intermediate, first));
    match part {
        LayerTensor::Query => qkv(0),
        LayerTensor::Key => qkv(query),
        LayerTensor::Value => qkv(query + key),
        LayerTensor::Gate => gate_up(0),
        LayerTensor::Up => gate_up(config.intermediate),
        _ => None,
    }
}
