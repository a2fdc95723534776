//! What a guest said in a call that fails: its log lines and what it wrote to stderr. A traceback of its language, or the
//! text of its panic, says more than the backtrace of WebAssembly.

use tidegate_telemetry::plain;

use crate::failure::TEXT_BYTES;
use crate::listener::Level;

/// The end of what was said in one way during one call.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    bytes: Vec<u8>,
    /// Bytes that were dropped before them.
    before: usize,
}

impl LastWords {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.before = 0;
    }

    /// A line of the log.
    pub(crate) fn line(&mut self, level: Level, line: &str) {
        self.write(level.name().as_bytes());
        self.write(b" ");
        self.write(line.as_bytes());
        self.write(b"\n");
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Not at each write, so that what is written is moved twice at most.
        if self.bytes.len() > 2 * TEXT_BYTES {
            let extra = self.bytes.len() - TEXT_BYTES;
            self.bytes.drain(..extra);
            self.before += extra;
        }
    }

    /// The last 4 KiB, a line for each line; none if nothing was written.
    pub(crate) fn text(&self) -> Option<String> {
        let cut = self.bytes.len().saturating_sub(TEXT_BYTES);
        let before = self.before + cut;
        let text = String::from_utf8_lossy(&self.bytes[cut..]);
        let text = text.trim_end();
        if text.is_empty() {
            return None;
        }
        let mut shown = String::new();
        if before > 0 {
            shown = format!("(after {before} bytes more)\n");
        }
        let mut room = TEXT_BYTES;
        for line in text.lines() {
            let line = plain(line, room);
            room = room.saturating_sub(line.len() + 1);
            shown.push_str(&line);
            shown.push('\n');
            if room == 0 {
                break;
            }
        }
        shown.truncate(shown.trim_end().len());
        Some(shown)
    }
}

/// Both in one text, each after what it is; none if nothing was said.
pub(crate) fn joined(log: &LastWords, stderr: Option<&LastWords>) -> Option<String> {
    let titled = |title: &str, words: &LastWords| Some(format!("{title}:\n{}", words.text()?));
    let stderr = stderr.and_then(|stderr| titled("standard error", stderr));
    let said: Vec<String> = stderr.into_iter().chain(titled("log", log)).collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_those_at_the_end_and_cannot_disturb() {
        let mut words = LastWords::default();
        assert_eq!(words.text(), None);
        words.write(b"Traceback:\n  File \"op.py\"\nValueError: \x1b[2J bad\n");
        assert_eq!(
            words.text().unwrap(),
            "Traceback:\n  File \"op.py\"\nValueError: \\u{1b}[2J bad"
        );
        for _ in 0..1000 {
            words.write(&[b'x'; 1000]);
        }
        words.write(b"\nthe end");
        assert!(words.bytes.len() <= 2 * TEXT_BYTES + 1000);
        let text = words.text().unwrap();
        assert!(
            text.starts_with("(after ") && text.ends_with("x\nthe end"),
            "{text}"
        );
        assert!(text.len() < TEXT_BYTES + 64, "{}", text.len());
        words.clear();
        assert_eq!(words.text(), None);
        words.write(b"\n".repeat(3 * TEXT_BYTES).as_slice());
        assert_eq!(words.text(), None);
        words.write("\u{7}".repeat(TEXT_BYTES).as_bytes());
        assert!(words.text().unwrap().len() < 2 * TEXT_BYTES);
    }

    #[test]
    fn lines_of_the_log_have_their_level_and_come_after_stderr() {
        let (mut log, mut stderr) = (LastWords::default(), LastWords::default());
        assert_eq!(joined(&log, Some(&stderr)), None);
        log.line(Level::Error, "panicked at src/lib.rs:1:2:\nboom\x1b");
        let said = "log:\nerror panicked at src/lib.rs:1:2:\nboom\\u{1b}";
        assert_eq!(joined(&log, None).as_deref(), Some(said));
        log.clear();
        log.line(Level::Info, "a line");
        assert_eq!(joined(&log, Some(&stderr)).unwrap(), "log:\ninfo a line");
        stderr.write(b"Traceback");
        assert_eq!(
            joined(&log, Some(&stderr)).unwrap(),
            "standard error:\nTraceback\nlog:\ninfo a line"
        );
    }
}
