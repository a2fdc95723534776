//! One kernel at a time, for the tests and benches of this crate; not for use.

use tidegate_contract::{BLOCK, StepSequence};

use super::choice::has_what_is_needed;
use super::heads::KvBuffers;
use super::layout::{Cache, KvShape, Layout};
use super::{
    Heads, Kernel, KernelSet, KernelVariant, KvPrecision, NormStore, merges, rows_together, scratch,
};
use crate::buffer::Buffer;
use crate::decoder::StepWords;
use crate::device::{Adapter, DeviceOptions, Gpu, LOAD_DEADLINE};
use crate::load_error::LoadError;
use crate::program::{Builder, Count, Extent, Program};
use crate::site::Site;

/// A device to try kernels on.
#[derive(Clone, Debug)]
pub struct Lab {
    pub(crate) gpu: Gpu,
    pub(crate) kernels: KernelSet,
    pub(crate) checked: bool,
}

/// Kernels with their buffers, ready to run.
#[derive(Debug)]
pub struct Experiment {
    program: Program,
    extent: Extent,
    outputs: Vec<Buffer>,
}

impl Experiment {
    /// What is ready to run over a step that comes to `extent`.
    pub(crate) fn new(program: Program, extent: Extent, outputs: Vec<Buffer>) -> Experiment {
        Experiment {
            program,
            extent,
            outputs,
        }
    }

    /// The kernels that run, in order.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = Kernel> {
        (0..self.program.len()).filter_map(|index| self.program.kernel(index, self.extent))
    }
}

/// Heads of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct HeadShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub dim: usize,
    /// Elements of a head that turn.
    pub rope: usize,
    /// KV blocks.
    pub blocks: usize,
    /// Positions of a sequence at most.
    pub context: usize,
    /// Positions a row sees.
    pub window: Option<usize>,
    /// How keys and values are kept.
    pub kv: KvPrecision,
    /// Cap of the scores.
    pub softcap: Option<f64>,
    /// Epsilon of head norms, if there are any.
    pub norm_epsilon: Option<f64>,
    /// Whether queries, keys and values have biases.
    pub bias: bool,
    /// Whether heads have sinks: those of [`HeadShape::sink`].
    pub sinks: bool,
}

impl HeadShape {
    /// Plain heads over so many blocks: turned whole, seeing everything, without biases and norms.
    #[must_use]
    pub fn plain(heads: usize, kv_heads: usize, dim: usize, blocks: usize) -> HeadShape {
        HeadShape {
            heads,
            kv_heads,
            dim,
            rope: dim,
            blocks,
            context: blocks * BLOCK,
            window: None,
            kv: KvPrecision::F32,
            softcap: None,
            norm_epsilon: None,
            bias: false,
            sinks: false,
        }
    }

    /// The sink of a head, if it has one: of the first above all scores of unit vectors, of the others lower and lower.
    #[must_use]
    pub fn sink(&self, head: usize) -> Option<f32> {
        self.sinks.then_some(6.0 - 0.75 * head as f32)
    }

    pub(crate) fn stride(&self) -> usize {
        self.dim.next_multiple_of(4)
    }

    pub(crate) fn heads(&self) -> Heads {
        Heads {
            heads: self.heads as u32,
            kv_heads: self.kv_heads as u32,
            dim: self.dim as u32,
            kv: self.kv,
            half: (self.rope / 2) as u32,
            window: self.window.map_or(u32::MAX, |window| window as u32),
            norm_epsilon: self.norm_epsilon,
            bias: self.bias,
            scale: 1.0 / (self.dim as f64).sqrt(),
            softcap: self.softcap,
        }
    }

    /// Words of all keys or values.
    pub(crate) fn cache(&self) -> usize {
        self.blocks * BLOCK * self.kv_heads * self.kv.head_bytes(self.dim) / 4
    }

