//! The way to the drivers.
//!
//! wgpu's instances have no flags here: what checks indirect draws, of which there are none, would keep buffers below 4 GiB
//! and compile kernels of its own whenever a device is opened.

use super::BACKENDS;

/// The adapters of [`BACKENDS`].
#[cfg(not(target_os = "linux"))]
pub(super) fn adapters() -> Vec<wgpu::Adapter> {
    super::ready(instance(BACKENDS).enumerate_adapters(BACKENDS)).unwrap_or_default()
}

/// An instance without flags.
fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut description = wgpu::InstanceDescriptor::new_without_display_handle();
    description.backends = backends;
    description.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(description)
}

/// The adapters of [`BACKENDS`], of which Linux has Vulkan; none without its loader.
///
/// An instance of wgpu around the driver's (`Instance::from_hal`) would have wgpu's default flags, so the driver's adapters
/// are put into one that has none, and no driver of its own.
#[cfg(target_os = "linux")]
pub(super) fn adapters() -> Vec<wgpu::Adapter> {
    debug_assert!(BACKENDS.contains(wgpu::Backends::VULKAN));
    let instance = instance(wgpu::Backends::empty());
    exposed()
        .into_iter()
        .filter(is_usable)
        .map(|adapter| {
            // SAFETY: an adapter holds the driver's instance itself, which lives as long as the adapter and what is opened
            // on it. wgpu asks that it come from the instance's own driver for the sake of what both are used for
            // together, surfaces; this instance has no driver, and is never asked for one.
            #[allow(unsafe_code)]
            unsafe {
                instance.create_adapter_from_hal(adapter)
            }
        })
        .collect()
}

#[cfg(target_os = "linux")]
type Exposed = wgpu::hal::ExposedAdapter<wgpu::hal::api::Vulkan>;

/// What the driver has.
///
/// Its instance is opened without the extensions for windows, which wgpu always asks for. Where Wayland's is on, Mesa looks
/// for a display when adapters are listed, and libwayland writes on standard error that there is none.
#[cfg(target_os = "linux")]
fn exposed() -> Vec<Exposed> {
    use wgpu::hal::{self, Instance as _};

    let description = hal::InstanceDescriptor {
        name: "tidegate",
        flags: wgpu::InstanceFlags::empty(),
        memory_budget_thresholds: wgpu::MemoryBudgetThresholds::default(),
        backend_options: wgpu::BackendOptions::default(),
        telemetry: None,
        display: None,
    };
    let no_windows = |arguments: hal::vulkan::CreateInstanceCallbackArgs<'_, '_, '_>| {
        arguments.extensions.retain(|extension| {
            let windows = [
                c"VK_KHR_wayland_surface",
                c"VK_KHR_xcb_surface",
                c"VK_KHR_xlib_surface",
            ];
            !windows.contains(extension)
        });
    };
    // SAFETY: the callback adds nothing and leaves `create_info` as it is. Nothing may be taken away that wgpu goes on to
    // use: it uses these three where a surface is made for a window, after asking whether they are on, as a driver need
    // not have them; no surface is ever made here.
    #[allow(unsafe_code)]
    let driver = unsafe {
        hal::vulkan::Instance::init_with_callback(&description, Some(Box::new(no_windows)))
    };
    let Ok(driver) = driver else {
        return Vec::new();
    };
    // SAFETY: it is alive, and there is no surface that adapters must go with.
    #[allow(unsafe_code)]
    unsafe {
        driver.enumerate_adapters(None)
    }
}

/// Whether wgpu would list it: it leaves out what its own arithmetic of places cannot use.
#[cfg(target_os = "linux")]
fn is_usable(adapter: &Exposed) -> bool {
    let limits = &adapter.capabilities.limits;
    limits.min_uniform_buffer_offset_alignment.is_power_of_two()
        && limits.min_storage_buffer_offset_alignment.is_power_of_two()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn buffers_may_be_as_large_as_the_driver_says() {
        let (adapters, exposed) = (adapters(), exposed());
        assert_eq!(adapters.len(), exposed.len());
        for (adapter, exposed) in adapters.iter().zip(&exposed) {
            assert_eq!(adapter.limits(), exposed.capabilities.limits);
        }
    }
}
