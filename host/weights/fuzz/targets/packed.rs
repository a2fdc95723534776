//! Weights of any bytes beside a `config.json` that says how another tool quantized them: how, by the first byte.

#![no_main]

mod common;

use std::path::Path;

use common::made::Files;
use common::made::config;
use common::made_packed::{
    AWQ, BYTES, FP8, GPTQ, WORDS, awq, compressed_bytes, compressed_words, files, fp8, gptq,
};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::Checkpoint;

const PACKINGS: [&str; 5] = [GPTQ, AWQ, FP8, WORDS, BYTES];

fn seeds() -> Vec<Vec<u8>> {
    let parts = [
        gptq(0x7777_7777),
        awq(),
        fp8(),
        compressed_words(),
        compressed_bytes(),
    ];
    let seed = |(number, parts): (usize, &Vec<_>)| {
        let files = files(PACKINGS[number], parts).0;
        [
            &[number as u8],
            files[Path::new("m/model.safetensors")].as_slice(),
        ]
        .concat()
    };
    parts.iter().enumerate().map(seed).collect()
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    let Some((first, weights)) = data.split_first() else {
        return;
    };
    let packing = PACKINGS[usize::from(*first) % PACKINGS.len()];
    let config = config().replacen('{', &format!(r#"{{"quantization_config":{packing},"#), 1);
    let files = Files::default()
        .with("m/config.json", config)
        .with("m/model.safetensors", weights);
    match Checkpoint::open(Path::new("m"), &files) {
        Ok(checkpoint) => {
            common::probe::probe(&checkpoint);
            let _ = checkpoint.reencoded();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
