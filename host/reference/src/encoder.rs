//! A BERT-style encoder, one text at a time.

use tidegate_contract::{DecodeError, Encoder, EncoderOutput, check_texts};
use tidegate_weights::{
    Checkpoint, EncoderConfig, EncoderHead, EncoderLayerTensor as Part, EncoderTensor, Pooling,
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
    positions: Matrix,
    /// `[types, hidden]`
    types: Matrix,
    norm: Norm,
    layers: Vec<Layer>,
    head: Head,
}

enum Head {
    Embedding(Pooling),
    /// `dense` `[hidden, hidden]`, `output` `[labels, hidden]`.
    Classes {
        dense: Matrix,
        output: Matrix,
    },
}

struct Norm {
    weight: Vec<f64>,
    bias: Vec<f64>,
}

/// A layer's tensors; shapes follow from [`EncoderConfig`].
struct Layer {
    query: Matrix,
    key: Matrix,
    value: Matrix,
    output: Matrix,
    output_norm: Norm,
    up: Matrix,
    down: Matrix,
    down_norm: Norm,
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
        let table = |tensor| -> Result<Matrix, LoadError> {
            Ok(Matrix::read(&checkpoint.encoder_tensor(tensor)?, None)?)
        };
        let matrix = |tensor, bias| -> Result<Matrix, LoadError> {
            let bias = checkpoint.encoder_tensor(bias)?;
            Ok(Matrix::read(
                &checkpoint.encoder_tensor(tensor)?,
                Some(bias),
            )?)
        };
        let norm = |weight, bias| -> Result<Norm, LoadError> {
            Ok(Norm {
                weight: widened(&checkpoint.encoder_tensor(weight)?)?,
                bias: widened(&checkpoint.encoder_tensor(bias)?)?,
            })
        };
        let layer = |layer| -> Result<Layer, LoadError> {
            let of = |part| EncoderTensor::Layer(layer, part);
            Ok(Layer {
                query: matrix(of(Part::Query), of(Part::QueryBias))?,
                key: matrix(of(Part::Key), of(Part::KeyBias))?,
                value: matrix(of(Part::Value), of(Part::ValueBias))?,
                output: matrix(of(Part::Output), of(Part::OutputBias))?,
                output_norm: norm(of(Part::OutputNorm), of(Part::OutputNormBias))?,
                up: matrix(of(Part::Up), of(Part::UpBias))?,
                down: matrix(of(Part::Down), of(Part::DownBias))?,
                down_norm: norm(of(Part::DownNorm), of(Part::DownNormBias))?,
            })
        };
        Ok(ReferenceEncoder {
            max_rows,
            words: table(EncoderTensor::Words)?,
            positions: table(EncoderTensor::Positions)?,
            types: table(EncoderTensor::Types)?,
            norm: norm(EncoderTensor::Norm, EncoderTensor::NormBias)?,
            layers: (0..config.layers).map(layer).collect::<Result<_, _>>()?,
            head: match config.head {
                EncoderHead::Embedding(pooling) => Head::Embedding(pooling),
                EncoderHead::Classification(_) => Head::Classes {
                    dense: matrix(EncoderTensor::HeadDense, EncoderTensor::HeadDenseBias)?,
                    output: matrix(EncoderTensor::HeadOutput, EncoderTensor::HeadOutputBias)?,
                },
            },
            config: config.clone(),
        })
    }

    /// As [`Encoder::encode`], before it is rounded to f32.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn wide_encode(&self, texts: &[&[u32]], vectors: &mut Vec<f64>) -> Result<(), DecodeError> {
        let config = &self.config;
        check_texts(texts, config.vocabulary, config.context, self.max_rows)?;
        vectors.clear();
        for text in texts {
            vectors.extend(self.pooled(&self.rows(text)));
        }
        Ok(())
    }

    /// The rows after the last layer, `[tokens, hidden]`.
    fn rows(&self, text: &[u32]) -> Vec<f64> {
        let config = &self.config;
        let mut x = Vec::with_capacity(text.len() * config.hidden);
        for (index, &token) in text.iter().enumerate() {
            let mut row = self.words.row(token as usize).to_vec();
            kernels::add(&mut row, self.positions.row(config.first_position + index));
            kernels::add(&mut row, self.types.row(0));
            x.extend(row);
        }
        x = self.norm.of(&x, config);
        for layer in &self.layers {
            let attended = layer.attention(&x, config);
            kernels::add(&mut x, &attended);
            x = layer.output_norm.of(&x, config);
            let mut inner = layer.up.times(&x);
            inner
                .iter_mut()
                .for_each(|v| *v = kernels::activate(config.activation, *v));
            kernels::add(&mut x, &layer.down.times(&inner));
            x = layer.down_norm.of(&x, config);
        }
        x
    }

    /// The vector of a text's rows, or the scores of its labels.
    fn pooled(&self, x: &[f64]) -> Vec<f64> {
        let first = &x[..self.config.hidden];
        match &self.head {
            Head::Embedding(pooling) => {
                let mut vector = match pooling {
                    Pooling::Mean => kernels::mean_of_rows(x, self.config.hidden),
                    Pooling::First => first.to_vec(),
                };
                kernels::normalize(&mut vector);
                vector
            }
            Head::Classes { dense, output } => {
                let mut inner = dense.times(first);
                inner.iter_mut().for_each(|v| *v = v.tanh());
                output.times(&inner)
            }
        }
    }
}