    /// How keys and values of the shape are kept.
    fn kept(&self) -> KvShape {
        KvShape {
            kv: self.kv,
            kv_heads: self.kv_heads,
            dim: self.dim,
        }
    }

    /// The numbers that stand for keys or values `[blocks, BLOCK, kv_heads, dim]` once they are kept.
    #[must_use]
    pub fn rounded(&self, values: &[f32]) -> Vec<f32> {
        let words = self.kv.kept(values, self.kv_heads, self.dim);
        self.kv.read(&words, self.kv_heads, self.dim)
    }
}

/// A sequence of `rows` rows from position `first` in these blocks, without samples.
#[must_use]
pub fn sequence(first: usize, rows: usize, blocks: &[u32]) -> StepSequence {
    StepSequence {
        lora: 0,
        position: first as u32,
        tokens: vec![0; rows],
        blocks: blocks.to_vec(),
        samples: Vec::new(),
    }
}

impl Lab {
    /// Opens an adapter.
    ///
    /// # Errors
    /// The device could not be opened, or lacks what the variant needs.
    pub fn open(
        adapter: &Adapter,
        variant: KernelVariant,
        checked: bool,
        options: DeviceOptions,
    ) -> Result<Lab, LoadError> {
        Lab::on(&Gpu::open(adapter, options)?, variant, checked)
    }

    /// On a device that is open.
    ///
    /// # Errors
    /// The device lacks what the variant needs.
    pub fn on(gpu: &Gpu, variant: KernelVariant, checked: bool) -> Result<Lab, LoadError> {
        has_what_is_needed(gpu.features(), || gpu.adapter().to_string(), variant)?;
        let kernels = KernelSet::of(variant, gpu.is_software(), gpu.features().subgroup);
        Ok(Lab {
            gpu: gpu.clone(),
            kernels,
            checked,
        })
    }

    /// With plain arithmetic in place of cooperative matrices, in the kernels that have those ([`KernelSet::emulated`]).
    #[must_use]
    pub fn emulating(gpu: &Gpu, checked: bool) -> Lab {
        let variant = KernelVariant::Cooperative;
        let kernels = KernelSet {
            emulated: true,
            ..KernelSet::of(variant, gpu.is_software(), gpu.features().subgroup)
        };
        Lab {
            gpu: gpu.clone(),
            kernels,
            checked,
        }
    }

