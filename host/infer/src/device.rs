//! Adapters and devices: which GPU, chosen by rule, and an open device whose failures are kept as values.

mod bandwidth;
mod fault;
mod features;
mod gpu;
mod heap;
mod instance;
mod speed;

use std::fmt;
use std::task::{Context, Poll, Waker};

pub use bandwidth::measure_copy_bandwidth;
pub(crate) use fault::Fault;
pub use features::Features;
pub(crate) use gpu::{DEADLINE, Ended, LOAD_DEADLINE, PIECE, WaitError};
pub use gpu::{DeviceOptions, Gpu, Open, Sabotage};
pub(crate) use speed::{ComputeCost, SpeedEstimate};

/// The backends this crate uses. GL is left out: it lists the same software adapters a second time, with fewer limits.
const BACKENDS: wgpu::Backends = wgpu::Backends::VULKAN
    .union(wgpu::Backends::METAL)
    .union(wgpu::Backends::DX12);

const INSTALL: &str = "install a Vulkan driver (Debian: libvulkan1 and mesa-vulkan-drivers, which also brings the \
     software adapter llvmpipe), or run on Metal or DX12";

/// What an adapter is, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdapterKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU seen through a virtual machine.
    Virtual,
    /// Not said by the driver.
    Other,
    /// The CPU.
    Software,
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdapterKind::Discrete => "discrete",
            AdapterKind::Integrated => "integrated",
            AdapterKind::Virtual => "virtual",
            AdapterKind::Other => "other",
            AdapterKind::Software => "software",
        })
    }
}

/// What is known of an adapter before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Where it stands in [`Adapter::list`].
    pub index: usize,
    /// The name its driver gives it.
    pub name: String,
    /// What it is.
    pub kind: AdapterKind,
    /// `vulkan`, `metal` or `dx12`.
    pub backend: &'static str,
    /// The driver and its version.
    pub driver: String,
    /// Largest buffer a kernel can be given, bytes.
    pub largest_binding: u64,
    /// Least and most lanes of a subgroup; where they differ, the driver may choose anew for each kernel.
    pub subgroup_lanes: [u32; 2],
}

impl AdapterInfo {
    /// Whether it is Mesa's software adapter, whose habits some of what runs on it is made for.
    pub(crate) fn is_llvmpipe(&self) -> bool {
        self.kind == AdapterKind::Software && self.driver.contains("Mesa")
    }
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} ({}, {}",
            self.index, self.name, self.kind, self.backend
        )?;
        if !self.driver.is_empty() {
            write!(f, ", {}", self.driver)?;
        }
        f.write_str(")")
    }
}

/// An adapter, not yet opened.
#[derive(Clone, Debug)]
pub struct Adapter {
    inner: wgpu::Adapter,
    info: AdapterInfo,
}

/// Why no adapter was chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// There is none.
    #[error("no Vulkan, Metal or DX12 adapter found; {INSTALL}")]
    None,
    /// There are some, but none that was asked for.
    #[error(
        "no adapter matches `{selector}` (an index, a part of a name, or `cpu`); found: {found}"
    )]
    NoMatch {
        /// What was asked for.
        selector: String,
        /// The adapters there are.
        found: String,
    },
}

impl Adapter {
    /// Every adapter, in the order of preference: discrete, integrated, virtual, other, software; equals in the order
    /// of the drivers.
    #[must_use]
    pub fn list() -> Vec<Adapter> {
        let mut adapters: Vec<Adapter> = instance::adapters()
            .into_iter()
            .map(Adapter::describe)
            .collect();
        adapters.sort_by_key(|adapter| adapter.info.kind);
        adapters
            .iter_mut()
            .enumerate()
            .for_each(|(index, adapter)| adapter.info.index = index);
        adapters
    }

