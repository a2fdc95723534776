//! An encoder, one text at a time.

use tidegate_contract::{DecodeError, Encoder, EncoderOutput, EncoderText, check_texts};
use tidegate_weights::{
    Checkpoint, EncoderConfig, EncoderHead, EncoderLayerTensor as Part, EncoderTensor,
    HeadActivation, Pooling, Scoring, TensorError,
};

use crate::error::LoadError;
use crate::kernels;
use crate::weights::{Matrix, widened};

/// The whole model in float64 on the CPU.
pub struct ReferenceEncoder {
    config: EncoderConfig,
    max_rows: usize,
    /// `[vocabulary, hidden]`
    words: Matrix,
    /// `[positions, hidden]`
    positions: Option<Matrix>,
    /// `[types, hidden]`
    types: Option<Matrix>,
    norm: Option<Norm>,
    layers: Vec<Layer>,
    /// After the last layer.
    final_norm: Option<Norm>,
    /// `[context, half]` of cos and sin.
    angles: Vec<Vec<[f64; 2]>>,
    head: Head,
}

enum Head {
    Embedding(Pooling),
    /// `output` `[labels, hidden]`.
    Scores {
        /// How rows become one; none where each has scores of its own.
        pooling: Option<Pooling>,
        before: Option<Before>,
        output: Matrix,
    },
}

/// What stands before the output of a head: `dense` `[hidden, hidden]`.
struct Before {
    activation: HeadActivation,
    dense: Matrix,
    norm: Option<Norm>,
}

struct Norm {
    weight: Vec<f64>,
    bias: Vec<f64>,
}

/// A layer's tensors; shapes follow from [`EncoderConfig`].
struct Layer {
    attention_norm: Option<Norm>,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    /// Of every query and key head.
    head_norms: Option<[Vec<f64>; 2]>,
    output: Matrix,
    output_norm: Option<Norm>,
    up_norm: Option<Norm>,
    gate: Option<Matrix>,
    up: Matrix,
    down: Matrix,
    down_norm: Option<Norm>,
}

