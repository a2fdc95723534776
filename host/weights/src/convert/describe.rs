//! A `config.json` for a converted model, which this crate's reader understands as the same model.

use serde_json::{Map, Value, json};

use crate::config::{Architecture, Beside, ModelConfig, Quantization, RopeScaling};

/// The `config.json` of a model whose own is `original`, or that has none; nothing where no family of the transformers
/// library has these properties together. `bits` are those of a number.
pub(super) fn describe(
    config: &ModelConfig,
    original: Option<Map<String, Value>>,
    (quantization, bits): (Quantization, u32),
) -> Option<Map<String, Value>> {
    let mut object = match original {
        Some(original) => original,
        None => invent(config)?,
    };
    object.insert(
        "quantization_config".to_owned(),
        json!({"quant_method": "tidegate", "bits": bits, "group_size": crate::format::GROUP}),
    );
    // `generation_config.json` may have named more of them, and stays behind.
    if !config.eos_tokens.is_empty() {
        object.insert("eos_token_id".to_owned(), json!(config.eos_tokens));
    }
    means(&object, config, quantization).then_some(object)
}

/// Whether the text means the model: the same in all but names, how weights are stored, and the last bits of a scale
/// that went through its square.
fn means(object: &Map<String, Value>, config: &ModelConfig, quantization: Quantization) -> bool {
    let Ok(Architecture::Decoder(read)) = Architecture::from_json(object, &Beside::default())
    else {
        return false;
    };
    if (read.attention_scale - config.attention_scale).abs() > 1e-12 * config.attention_scale {
        return false;
    }
    let expected = ModelConfig {
        architecture: read.architecture.clone(),
        norm_offset: read.norm_offset,
        attention_scale: read.attention_scale,
        quantization: Some(quantization),
        ..config.clone()
    };
    read == expected
}

/// Keys of transformers 4.
fn invent(config: &ModelConfig) -> Option<Map<String, Value>> {
    let turns_everywhere = config.layers.iter().all(|layer| layer.rope.is_some());
    let windows: Vec<Option<usize>> = config.layers.iter().map(|layer| layer.window).collect();
    let window = windows.iter().flatten().next().copied();
    let shared = config.experts.as_ref().and_then(|experts| experts.shared);
    let clamped = config.experts.as_ref().and_then(|experts| experts.clamped);
    let architecture = match config {
        _ if clamped.is_some() => "GptOssForCausalLM",
        config if config.experts.is_some() && config.head_norms => "Qwen3MoeForCausalLM",
        config if config.experts.is_some() && shared.is_some() => "Qwen2MoeForCausalLM",
        config if config.experts.is_some() => "MixtralForCausalLM",
        config if config.post_norms && config.head_norms => "Gemma3ForCausalLM",
        config if config.post_norms => "Gemma2ForCausalLM",
        config if config.head_norms => "Qwen3ForCausalLM",
        _ if !turns_everywhere => "SmolLM3ForCausalLM",
        config if config.architecture == "phi3" => "Phi3ForCausalLM",
        config if config.qkv_bias && !config.output_bias => "Qwen2ForCausalLM",
        _ if window.is_some() => "MistralForCausalLM",
        _ => "LlamaForCausalLM",
    };
    let value = json!({
        "architectures": [architecture],
        "dtype": "float32",
        "vocab_size": config.vocabulary,
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers.len(),
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_epsilon,
        "attention_bias": config.qkv_bias && config.output_bias,
        "tie_word_embeddings": config.tied,
        "bos_token_id": config.bos_token,
        "sliding_window": window,
        "use_sliding_window": window.is_some(),
    });
    let Value::Object(mut object) = value else {
        return None;
    };
    let mut add = |key: &str, value: Value| object.insert(key.to_owned(), value);
    if let Some(experts) = &config.experts {
        let dense = (0..config.layers.len()).filter(|layer| config.experts_of(*layer).is_none());
        add("num_experts", json!(experts.count));
        add("num_local_experts", json!(experts.count));
        add("num_experts_per_tok", json!(experts.chosen));
        add("moe_intermediate_size", json!(experts.intermediate));
        add("norm_topk_prob", json!(experts.normalized));
        add("mlp_only_layers", dense.collect());
        add("decoder_sparse_step", json!(1));
        add("shared_expert_intermediate_size", json!(experts.shared));
        add("qkv_bias", json!(config.qkv_bias));
    }
    if let Some(clamped) = clamped {
        add("swiglu_alpha", json!(clamped.slope));
        add("swiglu_limit", json!(clamped.limit));
    }
    let windowed_everywhere = [
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "Qwen3MoeForCausalLM",
        "Phi3ForCausalLM",
    ];
    if window.is_some() && !windowed_everywhere.contains(&architecture) {
        let types = windows.iter().map(|window| match window {
            Some(_) => "sliding_attention",
            None => "full_attention",
        });
        add("layer_types", types.collect());
    }
    if !turns_everywhere {
        let turns = config
            .layers
            .iter()
            .map(|layer| u32::from(layer.rope.is_some()));
        add("no_rope_layers", turns.collect());
    }
    if config.post_norms {
        let scalar = config.attention_scale.powi(-2);
        let whole = (scalar - scalar.round()).abs() < 1e-9 * scalar;
        add(
            "query_pre_attn_scalar",
            if whole {
                json!(scalar.round() as u64)
            } else {
                json!(scalar)
            },
        );
        add("attn_logit_softcapping", json!(config.attention_softcap));
        add("final_logit_softcapping", json!(config.logit_softcap));
    }
    let rope = config.ropes.first()?;
    add("rope_theta", json!(rope.theta));
    if rope.width != config.head_dim {
        add(
            "partial_rotary_factor",
            json!(rope.width as f64 / config.head_dim as f64),
        );
    }
    if let Some(local) = config.ropes.get(1) {
        add("rope_local_base_freq", json!(local.theta));
    }
    if let Some(scaling) = scaling(&rope.scaling) {
        add("rope_scaling", scaling);
    }
    Some(object)
}

fn scaling(scaling: &RopeScaling) -> Option<Value> {
    Some(match scaling {
        RopeScaling::None => return None,
        RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Llama3 {
            factor,
            low_factor,
            high_factor,
            original_context,
        } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_factor,
            "high_freq_factor": high_factor,
            "original_max_position_embeddings": original_context,
        }),
        RopeScaling::Yarn {
            factor,
            beta_fast,
            beta_slow,
            truncate,
            original_context,
            attention_factor,
        } => {
            let mut yarn = json!({
                "rope_type": "yarn",
                "factor": factor,
                "beta_fast": beta_fast,
                "beta_slow": beta_slow,
                "truncate": truncate,
                "original_max_position_embeddings": original_context,
            });
            // What follows from the factor is left to do so: a number that is written and read again may lose its last bit.
            let usual = if *factor <= 1.0 {
                1.0
            } else {
                0.1 * factor.ln() + 1.0
            };
            if *attention_factor != usual {
                yarn["attention_factor"] = json!(attention_factor);
            }
            yarn
        }
        RopeScaling::LongRope {
            short,
            long,
            original_context,
            attention_factor,
        } => json!({
            "rope_type": "longrope",
            "short_factor": short,
            "long_factor": long,
            "original_max_position_embeddings": original_context,
            "attention_factor": attention_factor,
        }),
    })
}
