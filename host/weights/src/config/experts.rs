//! Mixtures of experts: feed-forward layers of which each row goes through some.

use super::ModelConfig;

/// The experts of a model.
///
/// A row `x` of a layer that has them, normed, gets a logit for each from the router, and goes through the `chosen` with the
/// highest; of equal ones the first count. Each of these gives `down(act(gate(x)) * up(x))` times its weight: its share of
/// the softmax over all logits, or over those of the chosen alone where `normalized`. Their sum is the layer's output, with
/// `sigmoid(shared_gate(x))` times that of the shared expert where there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// Experts of a layer, at most [`Experts::MOST`].
    pub count: usize,
    /// Experts that a row goes through; at most `count`.
    pub chosen: usize,
    /// Width of each.
    pub intermediate: usize,
    /// Whether the weights of the chosen sum to 1.
    pub normalized: bool,
    /// Width of the expert that every row goes through (Qwen2-MoE).
    pub shared: Option<usize>,
    /// Whether each layer has experts; one entry for each.
    pub layers: Vec<bool>,
    /// gpt-oss: the router has a bias, gate, up and down of each expert have biases, and this takes the place of `act(gate) * up`.
    pub clamped: Option<ClampedGate>,
}

/// What gpt-oss has between the matrices of an expert: `(clamp(up, -limit, limit) + 1) * g * sigmoid(slope * g)` with `g` the
/// lesser of `gate` and `limit` (`GptOssExperts` in transformers' `modeling_gpt_oss.py`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClampedGate {
    /// Factor of the gate in the sigmoid.
    pub slope: f64,
    /// Where gate and up are cut off.
    pub limit: f64,
}

impl ClampedGate {
    /// That of the published models.
    pub const PUBLISHED: ClampedGate = ClampedGate {
        slope: 1.702,
        limit: 7.0,
    };
}

impl Experts {
    /// Most experts of a layer.
    pub const MOST: usize = 1 << 10;
}

impl ModelConfig {
    /// The experts of a layer, if it has any.
    #[must_use]
    pub fn experts_of(&self, layer: usize) -> Option<&Experts> {
        let experts = self.experts.as_ref()?;
        experts.layers.get(layer)?.then_some(experts)
    }

    /// Whether some layer has no experts.
    #[must_use]
    pub fn has_dense_layers(&self) -> bool {
        (0..self.layers.len()).any(|layer| self.experts_of(layer).is_none())
    }

    /// Parameters that a row goes through: those of all experts but the ones that are not chosen.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        let Some(experts) = &self.experts else {
            return self.parameters();
        };
        let layers = experts.layers.iter().filter(|has| **has).count() as u64;
        let (width, hidden) = (experts.intermediate as u64, self.hidden as u64);
        let biases = match experts.clamped {
            Some(_) => 2 * width + hidden,
            None => 0,
        };
        let each = 3 * width * hidden + biases;
        let left = experts.count.saturating_sub(experts.chosen) as u64;
        self.parameters().saturating_sub(layers * left * each)
    }
}
