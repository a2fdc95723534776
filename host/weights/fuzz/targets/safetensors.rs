//! Weights of any bytes beside a good `config.json`; or, where the first byte is odd, an index and a file of weights that
//! are cut at the second byte times 16.

#![no_main]

mod common;

use std::path::Path;

use common::made::{Files, Tensor, config, safetensors, tensors};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::Checkpoint;

/// The model with int8 matrices where rows are 32 wide.
fn quantized() -> Vec<Tensor> {
    let mut all = Vec::new();
    for tensor in tensors() {
        match *tensor.shape.as_slice() {
            [rows, 32] => {
                all.push(Tensor {
                    name: format!("{}_scale", tensor.name),
                    shape: vec![rows, 1],
                    bytes: tensor.bytes[..2 * rows].to_vec(),
                    ..tensor.clone()
                });
                all.push(Tensor {
                    dtype: "I8",
                    bytes: tensor.bytes[..32 * rows].to_vec(),
                    ..tensor
                });
            }
            _ => all.push(tensor),
        }
    }
    all
}

fn seeds() -> Vec<Vec<u8>> {
    let with = |first: &[u8], rest: &[u8]| [first, rest].concat();
    let whole = safetensors(&tensors());
    let index =
        br#"{"weight_map":{"model.norm.weight":"a.safetensors","lm_head.weight":"a.safetensors"}}"#;
    let index = with(index, &vec![b' '; 160 - index.len()]);
    vec![
        with(&[0, 0], &whole),
        with(&[0, 0], &safetensors(&quantized())),
        with(&[1, 10], &with(&index, &safetensors(&tensors()[7..10]))),
    ]
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let config = if head[0] & 2 == 0 {
        config().replacen('{', r#"{"quantization_config":{"quant_method":"tidegate","bits":8,"group_size":32},"#, 1)
    } else {
        config()
    };
    let files = Files::default().with("m/config.json", config);
    let files = if head[0] & 1 == 0 {
        files.with("m/model.safetensors", rest)
    } else {
        let (index, weights) = rest.split_at(rest.len().min(16 * usize::from(head[1])));
        files.with("m/model.safetensors.index.json", index).with("m/a.safetensors", weights)
    };
    match Checkpoint::open(Path::new("m"), &files) {
        Ok(checkpoint) => {
            common::probe::probe(&checkpoint);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