impl ReferenceEncoder {
    /// Loads a model for calls of at most `max_rows` tokens.
    ///
    /// # Errors
    /// The checkpoint holds a decoder, or a tensor is missing, has another shape, or is not finite.
    pub fn load(checkpoint: &Checkpoint, max_rows: usize) -> Result<Self, LoadError> {
        let config = checkpoint.encoder().ok_or_else(|| LoadError::Kind {
            architecture: LoadError::name(checkpoint),
            wanted: "encoder",
        })?;
        let has = |tensor| config.shape(tensor).is_some();
        let table = |tensor| -> Result<Option<Matrix>, LoadError> {
            match has(tensor) {
                true => {
                    let table = checkpoint.encoder_tensor(tensor)?;
                    Ok(Some(Matrix::read(&table, None)?))
                }
                false => Ok(None),
            }
        };
        let matrix = |tensor, bias| -> Result<Matrix, LoadError> {
            let bias = match has(bias) {
                true => Some(checkpoint.encoder_tensor(bias)?),
                false => None,
            };
            Ok(Matrix::read(&checkpoint.encoder_tensor(tensor)?, bias)?)
        };
        let norm = |weight, bias| -> Result<Option<Norm>, LoadError> {
            if !has(weight) {
                return Ok(None);
            }
            Ok(Some(Norm {
                weight: widened(&checkpoint.encoder_tensor(weight)?)?,
                bias: match has(bias) {
                    true => widened(&checkpoint.encoder_tensor(bias)?)?,
                    false => vec![0.0; config.hidden],
                },
            }))
        };
        let layer = |layer| -> Result<Layer, LoadError> {
            let of = |part| EncoderTensor::Layer(layer, part);
            Ok(Layer {
                attention_norm: norm(of(Part::AttentionNorm), of(Part::AttentionNormBias))?,
                query: matrix(of(Part::Query), of(Part::QueryBias))?,
                key: matrix(of(Part::Key), of(Part::KeyBias))?,
                value: matrix(of(Part::Value), of(Part::ValueBias))?,
                head_norms: match config.head_norms {
                    true => Some([
                        widened(&checkpoint.encoder_tensor(of(Part::QueryNorm))?)?,
                        widened(&checkpoint.encoder_tensor(of(Part::KeyNorm))?)?,
                    ]),
                    false => None,
                },
                output: matrix(of(Part::Output), of(Part::OutputBias))?,
                output_norm: norm(of(Part::OutputNorm), of(Part::OutputNormBias))?,
                up_norm: norm(of(Part::UpNorm), of(Part::UpNormBias))?,
                gate: table(of(Part::Gate))?,
                up: matrix(of(Part::Up), of(Part::UpBias))?,
                down: matrix(of(Part::Down), of(Part::DownBias))?,
                down_norm: norm(of(Part::DownNorm), of(Part::DownNormBias))?,
            })
        };
        let absent = |tensor| -> LoadError {
            let tensor = format!("{tensor:?}");
            TensorError::Absent { tensor }.into()
        };
        let before = |scoring: Scoring| -> Result<Before, LoadError> {
            Ok(Before {
                activation: scoring.activation,
                dense: matrix(EncoderTensor::HeadDense, EncoderTensor::HeadDenseBias)?,
                norm: norm(EncoderTensor::HeadNorm, EncoderTensor::HeadNormBias)?,
            })
        };
        let head = match &config.head {
            EncoderHead::Embedding(pooling) => Head::Embedding(*pooling),
            head => Head::Scores {
                pooling: match head.is_of_tokens() {
                    true => None,
                    false => Some((config.scoring).map_or(Pooling::First, |of| of.pooling)),
                },
                before: config.scoring.map(before).transpose()?,
                output: matrix(EncoderTensor::HeadOutput, EncoderTensor::HeadOutputBias)?,
            },
        };
        let words = table(EncoderTensor::Words)?;
        Ok(ReferenceEncoder {
            max_rows,
            words: words.ok_or_else(|| absent(EncoderTensor::Words))?,
            positions: table(EncoderTensor::Positions)?,
            types: table(EncoderTensor::Types)?,
            norm: norm(EncoderTensor::Norm, EncoderTensor::NormBias)?,
            layers: (0..config.layers.len())
                .map(layer)
                .collect::<Result<_, _>>()?,
            final_norm: norm(EncoderTensor::FinalNorm, EncoderTensor::FinalNormBias)?,
            angles: (0..config.ropes.len())
                .map(|rope| config.rope_table(rope, config.context))
                .collect(),
            head,
            config: config.clone(),
        })
    }

    /// As [`Encoder::encode`], before it is rounded to f32.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn wide_encode(
        &self,
        texts: &[EncoderText<'_>],
        vectors: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        let config = &self.config;
        let (types, context) = (self.types(), config.context);
        check_texts(texts, config.vocabulary, types, context, self.max_rows)?;
        vectors.clear();
        for text in texts {
            vectors.extend(self.pooled(&self.rows(*text)));
        }
        Ok(())
    }

    /// The rows after the last layer, `[tokens, hidden]`.
    fn rows(&self, text: EncoderText<'_>) -> Vec<f64> {
        let config = &self.config;
        let mut x = Vec::with_capacity(text.tokens.len() * config.hidden);
        for (index, &token) in text.tokens.iter().enumerate() {
            let mut row = self.words.row(token as usize).to_vec();
            if let Some(positions) = &self.positions {
                kernels::add(&mut row, positions.row(config.first_position + index));
            }
            if let Some(types) = &self.types {
                kernels::add(&mut row, types.row(text.kind(index) as usize));
            }
            x.extend(row);
        }
        x = normed(&self.norm, &x, config);
        for (index, layer) in self.layers.iter().enumerate() {
            let attended = self.attention(index, &normed(&layer.attention_norm, &x, config));
            kernels::add(&mut x, &attended);
            x = normed(&layer.output_norm, &x, config);
            let inner = layer.feed_forward(&normed(&layer.up_norm, &x, config), config);
            kernels::add(&mut x, &inner);
            x = normed(&layer.down_norm, &x, config);
        }
        normed(&self.final_norm, &x, config)
    }

