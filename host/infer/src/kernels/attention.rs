//! Attention over KV blocks.

use tidegate_weights::ModelConfig;

use super::Kernel;
use super::binding::{Access, Bindings};
use super::heads::{Heads, KvBuffers};
use super::kv::{KvPrecision, keys_file};
use super::norm::{needs, reduction};
use super::source::{LANES, blocks, for_each, join, shader};
use super::variant::Base;
use crate::buffer::Buffer;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, Share, SizedKernel, Splits, Work, visible_in};
use crate::touch::{Area, Touch, Which};

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
const MOST_UNIT: u32 = 8;

/// Queries that a software adapter takes together: a lane keeps a sum of each in a register.
const MOST_QUERIES: u32 = 8;

/// Rows that the words of a step name for a tile on a software adapter: as many as one has at most, of one query head each.
pub(crate) const TILE_ROWS: usize = MOST_QUERIES as usize;

/// Lanes of a workgroup there: one vector of the CPU.
const NARROW_LANES: u32 = 8;

/// Heads that there is room for sinks of.
const MOST_SINKS: (&str, u32) = ("MOST_SINKS", ModelConfig::MOST_SINKS as u32);

/// Positions of a group there: four for each lane.
pub(crate) const GROUP: u32 = 4 * NARROW_LANES;

/// Groups of a workgroup there: for so many keys its queries are told to all lanes once.
const SPAN: u32 = 16;

/// Quads of a query that are told at once, at most: of eight queries the first cache of a CPU holds no more.
const MOST_CHUNK: u32 = 16;

/// Pairs of quads of the values that a workgroup there sums up: a quad for each lane.
const VALUE_PAIRS: u32 = NARROW_LANES / 2;

/// How software adapters read keys and values, two quads of a head at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reads {
    /// Each quad by itself.
    Pairs,
    /// Both at once: in f16 where a head is pairs of quads, and in int8.
    Wide,
}

impl Reads {
    fn of(stride4: u32, kv: KvPrecision) -> Reads {
        match kv {
            KvPrecision::F16 if stride4.is_multiple_of(2) => Reads::Wide,
            KvPrecision::F32 | KvPrecision::F16 => Reads::Pairs,
            // Heads are padded to pairs.
            KvPrecision::Int8 => Reads::Wide,
        }
    }

    /// Quads of one read.
    fn unit(self) -> u32 {
        match self {
            Reads::Wide => 2,
            Reads::Pairs => 1,
        }
    }

    /// How scales are read beside them: two quads of int8 always lie together.
    fn scales(kv: KvPrecision) -> &'static str {
        match kv {
            KvPrecision::F32 | KvPrecision::F16 => shader!("attention/scales_none.wgsl"),
            KvPrecision::Int8 => shader!("attention/scales_wide.wgsl"),
        }
    }

    fn file(self) -> &'static str {
        match self {
            Reads::Pairs => shader!("attention/attention_pairs.wgsl"),
            Reads::Wide => shader!("attention/attention_pairs_wide.wgsl"),
        }
    }
}

/// How software adapters take a head: by its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadCut {
    /// How its keys and values are read.
    reads: Reads,
    /// Quads of queries that are told at once.
    chunk: u32,
    /// Whether a head is wider than that.
    several: bool,
    /// Whether its scores are capped.
    capped: bool,
}

impl HeadCut {
    /// Of a head of so many quads.
    pub(crate) fn of(stride4: u32, kv: KvPrecision, capped: bool) -> HeadCut {
        // As few chunks as there can be, of multiples of four quads, with little beyond the head's end.
        let chunks = stride4.div_ceil(MOST_CHUNK).max(1);
        HeadCut {
            reads: Reads::of(stride4, kv),
            chunk: stride4.div_ceil(chunks).next_multiple_of(4),
            several: chunks > 1,
            capped,
        }
    }

