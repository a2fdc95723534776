//! Encoders against the transformers library and the float64 reference, in every variant.
//!
//! Tolerance: the largest absolute error, as a share of 1 + the largest expected value, is at most 2e-5.

use std::path::Path;

use tidegate_contract::{DecodeError, Encoder, EncoderOutput, EncoderText};
use tidegate_infer::device::Sabotage;
use tidegate_infer::{EncoderOptions, Features, Gpu, GpuEncoder, KernelVariant, LoadError};
use tidegate_reference::golden::{
    self, ENCODERS, GGUF_ENCODERS, REENCODED_ENCODERS, TOKEN_CLASSIFIERS,
};
use tidegate_reference::{ReferenceEncoder, wide as wide_golden};
use tidegate_weights::{Checkpoint, Format, ReadWhole, convert};

use crate::support::{
    PLAIN, Random, assert_close, bare_gpu, bare_to_spoil, checked_on, golden_checkpoint, gpu, open,
    to_spoil, variants, wide,
};

const TOLERANCE: f64 = 2e-5;

/// The same with products of matrices in f16. Floats are multiplied by no int8 dots.
fn tolerance(variant: KernelVariant) -> f64 {
    match variant {
        KernelVariant::F16 | KernelVariant::Cooperative => 2e-3,
        _ => TOLERANCE,
    }
}

/// The same of quantized weights: int8 dots round activations, too.
fn quantized_tolerance(variant: KernelVariant) -> f64 {
    match variant {
        KernelVariant::F16 | KernelVariant::Cooperative => 5e-3,
        KernelVariant::Dot => 5e-2,
        _ => TOLERANCE,
    }
}

fn options(variant: KernelVariant) -> EncoderOptions {
    EncoderOptions {
        max_rows: 700,
        context: None,
        kernels: Some(variant),
        reproducible: false,
        checked_shaders: false,
    }
}

/// The same with checked shaders where whole models have them.
fn options_on(gpu: &Gpu, variant: KernelVariant) -> EncoderOptions {
    EncoderOptions {
        checked_shaders: checked_on(gpu),
        ..options(variant)
    }
}

fn encode(encoder: &mut GpuEncoder, texts: &[Vec<u32>]) -> Vec<f32> {
    let texts: Vec<_> = texts.iter().map(|text| EncoderText::single(text)).collect();
    encode_texts(encoder, &texts)
}

fn encode_texts(encoder: &mut GpuEncoder, texts: &[EncoderText<'_>]) -> Vec<f32> {
    let mut vectors = Vec::new();
    encoder.encode(texts, &mut vectors).unwrap();
    vectors
}

/// What stands on top of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Top {
    Vector,
    Text,
    Tokens,
}

const TOPS: [Top; 3] = [Top::Vector, Top::Text, Top::Tokens];

