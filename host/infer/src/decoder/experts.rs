//! Layers of which each row goes through some experts: their tensors, their buffers and their dispatches.
//!
//! Which experts a row goes through is decided on the device, and weights of the others are not read: the router's product, the
//! choice, pairs of rows and experts brought together by expert, two products with them, and the sum of a row's outputs in the
//! order of the choice. So a row has the same bits whatever is beside it.

use tidegate_weights::{
    Activation, Checkpoint, ClampedGate, DecoderTensor, Experts, LayerTensor, ModelConfig, Tensor,
};

use super::loading::DecoderLoading;
use crate::buffer::Buffer;
use crate::kernels::{CombinedWith, NormStore, Routing, Store, Tested};
use crate::load_error::LoadError;
use crate::matrix::{ExpertInput, ExpertMatrix, ExpertPacking, Matrix, Packing, padded};
use crate::program::{Builder, Count};

/// The matrices of a layer's feed-forward part, to be packed.
pub(super) enum FeedForward<'a> {
    /// Gate and up; down.
    Dense([Packing<'a>; 2]),
    Experts(Box<ExpertMatrices<'a>>),
}

/// Those of a layer with experts.
pub(super) struct ExpertMatrices<'a> {
    /// The router, and below it the gate of the shared expert if there is one.
    router: Packing<'a>,
    gate_up: ExpertPacking<'a>,
    down: ExpertPacking<'a>,
    shared: Option<[Packing<'a>; 2]>,
    clamped: Option<Clamped>,
}

/// What gpt-oss has beside the matrices: biases, which are read when they are uploaded, and a clamped gate.
struct Clamped {
    layer: usize,
    gate: ClampedGate,
    /// Of the biases on the device.
    bytes: u64,
}

impl<'a> FeedForward<'a> {
    /// That of a layer.
    pub(super) fn of(
        checkpoint: &'a Checkpoint,
        config: &ModelConfig,
        layer: usize,
    ) -> Result<FeedForward<'a>, LoadError> {
        use LayerTensor as Part;
        let part = |part| -> Result<Tensor<'a>, LoadError> {
            Ok(checkpoint.tensor(DecoderTensor::Layer(layer, part))?)
        };
        let Some(experts) = config.experts_of(layer) else {
            return Ok(FeedForward::Dense([
                Packing::alternating(part(Part::Gate)?, part(Part::Up)?),
                Packing::plain(part(Part::Down)?),
            ]));
        };
        let mut router = vec![part(Part::Router)?];
        let (mut gate_up, mut down) = (Vec::new(), Vec::new());
        for expert in 0..experts.count {
            gate_up.push(vec![
                part(Part::ExpertGate(expert))?,
                part(Part::ExpertUp(expert))?,
            ]);
            down.push(vec![part(Part::ExpertDown(expert))?]);
        }
        let shared = match experts.shared {
            Some(_) => {
                router.push(part(Part::SharedRouter)?);
                Some([
                    Packing::alternating(part(Part::SharedGate)?, part(Part::SharedUp)?),
                    Packing::plain(part(Part::SharedDown)?),
                ])
            }
            None => None,
        };
        Ok(FeedForward::Experts(Box::new(ExpertMatrices {
            router: Packing::stacked(router),
            gate_up: ExpertPacking::new(gate_up),
            down: ExpertPacking::new(down),
            shared,
            clamped: experts.clamped.map(|gate| Clamped {
                layer,
                gate,
                bytes: bias_bytes(config, experts),
            }),
        })))
    }

    /// The tensors that are widened to f32, and how many bytes more each takes for it.
    pub(super) fn widened(&self) -> Vec<(&Tensor<'a>, u64)> {
        match self {
            FeedForward::Dense(matrices) => matrices.iter().flat_map(Packing::widened).collect(),
            FeedForward::Experts(of) => {
                let shared = of.shared.iter().flatten().flat_map(Packing::widened);
                let own = of.gate_up.widened().chain(of.down.widened());
                own.chain(of.router.widened()).chain(shared).collect()
            }
        }
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            FeedForward::Dense(matrices) => matrices.iter().map(Packing::bytes).sum(),
            FeedForward::Experts(of) => {
                let shared = of.shared.iter().flatten().map(Packing::bytes);
                let biases = of.clamped.as_ref().map_or(0, |of| of.bytes);
                let own = of.router.bytes() + of.gate_up.bytes() + of.down.bytes();
                own + shared.sum::<u64>() + biases
            }
        }
    }
}

