//! Putting an encoder on a device: its buffers, its weights, and the dispatches that use them.

use tidegate_weights::{
    Checkpoint, EncoderConfig, EncoderHead, EncoderLayerTensor as Part, EncoderTensor,
    HeadActivation, Pooling, Tensor,
};

use super::options::EncoderSizes;
use crate::buffer::Buffer;
use crate::device::Gpu;
use crate::held::Widened;
use crate::kernels::{Addend, KernelSet, LayerNorm, Store, Tested, TextAttention};
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
    /// `[texts, padded width]` f32, or `[tokens, padded width]`.
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
    /// What a norm makes of the stream, where it goes beside it.
    normed: Option<Buffer>,
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

    /// Vectors of given widths one after another, each cut into blocks that are padded by themselves. Of one that the model does
    /// not have, as many zeros.
    fn vectors(
        &self,
        what: &'static str,
        tensors: &[(EncoderTensor, usize)],
        block: usize,
    ) -> Result<Buffer, LoadError> {
        let (mut values, mut all) = (Vec::new(), Vec::new());
        for (tensor, width) in tensors {
            match self.config.shape(*tensor) {
                Some(_) => self.tensor(*tensor)?.read_row(0, &mut values)?,
                None => {
                    values.clear();
                    values.resize(*width, 0.0);
                }
            }
            for block in values.chunks(block) {
                all.extend_from_slice(block);
                all.resize(padded(all.len()), 0.0);
            }
        }
        self.upload(what, &all)
    }

    fn bias(&self, tensor: EncoderTensor, width: usize) -> Result<Buffer, LoadError> {
        self.vectors("bias", &[(tensor, width)], width)
    }

    /// A norm of a sum with `addend`, in the place of `stream` or beside it.
    fn norm(
        &self,
        builder: &mut Builder<'_>,
        [weight, bias]: [EncoderTensor; 2],
        (stream, addend, normed): (&Buffer, Addend<'_>, Option<&Buffer>),
        of: Count,
    ) -> Result<(), LoadError> {
        let hidden = self.config.hidden;
        let what = "weight and bias of a norm";
        let weights = self.vectors(what, &[(weight, hidden), (bias, hidden)], hidden)?;
        builder.layer_norm(LayerNorm {
            weights: &weights,
            stream,
            addend,
            normed,
            width: hidden,
            epsilon: self.config.norm_epsilon,
            rms: self.config.rms_norms,
            of,
        })
    }

    /// What is added to a word at each place: its position and its token type, `[types, places, hidden]`. None where words are
    /// all there is.
    fn places(&self) -> Result<Option<Buffer>, LoadError> {
        let (config, sizes) = (self.config, self.sizes);
        let table = |tensor| match config.shape(tensor) {
            Some(_) => self.tensor(tensor).map(Some),
            None => Ok(None),
        };
        let positions = table(EncoderTensor::Positions)?;
        let types = table(EncoderTensor::Types)?;
        if positions.is_none() && types.is_none() {
            return Ok(None);
        }
        let (mut values, mut all) = (Vec::new(), Vec::new());
        let mut sum = vec![0.0_f32; config.hidden];
        for kind in 0..sizes.types {
            for place in 0..sizes.places {
                sum.fill(0.0);
                let rows = [(&positions, config.first_position + place), (&types, kind)];
                for (table, row) in rows {
                    if let Some(table) = table {
                        table.read_row(row, &mut values)?;
                        sum.iter_mut().zip(&values).for_each(|(sum, x)| *sum += x);
                    }
                }
                all.extend_from_slice(&sum);
                all.resize(padded(all.len()), 0.0);
            }
        }
        self.upload("positions and token types", &all).map(Some)
    }

    /// cos and sin of the angles of a rotary table, `[context, half]`.
    fn angles(&self) -> Result<Vec<Buffer>, LoadError> {
        let table = |rope: usize| {
            let table = self.config.rope_table(rope, self.sizes.context);
            let table: Vec<f32> = table.into_iter().flatten().map(|x| x as f32).collect();
            self.upload("rotary table", &table)
        };
        (0..self.config.ropes.len()).map(table).collect()
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
            normed: match config.pre_norm {
                true => Some(self.activation("normed stream", sizes.hidden)?),
                false => None,
            },
            branch: self.activation("output of a branch", sizes.hidden)?,
            qkv: self.activation("queries, keys and values", sizes.qkv)?,
            scores: self.storage("scores of attention", sizes.scores())?,
            attended: self.activation("attention output", sizes.query)?,
            active: self.activation("feed-forward activations", sizes.intermediate)?,
        };
        let mut builder = Builder::new(Site::Device(self.gpu), self.kernels, &pass_buffers.step);
        let words = self.pack("words", Packing::plain(self.tensor(EncoderTensor::Words)?))?;
        builder.embed(&words, None, &rows.stream, 1.0)?;
        let nothing = self.upload("nothing", &vec![0.0; sizes.hidden])?;
        let places = self.places()?;
        let addend = match &places {
            Some(places) => Addend::OfPlace(places),
            None => Addend::Same(&nothing),
        };
        match &rows.normed {
            // The first layer begins with its own.
            Some(normed) if !config.first_norm => {
                let norm = [Part::AttentionNorm, Part::AttentionNormBias];
                let norm = norm.map(|part| EncoderTensor::Layer(0, part));
                let sum = (&rows.stream, addend, Some(normed));
                self.norm(&mut builder, norm, sum, Count::Rows)?;
            }
            _ => {
                let norm = [EncoderTensor::Norm, EncoderTensor::NormBias];
                let sum = (&rows.stream, addend, None);
                self.norm(&mut builder, norm, sum, Count::Rows)?;
            }
        }
        let angles = self.angles()?;
        for layer in 0..config.layers.len() {
            self.layer(&mut builder, layer, (&rows, &angles), &pass_buffers.tiles)?;
        }
        self.head(&mut builder, &rows, &nothing, &pass_buffers)?;
        let (plan, scratch) = builder.finish();
        let program = plan.resolve(self.gpu, self.checked)?;
        Ok((pass_buffers.on_device()?, program, scratch))
    }

    /// What is next after a branch whose output is to be added to the stream, and the norm that goes with the sum.
    fn after(
        &self,
        builder: &mut Builder<'_>,
        norm: [EncoderTensor; 2],
        rows: &Rows,
        normed: Option<&Buffer>,
    ) -> Result<(), LoadError> {
        let addend = Addend::Own(&rows.branch);
        self.norm(builder, norm, (&rows.stream, addend, normed), Count::Rows)
    }

    fn layer(
        &self,
        builder: &mut Builder<'_>,
        layer: usize,
        (rows, angles): (&Rows, &[Buffer]),
        tiles: &Buffer,
    ) -> Result<(), LoadError> {
        let (config, of) = (self.config, |part| EncoderTensor::Layer(layer, part));
        let heads = self.sizes.heads;
        let LayerMatrices {
            qkv,
            output,
            up,
            down,
        } = LayerMatrices::new(self.checkpoint, config, layer)?;
        let (reach, rope) = match config.layers.get(layer) {
            Some(layer) => (layer.reach, layer.rope),
            None => (None, None),
        };
        // The first layer has no norm of its own where words were normed.
        let input = match &rows.normed {
            Some(normed) if layer > 0 || !config.first_norm => normed,
            _ => &rows.stream,
        };
        let qkv = self.pack("queries, keys and values", qkv)?;
        let biases = [
            (Part::QueryBias, heads.queries),
            (Part::KeyBias, heads.keys),
            (Part::ValueBias, heads.keys),
        ];
        let biases = biases.map(|(part, count)| (of(part), count * heads.dim));
        let bias = self.vectors("biases of heads", &biases, heads.dim)?;
        builder.matmul_bias(&qkv, &bias, [input, &rows.qkv], None, Count::Rows)?;
        if config.head_norms {
            let norms = [Part::QueryNorm, Part::KeyNorm].map(|part| (of(part), heads.dim));
            let weights = self.vectors("norms of heads", &norms, heads.dim)?;
            builder.norm_heads(&weights, &rows.qkv, heads, config.norm_epsilon)?;
        }
        if let Some((angles, rope)) =
            rope.and_then(|index| angles.get(index).zip(config.ropes.get(index)))
        {
            builder.turn_text(angles, &rows.qkv, heads, rope.width / 2)?;
        }
        builder.text_attention(TextAttention {
            heads,
            reach,
            causal: config.causal,
            tiles,
            qkv: &rows.qkv,
            scores: &rows.scores,
            attended: &rows.attended,
        })?;

        let output = self.pack("attention output", output)?;
        let bias = self.bias(of(Part::OutputBias), config.hidden)?;
        let buffers = [&rows.attended, &rows.branch];
        builder.matmul_bias(&output, &bias, buffers, None, Count::Rows)?;
        let norm = match config.pre_norm {
            false => [Part::OutputNorm, Part::OutputNormBias],
            true => [Part::UpNorm, Part::UpNormBias],
        };
        self.after(builder, norm.map(of), rows, rows.normed.as_ref())?;

        let input = rows.normed.as_ref().unwrap_or(&rows.stream);
        let up = self.pack("up", up)?;
        if config.gated {
            let buffers = [input, &rows.active];
            builder.matmul(&up, buffers, Store::Gated(config.activation), Count::Rows)?;
        } else {
            let bias = self.bias(of(Part::UpBias), config.intermediate)?;
            let (buffers, activation) = ([input, &rows.active], Some(config.activation));
            builder.matmul_bias(&up, &bias, buffers, activation, Count::Rows)?;
        }
        let down = self.pack("down", down)?;
        let bias = self.bias(of(Part::DownBias), config.hidden)?;
        let buffers = [&rows.active, &rows.branch];
        builder.matmul_bias(&down, &bias, buffers, None, Count::Rows)?;
        let last = layer + 1 == config.layers.len();
        match config.pre_norm {
            false => {
                let norm = [Part::DownNorm, Part::DownNormBias].map(of);
                self.after(builder, norm, rows, None)
            }
            // The norm of what comes next.
            true if last => {
                let norm = [EncoderTensor::FinalNorm, EncoderTensor::FinalNormBias];
                self.after(builder, norm, rows, None)
            }
            true => {
                let norm = [Part::AttentionNorm, Part::AttentionNormBias];
                let norm = norm.map(|part| EncoderTensor::Layer(layer + 1, part));
                self.after(builder, norm, rows, rows.normed.as_ref())
            }
        }
    }

    /// From the rows of texts to a vector for each, or for each row. `nothing` is a row of zeros.
    fn head(
        &self,
        builder: &mut Builder<'_>,
        rows: &Rows,
        nothing: &Buffer,
        pass_buffers: &PassBuffers,
    ) -> Result<(), LoadError> {
        let (config, hidden) = (self.config, self.config.hidden);
        let pooled;
        let (mut input, of) = match head_pooling(config) {
            None => (&rows.stream, Count::Rows),
            Some(pooling) if config.head.scores().is_none() => {
                let buffers = [&rows.stream, &pass_buffers.vectors];
                return builder.pool(&pass_buffers.texts, buffers, hidden, pooling);
            }
            Some(pooling) => {
                pooled = self.activation("pooled rows", self.sizes.hidden)?;
                let buffers = [&rows.stream, &pooled];
                builder.pool(&pass_buffers.texts, buffers, hidden, pooling)?;
                (&pooled, Count::Samples)
            }
        };
        let inner;
        if let Some(scoring) = config.scoring {
            inner = self.activation("inner rows of the head", self.sizes.hidden)?;
            let dense = self.tensor(EncoderTensor::HeadDense)?;
            let dense = self.pack("head dense", Packing::plain(dense))?;
            let bias = self.bias(EncoderTensor::HeadDenseBias, hidden)?;
            let activation = match scoring.activation {
                HeadActivation::Of(activation) => Some(activation),
                HeadActivation::Tanh | HeadActivation::Relu => None,
            };
            builder.matmul_bias(&dense, &bias, [input, &inner], activation, of)?;
            match scoring.activation {
                HeadActivation::Tanh => builder.tanh(&inner, hidden, of)?,
                HeadActivation::Relu => builder.relu(&inner, hidden, of)?,
                HeadActivation::Of(_) => {}
            }
            if scoring.norm {
                let norm = [EncoderTensor::HeadNorm, EncoderTensor::HeadNormBias];
                let sum = (&inner, Addend::Same(nothing), None);
                self.norm(builder, norm, sum, of)?;
            }
            input = &inner;
        }
        let output = self.tensor(EncoderTensor::HeadOutput)?;
        let output = self.pack("head output", Packing::plain(output))?;
        let scores = config.head.scores().unwrap_or(1);
        let bias = self.bias(EncoderTensor::HeadOutputBias, scores)?;
        builder.matmul_bias(&output, &bias, [input, &pass_buffers.vectors], None, of)
    }
}

