//! What a cost sheet knows of a device.

use serde::{Deserialize, Serialize};

use crate::device::{Features, Gpu};
use crate::site::Traits;

/// A device as a cost sheet sees it. All numbers are the makers' or measured ones; none depends on our kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DeviceProfile {
    /// What it is called.
    pub name: String,
    /// Bytes per second that are read from memory at most.
    pub bandwidth: f64,
    /// Bytes of the last cache before memory.
    pub cache: u64,
    /// What runs workgroups side by side: NVIDIA's multiprocessors, Apple's cores, Intel's subslices, a CPU's threads.
    pub multiprocessors: u32,
    /// Lanes that one of them keeps in flight at most.
    pub lanes: u32,
    /// Multiply-adds in f32 per second at most; none if unknown. What computes in other numbers is not held against it.
    #[serde(default)]
    pub multiply_adds: Option<f64>,
    /// Multiply-adds per second by cooperative matrices in f16 with sums in f32 at most; none if unknown.
    #[serde(default)]
    pub matrix_multiply_adds: Option<f64>,
    /// Seconds from the end of a dispatch to the beginning of the next that waits for it.
    pub gap: f64,
    /// Lanes of a subgroup, least and most; none if kernels cannot sum over subgroups. Where the two differ, they do not either.
    #[serde(default, deserialize_with = "two")]
    pub subgroup_lanes: Option<[u32; 2]>,
    /// Whether shaders compute in 16-bit floats.
    #[serde(default)]
    pub f16: bool,
    /// Whether shaders have cooperative matrices.
    #[serde(default)]
    pub cooperative: bool,
    /// Whether a workgroup can see what others write while they run.
    #[serde(default = "coherent")]
    pub coherent: bool,
    /// Whether it is a CPU.
    #[serde(default)]
    pub software: bool,
    /// Bytes that can be bound at once.
    #[serde(default = "largest_binding")]
    pub largest_binding: u64,
    /// Storage buffers that a kernel can bind.
    #[serde(default = "storage_buffers")]
    pub storage_buffers: u32,
}

/// Two numbers and no more.
fn two<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<[u32; 2]>, D::Error> {
    let numbers = Vec::<u32>::deserialize(source)?;
    let count = numbers.len();
    let two = <[u32; 2]>::try_from(numbers);
    two.map(Some).map_err(|_| {
        serde::de::Error::custom(format!("{count} numbers; give the least and the most"))
    })
}

/// What most drivers let a shader bind.
fn largest_binding() -> u64 {
    (1 << 31) - 4
}

/// What most drivers let a kernel bind, and more than any does.
fn storage_buffers() -> u32 {
    16
}

/// As all drivers but Metal.
fn coherent() -> bool {
    true
}

/// Characters of a name at most.
const LONGEST_NAME: usize = 200;

/// Names of profiles that are built in.
pub const PROFILES: [&str; 5] = ["h100", "h200", "4090", "m3", "igpu"];

impl DeviceProfile {
    /// A profile that is built in, by its name in [`PROFILES`].
    ///
    /// Peak rates are the makers'; the gap between dispatches is an assumption, and stands in benches/README.md beside what was
    /// measured.
    #[must_use]
    pub fn named(name: &str) -> Option<DeviceProfile> {
        let profile =
            |name: &str, bandwidth, cache: u64, [multiprocessors, lanes]: [u32; 2]| DeviceProfile {
                name: name.to_owned(),
                bandwidth,
                cache: cache << 20,
                multiprocessors,
                lanes,
                multiply_adds: None,
                matrix_multiply_adds: None,
                gap: 3e-6,
                subgroup_lanes: Some([32, 32]),
                f16: true,
                cooperative: false,
                coherent: coherent(),
                software: false,
                largest_binding: largest_binding(),
                storage_buffers: storage_buffers(),
            };
        Some(match name {
            // NVIDIA H100 datasheet, SXM: 3.35 TB/s, 67 TFLOP/s in f32, 989.4 by tensor cores in f16 (dense); 50 MB of cache.
            "h100" => DeviceProfile {
                cooperative: true,
                multiply_adds: Some(33.5e12),
                matrix_multiply_adds: Some(494.7e12),
                ..profile("NVIDIA H100 SXM", 3.35e12, 50, [132, 2048])
            },
            // NVIDIA H200 datasheet, SXM: the same processor with 141 GB at 4.8 TB/s, 67 TFLOP/s in f32, 989.5 by tensor cores in f16
            // (dense); its cache and multiprocessors as the H100's.
            "h200" => DeviceProfile {
                cooperative: true,
                multiply_adds: Some(33.5e12),
                matrix_multiply_adds: Some(494.7e12),
                ..profile("NVIDIA H200 SXM", 4.8e12, 50, [132, 2048])
            },
            // NVIDIA's Ada whitepaper: 1,008 GB/s, 82.6 TFLOP/s in f32, 165.2 by tensor cores in f16 with sums in f32 (dense), 72 MB.
            "4090" => DeviceProfile {
                cooperative: true,
                multiply_adds: Some(41.3e12),
                matrix_multiply_adds: Some(82.6e12),
                ..profile("NVIDIA GeForce RTX 4090", 1.008e12, 72, [128, 1536])
            },
            // Apple: 100 GB/s, ten cores of 128 lanes at about 1.4 GHz. Metal says 4 to 64 lanes of every device. The size of the
            // system's cache is what was measured of it by others: 8 MB.
            "m3" => DeviceProfile {
                multiply_adds: Some(1.8e12),
                gap: 5e-6,
                coherent: false,
                subgroup_lanes: Some([4, 64]),
                ..profile("Apple M3", 100e9, 8, [10, 1024])
            },
            // Intel UHD 770 of an i9-12900: 32 execution units in 2 subslices, 1.55 GHz, two channels of DDR5-4800, L3 shared with
            // the cores; each unit has 7 threads of up to 32 lanes.
            "igpu" => DeviceProfile {
                multiply_adds: Some(0.397e12),
                gap: 5e-6,
                subgroup_lanes: Some([8, 32]),
                ..profile("Intel UHD Graphics 770", 76.8e9, 30, [2, 3584])
            },
            _ => return None,
        })
    }

