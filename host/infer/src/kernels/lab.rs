//! One kernel at a time, for the tests and benches of this crate; not for use.

use crate::decoder::pack::{Matrix, Packing, upload_vector};
use crate::decoder::program::{Builder, Heads, Program, StepExtent, step_words};
use crate::decoder::{KernelFamily, LoadError, StepRow};
use crate::device::{Adapter, DEADLINE, Gpu};
use crate::kernels::{Pipelines, Store};
use crate::weights::{Precision, Tensor};

/// A device to try kernels on.
#[derive(Debug)]
pub struct Lab {
    gpu: Gpu,
    pipelines: Pipelines,
}

/// Kernels with their buffers, ready to run.
#[derive(Debug)]
pub struct Experiment {
    program: Program,
    extent: StepExtent,
    _step: wgpu::Buffer,
    outputs: Vec<wgpu::Buffer>,
}

/// Head geometry of an experiment, elements and positions.
#[derive(Clone, Copy, Debug)]
pub struct HeadShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub dim: usize,
    /// Positions per slot.
    pub context: usize,
    /// Slots.
    pub slots: usize,
}

impl HeadShape {
    fn stride(&self) -> usize {
        self.dim.next_multiple_of(4)
    }

    fn geometry(&self) -> Heads {
        Heads {
            heads: self.heads as u32,
            kv_heads: self.kv_heads as u32,
            dim: self.dim as u32,
            stride: self.stride() as u32,
            context: self.context as u32,
        }
    }

    /// Elements of a key or value cache.
    fn cache(&self) -> usize {
        self.slots * self.context * self.kv_heads * self.stride()
    }
}

/// A matrix `[rows, width]` encoded in a precision, and the values it then has.
#[must_use]
pub fn encode(values: &[f32], precision: Precision) -> (Vec<u8>, Vec<f32>) {
    use half::{bf16, f16};
    let bytes: Vec<u8> = match precision {
        Precision::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Precision::F16 => values
            .iter()
            .flat_map(|v| f16::from_f32(*v).to_le_bytes())
            .collect(),
        Precision::Bf16 => values
            .iter()
            .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
            .collect(),
    };
    let kept = match precision {
        Precision::F32 => values.to_vec(),
        Precision::F16 => values.iter().map(|v| f16::from_f32(*v).to_f32()).collect(),
        Precision::Bf16 => values.iter().map(|v| bf16::from_f32(*v).to_f32()).collect(),
    };
    (bytes, kept)
}

/// Rows of slot 0 from position 0, all of whose logits are wanted.
#[must_use]
pub fn plain_rows(count: usize) -> Vec<StepRow> {
    (0..count as u32)
        .map(|position| StepRow {
            slot: 0,
            token: 0,
            position,
            wants_logits: true,
        })
        .collect()
}

impl Lab {
    /// Opens an adapter. `largest_binding` lowers what a buffer may hold, bytes.
    ///
    /// # Errors
    /// The device could not be opened.
    pub fn open(
        adapter: &Adapter,
        family: KernelFamily,
        checked: bool,
        largest_binding: Option<u64>,
    ) -> Result<Lab, LoadError> {
        let mut gpu = Gpu::open(adapter).map_err(|reason| LoadError::Open {
            adapter: adapter.info().to_string(),
            reason,
        })?;
        gpu.largest_binding = largest_binding.unwrap_or(u64::MAX).min(gpu.largest_binding);
        let pipelines = Pipelines::new(&gpu, family, checked);
        Ok(Lab { gpu, pipelines })
    }

