//! Putting a model on a device: its buffers, its weights, and the dispatches that use them.

use tidegate_weights::{Checkpoint, DecoderTensor, LayerTensor, ModelConfig};

use super::experts::{ExpertRows, FeedForward};
use super::fusion::Fusion;
use super::lora::{OfLayer, adapt_stream, adapted_product};
use super::sizes::{DecoderSizes, attention_matrices, layer_heads};
use super::{DecoderOptions, StepWords};
use crate::buffer::Buffer;
use crate::kernels::{Heads, KernelSet, KvBuffers, NormStore, Store};
use crate::load_error::LoadError;
use crate::matrix::{
    Arrived, BeforeNorm, HeadsOutput, Input, LoraMatrix, LoraRows, Matrix, Output, Packing,
    upload_vector,
};
use crate::program::{Builder, Count, Plan};
use crate::sampling::Sampler;
use crate::site::Site;

/// What loading a model works with.
pub(super) struct DecoderLoading<'a> {
    pub(super) site: Site<'a>,
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) config: &'a ModelConfig,
    pub(super) sizes: &'a DecoderSizes,
    pub(super) fusion: Fusion,
    pub(super) options: &'a DecoderOptions,
    pub(super) kernels: KernelSet,
    /// Bytes of the whole model, for errors.
    pub(super) total: u64,
    /// Told of every matrix that is on the device.
    pub(super) arrived: Arrived<'a>,
}

/// The buffers a step begins and ends with.
#[derive(Debug)]
pub(super) struct StepBuffers<B = Buffer> {
    /// `shaders/step.wgsl`.
    pub(super) step: B,
    /// Block tables of the step's sequences, one after another.
    pub(super) tables: B,
    /// `[samples, padded vocabulary]` f32.
    pub(super) logits: B,
    /// What a step draws: `shaders/sampling/sampling_result.wgsl`. The next step begins with it.
    pub(super) drawn: B,
    /// Which adapter each row of a step has, if the model has any: `shaders/lora/slots.wgsl`.
    pub(super) loras: Option<B>,
}

/// The same on a device.
pub(super) type DeviceStepBuffers = StepBuffers<wgpu::Buffer>;

impl StepBuffers {
    /// Those on the device.
    ///
    /// # Errors
    /// They were only planned.
    pub(super) fn on_device(&self) -> Result<DeviceStepBuffers, LoadError> {
        Ok(StepBuffers {
            step: self.step.on_device()?.clone(),
            tables: self.tables.on_device()?.clone(),
            logits: self.logits.on_device()?.clone(),
            drawn: self.drawn.on_device()?.clone(),
            loras: match &self.loras {
                Some(loras) => Some(loras.on_device()?.clone()),
                None => None,
            },
        })
    }
}

/// The buffers that every layer works in.
struct Rows {
    stream: Buffer,
    /// After a norm, or before one that a product does.
    normed: Buffer,
    /// What a norm that a product does needs beside that.
    squares: Option<Buffer>,
    /// Queries, keys and values, unless their product turns them at once.
    qkv: Option<Buffer>,
    queries: Buffer,
    scratch: Buffer,
    /// Parts of attention that are there, where the last one merges them.
    written: Option<Buffer>,
    attended: Buffer,
    active: Buffer,
    /// Output of attention or of the feed-forward layer, where it is not added to the stream at once.
    branch: Option<Buffer>,
    /// What layers with experts have beside.
    experts: Option<ExpertRows>,
    /// What adapted products have beside.
    loras: Option<LoraRows>,
}

impl Rows {
    /// Where rows are put before a norm that a product does, if products do norms.
    fn before_norm(&self) -> Option<BeforeNorm<'_>> {
        let squares = self.squares.as_ref()?;
        Some(BeforeNorm {
            weighted: &self.normed,
            squares,
        })
    }

    /// What adapts a product, if anything does.
    fn adapters<'a>(
        &'a self,
        lora: Option<&'a LoraMatrix>,
    ) -> Option<(&'a LoraMatrix, &'a LoraRows)> {
        lora.zip(self.loras.as_ref())
    }
}

