//! Attention over KV blocks.

mod software;

use tidegate_weights::ModelConfig;

use super::Kernel;
use super::binding::{Access, Bindings};
use super::heads::{Heads, KvBuffers};
use super::kv::KvPrecision;
use super::layout::layout_file;
use super::norm::{needs, reduction};
use super::source::{LANES, join, shader};
use super::variant::Base;
use crate::buffer::Buffer;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, Share, SizedKernel, Splits, Work, visible_in};
use crate::touch::{Area, Touch, Which};

pub(crate) use software::{GROUP, HeadCut, TILE_ROWS, hanging_over};
use software::{Reads, tile_of};

/// Positions of a split: what one workgroup of a GPU takes at a time.
pub(crate) const SPLIT: u32 = 256;

/// Parts of a row at most: of one that sees more splits, a workgroup takes several.
const MOST_PARTS: u32 = 32;

/// Lanes of that workgroup: one for each position, so that all keys of a split are on their way at once.
const SPLIT_LANES: u32 = SPLIT;

/// Queries that a workgroup of a GPU takes together: heads of neighbours in one sequence.
const TILE_QUERIES: u32 = 32;

/// Bytes of keys, or of values, that it has in its memory at once, but for what keeps lanes out of each other's way.
const STAGED: u32 = 8192;

/// Positions whose weights it has there at once.
const TILE_STEP: u32 = 32;

/// Most query heads that are taken together.
pub(crate) const MOST_UNIT: u32 = 8;

/// Heads that there is room for sinks of.
const MOST_SINKS: (&str, u32) = ("MOST_SINKS", ModelConfig::MOST_SINKS as u32);

/// One of the kernels of attention. `unit` query heads, all of one key and value head, are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionKernel {
    /// Queries times keys, on software adapters.
    Scores {
        /// Query heads taken together.
        unit: u32,
        /// Rows taken together: one, or [`tile_of`] the unit.
        rows: u32,
        /// Whether lanes tell each other what they have read, which takes subgroups of 8 or more.
        broadcast: bool,
        /// How keys are kept.
        kv: KvPrecision,
        /// How heads are taken.
        cut: HeadCut,
    },
    /// Softmax and values, on software adapters.
    Values {
        /// Query heads taken together.
        unit: u32,
        /// Rows taken together: one, or [`tile_of`] the unit.
        rows: u32,
        /// Whether lanes tell each other what they have read, which takes subgroups of 8 or more.
        broadcast: bool,
        /// How values are kept.
        kv: KvPrecision,
        /// How they are read.
        reads: Reads,
        /// Fours of quads of a workgroup.
        fours: u32,
    },
    /// All of it over a split of the positions.
    Split {
        /// How lanes share the work: portable or subgroup.
        base: Base,
        /// Query heads taken together.
        unit: u32,
        /// How keys and values are kept.
        kv: KvPrecision,
        /// Whether the last workgroup of a row merges its splits.
        merges: bool,
    },
    /// The same for a tile of neighbours in one sequence, with the same bits.
    Tile {
        /// Query heads taken together.
        unit: u32,
        /// Lanes that share a head: [`lanes_of_head`].
        lanes: u32,
        /// How keys and values are kept.
        kv: KvPrecision,
        /// Whether the last workgroup of a row merges its splits.
        merges: bool,
    },
    /// Splits merged.
    Merge,
}

/// How attention takes rows together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Together {
    /// It does not ask.
    #[default]
    Unasked,
    /// So many at most that begin with the same blocks, of one sequence or of several: software adapters.
    Sharing(u32),
    /// So many neighbours at most that end in the same split: GPUs.
    Neighbours(u32),
}

/// Lanes that share a head of so many quads in the tiles of GPUs, if they are for so wide ones.
fn lanes_of_head(stride4: u32) -> Option<u32> {
    HEAD_LANES.into_iter().find(|lanes| stride4 <= *lanes)
}

const HEAD_LANES: [u32; 3] = [16, 32, 64];

/// Rows that a GPU takes together at most.
fn neighbours_of(unit: u32) -> u32 {
    TILE_QUERIES / unit
}

/// Query heads taken together where `group` of them share a key and value head: the largest divisor up to 8.
pub(crate) fn unit_of(group: u32) -> u32 {
    (1..=group.min(MOST_UNIT))
        .rev()
        .find(|unit| group.is_multiple_of(*unit))
        .unwrap_or(1)
}