    /// A row sees rows of its text as far as the layer reaches: `x` `[tokens, hidden]`, result the same.
    fn attention(&self, layer: usize, x: &[f64]) -> Vec<f64> {
        let config = &self.config;
        let (head_dim, shared) = (config.head_dim, config.heads / config.kv_heads);
        let (of, tensors) = (config.layers[layer], &self.layers[layer]);
        let [mut query, mut key, value] =
            [&tensors.query, &tensors.key, &tensors.value].map(|m| m.times(x));
        let widths = [config.heads, config.kv_heads].map(|heads| heads * head_dim);
        for (index, rows) in [&mut query, &mut key].into_iter().enumerate() {
            for (position, row) in rows.chunks_exact_mut(widths[index]).enumerate() {
                for head in row.chunks_exact_mut(head_dim) {
                    if let Some(norms) = &tensors.head_norms {
                        let normed = kernels::rms_norm(head, &norms[index], config.norm_epsilon);
                        head.copy_from_slice(&normed);
                    }
                    if let Some(rope) = of.rope {
                        let half = config.ropes[rope].width / 2;
                        turn(head, &self.angles[rope][position * half..][..half]);
                    }
                }
            }
        }
        let scale = 1.0 / (head_dim as f64).sqrt();
        let mut attended = Vec::with_capacity(query.len());
        for (position, row) in query.chunks_exact(widths[0]).enumerate() {
            for (head, query) in row.chunks_exact(head_dim).enumerate() {
                let sees = |(other, _): &(usize, &[f64])| {
                    let near = (of.reach).is_none_or(|reach| other.abs_diff(position) <= reach);
                    near && !(config.causal && *other > position)
                };
                let seen = |rows: &[f64]| -> Vec<Vec<f64>> {
                    let rows = rows.chunks_exact(widths[1]).enumerate().filter(sees);
                    rows.map(|(_, row)| row[head / shared * head_dim..][..head_dim].to_vec())
                        .collect()
                };
                let (keys, values) = (seen(&key), seen(&value));
                let keys: Vec<&[f64]> = keys.iter().map(Vec::as_slice).collect();
                let values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
                attended.extend(kernels::attention(query, &keys, &values, scale, None, None));
            }
        }
        tensors.output.times(&attended)
    }

    /// The vector of a text's rows, or the scores of its labels, or of those of each row.
    fn pooled(&self, x: &[f64]) -> Vec<f64> {
        let pooled = |pooling| match pooling {
            Pooling::Mean => kernels::mean_of_rows(x, self.config.hidden),
            Pooling::First => x[..self.config.hidden].to_vec(),
            Pooling::Last => x[x.len() - self.config.hidden..].to_vec(),
        };
        match &self.head {
            Head::Embedding(pooling) => {
                let mut vector = pooled(*pooling);
                kernels::normalize(&mut vector);
                vector
            }
            Head::Scores {
                pooling,
                before,
                output,
            } => {
                let rows = pooling.map_or_else(|| x.to_vec(), pooled);
                let Some(before) = before else {
                    return output.times(&rows);
                };
                let mut inner = before.dense.times(&rows);
                inner.iter_mut().for_each(|v| {
                    *v = match before.activation {
                        HeadActivation::Tanh => v.tanh(),
                        HeadActivation::Relu => v.max(0.0),
                        HeadActivation::Of(activation) => kernels::activate(activation, *v),
                    }
                });
                output.times(&normed(&before.norm, &inner, &self.config))
            }
        }
    }
}

impl Norm {
    fn of(&self, x: &[f64], config: &EncoderConfig) -> Vec<f64> {
        if !config.rms_norms {
            return kernels::layer_norm(x, &self.weight, &self.bias, config.norm_epsilon);
        }
        let rows = x.chunks_exact(self.weight.len());
        rows.flat_map(|row| kernels::rms_norm(row, &self.weight, config.norm_epsilon))
            .collect()
    }

