//! Attention on software adapters: all scores of a step first, then what they weigh. A lane takes positions by itself, without
//! workgroup memory or barriers, and rows that see the same blocks are taken together.

use super::{AttentionKernel, MOST_SINKS, unit_of};
use crate::buffer::Buffer;
use crate::kernels::Kernel;
use crate::kernels::heads::{Heads, KvBuffers};
use crate::kernels::kv::KvPrecision;
use crate::kernels::layout::layout_file;
use crate::kernels::source::{WORDS, blocks, for_each, join, shader};
use crate::kernels::variant::Base;
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, Share, SizedKernel, Splits, Work};
use crate::touch::{Area, Touch};

/// Queries that a software adapter takes together: a lane keeps a sum of each in a register.
const MOST_QUERIES: u32 = 8;

/// Rows that the words of a step name for a tile on a software adapter: as many as one has at most, of one query head each.
pub(crate) const TILE_ROWS: usize = MOST_QUERIES as usize;

/// Lanes of a workgroup there: one vector of the CPU.
const NARROW_LANES: u32 = 8;

/// Positions of a group there: four for each lane.
pub(crate) const GROUP: u32 = 4 * NARROW_LANES;

/// Groups of a workgroup there: for so many keys its queries are told to all lanes once.
const SPAN: u32 = 16;

/// Quads of a query that are told at once, at most: of eight queries the first cache of a CPU holds no more.
const MOST_CHUNK: u32 = 16;

/// Fours of quads of the values that a workgroup there sums up at least: a quad for each lane.
const VALUE_FOURS: u32 = NARROW_LANES / 4;

/// Queries of a workgroup at most that takes all four positions of a lane at once, and twice as many quads of the values: of more its
/// text takes long to compile.
const FEW_QUERIES: u32 = 2;

/// How software adapters read keys and values, four quads of a head at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reads {
    /// Each quad by itself.
    Quads,
    /// Two at once: in f16 where a head is pairs of quads.
    Pairs,
    /// All at once: in f16 where a head is fours of quads, and in int8.
    Fours,
}

impl Reads {
    fn of(stride4: u32, kv: KvPrecision) -> Reads {
        match kv {
            KvPrecision::F32 => Reads::Quads,
            KvPrecision::F16 if stride4.is_multiple_of(4) => Reads::Fours,
            KvPrecision::F16 if stride4.is_multiple_of(2) => Reads::Pairs,
            KvPrecision::F16 => Reads::Quads,
            // Heads are padded to fours.
            KvPrecision::Int8 => Reads::Fours,
        }
    }

    /// Quads of one read.
    fn unit(self) -> u32 {
        match self {
            Reads::Quads => 1,
            Reads::Pairs => 2,
            Reads::Fours => 4,
        }
    }

    /// How four quads are read at once.
    fn fours(self, kv: KvPrecision) -> &'static str {
        match (self, kv) {
            (Reads::Quads | Reads::Pairs, _) => "",
            (Reads::Fours, KvPrecision::Int8) => shader!("attention/fours_int8.wgsl"),
            (Reads::Fours, KvPrecision::F32 | KvPrecision::F16) => {
                shader!("attention/fours_f16.wgsl")
            }
        }
    }

    /// How scales are read beside them: four quads of int8 always lie together.
    fn scales(kv: KvPrecision) -> &'static str {
        match kv {
            KvPrecision::F32 | KvPrecision::F16 => shader!("attention/scales_none.wgsl"),
            KvPrecision::Int8 => shader!("attention/scales_int8.wgsl"),
        }
    }

    fn file(self) -> &'static str {
        match self {
            Reads::Quads => shader!("attention/attention_reads_quads.wgsl"),
            Reads::Pairs => shader!("attention/attention_reads_pairs.wgsl"),
            Reads::Fours => shader!("attention/attention_reads_fours.wgsl"),
        }
    }
}

/// How software adapters take a head: by its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadCut {
    /// How its keys and values are read.
    pub(super) reads: Reads,
    /// Quads of queries that are told at once.
    chunk: u32,
    /// Whether a head is wider than that.
    several: bool,
    /// Whether its scores are capped.
    capped: bool,
    /// Whether it has more quads than a workgroup of the values takes at least.
    wide: bool,
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
            wide: stride4 > 4 * VALUE_FOURS,
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

    /// Fours of quads that a workgroup of the values takes of so many queries.
    fn value_fours(self, queries: u32) -> u32 {
        match self.wide && queries <= FEW_QUERIES {
            true => 2 * VALUE_FOURS,
            false => VALUE_FOURS,
        }
    }

    /// Whether scores are capped.
    pub(crate) fn capped(self) -> bool {
        self.capped
    }
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
            fours: cut.value_fours(unit * rows),
        },
    ]
}

/// How many positions of a lane scores of so many queries take at once, and how turns begin: all four without a loop, or each in one.
fn turns(queries: u32) -> (u32, &'static str) {
    if queries <= FEW_QUERIES {
        (4, "let turn = 0u; {")
    } else {
        (1, "for (var turn = 0u; turn < 4u; turn++) {")
    }
}

