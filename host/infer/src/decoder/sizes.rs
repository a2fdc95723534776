//! The sizes of everything a decoder puts on the device, known before anything is allocated.

use tidegate_contract::BLOCK;
use tidegate_weights::{Checkpoint, DecoderTensor, LayerTensor, ModelConfig, Tensor};

use super::experts::{ExpertSizes, FeedForward};
use super::fusion::Fusion;
use super::lora::{self, LoraSizes};
use super::scratch::AttentionScratch;
use super::{DecoderOptions, StepWords};
use crate::held::Widened;
use crate::kernels::{
    Base, HeadCut, Heads, KernelSet, KernelVariant, NormStore, Routing, Store, Tested, asked_for,
    turns_of_attention, unit_of,
};
use crate::load_error::LoadError;
use crate::matrix::{Packing, most_quantized, padded, squares_of};
use crate::sampling::Sampler;

/// Bytes a decoder takes on the device, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Weights as they are packed on the device, and rotary tables.
    pub weights: u64,
    /// Keys and values of every block.
    pub kv_cache: u64,
    /// Everything a step writes on its way, and the buffers it is read back through.
    pub activations: u64,
}

impl MemoryReport {
    /// All parts together, bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.weights + self.kv_cache + self.activations
    }

    /// What a decoder would take at most, without loading it.
    ///
    /// # Errors
    /// As `GpuDecoder::load`, for everything that can be known before a device is opened.
    pub fn estimate(
        checkpoint: &Checkpoint,
        options: &DecoderOptions,
    ) -> Result<MemoryReport, LoadError> {
        let config = decoder_config(checkpoint)?;
        options.check(config)?;
        let weights = weight_bytes(checkpoint, config, options)?;
        let loras = LoraSizes::of(checkpoint, config)?;
        let plans = Base::ALL.map(|base| {
            let kernels = KernelSet {
                base,
                matmul: KernelVariant::Portable,
                reproducible: options.reproducible,
                emulated: false,
            };
            let fusion = Fusion::largest(config, options.kv, kernels);
            let sizes = DecoderSizes::new(config, options, kernels, fusion);
            DecoderSizes { loras, ..sizes }.report(weights)
        });
        let mut report = plans
            .into_iter()
            .max_by_key(MemoryReport::total)
            .unwrap_or_default();
        if asked_for(options.kernels)? == Some(KernelVariant::Dot) {
            let heads = config.heads * padded(config.head_dim);
            let widths = [config.hidden, heads, widest_dense(config)];
            report.activations += most_quantized(options.max_rows, widths);
        }
        Ok(report)
    }

    /// KV blocks that fit beside everything else into `budget` bytes; 0 where not even that fits.
    ///
    /// # Errors
    /// As [`MemoryReport::estimate`].
    pub fn blocks_within(
        checkpoint: &Checkpoint,
        options: &DecoderOptions,
        budget: u64,
    ) -> Result<usize, LoadError> {
        let one = DecoderOptions {
            blocks: 1,
            ..options.clone()
        };
        let report = MemoryReport::estimate(checkpoint, &one)?;
        let left = budget.saturating_sub(report.weights + report.activations);
        Ok((left / report.kv_cache.max(1)) as usize)
    }
}

/// What of a checkpoint is a decoder.
pub(super) fn decoder_config(checkpoint: &Checkpoint) -> Result<&ModelConfig, LoadError> {
    checkpoint.decoder().ok_or_else(|| LoadError::Kind {
        architecture: checkpoint
            .encoder()
            .map_or_else(String::new, |config| config.architecture.clone()),
        wanted: "decoder",
    })
}