impl Norm {
    fn of(&self, x: &[f64], config: &EncoderConfig) -> Vec<f64> {
        kernels::layer_norm(x, &self.weight, &self.bias, config.norm_epsilon)
    }

    fn len(&self) -> usize {
        self.weight.len() + self.bias.len()
    }
}

impl Layer {
    /// Every row sees every row of its text: `x` `[tokens, hidden]`, result the same.
    fn attention(&self, x: &[f64], config: &EncoderConfig) -> Vec<f64> {
        let (hidden, head_dim) = (config.hidden, config.hidden / config.heads);
        let [query, key, value] = [&self.query, &self.key, &self.value].map(|m| m.times(x));
        let scale = 1.0 / (head_dim as f64).sqrt();
        let mut attended = Vec::with_capacity(x.len());
        for row in query.chunks_exact(hidden) {
            for (head, query) in row.chunks_exact(head_dim).enumerate() {
                let of = |rows: &'_ [f64]| -> Vec<Vec<f64>> {
                    let rows = rows.chunks_exact(hidden);
                    rows.map(|row| row[head * head_dim..][..head_dim].to_vec())
                        .collect()
                };
                let (keys, values) = (of(&key), of(&value));
                let keys: Vec<&[f64]> = keys.iter().map(Vec::as_slice).collect();
                let values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
                attended.extend(kernels::attention(query, &keys, &values, scale, None, None));
            }
        }
        self.output.times(&attended)
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
        matrices.iter().map(|m| m.len()).sum::<usize>()
            + self.output_norm.len()
            + self.down_norm.len()
    }
}

impl Encoder for ReferenceEncoder {
    fn output(&self) -> EncoderOutput {
        match self.head {
            Head::Embedding(_) => EncoderOutput::Embedding,
            Head::Classes { .. } => EncoderOutput::Scores,
        }
    }

    fn width(&self) -> usize {
        match &self.head {
            Head::Embedding(_) => self.config.hidden,
            Head::Classes { output, .. } => output.rows(),
        }
    }

    fn context(&self) -> usize {
        self.config.context
    }

    fn max_rows(&self) -> usize {
        self.max_rows
    }

    fn memory(&self) -> u64 {
        let elements = [&self.words, &self.positions, &self.types]
            .map(Matrix::len)
            .iter()
            .sum::<usize>()
            + self.norm.len()
            + self.layers.iter().map(Layer::len).sum::<usize>()
            + match &self.head {
                Head::Embedding(_) => 0,
                Head::Classes { dense, output } => dense.len() + output.len(),
            };
        (elements * size_of::<f64>()) as u64
    }

    fn encode(&mut self, texts: &[&[u32]], vectors: &mut Vec<f32>) -> Result<(), DecodeError> {
        let mut wide = Vec::new();
        self.wide_encode(texts, &mut wide)?;
        vectors.clear();
        vectors.extend(wide.into_iter().map(|v| v as f32));
        Ok(())
    }
}
