//! The dispatches of a step, resolved once: pipelines, bind groups and parameters. A step only fills in how many rows.

use super::LoadError;
use super::pack::Matrix;
use crate::decoder::{KernelFamily, StepRow};
use crate::device::Gpu;
use crate::kernels::{ByRows, Extent, Kernel, Layout, Pipelines, Store};

/// One dispatch.
#[derive(Debug)]
struct Dispatch {
    by_rows: ByRows,
    bindings: wgpu::BindGroup,
    items: [u32; 2],
    /// Whether its rows are those whose logits are wanted.
    logits: bool,
}

/// Every dispatch of a step, in order.
#[derive(Debug, Default)]
pub(crate) struct Program(Vec<Dispatch>);

/// What a step's rows come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepExtent {
    pub(crate) rows: u32,
    pub(crate) logit_rows: u32,
    /// Highest position, plus 1.
    pub(crate) positions: u32,
}

impl Program {
    /// Encodes every dispatch and says how many there were. One with no rows still counts: it is an empty dispatch.
    pub(crate) fn encode(&self, pass: &mut wgpu::ComputePass<'_>, step: StepExtent) -> u32 {
        let mut dispatches = 0;
        for dispatch in &self.0 {
            let rows = if dispatch.logits {
                step.logit_rows
            } else {
                step.rows
            };
            let Some(pipeline) = dispatch.by_rows.choose(rows) else {
                continue;
            };
            let [x, y, z] = pipeline.grid(
                dispatch.items,
                Extent {
                    rows,
                    positions: step.positions,
                },
            );
            pass.set_pipeline(&pipeline.compiled);
            pass.set_bind_group(0, &dispatch.bindings, &[]);
            pass.dispatch_workgroups(x, y, z);
            dispatches += 1;
        }
        dispatches
    }
}

/// The contents of the step buffer for `rows`, and what they come to. Layout as in `shaders/step.wgsl`.
pub(crate) fn step_words(rows: &[StepRow], words: &mut Vec<u32>) -> StepExtent {
    let wanted = || {
        rows.iter()
            .enumerate()
            .filter(|(_, row)| row.wants_logits)
            .map(|(index, _)| index as u32)
    };
    let logit_rows = wanted().count() as u32;
    words.clear();
    words.extend([rows.len() as u32, logit_rows, 0, 0]);
    let sources = wanted().chain(std::iter::repeat(0));
    words.extend(
        rows.iter()
            .zip(sources)
            .flat_map(|(row, source)| [row.slot, row.token, row.position, source]),
    );
    let positions = rows.iter().map(|row| row.position + 1).max().unwrap_or(0);
    StepExtent {
        rows: rows.len() as u32,
        logit_rows,
        positions,
    }
}

/// The head geometry that the rotary and attention kernels share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    /// True width of a head, elements.
    pub(crate) dim: u32,
    /// Padded width of a head, elements.
    pub(crate) stride: u32,
    /// Positions per slot.
    pub(crate) context: u32,
}

/// Makes a program, dispatch by dispatch.
pub(crate) struct Builder<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) pipelines: &'a mut Pipelines,
    pub(crate) step: &'a wgpu::Buffer,
    pub(crate) program: Program,
}

