//! The decoder on a device.

use tracing::{debug, info};

use super::pack::{Matrix, Packing, upload_vector};
use super::plan::Plan;
use super::program::{Builder, Heads, Program, step_words};
use super::{DecodeError, Decoder, DecoderOptions, DecoderShape, KernelFamily, LoadError, MemoryReport, StepRow, check_rows};
use crate::config::ModelConfig;
use crate::device::{Adapter, DEADLINE, Gpu, WaitError};
use crate::kernels::{Pipelines, Store};
use crate::weights::{Tensor, TensorNames, Weights, WeightsError};

/// A Llama-family model on a device.
#[derive(Debug)]
pub struct GpuDecoder {
    gpu: Gpu,
    shape: DecoderShape,
    memory: MemoryReport,
    family: KernelFamily,
    program: Program,
    /// `shaders/step.wgsl`.
    step: wgpu::Buffer,
    /// `[max_rows, vocabulary padded to 4]` f32.
    logits: wgpu::Buffer,
    readback: wgpu::Buffer,
    words: Vec<u32>,
    dispatches: u32,
    /// The failure after which this decoder is of no more use.
    failed: Option<DecodeError>,
}

impl GpuDecoder {
    /// Opens the adapter, uploads the weights and runs one step of each tiling, so that no request waits for a compiler.
    ///
    /// # Errors
    /// The weights do not fit the configuration, the model does not fit the adapter, or the device failed.
    pub fn load(
        adapter: &Adapter,
        config: &ModelConfig,
        weights: Weights,
        options: DecoderOptions,
    ) -> Result<GpuDecoder, LoadError> {
        weights.check(config)?;
        let plan = Plan::new(config, &weights, &options)?;
        let family = match options.kernels {
            Some(family) => family,
            None => family_from_environment()?.unwrap_or_else(|| adapter.kernel_family()),
        };
        let gpu = Gpu::open(adapter)
            .map_err(|reason| LoadError::Open { adapter: adapter.info().to_string(), reason })?;
        let mut pipelines = Pipelines::new(&gpu, family, options.checked_shaders);
        let parts = Parts { gpu: &gpu, config, weights: &weights, plan: &plan, options: &options };
        let [step, logits, readback] = parts.ends()?;
        let program = parts.program(&mut pipelines, &step, &logits)?;
        gpu.flush().map_err(|error| LoadError::from_wait(error, plan.memory.total()))?;
        info!(
            adapter = %adapter.info(),
            kernels = family.name(),
            weights_bytes = plan.memory.weights,
            kv_cache_bytes = plan.memory.kv_cache,
            activations_bytes = plan.memory.activations,
            "model loaded"
        );
        let mut decoder = GpuDecoder {
            gpu,
            shape: options.shape(config),
            memory: plan.memory,
            family,
            program,
            step,
            logits,
            readback,
            words: Vec::new(),
            dispatches: 0,
            failed: None,
        };
        decoder.warm_up()?;
        Ok(decoder)
    }

    /// What it takes on the device.
    #[must_use]
    pub fn memory(&self) -> MemoryReport {
        self.memory
    }

    /// The kernels it runs.
    #[must_use]
    pub fn kernels(&self) -> KernelFamily {
        self.family
    }

    /// Drivers compile at the first dispatch: runs every kernel once, on slot 0, which no sequence has written yet.
    fn warm_up(&mut self) -> Result<(), LoadError> {
        let started = std::time::Instant::now();
        let most = self.shape.max_rows.min(self.shape.context).min(9) as u32;
        let mut logits = Vec::new();
        for rows in [1, 4, most] {
            let row = |position| StepRow { slot: 0, token: 0, position, wants_logits: true };
            let rows: Vec<StepRow> = (0..rows.min(most)).map(row).collect();
            self.step(&rows, &mut logits).map_err(|error| match error {
                DecodeError::DeviceLost { reason } => LoadError::DeviceLost { reason },
                DecodeError::OutOfMemory { reason } => LoadError::OutOfMemory { bytes: self.memory.total(), reason },
                DecodeError::DeadlineExceeded { limit } => LoadError::DeadlineExceeded { limit },
                other => LoadError::Device { reason: other.to_string() },
            })?;
        }
        debug!(seconds = started.elapsed().as_secs_f64(), "kernels compiled");
        Ok(())
    }

