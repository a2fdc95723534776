//! What an architecture that is not implemented would need: people are told what is missing, not only that something is.

use serde_json::{Map, Value};

/// Beginnings of names in lower case, as `architectures` and `general.architecture` have them, and what such models need that
/// no implemented family has, after transformers' `modeling_*.py`. The first that fits counts.
const NEEDS: [(&str, &str); 29] = [
    ("qwen3vlmoe", "images as input"),
    ("phimoe", EXPERTS),
    ("olmoe", EXPERTS),
    ("deepseek", EXPERTS),
    ("llama4", EXPERTS),
    ("granitemoe", EXPERTS),
    ("falconh1", STATE_SPACE),
    ("falcon-h1", STATE_SPACE),
    ("falconmamba", STATE_SPACE),
    ("mamba", STATE_SPACE),
    ("jamba", STATE_SPACE),
    ("rwkv", "recurrent layers"),
    ("recurrentgemma", "recurrent layers"),
    ("qwen3next", "linear attention"),
    ("gpt2", POSITIONS),
    ("gptbigcode", POSITIONS),
    ("optfor", POSITIONS),
    ("bloom", "attention biased by distance (ALiBi)"),
    ("mptfor", "attention biased by distance (ALiBi)"),
    ("falcon", PARALLEL),
    ("gptneox", PARALLEL),
    ("gptj", PARALLEL),
    ("phi2", PARALLEL),
    ("phifor", PARALLEL),
    ("cohere", PARALLEL),
    ("command-r", PARALLEL),
    ("olmo", "norms that are not those of Llama"),
    ("stablelm", "layer norms with biases"),
    ("granite", "multipliers of embeddings, residuals and logits"),
];

const EXPERTS: &str = "another mixture of experts";
const STATE_SPACE: &str = "state space layers";
const POSITIONS: &str = "learned positions";
const PARALLEL: &str = "attention and feed-forward side by side";

/// `name`, with what it would need where that is known by the name or by other keys of its `config.json`.
pub(crate) fn with_what_is_lacking(name: &str, config: Option<&Map<String, Value>>) -> String {
    match by_name(name).or_else(|| by_keys(config?)) {
        Some(what) => format!("{name} (it needs {what})"),
        None => name.to_owned(),
    }
}

fn by_name(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let known = NEEDS.iter().find(|(start, _)| name.starts_with(start));
    known.map(|(_, what)| *what)
}

fn by_keys(config: &Map<String, Value>) -> Option<&'static str> {
    let counts = |key: &str| {
        config
            .get(key)
            .and_then(Value::as_u64)
            .is_some_and(|n| n > 0)
    };
    let experts = ["num_local_experts", "num_experts", "n_routed_experts"];
    if experts.iter().any(|key| counts(key)) {
        return Some(EXPERTS);
    }
    if config.get("is_encoder_decoder") == Some(&Value::Bool(true)) {
        return Some("an encoder beside the decoder");
    }
    let inputs = [
        ("vision_config", "images as input"),
        ("audio_config", "sound as input"),
    ];
    let found = inputs.iter().find(|(key, _)| config.contains_key(*key));
    found.map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_told_by_the_name_or_by_the_keys() {
        let keys = |value: Value| value.as_object().cloned();
        let cases = [
            (
                "OlmoeForCausalLM",
                json!({}),
                "OlmoeForCausalLM (it needs another mixture of experts)",
            ),
            (
                "FalconMambaForCausalLM",
                json!({}),
                "FalconMambaForCausalLM (it needs state space layers)",
            ),
            (
                "NewForCausalLM",
                json!({"num_experts": 8}),
                "NewForCausalLM (it needs another mixture of experts)",
            ),
            (
                "NewForCausalLM",
                json!({"num_experts": 0}),
                "NewForCausalLM",
            ),
            (
                "T5ForConditionalGeneration",
                json!({"is_encoder_decoder": true}),
                "T5ForConditionalGeneration (it needs an encoder beside the decoder)",
            ),
            (
                "SeeingModel",
                json!({"vision_config": {}}),
                "SeeingModel (it needs images as input)",
            ),
        ];
        for (name, config, expected) in cases {
            assert_eq!(with_what_is_lacking(name, keys(config).as_ref()), expected);
        }
        assert_eq!(with_what_is_lacking("plain", None), "plain");
    }
}
