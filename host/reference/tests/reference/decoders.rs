//! Decoders of every family against the transformers library in float64.

use std::collections::BTreeMap;

use tidegate_reference::golden::{
    self, DECODERS, GGUF_DECODERS, GGUF_ENCODERS, PACKED_DECODERS, REENCODED_DECODERS,
    REENCODED_ENCODERS,
};
use tidegate_weights::{Checkpoint, EncoderConfig};

use crate::support::{assert_close, checkpoint, decoder_of, logits, sequence};

/// Both are float64 throughout and differ in the order of sums only; logits are sums of a few hundred products that
/// went through at most three layers.
const TOLERANCE: f64 = 1e-12;

#[track_caller]
fn check(name: &str, tolerance: f64) {
    let checkpoint = checkpoint(name).exact();
    checkpoint.check().unwrap();
    for case in golden::decoder(name).unwrap() {
        let mut decoder = decoder_of(&checkpoint, case.context);
        let blocks: Vec<u32> = (0..4).collect();
        let found = logits(&mut decoder, &[sequence(0, &case.tokens, &blocks)]);
        let vocabulary = found.len() / case.tokens.len();
        for (&position, expected) in case.positions.iter().zip(&case.logits) {
            let found = &found[position * vocabulary..][..vocabulary];
            let what = format!("{name}, {} tokens, position {position}", case.tokens.len());
            assert_close(found, expected, tolerance, &what);
        }
    }
}

#[test]
fn every_family_gives_the_logits_of_transformers() {
    for name in DECODERS {
        check(name, TOLERANCE);
    }
}

#[test]
fn every_gguf_gives_the_logits_of_what_it_holds() {
    for name in GGUF_DECODERS.into_iter().chain(REENCODED_DECODERS) {
        let tolerance = match name {
            // Its stretch of the frequencies is a tensor of f32 factors.
            "gguf-llama3-rope-bf16" | "gguf-phi3-longrope-f16" => 1e-6,
            // Epsilon is f32 in every GGUF.
            _ => 1e-9,
        };
        check(name, tolerance);
    }
}

#[test]
fn every_packed_model_gives_the_logits_of_what_it_says() {
    for name in PACKED_DECODERS {
        // Products of an 8-bit float and its scale are rounded to f32.
        let tolerance = if name.contains("fp8") {
            1e-6
        } else {
            TOLERANCE
        };
        check(name, tolerance);
    }
}

#[test]
fn a_gguf_holds_the_tensors_of_its_safetensors() {
    let pairs = [
        ("gguf-llama-f32", "llama-tied-sharded-f32"),
        ("gguf-llama-linear-bias-f16", "llama-linear-bias-f16"),
        ("gguf-llama3-rope-bf16", "llama3-rope-bf16"),
        ("gguf-qwen2-bf16", "qwen2-bf16"),
        ("gguf-qwen3-f16", "qwen3-f16"),
        ("gguf-phi3-longrope-f16", "phi3-longrope-f16"),
        ("gguf-mixtral-bf16", "mixtral-bf16"),
        ("gguf-qwen2moe-f16", "qwen2-moe-f16"),
        ("gguf-qwen3moe-f16", "qwen3-moe-f16"),
    ];
    for (gguf, directory) in pairs {
        let (gguf, directory) = (checkpoint(gguf), checkpoint(directory));
        let config = directory.decoder().unwrap();
        let rows = |checkpoint: &Checkpoint, tensor| -> Vec<f32> {
            checkpoint.tensor(tensor).unwrap().to_f32().unwrap()
        };
        for tensor in config.tensors() {
            assert_eq!(rows(&gguf, tensor), rows(&directory, tensor), "{tensor:?}");
        }
    }
    for (gguf, directory) in [
        ("gguf-bert-f16", "bert-f16"),
        ("gguf-nomic-bert-f16", "nomic-bert-f16"),
        ("gguf-qwen3-embedding-bf16", "qwen3-embedding-bf16"),
    ] {
        let (gguf, directory) = (checkpoint(gguf), checkpoint(directory));
        let config = directory.encoder().unwrap();
        let rows = |checkpoint: &Checkpoint, tensor| -> Vec<f32> {
            checkpoint.encoder_tensor(tensor).unwrap().to_f32().unwrap()
        };
        for tensor in config.tensors() {
            assert_eq!(rows(&gguf, tensor), rows(&directory, tensor), "{tensor:?}");
        }
        let said = EncoderConfig {
            // No key of a GGUF file says them.
            prompts: config.prompts.clone(),
            architecture: config.architecture.clone(),
            decoder: config.decoder.clone(),
            ..gguf.encoder().unwrap().clone()
        };
        assert_eq!(said, *config);
    }
}

/// The CRC-32 of every tensor that has its own place in the file, against the gguf package's dequantization and that of the
/// packings' definitions.
#[test]
fn every_quantized_format_is_dequantized_bit_by_bit() {
    let names = GGUF_DECODERS.into_iter().chain(REENCODED_DECODERS);
    let encoders = GGUF_ENCODERS.into_iter().chain(REENCODED_ENCODERS);
    for name in names.chain(PACKED_DECODERS).chain(encoders) {
        let sums = golden::dequantized(name).unwrap();
        let checkpoint = checkpoint(name).exact();
        // Matrices of experts lie one after another in one tensor.
        let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        // So do queries, keys and values of Nomic.
        for tensor in checkpoint.all_tensors() {
            let tensor = tensor.unwrap();
            // Of a fused tensor only a slice is read at a time.
            if ["attn_qkv", "ffn_up", "qkv_proj", "gate_up_proj"]
                .iter()
                .any(|fused| tensor.name().contains(fused))
                && name.contains("phi3")
            {
                continue;
            }
            let values = tensor.to_f32().unwrap();
            let bytes = found.entry(tensor.name().to_owned()).or_default();
            bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        }
        for (tensor, bytes) in &found {
            let expected = sums.get(tensor).copied();
            assert_eq!(Some(crc32fast::hash(bytes)), expected, "{name}: {tensor}");
        }
        assert!(found.len() > 10, "{name}");
    }
}
