//! A decoder of any supported family, one row at a time.

use tidegate_contract::{BLOCK, DecodeError, Decoder, DecoderShape, Sampled, StepSequence};
use tidegate_weights::{Checkpoint, DecoderTensor, LayerConfig, LayerTensor, ModelConfig};

use crate::error::LoadError;
use crate::experts::FeedForward;
use crate::kernels;
use crate::sampling;
use crate::weights::{Matrix, widened};

/// The whole model in float64 on the CPU.
pub struct ReferenceDecoder {
    config: ModelConfig,
    shape: DecoderShape,
    /// `[vocabulary, hidden]`
    embedding: Matrix,
    layers: Vec<Layer>,
    /// `[hidden]`
    final_norm: Vec<f64>,
    /// `[vocabulary, hidden]`; the embedding where tied.
    head: Option<Matrix>,
    /// `[rope][context, width / 2]` of cos and sin.
    tables: Vec<Vec<[f64; 2]>>,
    cache: Vec<Cache>,
}

/// A layer's tensors; shapes are those at [`LayerTensor`]. Norm weights have the family's offset added.
struct Layer {
    attention_norm: Vec<f64>,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    head_norms: Option<[Vec<f64>; 2]>,
    output: Matrix,
    /// `[heads]`
    sinks: Option<Vec<f64>>,
    post_attention_norm: Option<Vec<f64>>,
    mlp_norm: Vec<f64>,
    feed_forward: FeedForward,
    post_mlp_norm: Option<Vec<f64>>,
}

/// A layer's keys and values, each `[blocks, BLOCK, kv_heads · head_dim]`.
struct Cache {
    keys: Vec<f64>,
    values: Vec<f64>,
}

impl ReferenceDecoder {
    /// Loads a model with `blocks` KV blocks, for sequences of at most `context` positions and steps of at most
    /// `max_rows` rows, all of which can be sampled from. The rotary tables are those of `context`.
    ///
    /// # Errors
    /// The checkpoint holds an encoder, or a tensor is missing, has another shape, or is not finite.
    pub fn load(
        checkpoint: &Checkpoint,
        context: usize,
        blocks: usize,
        max_rows: usize,
    ) -> Result<Self, LoadError> {
        let config = checkpoint.decoder().ok_or_else(|| LoadError::Kind {
            architecture: LoadError::name(checkpoint),
            wanted: "decoder",
        })?;
        let matrix = |tensor| -> Result<Matrix, LoadError> {
            Ok(Matrix::read(&checkpoint.tensor(tensor)?, None)?)
        };
        let layers = (0..config.layers.len())
            .map(|layer| Layer::read(checkpoint, config, layer))
            .collect::<Result<_, _>>()?;
        let elements = blocks * BLOCK * config.kv_heads * config.head_dim;
        Ok(ReferenceDecoder {
            shape: DecoderShape {
                loras: 0,
                vocabulary: config.vocabulary,
                context,
                blocks,
                max_rows,
                max_samples: max_rows,
            },
            embedding: matrix(DecoderTensor::Embedding)?,
            layers,
            final_norm: norm(checkpoint, config, DecoderTensor::FinalNorm)?,
            head: match config.tied {
                true => None,
                false => Some(matrix(DecoderTensor::Head)?),
            },
            tables: (0..config.ropes.len())
                .map(|rope| config.rope_table(rope, context))
                .collect(),
            cache: (0..config.layers.len())
                .map(|_| Cache {
                    keys: vec![0.0; elements],
                    values: vec![0.0; elements],
                })
                .collect(),
            config: config.clone(),
        })
    }

    /// As [`Decoder::logits`], before they are rounded to f32.
    ///
    /// # Errors
    /// As [`Decoder::logits`].
    pub fn wide_logits(
        &mut self,
        step: &[StepSequence],
        logits: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        self.shape.check(step)?;
        logits.clear();
        for sequence in step {
            let unsampled = sequence.tokens.len() - sequence.samples.len();
            for (offset, &token) in sequence.tokens.iter().enumerate() {
                let position = sequence.position as usize + offset;
                let x = self.row(token, position, &sequence.blocks);
                if offset >= unsampled {
                    logits.extend(self.head(&x));
                }
            }
        }
        Ok(())
    }