    fn run(&mut self, rows: &[StepRow], logits: &mut Vec<f32>) -> Result<(), WaitError> {
        let extent = step_words(rows, &mut self.words);
        self.gpu.queue.write_buffer(&self.step, 0, bytemuck::cast_slice(&self.words));
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            self.dispatches = self.program.encode(&mut pass, extent);
        }
        let vocabulary = self.shape.vocabulary;
        let stride = vocabulary.next_multiple_of(4);
        let bytes = (extent.logit_rows as usize * stride * 4) as u64;
        if bytes == 0 {
            let submission = self.gpu.queue.submit([encoder.finish()]);
            return self.gpu.wait(Some(submission), DEADLINE);
        }
        encoder.copy_buffer_to_buffer(&self.logits, 0, &self.readback, 0, bytes);
        let submission = self.gpu.queue.submit([encoder.finish()]);
        self.gpu.read(&self.readback, bytes, submission, DEADLINE, |bytes| {
            for row in bytes.chunks_exact(stride * 4) {
                logits.extend(row.as_chunks().0.iter().take(vocabulary).map(|b| f32::from_le_bytes(*b)));
            }
        })
    }
}

impl Decoder for GpuDecoder {
    fn shape(&self) -> &DecoderShape {
        &self.shape
    }

    fn step(&mut self, rows: &[StepRow], logits: &mut Vec<f32>) -> Result<(), DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        check_rows(rows, &self.shape)?;
        logits.clear();
        let result = self.run(rows, logits).map_err(|error| match error {
            WaitError::Fault(fault) => DecodeError::from(fault),
            WaitError::Deadline(limit) => DecodeError::DeadlineExceeded { limit },
        });
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    fn dispatches_last_step(&self) -> u32 {
        self.dispatches
    }
}

fn family_from_environment() -> Result<Option<KernelFamily>, LoadError> {
    match std::env::var("TIDEGATE_KERNELS") {
        Err(_) => Ok(None),
        Ok(value) => match value.as_str() {
            "" => Ok(None),
            "portable" => Ok(Some(KernelFamily::Portable)),
            "software" => Ok(Some(KernelFamily::Software)),
            _ => Err(LoadError::Kernels { value }),
        },
    }
}

/// What loading a model works with.
struct Parts<'a> {
    gpu: &'a Gpu,
    config: &'a ModelConfig,
    weights: &'a Weights,
    plan: &'a Plan,
    options: &'a DecoderOptions,
}

impl<'a> Parts<'a> {
    /// A storage buffer of f32 elements, if the adapter can bind it whole.
    fn elements(&self, what: &'static str, elements: usize, remedy: &'static str) -> Result<wgpu::Buffer, LoadError> {
        let (bytes, limit) = ((elements * 4) as u64, self.gpu.largest_binding);
        if bytes > limit {
            return Err(LoadError::BufferTooLarge { what, bytes, limit, remedy });
        }
        Ok(self.gpu.storage(what, bytes))
    }

    fn activation(&self, what: &'static str, width: usize) -> Result<wgpu::Buffer, LoadError> {
        self.elements(what, self.options.max_rows * width, "lower max_rows or context")
    }

    /// The buffers a step begins and ends with: rows, logits, and the logits where the host can read them.
    fn ends(&self) -> Result<[wgpu::Buffer; 3], LoadError> {
        let rows = self.options.max_rows;
        let step = self.elements("the rows of a step", 4 + 4 * rows, "lower max_rows")?;
        let logits = self.elements("the logits of a step", rows * self.plan.vocabulary, "lower max_rows")?;
        let readback = self.gpu.readback("logits for the host", logits.size());
        Ok([step, logits, readback])
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<'a>, WeightsError> {
        self.weights.tensor(name, shape)
    }

    fn pack(&self, label: &str, packing: Packing<'_>) -> Result<Matrix, LoadError> {
        packing.upload(self.gpu, label, self.plan.memory.total())
    }

    fn vector(&self, name: &str) -> Result<wgpu::Buffer, LoadError> {
        let tensor = self.tensor(name, &[self.config.hidden])?;
        upload_vector(self.gpu, name, &tensor, self.plan.memory.total())
    }

    fn angles(&self) -> Result<wgpu::Buffer, LoadError> {
        let table = self.config.rope_table(self.options.context);
        let table: Vec<[f32; 2]> = table.iter().map(|[cos, sin]| [*cos as f32, *sin as f32]).collect();
        let buffer = self.elements("rotary table", 2 * table.len(), "lower context")?;
        let uploaded = self.gpu.upload(&buffer, 0, bytemuck::cast_slice(&table));
        uploaded.map_err(|error| LoadError::from_wait(error, self.plan.memory.total()))?;
        Ok(buffer)
    }