/// A BERT of odd sizes with random weights, written to `dir`: 3 heads of 10, 37 wide inside, 320 positions.
fn odd_model(dir: &Path, top: Top) -> Checkpoint {
    let classes = top != Top::Vector;
    let (vocabulary, hidden, inside, positions, labels) = (53, 30, 37, 320, 5);
    let names: Vec<String> = (0..labels)
        .map(|i| format!("\"{i}\": \"label {i}\""))
        .collect();
    let (architecture, more) = if classes {
        let labels = names.join(", ");
        (
            match top {
                Top::Tokens => "BertForTokenClassification",
                _ => "BertForSequenceClassification",
            },
            format!(", \"id2label\": {{{labels}}}"),
        )
    } else {
        ("BertModel", String::new())
    };
    let config = format!(
        "{{\"architectures\": [\"{architecture}\"], \"model_type\": \"bert\", \"vocab_size\": {vocabulary}, \
         \"hidden_size\": {hidden}, \"intermediate_size\": {inside}, \"num_hidden_layers\": 2, \
         \"num_attention_heads\": 3, \"max_position_embeddings\": {positions}, \"type_vocab_size\": 2, \
         \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-12{more}}}"
    );
    std::fs::write(dir.join("config.json"), config).unwrap();
    let prefix = if classes { "bert." } else { "" };
    let mut tensors: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: String, shape: &[usize]| tensors.push((name, shape.to_vec()));
    for (name, rows) in [
        ("word_embeddings.weight", vocabulary),
        ("position_embeddings.weight", positions),
        ("token_type_embeddings.weight", 2),
    ] {
        add(format!("{prefix}embeddings.{name}"), &[rows, hidden]);
    }
    for part in ["weight", "bias"] {
        add(format!("{prefix}embeddings.LayerNorm.{part}"), &[hidden]);
    }
    for layer in 0..2 {
        for (name, rows, width) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", inside, hidden),
            ("output.dense", hidden, inside),
        ] {
            let name = format!("{prefix}encoder.layer.{layer}.{name}");
            add(format!("{name}.weight"), &[rows, width]);
            add(format!("{name}.bias"), &[rows]);
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            for part in ["weight", "bias"] {
                add(
                    format!("{prefix}encoder.layer.{layer}.{name}.{part}"),
                    &[hidden],
                );
            }
        }
    }
    if top == Top::Text {
        add(format!("{prefix}pooler.dense.weight"), &[hidden, hidden]);
        add(format!("{prefix}pooler.dense.bias"), &[hidden]);
    }
    if classes {
        add("classifier.weight".to_owned(), &[labels, hidden]);
        add("classifier.bias".to_owned(), &[labels]);
    }
    let mut random = Random(17);
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, shape) in &tensors {
        let count: usize = shape.iter().product();
        // Large enough for scores that differ.
        let scale = if shape.len() == 2 { 0.4 } else { 1.0 };
        let start = data.len();
        for value in random.units(count) {
            data.extend((value * scale).to_le_bytes());
        }
        let end = data.len();
        header.push(format!(
            "\"{name}\": {{\"dtype\": \"F32\", \"shape\": {shape:?}, \"data_offsets\": [{start}, {end}]}}"
        ));
    }
    let header = format!("{{{}}}", header.join(", "));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend(data);
    std::fs::write(dir.join("model.safetensors"), file).unwrap();
    let checkpoint = Checkpoint::open(dir, &ReadWhole).unwrap();
    checkpoint.check().unwrap();
    checkpoint
}

/// Texts of lengths around every border of a tile.
fn texts(random: &mut Random) -> Vec<Vec<u32>> {
    [1, 2, 3, 4, 5, 8, 31, 33, 130, 320]
        .into_iter()
        .map(|length| random.tokens(53, length))
        .collect()
}

#[test]
fn every_encoder_gives_the_vectors_of_transformers() {
    gives_the_vectors_of_transformers(&ENCODERS);
}

/// In formats that kernels read; the others exactly, as f32.
#[test]
fn every_gguf_encoder_gives_the_vectors_of_what_it_holds() {
    gives_the_vectors_of_transformers(&GGUF_ENCODERS);
    gives_the_vectors_of_transformers(&REENCODED_ENCODERS);
}

fn gives_the_vectors_of_transformers(names: &[&str]) {
    for (gpu, variant) in variants() {
        for name in names {
            let quantized = name.starts_with("gguf-") && !name.ends_with("f16");
            let checkpoint = golden_checkpoint(name).exact();
            let mut encoder =
                GpuEncoder::load(gpu, &checkpoint, &options_on(gpu, variant)).unwrap();
            let cases = golden::encoder(name).unwrap();
            let texts: Vec<_> = cases.iter().map(|case| case.text()).collect();
            let vectors = encode_texts(&mut encoder, &texts);
            let mut rest = vectors.as_slice();
            for case in &cases {
                let found;
                (found, rest) = rest.split_at(case.vector.len());
                let what = format!("{name}, {variant}, {} tokens", case.tokens.len());
                let most = match quantized {
                    true => quantized_tolerance(variant),
                    false => tolerance(variant),
                };
                let most = match (most, encoder.output()) {
                    // Numbers of each row, as those that decoders make.
                    (most, EncoderOutput::TokenScores) if most > TOLERANCE => 5e-3,
                    (most, _) => most,
                };
                assert_close(found, &case.vector, most, &what);
            }
            assert!(rest.is_empty(), "{name}");
        }
    }
}