    /// One token through every layer; returns the residual stream before the final norm, `[hidden]`.
    fn row(&mut self, token: u32, position: usize, blocks: &[u32]) -> Vec<f64> {
        let config = &self.config;
        let mut x: Vec<f64> = self.embedding.row(token as usize).to_vec();
        x.iter_mut().for_each(|v| *v *= config.embedding_scale);
        for ((layer, kind), cache) in self.layers.iter().zip(&config.layers).zip(&mut self.cache) {
            let table = kind.rope.map_or(&[][..], |rope| {
                let half = config.ropes[rope].width / 2;
                &self.tables[rope][position * half..][..half]
            });
            let mut h = layer.attention(&x, config, kind, table, cache, position, blocks);
            if let Some(weight) = &layer.post_attention_norm {
                h = kernels::rms_norm(&h, weight, config.norm_epsilon);
            }
            kernels::add(&mut x, &h);
            let mut m = layer.feed_forward(&x, config);
            if let Some(weight) = &layer.post_mlp_norm {
                m = kernels::rms_norm(&m, weight, config.norm_epsilon);
            }
            kernels::add(&mut x, &m);
        }
        x
    }

    /// The logits `[vocabulary]` of a residual stream.
    fn head(&self, x: &[f64]) -> Vec<f64> {
        let normed = kernels::rms_norm(x, &self.final_norm, self.config.norm_epsilon);
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let mut logits = head.times(&normed);
        logits
            .iter_mut()
            .for_each(|v| *v = kernels::softcap(*v, self.config.logit_softcap));
        logits
    }
}

impl Layer {
    fn read(
        checkpoint: &Checkpoint,
        config: &ModelConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let tensor = |part| checkpoint.tensor(DecoderTensor::Layer(layer, part));
        let matrix = |part, bias: Option<LayerTensor>| -> Result<Matrix, LoadError> {
            Ok(Matrix::read(&tensor(part)?, bias.map(tensor).transpose()?)?)
        };
        let norm = |part| norm(checkpoint, config, DecoderTensor::Layer(layer, part));
        let qkv = |part, bias| matrix(part, config.qkv_bias.then_some(bias));
        Ok(Layer {
            attention_norm: norm(LayerTensor::AttentionNorm)?,
            query: qkv(LayerTensor::Query, LayerTensor::QueryBias)?,
            key: qkv(LayerTensor::Key, LayerTensor::KeyBias)?,
            value: qkv(LayerTensor::Value, LayerTensor::ValueBias)?,
            head_norms: match config.head_norms {
                true => Some([norm(LayerTensor::QueryNorm)?, norm(LayerTensor::KeyNorm)?]),
                false => None,
            },
            output: matrix(
                LayerTensor::Output,
                config.output_bias.then_some(LayerTensor::OutputBias),
            )?,
            sinks: match config.sinks {
                true => Some(widened(&tensor(LayerTensor::Sinks)?)?),
                false => None,
            },
            post_attention_norm: match config.post_norms {
                true => Some(norm(LayerTensor::PostAttentionNorm)?),
                false => None,
            },
            mlp_norm: norm(LayerTensor::MlpNorm)?,
            feed_forward: FeedForward::read(checkpoint, config, layer)?,
            post_mlp_norm: match config.post_norms {
                true => Some(norm(LayerTensor::PostMlpNorm)?),
                false => None,
            },
        })
    }

