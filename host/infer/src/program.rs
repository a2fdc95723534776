//! The dispatches of a step, resolved once: pipelines, bind groups and parameters. A step only fills in how many rows.

use std::ops::Range;

use crate::device::{Gpu, Pace};
use crate::kernels::{Kernel, KernelSet, Pipeline, bind};
use crate::load_error::LoadError;
use crate::matrix::Quantized;

/// What a step comes to. An encoder or a sampler counts what it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) rows: u32,
    /// Rows from which something is sampled.
    pub(crate) samples: u32,
    /// Highest position, plus 1.
    pub(crate) positions: u32,
}

/// A number that follows from an [`Extent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Rows,
    Samples,
    /// Positions that a row sees at most, with up to three before them where a window begins: the window, `u32::MAX` for
    /// none.
    Visible(u32),
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
            Count::Visible(window) => extent.positions.min(window.saturating_add(3)),
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

/// Workgroups along one axis of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Fixed(u32),
    /// One for each `each` of a count, the last for what is left.
    Per {
        of: Count,
        each: u32,
    },
}

impl Axis {
    fn workgroups(self, extent: Extent) -> u32 {
        match self {
            Axis::Fixed(workgroups) => workgroups,
            Axis::Per { of, each } => of.of(extent).div_ceil(each),
        }
    }
}

/// A kernel that is taken for up to `most` of what its dispatch counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) most: u32,
    pub(crate) kernel: Kernel,
    pub(crate) grid: [Axis; 3],
}

impl Choice {
    /// The only kernel of a dispatch.
    pub(crate) fn always(kernel: Kernel, grid: [Axis; 3]) -> Choice {
        Choice {
            most: u32::MAX,
            kernel,
            grid,
        }
    }
}

/// Multiply-adds, or what takes as long, by which the time of a dispatch is guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// For each that the dispatch counts.
    pub(crate) each: u64,
    /// A window: the work is that for each position seen through it.
    pub(crate) visible: Option<u32>,
}

impl Work {
    /// The same for each row.
    pub(crate) fn rows(each: u64) -> Work {
        Work {
            each,
            visible: None,
        }
    }

    /// For each row and each position that it sees.
    pub(crate) fn positions(each: u64, window: u32) -> Work {
        Work {
            each,
            visible: Some(window),
        }
    }
}

/// One dispatch.
#[derive(Debug)]
struct Dispatch {
    of: Count,
    choices: Vec<(Choice, Pipeline)>,
    bindings: wgpu::BindGroup,
    work: Work,
}

impl Dispatch {
    fn work(&self, extent: Extent) -> u64 {
        let positions = self
            .work
            .visible
            .map_or(1, |window| Count::Visible(window).of(extent));
        u64::from(self.of.of(extent)) * self.work.each * u64::from(positions)
    }

    fn choose(&self, extent: Extent) -> Option<&(Choice, Pipeline)> {
        let count = self.of.of(extent);
        if count == 0 {
            return None;
        }
        self.choices.iter().find(|(choice, _)| count <= choice.most)
    }
}

/// Every dispatch of a step, in order.
#[derive(Debug, Default)]
pub(crate) struct Program(Vec<Dispatch>);

impl Program {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The kernel that dispatch `index` runs in such a step, if it runs at all.
    pub(crate) fn kernel(&self, index: usize, extent: Extent) -> Option<Kernel> {
        let (choice, _) = self.0.get(index)?.choose(extent)?;
        Some(choice.kernel)
    }

    /// Encodes these dispatches and says how many there were.
    pub(crate) fn encode(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        dispatches: Range<usize>,
        extent: Extent,
    ) -> u32 {
        let mut count = 0;
        for dispatch in self.0.get(dispatches).unwrap_or_default() {
            let Some((choice, pipeline)) = dispatch.choose(extent) else {
                continue;
            };
            let [x, y, z] = choice.grid.map(|axis| axis.workgroups(extent));
            pass.set_pipeline(&pipeline.compiled);
            pass.set_bind_group(0, &dispatch.bindings, &[]);
            pass.dispatch_workgroups(x, y, z);
            count += 1;
        }
        count
    }

    /// Multiply-adds of such a step.
    pub(crate) fn work(&self, extent: Extent) -> u64 {
        self.0.iter().map(|dispatch| dispatch.work(extent)).sum()
    }

    /// Multiply-adds of the longest dispatch of such a step.
    pub(crate) fn longest(&self, extent: Extent) -> u64 {
        let works = self.0.iter().map(|dispatch| dispatch.work(extent));
        works.max().unwrap_or(0)
    }

    /// Cuts a step into submissions that take no longer than the device's cap by its pace, as far as single dispatches do.
    pub(crate) fn submissions(&self, extent: Extent, pace: &Pace) -> Vec<Range<usize>> {
        let most = pace.most_work(extent.rows);
        let mut submissions = Vec::new();
        let (mut start, mut sum) = (0, 0_u64);
        for (index, dispatch) in self.0.iter().enumerate() {
            let work = dispatch.work(extent);
            if index > start && sum.saturating_add(work) > most {
                submissions.push(start..index);
                (start, sum) = (index, 0);
            }
            sum = sum.saturating_add(work);
        }
        submissions.push(start..self.0.len());
        submissions
    }
}

/// Makes a program, dispatch by dispatch.
pub(crate) struct Builder<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) kernels: KernelSet,
    /// Whether kernels keep wgpu's bounds and loop checks.
    pub(crate) checked: bool,
    /// The rows of a step, `shaders/step.wgsl`.
    pub(crate) step: &'a wgpu::Buffer,
    pub(crate) program: Program,
    /// Activations in int8, which products share.
    pub(crate) quantized: Vec<Quantized>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        gpu: &'a Gpu,
        kernels: KernelSet,
        checked: bool,
        step: &'a wgpu::Buffer,
    ) -> Builder<'a> {
        Builder {
            gpu,
            kernels,
            checked,
            step,
            program: Program::default(),
            quantized: Vec::new(),
        }
    }

    /// The program, and the bytes of buffers that it alone knows of.
    pub(crate) fn finish(self) -> (Program, u64) {
        let bytes = self.quantized.iter().map(Quantized::bytes).sum();
        (self.program, bytes)
    }

    /// A buffer with the parameters of a dispatch.
    pub(crate) fn uniform(&self, label: &str, words: &[u32]) -> wgpu::Buffer {
        self.gpu.uniform(label, words)
    }

    /// One dispatch over `of`, left out where that is 0. The first of `choices` that is for so many is taken; all have the
    /// same bindings, and `buffers` has one for each of them in order.
    pub(crate) fn dispatch(
        &mut self,
        of: Count,
        choices: &[Choice],
        buffers: &[&wgpu::Buffer],
        work: Work,
    ) -> Result<(), LoadError> {
        let mut compiled = Vec::with_capacity(choices.len());
        for choice in choices {
            let pipeline = self.gpu.pipeline(choice.kernel, self.checked)?;
            compiled.push((*choice, pipeline));
        }
        let Some((choice, pipeline)) = compiled.first() else {
            return Ok(());
        };
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
        let bindings = bind(&self.gpu.device, &pipeline.layout, bindings, buffers);
        self.program.0.push(Dispatch {
            of,
            choices: compiled,
            bindings,
            work,
        });
        Ok(())
    }
}
