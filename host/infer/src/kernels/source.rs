//! The text of a kernel: optional features, constants, then the files it is made of.

/// A file under `shaders/`, by its path from there.
macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../shaders/",
            $name
        ))
    };
}
pub(crate) use shader;

/// How kernels for software adapters read what is four or two words wide: any device can.
pub(crate) const WORDS: &str = shader!("words.wgsl");

/// A kernel that reads words, as a device reads them that has integers of 64 bits: the same bits with half as many components.
pub(crate) fn in_longs(text: &str) -> String {
    text.replace(WORDS, shader!("words_in_longs.wgsl"))
}

/// Lanes of a workgroup, unless said otherwise.
pub(crate) const LANES: u32 = 64;

/// Joins constants and files.
pub(crate) fn join(constants: &[(&str, u32)], files: &[&str]) -> String {
    let mut text: String = constants
        .iter()
        .map(|(name, value)| format!("const {name}: u32 = {value}u;\n"))
        .collect();
    for file in files {
        text.push('\n');
        text.push_str(file);
    }
    text
}

/// Writes a file out for each of `lanes` lanes, `$N` in it being the lane: WGSL has no macros, a broadcast wants a constant
/// lane, and drivers do not unroll loops of that length.
pub(crate) fn for_each_lane(lanes: u32, file: &str) -> String {
    (0..lanes)
        .map(|lane| file.replace("$N", &lane.to_string()))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every line with a letter once for each of so many numbers, which stand for it.
pub(crate) fn for_each(letter: &str, count: u32, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let times = if line.contains(letter) { count } else { 1 };
        for number in 0..times {
            out += &line.replace(letter, &number.to_string());
            out.push('\n');
        }
    }
    out
}

/// A text once for each of so many numbers, which stand for its letter.
pub(crate) fn blocks(letter: &str, count: u32, text: &str) -> String {
    (0..count)
        .map(|number| text.replace(letter, &number.to_string()))
        .collect()
}

/// As [`join`], after `enable` directives: those must stand first.
pub(crate) fn join_enabled(enable: &[&str], constants: &[(&str, u32)], files: &[&str]) -> String {
    let mut text: String = enable
        .iter()
        .map(|feature| format!("enable {feature};\n"))
        .collect();
    text.push_str(&join(constants, files));
    text
}
