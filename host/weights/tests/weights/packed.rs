//! Matrices that other tools quantized: what they are handed on in, what is lost, and what is refused.

use std::path::Path;

use tidegate_weights::{
    Checkpoint, DecoderTensor, Format, LayerTensor, PackedFormat, ReadWhole, RowParts, Stored,
    convert,
};

use crate::goldens::golden;
use crate::made::{Files, Tensor, config, safetensors, tensors};
use crate::made_packed::{
    AWQ, BASE, BYTES, EXPERTS, FP8, GPTQ, Part, WORDS, awq, compressed_bytes, compressed_words,
    files, fp8, gpt_oss, gptq, halves, mxfp4, words,
};

const GATE: DecoderTensor = DecoderTensor::Layer(0, LayerTensor::Gate);

fn open(quantization: &str, parts: &[Part]) -> Checkpoint {
    let checkpoint = Checkpoint::open(Path::new("m"), &files(quantization, parts));
    let checkpoint = checkpoint.unwrap_or_else(|error| panic!("{error}"));
    checkpoint.check().unwrap_or_else(|error| panic!("{error}"));
    checkpoint
}

#[track_caller]
fn assert_refused(quantization: &str, parts: &[Part], words: &str) {
    let opened = Checkpoint::open(Path::new("m"), &files(quantization, parts));
    let error = match opened {
        Err(error) => error.to_string(),
        Ok(checkpoint) => match checkpoint.check() {
            Err(error) => error.to_string(),
            Ok(()) => checkpoint
                .tensor(GATE)
                .unwrap()
                .check_finite()
                .unwrap_err()
                .to_string(),
        },
    };
    assert!(error.contains(words), "{error}");
}

/// What is handed on, and its loss.
fn held(checkpoint: &Checkpoint) -> (Stored, Format, f64) {
    let gate = checkpoint.tensor(GATE).unwrap();
    gate.to_f32().unwrap();
    let all = checkpoint.reencoded().unwrap();
    let [of] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!(
        (of.stored, of.held, of.tensors),
        (gate.stored(), gate.format(), 1)
    );
    (of.stored, of.held, of.loss.as_ref().unwrap().largest)
}

#[test]
fn whole_numbers_with_one_scale_for_32_of_them_lose_nothing() {
    let packed = |format| Stored::Packed(format);
    // Zero points of 8 (7, as AutoGPTQ stores them) are int4's own.
    let symmetric = open(GPTQ, &gptq(0x7777_7777));
    assert_eq!(
        held(&symmetric),
        (packed(PackedFormat::GptqInt4), Format::Int4, 0.0)
    );
    for (quantization, parts, format) in [
        (GPTQ, gptq(0x7777_7767), PackedFormat::GptqInt4),
        (AWQ, awq(), PackedFormat::AwqInt4),
    ] {
        let checkpoint = open(quantization, &parts);
        assert_eq!(held(&checkpoint), (packed(format), Format::Int8, 0.0));
        let exact = open(quantization, &parts).exact();
        let given = checkpoint.tensor(GATE).unwrap();
        let exact = exact.tensor(GATE).unwrap();
        assert_eq!(
            (given.format(), exact.format()),
            (Format::Int8, Format::F32)
        );
        assert_eq!(given.to_f32().unwrap(), exact.to_f32().unwrap());
        assert_eq!(given.stored_bytes(), (4 * 128 + 4 * 4 + 2 * 32) as u64);
    }
    // The same of both, element by element: of the first word of GPTQ, row 0, and of AWQ, column 0.
    let gate = open(AWQ, &awq()).tensor(GATE).unwrap().to_f32().unwrap();
    let nibble = |word: u32, place: u32| f32::from(((word >> (4 * place)) & 15) as u8);
    // Column 3 of the first word is in place 5 (0, 4, 1, 5 ...), row 3 of the matrix, whose scale is 8.
    let word = 4u32 * 0x0123_4567;
    let expected = (nibble(word, 5) - nibble(0x7654_3210, 5)) * 8.0;
    assert_eq!(gate[3 * 32 + 1].to_bits(), expected.to_bits());
}