impl ExpertMatrices<'_> {
    /// What of its kernels such a layer runs.
    pub(super) fn tested(&self, activation: Activation, post_norms: bool) -> Vec<Tested> {
        let mut tested = Vec::new();
        let gated = Store::Gated(activation);
        let clamped = self.clamped.is_some();
        let gate_up = if clamped { Store::Plain } else { gated };
        for (of, store) in [(&self.gate_up, gate_up), (&self.down, Store::Plain)] {
            let products = |stored| Tested::ExpertProducts(stored, store);
            tested.extend(of.kinds().map(products));
        }
        let router = if clamped {
            Store::Bias(None)
        } else {
            Store::Plain
        };
        let decision = |stored| Tested::Decision(stored, router);
        tested.extend(self.router.kinds().map(decision));
        let mut products = |of: &Packing<'_>, store| {
            let products = |stored| Tested::Products(stored, store);
            tested.extend(of.kinds().map(products));
        };
        if let Some([gate_up, down]) = &self.shared {
            products(gate_up, gated);
            products(down, Store::Plain);
        }
        let store = if post_norms {
            NormStore::Plain
        } else {
            NormStore::Add
        };
        tested.push(Tested::Routing);
        let with = match &self.shared {
            _ if clamped => CombinedWith::Biases,
            Some(_) => CombinedWith::Shared,
            None => CombinedWith::Nothing,
        };
        tested.extend(clamped.then_some(Tested::Activate));
        tested.push(Tested::Combine(store, with));
        tested
    }
}

/// Bytes of the biases of a layer's router and experts.
fn bias_bytes(config: &ModelConfig, experts: &Experts) -> u64 {
    let each = 2 * padded(experts.intermediate) + padded(config.hidden);
    4 * (padded(experts.count) + experts.count * each) as u64
}

/// The buffers that layers with experts work in.
pub(super) struct ExpertRows {
    logits: Buffer,
    routes: Buffer,
    groups: Buffer,
    /// `[rows, chosen, 2 · intermediate]`, where activations are not made by the product.
    gate_up: Option<Buffer>,
    /// `[rows, chosen, intermediate]`.
    active: Buffer,
    /// `[rows, chosen, hidden]`.
    outputs: Buffer,
    /// `[rows, hidden]` of the shared expert.
    shared: Option<Buffer>,
}

/// Elements of these, each a multiple of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpertSizes {
    routing: Routing,
    /// Logits of a row.
    logits: usize,
    /// Words of a row's routes.
    routes: usize,
    /// Words of all groups.
    groups: usize,
    gate_up: usize,
    active: usize,
    outputs: usize,
    shared: usize,
}

impl ExpertSizes {
    pub(super) fn new(config: &ModelConfig, experts: &Experts, rows: usize) -> ExpertSizes {
        let routing = Routing::of(experts);
        let hidden = padded(config.hidden);
        ExpertSizes {
            routing,
            logits: padded(experts.count + usize::from(routing.shared)),
            routes: 2 * routing.slots() as usize,
            groups: routing.group_words(rows),
            gate_up: match experts.clamped {
                Some(_) => 2 * experts.chosen * padded(experts.intermediate),
                None => 0,
            },
            active: experts.chosen * padded(experts.intermediate),
            outputs: experts.chosen * hidden,
            shared: if routing.shared { hidden } else { 0 },
        }
    }

    /// Elements of all of them.
    pub(super) fn elements(&self, rows: usize) -> usize {
        let products = self.gate_up + self.active + self.outputs + self.shared;
        rows * (self.logits + self.routes + products) + self.groups
    }
}

