//! The whole model against logits that the transformers library gave once (`tests/golden/make_golden.py`).

use tidegate_infer::{Decoder, DecoderOptions, GpuDecoder, ModelConfig, ReferenceDecoder, Weights};

use crate::support::{FAMILIES, adapter, assert_close, golden, options, rows, step};

const MODELS: [&str; 3] = ["gqa-tied-f32", "odd-heads-untied-f16", "theta-bf16"];

fn prompts(model: &str) -> Vec<(Vec<u32>, Vec<f64>)> {
    let text = std::fs::read(golden(model).join("golden.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let prompts = file["prompts"].as_array().unwrap();
    prompts
        .iter()
        .map(|prompt| {
            let tokens = prompt["tokens"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t.as_u64().unwrap() as u32)
                .collect();
            let logits =
                std::fs::read(golden(model).join(prompt["logits"].as_str().unwrap())).unwrap();
            let logits = logits
                .as_chunks()
                .0
                .iter()
                .map(|b| f64::from(f32::from_le_bytes(*b)))
                .collect();
            (tokens, logits)
        })
        .collect()
}

fn check(decoder: &mut impl Decoder, model: &str, tolerance: f64) {
    for (slot, (tokens, expected)) in prompts(model).into_iter().enumerate() {
        let found = step(decoder, &rows(slot as u32, 0, &tokens));
        assert_close(
            &found,
            &expected,
            tolerance,
            &format!("{model} prompt {slot}"),
        );
    }
}

fn load(model: &str) -> (ModelConfig, Weights) {
    (
        ModelConfig::from_dir(golden(model)).unwrap(),
        Weights::open(golden(model)).unwrap(),
    )
}

#[test]
fn the_float64_reference_matches_the_transformers_library() {
    for model in MODELS {
        let (config, weights) = load(model);
        let options = DecoderOptions {
            context: 32,
            ..DecoderOptions::default()
        };
        check(
            &mut ReferenceDecoder::load(&config, &weights, &options).unwrap(),
            model,
            1e-6,
        );
    }
}

#[test]
fn logits_match_the_transformers_library() {
    for family in FAMILIES {
        for model in MODELS {
            let (config, weights) = load(model);
            let options = DecoderOptions {
                context: 32,
                ..options(family)
            };
            check(
                &mut GpuDecoder::load(adapter(), &config, weights, options).unwrap(),
                model,
                2e-5,
            );
        }
    }
}