/// Widths in elements, each a multiple of 4; sizes of the buffers a step writes.
#[derive(Clone, Debug)]
pub(super) struct DecoderSizes {
    /// Residual stream.
    pub(super) hidden: usize,
    /// Feed-forward layer without experts, or that of a shared expert: the wider.
    pub(super) intermediate: usize,
    /// Of layers with experts, if there are any.
    pub(super) experts: Option<ExpertSizes>,
    /// Logits of a row.
    pub(super) vocabulary: usize,
    /// Query, key and value heads of a row before they are turned, unless their product does that.
    pub(super) qkv: usize,
    /// Query heads of a row.
    pub(super) query: usize,
    /// Scratch of attention.
    pub(super) scratch: AttentionScratch,
    /// Whether the output of a branch is not added to the stream at once.
    pub(super) branches: bool,
    /// Elements of a row that count the parts of attention, where it merges them.
    pub(super) written: usize,
    /// Squares of a row where they do norms.
    pub(super) squares: usize,
    /// Rows that run at a time.
    pub(super) rows: usize,
    /// Samples that run at a time.
    pub(super) samples: usize,
    /// Words of the block tables of a step.
    pub(super) tables: usize,
    /// Bytes of the keys, or values, of a layer.
    pub(super) cache: u64,
    /// Bytes of what draws tokens, until masks and adjustments need more.
    pub(super) sampler: u64,
    /// Of adapters, if there are any.
    pub(super) loras: Option<LoraSizes>,
    pub(super) layers: usize,
}

impl DecoderSizes {
    pub(super) fn new(
        config: &ModelConfig,
        options: &DecoderOptions,
        kernels: KernelSet,
        fusion: Fusion,
    ) -> DecoderSizes {
        let head = padded(config.head_dim);
        let layers = 0..config.layers.len();
        let heads = layers.map(|layer| layer_heads(config, options, layer));
        let context = options.context;
        // A step of more runs in several passes.
        let routing = config.experts.as_ref().map(Routing::of);
        let most = routing.map_or(usize::MAX, |routing| routing.most_rows(kernels.base));
        let rows = options.max_rows.min(most);
        let scratch = AttentionScratch::new(kernels.base, heads, context, rows);
        let samples = rows.min(options.max_samples);
        DecoderSizes {
            hidden: padded(config.hidden),
            intermediate: padded(widest_dense(config)),
            experts: config
                .experts
                .as_ref()
                .map(|experts| ExpertSizes::new(config, experts, rows)),
            vocabulary: padded(config.vocabulary),
            qkv: if fusion.heads {
                0
            } else {
                (config.heads + 2 * config.kv_heads) * head
            },
            query: config.heads * head,
            scratch,
            branches: config.post_norms || config.output_bias,
            written: if fusion.merges { config.heads } else { 0 },
            squares: if fusion.norms {
                squares_of(padded(config.hidden))
            } else {
                0
            },
            rows,
            samples,
            tables: rows * options.context.div_ceil(BLOCK),
            cache: (options.cached_positions()
                * config.kv_heads
                * options.kv.head_bytes(config.head_dim)) as u64,
            sampler: Sampler::bytes(kernels, config.vocabulary, samples),
            loras: None,
            layers: config.layers.len(),
        }
    }

    /// Bytes by part.
    pub(super) fn report(&self, weights: u64) -> MemoryReport {
        let branch = if self.branches { self.hidden } else { 0 };
        let loras = self.loras.as_ref();
        let row = 2 * self.hidden
            + loras.map_or(0, LoraSizes::row)
            + self.written
            + self.squares
            + branch
            + self.qkv
            + 2 * self.query
            + self.intermediate;
        let experts = self.experts.as_ref();
        let experts = experts.map_or(0, |experts| experts.elements(self.rows));
        let elements = self.rows * row
            + experts
            + StepWords::most(self.rows)
            + self.scratch.elements
            + self.tables
            + 2 * self.samples * self.vocabulary;
        MemoryReport {
            weights,
            kv_cache: 2 * self.layers as u64 * self.cache,
            activations: elements as u64 * 4 + self.sampler,
        }
    }
}

/// Refuses kernels whose loops would be ended early for such a model: those that choose its experts, that go over all that a row
/// sees, or over a whole row.
pub(super) fn check_turns(
    config: &ModelConfig,
    options: &DecoderOptions,
    kernels: KernelSet,
    adapter: impl Fn() -> String,
) -> Result<(), LoadError> {
    if let Some(experts) = &config.experts {
        Routing::of(experts).check(kernels, &adapter)?;
    }
    let context = options.context;
    for layer in 0..config.layers.len() {
        let turns = turns_of_attention(layer_heads(config, options, layer).window, context);
        let what = || format!("attention over a context of {context}");
        kernels.check_turns(turns, what, &adapter)?;
    }
    // Its squares are added up four at a time, and then it is scaled.
    let what = || format!("the norm of a hidden width of {}", config.hidden);
    kernels.check_turns(2 * config.hidden.div_ceil(4), what, adapter)
}

