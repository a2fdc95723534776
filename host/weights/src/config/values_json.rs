//! Single values of a `config.json` that stand in several families.

use half::{bf16, f16};
use serde_json::Value;

use super::raw::Raw;
use super::{Activation, ConfigError};

/// The activation of that name.
pub(super) fn activation(key: &str, name: &str) -> Result<Activation, ConfigError> {
    match name {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Ok(Activation::GeluTanh),
        "gelu" => Ok(Activation::Gelu),
        other => Err(ConfigError::unsupported(
            key,
            other,
            "silu, gelu, gelu_pytorch_tanh",
        )),
    }
}

/// The precision the model was made in.
#[derive(Clone, Copy)]
pub(crate) enum Precision {
    F32,
    F16,
    Bf16,
}

pub(super) fn precision(config: Raw<'_>, outer: Raw<'_>) -> Result<Precision, ConfigError> {
    for raw in [outer, config] {
        for key in ["dtype", "torch_dtype"] {
            match raw.text(key)? {
                None => {}
                Some("float32") => return Ok(Precision::F32),
                Some("float16") => return Ok(Precision::F16),
                Some("bfloat16") => return Ok(Precision::Bf16),
                Some(other) => {
                    return Err(ConfigError::unsupported(
                        key,
                        other,
                        "float32, float16, bfloat16",
                    ));
                }
            }
        }
    }
    Ok(Precision::F32)
}

/// The square root of the hidden width, rounded as transformers rounds it: to f32, then to the weights' precision.
pub(crate) fn gemma_embedding_scale(hidden: usize, precision: Precision) -> f64 {
    let root = (hidden as f64).sqrt() as f32;
    match precision {
        Precision::F32 => f64::from(root),
        Precision::F16 => f16::from_f32(root).to_f64(),
        Precision::Bf16 => bf16::from_f32(root).to_f64(),
    }
}

/// A token id, a list of them, or nothing.
pub(super) fn token_ids(
    key: &str,
    value: Option<&Value>,
    vocabulary: usize,
) -> Result<Vec<u32>, ConfigError> {
    let one = |value: &Value| match value.as_u64() {
        Some(id) if id < vocabulary as u64 => Ok(id as u32),
        _ => {
            let limit = format!("a token id below vocab_size {vocabulary}");
            Err(ConfigError::out_of_range(key, value, limit))
        }
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(one).collect(),
        Some(id) => Ok(vec![one(id)?]),
    }
}