    /// Uploads the weights and resolves the dispatches of a step.
    fn program(
        &self,
        pipelines: &mut Pipelines,
        step: &wgpu::Buffer,
        logits: &wgpu::Buffer,
    ) -> Result<Program, LoadError> {
        let (config, plan) = (self.config, self.plan);
        let stream = self.activation("residual stream", plan.hidden)?;
        let normed = self.activation("normalised rows", plan.hidden)?;
        let qkv = self.activation("queries, keys and values", plan.qkv)?;
        let scores = self.activation("attention scores", plan.scores)?;
        let attended = self.activation("attention output", plan.query)?;
        let active = self.activation("feed-forward activations", plan.intermediate)?;
        let angles = self.angles()?;
        let heads = Heads {
            heads: config.heads as u32,
            kv_heads: config.kv_heads as u32,
            dim: config.head_dim as u32,
            stride: plan.head as u32,
            context: self.options.context as u32,
        };
        let embedding = self.tensor(TensorNames::EMBEDDING, &[config.vocabulary, config.hidden])?;
        let embedding = self.pack("embedding", Packing::plain(embedding))?;

        let mut builder = Builder { gpu: self.gpu, pipelines, step, program: Program::default() };
        builder.embed(&embedding, &stream)?;
        for layer in 0..config.layers {
            let [qkv_weights, output, gate_up, down] = self.layer(layer)?;
            let cache = || self.elements("keys or values of a layer", plan.cache, "lower slots or context");
            let (keys, values) = (cache()?, cache()?);

            let norm = self.vector(&TensorNames::layer(layer, "input_layernorm"))?;
            builder.norm(&norm, [&stream, &normed], config.hidden, config.norm_epsilon, false)?;
            builder.matmul(&qkv_weights, [&normed, &qkv], Store::Plain, false)?;
            builder.rope(&angles, &qkv, [&keys, &values], heads)?;
            builder.attention(&qkv, [&keys, &values], [&scores, &attended], heads)?;
            builder.matmul(&output, [&attended, &stream], Store::Residual, false)?;

            let norm = self.vector(&TensorNames::layer(layer, "post_attention_layernorm"))?;
            builder.norm(&norm, [&stream, &normed], config.hidden, config.norm_epsilon, false)?;
            builder.matmul(&gate_up, [&normed, &active], Store::Swiglu, false)?;
            builder.matmul(&down, [&active, &stream], Store::Residual, false)?;
        }
        let norm = self.vector(TensorNames::FINAL_NORM)?;
        builder.norm(&norm, [&stream, &normed], config.hidden, config.norm_epsilon, true)?;
        let head = if config.tied {
            embedding
        } else {
            let head = self.tensor(TensorNames::HEAD, &[config.vocabulary, config.hidden])?;
            self.pack("head", Packing::plain(head))?
        };
        builder.matmul(&head, [&normed, logits], Store::Plain, true)?;
        Ok(builder.program)
    }

    /// The matrices of a layer: queries, keys and values; attention output; gate and up; down.
    fn layer(&self, layer: usize) -> Result<[Matrix; 4], LoadError> {
        let config = self.config;
        let (hidden, intermediate, head) = (config.hidden, config.intermediate, config.head_dim);
        let (query, key) = (config.heads * head, config.kv_heads * head);
        let part = |part: &str, rows: usize, width: usize| {
            self.tensor(&TensorNames::layer(layer, part), &[rows, width])
        };
        let qkv = vec![
            part("self_attn.q_proj", query, hidden)?,
            part("self_attn.k_proj", key, hidden)?,
            part("self_attn.v_proj", key, hidden)?,
        ];
        let output = part("self_attn.o_proj", hidden, query)?;
        let gate = part("mlp.gate_proj", intermediate, hidden)?;
        let up = part("mlp.up_proj", intermediate, hidden)?;
        let down = part("mlp.down_proj", hidden, intermediate)?;
        Ok([
            self.pack("queries, keys and values", Packing::heads(qkv, head))?,
            self.pack("attention output", Packing::by_heads(output, head))?,
            self.pack("gate and up", Packing::alternating(gate, up))?,
            self.pack("down", Packing::plain(down))?,
        ])
    }
}