impl<'a> DecoderLoading<'a> {
    /// Whether the adapter can bind a buffer whole.
    pub(super) fn fits(
        &self,
        what: &'static str,
        bytes: u64,
        remedy: &'static str,
    ) -> Result<(), LoadError> {
        let limit = self.site.traits().largest_binding;
        if bytes > limit {
            return Err(LoadError::BufferTooLarge {
                what,
                bytes,
                limit,
                remedy,
            });
        }
        Ok(())
    }

    /// A storage buffer, if the adapter can bind it whole.
    pub(super) fn storage(
        &self,
        what: &'static str,
        bytes: u64,
        remedy: &'static str,
    ) -> Result<Buffer, LoadError> {
        self.fits(what, bytes, remedy)?;
        Ok(self.site.storage(what, bytes))
    }

    pub(super) fn activation(&self, what: &'static str, width: usize) -> Result<Buffer, LoadError> {
        let bytes = (self.sizes.rows * width * 4) as u64;
        self.storage(what, bytes, "lower max_rows or context")
    }

    pub(super) fn step_buffers(&self) -> Result<StepBuffers, LoadError> {
        let sizes = self.sizes;
        let step = StepWords::most(sizes.rows) * 4;
        let logits = sizes.samples * sizes.vocabulary * 4;
        let drawn = Sampler::result_bytes_of(sizes.samples);
        let (tables, lower) = ((sizes.tables * 4) as u64, "lower max_rows or context");
        Ok(StepBuffers {
            step: self.storage("the rows of a step", step as u64, "lower max_rows")?,
            tables: self.storage("the block tables of a step", tables, lower)?,
            logits: self.storage("the logits of a step", logits as u64, "lower max_samples")?,
            drawn: self.storage("sampled tokens", drawn, "lower max_samples")?,
            loras: match sizes.loras {
                Some(_) => Some(self.activation("adapters of the rows of a step", 2)?),
                None => None,
            },
        })
    }

    pub(super) fn pack(&self, label: &str, packing: Packing<'_>) -> Result<Matrix, LoadError> {
        let bytes = packing.bytes();
        let matrix = packing.upload(self.site, self.kernels, label, self.total)?;
        self.arrived.add(bytes);
        Ok(matrix)
    }

    /// A norm's weights.
    fn norm(&self, tensor: DecoderTensor) -> Result<Buffer, LoadError> {
        let tensor = self.checkpoint.tensor(tensor)?;
        let offset = self.config.norm_offset;
        upload_vector(self.site, &tensor, offset, self.total)
    }

    pub(super) fn upload(&self, what: &'static str, values: &[f32]) -> Result<Buffer, LoadError> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.fits(what, bytes.len() as u64, "lower context")?;
        self.site
            .filled(what, bytes)
            .map_err(|error| LoadError::from_wait(error, self.total))
    }

    /// The rotary tables of the model, `[context, pairs]` of (cos, sin); at least one, so that a kernel has something to bind.
    fn angles(&self) -> Result<Vec<Buffer>, LoadError> {
        let table = |rope| {
            let table = self.config.rope_table(rope, self.options.context);
            let table: Vec<f32> = table.iter().flatten().map(|x| *x as f32).collect();
            self.upload("rotary table", &table)
        };
        let mut tables = (0..self.config.ropes.len())
            .map(table)
            .collect::<Result<Vec<_>, LoadError>>()?;
        if tables.is_empty() {
            tables.push(self.upload("no rotary table", &[1.0, 0.0])?);
        }
        Ok(tables)
    }

