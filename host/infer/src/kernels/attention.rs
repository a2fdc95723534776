//! Attention over KV blocks.

use super::Kernel;
use super::binding::{Access, Bindings};
use super::heads::{Heads, KvBuffers, KvPrecision};
use super::norm::{needs, reduction};
use super::source::{LANES, join, shader};
use super::variant::Base;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Choice, Count, Work};

/// Positions of a split: what one workgroup of a GPU takes.
pub(crate) const SPLIT: u32 = 256;

/// Most query heads that are taken together.
const MOST_UNIT: u32 = 8;

/// Lanes of the scores on a software adapter.
const SCORE_LANES: u32 = 16;

/// Positions of a lane there, in registers: a load costs more than a sum.
const SCORE_POSITIONS: u32 = 4;

/// Lanes of the values on a software adapter: one vector of its CPU.
const VALUE_LANES: u32 = 8;

/// One of the kernels of attention. `unit` query heads, all of one key and value head, are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionKernel {
    /// Queries times keys, on software adapters.
    Scores {
        /// Query heads taken together.
        unit: u32,
        /// How keys are kept.
        kv: KvPrecision,
    },
    /// Softmax and values, on software adapters.
    Values {
        /// Query heads taken together.
        unit: u32,
        /// How values are kept.
        kv: KvPrecision,
    },
    /// All of it over a split of the positions.
    Split {
        /// How lanes share the work: portable or subgroup.
        base: Base,
        /// Query heads taken together.
        unit: u32,
        /// How keys and values are kept.
        kv: KvPrecision,
    },
    /// Splits merged.
    Merge,
}

/// Query heads taken together where `group` of them share a key and value head: the largest divisor up to 8.
pub(crate) fn unit_of(group: u32) -> u32 {
    (1..=group.min(MOST_UNIT))
        .rev()
        .find(|unit| group.is_multiple_of(*unit))
        .unwrap_or(1)
}

impl AttentionKernel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            AttentionKernel::Scores { .. } => "attention_scores",
            AttentionKernel::Values { .. } => "attention_values",
            AttentionKernel::Split { .. } => "attention",
            AttentionKernel::Merge => "attention_merge",
        }
    }

    pub(crate) fn needs(self) -> Features {
        match self {
            AttentionKernel::Split { base, .. } => needs(base),
            _ => Features::NONE,
        }
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        match self {
            AttentionKernel::Scores { .. } | AttentionKernel::Values { .. } => &[
                (0, Read),
                (1, Read),
                (2, Read),
                (3, Read),
                (4, Uniform),
                (5, Write),
            ],
            AttentionKernel::Split { .. } => &[
                (0, Read),
                (1, Read),
                (2, Read),
                (3, Read),
                (4, Uniform),
                (5, Read),
                (6, Write),
                (7, Write),
            ],
            AttentionKernel::Merge => &[(0, Read), (2, Read), (3, Write), (4, Uniform)],
        }
    }

    pub(crate) fn source(self) -> String {
        let files = |kv: KvPrecision, reduction, kernel| {
            [
                shader!("step.wgsl"),
                shader!("paged.wgsl"),
                kv.file(),
                reduction,
                shader!("attention.wgsl"),
                kernel,
            ]
        };
        match self {
            AttentionKernel::Scores { unit, kv } => join(
                &[
                    ("LANES", SCORE_LANES),
                    ("HEADS", unit),
                    ("POSITIONS", SCORE_POSITIONS),
                ],
                &files(kv, "", shader!("attention_scores.wgsl")),
            ),
            AttentionKernel::Values { unit, kv } => join(
                &[("LANES", VALUE_LANES), ("HEADS", unit)],
                &files(kv, "", shader!("attention_values.wgsl")),
            ),
            AttentionKernel::Split { base, unit, kv } => join(
                &[("LANES", LANES), ("HEADS", unit), ("SPLIT", SPLIT)],
                &files(kv, reduction(base), shader!("attention_split.wgsl")),
            ),
            AttentionKernel::Merge => join(
                &[("LANES", LANES), ("HEADS", 1), ("SPLIT", SPLIT)],
                &[
                    shader!("step.wgsl"),
                    shader!("attention.wgsl"),
                    shader!("attention_merge.wgsl"),
                ],
            ),
        }
    }

    pub(crate) fn in_use() -> Vec<AttentionKernel> {
        let mut kernels = vec![AttentionKernel::Merge];
        for unit in 1..=MOST_UNIT {
            for kv in KvPrecision::ALL {
                kernels.push(AttentionKernel::Scores { unit, kv });
                kernels.push(AttentionKernel::Values { unit, kv });
                for base in [Base::Portable, Base::Subgroup] {
                    kernels.push(AttentionKernel::Split { base, unit, kv });
                }
            }
        }
        kernels
    }
}