    /// RMSNorm of `input` `[rows, weight.len()]`, added to `sum` if there is one; output `[rows, width padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn rms_norm(
        &self,
        weight: &[f32],
        input: &[f32],
        epsilon: f64,
        sum: Option<&[f32]>,
    ) -> Result<Experiment, LoadError> {
        let width = weight.len();
        let rows = input.len() / width;
        let [weight, input] = [self.padded(weight, width)?, self.padded(input, width)?];
        let (output, store) = match sum {
            None => (
                self.output(rows * width.next_multiple_of(4)),
                NormStore::Plain,
            ),
            Some(sum) => (self.padded(sum, width)?, NormStore::Add),
        };
        let step = sequence(0, rows, &[0; 64]);
        self.experiment(&[step], vec![output.clone()], |builder, _| {
            let buffers = [&input, &output];
            builder.rms_norm(&weight, buffers, width, epsilon, store, Count::Rows)
        })
    }

    /// What is done to heads, over `qkv` `[rows, heads + 2 * kv_heads, dim]`, `angles` `[context, rope / 2]` and `extras`: biases
    /// `[heads + 2 * kv_heads, dim]`, then norms of query and of key heads `[dim]`, as far as the shape has them. Outputs:
    /// queries `[rows, heads, stride]`, `dim` padded to 4 in `stride`, then keys, then values as they are kept.
    ///
    /// # Errors
    /// The device failed.
    pub fn heads(
        &self,
        shape: HeadShape,
        angles: &[[f32; 2]],
        extras: &[f32],
        qkv: &[f32],
        step: &[StepSequence],
    ) -> Result<Experiment, LoadError> {
        let angles = self.buffer(bytemuck::cast_slice(angles))?;
        let [extras, qkv] = [
            self.padded(extras, shape.dim)?,
            self.padded(qkv, shape.dim)?,
        ];
        let rows: usize = step.iter().map(|sequence| sequence.tokens.len()).sum();
        let queries = self.output(rows * shape.heads * shape.stride());
        let (keys, values) = (self.output(shape.cache()), self.output(shape.cache()));
        let outputs = vec![queries.clone(), keys.clone(), values.clone()];
        self.experiment(step, outputs, |builder, tables| {
            let cache = KvBuffers {
                tables,
                keys: &keys,
                values: &values,
            };
            builder.heads(&shape.heads(), [&angles, &extras], [&qkv, &queries], cache)
        })
    }

    /// Attention of `queries` `[rows, heads, dim]` over blocks of `keys` and `values` `[blocks, BLOCK, kv_heads, dim]`; output
    /// `[rows, heads, stride]`, and where parts are merged at once what is counted of them.
    ///
    /// # Errors
    /// The device failed.
    pub fn attention(
        &self,
        shape: HeadShape,
        queries: &[f32],
        [keys, values]: [&[f32]; 2],
        step: &[StepSequence],
    ) -> Result<Experiment, LoadError> {
        let queries = self.padded(queries, shape.dim)?;
        let kept = |cached: &[f32], cache| {
            let words = shape.kv.kept(cached, shape.kv_heads, shape.dim);
            let layout = Layout::of(self.kernels.base, cache);
            self.buffer(&layout.laid_out(&words, shape.kept()))
        };
        let (keys, values) = (kept(keys, Cache::Keys)?, kept(values, Cache::Values)?);
        let rows: usize = step.iter().map(|sequence| sequence.tokens.len()).sum();
        let heads = shape.heads();
        let (row, _) = scratch(self.kernels.base, &heads, shape.context);
        let scratch = self.output(rows * row);
        let output = self.output(rows * shape.heads * shape.stride());
        let written =
            merges(self.kernels.base, self.gpu.features()).then(|| self.output(rows * shape.heads));
        let outputs = [Some(output.clone()), written.clone()];
        let outputs = outputs.into_iter().flatten().collect();
        let together = rows_together(self.kernels.base, [shape.heads, shape.kv_heads, shape.dim]);
        let words = StepWords::new(together);
        self.experiment_of(words, step, outputs, |builder, tables| {
            let cache = KvBuffers {
                tables,
                keys: &keys,
                values: &values,
            };
            let buffers = [&queries, &scratch, &output];
            let sinks: Vec<f32> = (0..shape.heads)
                .filter_map(|head| shape.sink(head))
                .collect();
            let (written, context) = (written.as_ref(), shape.context);
            builder.attention(&heads, buffers, written, cache, context, &sinks)
        })
    }

    /// Runs an experiment `times` over, in one submission, and waits for it. Returns the dispatches.
    ///
    /// # Errors
    /// The device failed.
    pub fn run(&self, experiment: &Experiment, times: usize) -> Result<u32, LoadError> {
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut dispatches = 0;
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            let program = &experiment.program;
            for _ in 0..times {
                dispatches += program.encode(&mut pass, 0..program.len(), experiment.extent);
            }
        }
        let submission = self.gpu.queue.submit([encoder.finish()]);
        self.gpu
            .wait(Some(submission), LOAD_DEADLINE)
            .map_err(|error| LoadError::from_wait(error, 0))?;
        Ok(dispatches)
    }

    /// Output number `index` of an experiment, rows of `width` f32 elements without their padding.
    ///
    /// # Errors
    /// The device failed.
    pub fn output_of(
        &self,
        experiment: &Experiment,
        index: usize,
        width: usize,
    ) -> Result<Vec<f32>, LoadError> {
        let words = self.words_of(experiment, index)?;
        let rows = words.chunks_exact(width.next_multiple_of(4));
        Ok(rows
            .flat_map(|row| row.iter().take(width).map(|word| f32::from_bits(*word)))
            .collect())
    }

    /// The words of output number `index` of an experiment.
    ///
    /// # Errors
    /// The device failed.
    pub fn words_of(&self, experiment: &Experiment, index: usize) -> Result<Vec<u32>, LoadError> {
        let Some(buffer) = experiment.outputs.get(index) else {
            return Ok(Vec::new());
        };
        let readback = self.gpu.readback("output", buffer.size());
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer.on_device()?, 0, &readback, 0, buffer.size());
        let submission = self.gpu.queue.submit([encoder.finish()]);
        let mut words = Vec::new();
        self.gpu
            .read(
                &readback,
                buffer.size(),
                submission,
                LOAD_DEADLINE,
                |bytes| {
                    words.extend(bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)));
                },
            )
            .map_err(|error| LoadError::from_wait(error, 0))?;
        Ok(words)
    }

    /// Builds what is to run over a step; `build` is given the step's block tables.
    pub(crate) fn experiment(
        &self,
        step: &[StepSequence],
        outputs: Vec<Buffer>,
        build: impl FnOnce(&mut Builder<'_>, &Buffer) -> Result<(), LoadError>,
    ) -> Result<Experiment, LoadError> {
        self.experiment_of(StepWords::default(), step, outputs, build)
    }

    /// The same, with the step in such words.
    fn experiment_of(
        &self,
        mut words: StepWords,
        step: &[StepSequence],
        outputs: Vec<Buffer>,
        build: impl FnOnce(&mut Builder<'_>, &Buffer) -> Result<(), LoadError>,
    ) -> Result<Experiment, LoadError> {
        let extent = words.fill_whole(step);
        let step = self.buffer(&words.step)?;
        let tables = self.buffer(&words.tables)?;
        let mut builder = Builder::new(Site::Device(&self.gpu), self.kernels, &step);
        build(&mut builder, &tables)?;
        let program = builder.finish().0.resolve(&self.gpu, self.checked)?;
        Ok(Experiment::new(program, extent, outputs))
    }

    /// A zeroed buffer of so many elements.
    pub(crate) fn output(&self, elements: usize) -> Buffer {
        Site::Device(&self.gpu).storage("output", (elements * 4) as u64)
    }

    /// A buffer of these words.
    pub(crate) fn buffer(&self, words: &[u32]) -> Result<Buffer, LoadError> {
        Site::Device(&self.gpu)
            .filled("input", bytemuck::cast_slice(words))
            .map_err(|error| LoadError::from_wait(error, 0))
    }

    /// Rows of `width` elements, each padded to 4 with zeros.
    pub(crate) fn padded(&self, values: &[f32], width: usize) -> Result<Buffer, LoadError> {
        self.buffer(bytemuck::cast_slice(&pad(values, width)))
    }

    /// Output number `index` of an experiment that wrote keys, 1, and values, 2: `[blocks, BLOCK, kv_heads, dim]`.
    ///
    /// # Errors
    /// The device failed.
    pub(crate) fn cache_of(
        &self,
        experiment: &Experiment,
        index: usize,
        shape: HeadShape,
    ) -> Result<Vec<f32>, LoadError> {
        let words = self.words_of(experiment, index)?;
        let words = words.get(..shape.cache()).unwrap_or(&words);
        let cache = if index == 1 {
            Cache::Keys
        } else {
            Cache::Values
        };
        let layout = Layout::of(self.kernels.base, cache);
        let words = layout.read_back(words, shape.kept());
        Ok(shape.kv.read(&words, shape.kv_heads, shape.dim))
    }
}

fn pad(values: &[f32], width: usize) -> Vec<f32> {
    let mut padded = Vec::with_capacity(values.len());
    for row in values.chunks(width) {
        padded.extend_from_slice(row);
        padded.resize(padded.len().next_multiple_of(4), 0.0);
    }
    padded
}
