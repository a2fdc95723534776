//! What would work in the place of a file that is refused.

use super::error::GgufError;
use super::summary::GgufSummary;
use super::unread::HEADS;
use crate::config::{Architecture, ConfigError};
use crate::error::{CheckpointError, TensorError};

/// Beginnings of `general.architecture` in lower case, and the nearest that is read. The first that fits counts.
const NEAREST: [(&str, &str); 33] = [
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
    (
        "deepseekv",
        "DeepSeek-R1 distilled into Qwen2.5 (qwen2) or Llama 3 (llama)",
    ),
    ("deepseek", "Qwen2.5 (qwen2)"),
    ("llava", "Llama 3.x (llama) or Mistral 7B (llama), for text"),
    ("mllama", "Llama 3.x for text (llama)"),
    ("llama", "Llama 3.x (llama)"),
    ("mamba", DECODERS),
    ("rwkv", DECODERS),
    ("whisper", "none: no model here hears; give the text"),
    ("wav2vec2", "none: no model here hears; give the text"),
    ("clip", "none for images; for texts alone an encoder"),
    ("siglip", "none for images; for texts alone an encoder"),
    ("t5encoder", "an encoder (BERT, ModernBERT or Nomic BERT)"),
    ("deberta", "ModernBERT or RoBERTa"),
    ("electra", "BERT or ModernBERT"),
    ("mpnet", "BERT (all-MiniLM) or ModernBERT"),
    ("bert", ENCODERS),
    ("nomic-bert", "nomic-embed-text v1 or v1.5 (nomic-bert)"),
    ("jina-bert", ENCODERS),
    ("modern-bert", ENCODERS),
    ("roberta", ENCODERS),
    ("xlm-roberta", ENCODERS),
    ("neo-bert", ENCODERS),
];

const ENCODERS: &str = "an encoder as its directory with config.json and safetensors (BertModel, RobertaModel, XLMRobertaModel, \
    ModernBertModel), or another as a GGUF file (bert, nomic-bert)";

/// In the place of a GGUF file of an encoder that scores texts or pairs of them.
const SCORES: &str = "the directory that it was converted from, with config.json and safetensors: labels and scores of pairs are read \
    from there";

/// The same of a decoder, whose scores are read from nowhere.
const SCORES_OF_ENCODERS: &str = "a reranker or classifier that is an encoder (BERT, RoBERTa, XLM-RoBERTa, DistilBERT or ModernBERT), as its \
    directory with config.json and safetensors";

/// In the place of a GGUF file whose rows make no vectors, or are put together in an unknown way.
const POOLED: &str = "a conversion whose `pooling_type` is 1 (mean), 2 (first token) or 3 (last token), or the directory that the file was \
    converted from, with config.json and safetensors";

/// In the place of a decoder for embeddings of another family.
const VECTORS: &str = "a decoder for embeddings of qwen3, qwen2 or llama (Qwen3-Embedding), or an encoder (bert, nomic-bert)";

/// What answers in the place of a model that writes text and is of no family that is here.
const DECODERS: &str = "a decoder of about its size: Llama 3.x (llama), Qwen3 (qwen3), Gemma 3 (gemma3) or Phi-3 (phi3)";

/// The nearest to an architecture that is not read, by its name in `architectures` of a `config.json`.
#[must_use]
pub fn nearest_architecture(name: &str) -> String {
    let whole = name.strip_suffix("Model").unwrap_or(name);
    let family = whole.split("For").next().unwrap_or_default();
    // The same model for another use.
    let of_family = |known: &&str| {
        let rest = known.strip_prefix(family);
        rest.is_some_and(|rest| rest.starts_with("For") || rest == "Model")
    };
    let known = Architecture::names().into_iter();
    let known: Vec<&str> = known
        .filter(|known| !family.is_empty() && of_family(known))
        .collect();
    if !known.is_empty() {
        return format!("a model of its family as {}", known.join(" or "));
    }
    let lower = name.to_lowercase();
    match NEAREST.iter().find(|(start, _)| lower.starts_with(start)) {
        // What stands in brackets are names in GGUF files.
        Some((_, nearest)) => without_brackets(nearest),
        None => without_brackets(DECODERS),
    }
}

fn without_brackets(text: &str) -> String {
    let parts = text.split(" (").enumerate();
    let parts = parts.map(|(index, part)| match (index, part.split_once(')')) {
        (1.., Some((_, rest))) => rest,
        _ => part,
    });
    parts.collect()
}

