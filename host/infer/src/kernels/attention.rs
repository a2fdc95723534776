//! Attention over KV blocks.

use super::Kernel;
use super::binding::{Access, Bindings};
use super::heads::{Heads, KvBuffers, KvPrecision};
use super::norm::{needs, reduction};
use super::source::{LANES, for_each_lane, join, shader};
use super::variant::Base;
use crate::buffer::Buffer;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, Share, SizedKernel, Work};
use crate::touch::{Area, Touch, Which};

/// Positions of a split: what one workgroup of a GPU takes.
pub(crate) const SPLIT: u32 = 256;

/// Lanes of that workgroup: one for each position, so that all keys of a split are on their way at once.
const SPLIT_LANES: u32 = 256;

/// Most query heads that are taken together.
const MOST_UNIT: u32 = 8;

/// Queries that a software adapter takes together: a lane keeps the sums of each in registers.
const MOST_QUERIES: u32 = 8;

/// Lanes of a workgroup there: one vector of the CPU.
const NARROW_LANES: u32 = 8;

/// Positions of a group there: four for each lane.
const GROUP: u32 = 4 * NARROW_LANES;

/// Groups of a workgroup there, so that one with nothing to do costs little.
const SPAN: u32 = 8;

/// One of the kernels of attention. `unit` query heads, all of one key and value head, are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionKernel {
    /// Queries times keys, on software adapters.
    Scores {
        /// Query heads taken together.
        unit: u32,
        /// Neighbouring rows taken together: one, or [`tile_of`] the unit.
        rows: u32,
        /// Whether lanes tell each other what they have read, which takes subgroups of 8 or more.
        broadcast: bool,
        /// How keys are kept.
        kv: KvPrecision,
    },
    /// Softmax and values, on software adapters.
    Values {
        /// Query heads taken together.
        unit: u32,
        /// Neighbouring rows taken together: one, or [`tile_of`] the unit.
        rows: u32,
        /// Whether lanes tell each other what they have read, which takes subgroups of 8 or more.
        broadcast: bool,
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

/// Rows of one sequence that a software adapter takes together.
fn tile_of(unit: u32) -> u32 {
    (MOST_QUERIES / unit).max(1)
}

/// Rows that kernels of a software adapter take together: alone, and in tiles where those are more.
fn rows_of(unit: u32) -> impl Iterator<Item = u32> {
    [1, tile_of(unit)]
        .into_iter()
        .take(if tile_of(unit) > 1 { 2 } else { 1 })
}

/// Scores and values on a software adapter.
fn software(unit: u32, rows: u32, broadcast: bool, kv: KvPrecision) -> [AttentionKernel; 2] {
    [
        AttentionKernel::Scores {
            unit,
            rows,
            broadcast,
            kv,
        },
        AttentionKernel::Values {
            unit,
            rows,
            broadcast,
            kv,
        },
    ]
}

/// What the kernels of a software adapter may count as visible: tiles hang over the window, groups over both ends.
fn software_window(window: u32) -> u32 {
    window.saturating_add(MOST_QUERIES + 2 * GROUP)
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
            AttentionKernel::Scores {
                broadcast: true, ..
            }
            | AttentionKernel::Values {
                broadcast: true, ..
            } => Features::SUBGROUP,
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
                shader!("attention/paged.wgsl"),
                kv.file(),
                reduction,
                shader!("attention/attention.wgsl"),
                shader!("attention/attention_splits.wgsl"),
                kernel,
            ]
        };
        let software = |unit, rows, kv: KvPrecision, (shared, lane), kernel| {
            join(
                &[
                    ("HEADS", unit),
                    ("ROWS", rows),
                    ("QUERIES", unit * rows),
                    ("TILE", tile_of(unit)),
                    ("SPAN", SPAN),
                ],
                &[
                    shader!("step.wgsl"),
                    shader!("attention/paged.wgsl"),
                    kv.file(),
                    shader!("attention/attention.wgsl"),
                    shader!("attention/attention_software.wgsl"),
                    shared,
                    &for_each_lane(NARROW_LANES, lane),
                    kernel,
                ],
            )
        };
        match self {
            AttentionKernel::Scores {
                unit,
                rows,
                broadcast,
                kv,
            } => {
                let queries = if broadcast {
                    (
                        shader!("attention/attention_queries_broadcast.wgsl"),
                        shader!("attention/attention_queries_broadcast_lane.wgsl"),
                    )
                } else {
                    (
                        shader!("attention/attention_queries_direct.wgsl"),
                        shader!("attention/attention_queries_direct_lane.wgsl"),
                    )
                };
                software(
                    unit,
                    rows,
                    kv,
                    queries,
                    shader!("attention/attention_scores.wgsl"),
                )
            }
            AttentionKernel::Values {
                unit,
                rows,
                broadcast,
                kv,
            } => {
                let weights = if broadcast {
                    (
                        shader!("attention/attention_weights_broadcast.wgsl"),
                        shader!("attention/attention_weights_broadcast_lane.wgsl"),
                    )
                } else {
                    (
                        shader!("attention/attention_weights_direct.wgsl"),
                        shader!("attention/attention_weights_direct_lane.wgsl"),
                    )
                };
                software(
                    unit,
                    rows,
                    kv,
                    weights,
                    shader!("attention/attention_values.wgsl"),
                )
            }
            AttentionKernel::Split { base, unit, kv } => join(
                &[
                    ("LANES", SPLIT_LANES),
                    ("HEADS", unit),
                    ("SPLIT", SPLIT),
                    // Of more than four heads, weights take the room that their sums would.
                    ("PAIR", if matches!(unit, 2..=4) { 2 } else { 1 }),
                ],
                &files(
                    kv,
                    reduction(base),
                    shader!("attention/attention_split.wgsl"),
                ),
            ),
            AttentionKernel::Merge => join(
                &[("LANES", LANES), ("HEADS", 1), ("SPLIT", SPLIT)],
                &[
                    shader!("step.wgsl"),
                    shader!("attention/attention.wgsl"),
                    shader!("attention/attention_splits.wgsl"),
                    shader!("attention/attention_merge.wgsl"),
                ],
            ),
        }
    }

    pub(crate) fn in_use() -> Vec<AttentionKernel> {
        let mut kernels = vec![AttentionKernel::Merge];
        for unit in 1..=MOST_UNIT {
            for kv in KvPrecision::ALL {
                for broadcast in [false, true] {
                    for rows in rows_of(unit) {
                        kernels.extend(software(unit, rows, broadcast, kv));
                    }
                }
                for base in [Base::Portable, Base::Subgroup] {
                    kernels.push(AttentionKernel::Split { base, unit, kv });
                }
            }
        }
        kernels
    }
}

