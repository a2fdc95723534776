//! The golden models: tiny models of every family with what the transformers library makes of them.
//!
//! They lie in `tests/golden` beside the script that made them; any crate's tests may read them from here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_contract::EncoderText;

/// Decoders as directories of safetensors.
pub const DECODERS: [&str; 24] = [
    "llama-tied-sharded-f32",
    "llama-odd-f16",
    "llama3-rope-bf16",
    "llama-linear-bias-f16",
    "llama-yarn-bf16",
    "smollm3-bf16",
    "mistral-bf16",
    "qwen2-bf16",
    "qwen2-window-f16",
    "qwen3-f16",
    "phi3-bf16",
    "phi3-longrope-f16",
    "gemma2-f32",
    "gemma3-bf16",
    "qwen3-moe-f16",
    "qwen3-moe-all-window-bf16",
    "qwen3-moe-one-bf16",
    "mixtral-bf16",
    "mixtral-one-f32",
    "mixtral-odd-f16",
    "qwen2-moe-f16",
    "qwen2-moe-all-bf16",
    "gpt-oss-one-bf16",
    "gpt-oss-all-f16",
];

/// Decoders as GGUF files; each is one of [`DECODERS`] or a model of its own.
pub const GGUF_DECODERS: [&str; 19] = [
    "gguf-llama-f32",
    "gguf-llama-q8_0",
    "gguf-llama-q8_0-parts",
    "gguf-llama-q4_0",
    "gguf-llama-q4_k",
    "gguf-llama3-rope-bf16",
    "gguf-llama-linear-bias-f16",
    "gguf-smollm3-bf16",
    "gguf-qwen2-bf16",
    "gguf-qwen3-f16",
    "gguf-phi3-longrope-f16",
    "gguf-gemma2-bf16",
    "gguf-gemma3-bf16",
    "gguf-mixtral-q8_0",
    "gguf-mixtral-bf16",
    "gguf-qwen2moe-f16",
    "gguf-qwen3moe-f16",
    "gguf-qwen3moe-q4_k_m",
    "gguf-gpt-oss-bf16",
];

/// Decoders as GGUF files in formats that are handed on as int8: what is expected is what the file holds, which
/// `Checkpoint::exact` gives.
pub const REENCODED_DECODERS: [&str; 11] = [
    "gguf-llama-q4_k_m",
    "gguf-llama-q4_1",
    "gguf-llama-q5_0",
    "gguf-llama-q5_1",
    "gguf-llama-iq4_nl",
    "gguf-llama-q2_k",
    "gguf-llama-q3_k",
    "gguf-llama-q5_k",
    "gguf-llama-iq4_xs",
    "gguf-llama-q8_k",
    "gguf-gpt-oss-mxfp4",
];

/// Decoders as other tools quantize them: what is expected is what the files say, which `Checkpoint::exact` gives.
pub const PACKED_DECODERS: [&str; 14] = [
    "gptq-llama-int4",
    "gptq-llama-int4-by-order",
    "gptq-phi3-int8",
    "gptq-qwen3-moe-int4",
    "awq-qwen2-int4",
    "awq-mixtral-int4",
    "compressed-llama-int4",
    "compressed-qwen3-moe-int4",
    "compressed-mistral-int4-zeros",
    "compressed-llama-int8",
    "compressed-llama-fp8",
    "fp8-qwen3-blocks",
    "fp8-qwen3-moe-blocks",
    "gpt-oss-mxfp4",
];

/// [`DECODERS`] and others that low-rank adapters are for.
pub const ADAPTED_DECODERS: [&str; 12] = [
    "llama-odd-f16",
    "llama-tied-sharded-f32",
    "llama-linear-bias-f16",
    "qwen2-bf16",
    "qwen3-f16",
    "gemma2-f32",
    "phi3-bf16",
    "qwen3-moe-f16",
    "gguf-llama-q8_0",
    "gguf-llama-q4_0",
    "gptq-llama-int4",
    "compressed-llama-int8",
];