    /// Biases and head norms of a layer, as `shaders/attention/heads.wgsl` reads them; or as its product does, which turns so many
    /// pairs of queries and keys.
    fn extras(&self, layer: usize, pairs: usize) -> Result<Buffer, LoadError> {
        use LayerTensor::{KeyBias, KeyNorm, QueryBias, QueryNorm, ValueBias};
        let mut extras = Vec::new();
        let dim = self.config.head_dim;
        let mut append = |part, pairs, offset: f32| -> Result<(), LoadError> {
            let tensor = self.checkpoint.tensor(DecoderTensor::Layer(layer, part))?;
            let mut values = Vec::new();
            tensor.read_row(0, &mut values)?;
            for head in values.chunks_exact(dim) {
                extras.extend(Heads::in_pairs(dim, pairs).map(|i| head[i] + offset));
                extras.resize(extras.len().next_multiple_of(4), 0.0);
            }
            Ok(())
        };
        if self.config.qkv_bias {
            for (part, pairs) in [(QueryBias, pairs), (KeyBias, pairs), (ValueBias, 0)] {
                append(part, pairs, 0.0)?;
            }
        }
        if self.config.head_norms {
            for part in [QueryNorm, KeyNorm] {
                append(part, 0, self.config.norm_offset)?;
            }
        }
        if extras.is_empty() {
            extras.extend([0.0; 4]);
        }
        self.upload("biases and norms of heads", &extras)
    }

    /// Uploads the weights and plans the dispatches of a step. Also gives the bytes of what they alone know of.
    pub(super) fn plan(&self, step_buffers: &StepBuffers) -> Result<(Plan, u64), LoadError> {
        let (config, sizes) = (self.config, self.sizes);
        let rows = Rows {
            stream: self.activation("residual stream", sizes.hidden)?,
            normed: self.activation("normalised rows", sizes.hidden)?,
            squares: match sizes.squares {
                0 => None,
                squares => Some(self.activation("squares of the stream", squares)?),
            },
            qkv: match sizes.qkv {
                0 => None,
                qkv => Some(self.activation("queries, keys and values", qkv)?),
            },
            queries: self.activation("queries", sizes.query)?,
            scratch: self.storage(
                "scratch of attention",
                (sizes.scratch.elements * 4) as u64,
                "lower max_rows or context",
            )?,
            written: match sizes.written {
                0 => None,
                written => Some(self.activation("parts of attention that are there", written)?),
            },
            attended: self.activation("attention output", sizes.query)?,
            active: self.activation("feed-forward activations", sizes.intermediate)?,
            branch: if sizes.branches {
                Some(self.activation("output of a branch", sizes.hidden)?)
            } else {
                None
            },
            experts: self.expert_rows()?,
            loras: self.lora_rows(step_buffers)?,
        };
        let angles = self.angles()?;
        let embedding = self.checkpoint.tensor(DecoderTensor::Embedding)?;
        let embedding = self.pack("embedding", Packing::plain(embedding))?;
        let mut builder = Builder::new(self.site, self.kernels, &step_buffers.step);
        let (drawn, scale) = (&step_buffers.drawn, config.embedding_scale as f32);
        builder.embed(&embedding, Some(drawn), &rows.stream, scale)?;
        for layer in 0..config.layers.len() {
            let rope = config.layers.get(layer).and_then(|layer| layer.rope);
            let angles = angles.get(rope.unwrap_or(0)).or(angles.first());
            let Some(angles) = angles else { continue };
            self.layer(&mut builder, layer, &rows, angles, &step_buffers.tables)?;
        }
        let norm = self.norm(DecoderTensor::FinalNorm)?;
        builder.rms_norm(
            &norm,
            [&rows.stream, &rows.normed],
            config.hidden,
            config.norm_epsilon,
            NormStore::Plain,
            Count::Samples,
        )?;
        let head = if config.tied {
            embedding
        } else {
            let head = self.checkpoint.tensor(DecoderTensor::Head)?;
            self.pack("head", Packing::plain(head))?
        };
        let buffers = [&rows.normed, &step_buffers.logits];
        builder.matmul(&head, buffers, Store::Plain, Count::Samples)?;
        if let Some(cap) = config.logit_softcap {
            builder.softcap(&step_buffers.logits, config.vocabulary, cap)?;
        }
        Ok(builder.finish())
    }