/// The heads of a layer.
pub(super) fn layer_heads(config: &ModelConfig, options: &DecoderOptions, layer: usize) -> Heads {
    let of = config.layers.get(layer);
    let window = of.and_then(|layer| layer.window);
    let rope = of.and_then(|layer| layer.rope);
    let rope = rope.and_then(|rope| config.ropes.get(rope));
    Heads {
        heads: config.heads as u32,
        kv_heads: config.kv_heads as u32,
        dim: config.head_dim as u32,
        kv: options.kv,
        half: rope.map_or(0, |rope| (rope.width / 2) as u32),
        // A window that no sequence outgrows is none.
        window: window
            .filter(|window| *window < options.context)
            .map_or(u32::MAX, |window| window.max(1) as u32),
        norm_epsilon: config.head_norms.then_some(config.norm_epsilon),
        bias: config.qkv_bias,
        scale: config.attention_scale,
        softcap: config.attention_softcap,
    }
}

/// The widest of what all rows go through: feed-forward layers without experts, and shared experts.
fn widest_dense(config: &ModelConfig) -> usize {
    let dense = config.has_dense_layers().then_some(config.intermediate);
    let shared = config.experts.as_ref().and_then(|experts| experts.shared);
    dense.max(shared).unwrap_or(0)
}

/// The matrices of a layer's attention, to be packed: queries, keys and values; output. `pairs` of a head are turned by their product.
pub(super) fn attention_matrices<'a>(
    checkpoint: &'a Checkpoint,
    config: &ModelConfig,
    layer: usize,
    pairs: usize,
) -> Result<[Packing<'a>; 2], LoadError> {
    let part = |part| -> Result<Tensor<'a>, LoadError> {
        Ok(checkpoint.tensor(DecoderTensor::Layer(layer, part))?)
    };
    let qkv = vec![
        part(LayerTensor::Query)?,
        part(LayerTensor::Key)?,
        part(LayerTensor::Value)?,
    ];
    Ok([
        Packing::turned_heads(qkv, config.head_dim, &[pairs, pairs, 0]),
        Packing::by_heads(part(LayerTensor::Output)?, config.head_dim),
    ])
}

