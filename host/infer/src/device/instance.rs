//! The way to the drivers.

use super::BACKENDS;

/// An instance that finds the adapters of [`BACKENDS`]; none without a Vulkan loader.
#[cfg(not(target_os = "linux"))]
pub(super) fn open() -> Option<wgpu::Instance> {
    let mut description = wgpu::InstanceDescriptor::new_without_display_handle();
    description.backends = BACKENDS;
    description.flags = wgpu::InstanceFlags::empty();
    Some(wgpu::Instance::new(description))
}

/// An instance that finds the adapters of [`BACKENDS`], of which Linux has Vulkan; none without its loader.
///
/// It is opened without the extensions for windows, which wgpu always asks for. Where Wayland's is on, Mesa looks for a
/// display when adapters are listed, and libwayland writes on standard error that there is none.
#[cfg(target_os = "linux")]
pub(super) fn open() -> Option<wgpu::Instance> {
    use wgpu::hal;

    debug_assert!(BACKENDS.contains(wgpu::Backends::VULKAN));
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
    let instance = unsafe {
        hal::vulkan::Instance::init_with_callback(&description, Some(Box::new(no_windows)))
    };
    // SAFETY: the instance was opened just now by wgpu itself, and nobody else has it.
    #[allow(unsafe_code)]
    let instance = unsafe { wgpu::Instance::from_hal::<hal::api::Vulkan>(instance.ok()?) };
    Some(instance)
}
