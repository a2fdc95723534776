//! Kernels of encoders: what is not a product with weights.

use tidegate_weights::Pooling;

use super::Kernel;
use super::binding::{Access, Bindings};
use super::norm::{needs, reduction};
use super::source::{LANES, join, shader};
use super::variant::Base;
use crate::buffer::Buffer;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::matrix::padded;
use crate::program::{Axis, Builder, Count, SizedKernel, Work};

/// Lanes where a lane works by itself: one vector of a software adapter's CPU.
const NARROW_LANES: u32 = 8;

/// Lanes of the scores on a GPU: texts are often short.
const SCORE_LANES: u32 = 32;

/// How an encoder's pass counts its tiles: up to four rows of one text each.
pub(crate) const TILES: Count = Count::Visible(u32::MAX);

/// A kernel of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncoderKernel {
    /// A sum and its LayerNorm.
    Norm {
        /// How a row is summed.
        base: Base,
        /// Whether the norm goes beside the sum, and not in its place.
        apart: bool,
    },
    /// RMSNorm of heads.
    HeadNorm,
    /// Rotary positions.
    Turn,
    /// Queries times keys.
    Scores {
        /// Whether it runs on a software adapter.
        software: bool,
    },
    /// Scores to probabilities.
    Softmax {
        /// How a row is summed.
        base: Base,
    },
    /// Probabilities times values.
    Values {
        /// Whether it runs on a software adapter.
        software: bool,
    },
    /// A row for each text.
    Pool,
    /// tanh, in place.
    Tanh,
    /// What is above 0, in place.
    Relu,
}

impl EncoderKernel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            EncoderKernel::Norm { .. } => "encoder_norm",
            EncoderKernel::Scores { .. } => "encoder_scores",
            EncoderKernel::Softmax { .. } => "encoder_softmax",
            EncoderKernel::Values { .. } => "encoder_values",
            EncoderKernel::Pool => "encoder_pool",
            EncoderKernel::HeadNorm => "encoder_head_norm",
            EncoderKernel::Turn => "encoder_turn",
            EncoderKernel::Tanh => "encoder_tanh",
            EncoderKernel::Relu => "encoder_relu",
        }
    }

    pub(crate) fn needs(self) -> Features {
        match self {
            EncoderKernel::Norm { base, .. } | EncoderKernel::Softmax { base } => needs(base),
            _ => Features::NONE,
        }
    }

    fn lanes(self) -> u32 {
        match self {
            EncoderKernel::Norm {
                base: Base::Software,
                ..
            }
            | EncoderKernel::Softmax {
                base: Base::Software,
            }
            | EncoderKernel::Scores { software: true }
            | EncoderKernel::Values { software: true } => NARROW_LANES,
            EncoderKernel::Scores { software: false } => SCORE_LANES,
            _ => LANES,
        }
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        match self {
            EncoderKernel::Norm { apart: false, .. } => {
                &[(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)]
            }
            EncoderKernel::Norm { apart: true, .. } => &[
                (0, Read),
                (1, Read),
                (2, Read),
                (3, Write),
                (4, Uniform),
                (5, Write),
            ],
            EncoderKernel::HeadNorm => &[(2, Read), (3, Write), (4, Uniform)],
            EncoderKernel::Turn => &[(0, Read), (2, Read), (3, Write), (4, Uniform)],
            EncoderKernel::Scores { .. } | EncoderKernel::Pool => {
                &[(1, Read), (2, Read), (3, Write), (4, Uniform)]
            }
            EncoderKernel::Softmax { .. } => &[(1, Read), (3, Write), (4, Uniform)],
            EncoderKernel::Values { .. } => {
                &[(1, Read), (2, Read), (3, Write), (4, Uniform), (5, Read)]
            }
            EncoderKernel::Tanh | EncoderKernel::Relu => &[(3, Write), (4, Uniform)],
        }
    }

    pub(crate) fn source(self) -> String {
        let lanes = [("LANES", self.lanes())];
        let tiles = shader!("encoder/encoder.wgsl");
        let activation = |activated| {
            let kernel = shader!("encoder/encoder_activate.wgsl");
            join(&lanes, &[activated, kernel])
        };
        match self {
            EncoderKernel::Norm { base, apart } => {
                let kernel = match base {
                    Base::Software => shader!("encoder/encoder_norm_software.wgsl"),
                    Base::Portable | Base::Subgroup => {
                        shader!("encoder/encoder_norm_portable.wgsl")
                    }
                };
                let step = shader!("step.wgsl");
                let shared = shader!("encoder/encoder_norm.wgsl");
                let put = match apart {
                    false => shader!("encoder/encoder_norm_in_place.wgsl"),
                    true => shader!("encoder/encoder_norm_apart.wgsl"),
                };
                join(&lanes, &[step, shared, put, reduction(base), kernel])
            }
            EncoderKernel::Scores { .. } => {
                join(&lanes, &[tiles, shader!("encoder/encoder_scores.wgsl")])
            }
            EncoderKernel::Softmax { base } => {
                let kernel = match base {
                    Base::Software => shader!("encoder/encoder_softmax_software.wgsl"),
                    Base::Portable | Base::Subgroup => {
                        shader!("encoder/encoder_softmax_portable.wgsl")
                    }
                };
                let shared = shader!("encoder/encoder_softmax.wgsl");
                join(&lanes, &[tiles, shared, reduction(base), kernel])
            }
            EncoderKernel::Values { .. } => {
                join(&lanes, &[tiles, shader!("encoder/encoder_values.wgsl")])
            }
            EncoderKernel::Pool => join(&lanes, &[shader!("encoder/encoder_pool.wgsl")]),
            EncoderKernel::HeadNorm => join(&lanes, &[shader!("encoder/encoder_head_norm.wgsl")]),
            EncoderKernel::Turn => {
                let files = [shader!("step.wgsl"), shader!("encoder/encoder_turn.wgsl")];
                join(&lanes, &files)
            }
            EncoderKernel::Tanh => activation(shader!("encoder/activated_tanh.wgsl")),
            EncoderKernel::Relu => activation(shader!("encoder/activated_relu.wgsl")),
        }
    }

    pub(crate) fn in_use() -> Vec<EncoderKernel> {
        let mut kernels = vec![
            EncoderKernel::HeadNorm,
            EncoderKernel::Turn,
            EncoderKernel::Pool,
            EncoderKernel::Tanh,
            EncoderKernel::Relu,
        ];
        for base in Base::ALL {
            for apart in [false, true] {
                kernels.push(EncoderKernel::Norm { base, apart });
            }
            kernels.push(EncoderKernel::Softmax { base });
        }
        for software in [true, false] {
            kernels.push(EncoderKernel::Scores { software });
            kernels.push(EncoderKernel::Values { software });
        }
        kernels
    }
}

