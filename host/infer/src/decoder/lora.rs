//! Low-rank adapters of a decoder's products.
//!
//! Beside an adapted product two small ones run over the rows that have an adapter: A x, and B (A x), which is added to what the
//! product has left. Which adapter a row has the step says, so that rows of several and of none are in one batch, and each has the
//! bits that it has alone. Of gate and up, which their product brings together, and of heads, which it turns, the sums of a step with
//! such rows are kept raw, and what the product would have done with them is done behind the adapters. Where no row has an adapter nothing of this is dispatched.

use tidegate_weights::{Checkpoint, LayerTensor, Lora, ModelConfig};

use super::experts::FeedForward;
use super::loading::{DecoderLoading, StepBuffers};
use super::sizes::attention_matrices;
use crate::buffer::Buffer;
use crate::kernels::{Store, Tested};
use crate::load_error::LoadError;
use crate::matrix::{
    BeforeNorm, Input, LoraMatrix, LoraOutput, LoraPacking, LoraRows, Matrix, Output, Packing,
    padded,
};
use crate::program::{Builder, Count};

/// Adapters of a model at most.
const MOST_LORAS: usize = 256;

/// What is multiplied together, in the order of packing.
const QKV: [LayerTensor; 3] = [LayerTensor::Query, LayerTensor::Key, LayerTensor::Value];
const OUTPUT: [LayerTensor; 1] = [LayerTensor::Output];
const GATE_UP: [LayerTensor; 2] = [LayerTensor::Gate, LayerTensor::Up];
const DOWN: [LayerTensor; 1] = [LayerTensor::Down];

/// What adapts a layer's products: of queries, keys and values; output; gate and up; down.
#[derive(Debug)]
pub(super) struct OfLayer<T> {
    pub(super) qkv: Option<T>,
    pub(super) output: Option<T>,
    pub(super) gate_up: Option<T>,
    pub(super) down: Option<T>,
}

impl<T> OfLayer<T> {
    fn all(&self) -> impl Iterator<Item = &T> {
        let all = [&self.qkv, &self.output, &self.gate_up, &self.down];
        all.into_iter().flatten()
    }
}

impl<'a> OfLayer<LoraPacking<'a>> {
    fn of(
        loras: &'a [Lora],
        layer: usize,
        [qkv, output]: [&Packing<'_>; 2],
        feed_forward: &FeedForward<'_>,
    ) -> Self {
        let of = |parts: &'a [LayerTensor], matrix: &Packing<'_>| {
            LoraPacking::of(loras, layer, parts, matrix)
        };
        let (gate_up, down) = match feed_forward {
            FeedForward::Dense([gate_up, down]) => (of(&GATE_UP, gate_up), of(&DOWN, down)),
            FeedForward::Experts(_) => (None, None),
        };
        OfLayer {
            qkv: of(&QKV, qkv),
            output: of(&OUTPUT, output),
            gate_up,
            down,
        }
    }
}

/// What adapters take on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoraSizes {
    /// Numbers of a row of A x.
    low: usize,
    /// Raw sums of a row.
    raw: usize,
    /// Bytes of their numbers.
    pub(super) bytes: u64,
}

impl LoraSizes {
    /// Those of a model; none if it has no adapters.
    ///
    /// # Errors
    /// A tensor of the model is missing, or there are too many adapters.
    pub(super) fn of(
        checkpoint: &Checkpoint,
        config: &ModelConfig,
    ) -> Result<Option<LoraSizes>, LoadError> {
        let loras = checkpoint.loras();
        if loras.is_empty() {
            return Ok(None);
        }
        if loras.len() > MOST_LORAS {
            return Err(LoadError::Option {
                what: "the number of the model's adapters",
                value: loras.len(),
                least: 0,
                most: MOST_LORAS,
            });
        }
        let mut sizes = LoraSizes::default();
        for layer in 0..config.layers.len() {
            let [qkv, output] = attention_matrices(checkpoint, config, layer, 0)?;
            let feed_forward = FeedForward::of(checkpoint, config, layer)?;
            let of_layer = OfLayer::of(loras, layer, [&qkv, &output], &feed_forward);
            for of in of_layer.all() {
                sizes.low = sizes.low.max(padded(of.most()));
                sizes.bytes += of.bytes();
            }
            for of in [&of_layer.gate_up, &of_layer.qkv].into_iter().flatten() {
                sizes.raw = sizes.raw.max(of.columns());
            }
        }
        Ok(Some(sizes))
    }

    /// Elements of a row of what steps work in.
    pub(super) fn row(&self) -> usize {
        2 + self.low + self.raw
    }
}

