//! The bytes that each token of a tokenizer stands for.

use std::collections::HashMap;

use serde_json::Value;

/// The bytes of every token; special tokens and unused ids have none.
#[derive(Debug)]
pub(crate) struct TokenBytes {
    bytes: Vec<u8>,
    /// `[vocabulary + 1]`: where a token's bytes begin.
    starts: Vec<u32>,
}

/// How a tokenizer writes bytes in the names of its tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    /// Each byte is one of 256 characters.
    pub(crate) byte_level: bool,
    /// `<0x0A>` is a byte.
    byte_fallback: bool,
    /// What stands for a space.
    space: Option<String>,
}

impl Spelling {
    /// As a tokenizer's decoder undoes it; `decoder` is its part of `tokenizer.json`.
    pub(crate) fn of_decoder(decoder: &Value) -> Spelling {
        let mut spelling = Spelling::default();
        spelling.take(decoder);
        spelling
    }

    fn take(&mut self, decoder: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match decoder["type"].as_str() {
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_fallback = true,
            Some("Metaspace") => self.space = text(&decoder["replacement"]),
            Some("Replace") if decoder["content"] == " " => {
                self.space = text(&decoder["pattern"]["String"]);
            }
            Some("Sequence") => {
                for part in decoder["decoders"].as_array().into_iter().flatten() {
                    self.take(part);
                }
            }
            _ => {}
        }
    }

    fn bytes(&self, name: &str, byte_of: &HashMap<char, u8>, out: &mut Vec<u8>) {
        if self.byte_level {
            // As the byte-level decoder does: a name with any other character is itself.
            let mapped: Option<Vec<u8>> = name.chars().map(|c| byte_of.get(&c).copied()).collect();
            match mapped {
                Some(mapped) => out.extend(mapped),
                None => out.extend(name.as_bytes()),
            }
            return;
        }
        if self.byte_fallback
            && let Some(byte) = fallback_byte(name)
        {
            out.push(byte);
            return;
        }
        match &self.space {
            Some(space) => out.extend(name.replace(space.as_str(), " ").as_bytes()),
            None => out.extend(name.as_bytes()),
        }
    }
}

/// The byte that a name like `<0x0A>` stands for.
pub(crate) fn fallback_byte(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

impl TokenBytes {
    pub(crate) fn new(
        tokenizer: &tokenizers::Tokenizer,
        vocabulary: usize,
        spelling: &Spelling,
    ) -> TokenBytes {
        let byte_of: HashMap<char, u8> = byte_characters().into_iter().zip(0..=255).collect();
        let mut bytes = Vec::new();
        let mut starts = Vec::with_capacity(vocabulary + 1);
        for id in 0..vocabulary as u32 {
            starts.push(bytes.len() as u32);
            let Some(name) = tokenizer.id_to_token(id) else {
                continue;
            };
            if !tokenizer.get_added_vocabulary().is_special_token(&name) {
                spelling.bytes(&name, &byte_of, &mut bytes);
            }
        }
        starts.push(bytes.len() as u32);
        TokenBytes { bytes, starts }
    }

    /// The bytes of a token; none for an id that is special or not known.
    pub(crate) fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        match (self.starts.get(id), self.starts.get(id + 1)) {
            (Some(start), Some(end)) => &self.bytes[*start as usize..*end as usize],
            _ => &[],
        }
    }
}

/// The character that stands for each byte, `[256]`. Source: `bytes_to_unicode` of the GPT-2 encoder.
pub(crate) fn byte_characters() -> Vec<char> {
    let mut next = 256;
    let plain = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut character = |byte: u32| {
        if plain(byte) {
            byte
        } else {
            next += 1;
            next - 1
        }
    };
    (0..256)
        .map(|byte| char::from_u32(character(byte)).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture;

    #[test]
    fn only_two_hexadecimal_digits_are_a_byte() {
        assert_eq!(fallback_byte("<0x0A>"), Some(10));
        assert_eq!(fallback_byte("<0xff>"), Some(255));
        for name in ["<0x+1>", "<0xA>", "<0x0AB>", "0x0A", "<0x0A", ""] {
            assert_eq!(fallback_byte(name), None, "{name}");
        }
    }

    #[test]
    fn special_and_unknown_tokens_have_no_bytes() {
        let tokenizer = fixture::byte_level();
        assert_eq!(tokenizer.token_bytes(0), None);
        assert_eq!(tokenizer.token_bytes(999_999), None);
        assert_eq!(
            tokenizer.token_bytes(fixture::byte_token(0xe2)),
            Some(vec![0xe2])
        );
        let hello = tokenizer.token_id("hello").unwrap();
        assert_eq!(tokenizer.token_bytes(hello), Some(b"hello".to_vec()));
        let tokenizer = fixture::byte_fallback();
        assert_eq!(tokenizer.token_bytes(1), None);
        assert_eq!(tokenizer.token_bytes(3 + 0xe2), Some(vec![0xe2]));
        let word = tokenizer.token_id("▁ab").unwrap();
        assert_eq!(tokenizer.token_bytes(word), Some(b" ab".to_vec()));
    }

    proptest! {
        #[test]
        fn the_bytes_of_a_texts_tokens_are_the_text(text in "\\PC{0,24}") {
            for (tokenizer, before) in [(fixture::shared(), ""), (fixture::shared_byte_fallback(), " ")] {
                let ids = tokenizer.encode(&text).unwrap();
                let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.token_bytes(*id).unwrap()).collect();
                let wanted = if text.is_empty() { String::new() } else { format!("{before}{text}") };
                // The mark of a space in the text itself is a space afterwards.
                prop_assert_eq!(String::from_utf8(bytes).unwrap(), wanted.replace('▁', if before.is_empty() { "▁" } else { " " }));
            }
        }
    }
}