#[test]
fn odd_sizes_and_texts_of_any_length_match_the_reference() {
    for top in TOPS {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = odd_model(dir.path(), top);
        let texts = texts(&mut Random(3));
        let mut expected = Vec::new();
        // Pairs of any lengths, but for the first text and the last.
        let types: Vec<Vec<u32>> = (0..)
            .zip(&texts)
            .map(|(index, text)| match index {
                0 | 9 => Vec::new(),
                _ => (0..text.len())
                    .map(|place| u32::from(place > text.len() / index))
                    .collect(),
            })
            .collect();
        let texts: Vec<_> = (texts.iter().zip(&types))
            .map(|(tokens, types)| EncoderText { tokens, types })
            .collect();
        let reference = ReferenceEncoder::load(&checkpoint, 700).unwrap();
        reference.wide_encode(&texts, &mut expected).unwrap();
        for (gpu, variant) in variants() {
            for checked_shaders in [true, false] {
                let options = EncoderOptions {
                    checked_shaders,
                    ..options(variant)
                };
                let mut encoder = GpuEncoder::load(gpu, &checkpoint, &options).unwrap();
                let what = match top {
                    Top::Vector => EncoderOutput::Embedding,
                    Top::Text => EncoderOutput::Scores,
                    Top::Tokens => EncoderOutput::TokenScores,
                };
                assert_eq!(encoder.output(), what);
                assert_eq!(
                    (encoder.width(), encoder.context()),
                    (if top == Top::Vector { 30 } else { 5 }, 320)
                );
                let found = encode_texts(&mut encoder, &texts);
                assert_close(
                    &found,
                    &expected,
                    tolerance(variant),
                    &format!("{variant} {what:?}"),
                );
            }
        }
    }
}

/// Like the golden encoder of that name, with widths of which matrices can be quantized, converted to `format`.
fn quantized(name: &str, format: Format) -> (tempfile::TempDir, Checkpoint) {
    let [wide, out] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    wide_golden::encoder(name, wide.path()).unwrap();
    let checkpoint = Checkpoint::open(wide.path(), &ReadWhole).unwrap();
    convert(&checkpoint, format, out.path(), &mut |_, _| {}).unwrap();
    let checkpoint = Checkpoint::open(out.path(), &ReadWhole).unwrap();
    checkpoint.check().unwrap();
    (out, checkpoint)
}

/// One of each architecture and of each use.
const QUANTIZED: [&str; 8] = [
    "bert-f16",
    "roberta-classes-bf16",
    "roberta-relevance-bf16",
    "distilbert-entities-f32",
    "modernbert-classes-f32",
    "modernbert-entities-bf16",
    "nomic-bert-f16",
    "qwen3-embedding-bf16",
];

/// The reference has the numbers that the quantized ones stand for.
#[test]
fn quantized_encoders_match_the_reference_with_the_same_numbers() {
    for name in QUANTIZED {
        for format in [Format::Int8, Format::Int4] {
            // int4 is read as decoders' is: once with all that is beside it.
            if format == Format::Int4 && !["bert-f16", "modernbert-entities-bf16"].contains(&name) {
                continue;
            }
            let (_directory, checkpoint) = quantized(name, format);
            let mut random = Random(8);
            let texts = [1, 5, 31, 38].map(|length| random.tokens(64, length));
            let types = |text: &Vec<u32>| -> Vec<u32> {
                let kinds = checkpoint.encoder().unwrap().token_types();
                let all = (0..text.len()).map(|place| u32::from(place > text.len() / 3));
                all.filter(|_| kinds > 1).collect()
            };
            let types: Vec<Vec<u32>> = texts.iter().map(types).collect();
            let texts: Vec<_> = (texts.iter().zip(&types))
                .map(|(tokens, types)| EncoderText { tokens, types })
                .collect();
            let mut expected = Vec::new();
            let reference = ReferenceEncoder::load(&checkpoint, 700).unwrap();
            reference.wide_encode(&texts, &mut expected).unwrap();
            for (gpu, variant) in variants() {
                let options = options_on(gpu, variant);
                let mut encoder = GpuEncoder::load(gpu, &checkpoint, &options).unwrap();
                assert_eq!(encoder.output(), reference.output());
                let found = encode_texts(&mut encoder, &texts);
                let what = format!("{name} in {format:?}, {variant}, {}", gpu.features());
                assert_close(&found, &expected, quantized_tolerance(variant), &what);
            }
        }
    }
}

