//! A tokenizer from the tables of a GGUF file, written as the `tokenizer.json` that means the same.
//!
//! Sources: the GGUF specification (keys and token types), llama.cpp's vocabulary code (what its names of splits mean and
//! what holds where a key is missing), `convert_slow_tokenizer.py` of transformers (merges from scores).

mod merges;
mod pre;
mod word_piece;

use std::collections::BTreeSet;
use std::ops::Deref;

use serde_json::{Map, Value, json};
use tidegate_contract::GgufVocabulary;

use crate::{LoadError, Tokenizer};

/// Tokens of a vocabulary; as for files.
const MOST_TOKENS: usize = 1 << 24;

/// Longest name of a token, in bytes: every way to split one is looked up. Published ones have up to 512.
const LONGEST_TOKEN: usize = 2048;

/// The token types of GGUF that matter here.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// The model whose texts are split before it merges.
const BYTE_LEVEL: &str = "gpt2";

/// SentencePiece's BPE, with its merges by scores or listed.
const SENTENCE_PIECE: [&str; 2] = ["llama", "gemma4"];

/// WordPiece.
const WORD_PIECE: &str = "bert";

/// Special tokens of Phi-3 that white space behind does not belong to. Source: llama.cpp's attributes of Phi-3's tokens.
const WITHOUT_STRIPPING: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

impl Tokenizer {
    /// From the tables of a GGUF file.
    ///
    /// # Errors
    /// [`LoadError::Gguf`] with the key that is wrong: an unknown `model` or `pre`, tables of different lengths, tokens too long, ids
    /// that are no tokens, merges of tokens that are not there, a template that does not compile.
    pub fn from_gguf(vocabulary: &GgufVocabulary) -> Result<Tokenizer, LoadError> {
        let (tokenizer, config) = Tables(vocabulary).files()?;
        let config = config.to_string();
        Tokenizer::from_parts(
            tokenizer.to_string().as_bytes(),
            Some(config.as_bytes()),
            None,
        )
        .map_err(|error| match error {
            LoadError::Field { field, reason, .. } if field == "chat_template" => LoadError::Gguf {
                key: "tokenizer.chat_template".into(),
                reason,
            },
            LoadError::Malformed { reason, .. } | LoadError::Field { reason, .. } => {
                wrong("tokens", reason)
            }
            other => other,
        })
    }
}

impl Tokenizer {
    /// The kinds of tokenizers that GGUF files have, as `tokenizer.ggml.model` names them.
    #[must_use]
    pub fn gguf_models() -> [&'static str; 4] {
        let [first, second] = SENTENCE_PIECE;
        [BYTE_LEVEL, first, second, WORD_PIECE]
    }

    /// The names of ways to split a text before byte-level BPE merges, as `tokenizer.ggml.pre` has them.
    #[must_use]
    pub fn pre_tokenizers() -> &'static [&'static str] {
        &pre::NAMES
    }

    /// Whether a vocabulary does not say how its texts are split, though they must be: it names nothing, nothing that is
    /// known, or `default`, which converters have also written for what they did not know.
    #[must_use]
    pub fn lacks_pre_tokenizer(vocabulary: &GgufVocabulary) -> bool {
        vocabulary.model == BYTE_LEVEL
            && vocabulary
                .pre
                .as_deref()
                .is_none_or(|name| name == "default" || pre::named(name).is_err())
    }

    /// As [`Tokenizer::from_gguf`], of a file that does not say how its texts are split, or not with a name that is known.
    ///
    /// # Errors
    /// The same; and the name is not known, the file has another one that is, or its texts are not split at all.
    pub fn from_gguf_split_as(
        vocabulary: &GgufVocabulary,
        pre_tokenizer: &str,
    ) -> Result<Tokenizer, LoadError> {
        if vocabulary.model != BYTE_LEVEL {
            let reason = format!(
                "{:?} does not split texts before it merges: leave out the pre-tokenizer {pre_tokenizer:?}",
                vocabulary.model
            );
            return Err(wrong("model", reason));
        }
        pre::named(pre_tokenizer).map_err(|reason| wrong("pre", reason))?;
        if !Tokenizer::lacks_pre_tokenizer(vocabulary)
            && let Some(own) = vocabulary
                .pre
                .as_deref()
                .filter(|own| *own != pre_tokenizer)
        {
            let reason =
                format!("the file says {own:?}: leave out the pre-tokenizer {pre_tokenizer:?}");
            return Err(wrong("pre", reason));
        }
        Tokenizer::from_gguf(&GgufVocabulary {
            pre: Some(pre_tokenizer.to_owned()),
            ..vocabulary.clone()
        })
    }
}

