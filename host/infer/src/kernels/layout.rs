//! Bindings of the kernels. Binding 0 is the step and 4 the parameters everywhere.

use crate::kernels::Kernel;

/// Which bindings a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Layout {
    /// 0 step, 1 weights, 3 output, 4 parameters.
    Embed,
    /// 0 step, 1 and 2 inputs, 3 output, 4 parameters.
    TwoInputs,
    /// 0 step, 2 angles, 3 queries, keys and values (read and written), 4 parameters, 5 key cache, 6 value cache.
    Rope,
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
    Uniform,
}

impl Layout {
    pub(crate) const ALL: [Layout; 3] = [Layout::Embed, Layout::TwoInputs, Layout::Rope];

    pub(crate) fn of(kernel: Kernel) -> Layout {
        match kernel {
            Kernel::Embed { .. } => Layout::Embed,
            Kernel::Rope => Layout::Rope,
            _ => Layout::TwoInputs,
        }
    }

    fn bindings(self) -> &'static [(u32, Access)] {
        use Access::{Read, Uniform, Write};
        match self {
            Layout::Embed => &[(0, Read), (1, Read), (3, Write), (4, Uniform)],
            Layout::TwoInputs => &[(0, Read), (1, Read), (2, Read), (3, Write), (4, Uniform)],
            Layout::Rope => &[
                (0, Read),
                (2, Read),
                (3, Write),
                (4, Uniform),
                (5, Write),
                (6, Write),
            ],
        }
    }

    pub(super) fn create(self, device: &wgpu::Device) -> wgpu::BindGroupLayout {
        let entries: Vec<_> = self
            .bindings()
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
    pub(super) fn bind(
        self,
        device: &wgpu::Device,
        layout: &wgpu::BindGroupLayout,
        buffers: &[&wgpu::Buffer],
    ) -> wgpu::BindGroup {
        let entries: Vec<_> = self
            .bindings()
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
}
