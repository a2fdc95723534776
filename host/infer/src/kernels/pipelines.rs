//! Compiled kernels, each made once.

use std::collections::HashMap;

use super::{Kernel, Layout, Tiling};
use crate::decoder::KernelFamily;
use crate::device::Gpu;

/// A compiled kernel.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) kernel: Kernel,
    pub(crate) compiled: wgpu::ComputePipeline,
}

/// The compiled kernels of a device.
#[derive(Debug)]
pub(crate) struct Pipelines {
    family: KernelFamily,
    checked: bool,
    layouts: HashMap<Layout, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>,
    compiled: HashMap<Kernel, Pipeline>,
}

impl Pipelines {
    pub(crate) fn new(gpu: &Gpu, family: KernelFamily, checked: bool) -> Pipelines {
        let layouts = Layout::ALL.map(|layout| {
            let bindings = layout.create(&gpu.device);
            let pipeline = gpu
                .device
                .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: None,
                    bind_group_layouts: &[Some(&bindings)],
                    immediate_size: 0,
                });
            (layout, (bindings, pipeline))
        });
        Pipelines {
            family,
            checked,
            layouts: layouts.into(),
            compiled: HashMap::new(),
        }
    }

    pub(crate) fn family(&self) -> KernelFamily {
        self.family
    }

    /// A kernel, compiled when first asked for.
    pub(crate) fn get(&mut self, gpu: &Gpu, kernel: Kernel) -> Pipeline {
        if let Some(pipeline) = self.compiled.get(&kernel) {
            return pipeline.clone();
        }
        let label = format!("{kernel:?}");
        let description = wgpu::ShaderModuleDescriptor {
            label: Some(&label),
            source: wgpu::ShaderSource::Wgsl(kernel.source().into()),
        };
        let module = if self.checked {
            gpu.device.create_shader_module(description)
        } else {
            // SAFETY: the sources are this crate's own, fixed at compile time. Every loop in them ends after a count that
            // comes from `Params` or `Step`, and every index is below the length of its buffer as long as those are
            // right: `Params` is made from the same numbers as the buffers, and each row of `Step` is checked against
            // the decoder's shape before it is uploaded. The tests also run with the checks on.
            #[allow(unsafe_code)]
            unsafe {
                gpu.device.create_shader_module_trusted(
                    description,
                    wgpu::ShaderRuntimeChecks::unchecked(),
                )
            }
        };
        let options = wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..wgpu::PipelineCompilationOptions::default()
        };
        let compiled = gpu
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&label),
                layout: self
                    .layouts
                    .get(&Layout::of(kernel))
                    .map(|(_, pipeline)| pipeline),
                module: &module,
                entry_point: Some("main"),
                compilation_options: options,
                cache: None,
            });
        let pipeline = Pipeline { kernel, compiled };
        self.compiled.insert(kernel, pipeline.clone());
        pipeline
    }

    /// Binds `buffers` for every kernel of a layout, one for each of its bindings in order.
    pub(crate) fn bind(
        &self,
        gpu: &Gpu,
        layout: Layout,
        buffers: &[&wgpu::Buffer],
    ) -> Option<wgpu::BindGroup> {
        let (bindings, _) = self.layouts.get(&layout)?;
        Some(layout.bind(&gpu.device, bindings, buffers))
    }
}

/// What the size of a dispatch follows from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Rows of the step, or rows whose logits are wanted.
    pub(crate) rows: u32,
    /// Highest position in the step, plus 1.
    pub(crate) positions: u32,
}

impl Pipeline {
    /// Workgroups of a dispatch. `items` is what the kernel spreads over its axes besides rows and positions: elements of a
    /// row / 4 (embed), columns / 4 (matmul), pairs of elements (rope), key heads (scores), elements of a head / 4 and key
    /// or query heads (values).
    pub(crate) fn grid(&self, items: [u32; 2], extent: Extent) -> [u32; 3] {
        let lanes = self.kernel.lanes();
        let rows = extent.rows;
        match self.kernel {
            Kernel::Embed { .. } | Kernel::Rope => [items[0].div_ceil(lanes), rows, 1],
            Kernel::RmsNorm {
                family: KernelFamily::Software,
            } => [rows.div_ceil(lanes), 1, 1],
            Kernel::RmsNorm {
                family: KernelFamily::Portable,
            } => [rows, 1, 1],
            Kernel::Matmul { tiling, .. } => tiling.grid(items[0], rows),
            Kernel::Scores { .. } => {
                let positions = extent.positions.next_multiple_of(4);
                [
                    positions.div_ceil(lanes * self.kernel.positions()),
                    items[0],
                    rows,
                ]
            }
            Kernel::Values {
                family: KernelFamily::Software,
                ..
            } => [items[0].div_ceil(lanes), items[1], rows],
            Kernel::Values {
                family: KernelFamily::Portable,
                ..
            } => [1, items[1], rows],
        }
    }
}

/// The tilings of one matmul, compiled; one is chosen by the number of rows.
#[derive(Clone, Debug)]
pub(crate) struct ByRows(Vec<(u32, Pipeline)>);

impl ByRows {
    /// A kernel that is the same for any number of rows.
    pub(crate) fn always(pipeline: Pipeline) -> ByRows {
        ByRows(vec![(u32::MAX, pipeline)])
    }

    /// Every tiling of `family` of the matmul that `kernel` makes.
    pub(crate) fn tilings(
        pipelines: &mut Pipelines,
        gpu: &Gpu,
        kernel: impl Fn(Tiling) -> Kernel,
    ) -> ByRows {
        let tilings = Tiling::of(pipelines.family());
        ByRows(
            tilings
                .iter()
                .map(|&(most, tiling)| (most, pipelines.get(gpu, kernel(tiling))))
                .collect(),
        )
    }

    pub(crate) fn choose(&self, rows: u32) -> Option<&Pipeline> {
        self.0
            .iter()
            .find(|(most, _)| rows <= *most)
            .map(|(_, pipeline)| pipeline)
    }
}