    /// Every one that there is.
    pub(crate) fn all(kv: KvPrecision) -> Vec<HeadCut> {
        let mut all = Vec::new();
        // Heads of an odd and of an even number of quads, of one chunk and of more.
        for stride4 in 1..=3 * MOST_CHUNK {
            for capped in [false, true] {
                let cut = HeadCut::of(stride4, kv, capped);
                if !all.contains(&cut) {
                    all.push(cut);
                }
            }
        }
        all
    }

    /// Whether scores are capped.
    pub(crate) fn capped(self) -> bool {
        self.capped
    }
}

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

/// Rows that a software adapter takes together at most.
pub(crate) fn tile_of(unit: u32) -> u32 {
    (MOST_QUERIES / unit).max(1)
}

/// Rows that kernels of a software adapter take together: alone, and in tiles where those are more.
fn rows_of(unit: u32) -> impl DoubleEndedIterator<Item = u32> {
    let tile = Some(tile_of(unit)).filter(|rows| *rows > 1);
    [Some(1), tile].into_iter().flatten()
}

/// Scores and values on a software adapter, of heads so cut.
fn software(
    unit: u32,
    rows: u32,
    broadcast: bool,
    kv: KvPrecision,
    cut: HeadCut,
) -> [AttentionKernel; 2] {
    [
        AttentionKernel::Scores {
            unit,
            rows,
            broadcast,
            kv,
            cut,
        },
        AttentionKernel::Values {
            unit,
            rows,
            broadcast,
            kv,
            reads: cut.reads,
        },
    ]
}

/// The own file of the scores on a software adapter, written out for so many queries.
fn scores_text(queries: u32, chunk: u32, broadcast: bool) -> String {
    let told = if broadcast {
        shader!("attention/attention_queries_broadcast.wgsl")
    } else {
        shader!("attention/attention_queries_direct.wgsl")
    };
    let pairs = chunk / 2;
    let key = blocks("$P", pairs, shader!("attention/attention_key.wgsl"));
    let text = shader!("attention/attention_scores.wgsl")
        .replace("$QUERIES", told)
        .replace("$KEY", &key);
    for_each("$K", queries, &for_each("$P", pairs, &text))
}

