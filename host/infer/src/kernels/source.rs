//! The text of each kernel: constants, then the files it is made of.

use super::{Kernel, Store, Tiling};
use crate::decoder::KernelFamily;
use crate::weights::Precision;

macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!("../../../../shaders/", $name))
    };
}

/// Lanes of a register-tiled matmul: few, so that narrow layers still spread over the cores of a software adapter.
pub(super) const REGISTER_LANES: u32 = 16;
/// Lanes of every other kernel, unless said otherwise.
pub(super) const LANES: u32 = 64;
/// Lanes where one row or one head is one workgroup on a software adapter: one vector of its CPU.
pub(super) const NARROW_LANES: u32 = 8;

impl Kernel {
    /// Lanes of a workgroup.
    pub(super) fn lanes(self) -> u32 {
        match self {
            Kernel::Matmul {
                tiling: Tiling::Registers { .. },
                ..
            } => REGISTER_LANES,
            Kernel::RmsNorm {
                family: KernelFamily::Software,
            } => NARROW_LANES,
            Kernel::Values {
                family: KernelFamily::Software,
                ..
            } => NARROW_LANES,
            Kernel::Scores {
                family: KernelFamily::Software,
                ..
            } => REGISTER_LANES,
            _ => LANES,
        }
    }

    /// Positions an invocation of the scores takes: in registers on a software adapter, where a load costs more than a sum.
    pub(super) fn positions(self) -> u32 {
        match self {
            Kernel::Scores {
                family: KernelFamily::Software,
                ..
            } => 4,
            _ => 1,
        }
    }

    /// The WGSL of this kernel.
    #[must_use]
    pub fn source(self) -> String {
        let lanes = ("LANES", self.lanes());
        let step = shader!("step.wgsl");
        match self {
            Kernel::Embed { precision } => {
                join(&[lanes], &[step, weights(precision), shader!("embed.wgsl")])
            }
            Kernel::RmsNorm { family } => {
                let kernel = match family {
                    KernelFamily::Portable => shader!("rms_norm_portable.wgsl"),
                    KernelFamily::Software => shader!("rms_norm_software.wgsl"),
                };
                join(&[lanes], &[step, shader!("rms_norm.wgsl"), kernel])
            }
            Kernel::Matmul {
                tiling,
                precision,
                store,
            } => {
                let store = match store {
                    Store::Plain => shader!("store.wgsl"),
                    Store::Residual => shader!("store_residual.wgsl"),
                    Store::Swiglu => shader!("store_swiglu.wgsl"),
                };
                let (constants, kernel) = match tiling {
                    Tiling::Registers { rows } => {
                        (vec![lanes, ("ROWS", rows)], shader!("matmul_software.wgsl"))
                    }
                    Tiling::Reduce { rows } => {
                        (vec![lanes, ("ROWS", rows)], shader!("matmul_reduce.wgsl"))
                    }
                    Tiling::Tile => (Vec::new(), shader!("matmul_tile.wgsl")),
                };
                join(
                    &constants,
                    &[
                        step,
                        weights(precision),
                        shader!("matmul.wgsl"),
                        store,
                        kernel,
                    ],
                )
            }
            Kernel::Rope => join(&[lanes], &[step, shader!("rope.wgsl")]),
            Kernel::Scores { group, .. } => {
                let files = [
                    step,
                    shader!("attention.wgsl"),
                    shader!("attention_scores.wgsl"),
                ];
                join(
                    &[lanes, ("GROUP", group), ("POSITIONS", self.positions())],
                    &files,
                )
            }
            Kernel::Values { family, group } => {
                let kernel = match family {
                    KernelFamily::Portable => shader!("attention_values_portable.wgsl"),
                    KernelFamily::Software => shader!("attention_values_software.wgsl"),
                };
                join(
                    &[lanes, ("GROUP", group)],
                    &[step, shader!("attention.wgsl"), kernel],
                )
            }
        }
    }
}

fn weights(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => shader!("weights_f32.wgsl"),
        Precision::F16 => shader!("weights_f16.wgsl"),
        Precision::Bf16 => shader!("weights_bf16.wgsl"),
    }
}

fn join(constants: &[(&str, u32)], files: &[&str]) -> String {
    let mut text: String = constants
        .iter()
        .map(|(name, value)| format!("const {name}: u32 = {value}u;\n"))
        .collect();
    for file in files {
        text.push('\n');
        text.push_str(file);
    }
    text
}
