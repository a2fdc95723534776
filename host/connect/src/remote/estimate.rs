//! Tokens of a text whose tokenizer is elsewhere: an estimate. A token of a large vocabulary holds three to four bytes
//! of most languages, so a text has about a third of its bytes in tokens, rounded up; a text that is estimated to fit
//! may still be refused by its server, which is the one that counts.

const BYTES: usize = 3;

/// About so many tokens has a text whose tokenizer is not here.
#[must_use]
pub fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES)
}

/// The longest beginning that is estimated at no more tokens.
pub(crate) fn truncate(text: &str, tokens: usize) -> &str {
    let mut end = tokens.saturating_mul(BYTES).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_to_a_number_of_tokens_is_estimated_at_no_more() {
        let text = "a é 漢字 🙂 plain";
        for limit in 0..12 {
            let cut = truncate(text, limit);
            assert!(tokens(cut) <= limit, "{cut:?} at {limit}");
            assert!(text.starts_with(cut));
        }
        assert_eq!(truncate(text, usize::MAX), text);
        assert_eq!(tokens(""), 0);
        assert_eq!(tokens("abcd"), 2);
    }
}