    /// Rows of an embedding `[tokens, width]`; output `[rows, width padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn embed(&mut self, table: Tensor<'_>, rows: &[StepRow]) -> Result<Experiment, LoadError> {
        let table = self.pack(Packing::plain(table))?;
        let output = self.output(rows.len() * table.width);
        self.experiment(rows, vec![output.clone()], |builder| {
            builder.embed(&table, &output)
        })
    }

    /// RMSNorm of `input` `[rows, weight.len()]`; output `[rows, width padded to 4]`, gathered with `gather`.
    ///
    /// # Errors
    /// The device failed.
    pub fn rms_norm(
        &mut self,
        weight: Tensor<'_>,
        input: &[f32],
        epsilon: f64,
        rows: &[StepRow],
        gather: bool,
    ) -> Result<Experiment, LoadError> {
        let width = weight.len();
        let input = self.padded(input, width)?;
        let output = self.output(rows.len() * width.next_multiple_of(4));
        let weight = upload_vector(&self.gpu, "weight", &weight, 0)?;
        self.experiment(rows, vec![output.clone()], |builder| {
            builder.norm(&weight, [&input, &output], width, epsilon, gather)
        })
    }

    /// `input` `[rows, width]` times `weights` `[columns, width]`, added to `residual` `[rows, columns]` if there is one;
    /// output `[rows, columns padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn matmul(
        &mut self,
        weights: Tensor<'_>,
        input: &[f32],
        residual: Option<&[f32]>,
        rows: usize,
    ) -> Result<Experiment, LoadError> {
        let (columns, width) = (weights.shape[0], weights.shape[1]);
        let matrix = self.pack(Packing::plain(weights))?;
        let input = self.padded(input, width)?;
        let (store, output) = match residual {
            None => (Store::Plain, self.output(rows * matrix.columns)),
            Some(residual) => (Store::Residual, self.padded(residual, columns)?),
        };
        self.experiment(&plain_rows(rows), vec![output.clone()], |builder| {
            builder.matmul(&matrix, [&input, &output], store, false)
        })
    }

    /// silu(`input` · gateᵀ) * (`input` · upᵀ), both `[columns, width]`; output `[rows, columns padded to 4]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn swiglu(
        &mut self,
        gate: Tensor<'_>,
        up: Tensor<'_>,
        input: &[f32],
        rows: usize,
    ) -> Result<Experiment, LoadError> {
        let width = gate.shape[1];
        let matrix = self.pack(Packing::alternating(gate, up))?;
        let input = self.padded(input, width)?;
        let output = self.output(rows * matrix.columns / 2);
        self.experiment(&plain_rows(rows), vec![output.clone()], |builder| {
            builder.matmul(&matrix, [&input, &output], Store::Swiglu, false)
        })
    }

    /// The rotary kernel over `qkv` `[rows, heads + 2 * kv_heads, dim]` and `angles` `[context, dim / 2]`; outputs: queries,
    /// keys and values in place `[rows, heads + 2 * kv_heads, stride]`, then keys, then values
    /// `[slots, context, kv_heads, stride]`, with `dim` padded to 4 in `stride`.
    ///
    /// # Errors
    /// The device failed.
    pub fn rope(
        &mut self,
        shape: HeadShape,
        angles: &[[f32; 2]],
        qkv: &[f32],
        rows: &[StepRow],
    ) -> Result<Experiment, LoadError> {
        let angles = self.padded(
            bytemuck::cast_slice(angles),
            2 * angles.len().next_multiple_of(2),
        )?;
        let qkv = self.padded(qkv, shape.dim)?;
        let (keys, values) = (self.output(shape.cache()), self.output(shape.cache()));
        self.experiment(
            rows,
            vec![qkv.clone(), keys.clone(), values.clone()],
            |builder| builder.rope(&angles, &qkv, [&keys, &values], shape.geometry()),
        )
    }

    /// Both attention kernels over `qkv` `[rows, heads + 2 * kv_heads, dim]`, of which only the queries are read, and a cache
    /// of `keys` and `values` `[slots, context, kv_heads, dim]`; output `[rows, heads, stride]`.
    ///
    /// # Errors
    /// The device failed.
    pub fn attention(
        &mut self,
        shape: HeadShape,
        qkv: &[f32],
        [keys, values]: [&[f32]; 2],
        rows: &[StepRow],
    ) -> Result<Experiment, LoadError> {
        let qkv = self.padded(qkv, shape.dim)?;
        let (keys, values) = (
            self.padded(keys, shape.dim)?,
            self.padded(values, shape.dim)?,
        );
        let scores = self.output(rows.len() * shape.heads * shape.context.next_multiple_of(4));
        let output = self.output(rows.len() * shape.heads * shape.stride());
        self.experiment(rows, vec![output.clone()], |builder| {
            builder.attention(&qkv, [&keys, &values], [&scores, &output], shape.geometry())
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
            for _ in 0..times {
                dispatches += experiment.program.encode(&mut pass, experiment.extent);
            }
        }
        let submission = self.gpu.queue.submit([encoder.finish()]);
        self.gpu
            .wait(Some(submission), DEADLINE)
            .map_err(|error| LoadError::from_wait(error, 0))?;
        Ok(dispatches)
    }

    /// Output number `index` of an experiment, rows of `width` elements without their padding.
    ///
    /// # Errors
    /// The device failed.
    pub fn output_of(
        &self,
        experiment: &Experiment,
        index: usize,
        width: usize,
    ) -> Result<Vec<f32>, LoadError> {
        let Some(buffer) = experiment.outputs.get(index) else {
            return Ok(Vec::new());
        };
        let readback = self.gpu.readback("output", buffer.size());
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &readback, 0, buffer.size());
        let submission = self.gpu.queue.submit([encoder.finish()]);
        let mut values = Vec::new();
        self.gpu
            .read(&readback, buffer.size(), submission, DEADLINE, |bytes| {
                for row in bytes.chunks_exact(width.next_multiple_of(4) * 4) {
                    values.extend(
                        row.as_chunks()
                            .0
                            .iter()
                            .take(width)
                            .map(|b| f32::from_le_bytes(*b)),
                    );
                }
            })
            .map_err(|error| LoadError::from_wait(error, 0))?;
        Ok(values)
    }

    fn experiment(
        &mut self,
        rows: &[StepRow],
        outputs: Vec<wgpu::Buffer>,
        build: impl FnOnce(&mut Builder<'_>) -> Result<(), LoadError>,
    ) -> Result<Experiment, LoadError> {
        let mut words = Vec::new();
        let extent = step_words(rows, &mut words);
        let step = self.gpu.storage("step", (words.len() * 4) as u64);
        self.gpu
            .queue
            .write_buffer(&step, 0, bytemuck::cast_slice(&words));
        let mut builder = Builder {
            gpu: &self.gpu,
            pipelines: &mut self.pipelines,
            step: &step,
            program: Program::default(),
        };
        build(&mut builder)?;
        let program = builder.program;
        Ok(Experiment {
            program,
            extent,
            _step: step,
            outputs,
        })
    }

    fn pack(&self, packing: Packing<'_>) -> Result<Matrix, LoadError> {
        packing.upload(&self.gpu, "matrix", 0)
    }

    fn output(&self, elements: usize) -> wgpu::Buffer {
        self.gpu.storage("output", (elements * 4) as u64)
    }

    /// Rows of `width` elements, each padded to 4 with zeros.
    fn padded(&self, values: &[f32], width: usize) -> Result<wgpu::Buffer, LoadError> {
        let mut padded = Vec::with_capacity(values.len());
        for row in values.chunks(width) {
            padded.extend_from_slice(row);
            padded.resize(padded.len().next_multiple_of(4), 0.0);
        }
        let buffer = self.output(padded.len());
        let uploaded = self.gpu.upload(&buffer, 0, bytemuck::cast_slice(&padded));
        uploaded.map_err(|error| LoadError::from_wait(error, 0))?;
        Ok(buffer)
    }
}
