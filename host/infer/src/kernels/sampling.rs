//! Kernels that draw tokens from logits.

use super::binding::{Access, Bindings};
use super::source::{join, shader};
use super::variant::Base;
use crate::device::Features;

/// Lanes of a workgroup that shares a chunk: as many as every GPU has.
const CHUNK_LANES: u32 = 256;

/// Lanes of a workgroup that shares a row: sixteen sums of each fit the memory of a workgroup.
const ROW_LANES: u32 = 128;

/// Lanes on a software adapter: one vector of the CPU.
const NARROW_LANES: u32 = 8;

/// Lanes that share a row there: llvmpipe ends a kernel's loops after 65,535 iterations in all, and those of a search go
/// through the row again and again.
const NARROW_ROW_LANES: u32 = 32;

/// Bins by which a lane alone chooses what a chunk lists.
const NARROW_BINS: u32 = 128;

/// What a kernel does for the draw. A draw takes the first and one of the last two, and [`SamplingStage::Draw`] between
/// them where any token is not greedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SamplingStage {
    /// Penalties, bias and masks, in place; what is to be known of each chunk.
    Scan,
    /// The draw of each chunk, or a list of its likeliest tokens.
    Draw,
    /// From the chunks of a row to its token.
    Finish,
    /// The same, with the search for what top-k and top-p leave.
    Search,
}

/// A kernel of the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SamplingKernel {
    /// What it does.
    pub stage: SamplingStage,
    /// Whether it is for software adapters: there each lane does a chunk, or a row, by itself, but for
    /// [`SamplingStage::Search`], where a workgroup shares a row.
    pub software: bool,
}

impl SamplingKernel {
    /// The kernel of a stage.
    pub(crate) fn of(stage: SamplingStage, base: Base) -> SamplingKernel {
        SamplingKernel {
            stage,
            software: base == Base::Software,
        }
    }

    /// Whether the lanes of a workgroup share a task.
    fn shared(self) -> bool {
        !self.software || self.stage == SamplingStage::Search
    }

    /// Lanes of a workgroup.
    pub(crate) fn lanes(self) -> u32 {
        match self.stage {
            SamplingStage::Search if self.software => NARROW_ROW_LANES,
            _ if self.software => NARROW_LANES,
            SamplingStage::Scan | SamplingStage::Draw => CHUNK_LANES,
            SamplingStage::Finish | SamplingStage::Search => ROW_LANES,
        }
    }

    /// Workgroups for so many tasks.
    pub(crate) fn workgroups(self, tasks: u32) -> u32 {
        if self.shared() {
            tasks
        } else {
            tasks.div_ceil(self.lanes())
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self.stage {
            SamplingStage::Scan => "sample_scan",
            SamplingStage::Draw => "sample_draw",
            SamplingStage::Finish => "sample_finish",
            SamplingStage::Search => "sample_search",
        }
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    /// 0 rows, 1 logits, 2 scratch, 3 results, 4 parameters, 5 masks, 6 lists of adjustments.
    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        match self.stage {
            SamplingStage::Scan => &[
                (0, Read),
                (1, Write),
                (2, Write),
                (4, Uniform),
                (5, Read),
                (6, Read),
            ],
            SamplingStage::Draw => &[(0, Read), (1, Read), (2, Write), (4, Uniform)],
            SamplingStage::Finish | SamplingStage::Search => {
                &[(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)]
            }
        }
    }

    pub(crate) fn source(self) -> String {
        let (tasks, bins, count) = if self.shared() {
            (
                shader!("sampling/sampling_shared.wgsl"),
                shader!("sampling/sampling_bins_shared.wgsl"),
                self.lanes(),
            )
        } else {
            (
                shader!("sampling/sampling_alone.wgsl"),
                shader!("sampling/sampling_bins_alone.wgsl"),
                NARROW_BINS,
            )
        };
        let common = [
            shader!("sampling/sampling.wgsl"),
            shader!("sampling/sampling_chunks.wgsl"),
            tasks,
        ];
        let row = shader!("sampling/sampling_row.wgsl");
        let noise = shader!("sampling/sampling_noise.wgsl");
        let result = shader!("sampling/sampling_result.wgsl");
        let own = match self.stage {
            SamplingStage::Scan => vec![shader!("sampling/sample_scan.wgsl")],
            SamplingStage::Draw => {
                vec![row, noise, bins, shader!("sampling/sample_draw.wgsl")]
            }
            SamplingStage::Finish => vec![row, result, shader!("sampling/sample_finish.wgsl")],
            SamplingStage::Search => vec![
                row,
                noise,
                result,
                shader!("sampling/sampling_tally.wgsl"),
                shader!("sampling/sampling_search.wgsl"),
                shader!("sampling/sample_search.wgsl"),
            ],
        };
        let constants = [("LANES", self.lanes()), ("BINS", count)];
        join(&constants, &[&common[..], &own].concat())
    }

    pub(crate) fn in_use() -> Vec<SamplingKernel> {
        use SamplingStage::{Draw, Finish, Scan, Search};
        let of = |base| [Scan, Draw, Finish, Search].map(|stage| SamplingKernel::of(stage, base));
        [Base::Software, Base::Portable]
            .into_iter()
            .flat_map(of)
            .collect()
    }
}
