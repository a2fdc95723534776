//! Every shader, with every set of parameters in use, through naga's validator and its SPIR-V, MSL and HLSL writers.

use std::path::{Path, PathBuf};

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use tidegate_infer::Features;
use tidegate_infer::kernels::Kernel;

/// What of naga a kernel may use: what it needs of a device, and no more.
fn capabilities(needs: Features) -> Capabilities {
    // `unpack2x16float` needs no feature, but naga counts it: OpenGL may lack it.
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    if needs.subgroup {
        capabilities |= Capabilities::SUBGROUP;
    }
    if needs.f16 {
        capabilities |= Capabilities::SHADER_FLOAT16;
    }
    if needs.coherent {
        capabilities |= Capabilities::MEMORY_DECORATION_COHERENT;
    }
    if needs.cooperative {
        capabilities |= Capabilities::COOPERATIVE_MATRIX | Capabilities::SHADER_FLOAT16;
    }
    if needs.longs {
        capabilities |= Capabilities::SHADER_INT64;
    }
    capabilities
}

/// Every kernel as devices have it, with what it needs there.
fn in_use() -> Vec<(Kernel, Features, String)> {
    let longs = Features {
        longs: true,
        ..Features::NONE
    };
    let mut all = Vec::new();
    for kernel in Kernel::in_use() {
        let (text, in_longs) = (kernel.source(), kernel.source_on(longs));
        // Each that reads words reads longs there.
        assert_eq!(in_longs != text, text.contains("Words4"), "{kernel:?}");
        if in_longs != text {
            let needs = Features {
                longs: true,
                ..kernel.needs()
            };
            all.push((kernel, needs, in_longs));
        }
        all.push((kernel, kernel.needs(), text));
    }
    all
}

#[test]
fn every_shader_passes_the_writers_of_every_backend() {
    let kernels = in_use();
    assert!(kernels.len() > 100);
    assert!(kernels.iter().any(|(_, needs, _)| needs.longs));
    for (kernel, needs, source) in kernels {
        let module = naga::front::wgsl::parse_str(&source)
            .unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));
        let mut validator = Validator::new(ValidationFlags::all(), capabilities(needs));
        validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
        validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
        let info = validator
            .validate(&module)
            .unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));

        let options = spv::Options {
            lang_version: if needs.subgroup || needs.cooperative {
                (1, 6)
            } else {
                (1, 0)
            },
            ..spv::Options::default()
        };
        let words = spv::write_vec(&module, &info, &options, None)
            .unwrap_or_else(|error| panic!("{kernel:?}: SPIR-V: {error}"));
        assert!(words.len() > 100, "{kernel:?}");
        if needs.coherent {
            assert!(is_ordered_on_the_device(&words), "{kernel:?}");
        }

        let options = msl::Options {
            lang_version: if needs.coherent { (3, 2) } else { (2, 4) },
            ..msl::Options::default()
        };
        let pipeline = msl::PipelineOptions::default();
        let (text, _) = msl::write_string(&module, &info, &options, &pipeline)
            .unwrap_or_else(|error| panic!("{kernel:?}: MSL: {error}"));
        assert!(text.contains("kernel void"), "{kernel:?}");

        // DX12 has no cooperative matrices.
        if needs.cooperative {
            continue;
        }
        let mut text = String::new();
        let options = hlsl::Options {
            shader_model: if needs.f16 {
                hlsl::ShaderModel::V6_2
            } else {
                hlsl::ShaderModel::V6_0
            },
            ..hlsl::Options::default()
        };
        let pipeline = hlsl::PipelineOptions::default();
        hlsl::Writer::new(&mut text, &options, &pipeline)
            .write(&module, &info, None)
            .unwrap_or_else(|error| panic!("{kernel:?}: HLSL: {error}"));
        assert!(text.contains("numthreads"), "{kernel:?}");
    }
}

/// Whether SPIR-V has a barrier that orders what is written for all of a device, and a buffer that is coherent: what WGSL itself does not
/// promise of a barrier, and naga does.
fn is_ordered_on_the_device(words: &[u32]) -> bool {
    const DECORATE: u32 = 71;
    const CONSTANT: u32 = 43;
    const CONTROL_BARRIER: u32 = 224;
    const COHERENT: u32 = 23;
    const DEVICE: u32 = 1;
    let mut instructions = Vec::new();
    let mut rest = &words[5..];
    while let Some(first) = rest.first() {
        let (instruction, after) = rest.split_at((first >> 16) as usize);
        instructions.push((first & 0xffff, instruction));
        rest = after;
    }
    let constant = |id: u32| {
        let of = instructions
            .iter()
            .find(|(op, words)| *op == CONSTANT && words[2] == id);
        of.map(|(_, words)| words[3])
    };
    let coherent = |(op, words): &(u32, &[u32])| *op == DECORATE && words[2] == COHERENT;
    let barrier =
        |(op, words): &(u32, &[u32])| *op == CONTROL_BARRIER && constant(words[2]) == Some(DEVICE);
    instructions.iter().any(coherent) && instructions.iter().any(barrier)
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn every_file_under_shaders_is_part_of_a_kernel() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shaders");
    let sources: Vec<String> = in_use().into_iter().map(|(_, _, text)| text).collect();
    let files = files_below(&folder);
    for path in &files {
        let extension = path.extension();
        assert!(
            extension.is_some_and(|extension| extension == "wgsl"),
            "{} is no shader",
            path.display()
        );
        let text = std::fs::read_to_string(path).unwrap();
        // Where a file is written out for each lane or octet, the last stands for all; where lines are, those between them do.
        let is_part = |last: &str| {
            let text = text.replace("$N", last);
            let lines: Vec<&str> = text.lines().collect();
            let parts: Vec<String> = lines
                .split(|line| line.contains('$'))
                .map(|part| part.join("\n"))
                .collect();
            let has_all = |source: &String| parts.iter().all(|part| source.contains(part));
            sources.iter().any(has_all)
        };
        assert!(
            is_part("7") || is_part("3"),
            "{} is in no kernel",
            path.display()
        );
    }
    assert!(files.len() >= 40, "found {} files", files.len());
}
