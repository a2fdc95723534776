//! Which of the small dispatches of a layer the products beside them do.

use tidegate_weights::ModelConfig;

use crate::kernels::{HEADS_BUFFERS, KernelSet, KernelVariant, STREAM_BUFFERS};
use crate::site::Traits;

/// What a model's products do beside multiplying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fusion {
    /// Those that add to the stream begin the norm that is next, and those after it end it.
    pub(super) norms: bool,
    /// That of queries, keys and values turns heads and puts them where attention finds them.
    pub(super) heads: bool,
}

impl Fusion {
    /// Nothing.
    pub(super) const NONE: Fusion = Fusion {
        norms: false,
        heads: false,
    };

    /// Of such a model with these kernels where there are buffers enough.
    pub(super) fn most(config: &ModelConfig, kernels: KernelSet) -> Fusion {
        Fusion::with(config, kernels, u32::MAX)
    }

    /// Of such a model with these kernels on a device with these traits.
    pub(super) fn of(config: &ModelConfig, kernels: KernelSet, traits: Traits) -> Fusion {
        Fusion::with(config, kernels, traits.storage_buffers)
    }

    fn with(config: &ModelConfig, kernels: KernelSet, storage_buffers: u32) -> Fusion {
        let by_columns = matches!(
            kernels.matmul,
            KernelVariant::Portable | KernelVariant::Subgroup
        );
        // Else the end of a branch is no product.
        let adds = !config.post_norms && !config.output_bias;
        Fusion {
            norms: by_columns && adds && storage_buffers >= STREAM_BUFFERS,
            // A head that is normed is known when all of it is.
            heads: by_columns && !config.head_norms && storage_buffers >= HEADS_BUFFERS,
        }
    }
}