/// In the place of a file that is damaged, or was converted wrongly.
const ANEW: &str = "the same file anew: fetch it again, or convert the model again";

/// In the place of a low-rank adapter as a GGUF file.
const LORA: &str = "the directory that the adapter was converted from, with adapter_config.json and adapter_model.safetensors, by \
    [model.NAME] with type = \"lora\" over the base";

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
        match error {
            TensorError::Precision { .. } => {}
            TensorError::Unread { name, .. } => return Some(self.nearest_to_unread(name)),
            _ => return Some(ANEW.to_owned()),
        }
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
        let key = match error {
            ConfigError::Unsupported { key, .. } => key,
            ConfigError::Missing { key } => {
                return Some(format!(
                    "a newer conversion of the model, which has `{key}`"
                ));
            }
            ConfigError::OutOfRange { .. } => return Some(ANEW.to_owned()),
            // Nothing stands beside such a file.
            ConfigError::Beside { .. } => return None,
        };
        if key == "general.type" {
            return Some(LORA.to_owned());
        }
        if key.ends_with(".expert_count") {
            let family = self.architecture.as_deref().unwrap_or("this family");
            return Some(format!("a dense model of {family}, without experts"));
        }
        if key.ends_with(".pooling_type") {
            return Some(self.nearest_to_pooling(error).to_owned());
        }
        if key != "general.architecture" {
            return Some(format!(
                "a model of this family whose `{key}` is as the refusal says"
            ));
        }
        let name = self.architecture.as_deref()?.to_lowercase();
        let known = NEAREST.iter().find(|(start, _)| name.starts_with(start));
        let nearest = known.map_or(DECODERS, |(_, nearest)| nearest);
        Some(nearest.to_owned())
    }

    /// In the place of a file with a tensor that nothing reads.
    fn nearest_to_unread(&self, name: &str) -> String {
        if name.starts_with(HEADS) {
            return self.nearest_to_scores().to_owned();
        }
        // Layers between a pooled vector and what is handed on.
        if name.starts_with("dense") {
            return VECTORS.to_owned();
        }
        // As nvfp4 and ternary formats have them beside their matrices.
        if name.ends_with("scale") {
            return format!("the same model as {USUAL}");
        }
        let family = self.architecture.as_deref().unwrap_or("this family");
        format!(
            "a file of which {family} uses every tensor: another conversion of the model, or another model of {family}"
        )
    }

    fn nearest_to_pooling(&self, error: &ConfigError) -> &'static str {
        // The number stands before what it is called.
        if matches!(error, ConfigError::Unsupported { value, .. } if value.starts_with("4 (rank")) {
            return self.nearest_to_scores();
        }
        match self.architecture.as_deref() {
            Some("bert" | "nomic-bert" | "llama" | "qwen2" | "qwen3") => POOLED,
            _ => VECTORS,
        }
    }

    fn nearest_to_scores(&self) -> &'static str {
        match self.architecture.as_deref() {
            Some("bert" | "nomic-bert") => SCORES,
            _ => SCORES_OF_ENCODERS,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_to_an_architecture_of_a_directory_is_named_as_people_name_it() {
        for (name, nearest) in [
            (
                "LlamaForSequenceClassification",
                "a model of its family as LlamaForCausalLM",
            ),
            (
                "BertForQuestionAnswering",
                "a model of its family as BertModel or BertFor",
            ),
            ("Llama4ForConditionalGeneration", "Llama 3.x"),
            ("Qwen2VLForConditionalGeneration", "Qwen2.5 for text"),
            ("Qwen3VLMoeForConditionalGeneration", "Qwen3 for text"),
            (
                "DeepseekV3ForCausalLM",
                "DeepSeek-R1 distilled into Qwen2.5 or Llama 3",
            ),
            (
                "LlavaForConditionalGeneration",
                "Llama 3.x or Mistral 7B, for text",
            ),
            (
                "WhisperForConditionalGeneration",
                "none: no model here hears",
            ),
            (
                "MambaForCausalLM",
                "a decoder of about its size: Llama 3.x, Qwen3, Gemma 3 or Phi-3",
            ),
            ("T5ForConditionalGeneration", "a decoder of about its size"),
            ("", "a decoder of about its size"),
        ] {
            let found = nearest_architecture(name);
            assert!(found.starts_with(nearest), "{name}: {found}");
            assert!(!found.contains('('), "{name}: {found}");
        }
    }
}
