//! The tensors of a model and their shapes, from its configuration alone.

use super::{DecoderTensor, EncoderLayerTensor, EncoderTensor, LayerTensor};
use crate::config::{EncoderBiases, EncoderConfig, ModelConfig};

const LAYER_TENSORS: [LayerTensor; 24] = [
    LayerTensor::AttentionNorm,
    LayerTensor::Query,
    LayerTensor::QueryBias,
    LayerTensor::Key,
    LayerTensor::KeyBias,
    LayerTensor::Value,
    LayerTensor::ValueBias,
    LayerTensor::QueryNorm,
    LayerTensor::KeyNorm,
    LayerTensor::Output,
    LayerTensor::OutputBias,
    LayerTensor::Sinks,
    LayerTensor::PostAttentionNorm,
    LayerTensor::MlpNorm,
    LayerTensor::Gate,
    LayerTensor::Up,
    LayerTensor::Down,
    LayerTensor::PostMlpNorm,
    LayerTensor::Router,
    LayerTensor::RouterBias,
    LayerTensor::SharedRouter,
    LayerTensor::SharedGate,
    LayerTensor::SharedUp,
    LayerTensor::SharedDown,
];

const ENCODER_LAYER_TENSORS: [EncoderLayerTensor; 23] = [
    EncoderLayerTensor::AttentionNorm,
    EncoderLayerTensor::AttentionNormBias,
    EncoderLayerTensor::Query,
    EncoderLayerTensor::QueryBias,
    EncoderLayerTensor::Key,
    EncoderLayerTensor::KeyBias,
    EncoderLayerTensor::Value,
    EncoderLayerTensor::ValueBias,
    EncoderLayerTensor::QueryNorm,
    EncoderLayerTensor::KeyNorm,
    EncoderLayerTensor::Output,
    EncoderLayerTensor::OutputBias,
    EncoderLayerTensor::OutputNorm,
    EncoderLayerTensor::OutputNormBias,
    EncoderLayerTensor::UpNorm,
    EncoderLayerTensor::UpNormBias,
    EncoderLayerTensor::Gate,
    EncoderLayerTensor::Up,
    EncoderLayerTensor::UpBias,
    EncoderLayerTensor::Down,
    EncoderLayerTensor::DownBias,
    EncoderLayerTensor::DownNorm,
    EncoderLayerTensor::DownNormBias,
];