    /// Chooses an adapter: the first of [`Adapter::list`], or the first that matches `selector`: its index, `cpu` for
    /// a software adapter, or a part of its name in any case.
    ///
    /// # Errors
    /// There is none, or none that matches; the text lists what was found and what to install.
    pub fn choose(selector: Option<&str>) -> Result<Adapter, AdapterError> {
        let adapters = Adapter::list();
        if adapters.is_empty() {
            return Err(AdapterError::None);
        }
        let infos: Vec<AdapterInfo> = adapters
            .iter()
            .map(|adapter| adapter.info.clone())
            .collect();
        let index = choose(&infos, selector)?;
        adapters.into_iter().nth(index).ok_or(AdapterError::None)
    }

    /// What is known of it.
    #[must_use]
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    pub(crate) fn inner(&self) -> &wgpu::Adapter {
        &self.inner
    }

    fn describe(inner: wgpu::Adapter) -> Adapter {
        let found = inner.get_info();
        let kind = match found.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Software,
            wgpu::DeviceType::Other => AdapterKind::Other,
        };
        let limits = inner.limits();
        let driver = format!("{} {}", found.driver, found.driver_info)
            .trim()
            .to_owned();
        let info = AdapterInfo {
            index: 0,
            subgroup_lanes: [found.subgroup_min_size, found.subgroup_max_size],
            name: found.name,
            kind,
            backend: found.backend.to_str(),
            driver,
            largest_binding: limits
                .max_storage_buffer_binding_size
                .min(limits.max_buffer_size),
        };
        Adapter { inner, info }
    }
}

/// The rule, on descriptions alone; `adapters` is not empty and in the order of preference.
pub(crate) fn choose(
    adapters: &[AdapterInfo],
    selector: Option<&str>,
) -> Result<usize, AdapterError> {
    let Some(selector) = selector else {
        return Ok(0);
    };
    let wanted = selector.to_lowercase();
    let matches = |adapter: &AdapterInfo| match wanted.parse::<usize>() {
        Ok(index) => adapter.index == index,
        Err(_) if wanted == "cpu" => adapter.kind == AdapterKind::Software,
        Err(_) => adapter.name.to_lowercase().contains(&wanted),
    };
    adapters
        .iter()
        .position(matches)
        .ok_or_else(|| AdapterError::NoMatch {
            selector: selector.to_owned(),
            found: adapters
                .iter()
                .map(AdapterInfo::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        })
}

/// The value of a wgpu future, which is ready at once on every native backend.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn adapter(index: usize, name: &str, kind: AdapterKind) -> AdapterInfo {
        AdapterInfo {
            index,
            name: name.to_owned(),
            kind,
            backend: "vulkan",
            driver: String::new(),
            largest_binding: 1 << 27,
            subgroup_lanes: [32, 32],
        }
    }

    fn machine() -> Vec<AdapterInfo> {
        vec![
            adapter(0, "NVIDIA H200", AdapterKind::Discrete),
            adapter(1, "Intel UHD 770", AdapterKind::Integrated),
            adapter(2, "llvmpipe (LLVM 15)", AdapterKind::Software),
        ]
    }

    #[test]
    fn an_adapter_is_chosen_by_rule_index_name_or_cpu() {
        let machine = machine();
        let chosen = |selector| choose(&machine, selector).unwrap();
        assert_eq!(chosen(None), 0);
        assert_eq!(chosen(Some("1")), 1);
        assert_eq!(chosen(Some("uhd")), 1);
        assert_eq!(chosen(Some("cpu")), 2);
        assert_eq!(chosen(Some("LLVMPIPE")), 2);
    }

    #[test]
    fn a_selector_without_a_match_lists_what_there_is() {
        let error = choose(&machine(), Some("radeon")).unwrap_err().to_string();
        assert!(error.contains("`radeon`"), "{error}");
        assert!(
            error.contains("0: NVIDIA H200 (discrete, vulkan); 1: Intel UHD 770"),
            "{error}"
        );
    }

    #[test]
    fn the_order_of_preference_ends_with_software() {
        use AdapterKind::{Discrete, Integrated, Other, Software, Virtual};
        let mut kinds = [Software, Other, Virtual, Integrated, Discrete];
        kinds.sort();
        assert_eq!(kinds, [Discrete, Integrated, Virtual, Other, Software]);
    }
}
