//! What a guest writes to stdout and stderr: lines of the log.

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
}
