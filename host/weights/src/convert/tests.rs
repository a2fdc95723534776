use super::*;
use crate::checkpoint::ReadWhole;
use crate::config::{LayerConfig, ModelConfig};
use crate::format::RowParts;
use crate::names::{DecoderTensor, LayerTensor};

fn small() -> ModelConfig {
    ModelConfig {
        vocabulary: 96,
        hidden: 64,
        intermediate: 96,
        experts: None,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        attention_scale: 0.25,
        layers: vec![
            LayerConfig {
                window: None,
                rope: Some(0)
            };
            2
        ],
        ropes: vec![crate::config::Rope {
            theta: 10_000.0,
            scaling: crate::config::RopeScaling::None,
            width: 16,
        }],
        context: 128,
        bos_token: Some(1),
        eos_tokens: vec![2, 5],
        ..ModelConfig::preset("125M").unwrap()
    }
}

fn written(
    checkpoint: &Checkpoint,
    format: Format,
    largest: u64,
) -> (tempfile::TempDir, Checkpoint, ConvertReport) {
    let directory = tempfile::tempdir().unwrap();
    let mut last = (0, 0);
    let report = convert_in_shards(
        checkpoint,
        format,
        directory.path(),
        largest,
        &mut |done, total| {
            assert!(last.0 <= done && done <= total);
            last = (done, total);
        },
    )
    .unwrap();
    assert_eq!(last, (report.bytes_after, report.bytes_after));
    let read = Checkpoint::open(directory.path(), &ReadWhole).unwrap();
    read.check().unwrap();
    (directory, read, report)
}

#[test]
fn a_converted_model_reads_back_as_the_same_model_near_the_one_it_came_from() {
    let before = Checkpoint::random(small(), Format::F32, 1);
    for (format, quantization, tolerance) in [
        (Format::Int8, Quantization::Int8, 0.004),
        (Format::Int4, Quantization::Int4, 0.14),
    ] {
        let (_directory, after, report) = written(&before, format, u64::MAX);
        let expected = ModelConfig {
            quantization: Some(quantization),
            ..small()
        };
        assert_eq!(after.decoder(), Some(&expected));
        for tensor in small().tensors() {
            let (a, b) = (
                before.tensor(tensor).unwrap(),
                after.tensor(tensor).unwrap(),
            );
            let outside = matches!(tensor, DecoderTensor::Embedding | DecoderTensor::Head);
            let expected = match b.rows() {
                1 => Format::F32,
                _ if outside => Format::Int8,
                _ => format,
            };
            assert_eq!(b.format(), expected, "{tensor:?}");
            let (a, b) = (a.to_f32().unwrap(), b.to_f32().unwrap());
            let greatest = a.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (x, y) in a.iter().zip(&b) {
                let limit = if a.len() <= 64 {
                    0.0
                } else {
                    tolerance * greatest
                };
                assert!((x - y).abs() <= limit, "{tensor:?}: {x} became {y}");
            }
        }
        assert_eq!(report.quantized, 2 + 2 * 7);
        assert!(report.left_as_they_are.is_empty());
        assert!(report.bytes_after < report.bytes_before * 3 / 10);
    }
}

#[test]
fn a_large_model_is_cut_into_several_files_with_an_index() {
    let before = Checkpoint::random(small(), Format::Bf16, 2);
    let (_one, whole, _) = written(&before, Format::Int8, u64::MAX);
    let (directory, cut, report) = written(&before, Format::Int8, 20_000);
    assert!(report.files.len() > 4, "{:?}", report.files);
    assert!(
        directory
            .path()
            .join("model.safetensors.index.json")
            .exists()
    );
    for tensor in small().tensors() {
        let [whole, cut] =
            [&whole, &cut].map(|model| model.tensor(tensor).unwrap().to_f32().unwrap());
        assert_eq!(whole, cut, "{tensor:?}");
    }
}

#[test]
fn a_conversion_that_fails_leaves_nothing_of_its_own() {
    let before = Checkpoint::random(small(), Format::Bf16, 2);
    let directory = tempfile::tempdir().unwrap();
    let in_the_way = directory.path().join("model.safetensors.index.json");
    let convert = |progress: &mut dyn FnMut(u64, u64)| {
        convert_in_shards(&before, Format::Int8, directory.path(), 20_000, progress)
    };
    // A directory takes the name while the conversion runs.
    let failed = convert(&mut |_, _| std::fs::create_dir_all(&in_the_way).unwrap()).unwrap_err();
    assert!(
        failed.to_string().contains("model.safetensors.index.json"),
        "{failed}"
    );
    let left = std::fs::read_dir(directory.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&in_the_way));

    std::fs::remove_dir(&in_the_way).unwrap();
    let report = convert(&mut |_, _| {}).unwrap();
    for kept in [&report.files[0], &report.files[report.files.len() - 1]] {
        for file in &report.files {
            if file != kept {
                std::fs::rename(file, file.with_extension("away")).unwrap();
            }
        }
        let refused = convert(&mut |_, _| {}).unwrap_err();
        assert!(
            matches!(&refused, ConvertError::Exists { path } if path == kept),
            "{refused}"
        );
        for file in &report.files {
            if file != kept {
                std::fs::rename(file.with_extension("away"), file).unwrap();
            }
        }
    }
}

#[test]
fn rows_that_are_stored_in_the_format_are_copied_as_they_are() {
    for format in [Format::Int8, Format::Int4] {
        let before = Checkpoint::random(small(), format, 3);
        let (_directory, after, _) = written(&before, format, u64::MAX);
        for tensor in small().tensors() {
            let [before, after] =
                [&before, &after].map(|model| model.tensor(tensor).unwrap().to_f32().unwrap());
            assert_eq!(before, after, "{tensor:?}");
        }
    }
}

