//! A decoder on paper: what would run on a device that is not at hand.

use tidegate_weights::Checkpoint;

use super::loading::DecoderLoading;
use super::sizes::{DecoderSizes, decoder_config, weight_bytes};
use super::{DecoderOptions, MemoryReport};
use crate::kernels::KernelSet;
use crate::load_error::LoadError;
use crate::matrix::Arrived;
use crate::program::Plan;
use crate::site::{Site, Traits};

/// The dispatches of a step of a decoder with these kernels on a device with these traits, and what it would take there. No weight
/// is read.
///
/// # Errors
/// As `GpuDecoder::load`, for everything that can be known without a device.
pub(crate) fn plan_on_paper(
    checkpoint: &Checkpoint,
    options: &DecoderOptions,
    traits: Traits,
    kernels: KernelSet,
) -> Result<(Plan, MemoryReport), LoadError> {
    let config = decoder_config(checkpoint)?;
    options.check(config)?;
    let sizes = DecoderSizes::new(config, options, kernels);
    let mut memory = sizes.report(weight_bytes(checkpoint, config, options)?);
    let loading = DecoderLoading {
        site: Site::Paper(traits),
        checkpoint,
        config,
        sizes: &sizes,
        options,
        kernels,
        total: memory.total(),
        arrived: Arrived::new(memory.weights, &|_, _| {}),
    };
    let step_buffers = loading.step_buffers()?;
    let (plan, scratch) = loading.plan(&step_buffers)?;
    memory.activations += scratch;
    Ok((plan, memory))
}
