//! The float64 reference: every kernel as plain loops on the CPU, and a decoder made of them.
//!
//! It is what the GPU kernels are tested against. It is slow on purpose and knows nothing of devices.

use crate::config::ModelConfig;
use crate::decoder::{DecodeError, Decoder, DecoderOptions, DecoderShape, StepRow, check_rows};
use crate::weights::{TensorNames, Weights, WeightsError};

/// `x * weight / sqrt(mean(x^2) + epsilon)`, row by row. `x` `[rows, width]`, `weight` `[width]`.
#[must_use]
pub fn rms_norm(x: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks_exact(weight.len()) {
        let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + epsilon).sqrt();
        out.extend(row.iter().zip(weight).map(|(v, w)| v * scale * w));
    }
    out
}

/// `x · weightᵀ`: `x` `[rows, width]`, `weight` `[columns, width]`, result `[rows, columns]`.
#[must_use]
pub fn matmul(x: &[f64], weight: &[f64], width: usize) -> Vec<f64> {
    let dot = |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
    x.chunks_exact(width)
        .flat_map(|row| {
            weight
                .chunks_exact(width)
                .map(move |column| dot(row, column))
        })
        .collect()
}

/// Rotates the halves of one head, `[head_dim]`, by `table` `[head_dim / 2]` of cos and sin.
pub fn rope(head: &mut [f64], table: &[[f64; 2]]) {
    let half = head.len() / 2;
    for (i, [cos, sin]) in table.iter().enumerate() {
        let (a, b) = (head[i], head[i + half]);
        head[i] = a * cos - b * sin;
        head[i + half] = b * cos + a * sin;
    }
}

/// Attention of one head: `query` `[head_dim]`, `keys` and `values` `[positions][head_dim]`.
#[must_use]
pub fn attention(query: &[f64], keys: &[&[f64]], values: &[&[f64]]) -> Vec<f64> {
    let scale = 1.0 / (query.len() as f64).sqrt();
    let scores: Vec<f64> = keys
        .iter()
        .map(|key| key.iter().zip(query).map(|(k, q)| k * q).sum::<f64>() * scale)
        .collect();
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - highest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut out = vec![0.0; query.len()];
    for (weight, value) in weights.iter().zip(values) {
        out.iter_mut()
            .zip(*value)
            .for_each(|(o, v)| *o += weight / total * v);
    }
    out
}

/// `silu(gate) * up`, element by element.
#[must_use]
pub fn swiglu(gate: &[f64], up: &[f64]) -> Vec<f64> {
    gate.iter()
        .zip(up)
        .map(|(g, u)| g / (1.0 + (-g).exp()) * u)
        .collect()
}

struct Layer {
    attention_norm: Vec<f64>,
    query: Vec<f64>,
    key: Vec<f64>,
    value: Vec<f64>,
    output: Vec<f64>,
    mlp_norm: Vec<f64>,
    gate: Vec<f64>,
    up: Vec<f64>,
    down: Vec<f64>,
}

/// The whole model in float64 on the CPU.
pub struct ReferenceDecoder {
    config: ModelConfig,
    shape: DecoderShape,
    /// `[vocabulary, hidden]`
    embedding: Vec<f64>,
    layers: Vec<Layer>,
    final_norm: Vec<f64>,
    /// `[vocabulary, hidden]`; the embedding where tied.
    head: Option<Vec<f64>>,
    /// `[context, head_dim / 2]`
    table: Vec<[f64; 2]>,
    /// `[layer][slot, position, kv_head, head_dim]`, keys and values.
    cache: Vec<[Vec<f64>; 2]>,
}

