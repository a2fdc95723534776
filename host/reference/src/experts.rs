//! The feed-forward layer of a decoder: one for all rows, or experts of which each row goes through some.

use tidegate_weights::{
    Activation, Checkpoint, ClampedGate, DecoderTensor, Experts, LayerTensor, ModelConfig,
};

use crate::error::LoadError;
use crate::kernels;
use crate::weights::Matrix;

/// `down(act(gate(x)) * up(x))`, or with a clamped gate.
pub(crate) struct Gated {
    gate: Matrix,
    up: Matrix,
    down: Matrix,
    clamped: Option<ClampedGate>,
}

/// What a layer's rows go through after attention.
pub(crate) enum FeedForward {
    Dense(Gated),
    Experts {
        /// `[experts, hidden]`
        router: Matrix,
        experts: Vec<Gated>,
        /// The shared expert, and its own router `[1, hidden]`.
        shared: Option<(Gated, Matrix)>,
        /// Experts of a row.
        chosen: usize,
        normalized: bool,
    },
}

impl Gated {
    fn read(
        checkpoint: &Checkpoint,
        layer: usize,
        [gate, up, down]: [LayerTensor; 3],
    ) -> Result<Gated, LoadError> {
        Ok(Gated {
            gate: matrix(checkpoint, layer, gate)?,
            up: matrix(checkpoint, layer, up)?,
            down: matrix(checkpoint, layer, down)?,
            clamped: None,
        })
    }

    /// That of an expert.
    fn expert(
        checkpoint: &Checkpoint,
        layer: usize,
        expert: usize,
        clamped: Option<ClampedGate>,
    ) -> Result<Gated, LoadError> {
        let matrix = |part, bias| biased(checkpoint, layer, part, clamped.map(|_| bias));
        Ok(Gated {
            gate: matrix(
                LayerTensor::ExpertGate(expert),
                LayerTensor::ExpertGateBias(expert),
            )?,
            up: matrix(
                LayerTensor::ExpertUp(expert),
                LayerTensor::ExpertUpBias(expert),
            )?,
            down: matrix(
                LayerTensor::ExpertDown(expert),
                LayerTensor::ExpertDownBias(expert),
            )?,
            clamped,
        })
    }

    fn of(&self, x: &[f64], activation: Activation) -> Vec<f64> {
        let (gate, up) = (self.gate.times(x), self.up.times(x));
        let active = match self.clamped {
            Some(of) => kernels::clamped_gate(of, &gate, &up),
            None => kernels::gated(activation, &gate, &up),
        };
        self.down.times(&active)
    }

    fn len(&self) -> usize {
        self.gate.len() + self.up.len() + self.down.len()
    }
}

impl FeedForward {
    /// That of a layer.
    pub(crate) fn read(
        checkpoint: &Checkpoint,
        config: &ModelConfig,
        layer: usize,
    ) -> Result<FeedForward, LoadError> {
        let Some(of) = config.experts_of(layer) else {
            let tensors = [LayerTensor::Gate, LayerTensor::Up, LayerTensor::Down];
            return Ok(FeedForward::Dense(Gated::read(checkpoint, layer, tensors)?));
        };
        let Experts {
            count,
            chosen,
            normalized,
            shared,
            clamped,
            ..
        } = *of;
        let expert = |expert| Gated::expert(checkpoint, layer, expert, clamped);
        let bias = clamped.map(|_| LayerTensor::RouterBias);
        let shared = match shared {
            Some(_) => {
                let tensors = [
                    LayerTensor::SharedGate,
                    LayerTensor::SharedUp,
                    LayerTensor::SharedDown,
                ];
                Some((
                    Gated::read(checkpoint, layer, tensors)?,
                    matrix(checkpoint, layer, LayerTensor::SharedRouter)?,
                ))
            }
            None => None,
        };
        Ok(FeedForward::Experts {
            router: biased(checkpoint, layer, LayerTensor::Router, bias)?,
            experts: (0..count).map(expert).collect::<Result<_, _>>()?,
            shared,
            chosen,
            normalized,
        })
    }

    /// What becomes of a row `[hidden]`, normed.
    pub(crate) fn of(&self, x: &[f64], activation: Activation) -> Vec<f64> {
        match self {
            FeedForward::Dense(gated) => gated.of(x, activation),
            FeedForward::Experts {
                router,
                experts,
                shared,
                chosen,
                normalized,
            } => {
                let mut sum = vec![0.0; x.len()];
                let mut add = |weight: f64, of: &Gated| {
                    let of = of.of(x, activation);
                    sum.iter_mut().zip(of).for_each(|(s, v)| *s += weight * v);
                };
                for (index, weight) in kernels::route(&router.times(x), *chosen, *normalized) {
                    add(weight, &experts[index]);
                }
                if let Some((of, router)) = shared {
                    let logit = router.times(x)[0];
                    add(1.0 / (1.0 + (-logit).exp()), of);
                }
                sum
            }
        }
    }

    /// Elements of all tensors.
    pub(crate) fn len(&self) -> usize {
        match self {
            FeedForward::Dense(gated) => gated.len(),
            FeedForward::Experts {
                router,
                experts,
                shared,
                ..
            } => {
                let shared = shared.as_ref();
                router.len()
                    + experts.iter().map(Gated::len).sum::<usize>()
                    + shared.map_or(0, |(of, router)| of.len() + router.len())
            }
        }
    }
}

fn matrix(checkpoint: &Checkpoint, layer: usize, tensor: LayerTensor) -> Result<Matrix, LoadError> {
    biased(checkpoint, layer, tensor, None)
}

fn biased(
    checkpoint: &Checkpoint,
    layer: usize,
    tensor: LayerTensor,
    bias: Option<LayerTensor>,
) -> Result<Matrix, LoadError> {
    let of = |part| checkpoint.tensor(DecoderTensor::Layer(layer, part));
    Ok(Matrix::read(&of(tensor)?, bias.map(of).transpose()?)?)
}
