//! The dispatches of a step: planned first, without a device if need be, then resolved once to pipelines and bind groups. A step
//! only fills in how many rows.

use std::ops::{Deref, Range};

use crate::buffer::Buffer;
use crate::device::{ComputeCost, Gpu, SpeedEstimate};
use crate::kernels::{GROUP, Kernel, KernelSet, Pipeline, SPLIT, bind, hanging_over};
use crate::load_error::LoadError;
use crate::matrix::Quantized;
use crate::site::Site;
use crate::touch::Touch;

/// What a step comes to. An encoder or a sampler counts what it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) rows: u32,
    /// Rows from which something is sampled.
    pub(crate) samples: u32,
    /// Highest position, plus 1.
    pub(crate) positions: u32,
    /// Rows that have a low-rank adapter.
    pub(crate) adapted: u32,
    pub(crate) company: Company,
}

/// What attention takes together and what alone.
///
/// Of a pair the first is for layers where a row sees everything before it, the second for those where it sees a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Company {
    /// Rows that are taken one by one, as far as they were not taken together before.
    pub(crate) alone: u32,
    /// Positions that one of them sees by itself, at most.
    pub(crate) alone_positions: [u32; 2],
    /// Tiles of rows that are taken together.
    pub(crate) tiles: [u32; 2],
    /// Positions that the rows of one of them see together, at most.
    pub(crate) tile_positions: [u32; 2],
}

/// A number that follows from an [`Extent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Count {
    Rows,
    Samples,
    /// Rows that have a low-rank adapter.
    Adapted,
    /// All rows, if one of them has; else 0.
    Mixed,
    /// All rows, if none of them has; else 0.
    Unadapted,
    /// Positions that a row sees at most, and those before and after them in the splits where its window begins and ends: the
    /// window, `u32::MAX` for none.
    Visible(u32),
    /// Rows that attention takes alone.
    Alone,
    /// Positions that one of them sees by itself at most.
    VisibleAlone(u32),
    /// Tiles of attention, through the window.
    Tiles(u32),
    /// Positions that the rows of a tile see together at most.
    VisibleTogether(u32),
    /// Rows, if any of them may see more than `most` positions through the window; else 0.
    RowsBeyond {
        window: u32,
        most: u32,
    },
}

impl Count {
    pub(crate) fn of(self, extent: Extent) -> u32 {
        match self {
            Count::Rows => extent.rows,
            Count::Samples => extent.samples,
            Count::Adapted => extent.adapted,
            Count::Mixed if extent.adapted > 0 => extent.rows,
            Count::Unadapted if extent.adapted == 0 => extent.rows,
            Count::Mixed | Count::Unadapted => 0,
            Count::Visible(window) => extent.positions.min(visible_in(window)),
            Count::Alone => extent.company.alone,
            Count::VisibleAlone(window) => {
                let [whole, windowed] = extent.company.alone_positions;
                of_window(window, whole, windowed.min(hanging_over(window)))
            }
            Count::Tiles(window) => {
                let [whole, windowed] = extent.company.tiles;
                of_window(window, whole, windowed)
            }
            Count::VisibleTogether(window) => {
                let [whole, windowed] = extent.company.tile_positions;
                of_window(window, whole, windowed.min(hanging_over(window)))
            }
            Count::RowsBeyond { window, most } => {
                if Count::Visible(window).of(extent) > most {
                    extent.rows
                } else {
                    0
                }
            }
        }
    }
}

/// Positions of whole splits that a window may reach into.
pub(crate) fn visible_in(window: u32) -> u32 {
    Splits::most_seen(SPLIT, window).saturating_mul(SPLIT)
}

/// How attention on GPUs cuts what a row sees into parts, one for each workgroup: splits of `each` positions that begin at
/// multiples of that, and parts that begin at multiples of as many splits as it takes to have `most` at most. It follows from the
/// row's position and the window alone (`shaders/attention/attention_splits.wgsl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Splits {
    pub(crate) each: u32,
    pub(crate) most: u32,
    /// Positions that a row sees, its own included; `u32::MAX` for all.
    pub(crate) window: u32,
}

impl Splits {
    /// Splits that a window reaches into at most.
    fn most_seen(each: u32, window: u32) -> u32 {
        ((window.max(1) - 1) / each).saturating_add(2)
    }

    /// Positions of a part of a row that stands after so many.
    pub(crate) fn part(self, positions: u64) -> u64 {
        let before = positions.div_ceil(u64::from(self.each)).max(1);
        let seen = u64::from(Splits::most_seen(self.each, self.window));
        // Parts that begin elsewhere than what is seen are one more.
        let most = u64::from(self.most) - u64::from(before >= seen);
        before.min(seen).div_ceil(most.max(1)) * u64::from(self.each)
    }

