//! What would work in the place of a file that is refused.

use super::error::GgufError;
use super::summary::GgufSummary;
use crate::config::ConfigError;
use crate::error::{CheckpointError, TensorError};

/// Beginnings of `general.architecture` in lower case, and the nearest that is read. The first that fits counts.
const NEAREST: [(&str, &str); 19] = [
    ("llama4", "Llama 3.x (llama)"),
    ("qwen2vl", "Qwen2.5 for text (qwen2)"),
    ("qwen3vl", "Qwen3 for text (qwen3, qwen3moe)"),
    ("qwen3next", "a dense Qwen3 (qwen3)"),
    ("qwen", "Qwen2.5 (qwen2) or Qwen3 (qwen3)"),
    ("gemma3n", "Gemma 3 (gemma3)"),
    ("gemma", "Gemma 2 (gemma2) or Gemma 3 (gemma3)"),
    ("phi", "Phi-3 (phi3)"),
    ("mixtral", "Mixtral as its makers of files call it (llama)"),
    ("mistral", "Mistral 7B (llama)"),
    (
        "deepseek2",
        "DeepSeek-R1 distilled into Qwen2.5 (qwen2) or Llama 3 (llama)",
    ),
    ("deepseek", "Qwen2.5 (qwen2)"),
    ("bert", ENCODERS),
    ("nomic-bert", ENCODERS),
    ("jina-bert", ENCODERS),
    ("modern-bert", ENCODERS),
    ("roberta", ENCODERS),
    ("xlm-roberta", ENCODERS),
    ("neo-bert", ENCODERS),
];

const ENCODERS: &str = "an encoder as its directory with config.json and safetensors (BertModel, RobertaModel, XLMRobertaModel)";

/// Files of most models that hold nothing but what is read.
const USUAL: &str = "Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0, IQ4_XS or IQ4_NL";

impl GgufSummary {
    /// The nearest thing that works, where it is known, in the place of a file that is refused with this error.
    #[must_use]
    pub fn nearest(&self, error: &CheckpointError) -> Option<String> {
        Some(match error {
            CheckpointError::MissingParts { missing, .. } => format!(
                "all {} parts in one directory; {} of them {} not there",
                self.parts.len(),
                missing.len(),
                if missing.len() == 1 { "is" } else { "are" }
            ),
            CheckpointError::Part { .. } => {
                "all parts of one model, fetched anew under their own names".to_owned()
            }
            CheckpointError::NoTensors { .. } => {
                "the model's own file; this one is for trying tokenizers".to_owned()
            }
            CheckpointError::Tensor { source, .. } => return self.nearest_to_tensor(source),
            CheckpointError::Config { source, .. } => return self.nearest_to_config(source),
            CheckpointError::SurplusLayer { .. } => {
                "a conversion of the model without layers that guess further tokens".to_owned()
            }
            error => return gguf_nearest(error),
        })
    }

    fn nearest_to_tensor(&self, error: &TensorError) -> Option<String> {
        let TensorError::Precision { .. } = error else {
            return None;
        };
        let not_read = self.formats.iter().filter(|of| of.handed_on.is_none());
        let not_read: Vec<String> = not_read
            .map(|of| format!("{} in {} tensors", of.name, of.tensors))
            .collect();
        Some(match not_read.is_empty() {
            true => format!("the same model as {USUAL}"),
            false => format!(
                "the same model as {USUAL}; this file has {}, which is not read",
                not_read.join(", ")
            ),
        })
    }

    fn nearest_to_config(&self, error: &ConfigError) -> Option<String> {
        let ConfigError::Unsupported { key, .. } = error else {
            return None;
        };
        if key.ends_with(".expert_count") {
            let family = self.architecture.as_deref().unwrap_or("this family");
            return Some(format!("a dense model of {family}, without experts"));
        }
        if key != "general.architecture" {
            return None;
        }
        let name = self.architecture.as_deref()?.to_lowercase();
        let known = NEAREST.iter().find(|(start, _)| name.starts_with(start));
        known.map(|(_, nearest)| (*nearest).to_owned())
    }
}

/// The nearest thing that works, where it is known, in the place of a file of which nothing can be told, since its header is
/// damaged.
#[must_use]
pub fn gguf_nearest(error: &CheckpointError) -> Option<String> {
    let CheckpointError::Gguf { source, .. } = error else {
        return None;
    };
    Some(
        match source {
            GgufError::Magic => {
                "a file that begins with GGUF; a model in safetensors is given by its directory"
            }
            GgufError::Version { .. } => {
                "a conversion of the model since August 2023, which has version 3"
            }
            GgufError::BigEndian => "the little-endian file of the model, which most machines take",
            GgufError::CutShort { .. } | GgufError::Place { .. } => {
                "the whole file: it ends too early, or was written over; fetch it again"
            }
            _ => return None,
        }
        .to_owned(),
    )
}