    /// `[hidden]` from the residual stream `[hidden]`; writes the row's key and value to the cache first.
    #[allow(clippy::too_many_arguments)]
    fn attention(
        &self,
        x: &[f64],
        config: &ModelConfig,
        kind: &LayerConfig,
        table: &[[f64; 2]],
        cache: &mut Cache,
        position: usize,
        blocks: &[u32],
    ) -> Vec<f64> {
        let head_dim = config.head_dim;
        let normed = kernels::rms_norm(x, &self.attention_norm, config.norm_epsilon);
        let mut query = self.query.times(&normed);
        let mut key = self.key.times(&normed);
        if let Some([query_norm, key_norm]) = &self.head_norms {
            query = kernels::rms_norm(&query, query_norm, config.norm_epsilon);
            key = kernels::rms_norm(&key, key_norm, config.norm_epsilon);
        }
        query
            .chunks_exact_mut(head_dim)
            .chain(key.chunks_exact_mut(head_dim))
            .for_each(|head| kernels::rope(head, table));

        let width = config.kv_heads * head_dim;
        let own = place(blocks, position) * width;
        cache.keys[own..][..width].copy_from_slice(&key);
        cache.values[own..][..width].copy_from_slice(&self.value.times(&normed));

        let seen: Vec<usize> = kernels::visible(position, kind.window)
            .map(|position| place(blocks, position) * width)
            .collect();
        let group = config.heads / config.kv_heads;
        let mut attended = Vec::with_capacity(query.len());
        for (head, query) in query.chunks_exact(head_dim).enumerate() {
            let within = head / group * head_dim;
            attended.extend(kernels::attention(
                query,
                &slices(&cache.keys, &seen, within, head_dim),
                &slices(&cache.values, &seen, within, head_dim),
                config.attention_scale,
                config.attention_softcap,
                self.sinks.as_ref().map(|sinks| sinks[head]),
            ));
        }
        self.output.times(&attended)
    }

    fn feed_forward(&self, x: &[f64], config: &ModelConfig) -> Vec<f64> {
        let normed = kernels::rms_norm(x, &self.mlp_norm, config.norm_epsilon);
        self.feed_forward.of(&normed, config.activation)
    }

    /// Elements of all tensors.
    fn len(&self) -> usize {
        let matrices = [&self.query, &self.key, &self.value, &self.output];
        let norms = [Some(&self.attention_norm), Some(&self.mlp_norm)]
            .into_iter()
            .chain([&self.post_attention_norm, &self.post_mlp_norm].map(Option::as_ref));
        matrices.iter().map(|m| m.len()).sum::<usize>()
            + self.feed_forward.len()
            + norms.flatten().map(Vec::len).sum::<usize>()
            + self.sinks.as_ref().map_or(0, Vec::len)
            + self
                .head_norms
                .iter()
                .flatten()
                .map(Vec::len)
                .sum::<usize>()
    }
}

/// Where a position of a sequence lies among all positions of the cache.
fn place(blocks: &[u32], position: usize) -> usize {
    blocks[position / BLOCK] as usize * BLOCK + position % BLOCK
}

/// `count` elements from each of `starts`, moved on by `within`.
fn slices<'a>(cache: &'a [f64], starts: &[usize], within: usize, count: usize) -> Vec<&'a [f64]> {
    let slice = |start: &usize| &cache[start + within..][..count];
    starts.iter().map(slice).collect()
}

/// A norm's weights, the family's offset added.
fn norm(
    checkpoint: &Checkpoint,
    config: &ModelConfig,
    tensor: DecoderTensor,
) -> Result<Vec<f64>, LoadError> {
    let mut weight = widened(&checkpoint.tensor(tensor)?)?;
    weight
        .iter_mut()
        .for_each(|w| *w += f64::from(config.norm_offset));
    Ok(weight)
}

impl Decoder for ReferenceDecoder {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn memory(&self) -> u64 {
        let weights = self.embedding.len()
            + self.head.as_ref().map_or(0, Matrix::len)
            + self.final_norm.len()
            + self.layers.iter().map(Layer::len).sum::<usize>();
        let tables = 2 * self.tables.iter().map(Vec::len).sum::<usize>();
        let cache = self
            .cache
            .iter()
            .map(|c| c.keys.len() + c.values.len())
            .sum::<usize>();
        ((weights + tables + cache) * size_of::<f64>()) as u64
    }

    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        let mut logits = Vec::new();
        self.logits(step, &mut logits)?;
        let samplings = step.iter().flat_map(|sequence| &sequence.samples);
        sampled.clear();
        sampled.extend(
            logits
                .chunks_exact(self.shape.vocabulary)
                .zip(samplings)
                .map(|(logits, sampling)| sampling::draw(logits, sampling)),
        );
        Ok(())
    }

    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        let mut wide = Vec::new();
        self.wide_logits(step, &mut wide)?;
        logits.clear();
        logits.extend(wide.into_iter().map(|v| v as f32));
        Ok(())
    }
}