impl ReferenceDecoder {
    /// Loads a model, widened to float64.
    ///
    /// # Errors
    /// A tensor is missing, has another shape, or holds a value that is not finite.
    pub fn load(
        config: &ModelConfig,
        weights: &Weights,
        options: &DecoderOptions,
    ) -> Result<Self, WeightsError> {
        weights.check(config)?;
        let tensors: std::collections::HashMap<String, Vec<usize>> =
            TensorNames::all(config).collect();
        let read = |name: &str| -> Result<Vec<f64>, WeightsError> {
            let shape = tensors.get(name).map(Vec::as_slice).unwrap_or_default();
            Ok(weights
                .tensor(name, shape)?
                .to_f32()?
                .into_iter()
                .map(f64::from)
                .collect())
        };
        let mut layers = Vec::with_capacity(config.layers);
        for layer in 0..config.layers {
            let part = |part: &str| read(&TensorNames::layer(layer, part));
            layers.push(Layer {
                attention_norm: part("input_layernorm")?,
                query: part("self_attn.q_proj")?,
                key: part("self_attn.k_proj")?,
                value: part("self_attn.v_proj")?,
                output: part("self_attn.o_proj")?,
                mlp_norm: part("post_attention_layernorm")?,
                gate: part("mlp.gate_proj")?,
                up: part("mlp.up_proj")?,
                down: part("mlp.down_proj")?,
            });
        }
        let cache = options.slots * options.context * config.kv_heads * config.head_dim;
        Ok(ReferenceDecoder {
            shape: options.shape(config),
            embedding: read(TensorNames::EMBEDDING)?,
            layers,
            final_norm: read(TensorNames::FINAL_NORM)?,
            head: if config.tied {
                None
            } else {
                Some(read(TensorNames::HEAD)?)
            },
            table: config.rope_table(options.context),
            cache: vec![[vec![0.0; cache], vec![0.0; cache]]; config.layers],
            config: config.clone(),
        })
    }

    /// One token through every layer; returns the residual stream before the final norm, `[hidden]`.
    fn row(&mut self, row: &StepRow) -> Vec<f64> {
        let config = &self.config;
        let (hidden, head_dim, epsilon) = (config.hidden, config.head_dim, config.norm_epsilon);
        let position = row.position as usize;
        let table = &self.table[position * head_dim / 2..(position + 1) * head_dim / 2];
        let kv_width = config.kv_heads * head_dim;
        let slot = row.slot as usize * self.shape.context * kv_width;
        let mut x = self.embedding[row.token as usize * hidden..][..hidden].to_vec();
        for (layer, [keys, values]) in self.layers.iter().zip(&mut self.cache) {
            let normed = rms_norm(&x, &layer.attention_norm, epsilon);
            let mut query = matmul(&normed, &layer.query, hidden);
            let mut key = matmul(&normed, &layer.key, hidden);
            query
                .chunks_exact_mut(head_dim)
                .chain(key.chunks_exact_mut(head_dim))
                .for_each(|head| rope(head, table));
            let at = slot + position * kv_width;
            keys[at..at + kv_width].copy_from_slice(&key);
            values[at..at + kv_width].copy_from_slice(&matmul(&normed, &layer.value, hidden));

            let group = config.heads / config.kv_heads;
            let mut attended = Vec::with_capacity(query.len());
            for (head, query) in query.chunks_exact(head_dim).enumerate() {
                let first = slot + head / group * head_dim;
                let keys = positions(keys, first, kv_width, head_dim, position + 1);
                let values = positions(values, first, kv_width, head_dim, position + 1);
                attended.extend(attention(query, &keys, &values));
            }
            add(&mut x, &matmul(&attended, &layer.output, attended.len()));

            let normed = rms_norm(&x, &layer.mlp_norm, epsilon);
            let active = swiglu(
                &matmul(&normed, &layer.gate, hidden),
                &matmul(&normed, &layer.up, hidden),
            );
            add(&mut x, &matmul(&active, &layer.down, active.len()));
        }
        x
    }
}

/// The first `count` positions of one head in a cache: `head_dim` elements every `stride`, from `first`.
fn positions(
    cache: &[f64],
    first: usize,
    stride: usize,
    head_dim: usize,
    count: usize,
) -> Vec<&[f64]> {
    (0..count)
        .map(|position| &cache[first + position * stride..][..head_dim])
        .collect()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

impl Decoder for ReferenceDecoder {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn step(&mut self, rows: &[StepRow], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        check_rows(rows, &self.shape)?;
        logits.clear();
        for row in rows {
            let x = self.row(row);
            if row.wants_logits {
                let normed = rms_norm(&x, &self.final_norm, self.config.norm_epsilon);
                let head = self.head.as_ref().unwrap_or(&self.embedding);
                logits.extend(
                    matmul(&normed, head, self.config.hidden)
                        .into_iter()
                        .map(|v| v as f32),
                );
            }
        }
        Ok(())
    }

    fn dispatches_last_step(&self) -> u32 {
        0
    }
}
