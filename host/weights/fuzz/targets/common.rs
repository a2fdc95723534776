//! What the targets share.

#[path = "../../tests/weights/made.rs"]
#[allow(dead_code, reason = "each target and each test uses its part")]
pub(crate) mod made;

#[path = "../../tests/weights/made_packed.rs"]
#[allow(dead_code, reason = "each target and each test uses its part")]
pub(crate) mod made_packed;

#[path = "../../tests/weights/probe.rs"]
#[allow(dead_code, reason = "each target and each test uses its part")]
pub(crate) mod probe;

/// Writes the seeds to the directory that `cargo xtask fuzz` names, before the fuzzer reads it.
pub(crate) fn seed(seeds: &[Vec<u8>]) {
    let Some(directory) = std::env::var_os("TIDEGATE_FUZZ_SEEDS") else {
        return;
    };
    for (number, seed) in seeds.iter().enumerate() {
        let path = std::path::Path::new(&directory).join(format!("seed-{number}"));
        std::fs::write(&path, seed).expect("the directory of the seeds can be written to");
    }
}
