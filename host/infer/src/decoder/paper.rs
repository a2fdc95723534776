//! A decoder on paper: what would run on a device that is not at hand.

use tidegate_contract::StepSequence;
use tidegate_weights::Checkpoint;

use super::fusion::Fusion;
use super::loading::DecoderLoading;
use super::lora::LoraSizes;
use super::passes::Piece;
use super::scratch::AttentionScratch;
use super::sizes::{DecoderSizes, check_turns, decoder_config, tested, weight_bytes};
use super::{DecoderOptions, MemoryReport};
use crate::kernels::{KernelSet, Together, products_by_name, rows_together};
use crate::load_error::LoadError;
use crate::matrix::Arrived;
use crate::program::Plan;
use crate::site::{Site, Traits};

/// A decoder that is not there.
pub(crate) struct PaperDecoder {
    /// The dispatches of a pass.
    pub(crate) plan: Plan,
    /// What it would take on the device.
    pub(crate) memory: MemoryReport,
    /// Rows and samples of a pass.
    pass: [usize; 2],
    scratch: AttentionScratch,
    /// The kernels of its products, by name.
    pub(crate) products: String,
    /// How its attention takes rows together.
    pub(crate) together: Together,
}

impl PaperDecoder {
    /// The passes of a step.
    pub(crate) fn passes(&self, step: &[StepSequence]) -> Vec<Vec<Piece>> {
        self.scratch.passes(step, self.pass)
    }
}

/// A decoder with these kernels on a device with these traits. No matrix of weights is read; norms and biases are.
///
/// # Errors
/// As `GpuDecoder::load`, for everything that can be known without a device.
pub(crate) fn on_paper(
    checkpoint: &Checkpoint,
    options: &DecoderOptions,
    traits: Traits,
    kernels: KernelSet,
) -> Result<PaperDecoder, LoadError> {
    let config = decoder_config(checkpoint)?;
    options.check(config)?;
    check_turns(config, options, kernels, || "this device".to_owned())?;
    let fusion = Fusion::of(config, options.kv, kernels, traits);
    let sizes = DecoderSizes {
        loras: LoraSizes::of(checkpoint, config)?,
        ..DecoderSizes::new(config, options, kernels, fusion)
    };
    let mut memory = sizes.report(weight_bytes(checkpoint, config, options)?);
    let loading = DecoderLoading {
        site: Site::Paper(traits),
        checkpoint,
        config,
        sizes: &sizes,
        fusion,
        options,
        kernels,
        total: memory.total(),
        arrived: Arrived::new(memory.weights, &|_, _| {}),
    };
    let step_buffers = loading.step_buffers()?;
    let (plan, scratch) = loading.plan(&step_buffers)?;
    memory.activations += scratch;
    Ok(PaperDecoder {
        plan,
        memory,
        pass: [sizes.rows, sizes.samples],
        scratch: sizes.scratch,
        together: rows_together(
            kernels.base,
            [config.heads, config.kv_heads, config.head_dim],
        ),
        products: products_by_name(kernels, &tested(checkpoint, config, options, fusion)?),
    })
}
