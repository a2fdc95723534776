//! Putting an encoder on a device: its buffers, its weights, and the dispatches that use them.

use tidegate_weights::{
    Checkpoint, EncoderConfig, EncoderHead, EncoderLayerTensor as Part, EncoderTensor, Pooling,
    Tensor,
};

use super::options::EncoderSizes;
use crate::buffer::Buffer;
use crate::device::Gpu;
use crate::kernels::{KernelSet, Store, Tested, TextAttention};
use crate::load_error::LoadError;
use crate::matrix::{Arrived, Matrix, Packing, padded};
use crate::program::{Builder, Count, Program};
use crate::site::Site;

/// What loading an encoder works with.
pub(super) struct EncoderLoading<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) config: &'a EncoderConfig,
    pub(super) sizes: &'a EncoderSizes,
    pub(super) kernels: KernelSet,
    pub(super) checked: bool,
    /// Bytes of the whole model, for errors.
    pub(super) total: u64,
    /// Told of every matrix that is on the device.
    pub(super) arrived: Arrived<'a>,
}

/// The buffers a pass begins and ends with.
#[derive(Debug)]
pub(super) struct PassBuffers<B = Buffer> {
    /// `Step` in `shaders/step.wgsl`.
    pub(super) step: B,
    /// `Tile` in `shaders/encoder/encoder.wgsl`.
    pub(super) tiles: B,
    /// First row and rows of each text.
    pub(super) texts: B,
    /// `[texts, padded width]` f32.
    pub(super) vectors: B,
    pub(super) readback: wgpu::Buffer,
}

/// The same on a device.
pub(super) type DevicePassBuffers = PassBuffers<wgpu::Buffer>;

impl PassBuffers {
    /// Those on the device.
    fn on_device(&self) -> Result<DevicePassBuffers, LoadError> {
        Ok(PassBuffers {
            step: self.step.on_device()?.clone(),
            tiles: self.tiles.on_device()?.clone(),
            texts: self.texts.on_device()?.clone(),
            vectors: self.vectors.on_device()?.clone(),
            readback: self.readback.clone(),
        })
    }
}

/// The buffers that every layer works in.
struct Rows {
    stream: Buffer,
    branch: Buffer,
    qkv: Buffer,
    scores: Buffer,
    attended: Buffer,
    active: Buffer,
}

impl<'a> EncoderLoading<'a> {
    /// Whether the adapter can bind a buffer whole.
    fn fits(&self, what: &'static str, bytes: usize) -> Result<(), LoadError> {
        let (bytes, limit) = (bytes as u64, self.gpu.largest_binding);
        if bytes > limit {
            return Err(LoadError::BufferTooLarge {
                what,
                bytes,
                limit,
                remedy: "lower max_rows or context",
            });
        }
        Ok(())
    }

    /// A storage buffer, if the adapter can bind it whole.
    fn storage(&self, what: &'static str, bytes: usize) -> Result<Buffer, LoadError> {
        self.fits(what, bytes)?;
        Ok(Site::Device(self.gpu).storage(what, bytes as u64))
    }

    fn activation(&self, what: &'static str, width: usize) -> Result<Buffer, LoadError> {
        self.storage(what, self.sizes.rows * width * 4)
    }

    fn upload(&self, what: &'static str, values: &[f32]) -> Result<Buffer, LoadError> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.fits(what, bytes.len())?;
        Site::Device(self.gpu)
            .filled(what, bytes)
            .map_err(|error| LoadError::from_wait(error, self.total))
    }

    fn pack(&self, label: &str, packing: Packing<'_>) -> Result<Matrix, LoadError> {
        let bytes = packing.bytes();
        let matrix = packing.upload(Site::Device(self.gpu), self.kernels, label, self.total)?;
        self.arrived.add(bytes);
        Ok(matrix)
    }

