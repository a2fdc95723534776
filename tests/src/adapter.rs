//! Low-rank adapters of the demo's model.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Random;

/// Layers of the demo's model.
pub const LAYERS: usize = 5;
/// Width of its rows.
pub const HIDDEN: usize = 128;
const RANK: usize = 4;

/// Writes an adapter of the queries of all layers, whose rows are so wide.
pub fn write_adapter(directory: &Path, seed: u64, width: usize) {
    let mut numbers = Random(seed);
    let (mut header, mut data) = (Map::new(), Vec::new());
    for layer in 0..LAYERS {
        for (name, rows, width) in [("A", RANK, width), ("B", HIDDEN, RANK)] {
            let begin = data.len();
            for _ in 0..rows * width {
                let number = numbers.below(2001) as f32 / 1000.0 - 1.0;
                data.extend_from_slice(&number.to_le_bytes());
            }
            let module = format!("base_model.model.model.layers.{layer}.self_attn.q_proj");
            let tensor = json!({"dtype": "F32", "shape": [rows, width], "data_offsets": [begin, data.len()]});
            header.insert(format!("{module}.lora_{name}.weight"), tensor);
        }
    }
    std::fs::create_dir_all(directory).unwrap();
    // What was opened stays as it was: another file takes its place.
    std::fs::write(directory.join("new"), safetensors(header, &data)).unwrap();
    let place = directory.join("adapter_model.safetensors");
    std::fs::rename(directory.join("new"), place).unwrap();
    let config = json!({"peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK, "target_modules": ["q_proj"]});
    std::fs::write(directory.join("adapter_config.json"), config.to_string()).unwrap();
}

/// A safetensors file.
pub fn safetensors(header: Map<String, Value>, data: &[u8]) -> Vec<u8> {
    let mut header = Value::Object(header).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), data].concat()
}