/// Encoders of every family: what makes vectors, scores of labels, of texts and of tokens, and scores of pairs of texts.
pub const ENCODERS: [&str; 23] = [
    "bert-f16",
    "bert-first-token-bf16",
    "roberta-f16",
    "xlm-roberta-bf16",
    "bert-classes-f32",
    "roberta-classes-bf16",
    "bert-relevance-f16",
    "roberta-relevance-bf16",
    "distilbert-f16",
    "distilbert-head-of-96-bf16",
    "distilbert-classes-bf16",
    "modernbert-bf16",
    "modernbert-head-of-96-f16",
    "modernbert-classes-f32",
    "modernbert-relevance-f16",
    "nomic-bert-f16",
    "nomic-bert-heads-of-40-bf16",
    "qwen3-embedding-bf16",
    "mistral-embedding-f16",
    "bert-entities-f16",
    "roberta-entities-bf16",
    "distilbert-entities-f32",
    "modernbert-entities-bf16",
];

/// Encoders as GGUF files; each is one of [`ENCODERS`] or a model of its own.
pub const GGUF_ENCODERS: [&str; 7] = [
    "gguf-bert-f16",
    "gguf-bert-first-token-q8_0",
    "gguf-bert-q4_0",
    "gguf-bert-q4_k_m",
    "gguf-nomic-bert-f16",
    "gguf-nomic-bert-q8_0",
    "gguf-qwen3-embedding-bf16",
];

/// Encoders as GGUF files in formats that are handed on as int8: what is expected is what the file holds, which
/// `Checkpoint::exact` gives.
pub const REENCODED_ENCODERS: [&str; 1] = ["gguf-bert-q5_1"];

/// Those of [`ENCODERS`] that label tokens.
pub const TOKEN_CLASSIFIERS: [&str; 4] = [
    "bert-entities-f16",
    "roberta-entities-bf16",
    "distilbert-entities-f32",
    "modernbert-entities-bf16",
];

/// Tokens and the logits they must give.
#[derive(Clone, Debug)]
pub struct DecoderCase {
    /// Positions that the decoder must be loaded with: rotary tables may depend on it.
    pub context: usize,
    /// The tokens, from position 0.
    pub tokens: Vec<u32>,
    /// Ascending positions whose logits are known; the last token's is among them.
    pub positions: Vec<usize>,
    /// `[positions][vocabulary]`
    pub logits: Vec<Vec<f64>>,
}

/// A text and the vector it must give, or those of its tokens one after another.
#[derive(Clone, Debug)]
pub struct EncoderCase {
    /// The tokens, special ones included.
    pub tokens: Vec<u32>,
    /// The type of each, of a pair of texts; empty where all are of the first.
    pub types: Vec<u32>,
    /// The embedding, the scores of the labels, or the score of the pair.
    pub vector: Vec<f64>,
}

impl EncoderCase {
    /// The text as an encoder takes it.
    #[must_use]
    pub fn text(&self) -> EncoderText<'_> {
        EncoderText {
            tokens: &self.tokens,
            types: &self.types,
        }
    }
}

/// Why golden files could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A JSON file, or a header, is not what the script writes.
    #[error("{path} is not what the script writes: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// `expected.f64` does not divide into the cases.
    #[error("{path}: {count} numbers are not what its cases need")]
    Length {
        /// The file.
        path: PathBuf,
        /// Numbers in it.
        count: usize,
    },
    /// `config.json` has no such key that is a number.
    #[error("{path} has none of {keys} that is a number")]
    Key {
        /// The file.
        path: PathBuf,
        /// The keys that were looked for.
        keys: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
    #[serde(default)]
    dequantized: HashMap<String, u32>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    context: usize,
    tokens: Vec<u32>,
    #[serde(default)]
    types: Vec<u32>,
    #[serde(default)]
    positions: Vec<usize>,
    #[serde(default)]
    adapter: String,
}

/// The folder of a golden model.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// What a checkpoint is opened by: the folder, or the GGUF file in it, or the first of its parts.
#[must_use]
pub fn model(name: &str) -> PathBuf {
    let folder = folder(name);
    let files = ["model.gguf", "model-00001-of-00003.gguf"].map(|name| folder.join(name));
    files
        .into_iter()
        .find(|file| file.exists())
        .unwrap_or(folder)
}

/// The cases of a decoder.
///
/// # Errors
/// A file is missing or not what the script writes.
pub fn decoder(name: &str) -> Result<Vec<DecoderCase>, GoldenError> {
    let cases = named_cases(name)?.into_iter();
    Ok(cases.map(|(_, case)| case).collect())
}