    /// The parts of such a row that sees the positions from `begin` on, by the multiple at which they begin.
    pub(crate) fn parts(self, begin: u64, positions: u64) -> Range<u64> {
        let part = self.part(positions);
        begin / part..positions.div_ceil(part)
    }
}

/// What is for layers without a window, or for those with one.
fn of_window<T>(window: u32, whole: T, windowed: T) -> T {
    if window == u32::MAX { whole } else { windowed }
}

/// Workgroups along one axis of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// So many, whatever they share.
    Fixed(u32),
    /// So many that share the columns of rows or of a matrix.
    Columns(u32),
    /// So many that share heads.
    Heads(u32),
    /// So many that share the elements of each head.
    Elements(u32),
    /// One for each `each` of a count, the last for what is left.
    Per { of: Count, each: u32 },
    /// One for each part of what a row, or a tile of rows, sees at most.
    Parts(Splits),
    /// One for each tile of up to `each` pairs of a row and an expert of `experts`, of which a row goes through `chosen`; a tile has
    /// one expert, so that there may be fewer.
    Groups {
        chosen: u32,
        experts: u32,
        each: u32,
    },
}

impl Axis {
    pub(crate) fn workgroups(self, extent: Extent) -> u32 {
        match self {
            Axis::Fixed(workgroups)
            | Axis::Columns(workgroups)
            | Axis::Heads(workgroups)
            | Axis::Elements(workgroups) => workgroups,
            Axis::Per { of, each } => of.of(extent).div_ceil(each),
            Axis::Parts(Splits { each, most, window }) => {
                Count::Visible(window).of(extent).div_ceil(each).min(most)
            }
            Axis::Groups {
                chosen,
                experts,
                each,
            } => {
                let pairs = extent.rows * chosen;
                let begun = pairs.min(experts);
                begun + (pairs - begun) / each
            }
        }
    }
}

/// A kernel that is taken for up to `most` of what its dispatch counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizedKernel {
    pub(crate) most: u32,
    pub(crate) kernel: Kernel,
    pub(crate) grid: [Axis; 3],
}

impl SizedKernel {
    /// The only kernel of a dispatch.
    pub(crate) fn always(kernel: Kernel, grid: [Axis; 3]) -> SizedKernel {
        SizedKernel {
            most: u32::MAX,
            kernel,
            grid,
        }
    }
}

/// What a row of a step, or a tile of an encoder's pass, sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowContext {
    /// The same for all of one sequence.
    pub(crate) sequence: u32,
    /// Positions, without a window.
    pub(crate) positions: u32,
    /// Positions among them that it sees together with other rows, as in [`Company`].
    pub(crate) together: [u32; 2],
}

/// What of the positions that rows see a dispatch works on, where two of them share the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// All.
    All,
    /// What rows see together.
    Together,
    /// What each sees by itself.
    Alone,
}

impl Share {
    /// Positions that its rows see through a window, all together.
    fn positions(self, row_contexts: &[RowContext], window: u32) -> u64 {
        // Groups of a software adapter begin before a window does.
        let most = window.saturating_add(GROUP - 1);
        let seen = |row: &RowContext| {
            let [whole, windowed] = row.together;
            let all = u64::from(row.positions.min(most));
            let together = u64::from(of_window(window, whole, windowed)).min(all);
            match self {
                Share::All => all,
                Share::Together => together,
                Share::Alone => all - together,
            }
        };
        row_contexts.iter().map(seen).sum()
    }
}

/// Multiply-adds, or what takes as long, by which the time of a dispatch is guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// For each that the dispatch counts.
    Rows(u64),
    /// For each position that is seen.
    Positions {
        each: u64,
        /// Positions that a row sees at most.
        window: u32,
        share: Share,
    },
}

impl Work {
    /// For each position that all rows see.
    pub(crate) fn positions(each: u64, window: u32) -> Work {
        Work::Positions {
            each,
            window,
            share: Share::All,
        }
    }
}

/// One dispatch.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) of: Count,
    pub(crate) kernels: Vec<SizedKernel>,
    /// One for each binding of the kernels.
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) work: Work,
    pub(crate) touches: Vec<Touch>,
}

impl Dispatch {
    /// Which of its kernels runs in such a step, if any does.
    fn choose(&self, extent: Extent) -> Option<usize> {
        let count = self.of.of(extent);
        if count == 0 {
            return None;
        }
        self.kernels.iter().position(|choice| count <= choice.most)
    }

    /// The kernel that runs in such a step, if any does.
    pub(crate) fn chosen(&self, extent: Extent) -> Option<&SizedKernel> {
        self.kernels.get(self.choose(extent)?)
    }
}