    /// The device at hand, whose bandwidth was measured: with the peak rates of a profile of that name, if there is one. Of a CPU
    /// the system says how large its cache is. Of any other device cache and multiprocessors are assumed, and its name says so.
    #[must_use]
    pub fn at_hand(gpu: &Gpu, bandwidth: f64) -> DeviceProfile {
        let adapter = gpu.adapter();
        let like = like(&adapter.name);
        let Features {
            f16,
            cooperative,
            coherent,
            ..
        } = gpu.features();
        let subgroup_lanes = gpu.features().subgroup.then(|| gpu.subgroup_lanes());
        let threads =
            std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32);
        let known = match (gpu.is_software(), like) {
            (true, _) => DeviceProfile {
                name: adapter.name.clone(),
                bandwidth,
                cache: cpu_cache().unwrap_or(8 << 20),
                multiprocessors: threads,
                lanes: 8,
                multiply_adds: None,
                matrix_multiply_adds: None,
                gap: 0.0,
                subgroup_lanes,
                f16,
                cooperative,
                coherent,
                software: true,
                largest_binding: gpu.largest_binding,
                storage_buffers: gpu.storage_buffers(),
            },
            (false, Some(like)) => DeviceProfile {
                name: adapter.name.clone(),
                ..like
            },
            (false, None) => DeviceProfile {
                name: format!("{} (cache and multiprocessors assumed)", adapter.name),
                bandwidth,
                cache: 4 << 20,
                multiprocessors: 16,
                lanes: 1536,
                multiply_adds: None,
                matrix_multiply_adds: None,
                gap: 5e-6,
                subgroup_lanes,
                f16,
                cooperative,
                coherent,
                software: false,
                largest_binding: gpu.largest_binding,
                storage_buffers: gpu.storage_buffers(),
            },
        };
        DeviceProfile {
            // Copies reach the peak of no driver, and of some a quarter.
            bandwidth: known.bandwidth.max(bandwidth),
            subgroup_lanes,
            f16,
            cooperative,
            coherent,
            largest_binding: gpu.largest_binding,
            storage_buffers: gpu.storage_buffers(),
            ..known
        }
    }

    /// What programs depend on there.
    pub(super) fn traits(&self) -> Traits {
        Traits {
            features: Features {
                subgroup: self.subgroup_lanes.is_some(),
                f16: self.f16,
                cooperative: self.cooperative,
                coherent: self.coherent,
                ..Features::NONE
            },
            subgroup_lanes: self.subgroup_lanes.unwrap_or([4, 128]),
            largest_binding: self.largest_binding,
            storage_buffers: self.storage_buffers,
        }
    }

    /// Whether its numbers are those of a device that could be.
    ///
    /// # Errors
    /// What is wrong, with its limits.
    pub fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!(
                    "{what} is {value:e}; it must be from {least:e} to {most:e}"
                ))
            }
        };
        let whole = |what: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!(
                    "{what} is {value}; it must be from {least} to {most}"
                ))
            }
        };
        if self.name.is_empty()
            || self.name.chars().count() > LONGEST_NAME
            || self.name.chars().any(char::is_control)
        {
            return Err(format!(
                "name must have from 1 to {LONGEST_NAME} characters, all of them printable"
            ));
        }
        within("bandwidth", self.bandwidth, 1e6, 1e18)?;
        whole("cache", self.cache, 1, 1 << 50)?;
        let multiprocessors = u64::from(self.multiprocessors);
        whole("multiprocessors", multiprocessors, 1, 1 << 16)?;
        whole("lanes", u64::from(self.lanes), 1, 1 << 16)?;
        whole("largest-binding", self.largest_binding, 1 << 16, 1 << 50)?;
        whole(
            "storage-buffers",
            u64::from(self.storage_buffers),
            8,
            1 << 20,
        )?;
        for (what, rate) in [
            ("multiply-adds", self.multiply_adds),
            ("matrix-multiply-adds", self.matrix_multiply_adds),
        ] {
            if let Some(rate) = rate {
                within(what, rate, 1e6, 1e21)?;
            }
        }
        within("gap", self.gap, 0.0, 1.0)?;
        match self.subgroup_lanes {
            Some([least, most]) if least == 0 || least > most || most > 128 => Err(format!(
                "subgroup-lanes is [{least}, {most}]; give the least and the most, from 1 to 128"
            )),
            _ => Ok(()),
        }
    }
}

/// The profile of an adapter that drivers call so. By their whole names: an H100 on PCIe, a 4090 of a laptop, an M3 Max are others.
pub(super) fn like(adapter: &str) -> Option<DeviceProfile> {
    let name = match adapter {
        "NVIDIA H100 80GB HBM3" => "h100",
        "NVIDIA H200" => "h200",
        "NVIDIA GeForce RTX 4090" => "4090",
        "Apple M3" => "m3",
        "Intel(R) UHD Graphics 770 (ADL-S GT1)" => "igpu",
        _ => return None,
    };
    DeviceProfile::named(name)
}

/// Bytes of the last cache of the first CPU, where the system says it as Linux does.
fn cpu_cache() -> Option<u64> {
    let of_level = |level: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
        let text = std::fs::read_to_string(path).ok()?;
        let kibibytes: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kibibytes << 10)
    };
    of_level(3).or_else(|| of_level(2))
}
