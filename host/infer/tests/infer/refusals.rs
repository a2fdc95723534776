//! What cannot be loaded is refused with the reason, before it harms anything.

use std::path::Path;

use tidegate_infer::{
    DecoderOptions, Features, Gpu, GpuDecoder, KernelVariant, KvPrecision, LoadError, MappedFiles,
    MemoryReport,
};
use tidegate_reference::golden;
use tidegate_weights::{Checkpoint, Format, ModelConfig};

use crate::support::{
    adapter, bare_gpu, blocks, gpu, in_chunks, load, options, random_model, small_config,
};

#[track_caller]
fn refusal(gpu: &Gpu, checkpoint: &Checkpoint, options: &DecoderOptions) -> LoadError {
    match GpuDecoder::load(gpu, checkpoint, options) {
        Err(error) => error,
        Ok(_) => panic!("{options:?} was accepted"),
    }
}

#[test]
fn whoever_waits_for_a_model_is_told_how_much_of_it_is_loaded() {
    let checkpoint = random_model(small_config(), 1);
    let heard = std::cell::RefCell::new(Vec::new());
    let told = |done, of| heard.borrow_mut().push((done, of));
    let options = options(KernelVariant::Software);
    GpuDecoder::load_told(gpu(), &checkpoint, &options, &told).unwrap();
    let heard = heard.into_inner();
    let weights = heard[0].1;
    assert_eq!(heard[0].0, 0);
    assert!(heard.is_sorted() && heard.iter().all(|(_, of)| *of == weights && weights > 0));
    assert!(heard.len() > 4 * 2, "every matrix is told of: {heard:?}");
}