/// What of its kernels a decoder runs: each part once.
pub(super) fn tested(
    checkpoint: &Checkpoint,
    config: &ModelConfig,
    options: &DecoderOptions,
    fusion: Fusion,
) -> Result<Vec<Tested>, LoadError> {
    let unit = unit_of((config.heads / config.kv_heads.max(1)) as u32);
    let capped = config.attention_softcap.is_some();
    let cut = HeadCut::of(config.head_dim.div_ceil(4) as u32, options.kv, capped);
    let mut tested = vec![
        Tested::Norm(NormStore::Plain),
        Tested::Attention(unit, cut, options.kv),
        Tested::Sampling,
    ];
    let mut add = |more: Tested| {
        if !tested.contains(&more) {
            tested.push(more);
        }
    };
    if !fusion.heads {
        add(Tested::Heads(options.kv));
    }
    let embedding = Packing::plain(checkpoint.tensor(DecoderTensor::Embedding)?);
    embedding.kinds().map(Tested::Embedding).for_each(&mut add);
    let head = if config.tied {
        embedding
    } else {
        Packing::plain(checkpoint.tensor(DecoderTensor::Head)?)
    };
    let mut products = |matrix: &Packing<'_>, store, normed| {
        let products = matrix.kinds().map(|stored| match normed {
            false => Tested::Products(stored, store),
            true => Tested::NormedProducts(stored, store),
        });
        products.for_each(&mut add);
    };
    products(&head, Store::Plain, false);
    // As the ends of branches are in `DecoderLoading::end_branch`.
    let branch = |alone| if alone { Store::Plain } else { Store::Residual };
    let stores = [
        Store::Plain,
        branch(config.output_bias || config.post_norms),
        Store::Gated(config.activation),
        branch(config.post_norms),
    ];
    let mut of_others = Vec::new();
    for layer in 0..config.layers.len() {
        let [qkv, output] = &attention_matrices(checkpoint, config, layer, 0)?;
        let feed_forward = FeedForward::of(checkpoint, config, layer)?;
        let [plain, attended, gated, fed] = stores;
        // As in `DecoderLoading::layer`.
        let begun = layer > 0 && config.experts_of(layer - 1).is_none();
        let last = layer + 1 == config.layers.len();
        let dense = config.experts_of(layer).is_none();
        let loras = lora::tested(
            checkpoint.loras(),
            layer,
            ([qkv, output], &feed_forward),
            (
                if fusion.heads {
                    Store::Heads(options.kv)
                } else {
                    Store::Residual
                },
                gated,
            ),
            (fusion.norms, begun, [dense, !last]),
        );
        of_others.extend(loras);
        let stream = |store, next| match fusion.norms && next {
            true => Store::Stream,
            false => store,
        };
        let heads = if fusion.heads {
            Store::Heads(options.kv)
        } else {
            plain
        };
        products(qkv, heads, fusion.norms && begun);
        products(output, stream(attended, dense), false);
        match &feed_forward {
            FeedForward::Dense([gate_up, down]) => {
                products(gate_up, gated, fusion.norms);
                products(down, stream(fed, !last), false);
            }
            FeedForward::Experts(experts) => {
                of_others.extend(experts.tested(config.activation, config.post_norms));
            }
        }
    }
    of_others.into_iter().for_each(&mut add);
    if config.output_bias && config.post_norms {
        add(Tested::Bias(NormStore::Plain));
    } else if config.output_bias {
        add(Tested::Bias(NormStore::Add));
    }
    if config.post_norms {
        add(Tested::Norm(NormStore::Add));
    }
    if config.logit_softcap.is_some() {
        add(Tested::Softcap);
    }
    Ok(tested)
}

/// The tensors that are widened to f32.
pub(super) fn widened(checkpoint: &Checkpoint, config: &ModelConfig) -> Result<Widened, LoadError> {
    let mut all = Widened::default();
    for layer in 0..config.layers.len() {
        let matrices = attention_matrices(checkpoint, config, layer, 0)?;
        all.extend(matrices.iter().flat_map(Packing::widened));
        let feed_forward = FeedForward::of(checkpoint, config, layer)?;
        all.extend(feed_forward.widened());
    }
    Ok(all)
}

/// Bytes of the weights as they are packed on the device, and of the rotary tables.
pub(super) fn weight_bytes(
    checkpoint: &Checkpoint,
    config: &ModelConfig,
    options: &DecoderOptions,
) -> Result<u64, LoadError> {
    let (hidden, head) = (padded(config.hidden), padded(config.head_dim));
    let mut total = Packing::plain(checkpoint.tensor(DecoderTensor::Embedding)?).bytes();
    if !config.tied {
        total += Packing::plain(checkpoint.tensor(DecoderTensor::Head)?).bytes();
    }
    let mut vectors = hidden;
    for layer in 0..config.layers.len() {
        let matrices = attention_matrices(checkpoint, config, layer, 0)?;
        total += matrices.iter().map(Packing::bytes).sum::<u64>();
        total += FeedForward::of(checkpoint, config, layer)?.bytes();
        vectors += if config.post_norms { 4 } else { 2 } * hidden;
        vectors += if config.output_bias { hidden } else { 0 };
        vectors += if config.head_norms { 2 * head } else { 0 };
        let heads = config.heads + 2 * config.kv_heads;
        vectors += if config.qkv_bias { heads * head } else { 0 };
    }
    let ropes = config.ropes.iter().map(|rope| options.context * rope.width);
    total += LoraSizes::of(checkpoint, config)?.map_or(0, |loras| loras.bytes);
    Ok(total + ((vectors + ropes.sum::<usize>()) * 4) as u64)
}
