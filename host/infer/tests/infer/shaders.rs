//! Every shader, with every set of parameters in use, through naga's validator and its SPIR-V, MSL and HLSL writers.

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use tidegate_infer::kernels::Kernel;

fn kernels() -> Vec<Kernel> {
    Kernel::in_use(&[1, 2, 3, 4, 8])
}

#[test]
fn every_shader_passes_the_writers_of_every_backend() {
    let kernels = kernels();
    assert!(kernels.len() > 60);
    for kernel in kernels {
        let source = kernel.source();
        let module = naga::front::wgsl::parse_str(&source)
            .unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));
        // Nothing that needs an optional feature passes. `unpack2x16float` needs none, but naga counts it: OpenGL may lack it.
        let info = Validator::new(
            ValidationFlags::all(),
            Capabilities::SHADER_FLOAT16_IN_FLOAT32,
        )
        .validate(&module)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error:?}"));

        let words = spv::write_vec(&module, &info, &spv::Options::default(), None).unwrap();
        assert!(words.len() > 100, "{kernel:?}");

        let (text, _) = msl::write_string(
            &module,
            &info,
            &msl::Options::default(),
            &msl::PipelineOptions::default(),
        )
        .unwrap();
        assert!(text.contains("kernel void"), "{kernel:?}");

        let mut text = String::new();
        let options = hlsl::Options::default();
        let pipeline = hlsl::PipelineOptions::default();
        hlsl::Writer::new(&mut text, &options, &pipeline)
            .write(&module, &info, None)
            .unwrap();
        assert!(text.contains("numthreads"), "{kernel:?}");
    }
}

#[test]
fn every_file_under_shaders_is_part_of_a_kernel() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shaders");
    let sources: Vec<String> = kernels().into_iter().map(Kernel::source).collect();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "wgsl")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                sources.iter().any(|source| source.contains(&text)),
                "{} is in no kernel",
                path.display()
            );
            files += 1;
        }
    }
    assert!(files >= 16, "found {files} files");
}