impl ModelConfig {
    /// Every tensor of the model, in a fixed order.
    pub fn tensors(&self) -> impl Iterator<Item = DecoderTensor> + '_ {
        let outside = [
            DecoderTensor::Embedding,
            DecoderTensor::FinalNorm,
            DecoderTensor::Head,
        ];
        let layers = (0..self.layers.len()).flat_map(|layer| {
            let experts = self.experts_of(layer).map_or(0, |experts| experts.count);
            let of_experts = (0..experts).flat_map(|expert| {
                [
                    LayerTensor::ExpertGate(expert),
                    LayerTensor::ExpertUp(expert),
                    LayerTensor::ExpertDown(expert),
                    LayerTensor::ExpertGateBias(expert),
                    LayerTensor::ExpertUpBias(expert),
                    LayerTensor::ExpertDownBias(expert),
                ]
            });
            let tensors = LAYER_TENSORS.into_iter().chain(of_experts);
            tensors.map(move |tensor| DecoderTensor::Layer(layer, tensor))
        });
        outside
            .into_iter()
            .chain(layers)
            .filter(|tensor| self.shape(*tensor).is_some())
    }

    /// The shape of a tensor: `[rows, width]`, or `[width]`; nothing if the model has no such tensor.
    #[must_use]
    pub fn shape(&self, tensor: DecoderTensor) -> Option<Vec<usize>> {
        let (hidden, intermediate) = (self.hidden, self.intermediate);
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let (there, shape) = match tensor {
            DecoderTensor::Embedding => (true, vec![self.vocabulary, hidden]),
            DecoderTensor::FinalNorm => (true, vec![hidden]),
            DecoderTensor::Head => (!self.tied, vec![self.vocabulary, hidden]),
            DecoderTensor::Layer(layer, _) if layer >= self.layers.len() => (false, Vec::new()),
            DecoderTensor::Layer(layer, tensor) => match tensor {
                LayerTensor::AttentionNorm | LayerTensor::MlpNorm => (true, vec![hidden]),
                LayerTensor::Query => (true, vec![query, hidden]),
                LayerTensor::Key | LayerTensor::Value => (true, vec![key, hidden]),
                LayerTensor::QueryBias => (self.qkv_bias, vec![query]),
                LayerTensor::KeyBias | LayerTensor::ValueBias => (self.qkv_bias, vec![key]),
                LayerTensor::QueryNorm | LayerTensor::KeyNorm => {
                    (self.head_norms, vec![self.head_dim])
                }
                LayerTensor::Output => (true, vec![hidden, query]),
                LayerTensor::OutputBias => (self.output_bias, vec![hidden]),
                LayerTensor::Sinks => (self.sinks, vec![self.heads]),
                LayerTensor::PostAttentionNorm | LayerTensor::PostMlpNorm => {
                    (self.post_norms, vec![hidden])
                }
                LayerTensor::Gate | LayerTensor::Up => {
                    let dense = self.experts_of(layer).is_none();
                    (dense, vec![intermediate, hidden])
                }
                LayerTensor::Down => {
                    let dense = self.experts_of(layer).is_none();
                    (dense, vec![hidden, intermediate])
                }
                tensor => return self.shape_of_experts(layer, tensor),
            },
        };
        there.then_some(shape)
    }

    /// The shape of what only layers with experts have.
    fn shape_of_experts(&self, layer: usize, tensor: LayerTensor) -> Option<Vec<usize>> {
        let (experts, hidden) = (self.experts_of(layer)?, self.hidden);
        let width = experts.intermediate;
        match tensor {
            LayerTensor::Router => Some(vec![experts.count, hidden]),
            LayerTensor::ExpertGate(expert) | LayerTensor::ExpertUp(expert) => {
                (expert < experts.count).then(|| vec![width, hidden])
            }
            LayerTensor::ExpertDown(expert) => {
                (expert < experts.count).then(|| vec![hidden, width])
            }
            LayerTensor::RouterBias => experts.clamped.map(|_| vec![experts.count]),
            LayerTensor::ExpertGateBias(expert) | LayerTensor::ExpertUpBias(expert) => {
                let there = experts.clamped.is_some() && expert < experts.count;
                there.then(|| vec![width])
            }
            LayerTensor::ExpertDownBias(expert) => {
                let there = experts.clamped.is_some() && expert < experts.count;
                there.then(|| vec![hidden])
            }
            LayerTensor::SharedRouter => experts.shared.map(|_| vec![1, hidden]),
            LayerTensor::SharedGate | LayerTensor::SharedUp => {
                experts.shared.map(|width| vec![width, hidden])
            }
            LayerTensor::SharedDown => experts.shared.map(|width| vec![hidden, width]),
            _ => None,
        }
    }

    /// Parameters of the model, counted once where the head is tied.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.tensors()
            .filter_map(|tensor| self.shape(tensor))
            .map(|shape| elements(&shape))
            .sum()
    }
}