/// What adapters run beside the kernels of `products` in a layer. Where a norm is done by products, that of the first may be
/// `begun`, and `next` says which of its outputs begin one.
pub(super) fn tested(
    loras: &[Lora],
    layer: usize,
    ([qkv, output], feed_forward): ([&Packing<'_>; 2], &FeedForward<'_>),
    (heads, gated): (Store, Store),
    (norms, begun, next): (bool, bool, [bool; 2]),
) -> Vec<Tested> {
    let of = OfLayer::of(loras, layer, [qkv, output], feed_forward);
    let mut tested = Vec::new();
    let stream = |next| match norms && next {
        true => Store::Stream,
        false => Store::Residual,
    };
    for (of, normed, store) in [
        (&of.qkv, norms && begun, heads),
        (&of.output, false, stream(next[0])),
        (&of.gate_up, norms, gated),
        (&of.down, false, stream(next[1])),
    ] {
        if of.is_some() {
            tested.extend([Tested::Shrink(normed), Tested::Expand(store)]);
        }
    }
    let mut raw = |of: &Packing<'_>, normed, store| {
        tested.extend(of.kinds().flat_map(|stored| {
            let sums = match normed {
                true => Tested::NormedProducts(stored, Store::Plain),
                false => Tested::Products(stored, Store::Plain),
            };
            [sums, Tested::Unadapted(stored, store, normed)]
        }));
    };
    if let (Some(_), FeedForward::Dense([gate_up, _])) = (&of.gate_up, feed_forward) {
        raw(gate_up, norms, gated);
    }
    if let (Some(_), Store::Heads(_)) = (&of.qkv, heads) {
        raw(qkv, norms && begun, heads);
    }
    tested
}

impl DecoderLoading<'_> {
    /// The buffers that adapted products share, if there are adapters.
    pub(super) fn lora_rows(
        &self,
        step_buffers: &StepBuffers,
    ) -> Result<Option<LoraRows>, LoadError> {
        let (Some(sizes), Some(adapted)) = (&self.sizes.loras, &step_buffers.loras) else {
            return Ok(None);
        };
        Ok(Some(LoraRows {
            adapted: adapted.clone(),
            low: self.activation("rows of adapters", sizes.low.max(1))?,
            stride: sizes.low,
            raw: match sizes.raw {
                0 => None,
                raw => Some(self.activation("sums before they are gated or turned", raw)?),
            },
        }))
    }

    /// Uploads the adapters of a layer whose matrices are packed so.
    pub(super) fn layer_loras(
        &self,
        layer: usize,
        [qkv, output]: [&Packing<'_>; 2],
        feed_forward: &FeedForward<'_>,
    ) -> Result<OfLayer<LoraMatrix>, LoadError> {
        let loras = self.checkpoint.loras();
        let of = OfLayer::of(loras, layer, [qkv, output], feed_forward);
        let upload = |of: Option<LoraPacking<'_>>, matrix: &Packing<'_>| {
            let upload = |of: LoraPacking<'_>| -> Result<LoraMatrix, LoadError> {
                let what = "the adapters of a matrix";
                self.fits(what, of.largest(), "load fewer adapters with the model")?;
                let uploaded = of.upload(self.site, matrix, self.total)?;
                self.arrived.add(of.bytes());
                Ok(uploaded)
            };
            of.map(upload).transpose()
        };
        let (gate_up, down) = match feed_forward {
            FeedForward::Dense([gate_up, down]) => {
                (upload(of.gate_up, gate_up)?, upload(of.down, down)?)
            }
            FeedForward::Experts(_) => (None, None),
        };
        Ok(OfLayer {
            qkv: upload(of.qkv, qkv)?,
            output: upload(of.output, output)?,
            gate_up,
            down,
        })
    }
}

/// `input` times `matrix` for all rows of a step, into `output`, through what adapts it.
pub(super) fn adapted_product(
    builder: &mut Builder<'_>,
    matrix: &Matrix,
    adapters: Option<(&LoraMatrix, &LoraRows)>,
    input: Input<'_>,
    output: Output<'_>,
) -> Result<(), LoadError> {
    let Some((lora, rows)) = adapters else {
        return builder.matmul_into(matrix, input, output, Count::Rows);
    };
    match input {
        Input::Rows(of) => builder.shrink(lora, rows, of, None)?,
        Input::BeforeNorm(of, of_norm) => {
            builder.shrink(lora, rows, of.weighted, Some((of.squares, of_norm)))?;
        }
    }
    match (output, &rows.raw) {
        (Output::Rows(to, store @ Store::Gated(_)), Some(raw)) => {
            builder.matmul_into(matrix, input, output, Count::Unadapted)?;
            let sums = Output::Rows(raw, Store::Plain);
            builder.matmul_into(matrix, input, sums, Count::Mixed)?;
            builder.expand(lora, rows, LoraOutput::Gated(to, store, raw))
        }
        (Output::Heads(heads), Some(raw)) => {
            builder.matmul_into(matrix, input, output, Count::Unadapted)?;
            let sums = Output::Rows(raw, Store::Plain);
            builder.matmul_into(matrix, input, sums, Count::Mixed)?;
            builder.expand(lora, rows, LoraOutput::Heads(heads, raw))
        }
        (Output::Rows(to, Store::Plain | Store::Residual), _) => {
            builder.matmul_into(matrix, input, output, Count::Rows)?;
            builder.expand(lora, rows, LoraOutput::Sums(to))
        }
        (Output::Rows(..) | Output::Heads(_), _) => Err(LoadError::Device {
            reason: "an adapted product has an epilogue that is not added to".to_owned(),
        }),
    }
}

/// What adapts a product that has added to the rows of `stream`, whose next norm has these weights.
pub(super) fn adapt_stream(
    builder: &mut Builder<'_>,
    (lora, rows): (&LoraMatrix, &LoraRows),
    [input, stream]: [&Buffer; 2],
    next: (&Buffer, BeforeNorm<'_>),
) -> Result<(), LoadError> {
    builder.shrink(lora, rows, input, None)?;
    builder.expand(lora, rows, LoraOutput::Stream(stream, next))
}