/// The low-rank adapters of a base, one of [`ADAPTED_DECODERS`]: for each its folder, and a case of it.
///
/// # Errors
/// As [`decoder`].
pub fn adapters(base: &str) -> Result<Vec<(PathBuf, DecoderCase)>, GoldenError> {
    let name = format!("adapters/{base}");
    let cases = named_cases(&name)?.into_iter();
    let in_folder = |(adapter, case)| (folder(&name).join(adapter), case);
    Ok(cases.map(in_folder).collect())
}

/// Cases with the names of their adapters.
fn named_cases(name: &str) -> Result<Vec<(String, DecoderCase)>, GoldenError> {
    let (cases, expected, path) = read(name)?;
    let rows: usize = cases.iter().map(|case| case.positions.len()).sum();
    if rows == 0 || !expected.len().is_multiple_of(rows) {
        let count = expected.len();
        return Err(GoldenError::Length { path, count });
    }
    let mut logits = expected
        .chunks_exact(expected.len() / rows)
        .map(<[f64]>::to_vec);
    Ok(cases
        .into_iter()
        .map(|case| {
            let of = DecoderCase {
                logits: logits.by_ref().take(case.positions.len()).collect(),
                context: case.context,
                tokens: case.tokens,
                positions: case.positions,
            };
            (case.adapter, of)
        })
        .collect())
}

/// The cases of an encoder.
///
/// # Errors
/// As [`decoder`].
pub fn encoder(name: &str) -> Result<Vec<EncoderCase>, GoldenError> {
    let (cases, expected, path) = read(name)?;
    // Vectors of a case: one, or one for each of its tokens.
    let of_tokens = TOKEN_CLASSIFIERS.contains(&name);
    let rows = |case: &Case| if of_tokens { case.tokens.len() } else { 1 };
    let all: usize = cases.iter().map(rows).sum();
    if all == 0 || !expected.len().is_multiple_of(all) {
        let count = expected.len();
        return Err(GoldenError::Length { path, count });
    }
    let width = expected.len() / all;
    let mut rest = expected.as_slice();
    let cases = cases.into_iter().map(|case| {
        let (vector, others) = rest.split_at(rows(&case) * width);
        rest = others;
        EncoderCase {
            vector: vector.to_vec(),
            tokens: case.tokens,
            types: case.types,
        }
    });
    Ok(cases.collect())
}

/// Of a GGUF file or a packed model: the CRC-32 of every tensor's elements, f32 little-endian, as the gguf package or the
/// definition of the packing dequantizes them.
///
/// # Errors
/// As [`decoder`].
pub fn dequantized(name: &str) -> Result<HashMap<String, u32>, GoldenError> {
    Ok(file(name)?.dequantized)
}

/// The cases, all expected numbers, and the path of these.
fn read(name: &str) -> Result<(Vec<Case>, Vec<f64>, PathBuf), GoldenError> {
    let cases = file(name)?.cases;
    let path = folder(name).join("expected.f64");
    let stored = bytes(&path)?;
    let (numbers, rest) = stored.as_chunks();
    if !rest.is_empty() {
        let count = numbers.len();
        return Err(GoldenError::Length { path, count });
    }
    let numbers = numbers.iter().map(|b| f64::from_le_bytes(*b)).collect();
    Ok((cases, numbers, path))
}

fn file(name: &str) -> Result<File, GoldenError> {
    json(&folder(name).join("golden.json"))
}

/// What a JSON file holds.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, GoldenError> {
    parsed(path, &bytes(path)?)
}

/// What a part of a file holds that is JSON.
pub(crate) fn parsed<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, GoldenError> {
    serde_json::from_slice(bytes).map_err(|source| GoldenError::Parse {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file, and the directory that it is in.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), GoldenError> {
    let wrong = |source| GoldenError::Write {
        path: path.to_owned(),
        source,
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(wrong)?;
    }
    std::fs::write(path, content).map_err(wrong)
}

pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, GoldenError> {
    std::fs::read(path).map_err(|source| GoldenError::Read {
        path: path.to_owned(),
        source,
    })
}