    fn tensor(&self, tensor: EncoderTensor) -> Result<Tensor<'a>, LoadError> {
        Ok(self.checkpoint.encoder_tensor(tensor)?)
    }

    /// Vectors one after another, each cut into blocks that are padded by themselves.
    fn vectors(
        &self,
        what: &'static str,
        tensors: &[EncoderTensor],
        block: usize,
    ) -> Result<Buffer, LoadError> {
        let (mut values, mut all) = (Vec::new(), Vec::new());
        for tensor in tensors {
            self.tensor(*tensor)?.read_row(0, &mut values)?;
            for block in values.chunks(block) {
                all.extend_from_slice(block);
                all.resize(padded(all.len()), 0.0);
            }
        }
        self.upload(what, &all)
    }

    fn norm(&self, weight: EncoderTensor, bias: EncoderTensor) -> Result<Buffer, LoadError> {
        self.vectors(
            "weight and bias of a norm",
            &[weight, bias],
            self.config.hidden,
        )
    }

    /// What is added to a word at each position of a text: its position and its token type, `[types, context, hidden]`.
    fn places(&self) -> Result<Buffer, LoadError> {
        let positions = self.tensor(EncoderTensor::Positions)?;
        let types = self.tensor(EncoderTensor::Types)?;
        let (mut kind, mut values, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..self.sizes.types {
            types.read_row(index, &mut kind)?;
            for position in 0..self.sizes.context {
                positions.read_row(self.config.first_position + position, &mut values)?;
                all.extend(values.iter().zip(&kind).map(|(place, kind)| place + kind));
                all.resize(padded(all.len()), 0.0);
            }
        }
        self.upload("positions and token types", &all)
    }

    /// Makes the buffers, uploads the weights and resolves the dispatches of a pass. Also gives the bytes of what they alone know
    /// of.
    pub(super) fn load(&self) -> Result<(DevicePassBuffers, Program, u64), LoadError> {
        let (config, sizes) = (self.config, self.sizes);
        let vectors = sizes.rows * sizes.vector * 4;
        let pass_buffers = PassBuffers {
            step: self.storage("the rows of a pass", (4 + 4 * sizes.rows) * 4)?,
            tiles: self.activation("the tiles of a pass", 4)?,
            texts: self.activation("the texts of a pass", 2)?,
            vectors: self.storage("vectors", vectors)?,
            readback: self.gpu.readback("vectors for the host", vectors as u64),
        };
        let rows = Rows {
            stream: self.activation("residual stream", sizes.hidden)?,
            branch: self.activation("output of a branch", sizes.hidden)?,
            qkv: self.activation("queries, keys and values", 3 * sizes.query)?,
            scores: self.storage("scores of attention", sizes.scores())?,
            attended: self.activation("attention output", sizes.query)?,
            active: self.activation("feed-forward activations", sizes.intermediate)?,
        };
        let mut builder = Builder::new(Site::Device(self.gpu), self.kernels, &pass_buffers.step);
        let words = self.pack("words", Packing::plain(self.tensor(EncoderTensor::Words)?))?;
        builder.embed(&words, None, &rows.stream, 1.0)?;
        let norm = self.norm(EncoderTensor::Norm, EncoderTensor::NormBias)?;
        let buffers = [&rows.stream, &self.places()?];
        builder.layer_norm(&norm, buffers, config.hidden, config.norm_epsilon, true)?;
        for layer in 0..config.layers {
            self.layer(&mut builder, layer, &rows, &pass_buffers.tiles)?;
        }
        self.head(&mut builder, &rows, &pass_buffers)?;
        let (plan, scratch) = builder.finish();
        let program = plan.resolve(self.gpu, self.checked)?;
        Ok((pass_buffers.on_device()?, program, scratch))
    }

    fn layer(
        &self,
        builder: &mut Builder<'_>,
        layer: usize,
        rows: &Rows,
        tiles: &Buffer,
    ) -> Result<(), LoadError> {
        let (config, of) = (self.config, |part| EncoderTensor::Layer(layer, part));
        let head_dim = self.sizes.head_dim;
        let [qkv, output, up, down] = layer_matrices(self.checkpoint, config, layer)?;
        let qkv = self.pack("queries, keys and values", qkv)?;
        let biases = [Part::QueryBias, Part::KeyBias, Part::ValueBias].map(of);
        let bias = self.vectors("biases of heads", &biases, head_dim)?;
        let buffers = [&rows.stream, &rows.qkv];
        builder.matmul_bias(&qkv, &bias, buffers, None, Count::Rows)?;
        builder.text_attention(TextAttention {
            heads: config.heads,
            head_dim,
            tiles,
            qkv: &rows.qkv,
            scores: &rows.scores,
            attended: &rows.attended,
        })?;
        let bias = |part, width| self.vectors("bias", &[of(part)], width);
        let norm = |builder: &mut Builder<'_>, weight, bias| {
            let norm = self.norm(of(weight), of(bias))?;
            let buffers = [&rows.stream, &rows.branch];
            builder.layer_norm(&norm, buffers, config.hidden, config.norm_epsilon, false)
        };

        let output = self.pack("attention output", output)?;
        let output_bias = bias(Part::OutputBias, config.hidden)?;
        let buffers = [&rows.attended, &rows.branch];
        builder.matmul_bias(&output, &output_bias, buffers, None, Count::Rows)?;
        norm(builder, Part::OutputNorm, Part::OutputNormBias)?;

        let up = self.pack("up", up)?;
        let up_bias = bias(Part::UpBias, config.intermediate)?;
        let (buffers, activation) = ([&rows.stream, &rows.active], Some(config.activation));
        builder.matmul_bias(&up, &up_bias, buffers, activation, Count::Rows)?;
        let down = self.pack("down", down)?;
        let down_bias = bias(Part::DownBias, config.hidden)?;
        let buffers = [&rows.active, &rows.branch];
        builder.matmul_bias(&down, &down_bias, buffers, None, Count::Rows)?;
        norm(builder, Part::DownNorm, Part::DownNormBias)
    }

    /// From the rows of texts to a vector for each.
    fn head(
        &self,
        builder: &mut Builder<'_>,
        rows: &Rows,
        pass_buffers: &PassBuffers,
    ) -> Result<(), LoadError> {
        let hidden = self.config.hidden;
        let labels = match &self.config.head {
            EncoderHead::Embedding(pooling) => {
                let mean = *pooling == Pooling::Mean;
                let buffers = [&rows.stream, &pass_buffers.vectors];
                return builder.pool(&pass_buffers.texts, buffers, hidden, mean);
            }
            EncoderHead::Classification(labels) => labels.len(),
            EncoderHead::Relevance(_) => 1,
        };
        let pooled = self.activation("first rows", self.sizes.hidden)?;
        let inner = self.activation("inner rows of the head", self.sizes.hidden)?;
        builder.pool(&pass_buffers.texts, [&rows.stream, &pooled], hidden, false)?;
        let [dense, output] = head_matrices(self.checkpoint)?;
        let dense = self.pack("head dense", dense)?;
        let bias = self.vectors("bias", &[EncoderTensor::HeadDenseBias], hidden)?;
        builder.matmul_bias(&dense, &bias, [&pooled, &inner], None, Count::Samples)?;
        builder.tanh(&inner, hidden)?;
        let output = self.pack("head output", output)?;
        let bias = self.vectors("bias", &[EncoderTensor::HeadOutputBias], labels)?;
        let buffers = [&inner, &pass_buffers.vectors];
        builder.matmul_bias(&output, &bias, buffers, None, Count::Samples)
    }
}

