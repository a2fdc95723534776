//! gpt-oss's experts, which lie together: of all experts of a layer one tensor holds gate and up, whose rows come in turn, one
//! down, and one each their biases. Floats have rows and columns the other way round; in MXFP4 they have not.
//!
//! Source: `GptOssExperts` in transformers' `modeling_gpt_oss.py`, and its `integrations/mxfp4.py`.

use safetensors::tensor::Dtype;

use super::StoredTensor;
use super::lookup::Weights;
use crate::config::{ModelConfig, Quantization};
use crate::error::TensorError;
use crate::format::{Format, GROUP};
use crate::names::LayerTensor;
use crate::packed::{Float, Groups, Numbers, PackedFormat, PackedRows, Scales, Scheme, Zeros};
use crate::reencoding::Losses;
use crate::tensor::{Layout, Order, Slice, Tensor};

const FLOATS: &str = "F32, F16, BF16";

/// A tensor of one expert among those of all.
pub(super) struct Together {
    /// The tensor that holds it, below `mlp.experts.`.
    name: &'static str,
    expert: usize,
    experts: usize,
    /// Rows, or elements of a bias, that an expert has there.
    rows: usize,
    /// Elements of a row; nothing of a bias.
    width: Option<usize>,
    /// Of gate and up in turn, which of them: the first row, and from one to the next.
    first: usize,
    step: usize,
}

impl Together {
    /// Where a tensor of a layer lies, if it is of an expert of gpt-oss.
    pub(super) fn of(config: &ModelConfig, layer: usize, part: LayerTensor) -> Option<Together> {
        let experts = config.experts_of(layer)?;
        experts.clamped?;
        let (name, expert, bias, first) = match part {
            LayerTensor::ExpertGate(expert) => ("gate_up_proj", expert, false, 0),
            LayerTensor::ExpertUp(expert) => ("gate_up_proj", expert, false, 1),
            LayerTensor::ExpertDown(expert) => ("down_proj", expert, false, 0),
            LayerTensor::ExpertGateBias(expert) => ("gate_up_proj_bias", expert, true, 0),
            LayerTensor::ExpertUpBias(expert) => ("gate_up_proj_bias", expert, true, 1),
            LayerTensor::ExpertDownBias(expert) => ("down_proj_bias", expert, true, 0),
            _ => return None,
        };
        let down = name.starts_with("down");
        let (rows, width) = match down {
            true => (config.hidden, experts.intermediate),
            false => (2 * experts.intermediate, config.hidden),
        };
        Some(Together {
            name,
            expert,
            experts: experts.count,
            rows,
            width: (!bias).then_some(width),
            first,
            step: if down { 1 } else { 2 },
        })
    }
}

impl Weights {
    /// One expert's part of what lies together.
    pub(super) fn among_experts<'a>(
        &'a self,
        of: Together,
        layer: usize,
        quantization: Option<Quantization>,
        losses: &'a Losses,
    ) -> Result<Tensor<'a>, TensorError> {
        let name = format!("{}layers.{layer}.mlp.experts.{}", self.prefix(), of.name);
        if let (Some(Quantization::Packed(Scheme::Mxfp4)), Some(width)) = (quantization, of.width)
            && self.store.get(&name).is_none()
        {
            let packed = self.mxfp4(&name, [of.experts * of.rows, width], of.experts)?;
            let slice = Slice {
                rows: of.rows / of.step,
                first: of.expert * of.rows + of.first,
                step: of.step,
            };
            return Ok(Tensor::packed(
                format!("{name}_blocks"),
                packed,
                Some(slice),
                losses,
            ));
        }
        let expected = match of.width {
            Some(width) => vec![of.experts, width, of.rows],
            None => vec![of.experts, of.rows],
        };
        let stored = self.of_shape(&name, &expected)?;
        let format = match stored.dtype {
            Dtype::F32 => Format::F32,
            Dtype::F16 => Format::F16,
            Dtype::BF16 => Format::Bf16,
            other => {
                return Err(TensorError::Precision {
                    name,
                    found: format!("{other:?}"),
                    supported: FLOATS,
                });
            }
        };
        // The store has checked that there are as many bytes as the shape says.
        let each = stored.bytes.len() / of.experts;
        let bytes = stored.bytes.get(of.expert * each..).unwrap_or_default();
        let bytes = bytes.get(..each).unwrap_or_default();
        let (rows, width, columns) = match of.width {
            Some(width) => (of.rows / of.step, width, of.rows),
            None => (1, of.rows / of.step, of.step),
        };
        Ok(Tensor {
            name,
            rows,
            width,
            format,
            layout: Layout::Turned { bytes, columns },
            order: Order {
                first: of.first,
                step: of.step,
                ..Order::STRAIGHT
            },
        })
    }

    fn of_shape(&self, name: &str, shape: &[usize]) -> Result<StoredTensor<'_>, TensorError> {
        let Some(stored) = self.store.get(name) else {
            return Err(TensorError::Missing {
                name: name.to_owned(),
                expected: shape.to_vec(),
            });
        };
        if stored.shape != shape {
            return Err(TensorError::Shape {
                name: name.to_owned(),
                found: stored.shape.to_vec(),
                expected: shape.to_vec(),
            });
        }
        Ok(stored)
    }

    /// The matrices of all experts one after another, `[rows, width]`, in MXFP4.
    fn mxfp4<'a>(
        &'a self,
        name: &str,
        [rows, width]: [usize; 2],
        experts: usize,
    ) -> Result<PackedRows<'a>, TensorError> {
        if !width.is_multiple_of(GROUP) {
            return Err(TensorError::Precision {
                name: format!("{name}_blocks"),
                found: format!("MXFP4 with rows of {width} elements, no multiple of {GROUP}"),
                supported: FLOATS,
            });
        }
        let groups = width / GROUP;
        let part = |ending: &str, more: &[usize]| {
            let name = format!("{name}{ending}");
            let mut shape = vec![experts, rows / experts, groups];
            shape.extend(more);
            let stored = self.of_shape(&name, &shape)?;
            if stored.dtype != Dtype::U8 {
                return Err(TensorError::Precision {
                    name,
                    found: format!("{:?}", stored.dtype),
                    supported: "U8 for MXFP4",
                });
            }
            Ok(stored.bytes)
        };
        Ok(PackedRows {
            format: PackedFormat::Mxfp4,
            rows,
            width,
            numbers: Numbers::HalfFloats(part("_blocks", &[GROUP / 2])?),
            zeros: Zeros::All(0),
            scales: Scales {
                ending: "_scales",
                bytes: part("_scales", &[])?,
                float: Float::E8m0,
                rows_of_block: 1,
                row_step: groups,
                group_step: 1,
            },
            groups: Groups::Even(GROUP),
        })
    }
}
