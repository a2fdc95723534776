//! `quantization_config` of a `config.json`: what this project's `convert` writes, and what other tools do.
//!
//! Keys and defaults are those of transformers' `utils/quantization_config.py` and of compressed-tensors'
//! `QuantizationConfig`.

use serde_json::Value;

use super::raw::Raw;
use super::{ConfigError, Quantization};
use crate::packed::Scheme;

const KEY: &str = "quantization_config";

/// Most elements that can share a scale, and most rows or elements of a block.
const LARGEST_GROUP: u64 = 1 << 20;

/// Most groups of layers that compressed-tensors may tell apart.
const MOST_GROUPS: usize = 1 << 12;

/// Reads what an object of one `quant_method` says.
type Read = fn(Raw<'_>) -> Result<Quantization, ConfigError>;

/// Every `quant_method` that is known, this project's own first.
const METHODS: [(&str, Read); 7] = [
    ("tidegate", own),
    ("gptq", |said| gptq(said).map(Quantization::Packed)),
    ("awq", |said| awq(said).map(Quantization::Packed)),
    ("fp8", |said| {
        let block = block(said, "weight_block_size")?;
        Ok(Quantization::Packed(Scheme::Fp8 { block }))
    }),
    ("fbgemm_fp8", |_| {
        Ok(Quantization::Packed(Scheme::Fp8 { block: None }))
    }),
    ("mxfp4", |_| Ok(Quantization::Packed(Scheme::Mxfp4))),
    ("compressed-tensors", |said| {
        compressed(said).map(Quantization::Packed)
    }),
];

impl Quantization {
    /// Every `quant_method` of a `config.json` that is known.
    #[must_use]
    pub fn methods() -> Vec<&'static str> {
        METHODS.iter().map(|(name, _)| *name).collect()
    }
}

/// Reads what `config` says about it.
pub(super) fn quantization(config: Raw<'_>) -> Result<Option<Quantization>, ConfigError> {
    let Some(quantization) = config.object(KEY)? else {
        return Ok(None);
    };
    let method = quantization.text("quant_method")?;
    let known = METHODS.iter().find(|(name, _)| method == Some(*name));
    let Some((_, read)) = known else {
        let supported = Quantization::methods().join(", ");
        return Err(unsupported(
            method.unwrap_or("of no quant_method"),
            &format!("none (f32, f16 or bf16 weights), {supported}"),
        ));
    };
    read(quantization).map(Some)
}

fn unsupported(value: impl ToString, supported: &str) -> ConfigError {
    ConfigError::unsupported(KEY, value.to_string(), supported)
}

/// What `convert` writes.
fn own(quantization: Raw<'_>) -> Result<Quantization, ConfigError> {
    match (
        quantization.count("bits")?,
        quantization.count("group_size")?,
    ) {
        (Some(8), Some(32)) => Ok(Quantization::Int8),
        (Some(4), Some(32)) => Ok(Quantization::Int4),
        (bits, group) => {
            let number = |n: Option<u64>| n.map_or_else(|| "no".to_owned(), |n| n.to_string());
            Err(unsupported(
                format!(
                    "tidegate with {} bits in groups of {}",
                    number(bits),
                    number(group)
                ),
                "tidegate with 8 or 4 bits in groups of 32",
            ))
        }
    }
}

fn gptq(quantization: Raw<'_>) -> Result<Scheme, ConfigError> {
    let zeros_less_one = match quantization.text("checkpoint_format")? {
        None | Some("gptq") => true,
        Some("gptq_v2") => false,
        Some(other) => {
            return Err(unsupported(
                format!("gptq with checkpoint_format {other}"),
                "gptq with checkpoint_format gptq or gptq_v2",
            ));
        }
    };
    if quantization.flag("is_marlin_format")? {
        return Err(unsupported(
            "gptq with is_marlin_format true",
            "gptq with checkpoint_format gptq or gptq_v2",
        ));
    }
    Ok(Scheme::Gptq {
        bits: bits(quantization, "bits", "gptq", &[4, 8])?,
        group: group(quantization, "group_size")?,
        zeros_less_one,
    })
}

fn awq(quantization: Raw<'_>) -> Result<Scheme, ConfigError> {
    let version = quantization.text("version")?.unwrap_or("gemm");
    if !version.eq_ignore_ascii_case("gemm") {
        return Err(unsupported(
            format!("awq with version {version}"),
            "awq with version gemm",
        ));
    }
    let named = |new, old| {
        if quantization.get(new).is_some() {
            new
        } else {
            old
        }
    };
    bits(quantization, named("bits", "w_bit"), "awq", &[4])?;
    Ok(Scheme::Awq {
        group: group(quantization, named("group_size", "q_group_size"))?,
    })
}

