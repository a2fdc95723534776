//! What a guest writes to stdout and stderr: lines of the log, and the last words of a call that fails.

use crate::failure::TEXT_BYTES;
use crate::listener::Level;
use crate::shared::{LINE_BYTES, Shared};
use tidegate_telemetry::plain;

/// One of a guest's two outputs, as lines.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) level: Level,
    /// The line that was begun, as far as it is kept.
    begun: Vec<u8>,
    /// Bytes of that line so far.
    length: usize,
}

impl Lines {
    pub(super) fn new(level: Level) -> Lines {
        Lines {
            level,
            begun: Vec::new(),
            length: 0,
        }
    }

    /// Logs the lines that end in these bytes, and keeps the one that does not.
    pub(super) fn write(&mut self, bytes: &[u8], shared: &Shared) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_BYTES.saturating_sub(self.begun.len());
            self.begun
                .extend_from_slice(&piece[..piece.len().min(room)]);
            self.length = self.length.saturating_add(piece.len());
            if piece.ends_with(b"\n") {
                self.log(shared);
            }
        }
    }

    /// Logs what was begun and will have no end.
    pub(super) fn end(&mut self, shared: &Shared) {
        if self.length > 0 {
            self.log(shared);
        }
    }

    fn log(&mut self, shared: &Shared) {
        let length = std::mem::take(&mut self.length);
        let begun = &self.begun;
        shared.log_with(self.level, || {
            let text = String::from_utf8_lossy(begun);
            if length <= LINE_BYTES {
                return text.trim_end().to_owned().into();
            }
            let said = format!("… ({length} bytes in all)");
            // Escapes may make it longer than it is; the host's own words stay.
            let shown = plain(&text, LINE_BYTES - 2 * said.len());
            let shown = &shown[..shown.floor_char_boundary(LINE_BYTES - 2 * said.len())];
            format!("{shown}{said}").into()
        });
        self.begun.clear();
    }
}

/// The end of what was written to stderr during one call.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    bytes: Vec<u8>,
    /// Bytes that were dropped before them.
    before: usize,
}

impl LastWords {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.before = 0;
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Not at each write, so that what is written is moved twice at most.
        if self.bytes.len() > 2 * TEXT_BYTES {
            let extra = self.bytes.len() - TEXT_BYTES;
            self.bytes.drain(..extra);
            self.before += extra;
        }
    }

    /// The last 4 KiB, a line for each line; none if nothing was written.
    pub(super) fn text(&self) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_however_it_is_written_and_says_how_long_it_was() {
        let shared = Shared::new("s".into());
        let mut lines = Lines::new(Level::Info);
        lines.write(b"one ", &shared);
        lines.write(b"line\nand\nanother", &shared);
        assert_eq!(shared.stats().lines, 2);
        assert_eq!((lines.begun.as_slice(), lines.length), (&b"another"[..], 7));
        for _ in 0..100 {
            lines.write(&[b'x'; LINE_BYTES], &shared);
        }
        assert_eq!(shared.stats().lines, 2);
        assert_eq!(
            lines.begun.len(),
            LINE_BYTES,
            "no more is kept than is shown"
        );
        lines.end(&shared);
        lines.end(&shared);
        assert_eq!(shared.stats().lines, 3);
        assert!(lines.begun.is_empty());
    }

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
}
