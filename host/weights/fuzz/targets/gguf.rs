//! A GGUF file of any bytes; where the first byte is even, with 4 KiB of data after them, so that what the fuzzer changes
//! is the header.

#![no_main]

mod common;

use std::path::Path;

use common::made::{BLOCKS, Files, OF_EXPERTS, Value, gguf, gguf_encoder, gguf_experts, gguf_in};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::{Checkpoint, gguf_nearest, gguf_summary, gguf_vocabulary};

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
    // A header is cut off before its data, the whole file is not.
    let header = |bytes: &Vec<u8>| {
        let data: u64 = gguf()
            .tensors
            .iter()
            .map(|(.., bytes)| (bytes.len() as u64).next_multiple_of(32))
            .sum();
        let end = bytes.len().saturating_sub(data as usize);
        [&[0], &bytes[..end]].concat()
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
    let mut seeds: Vec<Vec<u8>> = seeds.iter().map(header).collect();
    seeds.push([&[1], gguf().bytes().as_slice()].concat());
    for nomic in [false, true] {
        let mut file = gguf_encoder(nomic);
        seeds.push([&[1], file.bytes().as_slice()].concat());
        // The header alone fits into what is fuzzed.
        file.tensors.iter_mut().for_each(|tensor| tensor.3.clear());
        seeds.push([&[0], file.bytes().as_slice()].concat());
    }
    for architecture in OF_EXPERTS {
        let mut file = gguf_experts(architecture);
        file.tensors.iter_mut().for_each(|tensor| tensor.3.clear());
        seeds.push([&[0], file.bytes().as_slice()].concat());
    }
    // Every format of blocks in the place of another.
    for (number, elements, ..) in BLOCKS {
        let mut file = gguf();
        if elements == 32 {
            file.tensors[5].2 = number;
        } else {
            // The header alone fits into what is fuzzed.
            file = gguf_in(number);
            file.tensors.iter_mut().for_each(|tensor| tensor.3.clear());
        }
        seeds.push([&[0], file.bytes().as_slice()].concat());
    }
    seeds
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let mut file = rest.to_vec();
    if first % 2 == 0 {
        // Halves of about 0.1, and scales of about 0.004.
        file.extend([0x1c, 0x2c].repeat(2048));
    }
    let files = Files::default().with("m.gguf", file);
    // Also of what is no model.
    let _ = gguf_vocabulary(Path::new("m.gguf"), &files).map_err(|error| error.to_string());
    let summary = gguf_summary(Path::new("m.gguf"), &files);
    match Checkpoint::open(Path::new("m.gguf"), &files) {
        Ok(checkpoint) => {
            common::probe::probe(&checkpoint);
            let _ = checkpoint.reencoded();
            assert!(summary.is_ok());
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = summary.map(|summary| summary.nearest(&error));
            let _ = gguf_nearest(&error);
        }
    }
});