/// All groups of layers must be quantized alike; which layers are left out is seen by their tensors.
fn compressed(quantization: Raw<'_>) -> Result<Scheme, ConfigError> {
    let sparse = quantization
        .object("sparsity_config")?
        .map(|sparsity| sparsity.text("format"))
        .transpose()?
        .flatten();
    if let Some(format) = sparse.filter(|format| *format != "dense") {
        return Err(unsupported(
            format!("compressed-tensors with sparsity_config {format}"),
            "compressed-tensors with dense weights",
        ));
    }
    let groups = quantization
        .object("config_groups")?
        .ok_or_else(|| ConfigError::missing("config_groups"))?
        .0;
    if groups.is_empty() || groups.len() > MOST_GROUPS {
        return Err(ConfigError::out_of_range(
            "config_groups",
            format!("an object of {}", groups.len()),
            format!("between 1 and {MOST_GROUPS} groups"),
        ));
    }
    let whole = quantization.text("format")?;
    let mut found: Option<Scheme> = None;
    for (name, group) in groups {
        let wrong = || ConfigError::out_of_range("config_groups", name, "groups that are objects");
        let group = Raw(group.as_object().ok_or_else(wrong)?);
        let format = group.text("format")?.or(whole);
        let weights = group.object("weights")?;
        let scheme = match weights {
            Some(weights) => compressed_weights(weights, format.unwrap_or("of no format"))?,
            None => continue,
        };
        if found.is_some_and(|found| found != scheme) {
            return Err(unsupported(
                "compressed-tensors with config_groups of unlike weights",
                "one way for all weights",
            ));
        }
        found = Some(scheme);
    }
    found.ok_or_else(|| {
        unsupported(
            "compressed-tensors without quantized weights",
            "config_groups with weights",
        )
    })
}

fn compressed_weights(weights: Raw<'_>, format: &str) -> Result<Scheme, ConfigError> {
    let kind = weights.text("type")?.unwrap_or("int");
    let name = format!("compressed-tensors in {format} of {kind}");
    let bits = |allowed| bits(weights, "num_bits", &name, allowed);
    let strategy = weights.text("strategy")?;
    let symmetric = weights.get("symmetric").is_none() || weights.flag("symmetric")?;
    let by_rows = || match strategy {
        None | Some("group" | "channel" | "tensor") => group(weights, "group_size"),
        Some(other) => Err(unsupported(
            format!("{name} with strategy {other}"),
            "strategies group, channel, tensor; block for float",
        )),
    };
    match (format, kind) {
        ("pack-quantized", "int") => Ok(Scheme::CompressedWords {
            bits: bits(&[4, 8])?,
            group: by_rows()?,
            has_zeros: !symmetric,
        }),
        // What is no packed whole number has its zero at 0.
        _ if !symmetric => Err(unsupported(
            format!("{name} with symmetric false"),
            "symmetric true, but for pack-quantized of int",
        )),
        ("int-quantized" | "naive-quantized", "int") => {
            bits(&[8])?;
            Ok(Scheme::CompressedBytes { group: by_rows()? })
        }
        ("float-quantized" | "naive-quantized", "float") => {
            bits(&[8])?;
            match strategy {
                Some("block") => Ok(Scheme::Fp8 {
                    block: block(weights, "block_structure")?,
                }),
                None | Some("channel" | "tensor") => Ok(Scheme::Fp8 { block: None }),
                Some(other) => Err(unsupported(
                    format!("{name} with strategy {other}"),
                    "strategies block, channel, tensor for float",
                )),
            }
        }
        _ => Err(unsupported(
            name,
            "pack-quantized and int-quantized of int, float-quantized of float",
        )),
    }
}

fn bits(
    quantization: Raw<'_>,
    key: &str,
    method: &str,
    allowed: &[u32],
) -> Result<u32, ConfigError> {
    let found = quantization
        .count(key)?
        .ok_or_else(|| ConfigError::missing(key))?;
    let bits = allowed.iter().find(|bits| u64::from(**bits) == found);
    bits.copied().ok_or_else(|| {
        let allowed: Vec<String> = allowed.iter().map(u32::to_string).collect();
        unsupported(
            format!("{method} with {found} bits"),
            &format!("{method} with {} bits", allowed.join(" or ")),
        )
    })
}

/// Elements of a row that share a scale; nothing for -1 or null, which is the whole row.
fn group(quantization: Raw<'_>, key: &str) -> Result<Option<usize>, ConfigError> {
    match quantization.get(key) {
        None => Ok(None),
        Some(value) if value.as_i64() == Some(-1) => Ok(None),
        Some(value) => size(key, value).map(Some),
    }
}

/// Rows and elements of a block.
fn block(quantization: Raw<'_>, key: &str) -> Result<Option<[usize; 2]>, ConfigError> {
    match quantization.list(key)? {
        None => Ok(None),
        Some([rows, elements]) => Ok(Some([size(key, rows)?, size(key, elements)?])),
        Some(list) => {
            let limit = "a list of two: rows and elements of a block";
            Err(ConfigError::out_of_range(
                key,
                format!("a list of {}", list.len()),
                limit,
            ))
        }
    }
}

fn size(key: &str, value: &Value) -> Result<usize, ConfigError> {
    let whole = value
        .as_u64()
        .filter(|size| (1..=LARGEST_GROUP).contains(size));
    match whole {
        Some(size) => Ok(size as usize),
        None => Err(ConfigError::out_of_range(
            key,
            value,
            format!("a whole number from 1 to {LARGEST_GROUP}"),
        )),
    }
}
