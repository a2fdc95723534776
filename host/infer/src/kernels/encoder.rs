//! Kernels of encoders: what is not a product with weights.

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
    },
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
}

impl EncoderKernel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            EncoderKernel::Norm { .. } => "encoder_norm",
            EncoderKernel::Scores { .. } => "encoder_scores",
            EncoderKernel::Softmax { .. } => "encoder_softmax",
            EncoderKernel::Values { .. } => "encoder_values",
            EncoderKernel::Pool => "encoder_pool",
            EncoderKernel::Tanh => "encoder_tanh",
        }
    }

    pub(crate) fn needs(self) -> Features {
        match self {
            EncoderKernel::Norm { base } | EncoderKernel::Softmax { base } => needs(base),
            _ => Features::NONE,
        }
    }

    fn lanes(self) -> u32 {
        match self {
            EncoderKernel::Norm {
                base: Base::Software,
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
            EncoderKernel::Norm { .. } => {
                &[(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)]
            }
            EncoderKernel::Scores { .. } | EncoderKernel::Pool => {
                &[(1, Read), (2, Read), (3, Write), (4, Uniform)]
            }
            EncoderKernel::Softmax { .. } => &[(1, Read), (3, Write), (4, Uniform)],
            EncoderKernel::Values { .. } => {
                &[(1, Read), (2, Read), (3, Write), (4, Uniform), (5, Read)]
            }
            EncoderKernel::Tanh => &[(3, Write), (4, Uniform)],
        }
    }

    pub(crate) fn source(self) -> String {
        let lanes = [("LANES", self.lanes())];
        let tiles = shader!("encoder/encoder.wgsl");
        match self {
            EncoderKernel::Norm { base } => {
                let kernel = match base {
                    Base::Software => shader!("encoder/encoder_norm_software.wgsl"),
                    Base::Portable | Base::Subgroup => {
                        shader!("encoder/encoder_norm_portable.wgsl")
                    }
                };
                let step = shader!("step.wgsl");
                let shared = shader!("encoder/encoder_norm.wgsl");
                join(&lanes, &[step, shared, reduction(base), kernel])
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
            EncoderKernel::Tanh => join(&lanes, &[shader!("encoder/encoder_tanh.wgsl")]),
        }
    }

    pub(crate) fn in_use() -> Vec<EncoderKernel> {
        let mut kernels = vec![EncoderKernel::Pool, EncoderKernel::Tanh];
        for base in Base::ALL {
            kernels.push(EncoderKernel::Norm { base });
            kernels.push(EncoderKernel::Softmax { base });
        }
        for software in [true, false] {
            kernels.push(EncoderKernel::Scores { software });
            kernels.push(EncoderKernel::Values { software });
        }
        kernels
    }
}

/// The attention of an encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextAttention<'a> {
    /// Heads.
    pub(crate) heads: usize,
    /// Width of a head.
    pub(crate) head_dim: usize,
    /// `[tiles]` of `Tile` in `shaders/encoder/encoder.wgsl`.
    pub(crate) tiles: &'a Buffer,
    /// `[rows, 3 * heads, padded head]` f32.
    pub(crate) qkv: &'a Buffer,
    /// `[tiles, heads, 4 rows, keys]` f32.
    pub(crate) scores: &'a Buffer,
    /// `[rows, heads, padded head]` f32.
    pub(crate) attended: &'a Buffer,
}

impl Builder<'_> {
    /// LayerNorm of `stream` `[rows, padded width]` and an addend, in place. `weights` are weight and bias, each padded. The
    /// addend is `[rows, padded width]`, or a table of as many positions.
    pub(crate) fn layer_norm(
        &mut self,
        weights: &Buffer,
        [stream, addend]: [&Buffer; 2],
        width: usize,
        epsilon: f64,
        by_position: bool,
    ) -> Result<(), LoadError> {
        let base = self.kernels.base;
        let kernel = EncoderKernel::Norm { base };
        let width4 = (padded(width) / 4) as u32;
        let epsilon = (epsilon as f32).to_bits();
        let parameters = [width4, width as u32, epsilon, u32::from(by_position)];
        let parameters = self.uniform("encoder norm", &parameters);
        let each = match base {
            Base::Software => kernel.lanes(),
            Base::Portable | Base::Subgroup => 1,
        };
        let of = Count::Rows;
        let grid = [Axis::Per { of, each }, Axis::Fixed(1), Axis::Fixed(1)];
        let buffers = [self.step, weights, addend, stream, &parameters];
        let choice = SizedKernel::always(Kernel::Encoder(kernel), grid);
        self.dispatch(of, &[choice], &buffers, Work::Rows(4 * width as u64), &[])
    }

    /// Attention in which every row of a text sees all of them.
    pub(crate) fn text_attention(&mut self, of: TextAttention<'_>) -> Result<(), LoadError> {
        let base = self.kernels.base;
        let software = base == Base::Software;
        let (heads, head4) = (of.heads as u32, (padded(of.head_dim) / 4) as u32);
        let tiles = Axis::Per { of: TILES, each: 1 };
        let scale = (1.0 / (of.head_dim as f64).sqrt()) as f32;
        let parameters = self.uniform("encoder attention", &[heads, head4, scale.to_bits(), 0]);
        // Four rows of a tile see every row of their text.
        let pairs = 4 * of.heads as u64;
        let products = Work::positions(pairs * padded(of.head_dim) as u64, u32::MAX);

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

    /// The mean or the first of each text's rows: `stream` `[rows, padded width]` into `pooled` `[texts, padded width]`.
    /// `texts` is `[texts]` of first row and rows.
    pub(crate) fn pool(
        &mut self,
        texts: &Buffer,
        [stream, pooled]: [&Buffer; 2],
        width: usize,
        mean: bool,
    ) -> Result<(), LoadError> {
        let width4 = (padded(width) / 4) as u32;
        let parameters = self.uniform("pooling", &[width4, u32::from(mean), 0, 0]);
        let buffers = [texts, stream, pooled, &parameters];
        self.by_texts(EncoderKernel::Pool, width, &buffers)
    }

    /// tanh of `inner` `[texts, padded width]`, in place.
    pub(crate) fn tanh(&mut self, inner: &Buffer, width: usize) -> Result<(), LoadError> {
        let width4 = (padded(width) / 4) as u32;
        let parameters = self.uniform("tanh", &[width4, 0, 0, 0]);
        self.by_texts(EncoderKernel::Tanh, width, &[inner, &parameters])
    }

    fn by_texts(
        &mut self,
        kernel: EncoderKernel,
        width: usize,
        buffers: &[&Buffer],
    ) -> Result<(), LoadError> {
        let width4 = (padded(width) / 4) as u32;
        let of = Count::Samples;
        let grid = [
            Axis::Fixed(width4.div_ceil(kernel.lanes())),
            Axis::Per { of, each: 1 },
            Axis::Fixed(1),
        ];
        let choice = SizedKernel::always(Kernel::Encoder(kernel), grid);
        self.dispatch(of, &[choice], buffers, Work::Rows(4 * width as u64), &[])
    }
}