#[test]
fn goldens_are_held_in_what_says_the_most_and_what_is_lost_is_told() {
    for (name, held, exact) in [
        ("gptq-llama-int4", &[Format::Int4][..], true),
        ("gptq-llama-int4-by-order", &[Format::Int8], false),
        // Down is 40 wide.
        ("gptq-phi3-int8", &[Format::F32, Format::Int8], true),
        ("awq-qwen2-int4", &[Format::F32, Format::Int8], false),
        ("compressed-llama-int4", &[Format::Int4], true),
        (
            "compressed-mistral-int4-zeros",
            &[Format::F32, Format::Int8],
            true,
        ),
        ("compressed-llama-int8", &[Format::F32, Format::Int8], true),
        ("compressed-llama-fp8", &[Format::F32, Format::Int8], false),
        ("fp8-qwen3-blocks", &[Format::F32, Format::Int8], false),
        ("gpt-oss-mxfp4", &[Format::Int8], true),
    ] {
        let checkpoint = golden(name);
        for tensor in checkpoint.decoder().unwrap().tensors() {
            checkpoint.tensor(tensor).unwrap().to_f32().unwrap();
        }
        let all = checkpoint.reencoded().unwrap();
        let formats: Vec<Format> = all.iter().map(|of| of.held).collect();
        assert_eq!(formats, held, "{name}");
        for of in all.iter().filter(|of| of.held != Format::F32) {
            let loss = of.loss.as_ref().unwrap();
            assert_eq!(loss.largest == 0.0, exact, "{name}: {loss:?}");
            assert!(
                loss.largest < 0.5 / 127.0 + 1.0 / 2048.0,
                "{name}: {loss:?}"
            );
        }
    }
}

#[test]
fn a_conversion_goes_out_from_what_is_stored() {
    for name in ["gptq-llama-int4-by-order", "fp8-qwen3-blocks"] {
        let directory = tempfile::tempdir().unwrap();
        convert(
            &golden(name),
            Format::Int8,
            directory.path(),
            &mut |_, _| {},
        )
        .unwrap();
        let converted = Checkpoint::open(directory.path(), &ReadWhole).unwrap();
        converted.check().unwrap();
        let exact = golden(name).exact().encoded(Format::Int8).unwrap();
        for tensor in exact.decoder().unwrap().tensors() {
            let [converted, exact] =
                [&converted, &exact].map(|model| model.tensor(tensor).unwrap().to_f32().unwrap());
            assert_eq!(converted, exact, "{name}: {tensor:?}");
        }
    }
}