/// Quads that GPUs read at once.
fn unit_of_split(kv: KvPrecision) -> u32 {
    match kv {
        KvPrecision::F32 | KvPrecision::F16 => 1,
        KvPrecision::Int8 => 4,
    }
}

/// Bytes of a quad that is so kept.
fn quad_bytes(kv: KvPrecision) -> u32 {
    match kv {
        KvPrecision::F32 => 16,
        KvPrecision::F16 => 8,
        KvPrecision::Int8 => 4,
    }
}

/// How GPUs read keys and values.
fn split_reads(kv: KvPrecision) -> &'static str {
    match kv {
        KvPrecision::F32 | KvPrecision::F16 => shader!("attention/attention_split_plain.wgsl"),
        KvPrecision::Int8 => shader!("attention/attention_split_int8.wgsl"),
    }
}

impl AttentionKernel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            AttentionKernel::Scores { .. } => "attention_scores",
            AttentionKernel::Values { .. } => "attention_values",
            AttentionKernel::Split { .. } => "attention",
            AttentionKernel::Tile { .. } => "attention_tile",
            AttentionKernel::Merge => "attention_merge",
        }
    }

    pub(crate) fn needs(self) -> Features {
        match self {
            AttentionKernel::Split { base, merges, .. } => Features {
                coherent: merges,
                ..needs(base)
            },
            AttentionKernel::Tile { merges, .. } => Features {
                coherent: merges,
                ..Features::NONE
            },
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
            AttentionKernel::Scores { .. } => &[
                (0, Read),
                (1, Read),
                (2, Read),
                (3, Read),
                (4, Uniform),
                (5, Write),
            ],
            AttentionKernel::Values { .. } => &[
                (0, Read),
                (1, Read),
                (2, Read),
                (3, Write),
                (4, Uniform),
                (5, Write),
            ],
            AttentionKernel::Split { merges: true, .. }
            | AttentionKernel::Tile { merges: true, .. } => &[
                (0, Read),
                (1, Read),
                (2, Read),
                (3, Read),
                (4, Uniform),
                (5, Read),
                (6, Write),
                (7, Write),
                (8, Write),
            ],
            AttentionKernel::Split { merges: false, .. }
            | AttentionKernel::Tile { merges: false, .. } => &[
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
        let (merged, parts) = match self {
            AttentionKernel::Split { merges: true, .. }
            | AttentionKernel::Tile { merges: true, .. } => (
                shader!("attention/attention_merged.wgsl"),
                shader!("attention/attention_parts_merged.wgsl"),
            ),
            _ => ("", shader!("attention/attention_parts.wgsl")),
        };
        match self {
            AttentionKernel::Scores {
                unit,
                rows,
                broadcast,
                kv,
                cut,
            } => software::scores_source([unit, rows], broadcast, kv, cut),
            AttentionKernel::Values {
                unit,
                rows,
                broadcast,
                kv,
                reads,
                fours,
            } => software::values_source([unit, rows], broadcast, kv, reads, fours),
            AttentionKernel::Split { base, unit, kv, .. } => join(
                &[
                    ("UNIT", unit_of_split(kv)),
                    ("LANES", SPLIT_LANES),
                    ("CAPPED", 1),
                    ("HEADS", unit),
                    ("SPLIT", SPLIT),
                    ("MOST_PARTS", MOST_PARTS),
                    MOST_SINKS,
                    // Of more than four heads, weights take the room that their sums would.
                    ("PAIR", if matches!(unit, 2..=4) { 2 } else { 1 }),
                ],
                &[
                    shader!("step.wgsl"),
                    shader!("attention/tables.wgsl"),
                    shader!("attention/paged.wgsl"),
                    layout_file(Base::Portable),
                    kv.file(),
                    reduction(base),
                    shader!("attention/attention.wgsl"),
                    shader!("attention/attention_splits.wgsl"),
                    shader!("attention/attention_shares.wgsl"),
                    split_reads(kv),
                    merged,
                    parts,
                    shader!("attention/attention_split.wgsl"),
                ],
            ),
            AttentionKernel::Tile {
                unit, lanes, kv, ..
            } => join(
                &[
                    ("UNIT", unit_of_split(kv)),
                    ("LANES", SPLIT_LANES),
                    ("CAPPED", 1),
                    ("HEADS", unit),
                    ("ROWS", neighbours_of(unit)),
                    ("SPLIT", SPLIT),
                    ("MOST_PARTS", MOST_PARTS),
                    MOST_SINKS,
                    ("HEAD_LANES", lanes),
                    (
                        "COLUMNS",
                        STAGED / (SPLIT * unit_of_split(kv) * quad_bytes(kv)),
                    ),
                    ("VALUES", (STAGED / (lanes * quad_bytes(kv))).min(TILE_STEP)),
                ],
                &[
                    shader!("step.wgsl"),
                    shader!("attention/tables.wgsl"),
                    shader!("attention/paged.wgsl"),
                    layout_file(Base::Portable),
                    kv.file(),
                    shader!("attention/attention.wgsl"),
                    shader!("attention/attention_splits.wgsl"),
                    shader!("attention/attention_shares.wgsl"),
                    split_reads(kv),
                    merged,
                    parts,
                    shader!("attention/attention_tile.wgsl"),
                ],
            ),
            AttentionKernel::Merge => join(
                &[
                    ("LANES", LANES),
                    ("CAPPED", 1),
                    ("HEADS", 1),
                    ("SPLIT", SPLIT),
                    ("MOST_PARTS", MOST_PARTS),
                    MOST_SINKS,
                ],
                &[
                    shader!("step.wgsl"),
                    shader!("attention/attention.wgsl"),
                    shader!("attention/attention_splits.wgsl"),
                    shader!("attention/attention_merged.wgsl"),
                    shader!("attention/attention_merge.wgsl"),
                ],
            ),
        }
    }

    pub(crate) fn in_use() -> Vec<AttentionKernel> {
        let mut kernels = vec![AttentionKernel::Merge];
        for unit in 1..=MOST_UNIT {
            for kv in KvPrecision::ALL {
                kernels.extend(software::in_use(unit, kv));
                for merges in [false, true] {
                    let bases = [Base::Portable, Base::Subgroup];
                    kernels.extend(bases.map(|base| AttentionKernel::Split {
                        base,
                        unit,
                        kv,
                        merges,
                    }));
                    kernels.extend(HEAD_LANES.map(|lanes| AttentionKernel::Tile {
                        unit,
                        lanes,
                        kv,
                        merges,
                    }));
                }
            }
        }
        kernels
    }
}

/// Elements of attention's scratch for a row of a step whose rows see up to `positions` positions, and what a kernel counts of
/// them for a head: `scores_of_head` and `parts_of_head` of the kernels.
pub(crate) fn scratch(base: Base, heads: &Heads, positions: usize) -> (usize, u32) {
    match base {
        Base::Software => {
            let scores = software::scores_of_head(heads, positions);
            (heads.heads as usize * scores, scores as u32)
        }
        Base::Portable | Base::Subgroup => {
            let visible = (visible_in(heads.window) as usize).min(positions);
            let parts = visible.div_ceil(SPLIT as usize).min(MOST_PARTS as usize);
            let part = (heads.stride4() as usize + 1) * 4;
            (heads.heads as usize * parts * part, parts as u32)
        }
    }
}

/// Turns of the loops of a software adapter's attention for a row that sees `context` positions, through that window: once over their
/// scores, and once over scores and values (`shaders/attention/attention_values.wgsl`).
pub(crate) fn turns_of_attention(window: u32, context: usize) -> usize {
    let visible = (hanging_over(window) as usize).min(context);
    2 * visible.div_ceil(GROUP as usize)
}

/// Whether attention merges the parts of a row in the dispatch that makes them.
pub(crate) fn merges(base: Base, features: Features) -> bool {
    base != Base::Software && features.coherent
}

/// Which rows go together, of heads `dim` elements wide.
pub(crate) fn rows_together(base: Base, [heads, kv_heads, dim]: [usize; 3]) -> Together {
    let unit = unit_of((heads / kv_heads.max(1)) as u32);
    match base {
        Base::Software => Together::Sharing(tile_of(unit)),
        Base::Portable | Base::Subgroup => {
            let tile = lanes_of_head(dim.div_ceil(4) as u32).map(|_| neighbours_of(unit));
            Together::Neighbours(tile.unwrap_or(1))
        }
    }
}

impl Builder<'_> {
    /// Attention of `queries` `[rows, heads, stride]` over the positions each row sees, into `output` of the same shape. `sinks` are
    /// those of the heads, or nothing where they have none.
    /// `scratch` has room for what [`scratch`] says of each step; no row sees more than `context`. Where there is `written`, a zero
    /// for each head of each row, whoever writes the last part of a row merges them.
    pub(crate) fn attention(
        &mut self,
        heads: &Heads,
        [queries, scratch_buffer, output]: [&Buffer; 3],
        written: Option<&Buffer>,
        cache: KvBuffers<'_>,
        context: usize,
        sinks: &[f32],
    ) -> Result<(), LoadError> {
        let (_, per_head) = scratch(self.kernels.base, heads, context);
        let mut parameters = vec![
            heads.heads,
            heads.kv_heads,
            heads.stride4(),
            heads.window,
            (heads.scale as f32).to_bits(),
            (heads.softcap.unwrap_or(0.0) as f32).to_bits(),
            per_head,
            heads.places(cache),
            u32::from(!sinks.is_empty()),
            0,
            0,
            0,
        ];
        let before = parameters.len();
        parameters.extend(sinks.iter().map(|sink| sink.to_bits()));
        parameters.resize(before + ModelConfig::MOST_SINKS, 0);
        let parameters = self.uniform("attention", &parameters);
        let unit = unit_of(heads.heads / heads.kv_heads);
        let units = Axis::Heads(heads.heads / unit);
        let rows = Axis::Per {
            of: Count::Rows,
            each: 1,
        };
        let each = u64::from(heads.heads * heads.dim);
        let kv = heads.kv;
        let head = u64::from(heads.stride4()) * 16;
        let row = Area::Cells(u64::from(heads.heads) * head);
        let queried = |buffer| Touch::read(buffer, row);
        let cached = |buffer| {
            let area = Area::Positions {
                kv_heads: heads.kv_heads,
                bytes: heads.kv_bytes(),
                window: heads.window,
            };
            Touch::read(buffer, area)
        };
        if self.kernels.base == Base::Software {
            let buffers = [queries, &parameters, scratch_buffer, output];
            return self.software_attention(heads, buffers, cache);
        }
        let merges = written.is_some();
        let splits = Splits {
            each: SPLIT,
            most: MOST_PARTS,
            window: heads.window,
        };
        let mut buffers = vec![
            self.step,
            cache.tables,
            cache.keys,
            queries,
            &parameters,
            cache.values,
            scratch_buffer,
            output,
        ];
        buffers.extend(written);
        let in_parts = Which::InParts(splits);
        let parts = Area::Parts {
            bytes: u64::from(heads.heads) * (head + 16),
            splits,
        };
        let mut touches = vec![
            cached(2),
            queried(3),
            cached(5),
            Touch::write(6, parts).of(in_parts),
            Touch::write(7, row).of(Which::Whole(splits)),
        ];
        if merges {
            touches.push(Touch::read(6, parts).of(in_parts));
            touches.push(Touch::write(7, row).of(in_parts));
            let each = Area::Cells(u64::from(heads.heads / unit) * 4);
            touches.push(Touch::update(8, each).of(in_parts));
        }
        let tile = lanes_of_head(heads.stride4()).map(|lanes| AttentionKernel::Tile {
            unit,
            lanes,
            kv,
            merges,
        });
        let alone = AttentionKernel::Split {
            base: self.kernels.base,
            unit,
            kv,
            merges,
        };
        let of_tiles = tile.map(|tile| (tile, Count::Tiles(heads.window), Share::Together));
        let of_rows = (alone, Count::Alone, Share::Alone);
        for (kernel, of, share) in of_tiles.into_iter().chain([of_rows]) {
            let grid = [Axis::Parts(splits), units, Axis::Per { of, each: 1 }];
            let choice = SizedKernel::always(Kernel::Attention(kernel), grid);
            let work = Work::Positions {
                each: 2 * each,
                window: heads.window,
                share,
            };
            self.dispatch(of, &[choice], &buffers, work, &touches)?;
        }
        if merges {
            return Ok(());
        }
        let grid = [Axis::Heads(heads.heads), rows, Axis::Fixed(1)];
        let kernel = Kernel::Attention(AttentionKernel::Merge);
        let buffers = [self.step, scratch_buffer, output, &parameters];
        let rows_beyond = Count::RowsBeyond {
            window: heads.window,
            most: SPLIT,
        };
        let work = Work::positions(each.div_ceil(u64::from(SPLIT)), heads.window);
        let touches = [
            Touch::read(1, parts).of(in_parts),
            Touch::write(2, row).of(in_parts),
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
