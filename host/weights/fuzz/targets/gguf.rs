//! A GGUF file of any bytes.

#![no_main]

mod common;

use std::path::Path;

use common::made::{Files, Value, gguf};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::Checkpoint;

fn seeds() -> Vec<Vec<u8>> {
    let named = |name: &str| {
        let mut file = gguf();
        for (key, _) in &mut file.keys {
            *key = key.replace("llama.", &format!("{name}."));
        }
        file.set("general.architecture", Value::Text(name.into()))
            .set(&format!("{name}.attention.sliding_window"), Value::U32(4))
            .set(
                &format!("{name}.rope.scaling.type"),
                Value::Text(b"yarn".to_vec()),
            )
            .set(&format!("{name}.rope.scaling.factor"), Value::F32(2.0))
            .bytes()
    };
    let names = [
        "llama", "smollm3", "qwen2", "qwen3", "phi3", "gemma2", "gemma3",
    ];
    let mut seeds: Vec<Vec<u8>> = names.map(named).to_vec();
    let mut factors = gguf();
    let ones = |count: usize| {
        (0..count)
            .flat_map(|_| 1f32.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    factors
        .tensors
        .push(("rope_freqs.weight".to_owned(), vec![4], 0, ones(4)));
    factors
        .tensors
        .push(("blk.0.attn_q.bias".to_owned(), vec![16], 0, ones(16)));
    seeds.push(factors.bytes());
    seeds.push(gguf().bytes());
    seeds
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    let files = Files::default().with("m.gguf", data);
    match Checkpoint::open(Path::new("m.gguf"), &files) {
        Ok(checkpoint) => {
            common::probe::probe(&checkpoint);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
