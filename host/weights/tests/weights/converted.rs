//! What `convert` writes of every golden model.

use std::path::Path;

use tidegate_weights::{Checkpoint, DecoderTensor, Format, ModelConfig, ReadWhole, convert};

use crate::goldens::{assert_same_tensors, golden};
use crate::made::{Files, Gguf, Value, gguf, gguf_encoder};

fn opened(file: &Gguf) -> Checkpoint {
    let files = Files::default().with("m.gguf", file.bytes());
    Checkpoint::open(Path::new("m.gguf"), &files).unwrap()
}

const DECODERS: [&str; 50] = [
    "llama-tied-sharded-f32",
    "llama-odd-f16",
    "llama-yarn-bf16",
    "llama3-rope-bf16",
    "llama-linear-bias-f16",
    "mistral-bf16",
    "qwen2-bf16",
    "qwen2-window-f16",
    "qwen3-f16",
    "smollm3-bf16",
    "phi3-bf16",
    "phi3-longrope-f16",
    "gemma2-f32",
    "gemma3-bf16",
    "gguf-llama-f32",
    "gguf-llama-q8_0",
    "gguf-llama-q4_0",
    "gguf-llama-q4_k",
    "gguf-llama3-rope-bf16",
    "gguf-llama-linear-bias-f16",
    "gguf-qwen2-bf16",
    "gguf-qwen3-f16",
    "gguf-phi3-longrope-f16",
    "gguf-gemma2-bf16",
    "gguf-gemma3-bf16",
    "gguf-llama-q8_0-parts",
    "gguf-llama-q4_k_m",
    "gguf-llama-q4_1",
    "gguf-llama-q5_0",
    "gguf-llama-q5_1",
    "gguf-llama-iq4_nl",
    "gguf-llama-q2_k",
    "gguf-llama-q3_k",
    "gguf-llama-q5_k",
    "gguf-llama-iq4_xs",
    "gguf-llama-q8_k",
    "qwen3-moe-f16",
    "qwen3-moe-all-window-bf16",
    "mixtral-bf16",
    "mixtral-one-f32",
    "qwen2-moe-f16",
    "gguf-mixtral-q8_0",
    "gguf-mixtral-bf16",
    "gguf-qwen2moe-f16",
    "gguf-qwen3moe-f16",
    "gpt-oss-one-bf16",
    "gpt-oss-all-f16",
    "gpt-oss-mxfp4",
    "gguf-gpt-oss-bf16",
    "gguf-gpt-oss-mxfp4",
];

#[test]
fn every_family_in_either_file_format_converts_and_means_the_same() {
    for name in DECODERS {
        let before = golden(name);
        for format in [Format::Int8, Format::Int4] {
            let directory = tempfile::tempdir().unwrap();
            convert(&before, format, directory.path(), &mut |_, _| {})
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let after = Checkpoint::open(directory.path(), &ReadWhole).unwrap();
            after
                .check()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let (a, b) = (before.decoder().unwrap(), after.decoder().unwrap());
            let but = |config: &ModelConfig| ModelConfig {
                architecture: String::new(),
                quantization: None,
                norm_offset: 0.0,
                attention_scale: 0.0,
                ..config.clone()
            };
            assert_eq!(but(a), but(b), "{name}");
            assert!(
                (a.attention_scale - b.attention_scale).abs() < 1e-12,
                "{name}"
            );
            let all = before.decoder().unwrap().tensors();
            let greatest = all.flat_map(|tensor| before.tensor(tensor).unwrap().to_f32().unwrap());
            let greatest = greatest.fold(0f32, |most, x| most.max(x.abs()));
            assert_same_tensors(
                &before,
                &after,
                greatest / if format == Format::Int8 { 200.0 } else { 7.0 },
            );
        }
    }
}

#[test]
fn q8_0_and_q4_0_are_copied_without_rounding() {
    for (name, format) in [
        ("gguf-llama-q8_0", Format::Int8),
        ("gguf-llama-q4_0", Format::Int4),
    ] {
        let before = golden(name);
        let directory = tempfile::tempdir().unwrap();
        convert(&before, format, directory.path(), &mut |_, _| {}).unwrap();
        let after = Checkpoint::open(directory.path(), &ReadWhole).unwrap();
        for tensor in before.decoder().unwrap().tensors() {
            // The embedding and the head of an int4 model are int8.
            if format == Format::Int8 || matches!(tensor, DecoderTensor::Layer(..)) {
                let [before, after] =
                    [&before, &after].map(|model| model.tensor(tensor).unwrap().to_f32().unwrap());
                assert_eq!(before, after, "{name} {tensor:?}");
            }
        }
    }
}

/// As the converter writes DistilBERT.
#[test]
fn encoders_without_token_types_convert_out_of_gguf_files() {
    for nomic in [false, true] {
        let mut file = gguf_encoder(nomic);
        file.tensors
            .retain(|(name, ..)| name != "token_types.weight");
        let before = opened(&file);
        before.check().unwrap();
        let directory = tempfile::tempdir().unwrap();
        convert(&before, Format::Int8, directory.path(), &mut |_, _| {}).unwrap();
        let after = Checkpoint::open(directory.path(), &ReadWhole).unwrap();
        after.check().unwrap();
        let config = after.encoder().unwrap();
        assert_eq!((config.types, config.token_types()), (0, 1));
        for tensor in config.tensors() {
            let [before, after] =
                [&before, &after].map(|model| model.encoder_tensor(tensor).unwrap().to_f32());
            assert_eq!(before.unwrap(), after.unwrap(), "{tensor:?}");
        }
    }
}

#[test]
fn a_model_that_no_config_describes_is_refused_with_the_reason() {
    // No family of transformers has windows and biases of all of attention.
    let mut file = gguf().set("llama.attention.sliding_window", Value::U32(4));
    for part in ["attn_q", "attn_k", "attn_v", "attn_output"] {
        let bias = (format!("blk.0.{part}.bias"), vec![32], 0, vec![0; 128]);
        file.tensors.push(bias);
    }
    for file in [file.clone(), file.set("llama.pooling_type", Value::U32(1))] {
        let directory = tempfile::tempdir().unwrap();
        let done = convert(
            &opened(&file),
            Format::Int8,
            directory.path(),
            &mut |_, _| {},
        );
        assert_eq!(
            done.unwrap_err().to_string(),
            "m.gguf: no config.json describes a model like this llama: as MistralForCausalLM, `attention_bias` is true, \
             supported: false"
        );
    }
}