impl Builder<'_> {
    fn push(
        &mut self,
        layout: Layout,
        buffers: &[&wgpu::Buffer],
        by_rows: ByRows,
        items: [u32; 2],
        logits: bool,
    ) -> Result<(), LoadError> {
        let missing = || LoadError::Device {
            reason: format!("layout {layout:?} was not made"),
        };
        let bindings = self
            .pipelines
            .bind(self.gpu, layout, buffers)
            .ok_or_else(missing)?;
        self.program.0.push(Dispatch {
            by_rows,
            bindings,
            items,
            logits,
        });
        Ok(())
    }

    /// Token rows of `table` into `output` `[rows, width]`.
    pub(crate) fn embed(&mut self, table: &Matrix, output: &wgpu::Buffer) -> Result<(), LoadError> {
        let kernel = Kernel::Embed {
            precision: table.precision,
        };
        let width4 = (table.width / 4) as u32;
        for shard in &table.shards {
            let parameters = [width4, shard.first as u32, shard.columns as u32, 0];
            let parameters = self.gpu.uniform("embed", &parameters);
            let by_rows = ByRows::always(self.pipelines.get(self.gpu, kernel));
            let buffers = [self.step, &shard.buffer, output, &parameters];
            self.push(Layout::Embed, &buffers, by_rows, [width4, 0], false)?;
        }
        Ok(())
    }

    /// RMSNorm of `input` `[rows, padded width]`; with `gather` only of the rows whose logits are wanted.
    pub(crate) fn norm(
        &mut self,
        weight: &wgpu::Buffer,
        [input, output]: [&wgpu::Buffer; 2],
        width: usize,
        epsilon: f64,
        gather: bool,
    ) -> Result<(), LoadError> {
        let kernel = Kernel::RmsNorm {
            family: self.pipelines.family(),
        };
        let width4 = width.div_ceil(4) as u32;
        let parameters = [
            width4,
            (width as f32).to_bits(),
            (epsilon as f32).to_bits(),
            u32::from(gather),
        ];
        let parameters = self.gpu.uniform("norm", &parameters);
        let by_rows = ByRows::always(self.pipelines.get(self.gpu, kernel));
        let buffers = [self.step, weight, input, output, &parameters];
        self.push(Layout::TwoInputs, &buffers, by_rows, [1, 1], gather)
    }

    /// `input` `[rows, matrix.width]` times `matrix`; `logits` says that its rows are those whose logits are wanted.
    pub(crate) fn matmul(
        &mut self,
        matrix: &Matrix,
        [input, output]: [&wgpu::Buffer; 2],
        store: Store,
        logits: bool,
    ) -> Result<(), LoadError> {
        let precision = matrix.precision;
        for shard in &matrix.shards {
            let columns4 = (shard.columns / 4) as u32;
            let [width4, stride, first] =
                [matrix.width, matrix.columns, shard.first].map(|n| (n / 4) as u32);
            let parameters = [columns4, width4, stride, first, u32::from(logits), 0, 0, 0];
            let parameters = self.gpu.uniform("matmul", &parameters);
            let kernel = |tiling| Kernel::Matmul {
                tiling,
                precision,
                store,
            };
            let by_rows = ByRows::tilings(self.pipelines, self.gpu, kernel);
            let buffers = [self.step, &shard.buffer, input, output, &parameters];
            self.push(Layout::TwoInputs, &buffers, by_rows, [columns4, 0], logits)?;
        }
        Ok(())
    }

    /// Rotates queries in place, and keys and values of each row into the cache.
    pub(crate) fn rope(
        &mut self,
        angles: &wgpu::Buffer,
        qkv: &wgpu::Buffer,
        [keys, values]: [&wgpu::Buffer; 2],
        heads: Heads,
    ) -> Result<(), LoadError> {
        let half = heads.dim / 2;
        let parameters = [
            heads.heads,
            heads.kv_heads,
            half,
            heads.stride,
            heads.context,
            0,
            0,
            0,
        ];
        let parameters = self.gpu.uniform("rope", &parameters);
        let by_rows = ByRows::always(self.pipelines.get(self.gpu, Kernel::Rope));
        let pairs = (heads.heads + 2 * heads.kv_heads) * half;
        let buffers = [self.step, angles, qkv, &parameters, keys, values];
        self.push(Layout::Rope, &buffers, by_rows, [pairs, 0], false)
    }

    /// Attention of each row's queries over its slot up to its own position, into `output` `[rows, heads, stride]`.
    pub(crate) fn attention(
        &mut self,
        qkv: &wgpu::Buffer,
        [keys, values]: [&wgpu::Buffer; 2],
        [scores, output]: [&wgpu::Buffer; 2],
        heads: Heads,
    ) -> Result<(), LoadError> {
        let family = self.pipelines.family();
        let group = heads.heads / heads.kv_heads;
        let stride4 = heads.stride / 4;
        let row = heads.context.next_multiple_of(4);
        let scale = (1.0 / f64::from(heads.dim).sqrt()) as f32;
        let parameters = [
            heads.heads,
            heads.kv_heads,
            stride4,
            heads.context,
            scale.to_bits(),
            row,
            0,
            0,
        ];
        let parameters = self.gpu.uniform("attention", &parameters);
        let by_rows = ByRows::always(
            self.pipelines
                .get(self.gpu, Kernel::Scores { family, group }),
        );
        let buffers = [self.step, keys, qkv, scores, &parameters];
        self.push(
            Layout::TwoInputs,
            &buffers,
            by_rows,
            [heads.kv_heads, 0],
            false,
        )?;

        let by_rows = ByRows::always(
            self.pipelines
                .get(self.gpu, Kernel::Values { family, group }),
        );
        let buffers = [self.step, values, scores, output, &parameters];
        let per_row = match family {
            KernelFamily::Software => heads.kv_heads,
            KernelFamily::Portable => heads.heads,
        };
        self.push(
            Layout::TwoInputs,
            &buffers,
            by_rows,
            [stride4, per_row],
            false,
        )
    }
}
