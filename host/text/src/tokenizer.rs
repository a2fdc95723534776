//! The tokenizer of a model directory.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tokenizers::ModelWrapper;

use crate::chat::ChatTemplate;
use crate::config::TokenizerConfig;
use crate::detokenize::Stage;
use crate::encode::Frame;
use crate::form::CHANNELS;
use crate::literal::SpecialNames;
use crate::pair::PairFrame;
use crate::token_bytes::{Spelling, TokenBytes};
use crate::{AnswerForm, LoadError, PromptError};

/// Largest `tokenizer.json` that is read, in bytes; the largest published ones have about 35 MB.
const LARGEST_TOKENIZER: u64 = 256 << 20;
/// Largest `tokenizer_config.json` or `chat_template.jinja` that is read, in bytes.
const LARGEST_CONFIG: u64 = 16 << 20;
/// Token ids end below this.
const LARGEST_VOCABULARY: usize = 1 << 24;

pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const CONFIG: &str = "tokenizer_config.json";
/// Special tokens that end a turn, whatever else the configuration says.
const ENDS_OF_TURN: [&str; 5] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
];

/// The same of a model whose answers are in channels (gpt-oss).
const ENDS_OF_CHANNELS: [&str; 2] = ["<|return|>", "<|call|>"];

const TEMPLATE: &str = "chat_template.jinja";

