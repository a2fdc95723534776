//! What a layer with experts runs beside products: which experts each row goes through, which rows each expert has, what gpt-oss
//! has between the products, and the sum of their outputs.

use tidegate_weights::{ClampedGate, Experts};

use super::binding::{Access, Bindings};
use super::source::{LANES, join, shader};
use super::{Base, Kernel, KernelSet, MOST_TURNS, NormStore, StorageFormat, Subgroups, Tiling};
use crate::buffer::Buffer;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, SizedKernel, Work};
use crate::touch::{Area, Touch};

/// Lanes where one row is one lane: one vector of a software adapter's CPU.
const NARROW_LANES: u32 = 8;

/// Lanes that a GPU has to bring all pairs together.
const GROUP_LANES: u32 = 256;

/// Words of a tile of pairs: expert, pairs, two unused, then up to eight pairs.
const TILE_WORDS: usize = 12;

/// A kernel of a layer with experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpertKernel {
    /// The experts of each row.
    Route {
        /// Whether for software adapters.
        software: bool,
    },
    /// Pairs of rows and experts, by expert in tiles of so many.
    Group {
        /// Whether for software adapters.
        software: bool,
        /// Pairs of a tile.
        rows: u32,
    },
    /// Biases and the clamped gate between the two products of an expert.
    Activate,
    /// The sum of the outputs of a row's experts.
    Combine {
        /// Where it goes.
        store: NormStore,
        /// What there is beside them.
        with: CombinedWith,
    },
}

/// What the outputs of a row's experts are added up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CombinedWith {
    /// Nothing.
    Nothing,
    /// The output of the shared expert.
    Shared,
    /// A bias for each output.
    Biases,
}

impl CombinedWith {
    const ALL: [CombinedWith; 3] = [
        CombinedWith::Nothing,
        CombinedWith::Shared,
        CombinedWith::Biases,
    ];
}

impl ExpertKernel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ExpertKernel::Route { .. } => "route",
            ExpertKernel::Group { .. } => "group",
            ExpertKernel::Activate => "activate",
            ExpertKernel::Combine { .. } => "combine",
        }
    }

    pub(crate) fn needs(self) -> Features {
        Features::NONE
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        match self {
            ExpertKernel::Route { .. } | ExpertKernel::Group { .. } => {
                &[(0, Read), (2, Read), (3, Write), (4, Uniform)]
            }
            ExpertKernel::Combine {
                with: CombinedWith::Nothing,
                ..
            } => &[(1, Read), (2, Read), (3, Write), (4, Uniform)],
            ExpertKernel::Activate | ExpertKernel::Combine { .. } => {
                &[(1, Read), (2, Read), (3, Write), (4, Uniform), (5, Read)]
            }
        }
    }

    pub(crate) fn source(self) -> String {
        let most = ("MOST", Experts::MOST as u32);
        match self {
            ExpertKernel::Route { software } => {
                let (lanes, kernel) = match software {
                    true => (NARROW_LANES, shader!("experts/route_software.wgsl")),
                    false => (LANES, shader!("experts/route_portable.wgsl")),
                };
                let files = [shader!("step.wgsl"), shader!("experts/route.wgsl"), kernel];
                join(&[("LANES", lanes), most], &files)
            }
            ExpertKernel::Group { software, rows } => {
                let kernel = match software {
                    true => shader!("experts/group_software.wgsl"),
                    false => shader!("experts/group_portable.wgsl"),
                };
                let files = [shader!("step.wgsl"), shader!("experts/group.wgsl"), kernel];
                join(&[("LANES", GROUP_LANES), most, ("TILE", rows)], &files)
            }
            ExpertKernel::Activate => {
                join(&[("LANES", LANES)], &[shader!("experts/activate.wgsl")])
            }
            ExpertKernel::Combine { store, with } => {
                let output = match with {
                    CombinedWith::Nothing => shader!("experts/combine_alone.wgsl"),
                    CombinedWith::Shared => shader!("experts/combine_shared.wgsl"),
                    CombinedWith::Biases => shader!("experts/combine_biased.wgsl"),
                };
                let constants = [
                    ("LANES", LANES),
                    store.constant(),
                    ("SHARED", u32::from(with == CombinedWith::Shared)),
                    ("BIASED", u32::from(with == CombinedWith::Biases)),
                ];
                join(&constants, &[output, shader!("experts/combine.wgsl")])
            }
        }
    }

    pub(crate) fn in_use() -> Vec<ExpertKernel> {
        let mut kernels = vec![ExpertKernel::Activate];
        for software in [false, true] {
            kernels.push(ExpertKernel::Route { software });
            kernels.extend([1, 4, 8].map(|rows| ExpertKernel::Group { software, rows }));
        }
        for store in NormStore::ALL {
            let combine = |with| ExpertKernel::Combine { store, with };
            kernels.extend(CombinedWith::ALL.map(combine));
        }
        kernels
    }
}