#[test]
fn a_text_of_a_quantized_encoder_has_the_same_bits_alone_and_among_32() {
    for name in [
        "bert-f16",
        "modernbert-entities-bf16",
        "roberta-relevance-bf16",
    ] {
        let (_directory, checkpoint) = quantized(name, Format::Int8);
        let mut random = Random(9);
        let texts: Vec<Vec<u32>> = (0..32).map(|i| random.tokens(64, 1 + i % 21)).collect();
        for variant in PLAIN {
            let options = EncoderOptions {
                reproducible: true,
                ..options_on(bare_gpu(), variant)
            };
            let mut encoder = GpuEncoder::load(bare_gpu(), &checkpoint, &options).unwrap();
            let together = encode(&mut encoder, &texts);
            let mut rest = together.as_slice();
            for text in &texts {
                let alone = encode(&mut encoder, std::slice::from_ref(text));
                let among;
                (among, rest) = rest.split_at(alone.len());
                assert_eq!(alone, among, "{name}, {variant}, {} tokens", text.len());
            }
            assert!(rest.is_empty());
        }
    }
}

#[test]
fn what_a_quantized_encoder_takes_is_known_before() {
    let device = to_spoil();
    for name in ["bert-f16", "modernbert-classes-f32", "nomic-bert-f16"] {
        let options = EncoderOptions::default();
        let (_directory, checkpoint) = quantized(name, Format::Int8);
        let (_floats, int4) = quantized(name, Format::Int4);
        let estimate = GpuEncoder::estimate(&checkpoint, &options).unwrap();
        assert!(estimate.weights > GpuEncoder::estimate(&int4, &options).unwrap().weights);
        drop(GpuEncoder::load(&device, &checkpoint, &options).unwrap());
        let before = device.bytes_made();
        let encoder = GpuEncoder::load(&device, &checkpoint, &options).unwrap();
        assert_eq!(encoder.memory_report(), estimate);
        let made = device.bytes_made() - before;
        let (least, most) = (estimate.total(), estimate.total() + 80 * (32 + 16));
        assert!(
            made >= least && made <= most,
            "{name}: {made} bytes, {estimate:?}"
        );
    }
}

#[test]
fn a_text_has_its_own_vector_whatever_is_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let texts = texts(&mut Random(4));
    for (variant, reproducible, top) in (PLAIN.into_iter()).flat_map(|variant| {
        let each = [true, false].into_iter();
        each.flat_map(move |same| [Top::Vector, Top::Tokens].map(|top| (variant, same, top)))
    }) {
        {
            let checkpoint = odd_model(dir.path(), top);
            let options = EncoderOptions {
                reproducible,
                ..options_on(bare_gpu(), variant)
            };
            let mut encoder = GpuEncoder::load(bare_gpu(), &checkpoint, &options).unwrap();
            let together = encode(&mut encoder, &texts);
            let mut rest = together.as_slice();
            for text in &texts {
                let alone = encode(&mut encoder, std::slice::from_ref(text));
                let together;
                (together, rest) = rest.split_at(alone.len());
                if reproducible {
                    assert_eq!(alone, together, "{variant}, {} tokens", text.len());
                } else {
                    assert_close(&alone, &wide(together), TOLERANCE, variant.name());
                }
            }
        }
    }
}

#[test]
fn embeddings_have_unit_length() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = odd_model(dir.path(), Top::Vector);
    let mut encoder =
        GpuEncoder::load(gpu(), &checkpoint, &options(KernelVariant::Software)).unwrap();
    for vector in encode(&mut encoder, &texts(&mut Random(5))).chunks_exact(30) {
        let length: f64 = wide(vector).iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-6, "{length}");
    }
}

#[test]
fn a_call_that_is_too_much_for_one_pass_runs_in_several() {
    for top in [Top::Text, Top::Tokens] {
        runs_in_several_passes(top);
    }
}

fn runs_in_several_passes(top: Top) {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = odd_model(dir.path(), top);
    let mut random = Random(6);
    let texts: Vec<Vec<u32>> = (0..174).map(|i| random.tokens(53, 1 + i % 7)).collect();
    let wide_options = options_on(bare_gpu(), KernelVariant::Software);
    let mut one = GpuEncoder::load(bare_gpu(), &checkpoint, &wide_options).unwrap();
    let narrow = EncoderOptions {
        context: Some(7),
        ..wide_options
    };
    // Scores for texts of seven fill up with shorter ones.
    let mut several = GpuEncoder::load(bare_gpu(), &checkpoint, &narrow).unwrap();
    assert_eq!(several.context(), 7);
    assert!(several.memory() < one.memory());
    assert_eq!(encode(&mut several, &texts), encode(&mut one, &texts));
}