/// Turns text into the token ids of one model, and messages into prompts.
pub struct Tokenizer {
    pub(crate) inner: tokenizers::Tokenizer,
    pub(crate) special_names: SpecialNames,
    /// Special tokens that are looked for in the normalized text, where a name may come from other letters.
    pub(crate) normalized_special: BTreeSet<u32>,
    /// The bytes of every token.
    pub(crate) bytes: TokenBytes,
    /// How names of tokens become text, as it is at the beginning of one.
    pub(crate) stages: Vec<Stage>,
    /// Most characters that one token stands for.
    pub(crate) longest_token: usize,
    pub(crate) config: TokenizerConfig,
    pub(crate) frame: Frame,
    /// Where the tokenizer says how pairs of texts become one.
    pub(crate) pairs: Option<PairFrame>,
    /// What pieces that continue a word begin with, where the vocabulary marks them.
    pub(crate) continues: Option<String>,
    /// The token of text that the vocabulary does not have.
    pub(crate) unknown: Option<u32>,
    pub(crate) form: AnswerForm,
    pub(crate) form_with_calls: Option<Box<AnswerForm>>,
    pub(crate) chat: Option<ChatTemplate>,
    pub(crate) bos: Option<u32>,
    eos: Option<u32>,
    end_tokens: Vec<u32>,
    vocabulary: usize,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocabulary", &self.vocabulary)
            .field("bos", &self.bos)
            .field("eos", &self.eos)
            .field("chat_template", &self.chat.is_some())
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and `tokenizer_config.json` and `chat_template.jinja` where they are; a
    /// `chat_template.jinja` goes before the template of the configuration.
    ///
    /// # Errors
    /// A file that cannot be read, is too large or is broken; the error names it and the field.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Tokenizer, LoadError> {
        let dir = dir.as_ref();
        let tokenizer_file = dir.join(TOKENIZER);
        let tokenizer = read(&tokenizer_file, LARGEST_TOKENIZER)?;
        let config_file = dir.join(CONFIG);
        let config = if config_file.exists() {
            Some(read(&config_file, LARGEST_CONFIG)?)
        } else {
            None
        };
        let template_file = dir.join(TEMPLATE);
        let template = if template_file.exists() {
            Some(read(&template_file, LARGEST_CONFIG)?)
        } else {
            None
        };
        Tokenizer::build(dir, &tokenizer, config.as_deref(), template)
    }

    /// As [`Tokenizer::from_dir`], from the contents of the files.
    ///
    /// # Errors
    /// Contents that are broken; the error names the file they should have come from, and the field.
    pub fn from_parts(
        tokenizer: &[u8],
        config: Option<&[u8]>,
        template: Option<&str>,
    ) -> Result<Tokenizer, LoadError> {
        Tokenizer::build(
            Path::new(""),
            tokenizer,
            config,
            template.map(|t| t.as_bytes().to_vec()),
        )
    }

    fn build(
        dir: &Path,
        tokenizer: &[u8],
        config: Option<&[u8]>,
        template: Option<Vec<u8>>,
    ) -> Result<Tokenizer, LoadError> {
        let tokenizer_file = dir.join(TOKENIZER);
        let config_file = dir.join(CONFIG);
        let malformed = |reason: String| LoadError::Malformed {
            file: tokenizer_file.clone(),
            reason,
        };
        let mut inner =
            guarded(|| tokenizers::Tokenizer::from_bytes(tokenizer)).map_err(malformed)?;
        // What a model was trained with is no limit of a stream: neither cut nor pad.
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|e| malformed(e.to_string()))?;

        let mut config = match config {
            Some(text) => TokenizerConfig::parse(text, &config_file)?,
            None => TokenizerConfig::default(),
        };
        let id_of = |field: &str, token: &Option<String>| match token {
            None => Ok(None),
            Some(token) => match inner.token_to_id(token) {
                Some(id) => Ok(Some(id)),
                None => Err(LoadError::Field {
                    file: config_file.clone(),
                    field: field.to_owned(),
                    reason: format!("{TOKENIZER} has no token {token:?}"),
                }),
            },
        };
        let bos = id_of("bos_token", &config.bos_token)?;
        let eos = id_of("eos_token", &config.eos_token)?;
        let end_of_turn = id_of("eot_token", &config.eot_token)?;

        let chat = match (&template, &config.chat_template) {
            (Some(bytes), _) => {
                let file = dir.join(TEMPLATE);
                let compiled = String::from_utf8(bytes.clone())
                    .map_err(|e| e.to_string())
                    .and_then(|source| ChatTemplate::compile(&source));
                Some(compiled.map_err(|reason| LoadError::Malformed { file, reason })?)
            }
            (None, Some(source)) => {
                Some(
                    ChatTemplate::compile(source).map_err(|reason| LoadError::Field {
                        file: config_file.clone(),
                        field: "chat_template".into(),
                        reason,
                    })?,
                )
            }
            (None, None) => None,
        };

        if let Some(source) = template.and_then(|bytes| String::from_utf8(bytes).ok()) {
            config.chat_template = Some(source);
        }

        let vocabulary_map = inner.get_vocab(true);
        let vocabulary = vocabulary_map
            .values()
            .max()
            .map_or(0, |id| *id as usize + 1);
        if vocabulary > LARGEST_VOCABULARY {
            return Err(LoadError::Field {
                file: tokenizer_file,
                field: "model.vocab".into(),
                reason: format!(
                    "token id {} is not below {LARGEST_VOCABULARY}",
                    vocabulary - 1
                ),
            });
        }
        let added = inner.get_added_tokens_decoder();
        // Where answers are in channels, one ends where the answer does not.
        let channels = (config.chat_template.as_deref()).is_some_and(|s| s.contains(CHANNELS));
        let is_end = |name: &str| match channels {
            true => ENDS_OF_CHANNELS.contains(&name),
            false => ENDS_OF_TURN.contains(&name),
        };
        let ends = added
            .iter()
            .filter(|(_, token)| token.special && is_end(&token.content))
            .map(|(id, _)| *id);
        let end_tokens: BTreeSet<u32> = ends.chain(eos).chain(end_of_turn).collect();
        let special_names = SpecialNames::new(
            added
                .values()
                .filter(|token| token.special)
                .map(|token| token.content.clone()),
        );
        let unknown = [
            config.unk_token.as_deref(),
            unknown_token(inner.get_model()),
        ];
        let unknown_id = unknown.iter().flatten().next();
        let unknown_id = unknown_id.and_then(|name| inner.token_to_id(name));
        let normalized = added.iter().filter(|(_, token)| {
            let is_unknown = unknown.contains(&Some(token.content.as_str()));
            token.special && token.normalized && !is_unknown
        });
        let normalized_special = match inner.get_normalizer() {
            Some(_) => normalized.map(|(id, _)| *id).collect(),
            None => BTreeSet::new(),
        };
        let longest_token = vocabulary_map
            .keys()
            .map(|token| token.chars().count())
            .max()
            .unwrap_or(0);
        let decoder = serde_json::to_value(inner.get_decoder()).unwrap_or_default();
        let spelling = Spelling::of_decoder(&decoder);
        let stages = Stage::of(inner.get_decoder());
        let bytes = TokenBytes::new(&inner, vocabulary, &spelling);
        let plain = |special: bool| guarded(|| inner.encode_fast("a", special));
        let frame = match (plain(true), plain(false)) {
            (Ok(with), Ok(without)) => Frame::of(with.get_ids(), without.get_ids()),
            _ => Frame::default(),
        };
        let pairs = PairFrame::of(&inner);
        let continues = continuing_mark(inner.get_model());
        let form = Tokenizer::form_of(&inner, config.chat_template.as_deref());
        let form_with_calls = Tokenizer::form_with_calls(&inner, config.chat_template.as_deref());
        Ok(Tokenizer {
            form,
            form_with_calls,
            inner,
            special_names,
            normalized_special,
            bytes,
            stages,
            longest_token,
            config,
            frame,
            pairs,
            continues,
            unknown: unknown_id,
            chat,
            bos,
            eos,
            end_tokens: end_tokens.into_iter().collect(),
            vocabulary,
        })
    }

    /// One more than the largest token id: a model must know at least so many.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The token that begins a sequence, if the configuration names one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a sequence, if the configuration names one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The tokens that end an answer, ascending: the end of the sequence, and the special tokens by which chat models end
    /// a turn (`<|eot_id|>`, `<|im_end|>`, `<|end|>`, `<end_of_turn>`). A model's `config.json` may know more.
    pub fn end_tokens(&self) -> &[u32] {
        &self.end_tokens
    }

    /// The id of a token by its name, `<|user|>` for example.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The name of a token, a special one too: none of an id that is not used.
    pub fn token_name(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The bytes a token stands for in a text, where a tokenizer says so: byte-level ones and those with `▁` for a space
    /// and tokens for bytes. None for a special token and for an id that is not used.
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let bytes = self.bytes.get(id);
        (!bytes.is_empty()).then(|| bytes.to_vec())
    }

    /// The name of a token that has text: none of a special one or an id that is not used.
    pub(crate) fn text_token(&self, id: u32) -> Option<String> {
        let name = self.inner.id_to_token(id)?;
        let added = self.inner.get_added_vocabulary();
        (!added.is_special_token(&name)).then_some(name)
    }

    /// Whether prompts are made by the model's own template.
    pub fn has_chat_template(&self) -> bool {
        self.chat.is_some()
    }

    /// The tokens of a text in which the names of special tokens mean those tokens; none is added.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, PromptError> {
        self.encode_piece(text, false)
    }

    /// The tokens of a text in which the names of special tokens are only text: records and messages.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn encode_literal(&self, text: &str) -> Result<Vec<u32>, PromptError> {
        let mut ids = Vec::new();
        for piece in self.literal_pieces(text)? {
            ids.extend(self.encode_piece(piece, false)?);
        }
        Ok(ids)
    }

    pub(crate) fn encode_piece(
        &self,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<u32>, PromptError> {
        let encoded = guarded(|| self.inner.encode_fast(text, add_special_tokens))
            .map_err(PromptError::Encode)?;
        Ok(encoded.get_ids().to_vec())
    }

    /// How many tokens a text has, the names of special tokens being only text.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer fails on the text.
    pub fn count(&self, text: &str) -> Result<usize, PromptError> {
        let mut count = 0;
        for piece in self.literal_pieces(text)? {
            count += guarded(|| self.inner.encode_fast(piece, false))
                .map_err(PromptError::Encode)?
                .len();
        }
        Ok(count)
    }

    /// The text of tokens, without the special ones; bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// [`PromptError::Encode`] if the tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String, PromptError> {
        guarded(|| self.inner.decode(ids, true)).map_err(PromptError::Encode)
    }
}

