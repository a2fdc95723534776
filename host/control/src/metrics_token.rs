//! The token that whoever scrapes metrics shows: it stays the same over restarts, and is good for nothing else.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Least bytes of a token.
const LEAST: usize = 16;
/// Most bytes of its file.
const MOST: u64 = 4096;

/// The token in a file, without the space around it. The file is read anew each time, so that a token may change while
/// the pipeline runs.
pub fn read_metrics_token(path: &Path) -> Result<String, String> {
    let wrong = |why: String| format!("the file of the metrics token {}: {why}", path.display());
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MOST + 1).read_to_string(&mut text));
    read.map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > MOST {
        return Err(wrong(format!("it has more than {MOST} bytes")));
    }
    let token = text.trim();
    if token.len() < LEAST {
        let found = token.len();
        return Err(wrong(format!(
            "the token has {found} bytes, at least {LEAST}"
        )));
    }
    if let Some(other) = token.bytes().find(|byte| !byte.is_ascii_graphic()) {
        return Err(wrong(format!(
            "the token has the byte {other}, and no header may say that"
        )));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_enough_and_can_be_said_in_a_header() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_metrics_token(&path)
        };
        assert_eq!(read(" 0123456789abcdef\n").unwrap(), "0123456789abcdef");
        for (text, why) in [
            ("0123456789abcde\n", "the token has 15 bytes, at least 16"),
            ("0123456789 abcdef", "the token has the byte 32"),
            (&"x".repeat(5000), "it has more than 4096 bytes"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            read_metrics_token(&path)
                .unwrap_err()
                .contains("No such file")
        );
    }
}