#[test]
fn rows_that_are_no_multiple_of_32_stay_floats() {
    let narrow = ModelConfig {
        intermediate: 40,
        ..small()
    };
    let before = Checkpoint::random(narrow, Format::F16, 4);
    let (_directory, after, report) = written(&before, Format::Int4, u64::MAX);
    let down = DecoderTensor::Layer(1, LayerTensor::Down);
    assert_eq!(
        after.tensor(down).unwrap().format(),
        before.tensor(down).unwrap().format()
    );
    assert_eq!(
        after.tensor(down).unwrap().to_f32(),
        before.tensor(down).unwrap().to_f32()
    );
    assert_eq!(
        report.left_as_they_are,
        [
            "model.layers.0.mlp.down_proj.weight",
            "model.layers.1.mlp.down_proj.weight"
        ]
    );
}

#[test]
fn a_model_that_is_there_is_not_written_over() {
    let before = Checkpoint::random(small(), Format::F32, 5);
    for name in [
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, "mine").unwrap();
        let error = convert(&before, Format::Int8, directory.path(), &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, ConvertError::Exists { path: named } if named == path));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}

#[test]
fn a_damaged_weight_ends_the_conversion_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let good = Checkpoint::random(small(), Format::F32, 6);
    convert(&good, Format::Int8, directory.path(), &mut |_, _| {}).unwrap();
    let path = directory.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    // The last tensor's scales stand at the end.
    let last = bytes.len() - 2;
    bytes[last..].copy_from_slice(&0x7e00u16.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let damaged = Checkpoint::open(directory.path(), &ReadWhole).unwrap();
    let out = directory.path().join("out");
    let error = convert(&damaged, Format::Int4, &out, &mut |_, _| {})
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("holds NaN at element 64 of row 63"),
        "{error}"
    );
    assert!(
        error.contains("model.layers.1.mlp.down_proj.weight"),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn only_int8_and_int4_are_written() {
    let before = Checkpoint::random(small(), Format::F32, 7);
    let error = convert(&before, Format::Q4K, Path::new("nowhere"), &mut |_, _| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot convert to q4_K, supported: int8, int4"
    );
}

#[test]
fn encoding_while_reading_gives_what_a_conversion_writes() {
    for format in [Format::Int8, Format::Int4] {
        let source = || Checkpoint::random(small(), Format::F16, 4);
        let (_directory, converted, report) = written(&source(), format, LARGEST_SHARD);
        let encoded = source().encoded(format).unwrap();
        let (mut parts, mut expected) = (RowParts::default(), RowParts::default());
        let mut bytes = 0;
        for tensor in converted.decoder().unwrap().tensors() {
            let (found, written) = (
                encoded.tensor(tensor).unwrap(),
                converted.tensor(tensor).unwrap(),
            );
            assert_eq!(found.format(), written.format(), "{tensor:?}");
            bytes += found.bytes();
            for row in 0..written.rows() {
                found.row_parts(row, &mut parts).unwrap();
                written.row_parts(row, &mut expected).unwrap();
                assert_eq!(parts, expected, "row {row} of {tensor:?} in {format:?}");
            }
        }
        assert_eq!(bytes, report.bytes_after);
        assert_ne!(encoded.digest().unwrap(), source().digest().unwrap());
        let mut heard = Vec::new();
        let told = &mut |done, of| heard.push((done, of));
        assert_eq!(
            converted.digest_told(told).unwrap(),
            converted.digest().unwrap()
        );
        assert!(heard.is_sorted() && heard.last().is_some_and(|(done, of)| done == of && *of > 0));
    }
}

#[test]
fn what_is_stored_in_the_format_asked_for_is_not_rounded_again() {
    for format in [Format::F32, Format::F16, Format::Int8, Format::Int4] {
        let source = || Checkpoint::random(small(), format, 5);
        let encoded = source().encoded(format).unwrap();
        let source = source();
        for tensor in source.decoder().unwrap().tensors() {
            let found = encoded.tensor(tensor).unwrap().to_f32().unwrap();
            assert_eq!(found, source.tensor(tensor).unwrap().to_f32().unwrap());
        }
    }
}

#[test]
fn floats_are_encoded_to_the_nearest_and_what_becomes_infinite_is_named() {
    let embedding = DecoderTensor::Embedding;
    let source = || Checkpoint::random(small(), Format::Int8, 6);
    let wide = source().tensor(embedding).unwrap().to_f32().unwrap();
    let single = source().encoded(Format::F32).unwrap();
    assert_eq!(single.tensor(embedding).unwrap().to_f32().unwrap(), wide);
    let half = source().encoded(Format::F16).unwrap();
    let nearest: Vec<f32> = wide
        .iter()
        .map(|x| half::f16::from_f32(*x).to_f32())
        .collect();
    assert_eq!(half.tensor(embedding).unwrap().to_f32().unwrap(), nearest);

    let bytes: Vec<u8> = [1.0f32, 7e4].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensor = crate::Tensor::in_memory("big", Format::F32, 1, 2, &bytes).unwrap();
    let error = tensor.encoded(Format::F16).to_f32().unwrap_err();
    assert!(error.to_string().contains("big"), "{error}");
}

#[test]
fn rows_are_encoded_to_no_format_of_another_makers() {
    for format in [Format::Q4K, Format::Q6K] {
        let source = Checkpoint::random(small(), Format::F16, 1);
        assert!(source.encoded(format).is_none(), "{format:?}");
    }
}
