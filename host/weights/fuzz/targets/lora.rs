//! An adapter of any bytes: the first byte times 16 are its configuration, the rest its weights. What is opened fits its base, and
//! its rows are read or refused.

#![no_main]

mod common;

use std::path::Path;

use common::made::{Files, Tensor, config, safetensors};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::{Checkpoint, LayerTensor, Lora, LoraSummary, ModelConfig};

/// The model of the tests.
fn base() -> ModelConfig {
    let files = Files::default()
        .with("m/config.json", config())
        .with("m/model.safetensors", safetensors(&common::made::tensors()));
    let checkpoint =
        Checkpoint::open(Path::new("m"), &files).expect("the model of the tests is whole");
    checkpoint.decoder().expect("it is a decoder").clone()
}

fn seeds() -> Vec<Vec<u8>> {
    let base = base();
    let shape = |part| {
        base.shape(tidegate_weights::DecoderTensor::Layer(0, part))
            .expect("it is there")
    };
    let mut tensors = Vec::new();
    for (module, part) in [
        ("self_attn.q_proj", LayerTensor::Query),
        ("mlp.down_proj", LayerTensor::Down),
    ] {
        let shape = shape(part);
        for (which, shape) in [("A", vec![2, shape[1]]), ("B", vec![shape[0], 2])] {
            tensors.push(Tensor {
                name: format!("base_model.model.model.layers.0.{module}.lora_{which}.weight"),
                dtype: "F16",
                bytes: vec![0x20; 2 * shape.iter().product::<usize>()],
                shape,
            });
        }
    }
    let config = [
        r#"{"peft_type":"LORA","r":2,"lora_alpha":4}"#,
        r#"{"peft_type":"LORA","r":8,"lora_alpha":4,"use_rslora":true,"rank_pattern":{".*":2},"alpha_pattern":{"q_proj":3}}"#,
    ];
    let seed = |config: &str| {
        let blocks = config.len().div_ceil(16);
        let mut seed = vec![blocks as u8];
        seed.extend(config.bytes());
        seed.resize(1 + 16 * blocks, b' ');
        seed.extend(safetensors(&tensors));
        seed
    };
    config.map(seed).into()
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let base = base();
    let (config, weights) = rest.split_at(rest.len().min(16 * usize::from(*first)));
    let files = Files::default()
        .with("a/adapter_config.json", config)
        .with("a/adapter_model.safetensors", weights);
    if let Err(error) = LoraSummary::read(Path::new("a"), &files) {
        assert!(!error.to_string().is_empty());
    }
    let lora = match Lora::open(Path::new("a"), &base, &files) {
        Ok(lora) => lora,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut row = Vec::new();
    for layer in 0..base.layers.len() {
        for part in [LayerTensor::Query, LayerTensor::Gate, LayerTensor::Down] {
            let Some(pair) = lora.low_rank(layer, part).expect("it was looked at") else {
                continue;
            };
            let shape = base.shape(tidegate_weights::DecoderTensor::Layer(layer, part));
            assert_eq!(shape, Some(vec![pair.b.rows(), pair.a.width()]));
            assert_eq!(pair.a.rows(), pair.b.width());
            for tensor in [&pair.a, &pair.b] {
                for index in 0..tensor.rows() {
                    if tensor.read_row(index, &mut row).is_ok() {
                        assert!(row.iter().all(|value| value.is_finite()));
                    }
                }
            }
        }
    }
});
