//! Optional features of a device.

use std::fmt;

use super::Adapter;

/// Optional features of wgpu that some kernels need. Everything also runs without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// Sums over subgroups.
    pub subgroup: bool,
    /// Arithmetic in f16.
    pub f16: bool,
    /// Cooperative matrices.
    pub cooperative: bool,
    /// Buffers in which a workgroup sees what others have written before, in the same dispatch.
    pub coherent: bool,
    /// Timestamps between kernels.
    pub timestamps: bool,
    /// Integers of 64 bits, by which llvmpipe reads buffers in less time.
    pub longs: bool,
}

/// Lanes of a subgroup at least.
const LEAST_SUBGROUP: u32 = 4;

/// Bytes of workgroup memory that are asked of a device, if it has as many: kernels by cooperative matrices need more than the 16 KiB
/// that every device has.
pub(super) const WORKGROUP_MEMORY: u32 = 32 << 10;

impl Features {
    /// None of them.
    pub const NONE: Features = Features {
        subgroup: false,
        f16: false,
        cooperative: false,
        coherent: false,
        timestamps: false,
        longs: false,
    };

    /// All of them.
    pub const ALL: Features = Features {
        subgroup: true,
        f16: true,
        cooperative: true,
        coherent: true,
        timestamps: true,
        longs: true,
    };

    /// Sums over subgroups only.
    pub const SUBGROUP: Features = Features {
        subgroup: true,
        ..Features::NONE
    };

    /// Whether all of `others` are among these.
    #[must_use]
    pub fn contains(self, others: Features) -> bool {
        others.without(self) == Features::NONE
    }

    /// Those of them that are not in `others`.
    #[must_use]
    pub fn without(self, others: Features) -> Features {
        Features {
            subgroup: self.subgroup && !others.subgroup,
            f16: self.f16 && !others.f16,
            cooperative: self.cooperative && !others.cooperative,
            coherent: self.coherent && !others.coherent,
            timestamps: self.timestamps && !others.timestamps,
            longs: self.longs && !others.longs,
        }
    }

    fn named(self) -> [(bool, &'static str, wgpu::Features); 6] {
        use wgpu::Features as F;
        [
            (self.subgroup, "subgroup", F::SUBGROUP),
            (self.f16, "f16", F::SHADER_F16),
            (
                self.cooperative,
                "cooperative matrix",
                F::EXPERIMENTAL_COOPERATIVE_MATRIX,
            ),
            (
                self.coherent,
                "coherent memory",
                F::MEMORY_DECORATION_COHERENT,
            ),
            (self.timestamps, "timestamp", F::TIMESTAMP_QUERY),
            (self.longs, "64-bit integer", F::SHADER_INT64),
        ]
    }

    /// What of them `adapter` has.
    pub(super) fn of(on: &Adapter) -> Features {
        let adapter = on.inner();
        let has = |feature| adapter.features().contains(feature);
        Features {
            // Kernels count on four lanes, as WebGPU promises.
            subgroup: has(wgpu::Features::SUBGROUP)
                && adapter.get_info().subgroup_min_size >= LEAST_SUBGROUP,
            f16: has(wgpu::Features::SHADER_F16),
            cooperative: has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
                && adapter.limits().max_compute_workgroup_storage_size >= WORKGROUP_MEMORY
                && adapter
                    .cooperative_matrix_properties()
                    .iter()
                    .any(is_usable),
            // On Metal barriers order what a workgroup does for itself alone.
            coherent: has(wgpu::Features::MEMORY_DECORATION_COHERENT)
                && adapter.get_info().backend != wgpu::Backend::Metal,
            timestamps: has(wgpu::Features::TIMESTAMP_QUERY),
            longs: has(wgpu::Features::SHADER_INT64) && on.info().is_llvmpipe(),
        }
    }

    pub(super) fn to_wgpu(self) -> wgpu::Features {
        self.named()
            .into_iter()
            .filter(|(on, ..)| *on)
            .fold(wgpu::Features::empty(), |all, (_, _, one)| all | one)
    }
}

/// The one shape that kernels use: 16 x 16 x 16, f16 summed in f32.
fn is_usable(shape: &wgpu::CooperativeMatrixProperties) -> bool {
    use wgpu::CooperativeScalarType as Scalar;
    [shape.m_size, shape.n_size, shape.k_size] == [16; 3]
        && shape.ab_type == Scalar::F16
        && shape.cr_type == Scalar::F32
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .named()
            .into_iter()
            .filter(|(on, ..)| *on)
            .map(|(_, name, _)| name)
            .collect();
        if names.is_empty() {
            return f.write_str("no optional feature");
        }
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_distinguished_by_name() {
        assert!(Features::ALL.contains(Features::SUBGROUP));
        assert!(!Features::SUBGROUP.contains(Features::ALL));
        assert_eq!(
            Features::ALL.without(Features::SUBGROUP).to_string(),
            "f16, cooperative matrix, coherent memory, timestamp, 64-bit integer"
        );
        assert_eq!(Features::NONE.to_string(), "no optional feature");
    }
}