    fn layer(
        &self,
        builder: &mut Builder<'_>,
        layer: usize,
        rows: &Rows,
        angles: &Buffer,
        tables: &Buffer,
    ) -> Result<(), LoadError> {
        let config = self.config;
        let heads: Heads = layer_heads(config, self.options, layer);
        let pairs = match self.fusion.heads {
            true => heads.half as usize,
            false => 0,
        };
        let [qkv, output] = attention_matrices(self.checkpoint, config, layer, pairs)?;
        let feed_forward = FeedForward::of(self.checkpoint, config, layer)?;
        let loras: OfLayer<LoraMatrix> = self.layer_loras(layer, [&qkv, &output], &feed_forward)?;
        let qkv = (
            &self.pack("queries, keys and values", qkv)?,
            loras.qkv.as_ref(),
        );
        let output = self.pack("attention output", output)?;
        let of = |part| DecoderTensor::Layer(layer, part);
        let cache = || {
            let what = "keys or values of a layer";
            self.storage(what, self.sizes.cache, self.options.kv.remedy())
        };
        let (keys, values) = (cache()?, cache()?);
        let cache = KvBuffers {
            tables,
            keys: &keys,
            values: &values,
        };
        let extras = self.extras(layer, pairs)?;
        // The first norm follows an embedding, which begins none, and others a sum of experts; the last is of samples alone.
        let begun = layer > 0 && config.experts_of(layer - 1).is_none();
        let norm = of(LayerTensor::AttentionNorm);
        match &rows.qkv {
            Some(projected) => {
                let output = Output::Rows(projected, Store::Plain);
                self.begin_branch(builder, norm, begun, qkv, output, rows)?;
                builder.heads(&heads, [angles, &extras], [projected, &rows.queries], cache)?;
            }
            None => {
                let output = Output::Heads(HeadsOutput {
                    heads: &heads,
                    queries: &rows.queries,
                    cache,
                    angles,
                    extras: &extras,
                });
                self.begin_branch(builder, norm, begun, qkv, output, rows)?;
            }
        }
        let buffers = [&rows.queries, &rows.scratch, &rows.attended];
        let written = rows.written.as_ref();
        let mut sinks = Vec::new();
        if config.sinks {
            let tensor = self.checkpoint.tensor(of(LayerTensor::Sinks))?;
            tensor.read_row(0, &mut sinks)?;
        }
        let context = self.options.context;
        builder.attention(&heads, buffers, written, cache, context, &sinks)?;
        let bias = if config.output_bias {
            let tensor = self.checkpoint.tensor(of(LayerTensor::OutputBias))?;
            Some(upload_vector(self.site, &tensor, 0.0, self.total)?)
        } else {
            None
        };
        let norm = of(LayerTensor::MlpNorm);
        let dense = config.experts_of(layer).is_none();
        let around = (of(LayerTensor::PostAttentionNorm), dense.then_some(norm));
        let output = (&output, loras.output.as_ref());
        self.end_branch(builder, (output, bias), &rows.attended, around, rows)?;

        let [gate_up, down] = match (feed_forward, &rows.experts) {
            (FeedForward::Dense(matrices), _) => matrices,
            (FeedForward::Experts(experts), Some(of_experts)) => {
                self.pre_norm(builder, norm, rows)?;
                let (to, store) = match &rows.branch {
                    Some(branch) if config.post_norms => (branch, NormStore::Plain),
                    _ => (&rows.stream, NormStore::Add),
                };
                let buffers = [&rows.normed, &rows.active, to];
                self.through_experts(builder, *experts, of_experts, buffers, store)?;
                if config.post_norms {
                    self.post_norm(builder, of(LayerTensor::PostMlpNorm), to, rows)?;
                }
                return Ok(());
            }
            (FeedForward::Experts(_), None) => return Ok(()),
        };
        let gate_up = self.pack("gate and up", gate_up)?;
        let down = self.pack("down", down)?;
        let gated = Output::Rows(&rows.active, Store::Gated(config.activation));
        let gate_up = (&gate_up, loras.gate_up.as_ref());
        self.begin_branch(builder, norm, true, gate_up, gated, rows)?;
        let next = (layer + 1 < config.layers.len())
            .then_some(DecoderTensor::Layer(layer + 1, LayerTensor::AttentionNorm));
        let around = (of(LayerTensor::PostMlpNorm), next);
        let down = (&down, loras.down.as_ref());
        self.end_branch(builder, (down, None), &rows.active, around, rows)
    }

