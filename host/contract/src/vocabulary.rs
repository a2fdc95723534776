//! A tokenizer as tables: who reads model files gives it, who makes tokenizers takes it.

/// The tokenizer's part of a GGUF file: what stands under the keys `tokenizer.ggml.*` and `tokenizer.chat_template`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufVocabulary {
    /// `model`: `gpt2` (byte-level BPE), `llama` (SentencePiece BPE), `bert` (WordPiece), ...
    pub model: String,
    /// `pre`: how byte-level BPE splits a text before merging.
    pub pre: Option<String>,
    /// `tokens`: the name of each token id.
    pub tokens: Vec<String>,
    /// `scores`: for each token, or empty; the higher is merged first.
    pub scores: Vec<f32>,
    /// `token_type`: for each token, or empty; 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    pub types: Vec<i32>,
    /// `merges`: pairs with a space between, the first is merged first.
    pub merges: Vec<String>,
    /// `bos_token_id`: begins a sequence.
    pub bos: Option<u32>,
    /// `eos_token_id`: ends a sequence.
    pub eos: Option<u32>,
    /// `eot_token_id`: ends a turn.
    pub end_of_turn: Option<u32>,
    /// `unknown_token_id`.
    pub unknown: Option<u32>,
    /// `padding_token_id`.
    pub padding: Option<u32>,
    /// `seperator_token_id` (so it is spelled): ends an encoder's text.
    pub separator: Option<u32>,
    /// `cls_token_id`: begins an encoder's text.
    pub cls: Option<u32>,
    /// `add_bos_token`: whether a prompt without chat template begins with `bos`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`: whether a prompt without chat template ends with `eos`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`: whether a SentencePiece text begins with a space of its own; if this is missing, it does
    /// with `llama` and does not with `gemma4`.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
    /// Whether white space behind a special token belongs to it, as with Phi-3. There is no key for it; it is known from
    /// `general.architecture`.
    pub strip_after_special: bool,
}