/// Elements of attention's scratch for a row of a step whose rows see up to `positions` positions, and what a kernel counts of
/// them for a head: `scores_of_head` and `splits_of_head` of the kernels.
pub(crate) fn scratch(base: Base, heads: &Heads, positions: usize) -> (usize, u32) {
    match base {
        Base::Software => {
            let visible = (software_window(heads.window) as usize).min(positions);
            let scores = visible.next_multiple_of(GROUP as usize);
            (heads.heads as usize * scores, scores as u32)
        }
        Base::Portable | Base::Subgroup => {
            let visible = (heads.window as usize).saturating_add(3).min(positions);
            let splits = visible.div_ceil(SPLIT as usize);
            let part = (heads.stride4() as usize + 1) * 4;
            (heads.heads as usize * splits * part, splits as u32)
        }
    }
}

impl Builder<'_> {
    /// Attention of `queries` `[rows, heads, stride]` over the positions each row sees, into `output` of the same shape.
    /// `scratch` has room for what [`scratch`] says of each step; no row sees more than `context`.
    pub(crate) fn attention(
        &mut self,
        heads: &Heads,
        [queries, scratch_buffer, output]: [&Buffer; 3],
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
        let units = Axis::Heads(heads.heads / unit);
        let rows = Axis::Per {
            of: Count::Rows,
            each: 1,
        };
        let positions = |each| Axis::Per {
            of: Count::Visible(heads.window),
            each,
        };
        let each = u64::from(heads.heads * heads.dim);
        let kv = heads.kv;
        let head = u64::from(heads.stride4()) * 16;
        let row = Area::Cells(u64::from(heads.heads) * head);
        let queried = |buffer| Touch::read(buffer, row);
        let cached = |buffer| {
            let area = Area::Positions {
                kv_heads: heads.kv_heads,
                bytes: u64::from(heads.stride4()) * 4 * kv.bytes() as u64,
                window: heads.window,
            };
            Touch::read(buffer, area)
        };
        if self.kernels.base == Base::Software {
            let traits = self.site.traits();
            let broadcast = traits.features.subgroup && traits.subgroup_lanes[0] >= NARROW_LANES;
            let groups = Axis::Per {
                of: Count::Visible(software_window(heads.window)),
                each: GROUP * SPAN,
            };
            let elements = Axis::Elements(heads.stride4().div_ceil(NARROW_LANES));
            let scored = [
                self.step,
                cache.tables,
                cache.keys,
                queries,
                &parameters,
                scratch_buffer,
            ];
            let summed = [
                self.step,
                cache.tables,
                cache.values,
                scratch_buffer,
                &parameters,
                output,
            ];
            let scored_positions = Area::Parts {
                bytes: u64::from(heads.heads) * 4,
                each: 1,
                window: heads.window,
            };
            for together in rows_of(unit) {
                let rows = Axis::Per {
                    of: Count::Rows,
                    each: together,
                };
                let work = Work::Positions {
                    each,
                    window: heads.window,
                    share: match tile_of(unit) {
                        1 => Share::All,
                        tile if together == tile => Share::Neighbours(tile),
                        tile => Share::Remaining(tile),
                    },
                };
                let [scores, values] =
                    software(unit, together, broadcast, kv).map(Kernel::Attention);
                let choice = SizedKernel::always(scores, [groups, units, rows]);
                let touches = [cached(2), queried(3), Touch::write(5, scored_positions)];
                self.dispatch(Count::Rows, &[choice], &scored, work, &touches)?;
                let choice = SizedKernel::always(values, [elements, units, rows]);
                let touches = [
                    cached(2),
                    Touch::read(3, scored_positions),
                    Touch::write(5, row),
                ];
                self.dispatch(Count::Rows, &[choice], &summed, work, &touches)?;
            }
            return Ok(());
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
        let both = Work::positions(2 * each, heads.window);
        let (window, most) = (heads.window, SPLIT);
        let beyond = Which::Beyond { window, most };
        let within = Which::Within { window, most };
        let parts = Area::Parts {
            bytes: u64::from(heads.heads) * (head + 16),
            each: SPLIT,
            window: heads.window,
        };
        let touches = [
            cached(2),
            queried(3),
            cached(5),
            Touch::write(6, parts).of(beyond),
            Touch::write(7, row).of(within),
        ];
        let choice = SizedKernel::always(kernel, grid);
        self.dispatch(Count::Rows, &[choice], &buffers, both, &touches)?;
        let grid = [Axis::Heads(heads.heads), rows, Axis::Fixed(1)];
        let kernel = Kernel::Attention(AttentionKernel::Merge);
        let buffers = [self.step, scratch_buffer, output, &parameters];
        let rows_beyond = Count::RowsBeyond {
            window: heads.window,
            most: SPLIT,
        };
        let work = Work::positions(each.div_ceil(u64::from(SPLIT)), heads.window);
        let touches = [
            Touch::read(1, parts).of(beyond),
            Touch::write(2, row).of(beyond),
        ];
        let choice = SizedKernel::always(kernel, grid);
        self.dispatch(rows_beyond, &[choice], &buffers, work, &touches)
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