/// Each part is left out, of another type, and of another shape in each dimension.
#[test]
fn parts_that_are_missing_or_do_not_fit_are_refused_by_name() {
    let unsymmetric = WORDS.replace(r#""num_bits""#, r#""symmetric":false,"num_bits""#);
    assert_ne!(unsymmetric, WORDS);
    for (quantization, parts, optional) in [
        (GPTQ, gptq(0x7777_7777), &["g_idx"][..]),
        (AWQ, awq(), &[]),
        (FP8, fp8(), &[]),
        (WORDS, compressed_words(), &["weight_zero_point"]),
        // Without them they would be read as if they were symmetric.
        (&unsymmetric, compressed_words(), &[]),
        (BYTES, compressed_bytes(), &[]),
    ] {
        open(quantization, &parts);
        for index in 0..parts.len() {
            let name = parts[index].0;
            let mut without = parts.clone();
            without.remove(index);
            if optional.contains(&name) {
                open(quantization, &without);
            } else if index == 0 {
                assert_refused(
                    quantization,
                    &without,
                    &format!("`{BASE}.weight` is missing"),
                );
            } else {
                let words = format!("`{BASE}.");
                assert_refused(quantization, &without, &words);
                assert_refused(quantization, &without, "is missing, expected shape");
            }
            // As many bytes of another type.
            let mut other = parts.clone();
            let (bytes, shape) = (other[index].3.len(), other[index].2.clone());
            let count: usize = shape.iter().product();
            other[index].1 = match bytes / count {
                4 if other[index].1 == "I32" => "U32",
                4 => "I32",
                2 => "I16",
                _ => "U8",
            };
            assert_refused(
                quantization,
                &other,
                &format!("`{BASE}.{name}` is stored as "),
            );
            for (dimension, size) in shape.iter().enumerate() {
                let mut other = parts.clone();
                other[index].2[dimension] += 1;
                let bytes = bytes / size * (size + 1);
                other[index].3.resize(bytes, 0);
                let words = format!("tensor `{BASE}.{name}` has shape ");
                assert_refused(quantization, &other, &words);
            }
        }
    }
}

#[test]
fn of_two_scales_of_8_bit_floats_the_one_that_is_not_read_is_refused() {
    let mut parts = fp8();
    let mut scale = parts[1].clone();
    scale.0 = "weight_scale";
    parts.push(scale);
    let words = format!("tensor `{BASE}.weight_scale` is there, but LlamaForCausalLM");
    assert_refused(FP8, &parts, &words);
    // By itself it is read.
    parts.remove(1);
    open(FP8, &parts);
}

/// What [`Checkpoint::check`] and all elements of gpt-oss's experts come to.
fn read_gpt_oss(parts: &[Part]) -> Result<(), String> {
    let checkpoint = Checkpoint::open(Path::new("m"), &gpt_oss(parts)).unwrap();
    checkpoint.check().map_err(|error| error.to_string())?;
    let tensors = checkpoint.decoder().unwrap().tensors();
    tensors
        .into_iter()
        .try_for_each(|tensor| checkpoint.tensor(tensor).unwrap().check_finite())
        .map_err(|error| error.to_string())
}

/// Elements of experts that lie together: gate and up in turn, 32 elements to a block, the first in the lower bits.
#[test]
fn an_expert_has_its_own_rows_of_what_lies_together() {
    let parts = mxfp4();
    let checkpoint = Checkpoint::open(Path::new("m"), &gpt_oss(&parts)).unwrap();
    let row = |part, row| {
        let tensor = checkpoint.tensor(DecoderTensor::Layer(0, part)).unwrap();
        assert_eq!((tensor.rows(), tensor.width()), (32, 32));
        let mut floats = Vec::new();
        tensor.read_row(row, &mut floats).unwrap();
        floats
    };
    let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let expected = |part: usize, row: usize| -> Vec<f32> {
        let scale = f32::powi(2.0, i32::from(parts[part + 1].3[row]) - 127);
        let halves = parts[part].3[row * 16..][..16].iter();
        let halves = halves.flat_map(|byte| [byte & 15, byte >> 4]);
        let value = |half: u8| {
            let magnitude = values[usize::from(half & 7)] * scale;
            if half < 8 { magnitude } else { -magnitude }
        };
        halves.map(value).collect()
    };
    for (expert, at) in [(0, 0), (1, 9), (2, 31)] {
        let gate = row(LayerTensor::ExpertGate(expert), at);
        assert_eq!(gate, expected(0, 64 * expert + 2 * at));
        let up = row(LayerTensor::ExpertUp(expert), at);
        assert_eq!(up, expected(0, 64 * expert + 2 * at + 1));
        let down = row(LayerTensor::ExpertDown(expert), at);
        assert_eq!(down, expected(2, 32 * expert + at));
    }
}

#[test]
fn experts_in_mxfp4_that_are_missing_or_do_not_fit_are_refused_by_name() {
    let parts = mxfp4();
    read_gpt_oss(&parts).unwrap();
    for index in 0..parts.len() {
        let name = format!("tensor `{EXPERTS}.{}`", parts[index].0);
        let mut without = parts.clone();
        without.remove(index);
        let error = read_gpt_oss(&without).unwrap_err();
        assert!(
            error.contains(&format!("{name} is missing, expected shape [3, ")),
            "{error}"
        );
        let mut other = parts.clone();
        other[index].1 = "I8";
        let error = read_gpt_oss(&other).unwrap_err();
        assert!(
            error.contains(&format!("{name} is stored as I8")),
            "{error}"
        );
        for (dimension, size) in parts[index].2.iter().enumerate() {
            let mut other = parts.clone();
            other[index].2[dimension] += 1;
            let bytes = other[index].3.len() / size * (size + 1);
            other[index].3.resize(bytes, 0);
            let error = read_gpt_oss(&other).unwrap_err();
            assert!(error.contains(&format!("{name} has shape ")), "{error}");
        }
    }
    // A power that is no number, of row 5 of the last expert's down.
    let mut other = parts.clone();
    other[3].3[2 * 32 + 5] = 255;
    let error = read_gpt_oss(&other).unwrap_err();
    assert!(
        error.starts_with(&format!("tensor `{EXPERTS}.down_proj_blocks` holds ")),
        "{error}"
    );
    assert!(error.contains("of row 69,"), "{error}");
}

/// Powers of two that f16 has not are told as a loss, and by [`Checkpoint::exact`] kept.
#[test]
fn mxfp4_of_a_power_beyond_f16_loses_what_is_told() {
    for (power, lossless) in [(104, true), (143, true), (100, false), (144, false)] {
        let mut parts = mxfp4();
        parts[3].3.fill(power);
        let checkpoint = Checkpoint::open(Path::new("m"), &gpt_oss(&parts)).unwrap();
        let down = DecoderTensor::Layer(0, LayerTensor::ExpertDown(1));
        let held = checkpoint.tensor(down).unwrap();
        assert_eq!(held.format(), Format::Int8);
        let found = held.to_f32();
        let exact = Checkpoint::open(Path::new("m"), &gpt_oss(&parts))
            .unwrap()
            .exact();
        let exact = exact.tensor(down).unwrap().to_f32().unwrap();
        if let Ok(found) = &found {
            assert_eq!(*found == exact, lossless, "{power}");
        }
        let all = checkpoint.reencoded().unwrap();
        let of = &all[0];
        assert_eq!((of.stored.name(), of.tensors), ("mxfp4", 9));
        let largest = of.loss.as_ref().map_or(0.0, |loss| loss.largest);
        assert_eq!(largest == 0.0, lossless, "{power}: {largest}");
    }
}

#[test]
fn groups_that_are_not_there_are_refused_with_their_place() {
    for (group, told) in [
        (1u32, "1"),
        (u32::MAX, "-1"),
        (i32::MAX as u32, "2147483647"),
    ] {
        let mut parts = gptq(0x7777_7777);
        parts[3].3[4 * 5..4 * 6].copy_from_slice(&group.to_le_bytes());
        let words =
            format!("tensor `{BASE}.g_idx` puts element 5 in group {told}, must be in 0..1");
        assert_refused(GPTQ, &parts, &words);
    }
}

#[test]
fn scales_and_floats_that_are_no_numbers_are_told_with_their_place() {
    for bits in [0x7c00u16, 0xfc00, 0x7e01] {
        for (quantization, mut parts) in [(GPTQ, gptq(0x7777_7777)), (AWQ, awq())] {
            parts[2].3[2 * 9..2 * 10].copy_from_slice(&bits.to_le_bytes());
            let words = format!("tensor `{BASE}.weight` holds ");
            assert_refused(quantization, &parts, &words);
            assert_refused(
                quantization,
                &parts,
                " of row 9, every weight must be finite",
            );
        }
    }
    let mut parts = fp8();
    parts[0].3[32 * 4 + 7] = 0xff;
    assert_refused(
        FP8,
        &parts,
        "at element 7 of row 4, every weight must be finite",
    );
    // A scale that is too large for the f16 of int4 is no number there.
    let large = vec![
        ("weight_packed", "I32", vec![32, 4], words(0..128u32)),
        ("weight_scale", "BF16", vec![32, 1], halves([0x4fff; 32])),
    ];
    let by_32 = WORDS.replace(":16", ":32");
    let checkpoint = open(&by_32, &large);
    let gate = checkpoint.tensor(GATE).unwrap();
    let mut parts = RowParts::default();
    assert!(gate.row_parts(0, &mut parts).is_err());
}

#[test]
fn sizes_that_words_do_not_divide_are_refused() {
    // Queries are 16 rows of 32, keys 8.
    let config = config()
        .replacen('{', &format!(r#"{{"quantization_config":{AWQ},"#), 1)
        .replace("\"head_dim\": 8", "\"head_dim\": 6");
    let mut all = tensors();
    let name = "model.layers.0.self_attn.k_proj";
    all.retain(|tensor| !tensor.name.starts_with(name));
    all.push(Tensor {
        name: format!("{name}.qweight"),
        dtype: "I32",
        shape: vec![32, 1],
        bytes: words(0..32u32),
    });
    for tensor in &mut all {
        if tensor.name.ends_with("q_proj.weight") {
            tensor.shape = vec![12, 32];
        } else if tensor.name.ends_with("v_proj.weight") {
            tensor.shape = vec![6, 32];
        } else if tensor.name.ends_with("o_proj.weight") {
            tensor.shape = vec![32, 12];
        }
        let elements: usize = tensor.shape.iter().product();
        if tensor.dtype == "F16" {
            tensor.bytes.truncate(2 * elements);
        }
    }
    let files = Files::default()
        .with("m/config.json", config)
        .with("m/model.safetensors", safetensors(&all));
    let checkpoint = Checkpoint::open(Path::new("m"), &files).unwrap();
    let error = checkpoint.check().unwrap_err().to_string();
    let words = format!("tensor `{name}.qweight` is stored as words of 8 numbers for 6, supported");
    assert!(error.contains(&words), "{error}");
}