pub(crate) fn wrong(key: &str, reason: impl Into<String>) -> LoadError {
    LoadError::Gguf {
        key: format!("tokenizer.ggml.{key}"),
        reason: reason.into(),
    }
}

/// A vocabulary, and what is made of it.
struct Tables<'a>(&'a GgufVocabulary);

impl Deref for Tables<'_> {
    type Target = GgufVocabulary;

    fn deref(&self) -> &GgufVocabulary {
        self.0
    }
}

impl Tables<'_> {
    /// The `tokenizer.json` and the `tokenizer_config.json`.
    fn files(&self) -> Result<(Value, Value), LoadError> {
        self.check()?;
        let tokenizer = match self.model.as_str() {
            BYTE_LEVEL => self.byte_level()?,
            model if SENTENCE_PIECE.contains(&model) => self.sentence_piece()?,
            WORD_PIECE => self.word_piece()?,
            other => {
                let [first, second] = SENTENCE_PIECE;
                let known = format!("{BYTE_LEVEL}, {first}, {second} and {WORD_PIECE}");
                let reason = format!("{other:?} is not known, only {known} are");
                return Err(wrong("model", reason));
            }
        };
        let name = |id: Option<u32>| id.and_then(|id| self.tokens.get(id as usize));
        let config = json!({
            "bos_token": name(self.bos), "eos_token": name(self.eos), "pad_token": name(self.padding),
            "unk_token": name(self.unknown), "eot_token": name(self.end_of_turn), "chat_template": self.chat_template,
        });
        Ok((tokenizer, config))
    }

    fn check(&self) -> Result<(), LoadError> {
        let count = self.tokens.len();
        if count == 0 {
            return Err(wrong("tokens", "the vocabulary is empty"));
        }
        if count > MOST_TOKENS {
            let reason = format!("{count} tokens exceed the limit of {MOST_TOKENS}");
            return Err(wrong("tokens", reason));
        }
        let long = |token: &String| token.len() > LONGEST_TOKEN;
        if let Some(id) = self.tokens.iter().position(long) {
            let bytes = self.tokens[id].len();
            return Err(wrong(
                "tokens",
                format!("token {id} of {bytes} bytes exceeds the limit of {LONGEST_TOKEN} bytes"),
            ));
        }
        for (key, length) in [
            ("scores", self.scores.len()),
            ("token_type", self.types.len()),
        ] {
            if length != 0 && length != count {
                return Err(wrong(key, format!("{length} entries for {count} tokens")));
            }
        }
        for (key, id) in [
            ("bos_token_id", self.bos),
            ("eos_token_id", self.eos),
            ("eot_token_id", self.end_of_turn),
            ("unknown_token_id", self.unknown),
            ("padding_token_id", self.padding),
            ("seperator_token_id", self.separator),
            ("cls_token_id", self.cls),
        ] {
            if let Some(id) = id
                && id as usize >= count
            {
                return Err(wrong(key, format!("{id} is not below the {count} tokens")));
            }
        }
        if let Some(id) = self.scores.iter().position(|score| score.is_nan()) {
            return Err(wrong(
                "scores",
                format!("that of token {id} is not a number"),
            ));
        }
        Ok(())
    }

    /// A token's type; what begins, ends or fills a sequence is control whatever the file says.
    fn kind(&self, id: usize) -> i32 {
        let roles = [
            self.bos,
            self.eos,
            self.end_of_turn,
            self.padding,
            self.separator,
            self.cls,
        ];
        if roles.iter().flatten().any(|role| *role as usize == id) {
            return CONTROL;
        }
        self.types.get(id).copied().unwrap_or(NORMAL)
    }

    /// `[name: id]` of the tokens that a text can have. An unused token is left out, so that it is never encoded or
    /// generated, unless merges go over it.
    fn vocabulary(
        &self,
        merged: &BTreeSet<&str>,
        name: impl Fn(usize, &str) -> String,
    ) -> Map<String, Value> {
        let mut vocabulary = Map::new();
        for (id, token) in self.tokens.iter().enumerate() {
            let unused = self.kind(id) == UNUSED && !merged.contains(token.as_str());
            if !token.is_empty() && !unused {
                vocabulary.insert(name(id, token), json!(id));
            }
        }
        vocabulary
    }

    /// The tokens that are found in a text before it is split: special ones and those a user has added.
    fn added(&self) -> Vec<Value> {
        let added = self.tokens.iter().enumerate().filter_map(|(id, token)| {
            let special = match self.kind(id) {
                CONTROL | UNKNOWN => true,
                USER_DEFINED => false,
                _ => return None,
            };
            let strips = self.strip_after_special && !WITHOUT_STRIPPING.contains(&token.as_str());
            (!token.is_empty()).then(|| {
                json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                    "rstrip": special && strips, "normalized": false, "special": special})
            })
        });
        added.collect()
    }

    /// What puts the tokens before and after a text that has no chat template.
    fn frame(&self, before: Option<u32>, after: Option<u32>) -> Value {
        if before.is_none() && after.is_none() {
            return Value::Null;
        }
        let name = |id: u32| self.tokens.get(id as usize).cloned().unwrap_or_default();
        let special = |id: u32| json!({"SpecialToken": {"id": name(id), "type_id": 0}});
        let mut single = Vec::new();
        single.extend(before.map(special));
        single.push(json!({"Sequence": {"id": "A", "type_id": 0}}));
        single.extend(after.map(special));
        let mut pair = single.clone();
        pair.push(json!({"Sequence": {"id": "B", "type_id": 1}}));
        let mut tokens = Map::new();
        for id in [before, after].into_iter().flatten() {
            tokens.insert(
                name(id),
                json!({"id": name(id), "ids": [id], "tokens": [name(id)]}),
            );
        }
        json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
    }

    fn byte_level(&self) -> Result<Value, LoadError> {
        // llama.cpp takes its default then and warns; the ids would be wrong for most models.
        let Some(pre) = &self.pre else {
            let reason = "there is none, so how the model splits a text is not known; newer conversions of the model have it";
            return Err(wrong("pre", reason));
        };
        let pre = pre::named(pre).map_err(|reason| wrong("pre", reason))?;
        if self.merges.is_empty() {
            return Err(wrong("merges", "there are none"));
        }
        let merges = self.pairs()?;
        let results: Vec<String> = merges.iter().map(|pair| pair.concat()).collect();
        let parts = merges.iter().flatten().copied();
        let merged: BTreeSet<&str> = parts.chain(results.iter().map(String::as_str)).collect();
        let add_bos = self.add_bos.unwrap_or(pre.begins);
        let frame = self.frame(
            self.bos.filter(|_| add_bos),
            self.eos.filter(|_| self.add_eos == Some(true)),
        );
        let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": self.added(),
            "normalizer": pre.normalizer, "pre_tokenizer": pre.splits, "post_processor": frame, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": pre.whole_words,
                "vocab": self.vocabulary(&merged, |_, token| token.to_owned()), "merges": merges},
        }))
    }

    /// SentencePiece's BPE, as transformers writes it for Llama 2 (with a space before each text) and Gemma (without).
    /// `gemma4` is the same with its merges listed.
    fn sentence_piece(&self) -> Result<Value, LoadError> {
        let merges = match (self.merges.is_empty(), self.scores.is_empty()) {
            (false, _) => self.pairs()?,
            (true, false) => self.merges_of_scores(),
            (true, true) => return Err(wrong("scores", "there are none")),
        };
        let unknown = self
            .unknown
            .map(|id| id as usize)
            .or_else(|| (0..self.tokens.len()).find(|id| self.kind(*id) == UNKNOWN))
            .and_then(|id| self.tokens.get(id));
        let bytes = (0..self.tokens.len()).any(|id| self.kind(id) == BYTE);
        let prefix = self.add_space_prefix.unwrap_or(self.model == "llama");
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let mut normalizers = vec![replace];
        let mut decoders = vec![
            json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if prefix {
            normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        let frame = self.frame(
            self.bos.filter(|_| self.add_bos.unwrap_or(true)),
            self.eos.filter(|_| self.add_eos == Some(true)),
        );
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": self.added(),
            "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": null,
            "post_processor": frame, "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {"type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": bytes, "ignore_merges": false,
                "vocab": self.vocabulary(&BTreeSet::new(), |_, token| token.to_owned()), "merges": merges},
        }))
    }
}

#[cfg(test)]
mod tests;