#[test]
fn options_out_of_range_are_refused_with_their_limits() {
    let checkpoint = random_model(small_config(), 1);
    let base = options(KernelVariant::Software);
    let most = base.max_rows;
    let cases = [
        (
            DecoderOptions {
                context: 0,
                ..base.clone()
            },
            "context is 0, must be between 1 and 1024",
        ),
        (
            DecoderOptions {
                context: 1025,
                ..base.clone()
            },
            "context is 1025, must be between 1 and 1024",
        ),
        (
            DecoderOptions {
                blocks: 0,
                ..base.clone()
            },
            "blocks is 0",
        ),
        (
            DecoderOptions {
                max_rows: 0,
                ..base.clone()
            },
            "max_rows is 0",
        ),
        (
            DecoderOptions {
                max_rows: 4097,
                ..base.clone()
            },
            "max_rows is 4097, must be between 1 and 4096",
        ),
        (
            DecoderOptions {
                max_samples: most + 1,
                ..base.clone()
            },
            "max_samples is 65, must be between 1 and 64",
        ),
    ];
    for (options, expected) in cases {
        let error = refusal(gpu(), &checkpoint, &options).to_string();
        assert!(error.contains(expected), "{error}");
        let error = MemoryReport::estimate(&checkpoint, &options)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_encoder_is_no_decoder() {
    let checkpoint = Checkpoint::open(&golden::model("bert-f16"), &MappedFiles).unwrap();
    let error = refusal(gpu(), &checkpoint, &options(KernelVariant::Software)).to_string();
    assert!(error.contains("is no decoder"), "{error}");
}

#[test]
fn buffers_that_cannot_be_split_say_what_to_change() {
    let checkpoint = random_model(small_config(), 2);
    let narrow = gpu().narrowed(32 << 10);
    let cases = [
        (
            options(KernelVariant::Software),
            "lower max_rows or context",
        ),
        (
            DecoderOptions {
                context: 256,
                max_rows: 2,
                max_samples: 2,
                ..options(KernelVariant::Software)
            },
            "lower blocks, or keep them in f16",
        ),
    ];
    for (options, remedy) in cases {
        let error = refusal(&narrow, &checkpoint, &options);
        assert!(
            matches!(error, LoadError::BufferTooLarge { limit: 32_768, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

/// A pool of keys beyond what the adapter binds, and one beyond any memory: refused by its size, not by running out.
#[test]
fn more_blocks_than_memory_are_refused() {
    let checkpoint = random_model(small_config(), 3);
    let limit = adapter().info().largest_binding;
    let per_block = 16 * 2 * 12 * 4;
    let base = options(KernelVariant::Software);
    for blocks in [(limit / per_block) as usize + 1, 1 << 24] {
        let options = DecoderOptions {
            blocks,
            ..base.clone()
        };
        let error = refusal(gpu(), &checkpoint, &options);
        assert!(
            matches!(error, LoadError::BufferTooLarge { .. }),
            "{error:?}"
        );
    }
    for (kv, remedy) in [
        (KvPrecision::F32, "keep them in f16 or int8"),
        (KvPrecision::F16, "keep them in int8"),
        (KvPrecision::Int8, "lower blocks"),
    ] {
        let options = DecoderOptions {
            kv,
            blocks: 1 << 24,
            ..base.clone()
        };
        let error = refusal(gpu(), &checkpoint, &options).to_string();
        assert!(error.ends_with(remedy), "{error}");
    }
    let half = DecoderOptions {
        kv: KvPrecision::F16,
        ..base
    };
    let estimate = |options: &DecoderOptions| {
        MemoryReport::estimate(&checkpoint, options)
            .unwrap()
            .kv_cache
    };
    assert_eq!(
        estimate(&half) * 2,
        estimate(&DecoderOptions {
            kv: KvPrecision::F32,
            ..half.clone()
        })
    );
    // Heads of 10 elements as 16 bytes and a scale, of three layers twice.
    let eight = DecoderOptions {
        kv: KvPrecision::Int8,
        ..half
    };
    let blocks = eight.blocks as u64;
    assert_eq!(estimate(&eight), 2 * 3 * blocks * 16 * 2 * (16 + 4));
}

/// The last two bytes of the file are the last element of some tensor: a NaN in f16.
#[test]
fn weights_that_are_no_numbers_are_refused_by_name() {
    let from = golden::folder("llama-odd-f16");
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let open = |path: &Path| Checkpoint::open(path, &MappedFiles).unwrap();
    let whole = DecoderOptions {
        context: 64,
        ..options(KernelVariant::Software)
    };
    load(gpu(), &open(directory.path()), &whole);

    let file = directory.path().join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 2..].copy_from_slice(&[0x00, 0x7e]);
    // Another file by renaming: the mapped one must not change under its map.
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let error = refusal(gpu(), &open(directory.path()), &whole);
    assert!(matches!(error, LoadError::Tensor(_)), "{error:?}");
    assert!(error.to_string().contains("NaN"), "{error}");
}

#[test]
fn a_model_of_absurd_sizes_is_refused_before_anything_is_allocated() {
    let options = options(KernelVariant::Software);
    let absurd = [
        (
            ModelConfig {
                vocabulary: 1 << 31,
                ..small_config()
            },
            "vocabulary is 2147483648",
        ),
        (
            ModelConfig {
                hidden: 1 << 30,
                ..small_config()
            },
            "hidden width is 1073741824",
        ),
        (
            ModelConfig {
                intermediate: 1 << 40,
                ..small_config()
            },
            "feed-forward width",
        ),
        (
            ModelConfig {
                head_dim: 258,
                ..small_config()
            },
            "head_dim is 258, must be between 1 and 256",
        ),
        (
            ModelConfig {
                heads: 1 << 40,
                ..small_config()
            },
            "width of all heads",
        ),
    ];
    for (config, expected) in absurd {
        let checkpoint = Checkpoint::random(config, Format::F32, 1);
        let error = refusal(gpu(), &checkpoint, &options).to_string();
        assert!(error.contains(expected), "{error}");
    }
    // Every number in range, and still more than any adapter binds: a stream of rows 4 MiB wide.
    let config = ModelConfig {
        hidden: 1 << 20,
        ..small_config()
    };
    let checkpoint = Checkpoint::random(config, Format::F32, 1);
    let narrow = gpu().narrowed(128 << 20);
    let options = crate::support::options(KernelVariant::Portable);
    let error = refusal(&narrow, &checkpoint, &options);
    assert!(
        matches!(error, LoadError::BufferTooLarge { .. }),
        "{error:?}"
    );
}

/// llvmpipe would end the loop without a word, and leave out what a row sees last: its own position.
#[test]
fn what_takes_more_turns_than_a_software_adapter_makes_is_refused_by_name() {
    let mut long = ModelConfig {
        context: 1 << 20,
        ..small_config()
    };
    long.layers.iter_mut().for_each(|layer| layer.window = None);
    let wide = ModelConfig {
        hidden: 1 << 17,
        ..small_config()
    };
    for (config, expected) in [
        (
            long,
            "attention over a context of 1048576 takes 65536 turns of a loop",
        ),
        (
            wide,
            "the norm of a hidden width of 131072 takes 65536 turns of a loop",
        ),
    ] {
        let options = DecoderOptions {
            context: config.context,
            ..options(KernelVariant::Software)
        };
        let checkpoint = Checkpoint::random(config, Format::F32, 1);
        let error = refusal(gpu(), &checkpoint, &options).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("ask for `portable` kernels"), "{error}");
    }
}

#[test]
fn kernels_that_lack_a_feature_are_refused_by_name() {
    let checkpoint = random_model(small_config(), 4);
    for (variant, lacks) in [
        (KernelVariant::Subgroup, "the device lacks subgroup"),
        (KernelVariant::F16, "the device lacks f16"),
        (
            KernelVariant::Cooperative,
            "the device lacks subgroup, f16, cooperative matrix",
        ),
    ] {
        let error = refusal(bare_gpu(), &checkpoint, &options(variant)).to_string();
        assert!(error.contains(lacks), "{error}");
        assert!(error.contains(variant.name()), "{error}");
    }
    assert_eq!(bare_gpu().features(), Features::NONE);
}

#[test]
fn a_mapped_model_gives_what_a_read_one_gives() {
    let path = golden::model("mistral-bf16");
    let options = DecoderOptions {
        context: 64,
        ..options(KernelVariant::Software)
    };
    let run = |checkpoint: &Checkpoint| {
        let mut decoder = load(gpu(), checkpoint, &options);
        in_chunks(&mut decoder, &[1, 2, 3, 4], &blocks(0, 4), 4)
    };
    let mapped = Checkpoint::open(&path, &MappedFiles).unwrap();
    let read = Checkpoint::open(&path, &tidegate_weights::ReadWhole).unwrap();
    assert_eq!(run(&mapped), run(&read));
}
