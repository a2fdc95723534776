//! The tokenizer in a GGUF file.

/// The tokenizer in a GGUF file: keys `tokenizer.ggml.*` as llama.cpp reads them, `tokenizer.chat_template`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufVocabulary {
    /// `model`: `gpt2` (byte-level BPE), `llama` (SentencePiece with byte fallback), `bert`, ...
    pub model: String,
    /// `pre`: which rule splits text before BPE.
    pub pre: Option<String>,
    /// `tokens`, one for each id.
    pub tokens: Vec<String>,
    /// `scores`, one for each id, or none.
    pub scores: Vec<f32>,
    /// `token_type`, one for each id, or none: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    pub types: Vec<i32>,
    /// `merges`, two tokens with a space between, best first.
    pub merges: Vec<String>,
    /// `bos_token_id`.
    pub bos: Option<u32>,
    /// `eos_token_id`.
    pub eos: Option<u32>,
    /// `eot_token_id`: ends a turn.
    pub end_of_turn: Option<u32>,
    /// `unknown_token_id`.
    pub unknown: Option<u32>,
    /// `padding_token_id`.
    pub padding: Option<u32>,
    /// `seperator_token_id`, as it is spelled there.
    pub separator: Option<u32>,
    /// `cls_token_id`.
    pub cls: Option<u32>,
    /// `add_bos_token`: whether a text begins with `bos`.
    pub add_bos: Option<bool>,
    /// `add_eos_token`: whether a text ends with `eos`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`: whether a text is read as if it began with a space.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}
