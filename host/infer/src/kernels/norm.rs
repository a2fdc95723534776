//! Norms, biases and caps of rows.

use super::binding::{Access, Bindings};
use super::source::{LANES, join, shader};
use super::variant::Base;
use crate::buffer::Buffer;
use crate::device::Features;
use crate::load_error::LoadError;
use crate::matrix::padded;
use crate::program::{Axis, Builder, Count, SizedKernel, Work};
use crate::touch::{Area, Touch};

use super::Kernel;

/// Lanes where one row is one lane: one vector of a software adapter's CPU.
const NARROW_LANES: u32 = 8;

/// Lanes that a GPU has for a row: it waits for no other, so that a row's time is that of its loads.
const ROW_LANES: u32 = 256;

/// Where a kernel's result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormStore {
    /// It is the output.
    Plain,
    /// It is added to the output.
    Add,
}

impl NormStore {
    pub(super) const ALL: [NormStore; 2] = [NormStore::Plain, NormStore::Add];

    pub(super) fn constant(self) -> (&'static str, u32) {
        ("ADD", u32::from(self == NormStore::Add))
    }

    /// What is done with the output.
    pub(super) fn touch(self, buffer: usize, area: Area) -> Touch {
        match self {
            NormStore::Plain => Touch::write(buffer, area),
            NormStore::Add => Touch::update(buffer, area),
        }
    }
}

/// A kernel over rows of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKernel {
    /// RMSNorm.
    Rms {
        /// How a row is summed.
        base: Base,
        /// Where it goes.
        store: NormStore,
    },
    /// A bias.
    Bias {
        /// Where it goes.
        store: NormStore,
    },
    /// The cap of logits.
    Softcap,
}

/// The file that sums over a workgroup, if a base needs one.
pub(crate) fn reduction(base: Base) -> &'static str {
    match base {
        Base::Portable => shader!("norm/reduce_portable.wgsl"),
        Base::Subgroup => shader!("norm/reduce_subgroup.wgsl"),
        Base::Software => "",
    }
}

/// What a base needs of a device.
pub(crate) fn needs(base: Base) -> Features {
    match base {
        Base::Portable | Base::Software => Features::NONE,
        Base::Subgroup => Features::SUBGROUP,
    }
}

impl NormKernel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            NormKernel::Rms { .. } => "norm",
            NormKernel::Bias { .. } => "bias",
            NormKernel::Softcap => "softcap",
        }
    }

    pub(crate) fn needs(self) -> Features {
        match self {
            NormKernel::Rms { base, .. } => needs(base),
            NormKernel::Bias { .. } | NormKernel::Softcap => Features::NONE,
        }
    }

    fn lanes(self) -> u32 {
        match self {
            NormKernel::Rms {
                base: Base::Software,
                ..
            } => NARROW_LANES,
            NormKernel::Rms { .. } => ROW_LANES,
            _ => LANES,
        }
    }

    pub(crate) fn bindings(self) -> Bindings {
        use Access::{Read, Uniform, Write};
        match self {
            NormKernel::Rms { .. } => &[(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)],
            NormKernel::Bias { .. } => &[(1, Read), (2, Read), (3, Write), (4, Uniform)],
            NormKernel::Softcap => &[(3, Write), (4, Uniform)],
        }
    }

    pub(crate) fn source(self) -> String {
        let lanes = ("LANES", self.lanes());
        match self {
            NormKernel::Rms { base, store } => {
                let kernel = match base {
                    Base::Software => shader!("norm/rms_norm_software.wgsl"),
                    Base::Portable | Base::Subgroup => shader!("norm/rms_norm_portable.wgsl"),
                };
                let files = [
                    shader!("step.wgsl"),
                    shader!("norm/rms_norm.wgsl"),
                    reduction(base),
                    kernel,
                ];
                join(&[lanes, store.constant()], &files)
            }
            NormKernel::Bias { store } => {
                join(&[lanes, store.constant()], &[shader!("norm/add_bias.wgsl")])
            }
            NormKernel::Softcap => join(&[lanes], &[shader!("norm/softcap.wgsl")]),
        }
    }

    pub(crate) fn in_use() -> Vec<NormKernel> {
        let mut kernels = vec![NormKernel::Softcap];
        for store in NormStore::ALL {
            kernels.push(NormKernel::Bias { store });
            kernels.extend(Base::ALL.map(|base| NormKernel::Rms { base, store }));
        }
        kernels
    }
}

