//! Low-rank adapters: rows that have one go through its two small matrices beside each product that it adapts.

use tidegate_weights::Activation;

use super::binding::Access;
use super::source::{LANES, join, shader};
use super::{Base, KvPrecision, Store};
use crate::device::Features;

/// Lanes where one number of a row is one lane: one vector of a software adapter's CPU.
const NARROW_LANES: u32 = 8;

/// Lanes that a GPU has for numbers of a row.
const SHRINK_LANES: u32 = 256;

/// Numbers of a row that they make.
const SHRINK_RANKS: u32 = 16;

/// A kernel of low-rank adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoraKernel {
    /// A x.
    Shrink {
        /// Whether for software adapters.
        software: bool,
        /// Whether the norm of its rows is still to be done ([`super::MatmulKernel::normed`]).
        normed: bool,
    },
    /// B (A x), put where a product with such an epilogue has put its sums: [`Store::Residual`] adds to them, so does
    /// [`Store::Stream`], which does anew what follows from them; [`Store::Gated`] and [`Store::Heads`] are given them raw.
    Expand {
        /// Epilogue.
        store: Store,
    },
}

impl LoraKernel {
    /// A x on such devices.
    pub(crate) fn shrink(base: Base, normed: bool) -> LoraKernel {
        LoraKernel::Shrink {
            software: base == Base::Software,
            normed,
        }
    }

    /// Numbers of a row that a workgroup makes of A x, or columns / 4 of B (A x).
    pub(crate) fn across(self) -> u32 {
        match self {
            LoraKernel::Shrink { software: true, .. } => NARROW_LANES,
            LoraKernel::Shrink { .. } => SHRINK_RANKS,
            LoraKernel::Expand { .. } => LANES,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            LoraKernel::Shrink { .. } => "lora_shrink",
            LoraKernel::Expand { .. } => "lora_expand",
        }
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    pub(crate) fn bindings(self) -> Vec<(u32, Access)> {
        use Access::{Read, Uniform, Write};
        let mut bindings = vec![(1, Read), (2, Read), (3, Write), (4, Uniform)];
        bindings.extend([(6, Read), (7, Read)]);
        let heads = [
            (14, Uniform),
            (15, Read),
            (16, Read),
            (17, Write),
            (18, Write),
            (19, Read),
        ];
        match self {
            LoraKernel::Shrink { normed: true, .. } => bindings.push((10, Read)),
            LoraKernel::Shrink { .. } => {}
            LoraKernel::Expand { store } => match store {
                Store::Gated(_) => bindings.push((5, Read)),
                Store::Heads(_) => {
                    bindings.extend([(5, Read), (0, Read)]);
                    bindings.extend(heads);
                }
                Store::Stream => bindings.extend([(11, Read), (12, Write), (13, Write)]),
                _ => {}
            },
        }
        bindings
    }

    pub(crate) fn source(self) -> String {
        let slots = shader!("lora/slots.wgsl");
        match self {
            LoraKernel::Shrink { software, normed } => {
                let squares = match normed {
                    true => shader!("lora/squares_normed.wgsl"),
                    false => shader!("lora/squares_plain.wgsl"),
                };
                let (lanes, kernel) = match software {
                    true => (NARROW_LANES, shader!("lora/shrink_software.wgsl")),
                    false => (SHRINK_LANES, shader!("lora/shrink_portable.wgsl")),
                };
                let files = [slots, shader!("lora/shrink.wgsl"), squares, kernel];
                join(&[("LANES", lanes), ("RANKS", SHRINK_RANKS)], &files)
            }
            LoraKernel::Expand { store } => {
                let before = match store {
                    Store::Gated(_) | Store::Heads(_) => shader!("lora/before_raw.wgsl"),
                    _ => shader!("lora/before_none.wgsl"),
                };
                let mut constants = vec![("LANES", LANES)];
                let mut files = vec![slots];
                if let Store::Heads(_) = store {
                    constants.push(("UNIT", 1));
                    files.push(shader!("step.wgsl"));
                }
                files.extend(store.files());
                files.extend([before, shader!("lora/expand.wgsl")]);
                join(&constants, &files)
            }
        }
    }

    pub(crate) fn in_use() -> Vec<LoraKernel> {
        let mut kernels = Vec::new();
        for software in [false, true] {
            kernels.extend([false, true].map(|normed| LoraKernel::Shrink { software, normed }));
        }
        let stores = [
            Store::Residual,
            Store::Stream,
            Store::Heads(KvPrecision::F32),
            Store::Heads(KvPrecision::F16),
            Store::Gated(Activation::Silu),
            Store::Gated(Activation::GeluTanh),
            Store::Gated(Activation::Gelu),
        ];
        kernels.extend(stores.map(|store| LoraKernel::Expand { store }));
        kernels
    }
}
