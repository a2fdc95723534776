//! Tensors of a GGUF file that nothing reads.
//!
//! llama.cpp refuses a file of which it has not used every tensor ("wrong number of tensors"), so files that it loads have none that
//! their architecture does not know. What is left over here is of another architecture than the file names, or of a part that is
//! not implemented: without it this would be a different model, and nobody would be told.

use std::collections::BTreeSet;

use super::Gguf;
use super::config::Family;
use super::lookup::block_of;
use super::rope;
use crate::config::Architecture;
use crate::error::TensorError;

/// What the names of the tensors of a head that scores texts begin with: `cls.weight`, `cls.norm.weight`, `cls.output.weight` and
/// their biases.
pub(super) const HEADS: &str = "cls.";

/// What the names of tensors begin with that images and sounds go through: Ollama has them in one file with those for text.
const TOWERS: [&str; 3] = ["v.", "mm.", "a."];

/// Frequencies of rotary positions in each block, as old releases of transformers saved them; the keys say the same.
const FREQUENCIES: &str = "attn_rot_embd";

/// The biases that a block of any decoder may have.
const BIASES_OF_ATTENTION: &str = "attn_q.bias, attn_k.bias, attn_v.bias, attn_output.bias";

/// Those of experts, which gpt-oss has.
const BIASES_OF_EXPERTS: &str =
    "ffn_gate_inp.bias, ffn_gate_exps.bias, ffn_up_exps.bias, ffn_down_exps.bias";

impl Gguf {
    /// The first tensor that is not among those `read` and that may not be left over: those outside of blocks go before the others.
    pub(crate) fn unread(
        &self,
        architecture: &Architecture,
        read: &BTreeSet<String>,
    ) -> Option<TensorError> {
        let factors = match self.family.is_encoder() {
            true => &[],
            false => rope::factors_read(&self.header),
        };
        // A decoder that makes vectors ends before its head.
        let makes_vectors = matches!(architecture, Architecture::Encoder(_));
        let ends_before_head = makes_vectors && !self.family.is_encoder();
        let may_be_left = |name: &str| {
            TOWERS.iter().any(|tower| name.starts_with(tower))
                || is_of_frequencies(name)
                || (ends_before_head && name == "output.weight")
        };
        let names = self.header.tensors.keys().map(String::as_str);
        let left = names.filter(|name| !read.contains(*name) && !factors.contains(name));
        let unread = left.filter(|name| !may_be_left(name));
        let first = unread.min_by_key(|name| (block_of(name).map(|(block, _)| block), *name))?;
        Some(TensorError::Unread {
            name: first.to_owned(),
            model: architecture.name().to_owned(),
            supported: supported(first, self.family),
        })
    }
}

fn is_of_frequencies(name: &str) -> bool {
    let part = block_of(name).and_then(|(_, part)| part.strip_prefix(FREQUENCIES));
    part.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a family has in the place of a tensor that it does not have, of those that have something.
fn supported(name: &str, family: Family) -> Option<String> {
    if name.starts_with(HEADS) {
        let none = "no head that scores texts; rerankers and classifiers are encoders by their directories";
        return Some(none.to_owned());
    }
    if family.is_encoder() || !name.ends_with(".bias") {
        return None;
    }
    Some(match family {
        Family::GptOss => format!("{BIASES_OF_ATTENTION}, {BIASES_OF_EXPERTS}"),
        _ => BIASES_OF_ATTENTION.to_owned(),
    })
}