/// How rows go through experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Routing {
    /// Experts of a layer.
    pub(crate) experts: u32,
    /// Experts of a row.
    pub(crate) chosen: u32,
    /// Whether the weights of these sum to 1.
    pub(crate) normalized: bool,
    /// Whether there is one that all rows go through.
    pub(crate) shared: bool,
}

impl Routing {
    pub(crate) fn of(experts: &Experts) -> Routing {
        Routing {
            experts: experts.count as u32,
            chosen: experts.chosen as u32,
            normalized: experts.normalized,
            shared: experts.shared.is_some(),
        }
    }

    /// Experts of a row, with the shared one.
    pub(crate) fn slots(self) -> u32 {
        self.chosen + u32::from(self.shared)
    }

    /// Rows of a pass at most: the one invocation that brings pairs together on a software adapter goes over them twice, over tiles once,
    /// of which there are fewer than pairs, and over the experts three times (`shaders/experts/group_software.wgsl`).
    pub(crate) fn most_rows(self, base: Base) -> usize {
        match base {
            Base::Software => {
                let pairs = (MOST_TURNS / 3).saturating_sub(self.experts as usize);
                (pairs / self.chosen.max(1) as usize).max(1)
            }
            Base::Portable | Base::Subgroup => usize::MAX,
        }
    }

    /// Refuses a choice that takes more turns than there are on a software adapter: for each of the chosen all experts are looked at
    /// (`shaders/experts/route_software.wgsl`).
    ///
    /// # Errors
    /// The kernels, the adapter, and both numbers.
    pub(crate) fn check(
        self,
        kernels: KernelSet,
        adapter: impl Fn() -> String,
    ) -> Result<(), LoadError> {
        let [experts, chosen] = [self.experts, self.chosen].map(|count| count as usize);
        let turns = chosen * (experts + 2) + experts;
        let what = || format!("to choose {chosen} of {experts} experts");
        kernels.check_turns(turns, what, adapter)
    }

    /// Rows of the tiles of products with these experts: each with the most rows of a step it is chosen for. A tile is as
    /// large as most experts have rows.
    pub(crate) fn tiles(self, kernels: KernelSet) -> Vec<(u32, u32)> {
        // Of any format there are tiles of as many rows.
        let subgroups = Subgroups {
            broadcast: false,
            lanes: 4,
        };
        let tilings = Tiling::of_experts(kernels, StorageFormat::F32, subgroups);
        let rows = tilings.iter().map(|tiling| tiling.extent()[1]);
        self.sized(rows).collect()
    }

    /// For each of several tiles, from small to large, the most rows it is chosen for.
    pub(crate) fn sized<T>(
        self,
        tiles: impl ExactSizeIterator<Item = T>,
    ) -> impl Iterator<Item = (u32, T)> {
        // Where each expert has four rows on average.
        let four = (4 * self.experts / self.chosen.max(1)).max(8);
        let last = tiles.len().saturating_sub(1);
        tiles.enumerate().map(move |(index, tile)| {
            let most = match index {
                _ if index == last => u32::MAX,
                0 => 1,
                _ => four,
            };
            (most, tile)
        })
    }

    /// Workgroups that share tiles of `each` pairs.
    pub(crate) fn axis(self, each: u32) -> Axis {
        Axis::Groups {
            chosen: self.chosen,
            experts: self.experts,
            each,
        }
    }

