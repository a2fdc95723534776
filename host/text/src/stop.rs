//! Stop strings over streaming text.

/// Lets text through up to, and without, the first of a set of strings.
///
/// Text that could still become a stop string is held back until it is decided, wherever the borders of the pieces
/// fall. The first string to be completed stops; of several completed by the same character, the longest. Work is
/// linear in the text and memory is bounded by the longest string (Knuth-Morris-Pratt, one automaton a string).
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    patterns: Vec<Pattern>,
    /// Text that may be the beginning of a stop string.
    held: String,
    stopped: bool,
}

#[derive(Debug, Clone)]
struct Pattern {
    bytes: Vec<u8>,
    /// `failure[i]`: length of the longest proper border of `bytes[..=i]`.
    failure: Vec<usize>,
    /// How many bytes of the pattern the text now ends with.
    matched: usize,
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let bytes = text.as_bytes().to_vec();
        let mut failure = vec![0; bytes.len()];
        let mut border = 0;
        for i in 1..bytes.len() {
            while border > 0 && bytes[i] != bytes[border] {
                border = failure[border - 1];
            }
            if bytes[i] == bytes[border] {
                border += 1;
            }
            failure[i] = border;
        }
        Pattern {
            bytes,
            failure,
            matched: 0,
        }
    }

    /// Takes one byte; true if the pattern is complete with it.
    fn advance(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.failure[self.matched - 1];
        }
        if self.bytes[self.matched] == byte {
            self.matched += 1;
        }
        self.matched == self.bytes.len()
    }
}

impl StopStrings {
    /// For these strings; an empty one stops nothing.
    pub fn new<S: AsRef<str>>(strings: impl IntoIterator<Item = S>) -> StopStrings {
        let patterns = strings
            .into_iter()
            .filter(|s| !s.as_ref().is_empty())
            .map(|s| Pattern::new(s.as_ref()));
        StopStrings {
            patterns: patterns.collect(),
            held: String::new(),
            stopped: false,
        }
    }

    /// Takes the next piece of text and appends to `out` what is certain by now. True once a stop string came; from
    /// then on nothing is appended.
    pub fn push(&mut self, text: &str, out: &mut String) -> bool {
        if self.stopped {
            return true;
        }
        if self.patterns.is_empty() {
            out.push_str(text);
            return false;
        }
        let scanned = self.held.len();
        self.held.push_str(text);
        for (index, byte) in text.bytes().enumerate() {
            let mut longest = 0;
            for pattern in &mut self.patterns {
                if pattern.advance(byte) {
                    longest = longest.max(pattern.bytes.len());
                }
            }
            if longest > 0 {
                // A pattern begins with a character's first byte, so the cut is a border of characters.
                let cut = scanned + index + 1 - longest;
                out.push_str(&self.held[..cut]);
                self.held = String::new();
                self.stopped = true;
                return true;
            }
        }
        let undecided = self.patterns.iter().map(|p| p.matched).max().unwrap_or(0);
        let certain = self.held.len() - undecided;
        out.push_str(&self.held[..certain]);
        self.held.drain(..certain);
        false
    }

    /// The text has ended: appends what was held back, which is no stop string after all.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held = String::new();
        for pattern in &mut self.patterns {
            pattern.matched = 0;
        }
    }

    /// Whether a stop string came.
    pub fn stopped(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut stop = StopStrings::new(stops);
        let mut out = String::new();
        let stopped = pieces.iter().any(|piece| stop.push(piece, &mut out));
        stop.finish(&mut out);
        (out, stopped)
    }

    #[test]
    fn the_answer_ends_before_a_stop_string_that_crosses_pieces() {
        assert_eq!(
            run(&["\n\nUser:"], &["Fine.", "\n", "\nUs", "er: more"]),
            ("Fine.".into(), true)
        );
        assert_eq!(
            run(&["END"], &["E", "N", "ENEND", "x"]),
            ("ENEN".into(), true)
        );
        assert_eq!(run(&["aab"], &["aaaa", "ab"]), ("aaa".into(), true));
    }

    #[test]
    fn what_only_began_like_a_stop_string_comes_after_all() {
        assert_eq!(run(&["STOP"], &["ST", "O"]), ("STO".into(), false));
        assert_eq!(run(&["STOP"], &["ST", "ay"]), ("STay".into(), false));
        assert_eq!(run(&["é"], &["è", "e"]), ("èe".into(), false));
    }

    #[test]
    fn certain_text_is_not_held_back() {
        let mut stop = StopStrings::new(["</s>"]);
        let mut out = String::new();
        stop.push("a < b </", &mut out);
        assert_eq!(out, "a < b ");
        stop.push("p>", &mut out);
        assert_eq!(out, "a < b </p>");
    }

    #[test]
    fn of_strings_completed_together_the_longest_counts() {
        assert_eq!(run(&["b", "ab"], &["xab"]), ("x".into(), true));
        assert_eq!(
            run(&["abcd", "bc"], &["xa", "bc", "d"]),
            ("xa".into(), true)
        );
    }

    #[test]
    fn an_empty_stop_string_stops_nothing() {
        assert_eq!(run(&["", ""], &["abc"]), ("abc".into(), false));
    }

    #[test]
    fn after_a_stop_nothing_comes() {
        let mut stop = StopStrings::new(["."]);
        let mut out = String::new();
        assert!(stop.push("a.b", &mut out));
        assert!(stop.push("c", &mut out));
        stop.finish(&mut out);
        assert_eq!(out, "a");
    }

    /// The whole text, searched at once: the earliest end, and of several the longest.
    fn model(text: &str, stops: &[String]) -> (String, bool) {
        let ends = stops
            .iter()
            .filter(|s| !s.is_empty())
            .filter_map(|s| text.find(s).map(|at| (at + s.len(), at)));
        match ends.min() {
            Some((_, at)) => (text[..at].to_owned(), true),
            None => (text.to_owned(), false),
        }
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_text_gives(
            pieces in proptest::collection::vec("[abé]{0,4}", 0..12),
            stops in proptest::collection::vec("[abé]{0,5}", 0..4),
        ) {
            let stop_refs: Vec<&str> = stops.iter().map(String::as_str).collect();
            let piece_refs: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&stop_refs, &piece_refs), model(&pieces.concat(), &stops));
        }
    }
}
