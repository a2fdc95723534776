//! The models that transformers wrote for the reference's goldens.

use std::path::{Path, PathBuf};

use tidegate_weights::{Architecture, Checkpoint, ReadWhole};

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/tests/golden")
}

#[test]
fn every_model_that_transformers_wrote_opens_whole_and_finite() {
    let mut opened = 0;
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if !path.join("config.json").exists() {
            continue;
        }
        let checkpoint = Checkpoint::open(&path, &ReadWhole).unwrap_or_else(|error| panic!("{error}"));
        checkpoint.check().unwrap_or_else(|error| panic!("{error}"));
        match checkpoint.architecture() {
            Architecture::Decoder(config) => {
                for tensor in config.tensors() {
                    checkpoint.tensor(tensor).unwrap().check_finite().unwrap();
                }
            }
            Architecture::Encoder(config) => {
                for tensor in config.tensors() {
                    checkpoint.encoder_tensor(tensor).unwrap().check_finite().unwrap();
                }
            }
        }
        opened += 1;
    }
    assert!(opened >= 10, "{opened} models");
}
