//! What a GGUF file is, whether it can be opened or not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::header::{Header, Value};
use super::keys::Keys;
use super::kinds::Kind;
use super::parts::{self, Split};
use crate::checkpoint::{ReadFile, read};
use crate::error::CheckpointError;
use crate::format::{Format, StoredFormat};

/// What the header of a GGUF file says, or those of all parts that are there. Nothing of it was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufSummary {
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.name`.
    pub name: Option<String>,
    /// The file, or every part of the model in order.
    pub parts: Vec<GgufPart>,
    /// What tensors are stored in, the largest first.
    pub formats: Vec<GgufFormat>,
    /// The tokenizer, if there is one.
    pub tokenizer: Option<GgufTokenizer>,
}

/// A file of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufPart {
    /// Where it lies, or should.
    pub path: PathBuf,
    /// Its length; nothing if there is no such file.
    pub bytes: Option<u64>,
    /// Tensors in it.
    pub tensors: usize,
    /// Why it cannot be read, though it is there.
    pub problem: Option<String>,
}

/// The tensors of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufFormat {
    /// The type's name.
    pub name: String,
    /// How many they are.
    pub tensors: usize,
    /// Bytes of all; nothing where the type is not known.
    pub bytes: Option<u64>,
    /// What their rows are handed on in; nothing where the type is not read.
    pub handed_on: Option<Format>,
    /// Whether that is what they are stored in.
    pub kept: bool,
}

/// What stands under `tokenizer.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufTokenizer {
    /// `tokenizer.ggml.model`.
    pub model: String,
    /// `tokenizer.ggml.pre`.
    pub pre: Option<String>,
    /// Tokens.
    pub tokens: usize,
    /// Whether there is a chat template.
    pub chat_template: bool,
}

/// What a GGUF file is, of any architecture and with any tensors. If it is one of several parts, the others are looked for
/// beside it.
///
/// # Errors
/// The file cannot be read, or its header is damaged.
pub fn gguf_summary(path: &Path, files: &dyn ReadFile) -> Result<GgufSummary, CheckpointError> {
    let bytes = read(files, path)?.ok_or_else(|| CheckpointError::NoModel {
        path: path.to_owned(),
    })?;
    let given = parts::parse(path, &bytes)?;
    let part = |path: &Path, bytes: &[u8], header: &Header| GgufPart {
        path: path.to_owned(),
        bytes: Some(bytes.len() as u64),
        tensors: header.tensors.len(),
        problem: None,
    };
    let split = Split::of(&given.keys).ok().flatten();
    let paths = split.and_then(|split| parts::paths(path, split).ok());
    let mut summary = GgufSummary {
        architecture: None,
        name: None,
        parts: Vec::new(),
        formats: Vec::new(),
        tokenizer: None,
    };
    let mut formats = BTreeMap::new();
    for other in paths.unwrap_or_else(|| vec![path.to_owned()]) {
        if other == path {
            summary.parts.push(part(path, (*bytes).as_ref(), &given));
            summary.add(&given, &mut formats);
            continue;
        }
        let mut found = GgufPart {
            path: other.clone(),
            bytes: None,
            tensors: 0,
            problem: None,
        };
        match read(files, &other) {
            Ok(Some(bytes)) => {
                found.bytes = Some((*bytes).as_ref().len() as u64);
                match parts::parse(&other, &bytes) {
                    Ok(header) => {
                        found = part(&other, (*bytes).as_ref(), &header);
                        summary.add(&header, &mut formats);
                    }
                    Err(error) => found.problem = Some(error.to_string()),
                }
            }
            Ok(None) => {}
            Err(error) => found.problem = Some(error.to_string()),
        }
        summary.parts.push(found);
    }
    summary.formats = formats.into_values().collect();
    summary
        .formats
        .sort_by_key(|format| std::cmp::Reverse(format.bytes));
    Ok(summary)
}

impl GgufSummary {
    /// Adds what a header says.
    fn add(&mut self, header: &Header, formats: &mut BTreeMap<String, GgufFormat>) {
        let keys = Keys(&header.keys);
        let text = |key: &str| keys.text(key).ok().flatten().map(str::to_owned);
        let or = |own: &mut Option<String>, key: &str| {
            if own.is_none() {
                *own = text(key);
            }
        };
        or(&mut self.architecture, "general.architecture");
        or(&mut self.name, "general.name");
        if self.tokenizer.is_none()
            && let Some(model) = text("tokenizer.ggml.model")
        {
            self.tokenizer = Some(GgufTokenizer {
                model,
                pre: text("tokenizer.ggml.pre"),
                tokens: match header.keys.get("tokenizer.ggml.tokens") {
                    Some(Value::Texts(tokens)) => tokens.len(),
                    _ => 0,
                },
                chat_template: text("tokenizer.chat_template").is_some(),
            });
        }
        for entry in header.tensors.values() {
            let name = entry.kind.name();
            let of = formats.entry(name.clone()).or_insert_with(|| GgufFormat {
                name,
                tensors: 0,
                bytes: entry.kind.block().map(|_| 0),
                handed_on: match entry.kind {
                    Kind::Known(format) => Some(format.handed_on()),
                    Kind::Other(_) => None,
                },
                kept: matches!(entry.kind, Kind::Known(StoredFormat::Kept(_))),
            });
            of.tensors += 1;
            if let Some(bytes) = &mut of.bytes {
                *bytes += entry.range.len() as u64;
            }
        }
    }

    /// Tensors of all parts that are there.
    #[must_use]
    pub fn tensors(&self) -> usize {
        self.parts.iter().map(|part| part.tensors).sum()
    }
}