/// The own file of the scores on a software adapter, written out for so many queries.
fn scores_text(queries: u32, chunk: u32, broadcast: bool) -> String {
    let told = if broadcast {
        shader!("attention/attention_queries_broadcast.wgsl")
    } else {
        shader!("attention/attention_queries_direct.wgsl")
    };
    let fours = chunk / 4;
    let key = blocks("$P", fours, shader!("attention/attention_key.wgsl"));
    let (at_once, begun) = turns(queries);
    let text = shader!("attention/attention_scores.wgsl")
        .replace("$QUERIES", told)
        .replace("$TURNS", begun)
        .replace("$KEY", &key);
    let text = for_each("$F", at_once, &text);
    for_each("$K", queries, &for_each("$P", fours, &text))
}

/// The same of the values, of so many fours of quads.
fn values_text(queries: u32, fours: u32) -> String {
    let values = blocks("$P", fours, shader!("attention/attention_value.wgsl"));
    let sums: String = (0..fours / 2)
        .map(|eight| {
            let [low, high] = [2 * eight, 2 * eight + 1];
            shader!("attention/attention_sums.wgsl")
                .replace("$E", &eight.to_string())
                .replace("$L", &low.to_string())
                .replace("$H", &high.to_string())
        })
        .collect();
    let text = shader!("attention/attention_values.wgsl")
        .replace("$VALUES", &values)
        .replace("$SUMS", &sums);
    let text = for_each("$E", fours / 2, &text);
    for_each("$K", queries, &for_each("$P", fours, &text))
}

/// The text of scores and values of so many query heads and rows, with the constants and the files that are their own.
fn source(
    [unit, rows]: [u32; 2],
    kv: KvPrecision,
    reads: Reads,
    constants: &[(&str, u32)],
    files: &[&str],
) -> String {
    let shared = [
        WORDS,
        shader!("step.wgsl"),
        shader!("attention/tables.wgsl"),
        shader!("attention/paged.wgsl"),
        layout_file(Base::Software),
        kv.file(),
        shader!("attention/attention.wgsl"),
        shader!("attention/attention_software.wgsl"),
        reads.fours(kv),
        reads.file(),
        Reads::scales(kv),
    ];
    let of_both = [
        ("HEADS", unit),
        ("ROWS", rows),
        ("GROUP", GROUP),
        ("UNIT", reads.unit()),
        ("LEAST_QUADS", 4 * VALUE_FOURS),
        // What a tile is, and its rows by four.
        ("TILE_ENTRIES", 1 + MOST_QUERIES.div_ceil(4)),
        MOST_SINKS,
    ];
    join(&[&of_both, constants].concat(), &[&shared, files].concat())
}

/// The whole text of the scores.
pub(super) fn scores_source(
    [unit, rows]: [u32; 2],
    broadcast: bool,
    kv: KvPrecision,
    cut: HeadCut,
) -> String {
    let text = scores_text(unit * rows, cut.chunk, broadcast);
    let constants = [
        ("CAPPED", cut.capped.into()),
        ("SPAN", SPAN),
        ("CHUNK", cut.chunk),
        ("SEVERAL", cut.several.into()),
    ];
    source([unit, rows], kv, cut.reads, &constants, &[&text])
}

/// The whole text of the values.
pub(super) fn values_source(
    [unit, rows]: [u32; 2],
    broadcast: bool,
    kv: KvPrecision,
    reads: Reads,
    fours: u32,
) -> String {
    let lanes = if broadcast {
        shader!("attention/attention_lanes_broadcast.wgsl")
    } else {
        shader!("attention/attention_lanes_direct.wgsl")
    };
    let text = values_text(unit * rows, fours);
    let constants = [("CAPPED", 0), ("FOURS", fours)];
    source([unit, rows], kv, reads, &constants, &[lanes, &text])
}

/// Every kernel of so many query heads with keys and values so kept.
pub(super) fn in_use(unit: u32, kv: KvPrecision) -> Vec<AttentionKernel> {
    let mut kernels = Vec::new();
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
    kernels
}

/// Elements of scratch for a head of a row that sees up to `positions` positions.
pub(super) fn scores_of_head(heads: &Heads, positions: usize) -> usize {
    let visible = (hanging_over(heads.window) as usize).min(positions);
    // After them what a tile leaves of each lane: the sum of its weights, and those of its values.
    let least = (4 * VALUE_FOURS) as usize;
    let quads = match heads.stride4() as usize {
        few if few <= least => least,
        more => more.next_multiple_of(2 * least),
    };
    let carried = (1 + quads) * GROUP as usize;
    visible.next_multiple_of(GROUP as usize) + carried
}

/// What the kernels of a software adapter may count as visible: tiles hang over the window, groups over both ends.
pub(crate) fn hanging_over(window: u32) -> u32 {
    window.saturating_add(MOST_QUERIES + 2 * GROUP)
}

impl Builder<'_> {
    /// The same on a software adapter, as the step says which rows go together ([`Company`](crate::program::Company)): all scores,
    /// then what is summed up together, then what rows have alone, since that goes on with the sums of their tiles.
    pub(super) fn software_attention(
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
            let own = 4 * cut.value_fours(unit * rows);
            let elements = Axis::Elements(heads.stride4().div_ceil(own));
            let grid = [elements, units, Axis::Per { of, each: 1 }];
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
