//! Putting a model on a device: its buffers, its weights, and the dispatches that use them.

use super::pack::{Matrix, Packing, upload_vector};
use super::plan::Plan;
use super::program::{Builder, Heads, Program};
use super::{DecoderOptions, LoadError};
use crate::config::ModelConfig;
use crate::device::Gpu;
use crate::kernels::{Pipelines, Store};
use crate::weights::{Tensor, TensorNames, Weights, WeightsError};

/// What loading a model works with.
pub(super) struct Parts<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) config: &'a ModelConfig,
    pub(super) weights: &'a Weights,
    pub(super) plan: &'a Plan,
    pub(super) options: &'a DecoderOptions,
}

impl<'a> Parts<'a> {
    /// A storage buffer of f32 elements, if the adapter can bind it whole.
    fn elements(
        &self,
        what: &'static str,
        elements: usize,
        remedy: &'static str,
    ) -> Result<wgpu::Buffer, LoadError> {
        let (bytes, limit) = ((elements * 4) as u64, self.gpu.largest_binding);
        if bytes > limit {
            return Err(LoadError::BufferTooLarge {
                what,
                bytes,
                limit,
                remedy,
            });
        }
        Ok(self.gpu.storage(what, bytes))
    }

    fn activation(&self, what: &'static str, width: usize) -> Result<wgpu::Buffer, LoadError> {
        self.elements(
            what,
            self.options.max_rows * width,
            "lower max_rows or context",
        )
    }

    /// The buffers a step begins and ends with: rows, logits, and the logits where the host can read them.
    pub(super) fn ends(&self) -> Result<[wgpu::Buffer; 3], LoadError> {
        let rows = self.options.max_rows;
        let step = self.elements("the rows of a step", 4 + 4 * rows, "lower max_rows")?;
        let logits = self.elements(
            "the logits of a step",
            rows * self.plan.vocabulary,
            "lower max_rows",
        )?;
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
        let table: Vec<[f32; 2]> = table
            .iter()
            .map(|[cos, sin]| [*cos as f32, *sin as f32])
            .collect();
        let buffer = self.elements("rotary table", 2 * table.len(), "lower context")?;
        let uploaded = self.gpu.upload(&buffer, 0, bytemuck::cast_slice(&table));
        uploaded.map_err(|error| LoadError::from_wait(error, self.plan.memory.total()))?;
        Ok(buffer)
    }

    /// Uploads the weights and resolves the dispatches of a step.
    pub(super) fn program(
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

        let mut builder = Builder {
            gpu: self.gpu,
            pipelines,
            step,
            program: Program::default(),
        };
        builder.embed(&embedding, &stream)?;
        for layer in 0..config.layers {
            let [qkv_weights, output, gate_up, down] = self.layer(layer)?;
            let cache = || {
                self.elements(
                    "keys or values of a layer",
                    plan.cache,
                    "lower slots or context",
                )
            };
            let (keys, values) = (cache()?, cache()?);

            let norm = self.vector(&TensorNames::layer(layer, "input_layernorm"))?;
            builder.norm(
                &norm,
                [&stream, &normed],
                config.hidden,
                config.norm_epsilon,
                false,
            )?;
            builder.matmul(&qkv_weights, [&normed, &qkv], Store::Plain, false)?;
            builder.rope(&angles, &qkv, [&keys, &values], heads)?;
            builder.attention(&qkv, [&keys, &values], [&scores, &attended], heads)?;
            builder.matmul(&output, [&attended, &stream], Store::Residual, false)?;

            let norm = self.vector(&TensorNames::layer(layer, "post_attention_layernorm"))?;
            builder.norm(
                &norm,
                [&stream, &normed],
                config.hidden,
                config.norm_epsilon,
                false,
            )?;
            builder.matmul(&gate_up, [&normed, &active], Store::Swiglu, false)?;
            builder.matmul(&down, [&active, &stream], Store::Residual, false)?;
        }
        let norm = self.vector(TensorNames::FINAL_NORM)?;
        builder.norm(
            &norm,
            [&stream, &normed],
            config.hidden,
            config.norm_epsilon,
            true,
        )?;
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