/// What is added to the rows of a stream before a LayerNorm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Addend<'a> {
    /// `[rows, padded width]`: to each row its own.
    Own(&'a Buffer),
    /// `[places, padded width]`: to each row that of its place.
    OfPlace(&'a Buffer),
    /// `[padded width]`: to all rows the same.
    Same(&'a Buffer),
}

impl<'a> Addend<'a> {
    /// As `Params.addend` in `shaders/encoder/encoder_norm.wgsl`.
    fn word(self) -> u32 {
        match self {
            Addend::Own(_) => 0,
            Addend::OfPlace(_) => 1,
            Addend::Same(_) => 2,
        }
    }

    fn buffer(self) -> &'a Buffer {
        match self {
            Addend::Own(buffer) | Addend::OfPlace(buffer) | Addend::Same(buffer) => buffer,
        }
    }
}

/// A LayerNorm or RMSNorm of rows, or of one row for each text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerNorm<'a> {
    /// Weight and bias, each padded.
    pub(crate) weights: &'a Buffer,
    /// `[rows, padded width]`: the sum with the addend takes its place, or the norm does.
    pub(crate) stream: &'a Buffer,
    pub(crate) addend: Addend<'a>,
    /// Where the norm goes, if not to the stream: `[rows, padded width]`.
    pub(crate) normed: Option<&'a Buffer>,
    pub(crate) width: usize,
    pub(crate) epsilon: f64,
    /// Whether it is an RMSNorm.
    pub(crate) rms: bool,
    /// [`Count::Rows`] or [`Count::Samples`].
    pub(crate) of: Count,
}

/// The reach of a row that sees its whole text.
const WHOLE_TEXT: usize = 1 << 30;

/// The heads of a row of queries, keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextHeads {
    /// Query heads.
    pub(crate) queries: usize,
    /// Key heads, and as many value heads; divides `queries`.
    pub(crate) keys: usize,
    /// Width of a head.
    pub(crate) dim: usize,
}

impl TextHeads {
    /// All of a row.
    pub(crate) fn all(self) -> usize {
        self.queries + 2 * self.keys
    }

    /// Those of queries and keys, which come first.
    fn turned(self) -> usize {
        self.queries + self.keys
    }
}

