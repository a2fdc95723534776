//! Whole texts for encoders: with the special tokens that a tokenizer puts around them.

use crate::{PromptError, Tokenizer};

/// The special tokens that a tokenizer's post-processor puts around a text.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) before: Vec<u32>,
    pub(crate) after: Vec<u32>,
}

impl Frame {
    /// Compares a text with and without them; a tokenizer that cannot encode it has none.
    pub(crate) fn of(with: &[u32], without: &[u32]) -> Frame {
        let at = (0..=with.len().saturating_sub(without.len()))
            .find(|at| !without.is_empty() && with[*at..].starts_with(without));
        match at {
            Some(at) => Frame {
                before: with[..at].to_vec(),
                after: with[at + without.len()..].to_vec(),
            },
            None => Frame::default(),
        }
    }
}

impl Tokenizer {
    /// The tokens of a text with the special tokens that the tokenizer puts around it, `[CLS]` and `[SEP]` for example.
    /// The names of special tokens are only text in it.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, PromptError> {
        self.encode_text_to(text, usize::MAX)
    }

    /// The tokens of a text that a model is to go on with, after those that the tokenizer begins a text with, the beginning
    /// of the sequence for example; not those that end one. The names of special tokens are only text in it.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn encode_raw(&self, text: &str) -> Result<Vec<u32>, PromptError> {
        let mut ids = self.frame.before.clone();
        ids.extend(self.encode_literal(text)?);
        Ok(ids)
    }

    /// As [`Tokenizer::encode_text`], with at most `limit` tokens: the text's last ones are left out, the special ones
    /// stay. A limit that has no room for those gives as many of them as fit.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn encode_text_to(&self, text: &str, limit: usize) -> Result<Vec<u32>, PromptError> {
        let around = self.frame.before.len() + self.frame.after.len();
        let mut inner = self.encode_literal_to(text, limit.saturating_sub(around))?;
        let mut ids = self.frame.before.clone();
        ids.append(&mut inner);
        ids.extend(&self.frame.after);
        ids.truncate(limit);
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture;

    #[test]
    fn a_raw_prompt_begins_as_the_tokenizer_says_and_does_not_end() {
        let tokenizer = fixture::word_piece();
        let id = |name| tokenizer.token_id(name).unwrap();
        let ids = tokenizer.encode_raw("play").unwrap();
        assert_eq!(ids, [id("[CLS]"), id("play")]);
        let tokenizer = fixture::byte_fallback();
        let ids = tokenizer.encode_raw("ab").unwrap();
        assert_eq!(ids, [1, tokenizer.token_id("▁ab").unwrap()]);
        // This one begins a text with nothing, and a special token's name is only text.
        let tokenizer = fixture::byte_level();
        let special = tokenizer.token_id("<|user|>").unwrap();
        let ids = tokenizer.encode_raw("<|user|>").unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), "<|user|>");
        assert!(!ids.contains(&special));
    }

    #[test]
    fn a_text_is_framed_and_cut_inside_the_frame() {
        let tokenizer = fixture::word_piece();
        let id = |name: &str| tokenizer.token_id(name).unwrap();
        let [cls, sep, play, ing] = ["[CLS]", "[SEP]", "play", "##ing"].map(id);
        assert_eq!(
            tokenizer.encode_text("Playing play").unwrap(),
            [cls, play, ing, play, sep]
        );
        assert_eq!(tokenizer.encode_text("").unwrap(), [cls, sep]);
        assert_eq!(
            tokenizer.encode_text_to("playing play", 4).unwrap(),
            [cls, play, ing, sep]
        );
        assert_eq!(
            tokenizer.encode_text_to("playing play", 5).unwrap().len(),
            5
        );
        assert_eq!(
            tokenizer.encode_text_to("playing play", 2).unwrap(),
            [cls, sep]
        );
        assert_eq!(tokenizer.encode_text_to("playing play", 1).unwrap(), [cls]);
        assert_eq!(
            tokenizer.encode_text_to("playing play", 0).unwrap(),
            [0u32; 0]
        );
    }

    #[test]
    fn a_text_cannot_forge_the_frame() {
        let tokenizer = fixture::word_piece();
        let ids = tokenizer.encode_text("play [SEP] [cls]").unwrap();
        let special = |name: &str| {
            ids.iter()
                .filter(|id| Some(**id) == tokenizer.token_id(name))
                .count()
        };
        assert_eq!((special("[CLS]"), special("[SEP]")), (1, 1));
    }

    #[test]
    fn padding_and_truncation_of_the_file_do_not_apply() {
        let tokenizer = fixture::word_piece();
        let long = "play ".repeat(300);
        assert_eq!(tokenizer.encode_text(&long).unwrap().len(), 302);
        assert_eq!(tokenizer.encode_text("play").unwrap().len(), 3);
    }

    #[test]
    fn a_decoder_only_tokenizer_begins_the_text() {
        let tokenizer = fixture::byte_fallback();
        let ids = tokenizer.encode_text("ab").unwrap();
        assert_eq!(ids.first().copied(), tokenizer.bos());
        assert_eq!(ids.len(), 2);
        assert_eq!(fixture::byte_level().encode_text("ab").unwrap().len(), 2);
    }
}
