//! The text of an answer while it is made.

use tidegate_text::{Detokenizer, StopStrings};

/// Tokens in, certain text out: whole characters only, and nothing that may still become a stop string.
pub(crate) struct AnswerText {
    detokenizer: Detokenizer,
    stop: StopStrings,
    text: String,
}

impl AnswerText {
    /// Of tokens that `detokenizer` is given from here on.
    pub(crate) fn new(detokenizer: Detokenizer, stop: &[String]) -> AnswerText {
        AnswerText {
            detokenizer,
            stop: StopStrings::new(stop),
            text: String::new(),
        }
    }

    /// Takes a token; true if a stop string is complete with it.
    pub(crate) fn push(&mut self, token: u32) -> bool {
        let mut decoded = String::new();
        self.detokenizer.push(token, &mut decoded);
        self.stop.push(&decoded, &mut self.text)
    }

    /// No more tokens come: what was undecided is text now; true if it completed a stop string.
    pub(crate) fn finish(&mut self) -> bool {
        let mut decoded = String::new();
        self.detokenizer.finish(&mut decoded);
        let stopped = self.stop.push(&decoded, &mut self.text);
        self.stop.finish(&mut self.text);
        stopped
    }

    /// The text that is certain.
    pub(crate) fn certain(&self) -> &str {
        &self.text
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}
