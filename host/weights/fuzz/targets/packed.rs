//! Weights of any bytes beside a `config.json` that says how another tool quantized them: how, by the first byte.

#![no_main]

mod common;

use std::path::Path;

use common::made::Files;
use common::made::config;
use common::made_packed::{
    AWQ, BYTES, FP8, GPTQ, MXFP4, WORDS, awq, compressed_bytes, compressed_words, files, fp8,
    gpt_oss, gpt_oss_config, gptq, mxfp4,
};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::Checkpoint;

const PACKINGS: [&str; 6] = [GPTQ, AWQ, FP8, WORDS, BYTES, MXFP4];

fn seeds() -> Vec<Vec<u8>> {
    let parts = [
        gptq(0x7777_7777),
        awq(),
        fp8(),
        compressed_words(),
        compressed_bytes(),
        mxfp4(),
    ];
    let seed = |(number, parts): (usize, &Vec<_>)| {
        let files = match PACKINGS[number] {
            MXFP4 => gpt_oss(parts).0,
            packing => files(packing, parts).0,
        };
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
    let config = match packing {
        MXFP4 => gpt_oss_config(),
        _ => config().replacen('{', &format!(r#"{{"quantization_config":{packing},"#), 1),
    };
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