#[test]
fn texts_outside_the_limits_are_refused_and_the_encoder_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = odd_model(dir.path(), Top::Vector);
    let mut encoder =
        GpuEncoder::load(gpu(), &checkpoint, &options(KernelVariant::Software)).unwrap();
    let mut refused = |texts: &[&[u32]]| {
        let texts = EncoderText::singles(texts);
        let error = encoder.encode(&texts, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, DecodeError::Refused { .. }));
        error.to_string()
    };
    let long = [5; 321];
    assert_eq!(
        refused(&[&[1], &long]),
        "sequence 1 of the step: tokens is 321, must be 1 to 320"
    );
    assert_eq!(
        refused(&[&[]]),
        "sequence 0 of the step: tokens is 0, must be 1 to 320"
    );
    assert!(refused(&[&[1, 53]]).contains("token is 53"));
    assert!(
        refused(&[&long[..320], &long[..320], &long[..61]]).contains("701, must be at most 700")
    );
    let mut vectors = vec![1.0];
    encoder.encode(&[], &mut vectors).unwrap();
    assert_eq!(vectors, [0.0; 0], "no texts, no vectors");
    encoder
        .encode(&[EncoderText::single(&[3])], &mut vectors)
        .unwrap();
    assert_eq!(vectors.len(), 30);
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let decoder = golden_checkpoint("qwen3-f16");
    let error = GpuEncoder::load(gpu(), &decoder, &EncoderOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "Qwen3ForCausalLM is no encoder");

    let dir = tempfile::tempdir().unwrap();
    let checkpoint = odd_model(dir.path(), Top::Vector);
    for (max_rows, context, what) in [
        (0, None, "max_rows is 0, must be between 1 and 16384"),
        (
            1 << 20,
            None,
            "max_rows is 1048576, must be between 1 and 16384",
        ),
        (400, Some(321), "context is 321, must be between 1 and 320"),
        (40, Some(41), "context is 41, must be between 1 and 40"),
    ] {
        let options = EncoderOptions {
            max_rows,
            context,
            ..EncoderOptions::default()
        };
        let error = GpuEncoder::load(gpu(), &checkpoint, &options).unwrap_err();
        assert_eq!(error.to_string(), what);
    }
    let small = gpu().narrowed(64 << 10);
    let error = GpuEncoder::load(&small, &checkpoint, &EncoderOptions::default()).unwrap_err();
    assert!(matches!(error, LoadError::BufferTooLarge { .. }));
    assert!(
        error.to_string().contains("lower max_rows or context"),
        "{error}"
    );
}

#[test]
fn what_an_encoder_takes_is_known_before() {
    let dir = tempfile::tempdir().unwrap();
    let device = to_spoil();
    for top in TOPS {
        let checkpoint = odd_model(dir.path(), top);
        let estimate = GpuEncoder::estimate(&checkpoint, &EncoderOptions::default()).unwrap();
        let encoder = GpuEncoder::load(gpu(), &checkpoint, &EncoderOptions::default()).unwrap();
        assert_eq!(encoder.memory_report(), estimate);
        assert_eq!(encoder.memory(), estimate.total());
        // What is made, buffer by buffer, but for the parameters of dispatches and what rounds a buffer up to 16 bytes.
        drop(GpuEncoder::load(&device, &checkpoint, &EncoderOptions::default()).unwrap());
        let before = device.bytes_made();
        drop(GpuEncoder::load(&device, &checkpoint, &EncoderOptions::default()).unwrap());
        let made = device.bytes_made() - before;
        let (least, most) = (estimate.total(), estimate.total() + 40 * (32 + 16));
        assert!(made >= least && made <= most, "{made} bytes, {estimate:?}");
        // Positions are there with each of two token types.
        let parameters = (53 + 2 * 320 + 2) * 30 + 2 * (4 * 30 * 30 + 2 * 30 * 37);
        assert!(estimate.weights > parameters * 4, "{estimate:?}");
    }
}

