//! Encoders whose widths are multiples of 32, so that their matrices can be quantized: each has the architecture, the files and the
//! names of a golden one, and random numbers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::golden::{self, GoldenError};

/// Width of the residual stream.
const HIDDEN: u64 = 96;

/// Width of the feed-forward layer.
const INTERMEDIATE: u64 = 160;

/// Files that stand beside a model.
const BESIDE: [&str; 3] = [
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
];

/// Writes one like the golden encoder `name`, one of [`golden::ENCODERS`], into `directory`.
///
/// # Errors
/// A file of the golden is missing or not what the script writes, or one cannot be written.
pub fn encoder(name: &str, directory: &Path) -> Result<(), GoldenError> {
    let folder = golden::folder(name);
    let path = folder.join("config.json");
    let mut config: Map<String, Value> = golden::json(&path)?;
    let number = |keys: [&'static str; 3]| {
        let found = keys
            .into_iter()
            .find_map(|key| Some((key, config.get(key)?.as_u64()?)));
        found.ok_or_else(|| GoldenError::Key {
            path: path.clone(),
            keys: keys.join(", "),
        })
    };
    let (hidden_key, hidden) = number(["hidden_size", "dim", "n_embd"])?;
    let (inner_key, inner) = number(["intermediate_size", "hidden_dim", "n_inner"])?;
    let count = |key: &str| config.get(key).and_then(Value::as_u64);
    let mut widths = BTreeMap::from([
        (hidden, HIDDEN),
        (3 * hidden, 3 * HIDDEN),
        (inner, INTERMEDIATE),
        (2 * inner, 2 * INTERMEDIATE),
    ]);
    // Of a decoder whose heads are as wide as its rows together; others keep theirs.
    if let (Some(heads), Some(keys)) = (count("num_attention_heads"), count("num_key_value_heads"))
    {
        let head = count("head_dim");
        if head.is_none_or(|head| head * heads == hidden) {
            widths.insert(hidden * keys / heads, HIDDEN * keys / heads);
            if head.is_some() {
                config.insert("head_dim".to_owned(), json!(HIDDEN / heads));
            }
        }
    }
    config.insert(hidden_key.to_owned(), json!(HIDDEN));
    config.insert(inner_key.to_owned(), json!(INTERMEDIATE));
    golden::write(&directory.join("config.json"), json!(config).to_string())?;
    for file in BESIDE {
        if let Ok(bytes) = std::fs::read(folder.join(file)) {
            golden::write(&directory.join(file), bytes)?;
        }
    }

    let stored = golden::bytes(&folder.join("model.safetensors"))?;
    let length = stored.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)) as usize;
    let header = stored.get(8..8 + length).unwrap_or_default();
    let header: Map<String, Value> = golden::parsed(&folder.join("model.safetensors"), header)?;
    let (mut listed, mut data, mut random) = (Map::new(), Vec::new(), Numbers(23));
    for (name, tensor) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let shape = tensor["shape"].as_array().into_iter().flatten();
        let shape = shape.filter_map(Value::as_u64);
        // Words, positions, types and labels stay as many as they are.
        let rows_stay = name.contains("embed") || name.starts_with("classifier.weight");
        let shape: Vec<u64> = shape
            .enumerate()
            .map(|(axis, n)| match axis {
                0 if rows_stay && name.ends_with("weight") && !name.contains("orm") => n,
                _ => *widths.get(&n).unwrap_or(&n),
            })
            .collect();
        let scale = match shape.as_slice() {
            [_, _] if name.contains("embed") => 1.0,
            [_, width] => 2.2 / (*width as f32).sqrt(),
            _ => 0.4,
        };
        let middle = match shape.len() {
            1 if name.ends_with("weight") => 1.0,
            _ => 0.0,
        };
        let begin = data.len();
        for _ in 0..shape.iter().product() {
            data.extend((middle + scale * random.unit()).to_le_bytes());
        }
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
        listed.insert(name.clone(), entry);
    }
    let header = Value::Object(listed).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend(data);
    golden::write(&directory.join("model.safetensors"), file)
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Numbers(u64);

impl Numbers {
    /// In -1..1.
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