/// Every dispatch of a step, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan(Vec<Dispatch>);

impl Plan {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// In order.
    pub(crate) fn dispatches(&self) -> &[Dispatch] {
        &self.0
    }

    /// Every kernel that some step may run.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = Kernel> {
        let kernels = self.0.iter().flat_map(|dispatch| &dispatch.kernels);
        kernels.map(|choice| choice.kernel)
    }

    /// The kernel that dispatch `index` runs in such a step, if it runs at all.
    pub(crate) fn kernel(&self, index: usize, extent: Extent) -> Option<Kernel> {
        Some(self.0.get(index)?.chosen(extent)?.kernel)
    }

    /// What each dispatch of such a step comes to, in order.
    pub(crate) fn loads(&self, extent: Extent, row_contexts: &[RowContext]) -> Vec<ComputeCost> {
        // A model has few windows, and many dispatches for each.
        let mut known: Vec<((u32, Share), u64)> = Vec::new();
        let mut seen = |key: (u32, Share)| match known.iter().find(|(other, _)| *other == key) {
            Some((_, positions)) => *positions,
            None => {
                let positions = key.1.positions(row_contexts, key.0);
                known.push((key, positions));
                positions
            }
        };
        let load = |dispatch: &Dispatch| match (dispatch.of.of(extent), dispatch.work) {
            (0, _) => ComputeCost::default(),
            (count, Work::Rows(each)) => ComputeCost {
                rows: each.saturating_mul(u64::from(count)),
                attention: 0,
            },
            (
                _,
                Work::Positions {
                    each,
                    window,
                    share,
                },
            ) => ComputeCost {
                rows: 0,
                attention: each.saturating_mul(seen((window, share))),
            },
        };
        self.0.iter().map(load).collect()
    }

    /// Compiles its kernels and binds its buffers, which are on this device; `checked` keeps wgpu's bounds and loop checks.
    ///
    /// # Errors
    /// A kernel does not compile here, or a buffer was only planned.
    pub(crate) fn resolve(self, gpu: &Gpu, checked: bool) -> Result<Program, LoadError> {
        let resolve = |dispatch: &Dispatch| -> Result<Resolved, LoadError> {
            let kernels = dispatch.kernels.iter();
            let pipelines: Vec<Pipeline> = kernels
                .map(|choice| gpu.pipeline(choice.kernel, checked))
                .collect::<Result<_, _>>()?;
            let buffers = dispatch.buffers.iter().map(Buffer::on_device);
            let buffers: Vec<&wgpu::Buffer> = buffers.collect::<Result<_, _>>()?;
            // All kernels of a dispatch have the same bindings.
            let bindings = pipelines.first().map(|pipeline| {
                let bindings = pipeline.kernel.bindings();
                bind(&gpu.device, &pipeline.layout, &bindings, &buffers)
            });
            Ok(Resolved {
                pipelines,
                bindings,
            })
        };
        Ok(Program {
            resolved: self.0.iter().map(resolve).collect::<Result<_, _>>()?,
            plan: self,
        })
    }
}

/// What a dispatch is on a device.
#[derive(Debug)]
struct Resolved {
    /// One for each of its kernels.
    pipelines: Vec<Pipeline>,
    bindings: Option<wgpu::BindGroup>,
}

/// A plan on a device, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    plan: Plan,
    /// One for each dispatch.
    resolved: Vec<Resolved>,
}