/// Of heads of every form, token by token.
#[test]
fn what_a_model_that_labels_tokens_takes_is_known_before() {
    let device = to_spoil();
    for name in TOKEN_CLASSIFIERS {
        let checkpoint = golden_checkpoint(name);
        let options = EncoderOptions::default();
        let estimate = GpuEncoder::estimate(&checkpoint, &options).unwrap();
        drop(GpuEncoder::load(&device, &checkpoint, &options).unwrap());
        let before = device.bytes_made();
        drop(GpuEncoder::load(&device, &checkpoint, &options).unwrap());
        let made = device.bytes_made() - before;
        let (least, most) = (estimate.total(), estimate.total() + 60 * (32 + 16));
        assert!(
            made >= least && made <= most,
            "{name}: {made} bytes, {estimate:?}"
        );
    }
}

#[test]
fn what_goes_wrong_on_the_device_is_a_typed_error_of_the_encoder_it_happens_to() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = odd_model(dir.path(), Top::Vector);
    let load = |device: &Gpu| GpuEncoder::load(device, &checkpoint, &EncoderOptions::default());
    let text = EncoderText::single(&[1, 2, 3]);
    let device = open(Features::ALL);
    let (mut encoder, mut other) = (load(&device).unwrap(), load(&device).unwrap());
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    other.encode(&[text], &mut expected).unwrap();

    device.exhaust();
    let error = encoder.encode(&[text], &mut found).unwrap_err();
    assert!(
        matches!(error, DecodeError::OutOfMemory { .. }),
        "{error:?}"
    );
    assert_eq!(encoder.encode(&[text], &mut found).unwrap_err(), error);
    other.encode(&[text], &mut found).unwrap();
    assert_eq!(found, expected);

    device.lose();
    let error = other.encode(&[text], &mut found).unwrap_err();
    assert!(matches!(error, DecodeError::DeviceLost { .. }), "{error:?}");
    let error = load(&device).unwrap_err();
    assert!(matches!(error, LoadError::DeviceLost { .. }), "{error:?}");
    let mut again = load(&open(Features::ALL)).unwrap();
    again.encode(&[text], &mut found).unwrap();
    assert_eq!(found, expected);

    let device = to_spoil();
    device.sabotage("encoder_scores", Sabotage::DoesNotCompile);
    let error = load(&device).unwrap_err();
    let LoadError::Kernel { kernel, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(kernel, "encoder_scores");
}

/// Kernels that every variant has: none is left to try.
#[test]
fn an_encoder_with_a_kernel_that_writes_nothing_is_not_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoint = odd_model(directory.path(), Top::Text);
    let device = to_spoil();
    let options = EncoderOptions {
        kernels: None,
        ..options(KernelVariant::Software)
    };
    for kernel in [
        "embed",
        "matmul",
        "encoder_norm",
        "encoder_scores",
        "encoder_softmax",
        "encoder_values",
        "encoder_pool",
        "encoder_tanh",
    ] {
        device.sabotage(kernel, Sabotage::DoesNothing);
        let error = GpuEncoder::load(&device, &checkpoint, &options).unwrap_err();
        let LoadError::WrongNumbers(wrong) = &error else {
            panic!("{kernel}: {error:?}");
        };
        let named = wrong.kernel.split(", ").any(|name| name == kernel);
        assert!(named, "{error}");
        device.repair();
    }
    GpuEncoder::load(&device, &checkpoint, &options).unwrap();
}

#[test]
fn every_kernel_of_an_encoder_ran_in_a_self_test() {
    for top in TOPS {
        let directory = tempfile::tempdir().unwrap();
        every_kernel_was_tried("an odd model", &odd_model(directory.path(), top));
    }
    for name in ["modernbert-entities-bf16", "qwen3-embedding-bf16"] {
        let (_directory, checkpoint) = quantized(name, Format::Int8);
        every_kernel_was_tried(name, &checkpoint);
    }
}

fn every_kernel_was_tried(name: &str, checkpoint: &Checkpoint) {
    let (bare, whole) = (bare_to_spoil(), to_spoil());
    for (shared, variant) in variants() {
        let device = match shared.features() {
            Features::NONE => &bare,
            _ => &whole,
        };
        device.forget_tests();
        let options = EncoderOptions {
            checked_shaders: false,
            ..options(variant)
        };
        let encoder = GpuEncoder::load(device, checkpoint, &options).unwrap();
        for kernel in encoder.kernels_in_use() {
            assert!(device.was_tried(kernel), "{name}, {variant}: {kernel:?}");
        }
    }
}