/// How a head makes one row of those of a text; none where it makes scores of each.
fn head_pooling(config: &EncoderConfig) -> Option<Pooling> {
    match &config.head {
        EncoderHead::Embedding(pooling) => Some(*pooling),
        EncoderHead::TokenClassification(_) => None,
        EncoderHead::Classification(_) | EncoderHead::Relevance(_) => {
            Some((config.scoring).map_or(Pooling::First, |scoring| scoring.pooling))
        }
    }
}

/// The matrices of a layer, to be packed.
struct LayerMatrices<'a> {
    qkv: Packing<'a>,
    output: Packing<'a>,
    /// Gate and up in turn, where there is a gate.
    up: Packing<'a>,
    down: Packing<'a>,
}

impl<'a> LayerMatrices<'a> {
    fn new(
        checkpoint: &'a Checkpoint,
        config: &EncoderConfig,
        layer: usize,
    ) -> Result<LayerMatrices<'a>, LoadError> {
        let part = |part| checkpoint.encoder_tensor(EncoderTensor::Layer(layer, part));
        let head_dim = config.head_dim;
        let qkv = vec![part(Part::Query)?, part(Part::Key)?, part(Part::Value)?];
        Ok(LayerMatrices {
            qkv: Packing::heads(qkv, head_dim),
            output: Packing::by_heads(part(Part::Output)?, head_dim),
            up: match config.gated {
                true => Packing::alternating(part(Part::Gate)?, part(Part::Up)?),
                false => Packing::plain(part(Part::Up)?),
            },
            down: Packing::plain(part(Part::Down)?),
        })
    }

    fn all(&self) -> [&Packing<'a>; 4] {
        [&self.qkv, &self.output, &self.up, &self.down]
    }
}