impl Builder<'_> {
    /// RMSNorm of `input` `[rows, padded width]`; of samples only those rows are gathered.
    pub(crate) fn rms_norm(
        &mut self,
        weight: &Buffer,
        [input, output]: [&Buffer; 2],
        width: usize,
        epsilon: f64,
        store: NormStore,
        of: Count,
    ) -> Result<(), LoadError> {
        let kernel = NormKernel::Rms {
            base: self.kernels.base,
            store,
        };
        let parameters = [
            (padded(width) / 4) as u32,
            (width as f32).to_bits(),
            (epsilon as f32).to_bits(),
            u32::from(of == Count::Samples),
        ];
        let parameters = self.uniform("norm", &parameters);
        let each = match self.kernels.base {
            Base::Software => kernel.lanes(),
            Base::Portable | Base::Subgroup => 1,
        };
        let grid = [Axis::Per { of, each }, Axis::Fixed(1), Axis::Fixed(1)];
        let buffers = [self.step, weight, input, output, &parameters];
        let choice = SizedKernel::always(Kernel::Norm(kernel), grid);
        let row = 4 * padded(width) as u64;
        let touches = [
            Touch::read(1, Area::All(row)),
            Touch::read(2, Area::Rows(row)),
            store.touch(3, Area::Rows(row)),
        ];
        let work = Work::Rows(2 * width as u64);
        self.dispatch(of, &[choice], &buffers, work, &touches)
    }

    /// `bias` added to `input` `[rows, padded width]`, into `output` as `store` says.
    pub(crate) fn add_bias(
        &mut self,
        bias: &Buffer,
        [input, output]: [&Buffer; 2],
        width: usize,
        store: NormStore,
    ) -> Result<(), LoadError> {
        let kernel = NormKernel::Bias { store };
        let width4 = (padded(width) / 4) as u32;
        let parameters = self.uniform("bias", &[width4, 0, 0, 0]);
        let choice = SizedKernel::always(Kernel::Norm(kernel), by_columns(width4, Count::Rows));
        let buffers = [bias, input, output, &parameters];
        let row = 4 * padded(width) as u64;
        let touches = [
            Touch::read(0, Area::All(row)),
            Touch::read(1, Area::Cells(row)),
            store.touch(2, Area::Cells(row)),
        ];
        let work = Work::Rows(width as u64);
        self.dispatch(Count::Rows, &[choice], &buffers, work, &touches)
    }

    /// cap · tanh(logit / cap) of `logits` `[samples, padded vocabulary]`, in place.
    pub(crate) fn softcap(
        &mut self,
        logits: &Buffer,
        vocabulary: usize,
        cap: f64,
    ) -> Result<(), LoadError> {
        let width4 = (padded(vocabulary) / 4) as u32;
        let parameters = self.uniform("softcap", &[width4, (cap as f32).to_bits(), 0, 0]);
        let grid = by_columns(width4, Count::Samples);
        let choice = SizedKernel::always(Kernel::Norm(NormKernel::Softcap), grid);
        let work = Work::Rows(4 * vocabulary as u64);
        let buffers = [logits, &parameters];
        let touches = [Touch::update(0, Area::Cells(4 * padded(vocabulary) as u64))];
        self.dispatch(Count::Samples, &[choice], &buffers, work, &touches)
    }
}

/// A lane for each 4 elements of a row.
fn by_columns(width4: u32, of: Count) -> [Axis; 3] {
    [
        Axis::Columns(width4.div_ceil(LANES)),
        Axis::Per { of, each: 1 },
        Axis::Fixed(1),
    ]
}
