//! BERT's WordPiece. GGUF marks the beginning of a word where BERT marks its continuation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CONTROL, Tables, UNKNOWN, wrong};
use crate::LoadError;

/// Where a word begins, in GGUF.
const BEGIN: &str = "▁";
/// Where a word goes on, in BERT.
const GOES_ON: &str = "##";

impl Tables<'_> {
    pub(super) fn word_piece(&self) -> Result<Value, LoadError> {
        let Some(unknown) = self.unknown.and_then(|id| self.tokens.get(id as usize)) else {
            return Err(wrong("unknown_token_id", "WordPiece needs one"));
        };
        let (Some(cls), Some(separator)) = (self.cls.or(self.bos), self.separator.or(self.eos))
        else {
            return Err(wrong(
                "seperator_token_id",
                "WordPiece needs it and cls_token_id",
            ));
        };
        let name = |id: usize, token: &str| {
            let kind = self.kind(id);
            let bracketed = token.starts_with('[') && token.ends_with(']') && token.len() > 2;
            if bracketed || token == unknown || matches!(kind, CONTROL | UNKNOWN) {
                token.to_owned()
            } else {
                match token.strip_prefix(BEGIN) {
                    Some(word) if !word.is_empty() => word.to_owned(),
                    _ => format!("{GOES_ON}{token}"),
                }
            }
        };
        // An uncased vocabulary has no capital letter of ASCII outside its marks; it has some that are symbols (ℝ).
        let lowercase = !self.tokens.iter().any(|token| {
            token.starts_with(BEGIN) && token.bytes().any(|byte| byte.is_ascii_uppercase())
        });
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": self.added(),
            "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                "strip_accents": null, "lowercase": lowercase},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": self.frame(Some(cls), Some(separator)),
            "decoder": {"type": "WordPiece", "prefix": GOES_ON, "cleanup": true},
            "model": {"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": GOES_ON,
                "max_input_chars_per_word": 100, "vocab": self.vocabulary(&BTreeSet::new(), name)},
        }))
    }
}