    /// The beginning of a branch: the norm of the stream, which the end of the branch before may have begun, and a product.
    fn begin_branch(
        &self,
        builder: &mut Builder<'_>,
        norm: DecoderTensor,
        begun: bool,
        (matrix, lora): (&Matrix, Option<&LoraMatrix>),
        output: Output<'_>,
        rows: &Rows,
    ) -> Result<(), LoadError> {
        let of_norm = (self.config.hidden, self.config.norm_epsilon);
        let input = match rows.before_norm().filter(|_| begun) {
            Some(before) => Input::BeforeNorm(before, of_norm),
            None => {
                self.pre_norm(builder, norm, rows)?;
                Input::Rows(&rows.normed)
            }
        };
        adapted_product(builder, matrix, rows.adapters(lora), input, output)
    }

    /// Norm of the stream, before a branch.
    fn pre_norm(
        &self,
        builder: &mut Builder<'_>,
        tensor: DecoderTensor,
        rows: &Rows,
    ) -> Result<(), LoadError> {
        let norm = self.norm(tensor)?;
        builder.rms_norm(
            &norm,
            [&rows.stream, &rows.normed],
            self.config.hidden,
            self.config.norm_epsilon,
            NormStore::Plain,
            Count::Rows,
        )
    }

    /// The end of a branch: `input` times `matrix`, with a bias and a norm where the family has them, added to the stream. The norms
    /// are that of the branch, and that of the stream which is next.
    fn end_branch(
        &self,
        builder: &mut Builder<'_>,
        ((matrix, lora), bias): ((&Matrix, Option<&LoraMatrix>), Option<Buffer>),
        input: &Buffer,
        (post_norm, next_norm): (DecoderTensor, Option<DecoderTensor>),
        rows: &Rows,
    ) -> Result<(), LoadError> {
        let config = self.config;
        let adapters = rows.adapters(lora);
        let Some(branch) = rows
            .branch
            .as_ref()
            .filter(|_| bias.is_some() || config.post_norms)
        else {
            let buffers = [input, &rows.stream];
            let next = rows.before_norm().zip(next_norm);
            return match next {
                Some((before, norm)) => {
                    let norm = self.norm(norm)?;
                    builder.matmul_stream(matrix, buffers, &norm, before)?;
                    match adapters {
                        Some(adapters) => adapt_stream(builder, adapters, buffers, (&norm, before)),
                        None => Ok(()),
                    }
                }
                None => {
                    let stream = Output::Rows(&rows.stream, Store::Residual);
                    adapted_product(builder, matrix, adapters, Input::Rows(input), stream)
                }
            };
        };
        let to = Output::Rows(branch, Store::Plain);
        adapted_product(builder, matrix, adapters, Input::Rows(input), to)?;
        let mut result = branch;
        if let Some(bias) = bias {
            let (to, store) = if config.post_norms {
                (&rows.normed, NormStore::Plain)
            } else {
                (&rows.stream, NormStore::Add)
            };
            builder.add_bias(&bias, [result, to], config.hidden, store)?;
            result = to;
        }
        if config.post_norms {
            self.post_norm(builder, post_norm, result, rows)?;
        }
        Ok(())
    }

    /// Norm of what a branch ends with, added to the stream.
    fn post_norm(
        &self,
        builder: &mut Builder<'_>,
        tensor: DecoderTensor,
        branch: &Buffer,
        rows: &Rows,
    ) -> Result<(), LoadError> {
        let norm = self.norm(tensor)?;
        builder.rms_norm(
            &norm,
            [branch, &rows.stream],
            self.config.hidden,
            self.config.norm_epsilon,
            NormStore::Add,
            Count::Rows,
        )
    }
}