/// The same of the values.
fn values_text(queries: u32) -> String {
    let values = blocks("$P", VALUE_PAIRS, shader!("attention/attention_value.wgsl"));
    let text = shader!("attention/attention_values.wgsl").replace("$VALUES", &values);
    for_each("$K", queries, &for_each("$P", VALUE_PAIRS, &text))
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

/// What the kernels of a software adapter may count as visible: tiles hang over the window, groups over both ends.
pub(crate) fn hanging_over(window: u32) -> u32 {
    window.saturating_add(MOST_QUERIES + 2 * GROUP)
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
        let software = |[unit, rows]: [u32; 2],
                        kv: KvPrecision,
                        cut: Option<HeadCut>,
                        reads: Reads,
                        files: &[&str]| {
            let shared = [
                shader!("step.wgsl"),
                shader!("attention/tables.wgsl"),
                shader!("attention/paged.wgsl"),
                kv.file(),
                shader!("attention/attention.wgsl"),
                shader!("attention/attention_software.wgsl"),
                reads.file(),
                Reads::scales(kv),
            ];
            let mut constants = vec![
                ("HEADS", unit),
                ("ROWS", rows),
                ("GROUP", GROUP),
                ("UNIT", reads.unit()),
                MOST_SINKS,
                ("CAPPED", cut.is_some_and(HeadCut::capped).into()),
            ];
            if let Some(cut) = cut {
                constants.extend([
                    ("SPAN", SPAN),
                    ("CHUNK", cut.chunk),
                    ("SEVERAL", cut.several.into()),
                ]);
            }
            join(&constants, &[&shared, files].concat())
        };
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
            } => {
                let text = scores_text(unit * rows, cut.chunk, broadcast);
                software([unit, rows], kv, Some(cut), cut.reads, &[&text])
            }
            AttentionKernel::Values {
                unit,
                rows,
                broadcast,
                kv,
                reads,
            } => {
                let lanes = if broadcast {
                    shader!("attention/attention_lanes_broadcast.wgsl")
                } else {
                    shader!("attention/attention_lanes_direct.wgsl")
                };
                software(
                    [unit, rows],
                    kv,
                    None,
                    reads,
                    &[lanes, &values_text(unit * rows)],
                )
            }
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
                    keys_file(Base::Portable),
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
                    keys_file(Base::Portable),
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
                for broadcast in [false, true] {
                    for rows in rows_of(unit) {
                        for cut in HeadCut::all(kv) {
                            for kernel in software(unit, rows, broadcast, kv, cut) {
                                if !kernels.contains(&kernel) {
                                    kernels.push(kernel);
                                }
                            }
                        }
                    }
                }
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
            let visible = (hanging_over(heads.window) as usize).min(positions);
            // After them what a tile leaves of each lane: the sum of its weights, and of its values by eight quads.
            let carried = (1 + (heads.stride4() as usize).next_multiple_of(8)) * GROUP as usize;
            let scores = visible.next_multiple_of(GROUP as usize) + carried;
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
            0,
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

    /// The same on a software adapter, as the step says which rows go together ([`Company`](crate::program::Company)): all scores,
    /// then what is summed up together, then what rows have alone, since that goes on with the sums of their tiles.
    fn software_attention(
        &mut self,
        heads: &Heads,
        [queries, parameters, scratch, output]: [&Buffer; 4],
        cache: KvBuffers<'_>,
    ) -> Result<(), LoadError> {
        let traits = self.site.traits();
        let broadcast = traits.features.subgroup && traits.subgroup_lanes[0] >= NARROW_LANES;
        let unit = unit_of(heads.heads / heads.kv_heads);
        let cut = HeadCut::of(heads.stride4(), heads.kv, heads.softcap.is_some());
        let units = Axis::Heads(heads.heads / unit);
        let elements = heads.stride4().div_ceil(2 * VALUE_PAIRS);
        let window = heads.window;
        let row = Area::Cells(u64::from(heads.heads * heads.stride4()) * 16);
        let cached = Area::Positions {
            kv_heads: heads.kv_heads,
            bytes: heads.kv_bytes(),
            window,
        };
        let scored = Area::Parts {
            bytes: u64::from(heads.heads) * 4,
            splits: Splits {
                each: 1,
                most: u32::MAX,
                window,
            },
        };
        let part = |rows: u32| match rows {
            1 => (Count::Alone, Count::VisibleAlone(window), Share::Alone),
            _ => (
                Count::Tiles(window),
                Count::VisibleTogether(window),
                Share::Together,
            ),
        };
        let kernels = |rows| software(unit, rows, broadcast, heads.kv, cut).map(Kernel::Attention);
        let work = |share| Work::Positions {
            each: u64::from(heads.heads * heads.dim),
            window,
            share,
        };
        let buffers = [
            self.step,
            cache.tables,
            cache.keys,
            queries,
            parameters,
            scratch,
        ];
        for rows in rows_of(unit) {
            let (of, positions, share) = part(rows);
            let groups = Axis::Per {
                of: positions,
                each: GROUP * SPAN,
            };
            let [scores, _] = kernels(rows);
            let grid = [groups, units, Axis::Per { of, each: 1 }];
            let choice = SizedKernel::always(scores, grid);
            let touches = [
                Touch::read(2, cached),
                Touch::read(3, row),
                Touch::write(5, scored),
            ];
            self.dispatch(of, &[choice], &buffers, work(share), &touches)?;
        }
        let buffers = [
            self.step,
            cache.tables,
            cache.values,
            scratch,
            parameters,
            output,
        ];
        for rows in rows_of(unit).rev() {
            let (of, _, share) = part(rows);
            let [_, values] = kernels(rows);
            let grid = [Axis::Elements(elements), units, Axis::Per { of, each: 1 }];
            let choice = SizedKernel::always(values, grid);
            let touches = [
                Touch::read(2, cached),
                Touch::read(3, scored),
                Touch::write(5, row),
            ];
            self.dispatch(of, &[choice], &buffers, work(share), &touches)?;
        }
        Ok(())
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