    fn len(&self) -> usize {
        self.weight.len() + self.bias.len()
    }
}

/// The norm of rows, where there is one.
fn normed(norm: &Option<Norm>, x: &[f64], config: &EncoderConfig) -> Vec<f64> {
    match norm {
        Some(norm) => norm.of(x, config),
        None => x.to_vec(),
    }
}

/// The first half of what turns against the second.
fn turn(head: &mut [f64], angles: &[[f64; 2]]) {
    let (first, rest) = head.split_at_mut(angles.len());
    for ((x, y), [cos, sin]) in first.iter_mut().zip(rest).zip(angles) {
        (*x, *y) = (*x * cos - *y * sin, *y * cos + *x * sin);
    }
}

impl Layer {
    fn feed_forward(&self, x: &[f64], config: &EncoderConfig) -> Vec<f64> {
        let up = self.up.times(x);
        let active = |v: f64| kernels::activate(config.activation, v);
        let inner: Vec<f64> = match &self.gate {
            None => up.into_iter().map(active).collect(),
            Some(gate) => {
                let gate = gate.times(x).into_iter();
                gate.zip(up).map(|(gate, up)| active(gate) * up).collect()
            }
        };
        self.down.times(&inner)
    }

    /// Elements of all tensors.
    fn len(&self) -> usize {
        let matrices = [
            &self.query,
            &self.key,
            &self.value,
            &self.output,
            &self.up,
            &self.down,
        ];
        let norms = [
            &self.attention_norm,
            &self.output_norm,
            &self.up_norm,
            &self.down_norm,
        ];
        let matrices = matrices.into_iter().chain(&self.gate);
        matrices.map(|m| m.len()).sum::<usize>()
            + norms.into_iter().flatten().map(Norm::len).sum::<usize>()
            + self
                .head_norms
                .iter()
                .flatten()
                .map(Vec::len)
                .sum::<usize>()
    }
}

impl Encoder for ReferenceEncoder {
    fn output(&self) -> EncoderOutput {
        match self.config.head {
            EncoderHead::Embedding(_) => EncoderOutput::Embedding,
            EncoderHead::Classification(_) => EncoderOutput::Scores,
            EncoderHead::TokenClassification(_) => EncoderOutput::TokenScores,
            EncoderHead::Relevance(scale) => EncoderOutput::Relevance(scale),
        }
    }

    fn width(&self) -> usize {
        match &self.head {
            Head::Embedding(_) => self.config.hidden,
            Head::Scores { output, .. } => output.rows(),
        }
    }

    fn context(&self) -> usize {
        self.config.context
    }

    fn types(&self) -> usize {
        self.config.token_types()
    }

    fn max_rows(&self) -> usize {
        self.max_rows
    }

    fn memory(&self) -> u64 {
        let tables = [
            Some(&self.words),
            self.positions.as_ref(),
            self.types.as_ref(),
        ];
        let tables = tables.into_iter().flatten().map(Matrix::len);
        let norms = [self.norm.as_ref(), self.final_norm.as_ref()];
        let norms = norms.into_iter().flatten().map(Norm::len);
        let elements = tables.sum::<usize>()
            + norms.sum::<usize>()
            + 2 * self.angles.iter().map(Vec::len).sum::<usize>()
            + self.layers.iter().map(Layer::len).sum::<usize>()
            + match &self.head {
                Head::Embedding(_) => 0,
                Head::Scores { before, output, .. } => {
                    let before = before.as_ref().map_or(0, |before| {
                        before.dense.len() + before.norm.as_ref().map_or(0, Norm::len)
                    });
                    output.len() + before
                }
            };
        (elements * size_of::<f64>()) as u64
    }

    fn encode(
        &mut self,
        texts: &[EncoderText<'_>],
        vectors: &mut Vec<f32>,
    ) -> Result<(), DecodeError> {
        let mut wide = Vec::new();
        self.wide_encode(texts, &mut wide)?;
        vectors.clear();
        vectors.extend(wide.into_iter().map(|v| v as f32));
        Ok(())
    }
}
