//! Numbers on the command line, each with its least and its most.

/// A number of sequences or positions.
pub(super) fn count(text: &str) -> Result<usize, String> {
    whole_number(text, 1 << 20)
}

/// Sequences that decode together; as many as a pipeline file may ask for.
pub(super) fn batch(text: &str) -> Result<usize, String> {
    whole_number(text, 1024)
}

/// Records of a batch of `tidegate bench`.
pub(super) fn bench_batch(text: &str) -> Result<usize, String> {
    whole_number(text, 65_536)
}

fn whole_number(text: &str, most: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("{text:?} is not a whole number from 1 to {most}")),
    }
}

/// A time that a measurement may take.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!(
            "{text:?} is not a number of seconds from 0.01 to 600"
        )),
    }
}
