//! What is done to heads between their projection and attention.

use super::Kernel;
use super::binding::{Access, Bindings};
use super::kv::KvPrecision;
use super::layout::layout_file;
use super::norm::{needs, reduction};
use super::source::{LANES, join, shader};
use super::variant::Base;
use crate::buffer::Buffer;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::program::{Axis, Builder, Count, SizedKernel, Work};
use crate::touch::{Area, Touch};

/// Lanes where one head is one lane: one vector of a software adapter's CPU.
const NARROW_LANES: u32 = 8;

/// Bias, head norm, rotation and KV write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadsKernel {
    /// How a head is summed.
    pub base: Base,
    /// How keys and values are kept.
    pub kv: KvPrecision,
}

impl HeadsKernel {
    pub(crate) fn name(self) -> &'static str {
        "heads"
    }

    pub(crate) fn needs(self) -> Features {
        needs(self.base)
    }

    fn lanes(self) -> u32 {
        match self.base {
            Base::Software => NARROW_LANES,
            Base::Portable | Base::Subgroup => LANES,
        }
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        &[
            (0, Read),
            (1, Read),
            (2, Read),
            (3, Read),
            (4, Uniform),
            (5, Write),
            (6, Write),
            (7, Write),
            (8, Read),
        ]
    }

    pub(crate) fn source(self) -> String {
        let kernel = match self.base {
            Base::Software => shader!("attention/heads_software.wgsl"),
            Base::Portable | Base::Subgroup => shader!("attention/heads_portable.wgsl"),
        };
        let files = [
            shader!("step.wgsl"),
            shader!("attention/tables.wgsl"),
            shader!("attention/paged.wgsl"),
            layout_file(self.base),
            self.kv.file(),
            reduction(self.base),
            shader!("attention/heads.wgsl"),
            kernel,
        ];
        join(&[("LANES", self.lanes()), ("UNIT", 1)], &files)
    }

    pub(crate) fn in_use() -> Vec<HeadsKernel> {
        let mut kernels = Vec::new();
        for base in Base::ALL {
            kernels.extend(KvPrecision::ALL.map(|kv| HeadsKernel { base, kv }));
        }
        kernels
    }
}

/// The heads of a layer, as its kernels need to know them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    /// True width of a head, elements.
    pub(crate) dim: u32,
    pub(crate) kv: KvPrecision,
    /// Pairs of a head that turn; 0 for none.
    pub(crate) half: u32,
    /// Positions a row sees, its own included; `u32::MAX` for all.
    pub(crate) window: u32,
    /// Of the head norms, if there are any.
    pub(crate) norm_epsilon: Option<f64>,
    pub(crate) bias: bool,
    /// Factor of the scores.
    pub(crate) scale: f64,
    pub(crate) softcap: Option<f64>,
}

impl Heads {
    /// The element of a head at each of its places, in what a product turns: those that turn together lie beside each other.
    pub(crate) fn in_pairs(dim: usize, half: usize) -> impl Iterator<Item = usize> {
        let pairs = (0..half).flat_map(move |i| [i, i + half]);
        pairs.chain(2 * half..dim)
    }

    /// Width of a head, padded, / 4.
    pub(crate) fn stride4(&self) -> u32 {
        self.dim.div_ceil(4)
    }

    /// Bytes of the key, or the value, of a head at one position.
    pub(crate) fn kv_bytes(&self) -> u64 {
        self.kv.head_bytes(self.dim as usize) as u64
    }

    /// Positions that all blocks of a layer have room for.
    pub(super) fn places(&self, cache: KvBuffers<'_>) -> u32 {
        (cache.keys.size() / (u64::from(self.kv_heads) * self.kv_bytes())) as u32
    }
}

/// Keys and values of a layer, and where the sequences of a step find theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvBuffers<'a> {
    /// Block tables of the step.
    pub(crate) tables: &'a Buffer,
    pub(crate) keys: &'a Buffer,
    pub(crate) values: &'a Buffer,
}

impl Builder<'_> {
    /// Bias, head norm, rotation: queries of `qkv` into `queries`, keys and values into their blocks. `angles`
    /// `[context, half]` of (cos, sin); `extras` as `shaders/attention/heads.wgsl` says.
    pub(crate) fn heads(
        &mut self,
        heads: &Heads,
        [angles, extras]: [&Buffer; 2],
        [qkv, queries]: [&Buffer; 2],
        cache: KvBuffers<'_>,
    ) -> Result<(), LoadError> {
        let kernel = HeadsKernel {
            base: self.kernels.base,
            kv: heads.kv,
        };
        let parameters = [
            heads.heads,
            heads.kv_heads,
            heads.stride4(),
            heads.half,
            (heads.dim as f32).to_bits(),
            (heads.norm_epsilon.unwrap_or(0.0) as f32).to_bits(),
            u32::from(heads.bias),
            u32::from(heads.norm_epsilon.is_some()),
            heads.places(cache),
            0,
            0,
            0,
        ];
        let parameters = self.uniform("heads", &parameters);
        let count = heads.heads + 2 * heads.kv_heads;
        let workgroups = match self.kernels.base {
            Base::Software => count.div_ceil(kernel.lanes()),
            Base::Portable | Base::Subgroup => count,
        };
        let grid = [
            Axis::Columns(workgroups),
            Axis::Per {
                of: Count::Rows,
                each: 1,
            },
            Axis::Fixed(1),
        ];
        let buffers = [
            self.step,
            cache.tables,
            angles,
            qkv,
            &parameters,
            queries,
            cache.keys,
            cache.values,
            extras,
        ];
        let work = Work::Rows(u64::from(count * heads.dim) * 4);
        let choice = SizedKernel::always(Kernel::Heads(kernel), grid);
        let head = u64::from(heads.stride4()) * 16;
        let cached = Area::OwnPosition {
            kv_heads: heads.kv_heads,
            bytes: heads.kv_bytes(),
        };
        let mut touches = vec![
            Touch::read(2, Area::Rows(u64::from(heads.half) * 8)),
            Touch::read(3, Area::Cells(u64::from(count) * head)),
            Touch::write(5, Area::Cells(u64::from(heads.heads) * head)),
            Touch::write(6, cached),
            Touch::write(7, cached),
        ];
        if heads.bias || heads.norm_epsilon.is_some() {
            touches.push(Touch::read(8, Area::All(extras.size())));
        }
        self.dispatch(Count::Rows, &[choice], &buffers, work, &touches)
    }
}
