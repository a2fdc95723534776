//! Kernels that draw tokens from logits.

use super::binding::{Access, Bindings};
use super::source::{LANES, join, shader};
use super::variant::Base;
use crate::device::Features;

/// Lanes where a lane does a whole task: one vector of a software adapter's CPU.
const NARROW_LANES: u32 = 8;

/// What a kernel does for the draw, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SamplingStage {
    /// Penalties and bias, in place.
    Adjust,
    /// What a mask leaves out, in place.
    Mask,
    /// The greatest logit, and the sum for log-probabilities.
    Scan,
    /// A level of the search for what top-k and top-p leave.
    Search,
    /// The draw among what is left.
    Draw,
    /// The likeliest tokens.
    Top,
    /// From the chunks of a row to its token.
    Finish,
}

/// A kernel of the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SamplingKernel {
    /// What it does.
    pub stage: SamplingStage,
    /// Whether the lanes of a workgroup share a task, or each does one by itself. [`SamplingStage::Adjust`] and
    /// [`SamplingStage::Mask`] are not shared.
    pub shared: bool,
}

impl SamplingKernel {
    /// The kernel of a stage.
    pub(crate) fn of(stage: SamplingStage, base: Base) -> SamplingKernel {
        let alone = matches!(stage, SamplingStage::Adjust | SamplingStage::Mask);
        SamplingKernel {
            stage,
            shared: !alone && base != Base::Software,
        }
    }

    fn in_place(self) -> bool {
        matches!(self.stage, SamplingStage::Adjust | SamplingStage::Mask)
    }

    /// Lanes of a workgroup.
    pub(crate) fn lanes(self) -> u32 {
        if self.shared || self.in_place() {
            LANES
        } else {
            NARROW_LANES
        }
    }

    /// Workgroups for so many tasks.
    pub(crate) fn workgroups(self, tasks: u32) -> u32 {
        if self.shared {
            tasks
        } else {
            tasks.div_ceil(self.lanes())
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self.stage {
            SamplingStage::Adjust => "sample_adjust",
            SamplingStage::Mask => "sample_mask",
            SamplingStage::Scan => "sample_scan",
            SamplingStage::Search => "sample_search",
            SamplingStage::Draw => "sample_draw",
            SamplingStage::Top => "sample_top",
            SamplingStage::Finish => "sample_finish",
        }
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    /// 0 rows; in place: 1 adjustments or masks, 2 logits; else 1 logits, 2 scratch, 3 results; 4 parameters.
    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        if self.in_place() {
            &[(0, Read), (1, Read), (2, Write), (4, Uniform)]
        } else {
            &[(0, Read), (1, Read), (2, Write), (3, Write), (4, Uniform)]
        }
    }

    pub(crate) fn source(self) -> String {
        let kernel = match self.stage {
            SamplingStage::Adjust => shader!("sampling/sample_adjust.wgsl"),
            SamplingStage::Mask => shader!("sampling/sample_mask.wgsl"),
            SamplingStage::Scan => shader!("sampling/sample_scan.wgsl"),
            SamplingStage::Search => shader!("sampling/sample_search.wgsl"),
            SamplingStage::Draw => shader!("sampling/sample_draw.wgsl"),
            SamplingStage::Top => shader!("sampling/sample_top.wgsl"),
            SamplingStage::Finish => shader!("sampling/sample_finish.wgsl"),
        };
        let lanes = [("LANES", self.lanes())];
        let common = shader!("sampling/sampling.wgsl");
        if self.in_place() {
            return join(&lanes, &[common, kernel]);
        }
        let tasks = if self.shared {
            shader!("sampling/sampling_shared.wgsl")
        } else {
            shader!("sampling/sampling_alone.wgsl")
        };
        let chunks = shader!("sampling/sampling_chunks.wgsl");
        let search = shader!("sampling/sampling_search.wgsl");
        let levels = shader!("sampling/sampling_levels.wgsl");
        join(&lanes, &[common, chunks, search, tasks, levels, kernel])
    }

    pub(crate) fn in_use() -> Vec<SamplingKernel> {
        use SamplingStage::{Adjust, Draw, Finish, Mask, Scan, Search, Top};
        let mut kernels = Vec::new();
        for stage in [Adjust, Mask] {
            kernels.push(SamplingKernel::of(stage, Base::Software));
        }
        for base in [Base::Software, Base::Portable] {
            for stage in [Scan, Search, Draw, Top, Finish] {
                kernels.push(SamplingKernel::of(stage, base));
            }
        }
        kernels
    }
}