/// The attention of an encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextAttention<'a> {
    pub(crate) heads: TextHeads,
    /// Rows to each side that a row sees beside its own; none is all of its text.
    pub(crate) reach: Option<usize>,
    /// Whether it sees none behind it.
    pub(crate) causal: bool,
    /// `[tiles]` of `Tile` in `shaders/encoder/encoder.wgsl`.
    pub(crate) tiles: &'a Buffer,
    /// `[rows, all heads, padded head]` f32.
    pub(crate) qkv: &'a Buffer,
    /// `[tiles, heads, 4 rows, keys]` f32.
    pub(crate) scores: &'a Buffer,
    /// `[rows, heads, padded head]` f32.
    pub(crate) attended: &'a Buffer,
}

impl Builder<'_> {
    /// A norm of a sum.
    pub(crate) fn layer_norm(&mut self, of: LayerNorm<'_>) -> Result<(), LoadError> {
        let base = self.kernels.base;
        let kernel = EncoderKernel::Norm {
            base,
            apart: of.normed.is_some(),
        };
        let width4 = (padded(of.width) / 4) as u32;
        let epsilon = (of.epsilon as f32).to_bits();
        let (addend, rms) = (of.addend.word(), u32::from(of.rms));
        let parameters = [width4, of.width as u32, epsilon, addend, rms, 0, 0, 0];
        let parameters = self.uniform("encoder norm", &parameters);
        let each = match base {
            Base::Software => kernel.lanes(),
            Base::Portable | Base::Subgroup => 1,
        };
        let grid = [
            Axis::Per { of: of.of, each },
            Axis::Fixed(1),
            Axis::Fixed(1),
        ];
        let addend = of.addend.buffer();
        let mut buffers = vec![self.step, of.weights, addend, of.stream, &parameters];
        buffers.extend(of.normed);
        let choice = SizedKernel::always(Kernel::Encoder(kernel), grid);
        let work = Work::Rows(4 * of.width as u64);
        self.dispatch(of.of, &[choice], &buffers, work, &[])
    }

    /// RMSNorm of query and key heads of `qkv` `[rows, all heads, padded head]`, in place. `weights` are those of queries and of
    /// keys, each padded.
    pub(crate) fn norm_heads(
        &mut self,
        weights: &Buffer,
        qkv: &Buffer,
        heads: TextHeads,
        epsilon: f64,
    ) -> Result<(), LoadError> {
        let kernel = EncoderKernel::HeadNorm;
        let (normed, stride4) = (heads.turned() as u32, (padded(heads.dim) / 4) as u32);
        let parameters = [
            heads.queries as u32,
            normed,
            stride4,
            heads.all() as u32,
            heads.dim as u32,
            (epsilon as f32).to_bits(),
            0,
            0,
        ];
        let parameters = self.uniform("encoder head norm", &parameters);
        let of = Count::Rows;
        let grid = [
            Axis::Fixed(normed.div_ceil(kernel.lanes())),
            Axis::Per { of, each: 1 },
            Axis::Fixed(1),
        ];
        let choice = SizedKernel::always(Kernel::Encoder(kernel), grid);
        let work = Work::Rows(8 * u64::from(normed * stride4));
        self.dispatch(of, &[choice], &[weights, qkv, &parameters], work, &[])
    }

    /// Turns queries and keys of `qkv` `[rows, all heads, padded head]`, in place, by `angles` `[context, half]` of (cos, sin).
    pub(crate) fn turn_text(
        &mut self,
        angles: &Buffer,
        qkv: &Buffer,
        heads: TextHeads,
        half: usize,
    ) -> Result<(), LoadError> {
        let kernel = EncoderKernel::Turn;
        let parameters = [heads.turned(), padded(heads.dim), half, heads.all()];
        let parameters = parameters.map(|word| word as u32);
        let parameters = self.uniform("encoder turn", &parameters);
        let pairs = heads.turned() * half;
        let of = Count::Rows;
        let grid = [
            Axis::Fixed((pairs as u32).div_ceil(kernel.lanes())),
            Axis::Per { of, each: 1 },
            Axis::Fixed(1),
        ];
        let choice = SizedKernel::always(Kernel::Encoder(kernel), grid);
        let buffers = [self.step, angles, qkv, &parameters];
        self.dispatch(of, &[choice], &buffers, Work::Rows(4 * pairs as u64), &[])
    }

    /// Attention in which a row sees rows of its text on both sides.
    pub(crate) fn text_attention(&mut self, of: TextAttention<'_>) -> Result<(), LoadError> {
        let base = self.kernels.base;
        let software = base == Base::Software;
        let TextHeads { queries, keys, dim } = of.heads;
        let (heads, head4) = (queries as u32, (padded(dim) / 4) as u32);
        let tiles = Axis::Per { of: TILES, each: 1 };
        let scale = (1.0 / (dim as f64).sqrt()) as f32;
        let before = of.reach.unwrap_or(WHOLE_TEXT).min(WHOLE_TEXT) as u32;
        let ahead = if of.causal { 0 } else { before };
        let keys = keys as u32;
        let parameters = [heads, head4, scale.to_bits(), before, ahead, keys, 0, 0];
        let parameters = self.uniform("encoder attention", &parameters);
        // Four rows of a tile see every row of their text.
        let pairs = 4 * queries as u64;
        let sees = of.reach.map_or(u32::MAX, |reach| {
            (2 * reach as u64 + 1).min(u64::from(u32::MAX)) as u32
        });
        let products = Work::positions(pairs * padded(dim) as u64, sees);

        let kernel = Kernel::Encoder(EncoderKernel::Scores { software });
        let choice = SizedKernel::always(kernel, [tiles, Axis::Fixed(heads), Axis::Fixed(1)]);
        let buffers = [of.tiles, of.qkv, of.scores, &parameters];
        self.dispatch(TILES, &[choice], &buffers, products, &[])?;

        let kernel = EncoderKernel::Softmax { base };
        let y = match base {
            Base::Software => (4 * heads).div_ceil(kernel.lanes()),
            Base::Portable | Base::Subgroup => heads,
        };
        let choice = SizedKernel::always(
            Kernel::Encoder(kernel),
            [tiles, Axis::Fixed(y), Axis::Fixed(1)],
        );
        let buffers = [of.tiles, of.scores, &parameters];
        self.dispatch(
            TILES,
            &[choice],
            &buffers,
            Work::positions(4 * pairs, u32::MAX),
            &[],
        )?;

        let kernel = EncoderKernel::Values { software };
        let y = (heads * head4).div_ceil(kernel.lanes());
        let choice = SizedKernel::always(
            Kernel::Encoder(kernel),
            [tiles, Axis::Fixed(y), Axis::Fixed(1)],
        );
        let buffers = [of.tiles, of.qkv, of.attended, &parameters, of.scores];
        self.dispatch(TILES, &[choice], &buffers, products, &[])
    }

    /// The mean, the first or the last of each text's rows: `stream` `[rows, padded width]` into `pooled` `[texts, padded width]`.
    /// `texts` is `[texts]` of first row and rows.
    pub(crate) fn pool(
        &mut self,
        texts: &Buffer,
        [stream, pooled]: [&Buffer; 2],
        width: usize,
        pooling: Pooling,
    ) -> Result<(), LoadError> {
        let width4 = (padded(width) / 4) as u32;
        let which = match pooling {
            Pooling::First => 0,
            Pooling::Mean => 1,
            Pooling::Last => 2,
        };
        let parameters = self.uniform("pooling", &[width4, which, 0, 0]);
        let buffers = [texts, stream, pooled, &parameters];
        self.by_rows(EncoderKernel::Pool, width, Count::Samples, &buffers)
    }

    /// tanh of `inner` `[texts, padded width]`, in place; or of as many rows as `of` says.
    pub(crate) fn tanh(
        &mut self,
        inner: &Buffer,
        width: usize,
        of: Count,
    ) -> Result<(), LoadError> {
        self.of_head(EncoderKernel::Tanh, inner, width, of)
    }

    /// What is above 0 of `inner` `[texts, padded width]`, in place; or of as many rows as `of` says.
    pub(crate) fn relu(
        &mut self,
        inner: &Buffer,
        width: usize,
        of: Count,
    ) -> Result<(), LoadError> {
        self.of_head(EncoderKernel::Relu, inner, width, of)
    }

    fn of_head(
        &mut self,
        kernel: EncoderKernel,
        inner: &Buffer,
        width: usize,
        of: Count,
    ) -> Result<(), LoadError> {
        let width4 = (padded(width) / 4) as u32;
        let parameters = self.uniform("head activation", &[width4, 0, 0, 0]);
        self.by_rows(kernel, width, of, &[inner, &parameters])
    }

    fn by_rows(
        &mut self,
        kernel: EncoderKernel,
        width: usize,
        of: Count,
        buffers: &[&Buffer],
    ) -> Result<(), LoadError> {
        let width4 = (padded(width) / 4) as u32;
        let grid = [
            Axis::Fixed(width4.div_ceil(kernel.lanes())),
            Axis::Per { of, each: 1 },
            Axis::Fixed(1),
        ];
        let choice = SizedKernel::always(Kernel::Encoder(kernel), grid);
        self.dispatch(of, &[choice], buffers, Work::Rows(4 * width as u64), &[])
    }
}
