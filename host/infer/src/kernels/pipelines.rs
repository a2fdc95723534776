//! Compiled kernels, each made once for a device.

use std::collections::HashMap;

use super::Kernel;
use super::binding::{self, Access, AnyBindings};
use crate::device::{Gpu, Sabotage, ready};
use crate::load_error::LoadError;

/// A compiled kernel.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub(crate) kernel: Kernel,
    pub(crate) compiled: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
}

/// The compiled kernels of a device.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    layouts: HashMap<AnyBindings, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>,
    compiled: HashMap<(Kernel, bool), Pipeline>,
}

impl Pipelines {
    /// A kernel, compiled when first asked for; `checked` keeps wgpu's bounds and loop checks.
    pub(crate) fn get(
        &mut self,
        gpu: &Gpu,
        kernel: Kernel,
        checked: bool,
    ) -> Result<Pipeline, LoadError> {
        if let Some(pipeline) = self.compiled.get(&(kernel, checked)) {
            return Ok(pipeline.clone());
        }
        let failed = |reason: String| LoadError::Kernel {
            kernel: kernel.name().to_owned(),
            reason,
        };
        if !gpu.features().contains(kernel.needs()) {
            let missing = kernel.needs().without(gpu.features());
            return Err(failed(format!("the device was opened without {missing}")));
        }
        let pipeline = self.compile(gpu, kernel, checked).map_err(failed)?;
        self.compiled.insert((kernel, checked), pipeline.clone());
        Ok(pipeline)
    }

    /// Forgets every kernel of a name.
    pub(crate) fn forget(&mut self, name: &str) {
        self.compiled.retain(|(kernel, _), _| kernel.name() != name);
    }

    fn compile(&mut self, gpu: &Gpu, kernel: Kernel, checked: bool) -> Result<Pipeline, String> {
        let bindings = kernel.bindings();
        let internal = gpu.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let (layout, pipeline_layout) = self
            .layouts
            .entry(bindings)
            .or_insert_with_key(|bindings| layouts(gpu, bindings));
        let label = format!("{kernel:?}");
        let description = wgpu::ShaderModuleDescriptor {
            label: Some(&label),
            source: wgpu::ShaderSource::Wgsl(source(gpu, kernel).into()),
        };
        let module = if checked {
            gpu.device.create_shader_module(description)
        } else {
            // SAFETY: the sources are this crate's own, fixed at compile time. Every loop in them ends after a count that
            // comes from their parameters or the step, and every index is below the length of its buffer as long as those
            // are right: parameters are made from the same numbers as the buffers, and each step is checked against the
            // decoder's shape before it is uploaded. The tests also run with the checks on.
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
                layout: Some(pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: options,
                cache: None,
            });
        let errors = [ready(validation.pop()), ready(internal.pop())];
        if let Some(error) = errors.into_iter().flatten().flatten().next() {
            return Err(error.to_string());
        }
        Ok(Pipeline {
            kernel,
            compiled,
            layout: layout.clone(),
        })
    }
}

fn layouts(gpu: &Gpu, bindings: &[(u32, Access)]) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
    let layout = binding::layout(&gpu.device, bindings);
    let pipeline = gpu
        .device
        .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
    (layout, pipeline)
}

/// The WGSL of a kernel, or what a test has put in its place.
fn source(gpu: &Gpu, kernel: Kernel) -> String {
    let text = kernel.source_on(gpu.features());
    match gpu.sabotage_of(kernel.name()) {
        None => text,
        Some(Sabotage::DoesNotCompile) => "fn main() { this is no shader }".to_owned(),
        Some(Sabotage::DoesNothing) => "@compute @workgroup_size(1) fn main() {}".to_owned(),
        Some(Sabotage::Edited { from, to }) => text.replace(from, to),
    }
}
