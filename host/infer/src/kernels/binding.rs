//! What a kernel binds. Everything is in group 0; where a kernel reads the step, that is binding 0.

use std::borrow::Cow;

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// `var<storage, read>`
    Read,
    /// `var<storage, read_write>`
    Write,
    /// `var<uniform>`
    Uniform,
}

/// The bindings of a kernel: their numbers in the WGSL, and what is done with each.
pub(crate) type Bindings = &'static [(u32, Access)];

/// The same of any kernel: those of a product depend on more than can be written out.
pub(crate) type AnyBindings = Cow<'static, [(u32, Access)]>;

pub(super) fn layout(device: &wgpu::Device, bindings: &[(u32, Access)]) -> wgpu::BindGroupLayout {
    let entries: Vec<_> = bindings
        .iter()
        .map(|&(binding, access)| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match access {
                    Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
                    Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
                    Access::Uniform => wgpu::BufferBindingType::Uniform,
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &entries,
    })
}

/// Binds `buffers`, one for each binding in order.
pub(crate) fn bind(
    device: &wgpu::Device,
    layout: &wgpu::BindGroupLayout,
    bindings: &[(u32, Access)],
    buffers: &[&wgpu::Buffer],
) -> wgpu::BindGroup {
    let entries: Vec<_> = bindings
        .iter()
        .zip(buffers)
        .map(|(&(binding, _), buffer)| wgpu::BindGroupEntry {
            binding,
            resource: buffer.as_entire_binding(),
        })
        .collect();
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout,
        entries: &entries,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use naga::{AddressSpace, StorageAccess};

    use super::*;
    use crate::kernels::Kernel;

    /// What is bound by position gets where the text reads it.
    #[test]
    fn kernels_bind_what_their_text_declares() {
        for kernel in Kernel::in_use() {
            let module = naga::front::wgsl::parse_str(&kernel.source()).unwrap();
            let bound = |variable: &naga::GlobalVariable| {
                let access = match variable.space {
                    AddressSpace::Uniform => Access::Uniform,
                    AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => {
                        Access::Write
                    }
                    AddressSpace::Storage { .. } => Access::Read,
                    _ => return None,
                };
                Some((variable.binding.as_ref()?.binding, access))
            };
            let variables = module.global_variables.iter();
            let declared: BTreeMap<u32, Access> = variables
                .filter_map(|(_, variable)| bound(variable))
                .collect();
            let bindings: BTreeMap<u32, Access> = kernel.bindings().iter().copied().collect();
            assert_eq!(bindings.len(), kernel.bindings().len(), "{kernel:?}");
            assert_eq!(bindings, declared, "{kernel:?}");
        }
    }
}
