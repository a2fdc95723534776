//! Products and embeddings by themselves, for the tests and benches of this crate; not for use.

use tidegate_contract::StepSequence;
use tidegate_weights::{Activation, Tensor};

use super::layout::TILE;
use super::{ExpertMatrix, ExpertPacking, Matrix, Packing, StorageFormat};
use crate::kernels::lab::{Experiment, Lab, sequence};
use crate::kernels::{EmbedKernel, Store};
use crate::load_error::LoadError;
use crate::program::Count;
use crate::site::Site;

/// Tokens of one sequence.
fn tokens(tokens: &[u32]) -> StepSequence {
    StepSequence {
        tokens: tokens.to_vec(),
        ..sequence(0, 0, &[0; 512])
    }
}

impl Lab {
    /// Rows of an embedding `[tokens, width]` for `ids`, then for `drawn` as the step before leaves them, the last of them first,
    /// times `scale`; output `[ids and drawn, width padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn embed(
        &self,
        table: Tensor<'_>,
        ids: &[u32],
        drawn: &[u32],
        scale: f32,
    ) -> Result<Experiment, LoadError> {
        let table = self.pack(Packing::plain(table))?;
        let fed = (0..drawn.len() as u32).rev();
        let ids: Vec<u32> = (ids.iter().copied())
            .chain(fed.map(|sampling| EmbedKernel::FED + sampling))
            .collect();
        let results: Vec<u32> = drawn.iter().flat_map(|token| [*token, 1]).collect();
        let drawn = match results.as_slice() {
            [] => None,
            results => Some(self.buffer(results)?),
        };
        let output = self.output(ids.len() * table.width);
        self.experiment(&[tokens(&ids)], vec![output.clone()], |builder, _| {
            builder.embed(&table, drawn.as_ref(), &output, scale)
        })
    }

    /// `input` `[rows, width]` times `weights` `[columns, width]`, one or several of them stacked, added to `residual` `[rows,
    /// columns]` if there is one; output `[rows, columns padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn matmul(
        &self,
        weights: Vec<Tensor<'_>>,
        input: &[f32],
        residual: Option<&[f32]>,
    ) -> Result<Experiment, LoadError> {
        let (columns, width) = sizes(&weights);
        let matrix = self.pack(Packing::stacked(weights))?;
        let rows = input.len() / width;
        let input = self.padded(input, width)?;
        let (store, output) = match residual {
            None => (Store::Plain, self.output(rows * matrix.columns)),
            Some(residual) => (Store::Residual, self.padded(residual, columns)?),
        };
        self.experiment(
            &[tokens(&vec![0; rows])],
            vec![output.clone()],
            |builder, _| builder.matmul(&matrix, [&input, &output], store, Count::Rows),
        )
    }

    /// activation(`input` · gateᵀ) * (`input` · upᵀ), both `[columns, width]`; output `[rows, columns padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn gated(
        &self,
        [gate, up]: [Tensor<'_>; 2],
        activation: Activation,
        input: &[f32],
    ) -> Result<Experiment, LoadError> {
        let width = gate.width();
        let matrix = self.pack(Packing::alternating(gate, up))?;
        let rows = input.len() / width;
        let input = self.padded(input, width)?;
        let output = self.output(rows * matrix.columns / 2);
        self.experiment(
            &[tokens(&vec![0; rows])],
            vec![output.clone()],
            |builder, _| {
                let store = Store::Gated(activation);
                builder.matmul(&matrix, [&input, &output], store, Count::Rows)
            },
        )
    }

    /// activation(`input` · weightsᵀ + `bias`); output `[rows, columns padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn biased(
        &self,
        weights: Tensor<'_>,
        bias: &[f32],
        activation: Option<Activation>,
        input: &[f32],
    ) -> Result<Experiment, LoadError> {
        let width = weights.width();
        let matrix = self.pack(Packing::plain(weights))?;
        let rows = input.len() / width;
        let [input, bias] = [self.padded(input, width)?, self.padded(bias, bias.len())?];
        let output = self.output(rows * matrix.columns);
        self.experiment(
            &[tokens(&vec![0; rows])],
            vec![output.clone()],
            |builder, _| {
                builder.matmul_bias(&matrix, &bias, [&input, &output], activation, Count::Rows)
            },
        )
    }

    /// Bytes that these weights were guessed to take on the device, and those they take: stacked; or in turn, if there are two
    /// and `alternating` says so.
    ///
    /// # Errors
    /// The device failed.
    pub fn packed_bytes(
        &self,
        weights: Vec<Tensor<'_>>,
        alternating: bool,
    ) -> Result<[u64; 2], LoadError> {
        let packing = match <[Tensor<'_>; 2]>::try_from(weights) {
            Ok([a, b]) if alternating => Packing::alternating(a, b),
            Ok(two) => Packing::stacked(two.into()),
            Err(weights) => Packing::stacked(weights),
        };
        let guessed = packing.bytes();
        Ok([guessed, self.pack(packing)?.bytes()])
    }

    /// The same with every product summed in one order at any number of rows.
    #[must_use]
    pub fn reproducible(mut self) -> Lab {
        self.kernels.reproducible = true;
        self
    }

    /// The same in shards of a few rows.
    pub(crate) fn pack_in_shards(
        &self,
        packing: Packing<'_>,
        stored: StorageFormat,
    ) -> Result<Matrix, LoadError> {
        let tile = TILE * stored.row_bytes(packing.groups());
        let gpu = self.gpu.narrowed(tile as u64);
        packing.upload(Site::Device(&gpu), self.kernels, "matrix", 0)
    }

    /// Matrices of experts in shards of a few of them.
    pub(crate) fn pack_experts(
        &self,
        packing: ExpertPacking<'_>,
        experts: u64,
    ) -> Result<ExpertMatrix, LoadError> {
        let gpu = self.gpu.narrowed(experts * packing.largest());
        packing.upload(Site::Device(&gpu), self.kernels, "matrix", 0)
    }

    /// Weights as they are packed for these kernels.
    pub(crate) fn pack(&self, packing: Packing<'_>) -> Result<Matrix, LoadError> {
        packing.upload(Site::Device(&self.gpu), self.kernels, "matrix", 0)
    }
}

fn sizes(weights: &[Tensor<'_>]) -> (usize, usize) {
    let columns = weights.iter().map(Tensor::rows).sum();
    (columns, weights.first().map_or(1, Tensor::width))
}