    /// Words of all tiles of up to so many rows, whatever they are of, with what is counted behind them.
    pub(crate) fn group_words(self, rows: usize) -> usize {
        self.counters(rows) + 2 * self.experts as usize
    }

    /// Where that begins.
    fn counters(self, rows: usize) -> usize {
        // A tile has one pair at least.
        rows * self.chosen as usize * TILE_WORDS
    }
}

fn software(kernels: KernelSet) -> bool {
    kernels.base == Base::Software
}

impl Builder<'_> {
    /// The experts of each row by its `logits` `[rows, stride]`, and what each counts for: `routes` `[rows, slots]`.
    pub(crate) fn route(
        &mut self,
        routing: Routing,
        [logits, routes]: [&Buffer; 2],
        stride: usize,
    ) -> Result<(), LoadError> {
        let kernel = ExpertKernel::Route {
            software: software(self.kernels),
        };
        let slots = routing.slots();
        let parameters = [
            routing.experts,
            stride as u32,
            routing.chosen,
            slots,
            u32::from(routing.normalized),
            0,
            0,
            0,
        ];
        let parameters = self.uniform("route", &parameters);
        let each = match software(self.kernels) {
            true => NARROW_LANES,
            false => 1,
        };
        let of = Count::Rows;
        let grid = [Axis::Per { of, each }, Axis::Fixed(1), Axis::Fixed(1)];
        let choice = SizedKernel::always(Kernel::Experts(kernel), grid);
        let looked_at = routing.experts + u32::from(routing.shared);
        let touches = [
            Touch::read(1, Area::Rows(u64::from(looked_at) * 4)),
            Touch::write(2, Area::Rows(u64::from(slots) * 8)),
        ];
        let work = Work::Rows(u64::from(routing.experts) * 4);
        let buffers = [self.step, logits, routes, &parameters];
        self.dispatch(of, &[choice], &buffers, work, &touches)
    }

    /// `routes` by expert: `groups`, of [`Routing::group_words`] for up to `most_rows` rows.
    pub(crate) fn group(
        &mut self,
        routing: Routing,
        [routes, groups]: [&Buffer; 2],
        most_rows: usize,
    ) -> Result<(), LoadError> {
        let counters = routing.counters(most_rows) as u32;
        let (chosen, slots) = (routing.chosen, routing.slots());
        let parameters = self.uniform("group", &[routing.experts, chosen, slots, counters]);
        let software = software(self.kernels);
        let choices: Vec<SizedKernel> = routing
            .tiles(self.kernels)
            .into_iter()
            .map(|(most, rows)| SizedKernel {
                most,
                kernel: Kernel::Experts(ExpertKernel::Group { software, rows }),
                grid: [Axis::Fixed(1); 3],
            })
            .collect();
        let touches = [
            Touch::read(1, Area::Rows(u64::from(slots) * 8)),
            Touch::write(2, Area::Rows(u64::from(chosen) * 4)),
        ];
        let work = Work::Rows(u64::from(chosen) * 4);
        let buffers = [self.step, routes, groups, &parameters];
        self.dispatch(Count::Rows, &choices, &buffers, work, &touches)
    }

    /// What is between gate and up `[rows, chosen, 2 · width]`, which come in turn, and down: `biases` `[experts, 2 · width]` of the
    /// same order, and a clamped gate, into `output` `[rows, chosen, width]`.
    pub(crate) fn activate(
        &mut self,
        routing: Routing,
        [routes, input, output]: [&Buffer; 3],
        biases: &Buffer,
        width: usize,
        of: ClampedGate,
    ) -> Result<(), LoadError> {
        let width4 = (width / 4) as u32;
        let [slope, limit] = [of.slope, of.limit].map(|number| (number as f32).to_bits());
        let parameters = [
            width4,
            routing.chosen,
            routing.slots(),
            0,
            slope,
            limit,
            0,
            0,
        ];
        let parameters = self.uniform("activate", &parameters);
        let of = Count::Rows;
        let grid = [
            Axis::Columns(width4.div_ceil(LANES)),
            Axis::Per { of, each: 1 },
            Axis::Fixed(1),
        ];
        let choice = SizedKernel::always(Kernel::Experts(ExpertKernel::Activate), grid);
        let row = (width * 4) as u64 * u64::from(routing.chosen);
        let touches = [
            Touch::read(0, Area::Rows(u64::from(routing.slots()) * 8)),
            Touch::read(1, Area::Cells(2 * row)),
            Touch::write(2, Area::Cells(row)),
            // Of as many experts as a row goes through.
            Touch::read(4, Area::Cells(2 * row)),
        ];
        let work = Work::Rows(width as u64 * u64::from(routing.chosen));
        let buffers = [routes, input, output, &parameters, biases];
        self.dispatch(of, &[choice], &buffers, work, &touches)
    }

    /// The outputs of experts `[rows, chosen, width]`, and of the shared one `[rows, width]` if there is one, times what `routes`
    /// says, into `output` `[rows, width]` as `store` says. Biases of outputs are `[experts, width]`.
    pub(crate) fn combine(
        &mut self,
        routing: Routing,
        [routes, experts, output]: [&Buffer; 3],
        beside: Option<(CombinedWith, &Buffer)>,
        width: usize,
        store: NormStore,
    ) -> Result<(), LoadError> {
        let with = beside.map_or(CombinedWith::Nothing, |(with, _)| with);
        let kernel = ExpertKernel::Combine { store, with };
        let width4 = (width / 4) as u32;
        let parameters = self.uniform("combine", &[width4, routing.chosen, routing.slots(), 0]);
        let of = Count::Rows;
        let grid = [
            Axis::Columns(width4.div_ceil(LANES)),
            Axis::Per { of, each: 1 },
            Axis::Fixed(1),
        ];
        let choice = SizedKernel::always(Kernel::Experts(kernel), grid);
        let row = (width * 4) as u64;
        let mut buffers = vec![routes, experts, output, &parameters];
        buffers.extend(beside.map(|(_, buffer)| buffer));
        let mut touches = vec![
            Touch::read(0, Area::Rows(u64::from(routing.slots()) * 8)),
            Touch::read(1, Area::Cells(row * u64::from(routing.chosen))),
            store.touch(2, Area::Cells(row)),
        ];
        touches.extend(match with {
            CombinedWith::Nothing => None,
            CombinedWith::Shared => Some(Touch::read(4, Area::Cells(row))),
            // Of as many experts as a row goes through.
            CombinedWith::Biases => {
                let all = row * u64::from(routing.chosen);
                Some(Touch::read(4, Area::Cells(all)))
            }
        });
        let work = Work::Rows(width as u64 * u64::from(routing.slots()));
        self.dispatch(of, &[choice], &buffers, work, &touches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::KernelVariant;

    #[test]
    fn tiles_grow_with_the_rows_that_experts_have() {
        let routing = Routing {
            experts: 128,
            chosen: 8,
            normalized: true,
            shared: false,
        };
        let tiles = |variant| routing.tiles(KernelSet::of(variant, false, false));
        let all = [(1, 1), (64, 4), (u32::MAX, 8)];
        assert_eq!(tiles(KernelVariant::Portable), all);
        assert_eq!(tiles(KernelVariant::Software), all);
        // These read weights in tiles as well.
        assert_eq!(tiles(KernelVariant::Cooperative), all);
        for variant in [KernelVariant::F16, KernelVariant::Dot] {
            assert_eq!(tiles(variant), [(1, 1), (u32::MAX, 4)], "{variant}");
        }
    }

    #[test]
    fn every_format_has_tiles_of_as_many_rows() {
        for variant in KernelVariant::ALL {
            let set = KernelSet::of(variant, false, false);
            let rows = |stored| -> Vec<u32> {
                let subgroups = Subgroups {
                    broadcast: true,
                    lanes: 32,
                };
                let tilings = Tiling::of_experts(set, stored, subgroups);
                tilings.iter().map(|tiling| tiling.extent()[1]).collect()
            };
            let expected = rows(StorageFormat::F32);
            for stored in StorageFormat::ALL {
                assert_eq!(rows(stored), expected, "{variant}, {stored:?}");
            }
        }
    }
}
