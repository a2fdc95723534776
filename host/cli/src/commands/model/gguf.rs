//! What `tidegate model info` says of a GGUF file, whether it can be loaded or not.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_infer::MappedFiles;
use tidegate_text::{LoadError, Tokenizer};
use tidegate_weights::{
    Checkpoint, CheckpointError, GgufFormat, GgufPart, GgufSummary, gguf_nearest, gguf_summary,
};

use super::info::Line;
use super::size;
use crate::commands::{print, print_json};
use crate::exit::{Failure, with_causes};

/// A GGUF file, and what its header says.
pub(super) struct GgufFile {
    path: PathBuf,
    summary: Result<GgufSummary, CheckpointError>,
}

impl GgufFile {
    /// Reads the header of a file that is named so; of what is no file, or named otherwise, there is nothing to say.
    pub(super) fn at(path: &Path) -> Option<GgufFile> {
        let named = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        (named && path.is_file()).then(|| GgufFile {
            path: path.to_owned(),
            summary: gguf_summary(path, &MappedFiles),
        })
    }

    /// What it is, in lines.
    pub(super) fn lines(&self) -> Vec<Line> {
        let Ok(summary) = &self.summary else {
            let bytes = std::fs::metadata(&self.path).map_or(0, |found| found.len());
            let text = format!("{}, whose header cannot be read", size(bytes));
            return vec![("file", text)];
        };
        let bytes = summary.parts.iter().filter_map(|part| part.bytes).sum();
        let mut lines = vec![(
            "file",
            format!(
                "GGUF{}, {}, {} tensors{}",
                match summary.parts.len() {
                    1 => String::new(),
                    parts => format!(" in {parts} parts"),
                },
                size(bytes),
                summary.tensors(),
                match &summary.name {
                    Some(name) => format!(", {name:?}"),
                    None => String::new(),
                }
            ),
        )];
        for part in &summary.parts {
            let name = part.path.file_name().unwrap_or_default().to_string_lossy();
            let what = match part {
                GgufPart {
                    problem: Some(problem),
                    ..
                } => problem.clone(),
                GgufPart { bytes: None, .. } => "is not there".to_owned(),
                _ => continue,
            };
            lines.push(("  part", format!("{name}: {what}")));
        }
        lines
    }

    /// What its tensors are stored in.
    pub(super) fn stored(&self) -> Vec<Line> {
        let Ok(summary) = &self.summary else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        for of in &summary.formats {
            let name = if lines.is_empty() { "stored as" } else { "" };
            lines.push((name, stored_in(of)));
        }
        lines
    }

    /// What there is to be known of one that is refused: printed, then the failure.
    pub(super) fn refused(&self, error: anyhow::Error, as_json: bool) -> Result<Failure, Failure> {
        let nearest = self.nearest(&error);
        if as_json {
            let mut report =
                json!({"loads": false, "refused": with_causes(&error), "nearest": nearest});
            report["gguf"] = self.json();
            print_json(&format!("{report:#}"))?;
            return Ok(error.into());
        }
        let mut lines = Vec::new();
        if let Ok(summary) = &self.summary {
            let unknown = || "not said".to_owned();
            let architecture = summary.architecture.clone().unwrap_or_else(unknown);
            lines.push(("architecture", architecture));
        }
        lines.extend(self.lines());
        lines.extend(self.stored());
        if let Ok(summary) = &self.summary {
            let text = match &summary.tokenizer {
                None => "none".to_owned(),
                Some(tokenizer) => format!(
                    "{}{}, {} tokens, {}",
                    tokenizer.model,
                    match &tokenizer.pre {
                        Some(pre) => format!(" split as {pre}"),
                        None => String::new(),
                    },
                    tokenizer.tokens,
                    match tokenizer.chat_template {
                        true => "its own chat template",
                        false => "no chat template",
                    }
                ),
            };
            lines.push(("tokenizer", text));
        }
        lines.push(("refused", with_causes(&error)));
        lines.extend(nearest.map(|nearest| ("what would work", nearest)));
        print(&in_lines(&lines))?;
        Ok(error.into())
    }

    fn nearest(&self, error: &anyhow::Error) -> Option<String> {
        let error = error.downcast_ref::<CheckpointError>()?;
        match &self.summary {
            Ok(summary) => summary.nearest(error),
            Err(_) => gguf_nearest(error),
        }
    }