/// The matrices of a layer, to be packed: queries, keys and values; attention output; up; down.
fn layer_matrices<'a>(
    checkpoint: &'a Checkpoint,
    config: &EncoderConfig,
    layer: usize,
) -> Result<[Packing<'a>; 4], LoadError> {
    let part = |part| checkpoint.encoder_tensor(EncoderTensor::Layer(layer, part));
    let head_dim = config.hidden / config.heads;
    let qkv = vec![part(Part::Query)?, part(Part::Key)?, part(Part::Value)?];
    Ok([
        Packing::heads(qkv, head_dim),
        Packing::by_heads(part(Part::Output)?, head_dim),
        Packing::plain(part(Part::Up)?),
        Packing::plain(part(Part::Down)?),
    ])
}

/// The matrices of a classification head.
fn head_matrices(checkpoint: &Checkpoint) -> Result<[Packing<'_>; 2], LoadError> {
    let part = |tensor| -> Result<Packing<'_>, LoadError> {
        Ok(Packing::plain(checkpoint.encoder_tensor(tensor)?))
    };
    Ok([
        part(EncoderTensor::HeadDense)?,
        part(EncoderTensor::HeadOutput)?,
    ])
}

/// What of its kernels an encoder runs: each part once.
pub(super) fn tested(
    checkpoint: &Checkpoint,
    config: &EncoderConfig,
) -> Result<Vec<Tested>, LoadError> {
    let mut tested = vec![Tested::LayerNorm, Tested::TextAttention, Tested::Pool];
    let mut add = |more: Tested| {
        if !tested.contains(&more) {
            tested.push(more);
        }
    };
    let words = Packing::plain(checkpoint.encoder_tensor(EncoderTensor::Words)?);
    words.kinds().map(Tested::Embedding).for_each(&mut add);
    let mut products = |matrix: &Packing<'_>, activation| {
        let store = Store::Bias(activation);
        let products = matrix.kinds().map(|stored| Tested::Products(stored, store));
        products.for_each(&mut add);
    };
    for layer in 0..config.layers {
        let matrices = layer_matrices(checkpoint, config, layer)?;
        let activations = [None, None, Some(config.activation), None];
        for (matrix, activation) in matrices.iter().zip(activations) {
            products(matrix, activation);
        }
    }
    if config.head.scores().is_some() {
        for matrix in &head_matrices(checkpoint)? {
            products(matrix, None);
        }
        add(Tested::Tanh);
    }
    Ok(tested)
}

/// Bytes of all weights on the device.
pub(super) fn weight_bytes(
    checkpoint: &Checkpoint,
    config: &EncoderConfig,
    sizes: &EncoderSizes,
) -> Result<u64, LoadError> {
    let words = checkpoint.encoder_tensor(EncoderTensor::Words)?;
    let mut bytes = Packing::plain(words).bytes();
    let mut vectors = (sizes.types * sizes.context + 2) * sizes.hidden;
    for layer in 0..config.layers {
        let matrices = layer_matrices(checkpoint, config, layer)?;
        bytes += matrices.iter().map(Packing::bytes).sum::<u64>();
        vectors += 3 * sizes.query + 6 * sizes.hidden + sizes.intermediate;
    }
    if config.head.scores().is_some() {
        bytes += head_matrices(checkpoint)?
            .iter()
            .map(Packing::bytes)
            .sum::<u64>();
        vectors += sizes.hidden + sizes.vector;
    }
    Ok(bytes + (vectors * 4) as u64)
}
