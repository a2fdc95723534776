//! A model in up to three parts of any bytes: after a byte that says which is given and four that say where they are cut, the
//! parts one after another. Where that byte is below 128, each has 4 KiB of data after it.

#![no_main]

mod common;

use std::path::Path;

use common::made::{Files, Gguf, gguf, gguf_in};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::{Checkpoint, gguf_nearest, gguf_summary, gguf_vocabulary};

const NAMES: [&str; 3] = [
    "m-00001-of-00003.gguf",
    "m-00002-of-00003.gguf",
    "m-00003-of-00003.gguf",
];

fn seed(given: u8, parts: &[Gguf]) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = parts.iter().map(Gguf::bytes).collect();
    // Headers alone where data follows by itself.
    let parts: Vec<Vec<u8>> = parts
        .into_iter()
        .map(|mut bytes| {
            bytes.truncate(if given < 128 { 2000 } else { bytes.len() });
            bytes
        })
        .collect();
    let cut = |part: usize| (parts[part].len() as u16).to_le_bytes();
    [&[given], &cut(0)[..], &cut(1), &parts.concat()].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let parts = |sizes: &[usize]| gguf().parts(sizes);
    let mut seeds = vec![
        seed(128, &parts(&[4, 5, 2])),
        seed(129, &parts(&[0, 9, 2])),
        seed(130, &parts(&[1, 1, 9])),
        seed(131, &parts(&[1, 1, 3])),
    ];
    let mut doubled = parts(&[4, 5, 2]);
    doubled[2] = doubled[1].clone();
    seeds.push(seed(128, &doubled));
    doubled[2] = gguf();
    seeds.push(seed(129, &doubled));
    seeds.push(seed(0, &gguf_in(13).parts(&[4, 5, 2])));
    seeds.push(seed(1, &gguf_in(20).parts(&[4, 5, 2])));
    seeds
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<5>() else {
        return;
    };
    let cut = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let (first, rest) = rest.split_at(rest.len().min(cut(1)));
    let (second, third) = rest.split_at(rest.len().min(cut(3)));
    let mut files = Files::default();
    for (name, part) in NAMES.into_iter().zip([first, second, third]) {
        // One that is empty is not there.
        if part.is_empty() {
            continue;
        }
        let mut part = part.to_vec();
        if head[0] < 128 {
            part.extend([0x1c, 0x2c].repeat(2048));
        }
        files = files.with(name, part);
    }
    let given = Path::new(NAMES[usize::from(head[0] % 3)]);
    let _ = gguf_vocabulary(given, &files).map_err(|error| error.to_string());
    let summary = gguf_summary(given, &files);
    match Checkpoint::open(given, &files) {
        Ok(checkpoint) => {
            common::probe::probe(&checkpoint);
            let _ = checkpoint.reencoded();
            assert!(summary.is_ok_and(|summary| summary.parts.iter().all(|part| part.problem.is_none())));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = summary.map(|summary| summary.nearest(&error));
            let _ = gguf_nearest(&error);
        }
    }
});
