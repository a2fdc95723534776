//! What the targets share.

/// Writes the golden arenas to the directory that `cargo xtask fuzz` names, before the fuzzer reads it; `before` goes in
/// front of each.
pub(crate) fn seed(before: &[u8], golden: &[&str]) {
    let Some(directory) = std::env::var_os("TIDEGATE_FUZZ_SEEDS") else {
        return;
    };
    for (number, text) in golden.iter().enumerate() {
        let mut bytes = before.to_vec();
        bytes.extend(arena(text));
        let path = std::path::Path::new(&directory).join(format!("seed-{number}"));
        std::fs::write(&path, bytes).expect("the directory of the seeds can be written to");
    }
}

/// The bytes of a golden file: see `wit/README.md`.
fn arena(text: &str) -> Vec<u8> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.flat_map(|line| line.split_whitespace().skip(1));
    words
        .map(|word| u8::from_str_radix(word, 16).expect("golden files are hexadecimal"))
        .collect()
}