    /// What would let its texts be split, where it does not say how: of a tokenizer that could not be made for another reason
    /// nothing.
    pub(super) fn nearest_tokenizer(
        &self,
        checkpoint: &Checkpoint,
        error: Option<&anyhow::Error>,
    ) -> Option<String> {
        let vocabulary = checkpoint.gguf_vocabulary();
        let Some(vocabulary) = vocabulary else {
            return Some(
                "a file of the model with its tokenizer, or its directory with tokenizer.json"
                    .to_owned(),
            );
        };
        let is_of_another_key = error
            .and_then(|error| error.downcast_ref::<LoadError>())
            .is_some_and(|error| {
                !matches!(error, LoadError::Gguf { key, .. } if key == "tokenizer.ggml.pre")
            });
        if checkpoint.encoder().is_some() {
            let directory = "the directory that it was converted from, with config.json, safetensors and tokenizer.json";
            return error.map(|_| directory.to_owned());
        }
        if is_of_another_key || !Tokenizer::lacks_pre_tokenizer(&vocabulary) {
            return None;
        }
        let architecture = checkpoint.decoder().map(|config| &config.architecture)?;
        let likely = likely_pre_tokenizers(architecture, vocabulary.tokens.len());
        Some(match likely {
            [] => {
                "a newer conversion, or --pre-tokenizer with what the model's makers use".to_owned()
            }
            likely => {
                let likely = likely
                    .iter()
                    .map(|(name, makers)| format!("{name} if it is {makers}"));
                format!(
                    "--pre-tokenizer, and pre-tokenizer of the model in a pipeline file: {}",
                    likely.collect::<Vec<_>>().join(", ")
                )
            }
        })
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let summary = match &self.summary {
            Ok(summary) => summary,
            Err(error) => return json!({"error": error.to_string()}),
        };
        let parts = summary.parts.iter().map(|part| {
            json!({"path": part.path, "bytes": part.bytes, "tensors": part.tensors, "problem": part.problem})
        });
        let formats = summary.formats.iter().map(|of| {
            json!({"name": of.name, "tensors": of.tensors, "bytes": of.bytes,
                "held_as": of.handed_on.map(|format| format.name())})
        });
        json!({
            "architecture": summary.architecture, "name": summary.name, "parts": parts.collect::<Vec<_>>(),
            "formats": formats.collect::<Vec<_>>(),
            "tokenizer": summary.tokenizer.as_ref().map(|tokenizer| json!({
                "model": tokenizer.model, "pre": tokenizer.pre, "tokens": tokenizer.tokens,
                "chat_template": tokenizer.chat_template})),
        })
    }
}

/// The tensors of one type, in words.
fn stored_in(of: &GgufFormat) -> String {
    let tensors = match of.tensors {
        1 => "1 tensor".to_owned(),
        tensors => format!("{tensors} tensors"),
    };
    let bytes = of.bytes.map_or_else(|| "of unknown size".to_owned(), size);
    let held = match of.handed_on {
        None => ", not read".to_owned(),
        Some(_) if of.kept => String::new(),
        Some(format) => format!(", held as {}", format.name()),
    };
    format!("{} {bytes} in {tensors}{held}", of.name)
}

/// Lines with their names in a column.
pub(super) fn in_lines(lines: &[Line]) -> String {
    let line = |(name, text): &Line| format!("{name:<15} {text}\n");
    lines.iter().map(line).collect()
}

/// How the published models of an architecture with so many tokens split their texts, and whose they are.
fn likely_pre_tokenizers(
    architecture: &str,
    tokens: usize,
) -> &'static [(&'static str, &'static str)] {
    match (architecture, tokens) {
        ("llama", 128_256..=128_264) | ("smollm3", 128_256) => {
            &[("llama-bpe", "Llama 3 or SmolLM3")]
        }
        ("llama", 49_152..=49_160) => &[("smollm", "SmolLM")],
        ("llama", 131_072) => &[("tekken", "Mistral NeMo"), ("falcon3", "Falcon 3")],
        ("llama", 32_256) => &[("deepseek-coder", "DeepSeek Coder")],
        ("llama", 102_400) => &[("deepseek-llm", "DeepSeek LLM")],
        ("qwen2" | "qwen3", 151_643..=152_064) => &[("qwen2", "Qwen 2 or 3")],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_likely_is_known() {
        let sizes = [
            ("llama", 128_256),
            ("smollm3", 128_256),
            ("llama", 49_152),
            ("llama", 131_072),
            ("llama", 32_256),
            ("llama", 102_400),
            ("qwen2", 151_936),
            ("qwen3", 151_936),
        ];
        for (architecture, tokens) in sizes {
            let likely = likely_pre_tokenizers(architecture, tokens);
            assert!(!likely.is_empty(), "{architecture} {tokens}");
            for (name, _) in likely {
                assert!(Tokenizer::pre_tokenizers().contains(name), "{name}");
            }
        }
        // Two makers with vocabularies of one size, who split otherwise.
        let [(first, _), (second, _)] = likely_pre_tokenizers("llama", 131_072) else {
            panic!("both are told");
        };
        assert_ne!(first, second);
        assert!(likely_pre_tokenizers("llama", 32_000).is_empty());
    }

    #[test]
    fn formats_are_told_with_what_becomes_of_them() {
        let of = |name: &str, handed_on, kept, bytes| GgufFormat {
            name: name.to_owned(),
            tensors: 2,
            bytes,
            handed_on,
            kept,
        };
        let int8 = Some(tidegate_weights::Format::Int8);
        let told = [
            of("q8_0", int8, true, Some(1 << 20)),
            of("q5_0", int8, false, Some(1 << 20)),
            of("type number 99", None, false, None),
        ];
        assert_eq!(
            told.each_ref().map(stored_in),
            [
                "q8_0 1.00 MiB in 2 tensors",
                "q5_0 1.00 MiB in 2 tensors, held as int8",
                "type number 99 of unknown size in 2 tensors, not read",
            ]
        );
    }
}