/// The matrices of a head that makes scores, each with what follows its product.
fn head_matrices<'a>(
    checkpoint: &'a Checkpoint,
    config: &EncoderConfig,
) -> Result<Vec<(Packing<'a>, Store)>, LoadError> {
    let mut matrices = Vec::new();
    if let Some(scoring) = config.scoring {
        let store = match scoring.activation {
            HeadActivation::Of(activation) => Store::Bias(Some(activation)),
            HeadActivation::Tanh | HeadActivation::Relu => Store::Bias(None),
        };
        let dense = checkpoint.encoder_tensor(EncoderTensor::HeadDense)?;
        matrices.push((Packing::plain(dense), store));
    }
    if config.head.scores().is_some() {
        let output = checkpoint.encoder_tensor(EncoderTensor::HeadOutput)?;
        matrices.push((Packing::plain(output), Store::Bias(None)));
    }
    Ok(matrices)
}

/// What of its kernels an encoder runs: each part once.
pub(super) fn tested(
    checkpoint: &Checkpoint,
    config: &EncoderConfig,
) -> Result<Vec<Tested>, LoadError> {
    let mut tested = vec![Tested::LayerNorm, Tested::TextAttention];
    if head_pooling(config).is_some() {
        tested.push(Tested::Pool);
    }
    if config.pre_norm {
        tested.push(Tested::LayerNormApart);
    }
    if config.head_norms {
        tested.push(Tested::TextHeadNorms);
    }
    if !config.ropes.is_empty() {
        tested.push(Tested::TurnedTexts);
    }
    let mut add = |more: Tested| {
        if !tested.contains(&more) {
            tested.push(more);
        }
    };
    let words = Packing::plain(checkpoint.encoder_tensor(EncoderTensor::Words)?);
    words.kinds().map(Tested::Embedding).for_each(&mut add);
    let mut products = |matrix: &Packing<'_>, store| {
        let products = matrix.kinds().map(|stored| Tested::Products(stored, store));
        products.for_each(&mut add);
    };
    let up = match config.gated {
        true => Store::Gated(config.activation),
        false => Store::Bias(Some(config.activation)),
    };
    let plain = Store::Bias(None);
    for layer in 0..config.layers.len() {
        let matrices = LayerMatrices::new(checkpoint, config, layer)?;
        for (matrix, store) in matrices.all().into_iter().zip([plain, plain, up, plain]) {
            products(matrix, store);
        }
    }
    for (matrix, store) in head_matrices(checkpoint, config)? {
        products(&matrix, store);
    }
    match config.scoring.map(|scoring| scoring.activation) {
        Some(HeadActivation::Tanh) => add(Tested::Tanh),
        Some(HeadActivation::Relu) => add(Tested::Relu),
        Some(HeadActivation::Of(_)) | None => {}
    }
    Ok(tested)
}