impl Deref for Program {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Program {
    /// Encodes these dispatches and says how many there were.
    pub(crate) fn encode(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        dispatches: Range<usize>,
        extent: Extent,
    ) -> u32 {
        let mut count = 0;
        let planned = self.plan.0.iter().zip(&self.resolved);
        for (dispatch, resolved) in planned.take(dispatches.end).skip(dispatches.start) {
            let Some(index) = dispatch.choose(extent) else {
                continue;
            };
            let [x, y, z] = dispatch.kernels[index]
                .grid
                .map(|axis| axis.workgroups(extent));
            pass.set_pipeline(&resolved.pipelines[index].compiled);
            pass.set_bind_group(0, resolved.bindings.as_ref(), &[]);
            pass.dispatch_workgroups(x, y, z);
            count += 1;
        }
        count
    }
}

/// Whether every dispatch of a step of so many rows fits into a submission by itself.
pub(crate) fn each_fits(loads: &[ComputeCost], rows: u32, speed: &SpeedEstimate) -> bool {
    loads.iter().all(|load| speed.fits(rows, *load))
}

/// Cuts the dispatches of a step of so many rows into submissions that keep to the device's cap by its speed, as far as single
/// dispatches do.
pub(crate) fn submissions(
    loads: &[ComputeCost],
    rows: u32,
    speed: &SpeedEstimate,
) -> Vec<Range<usize>> {
    let mut submissions = Vec::new();
    let (mut start, mut sum) = (0, ComputeCost::default());
    for (index, load) in loads.iter().enumerate() {
        if index > start && !speed.fits(rows, sum + *load) {
            submissions.push(start..index);
            (start, sum) = (index, ComputeCost::default());
        }
        sum = sum + *load;
    }
    submissions.push(start..loads.len());
    submissions
}

/// Plans a program, dispatch by dispatch.
pub(crate) struct Builder<'a> {
    pub(crate) site: Site<'a>,
    pub(crate) kernels: KernelSet,
    /// The rows of a step, `shaders/step.wgsl`.
    pub(crate) step: &'a Buffer,
    plan: Plan,
    /// Activations in int8, which products share.
    pub(crate) quantized: Vec<Quantized>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(site: Site<'a>, kernels: KernelSet, step: &'a Buffer) -> Builder<'a> {
        Builder {
            site,
            kernels,
            step,
            plan: Plan::default(),
            quantized: Vec::new(),
        }
    }

    /// The plan, and the bytes of buffers that it alone knows of.
    pub(crate) fn finish(self) -> (Plan, u64) {
        let bytes = self.quantized.iter().map(Quantized::bytes).sum();
        (self.plan, bytes)
    }

    /// A buffer with the parameters of a dispatch.
    pub(crate) fn uniform(&self, label: &str, words: &[u32]) -> Buffer {
        self.site.uniform(label, words)
    }

    /// One dispatch over `of`, left out where that is 0. The first of `kernels` that is for so many is taken; all have the same
    /// bindings, and `buffers` has one for each of them in order. `touches` says what its workgroups read and write of them.
    pub(crate) fn dispatch(
        &mut self,
        of: Count,
        kernels: &[SizedKernel],
        buffers: &[&Buffer],
        work: Work,
        touches: &[Touch],
    ) -> Result<(), LoadError> {
        for choice in kernels {
            let bindings = choice.kernel.bindings();
            if bindings.len() != buffers.len() {
                return Err(LoadError::Device {
                    reason: format!(
                        "kernel {} binds {} buffers and was given {}",
                        choice.kernel.name(),
                        bindings.len(),
                        buffers.len()
                    ),
                });
            }
        }
        self.plan.0.push(Dispatch {
            of,
            kernels: kernels.to_vec(),
            buffers: buffers.iter().map(|buffer| (*buffer).clone()).collect(),
            work,
            touches: touches.to_vec(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_seen_either_together_or_alone() {
        let row = |positions, together| RowContext {
            sequence: 0,
            positions,
            together,
        };
        let step = [row(15, [15, 15]), row(100, [64, 0]), row(7, [0, 0])];
        for (share, whole, windowed) in [
            (Share::All, 122, 15 + 36 + 7),
            (Share::Together, 79, 15),
            (Share::Alone, 43, 36 + 7),
        ] {
            assert_eq!(share.positions(&step, u32::MAX), whole);
            // Through a window of 5 a row sees that and up to 31 positions before it.
            assert_eq!(share.positions(&step, 5), windowed);
        }
    }

    #[test]
    fn dispatches_of_software_attention_are_counted_by_window() {
        let extent = Extent {
            company: Company {
                alone: 3,
                alone_positions: [40, 500],
                tiles: [5, 2],
                tile_positions: [480, 90],
            },
            ..Extent::default()
        };
        let counts = |window| {
            [
                Count::Alone,
                Count::VisibleAlone(window),
                Count::Tiles(window),
                Count::VisibleTogether(window),
            ]
            .map(|count| count.of(extent))
        };
        assert_eq!(counts(u32::MAX), [3, 40, 5, 480]);
        assert_eq!(counts(100), [3, 100 + 72, 2, 90]);
    }

    #[test]
    fn submissions_are_cut_before_they_are_too_long() {
        let speed = SpeedEstimate::fixed(1e-3, std::time::Duration::from_millis(10));
        let load = |rows, attention| ComputeCost { rows, attention };
        let loads = [
            load(3, 0),
            load(0, 4),
            load(1, 0),
            load(1, 0),
            load(20, 0),
            load(1, 1),
        ];
        assert_eq!(submissions(&loads, 1, &speed), [0..4, 4..5, 5..6]);
        assert!(!each_fits(&loads, 1, &speed));
        assert!(each_fits(&loads[..4], 1, &speed));
        assert_eq!(submissions(&[], 1, &speed).len(), 1);
    }
}