impl DecoderLoading<'_> {
    /// The buffers of layers with experts, if there are any.
    pub(super) fn expert_rows(&self) -> Result<Option<ExpertRows>, LoadError> {
        let Some(sizes) = &self.sizes.experts else {
            return Ok(None);
        };
        let groups = (sizes.groups * 4) as u64;
        Ok(Some(ExpertRows {
            logits: self.activation("logits of experts", sizes.logits)?,
            routes: self.activation("experts of rows", sizes.routes)?,
            groups: self.storage("rows of experts", groups, "lower max_rows")?,
            gate_up: match sizes.gate_up {
                0 => None,
                gate_up => Some(self.activation("gate and up of experts", gate_up)?),
            },
            active: self.activation("activations of experts", sizes.active)?,
            outputs: self.activation("outputs of experts", sizes.outputs)?,
            shared: match sizes.shared {
                0 => None,
                shared => Some(self.activation("output of the shared expert", shared)?),
            },
        }))
    }

    /// Packs and uploads the matrices of experts.
    fn pack_experts(&self, label: &str, of: ExpertPacking<'_>) -> Result<ExpertMatrix, LoadError> {
        let bytes = of.bytes();
        let matrix = of.upload(self.site, self.kernels, label, self.total)?;
        self.arrived.add(bytes);
        Ok(matrix)
    }

    /// The biases of a layer: the router's `[experts]`; of gate and up in turn `[experts, 2 · width]`, of down `[experts, hidden]`,
    /// widths padded.
    fn biases_of_experts(&self, layer: usize, routing: Routing) -> Result<[Buffer; 3], LoadError> {
        use LayerTensor as Part;
        let vector = |part| -> Result<Vec<f32>, LoadError> {
            let tensor = self.checkpoint.tensor(DecoderTensor::Layer(layer, part))?;
            let mut values = Vec::new();
            tensor.read_row(0, &mut values)?;
            values.resize(padded(values.len()), 0.0);
            Ok(values)
        };
        let (mut gate_up, mut down) = (Vec::new(), Vec::new());
        for expert in 0..routing.experts as usize {
            let gate = vector(Part::ExpertGateBias(expert))?;
            let up = vector(Part::ExpertUpBias(expert))?;
            let turns = gate.iter().zip(&up);
            gate_up.extend(turns.flat_map(|(gate, up)| [*gate, *up]));
            down.extend(vector(Part::ExpertDownBias(expert))?);
        }
        Ok([
            self.upload("biases of the router", &vector(Part::RouterBias)?)?,
            self.upload("biases of gate and up of experts", &gate_up)?,
            self.upload("biases of down of experts", &down)?,
        ])
    }

    /// The feed-forward part of a layer with experts: `normed` rows go through them, and what comes of it goes to `output` as `store`
    /// says. `active` are the activations of the shared expert, if there is one.
    pub(super) fn through_experts(
        &self,
        builder: &mut Builder<'_>,
        of: ExpertMatrices<'_>,
        rows: &ExpertRows,
        [normed, active, output]: [&Buffer; 3],
        store: NormStore,
    ) -> Result<(), LoadError> {
        let Some(sizes) = &self.sizes.experts else {
            return Ok(());
        };
        let routing = sizes.routing;
        let router = self.pack("router", of.router)?;
        let gate_up = self.pack_experts("gate and up of experts", of.gate_up)?;
        let down = self.pack_experts("down of experts", of.down)?;
        let gated = Store::Gated(self.config.activation);
        let biases = match &of.clamped {
            Some(of) => Some(self.biases_of_experts(of.layer, routing)?),
            None => None,
        };
        let router_bias = biases.as_ref().map(|[router, ..]| router);
        builder.matmul_decision(&router, router_bias, [normed, &rows.logits])?;
        builder.route(routing, [&rows.logits, &rows.routes], router.columns)?;
        builder.group(routing, [&rows.routes, &rows.groups], self.sizes.rows)?;
        let input = ExpertInput {
            rows: normed,
            each: false,
            groups: &rows.groups,
        };
        let width = gate_up.columns / 2;
        match (&rows.gate_up, &of.clamped, &biases) {
            (Some(sums), Some(of), Some([_, biases, _])) => {
                builder.matmul_experts(&gate_up, routing, input, (sums, Store::Plain))?;
                let buffers = [&rows.routes, sums, &rows.active];
                builder.activate(routing, buffers, biases, width, of.gate)?;
            }
            _ => builder.matmul_experts(&gate_up, routing, input, (&rows.active, gated))?,
        }
        let input = ExpertInput {
            rows: &rows.active,
            each: true,
            groups: &rows.groups,
        };
        builder.matmul_experts(&down, routing, input, (&rows.outputs, Store::Plain))?;
        if let (Some([gate_up, down]), Some(shared)) = (of.shared, &rows.shared) {
            let gate_up: Matrix = self.pack("gate and up of the shared expert", gate_up)?;
            let down: Matrix = self.pack("down of the shared expert", down)?;
            builder.matmul(&gate_up, [normed, active], gated, Count::Rows)?;
            builder.matmul(&down, [active, shared], Store::Plain, Count::Rows)?;
        }
        let width = padded(self.config.hidden);
        let buffers = [&rows.routes, &rows.outputs, output];
        let shared = rows.shared.as_ref();
        let beside = match &biases {
            Some([.., down]) => Some((CombinedWith::Biases, down)),
            None => shared.map(|shared| (CombinedWith::Shared, shared)),
        };
        builder.combine(routing, buffers, beside, width, store)
    }
}