/// What a model gives for text that it does not know, where it says so.
fn unknown_token(model: &ModelWrapper) -> Option<&str> {
    match model {
        ModelWrapper::BPE(model) => model.get_unk_token().as_deref(),
        ModelWrapper::WordPiece(model) => Some(&model.unk_token),
        ModelWrapper::WordLevel(model) => Some(&model.unk_token),
        ModelWrapper::Unigram(_) => None,
    }
}

/// What pieces that continue a word begin with, where the model marks them.
fn continuing_mark(model: &ModelWrapper) -> Option<String> {
    let mark = match model {
        ModelWrapper::BPE(model) => model.get_continuing_subword_prefix().clone()?,
        ModelWrapper::WordPiece(model) => model.continuing_subword_prefix.clone(),
        ModelWrapper::WordLevel(_) | ModelWrapper::Unigram(_) => return None,
    };
    Some(mark).filter(|mark| !mark.is_empty())
}

/// Runs foreign code on foreign input: its errors and its panics are both answers.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, tokenizers::Error>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(_) => Err("the tokenizer library panicked".into()),
    }
}

fn read(file: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Read {
        file: file.to_owned(),
        source,
    };
    let facts = fs::metadata(file).map_err(failed)?;
    if !facts.is_file() {
        // Opening a pipe would wait for a writer that may never come.
        let why = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(failed(why));
    }
    let opened = fs::File::open(file).map_err(failed)?;
    let bytes = facts.len();
    if bytes > limit {
        return Err(LoadError::TooLarge {
            file: file.to_owned(),
            bytes,
            limit,
        });
    }
    let mut contents = Vec::new();
    opened
        .take(limit)
        .read_to_end(&mut contents)
        .map_err(failed)?;
    Ok(contents)
}

#[cfg(test)]
mod tests;
