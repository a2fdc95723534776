//! Tensors in safetensors files that nothing reads.
//!
//! transformers leaves out with a warning what an architecture does not have, and directories are published with much that is for other
//! uses: parts for images and sounds, heads, layers that guess further tokens. So only what stands where text goes through is looked at,
//! in the layers, and in the modules of tensors that are read or below them: without a norm, a bias, a scale or an adapter there it
//! would be a different model.

use std::collections::BTreeSet;
use std::iter::successors;

use super::lookup::Weights;
use crate::config::Architecture;
use crate::error::TensorError;

/// Tables of rotary positions, as old releases of transformers saved them: the configuration says the same.
const TABLES: [&str; 3] = ["inv_freq", "cos_cached", "sin_cached"];

/// What activations, and keys and values in a cache, would be divided by where they were quantized, which they are not.
/// `activation_scale` is transformers' in static FP8, `act_scale` the earliest AutoFP8's, `prob_output_scale` AMD Quark's, which is
/// `prob_scale` in vLLM.
const OF_ACTIVATIONS: [&str; 16] = [
    "input_scale",
    "input_scale_ub",
    "input_zero_point",
    "output_scale",
    "output_zero_point",
    "activation_scale",
    "act_scale",
    "q_scale",
    "k_scale",
    "v_scale",
    "q_zero_point",
    "k_zero_point",
    "v_zero_point",
    "kv_scale",
    "prob_scale",
    "prob_output_scale",
];

/// What is added or taken away, which changes nothing where it is all zeros: AutoGPTQ writes such a bias for every matrix (its issue
/// 555), and compressed-tensors wrote such zero points for symmetric ones until its pull request 59, of May 2024.
const ADDED: [&str; 2] = ["bias", "weight_zero_point"];

/// Is added to every row of an encoder that has it.
const TYPES: &str = "embeddings.token_type_embeddings.weight";

/// The weight of a decoder's head may be left over, where the embedding is taken for it; but no decoder that is read has a bias there,
/// or modules within it.
fn is_more_than_a_head(name: &str) -> bool {
    let name = name.strip_prefix("language_model.").unwrap_or(name);
    let part = name.strip_prefix("lm_head.");
    part.is_some_and(|part| part == "bias" || part.contains('.'))
}

impl Weights {
    /// The first tensor that is not among those `read` and that may not be left over: those outside of layers go before the others.
    pub(crate) fn unread(
        &self,
        architecture: &Architecture,
        read: &BTreeSet<String>,
    ) -> Option<TensorError> {
        let modules: BTreeSet<&str> = read.iter().map(|name| in_parts(name).0).collect();
        let makes_text = matches!(architecture, Architecture::Decoder(_));
        let text_goes_through = |name: &str| {
            modules_of(name).any(|module| modules.contains(module))
                || self.layer_of(architecture, name).is_some()
                || (makes_text && is_more_than_a_head(name))
                || name.ends_with(TYPES)
        };
        let left = self.store.names().filter(|name| !read.contains(*name));
        let unread = left.filter(|name| text_goes_through(name) && !self.changes_nothing(name));
        let first = unread.min_by_key(|name| (self.layer_of(architecture, name), *name))?;
        Some(TensorError::Unread {
            name: first.to_owned(),
            model: format!("{} with this config.json", architecture.name()),
            supported: None,
        })
    }

    fn changes_nothing(&self, name: &str) -> bool {
        let (_, part) = in_parts(name);
        TABLES.contains(&part)
            || OF_ACTIVATIONS.contains(&part)
            || (ADDED.contains(&part) && self.is_of_zeros(name))
    }

    fn is_of_zeros(&self, name: &str) -> bool {
        let stored = self.store.get(name);
        stored.is_some_and(|stored| stored.is_of_zeros())
    }
}

/// The module that a tensor belongs to, and which of its tensors it is.
fn in_parts(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

/// The module that a tensor belongs to, the one that this is part of, and so on.
fn modules_of(name: &str) -> impl Iterator<Item = &str> {
    successors(Some(in_parts(name).0), |module| {
        module.rsplit_once('.').map(|(above, _)| above)
    })
}