/// The tensors that are widened to f32.
pub(super) fn widened(
    checkpoint: &Checkpoint,
    config: &EncoderConfig,
) -> Result<Widened, LoadError> {
    let mut all = Widened::default();
    for layer in 0..config.layers.len() {
        let matrices = LayerMatrices::new(checkpoint, config, layer)?;
        all.extend(matrices.all().into_iter().flat_map(Packing::widened));
    }
    Ok(all)
}

/// Bytes of all weights on the device.
pub(super) fn weight_bytes(
    checkpoint: &Checkpoint,
    config: &EncoderConfig,
    sizes: &EncoderSizes,
) -> Result<u64, LoadError> {
    let words = checkpoint.encoder_tensor(EncoderTensor::Words)?;
    let mut bytes = Packing::plain(words).bytes();
    // Places, their norm, and zeros; where norms come first, the last norm.
    let places = match config.positions + config.types {
        0 => 0,
        _ => sizes.types * sizes.places,
    };
    let mut vectors =
        (places + 1 + 2 * usize::from(config.first_norm) + 2 * usize::from(config.pre_norm))
            * sizes.hidden;
    let angles = config.ropes.iter().map(|rope| sizes.context * rope.width);
    vectors += angles.sum::<usize>();
    for layer in 0..config.layers.len() {
        let matrices = LayerMatrices::new(checkpoint, config, layer)?;
        bytes += matrices.all().map(Packing::bytes).iter().sum::<u64>();
        // Two norms and two biases, of which the first layer may have a norm less.
        let none = config.pre_norm && config.first_norm && layer == 0;
        let norms = if none { 2 } else { 4 };
        let up = if config.gated { 0 } else { sizes.intermediate };
        vectors += sizes.qkv + (norms + 2) * sizes.hidden + up;
        if config.head_norms {
            vectors += 2 * padded(config.head_dim);
        }
    }
    let head = head_matrices(checkpoint, config)?;
    bytes += head.iter().map(|(matrix, _)| matrix.bytes()).sum::<u64>();
    if config.head.scores().is_some() {
        vectors += sizes.vector;
    }
    if let Some(scoring) = config.scoring {
        vectors += (1 + 2 * usize::from(scoring.norm)) * sizes.hidden;
    }
    Ok(bytes + (vectors * 4) as u64)
}
