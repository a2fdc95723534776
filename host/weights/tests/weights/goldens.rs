//! The models that transformers and the gguf package wrote for the reference's goldens.

use std::path::{Path, PathBuf};

use tidegate_weights::{
    Architecture, Checkpoint, DecoderTensor, LayerTensor, ModelConfig, ReadWhole,
};

use crate::made::Files;

/// A golden model, in either format.
pub(crate) fn golden(name: &str) -> Checkpoint {
    let directory = goldens().join(name);
    let files = ["model.gguf", "model-00001-of-00003.gguf"].map(|name| directory.join(name));
    let path = files
        .into_iter()
        .find(|file| file.exists())
        .unwrap_or(directory);
    Checkpoint::open(&path, &ReadWhole).unwrap_or_else(|error| panic!("{error}"))
}

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/tests/golden")
}

#[test]
fn every_model_that_transformers_wrote_opens_whole_and_finite() {
    let mut opened = 0;
    for entry in std::fs::read_dir(goldens()).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let files = ["model.gguf", "model-00001-of-00003.gguf", "config.json"];
        if !files.iter().any(|file| path.join(file).exists()) {
            continue;
        }
        let checkpoint = golden(&entry.file_name().into_string().unwrap());
        checkpoint.check().unwrap_or_else(|error| panic!("{error}"));
        match checkpoint.architecture() {
            Architecture::Decoder(config) => {
                for tensor in config.tensors() {
                    checkpoint.tensor(tensor).unwrap().check_finite().unwrap();
                }
            }
            Architecture::Encoder(config) => {
                for tensor in config.tensors() {
                    checkpoint
                        .encoder_tensor(tensor)
                        .unwrap()
                        .check_finite()
                        .unwrap();
                }
            }
        }
        opened += 1;
    }
    assert!(opened >= 40, "{opened} models");
}

#[test]
fn the_norms_of_the_first_bert_models_are_found_by_their_old_names() {
    let directory = goldens().join("bert-f16");
    let bytes = std::fs::read(directory.join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let names = std::str::from_utf8(&bytes[8..header]).unwrap();
    // As long as before, so that nothing else moves.
    let old = names
        .replace("LayerNorm.weight\"", "LayerNorm.gamma\" ")
        .replace("LayerNorm.bias\"", "LayerNorm.beta\"");
    assert_eq!(old.len(), names.len());
    assert!(!old.contains("LayerNorm.weight") && !old.contains("LayerNorm.bias"));
    let files = Files::default()
        .with(
            "m/config.json",
            std::fs::read(directory.join("config.json")).unwrap(),
        )
        .with(
            "m/model.safetensors",
            [&bytes[..8], old.as_bytes(), &bytes[header..]].concat(),
        );
    let (new, old) = (
        golden("bert-f16"),
        Checkpoint::open(Path::new("m"), &files).unwrap(),
    );
    old.check().unwrap();
    for tensor in new.encoder().unwrap().tensors() {
        let read = |model: &Checkpoint| model.encoder_tensor(tensor).unwrap().to_f32().unwrap();
        assert_eq!(read(&new), read(&old), "{tensor:?}");
    }
}

/// Every tensor of the two models is the same, norms with their offset, to within `tolerance`.
pub(crate) fn assert_same_tensors(a: &Checkpoint, b: &Checkpoint, tolerance: f32) {
    let (a_config, b_config) = (a.decoder().unwrap(), b.decoder().unwrap());
    let tensors: Vec<DecoderTensor> = a_config.tensors().collect();
    assert_eq!(tensors, b_config.tensors().collect::<Vec<_>>());
    for tensor in tensors {
        let read = |checkpoint: &Checkpoint, config: &ModelConfig| {
            let offset = if is_norm(tensor) {
                config.norm_offset
            } else {
                0.0
            };
            let values = checkpoint.tensor(tensor).unwrap().to_f32().unwrap();
            values
                .into_iter()
                .map(move |value| value + offset)
                .collect::<Vec<f32>>()
        };
        let (a, b) = (read(a, a_config), read(b, b_config));
        assert_eq!(a.len(), b.len(), "{tensor:?}");
        for (index, (a, b)) in a.iter().zip(&b).enumerate() {
            assert!(
                (a - b).abs() <= tolerance,
                "{tensor:?} [{index}]: {a} and {b}"
            );
        }
    }
}

fn is_norm(tensor: DecoderTensor) -> bool {
    use LayerTensor::{AttentionNorm, KeyNorm, MlpNorm, PostAttentionNorm, PostMlpNorm, QueryNorm};
    match tensor {
        DecoderTensor::FinalNorm => true,
        DecoderTensor::Layer(_, part) => matches!(
            part,
            AttentionNorm | MlpNorm | QueryNorm | KeyNorm | PostAttentionNorm | PostMlpNorm
        ),
        _ => false,
    }
}

/// What the two configurations mean for a computation is the same.
fn assert_same_meaning(a: &ModelConfig, b: &ModelConfig) {
    assert_eq!(a.layers, b.layers);
    for rope in 0..a.ropes.len() {
        for context in [20, a.context] {
            let tables = a
                .rope_table(rope, context)
                .into_iter()
                .zip(b.rope_table(rope, context));
            for (at, (a, b)) in tables.enumerate() {
                let close = (a[0] - b[0]).abs() < 1e-4 && (a[1] - b[1]).abs() < 1e-4;
                assert!(close, "table {rope} for {context} at {at}: {a:?} and {b:?}");
            }
        }
    }
    let close = |a: f64, b: f64| (a - b).abs() <= 2e-3 * b.abs();
    assert!(close(a.embedding_scale, b.embedding_scale));
    let but = |config: &ModelConfig| ModelConfig {
        architecture: String::new(),
        ropes: Vec::new(),
        embedding_scale: 0.0,
        attention_scale: 0.0,
        norm_offset: 0.0,
        ..config.clone()
    };
    assert_eq!(but(a), but(b));
}

#[test]
fn a_gguf_file_and_the_directory_it_was_made_from_are_the_same_model() {
    for (gguf, directory) in [
        ("gguf-llama-f32", "llama-tied-sharded-f32"),
        ("gguf-llama3-rope-bf16", "llama3-rope-bf16"),
        ("gguf-llama-linear-bias-f16", "llama-linear-bias-f16"),
        ("gguf-qwen2-bf16", "qwen2-bf16"),
        ("gguf-qwen3-f16", "qwen3-f16"),
        ("gguf-phi3-longrope-f16", "phi3-longrope-f16"),
        ("gguf-gemma3-bf16", "gemma3-bf16"),
        ("gguf-qwen3moe-f16", "qwen3-moe-f16"),
    ] {
        let (gguf, directory) = (golden(gguf), golden(directory));
        assert_same_meaning(gguf.decoder().unwrap(), directory.decoder().unwrap());
        assert_same_tensors(&gguf, &directory, 1e-6);
    }
}

#[test]
fn a_quantized_gguf_file_is_near_the_model_it_was_made_from() {
    // Half a step of the greatest element of a group: 1/254 of it, and 1/16.
    let directory = golden("llama-tied-sharded-f32");
    let greatest = directory
        .tensor(DecoderTensor::Embedding)
        .unwrap()
        .to_f32()
        .unwrap();
    let greatest = greatest
        .into_iter()
        .fold(0f32, |most, value| most.max(value.abs()));
    assert_same_tensors(&golden("gguf-llama-q8_0"), &directory, greatest / 200.0);
    assert_same_tensors(&golden("gguf-llama-q4_0"), &directory, greatest / 7.0);
}
