//! Small models whose gate is quantized as other tools do it; the fuzzer includes this file too.

use super::made::{Files, Tensor, config, safetensors, tensors};

/// The matrix that is packed, 32 by 32.
pub(crate) const BASE: &str = "model.layers.0.mlp.gate_proj";

/// A matrix of 32 by 32 by its tensors: name after the base, type, shape, bytes.
pub(crate) type Part = (&'static str, &'static str, Vec<usize>, Vec<u8>);

pub(crate) fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

pub(crate) fn halves(values: impl IntoIterator<Item = u16>) -> Vec<u8> {
    values.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// 1.0, 2.0, 4.0 ... in f16.
pub(crate) fn powers(count: usize) -> Vec<u8> {
    halves((0..count).map(|i| (15 + i as u16 % 8) << 10))
}

pub(crate) fn gptq(zeros: u32) -> Vec<Part> {
    vec![
        (
            "qweight",
            "I32",
            vec![4, 32],
            words((0..128u32).map(|i| i * 0x0123_4567)),
        ),
        ("qzeros", "I32", vec![1, 4], words([zeros; 4])),
        ("scales", "F16", vec![1, 32], powers(32)),
        ("g_idx", "I32", vec![32], words([0; 32])),
    ]
}

pub(crate) fn awq() -> Vec<Part> {
    vec![
        (
            "qweight",
            "I32",
            vec![32, 4],
            words((0..128u32).map(|i| i * 0x0123_4567)),
        ),
        ("qzeros", "I32", vec![1, 4], words([0x7654_3210; 4])),
        ("scales", "F16", vec![1, 32], powers(32)),
    ]
}

pub(crate) const GPTQ: &str = r#"{"quant_method":"gptq","bits":4,"group_size":32}"#;
pub(crate) const AWQ: &str = r#"{"quant_method":"awq","bits":4,"group_size":32}"#;
pub(crate) const FP8: &str = r#"{"quant_method":"fp8","weight_block_size":[24,20]}"#;
pub(crate) const WORDS: &str = r#"{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":
    {"a":{"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":16}}}}"#;
pub(crate) const BYTES: &str = r#"{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":
    {"a":{"weights":{"num_bits":8,"type":"int","strategy":"channel"}}}}"#;

pub(crate) fn fp8() -> Vec<Part> {
    let numbers = (0..1024u32).map(|i| (i * 7 % 127) as u8 | ((i as u8 & 1) << 7));
    vec![
        ("weight", "F8_E4M3", vec![32, 32], numbers.collect()),
        (
            "weight_scale_inv",
            "F32",
            vec![2, 2],
            [0.5f32, 0.25, 0.125, 3.0]
                .into_iter()
                .flat_map(f32::to_le_bytes)
                .collect(),
        ),
    ]
}

/// The model with its gate packed.
pub(crate) fn files(quantization: &str, parts: &[Part]) -> Files {
    let config = config().replacen(
        '{',
        &format!(r#"{{"quantization_config":{quantization},"#),
        1,
    );
    let gate = format!("{BASE}.weight");
    let mut all = tensors();
    all.retain(|tensor| tensor.name != gate);
    all.extend(parts.iter().map(|(name, dtype, shape, bytes)| Tensor {
        name: format!("{BASE}.{name}"),
        dtype,
        shape: shape.clone(),
        bytes: bytes.clone(),
    }));
    Files::default()
        .with("m/config.json", config)
        .with("m/model.safetensors", safetensors(&all))
}

/// How the experts of gpt-oss are stored.
pub(crate) const MXFP4: &str = r#"{"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]}"#;

/// What the experts of [`gpt_oss`] begin with.
pub(crate) const EXPERTS: &str = "model.layers.0.mlp.experts";

/// The matrices of three experts of 32 by 32, gate and up in turn, then down.
pub(crate) fn mxfp4() -> Vec<Part> {
    let bytes = |count: usize, step: usize| (0..count).map(|i| (i * step) as u8).collect();
    let powers = |count: usize| (0..count).map(|i| 118 + (i % 7) as u8).collect();
    vec![
        (
            "gate_up_proj_blocks",
            "U8",
            vec![3, 64, 1, 16],
            bytes(3 * 64 * 16, 29),
        ),
        ("gate_up_proj_scales", "U8", vec![3, 64, 1], powers(3 * 64)),
        (
            "down_proj_blocks",
            "U8",
            vec![3, 32, 1, 16],
            bytes(3 * 32 * 16, 31),
        ),
        ("down_proj_scales", "U8", vec![3, 32, 1], powers(3 * 32)),
    ]
}

/// The `config.json` of a small gpt-oss whose experts are packed.
pub(crate) fn gpt_oss_config() -> String {
    let more = format!(
        r#"{{"quantization_config":{MXFP4},"num_local_experts":3,"num_experts_per_tok":2,"rope_scaling":{{"rope_type":"yarn",
        "factor":2.0,"truncate":false,"original_max_position_embeddings":32}},"attention_bias":false,"#
    );
    let config = config().replace("LlamaForCausalLM", "GptOssForCausalLM");
    config.replacen('{', &more, 1)
}

/// That model.
pub(crate) fn gpt_oss(parts: &[Part]) -> Files {
    let mut all = tensors();
    all.retain(|tensor| !tensor.name.contains(".mlp."));
    let halves = |count: usize| halves((0..count).map(|i| 0x2c00 + i as u16));
    let floats = |name: &str, shape: Vec<usize>| Tensor {
        name: name.to_owned(),
        dtype: "F16",
        bytes: halves(shape.iter().product()),
        shape,
    };
    let router = "model.layers.0.mlp.router";
    all.push(floats(&format!("{router}.weight"), vec![3, 32]));
    all.push(floats(&format!("{router}.bias"), vec![3]));
    all.push(floats(&format!("{EXPERTS}.gate_up_proj_bias"), vec![3, 64]));
    all.push(floats(&format!("{EXPERTS}.down_proj_bias"), vec![3, 32]));
    all.push(floats("model.layers.0.self_attn.sinks", vec![2]));
    all.extend(parts.iter().map(|(name, dtype, shape, bytes)| Tensor {
        name: format!("{EXPERTS}.{name}"),
        dtype,
        shape: shape.clone(),
        bytes: bytes.clone(),
    }));
    Files::default()
        .with("m/config.json", gpt_oss_config())
        .with("m/model.safetensors", safetensors(&all))
}

pub(crate) fn compressed_words() -> Vec<Part> {
    vec![
        ("weight_packed", "I32", vec![32, 4], words(0..128u32)),
        ("weight_scale", "BF16", vec![32, 2], halves([0x3f80; 64])),
        ("weight_zero_point", "I32", vec![4, 2], words(0..8u32)),
    ]
}

pub(crate) fn compressed_bytes() -> Vec<Part> {
    vec![
        ("weight", "I8", vec![32, 32], vec![3; 1024]),
        ("weight_scale", "F16", vec![32, 1], powers(32)),
    ]
}
