//! Which of the small dispatches of a layer those beside them do.

use tidegate_weights::ModelConfig;

use crate::device::Features;
use crate::kernels::{
    Base, HEADS_BUFFERS, KernelSet, KernelVariant, KvPrecision, STREAM_BUFFERS, merges,
};
use crate::site::Traits;

/// What the large dispatches of a model do beside their own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fusion {
    /// Products that add to the stream begin the norm that is next, and those after it end it.
    pub(super) norms: bool,
    /// The product of queries, keys and values turns heads and puts them where attention finds them.
    pub(super) heads: bool,
    /// Attention merges its parts.
    pub(super) merges: bool,
}

impl Fusion {
    /// What takes the most memory of all that a device may have of them.
    pub(super) fn largest(config: &ModelConfig, kv: KvPrecision, kernels: KernelSet) -> Fusion {
        let traits = Traits {
            features: Features::ALL,
            subgroup_lanes: [32, 32],
            largest_binding: u64::MAX,
            storage_buffers: u32::MAX,
        };
        Fusion {
            // Heads that are not turned at once have a buffer of their own.
            heads: false,
            ..Fusion::of(config, kv, kernels, traits)
        }
    }

    /// Of such a model with these kernels on a device with these traits.
    pub(super) fn of(
        config: &ModelConfig,
        kv: KvPrecision,
        kernels: KernelSet,
        traits: Traits,
    ) -> Fusion {
        let storage_buffers = traits.storage_buffers;
        let turns_and_scales = matches!(
            kernels.matmul,
            KernelVariant::Portable | KernelVariant::Subgroup | KernelVariant::Cooperative
        );
        // Else the end of a branch is no product.
        let adds = !config.post_norms && !config.output_bias;
        Fusion {
            norms: turns_and_scales && adds && storage_buffers >= STREAM_BUFFERS,
            merges: merges(kernels.base, traits.features),
            // A head that is normed, or has a scale of its own, is known when all of it is.
            // Software adapters' attention finds keys elsewhere than these products put them.
            heads: turns_and_scales
                && kernels.base != Base::Software
                && !config.head_norms
                && kv != KvPrecision::Int8
                && storage_buffers >= HEADS_BUFFERS,
        }
    }
}