/// Elements of attention's scratch for a row, and what a kernel counts of them for a head.
pub(crate) fn scratch(base: Base, heads: &Heads, context: usize) -> (usize, u32) {
    let visible = (heads.window as usize).saturating_add(3).min(context);
    match base {
        Base::Software => {
            let scores = visible.next_multiple_of(4);
            (heads.heads as usize * scores, scores as u32)
        }
        Base::Portable | Base::Subgroup => {
            let splits = visible.div_ceil(SPLIT as usize);
            let part = (heads.stride4() as usize + 1) * 4;
            (heads.heads as usize * splits * part, splits as u32)
        }
    }
}

impl Builder<'_> {
    /// Attention of `queries` `[rows, heads, stride]` over the positions each row sees, into `output` of the same shape.
    /// `scratch` as [`scratch`] says, for a context of `context`.
    pub(crate) fn attention(
        &mut self,
        heads: &Heads,
        [queries, scratch_buffer, output]: [&wgpu::Buffer; 3],
        cache: KvBuffers<'_>,
        context: usize,
    ) -> Result<(), LoadError> {
        let (_, per_head) = scratch(self.kernels.base, heads, context);
        let parameters = [
            heads.heads,
            heads.kv_heads,
            heads.stride4(),
            heads.window,
            (heads.scale as f32).to_bits(),
            (heads.softcap.unwrap_or(0.0) as f32).to_bits(),
            per_head,
            0,
        ];
        let parameters = self.uniform("attention", &parameters);
        let unit = unit_of(heads.heads / heads.kv_heads);
        let units = Axis::Fixed(heads.heads / unit);
        let rows = Axis::Per {
            of: Count::Rows,
            each: 1,
        };
        let positions = |each| Axis::Per {
            of: Count::Visible(heads.window),
            each,
        };
        let work = Work::positions(u64::from(heads.heads * heads.dim), heads.window);
        let kv = heads.kv;
        if self.kernels.base == Base::Software {
            let kernel = Kernel::Attention(AttentionKernel::Scores { unit, kv });
            // A row of scores is filled to a multiple of four.
            let grid = [positions(SCORE_LANES * SCORE_POSITIONS), units, rows];
            let buffers = [
                self.step,
                cache.tables,
                cache.keys,
                queries,
                &parameters,
                scratch_buffer,
            ];
            self.dispatch(Count::Rows, &[Choice::always(kernel, grid)], &buffers, work)?;
            let kernel = Kernel::Attention(AttentionKernel::Values { unit, kv });
            let grid = [
                Axis::Fixed(heads.stride4().div_ceil(VALUE_LANES)),
                units,
                rows,
            ];
            let buffers = [
                self.step,
                cache.tables,
                cache.values,
                scratch_buffer,
                &parameters,
                output,
            ];
            return self.dispatch(Count::Rows, &[Choice::always(kernel, grid)], &buffers, work);
        }
        let kernel = Kernel::Attention(AttentionKernel::Split {
            base: self.kernels.base,
            unit,
            kv,
        });
        let grid = [positions(SPLIT), units, rows];
        let buffers = [
            self.step,
            cache.tables,
            cache.keys,
            queries,
            &parameters,
            cache.values,
            scratch_buffer,
            output,
        ];
        let both = Work {
            each: 2 * work.each,
            ..work
        };
        self.dispatch(Count::Rows, &[Choice::always(kernel, grid)], &buffers, both)?;
        let grid = [Axis::Fixed(heads.heads), rows, Axis::Fixed(1)];
        let kernel = Kernel::Attention(AttentionKernel::Merge);
        let buffers = [self.step, scratch_buffer, output, &parameters];
        let beyond = Count::RowsBeyond {
            window: heads.window,
            most: SPLIT,
        };
        let work = Work::rows(u64::from(heads.heads * heads.dim) * u64::from(per_head));
        self.dispatch(beyond, &[Choice::always(kernel, grid)], &buffers, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_taken_together_share_a_key_head() {
        let units: Vec<u32> = [1, 2, 3, 4, 6, 7, 8, 12, 16, 71].map(unit_of).to_vec();
        assert_eq!(units, [1, 2, 3, 4, 6, 7, 8, 6, 8, 1]);
    }
}