impl EncoderConfig {
    /// Every tensor of the model, in a fixed order.
    pub fn tensors(&self) -> impl Iterator<Item = EncoderTensor> + '_ {
        let outside = [
            EncoderTensor::Words,
            EncoderTensor::Positions,
            EncoderTensor::Types,
            EncoderTensor::Norm,
            EncoderTensor::NormBias,
            EncoderTensor::FinalNorm,
            EncoderTensor::FinalNormBias,
            EncoderTensor::HeadDense,
            EncoderTensor::HeadDenseBias,
            EncoderTensor::HeadNorm,
            EncoderTensor::HeadNormBias,
            EncoderTensor::HeadOutput,
            EncoderTensor::HeadOutputBias,
        ];
        let layers = (0..self.layers.len()).flat_map(|layer| {
            ENCODER_LAYER_TENSORS.map(|tensor| EncoderTensor::Layer(layer, tensor))
        });
        outside
            .into_iter()
            .chain(layers)
            .filter(|tensor| self.shape(*tensor).is_some())
    }

    /// The shape of a tensor: `[rows, width]`, or `[width]`; nothing if the model has no such tensor.
    #[must_use]
    pub fn shape(&self, tensor: EncoderTensor) -> Option<Vec<usize>> {
        let hidden = self.hidden;
        let norms = self.biases.norms;
        let labels = self.head.scores();
        let scoring = self.scoring.as_ref();
        let (there, shape) = match tensor {
            EncoderTensor::Words => (true, vec![self.vocabulary, hidden]),
            EncoderTensor::Positions => (self.positions > 0, vec![self.positions, hidden]),
            EncoderTensor::Types => (self.types > 0, vec![self.types, hidden]),
            EncoderTensor::Norm => (self.first_norm, vec![hidden]),
            EncoderTensor::NormBias => (self.first_norm && norms, vec![hidden]),
            EncoderTensor::FinalNorm => (self.pre_norm, vec![hidden]),
            EncoderTensor::FinalNormBias => (self.pre_norm && norms, vec![hidden]),
            EncoderTensor::HeadDense => (scoring.is_some(), vec![hidden, hidden]),
            EncoderTensor::HeadDenseBias => (scoring.is_some_and(|of| of.bias), vec![hidden]),
            EncoderTensor::HeadNorm => (scoring.is_some_and(|of| of.norm), vec![hidden]),
            EncoderTensor::HeadNormBias => {
                (scoring.is_some_and(|of| of.norm) && norms, vec![hidden])
            }
            EncoderTensor::HeadOutput => (labels.is_some(), vec![labels?, hidden]),
            EncoderTensor::HeadOutputBias => (labels.is_some(), vec![labels?]),
            EncoderTensor::Layer(layer, _) if layer >= self.layers.len() => return None,
            EncoderTensor::Layer(layer, part) => return self.layer_shape(layer, part),
        };
        there.then_some(shape)
    }

    fn layer_shape(&self, layer: usize, part: EncoderLayerTensor) -> Option<Vec<usize>> {
        use EncoderLayerTensor as Part;
        let (hidden, intermediate) = (self.hidden, self.intermediate);
        let EncoderBiases {
            heads,
            output,
            feed_forward,
            norms,
        } = self.biases;
        let normed = self.is_normed_before(layer);
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let before = self.pre_norm;
        let (there, shape) = match part {
            Part::Query => (true, vec![query, hidden]),
            Part::Key | Part::Value => (true, vec![key, hidden]),
            Part::Output => (true, vec![hidden, query]),
            Part::QueryBias => (heads, vec![query]),
            Part::KeyBias | Part::ValueBias => (heads, vec![key]),
            Part::OutputBias => (output, vec![hidden]),
            Part::QueryNorm | Part::KeyNorm => (self.head_norms, vec![self.head_dim]),
            Part::AttentionNorm => (normed, vec![hidden]),
            Part::AttentionNormBias => (normed && norms, vec![hidden]),
            Part::UpNorm => (before, vec![hidden]),
            Part::UpNormBias => (before && norms, vec![hidden]),
            Part::OutputNorm | Part::DownNorm => (!before, vec![hidden]),
            Part::OutputNormBias | Part::DownNormBias => (!before && norms, vec![hidden]),
            Part::Gate => (self.gated, vec![intermediate, hidden]),
            Part::Up => (true, vec![intermediate, hidden]),
            Part::UpBias => (feed_forward, vec![intermediate]),
            Part::Down => (true, vec![hidden, intermediate]),
            Part::DownBias => (feed_forward, vec![hidden]),
        };
        there.then_some(shape)
    }

    /// Parameters of the model, its head included.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.tensors()
            .filter_map(|tensor| self.shape(tensor))
            .map(|shape| elements(&shape))
            .sum()
    }
}

fn elements(shape: &[usize]) -> u64 {
    shape.iter().map(|n| *n as u64).product()
}
