//! A `config.json` for a converted model, which this crate's reader understands as the same model.

use serde_json::{Map, Value, json};

use crate::config::{
    Activation, Architecture, Beside, EncoderConfig, EncoderHead, ModelConfig, Pooling,
    Quantization, RopeScaling,
};

/// The `config.json` of a model whose own is `original`, or that has none; nothing where no family of the transformers
/// library has these properties together, with the reason. `bits` are those of a number.
pub(super) fn describe(
    config: &ModelConfig,
    original: Option<Map<String, Value>>,
    (quantization, bits): (Quantization, u32),
) -> Result<Map<String, Value>, String> {
    let mut object = match original {
        Some(original) => original,
        None => invent(config).ok_or(NOTHING)?,
    };
    object.insert(
        "quantization_config".to_owned(),
        json!({"quant_method": "tidegate", "bits": bits, "group_size": crate::format::GROUP}),
    );
    // `generation_config.json` may have named more of them, and stays behind.
    if !config.eos_tokens.is_empty() {
        object.insert("eos_token_id".to_owned(), json!(config.eos_tokens));
    }
    means(&object, config, quantization)?;
    Ok(object)
}

/// Why there is no `config.json` where none was tried.
const NOTHING: &str = "it has no rotary positions, or is no model for embeddings";

/// Why a model is not described by this `config.json`, which was read as something else or not at all.
fn unlike(object: &Map<String, Value>, why: &str) -> String {
    let name = object.get("architectures").and_then(|names| names.get(0));
    let name = name.and_then(Value::as_str).unwrap_or_default();
    format!("as {name}, {why}")
}

/// Why, where it was read.
const ANOTHER: &str = "it would be another model";

/// A `config.json` and what stands beside it.
pub(super) struct Described {
    pub(super) config: Map<String, Value>,
    /// Other files by their paths.
    pub(super) beside: Vec<(&'static str, Value)>,
}

impl Described {
    /// One that has nothing beside it.
    pub(super) fn alone(config: Map<String, Value>) -> Described {
        Described {
            config,
            beside: Vec::new(),
        }
    }
}

/// The same of an encoder, with the files of sentence-transformers beside it, which are `beside` where there are any.
pub(super) fn describe_encoder(
    config: &EncoderConfig,
    original: Option<Map<String, Value>>,
    beside: Option<&Beside>,
    (quantization, bits): (Quantization, u32),
) -> Result<Described, String> {
    let described = match (original, beside) {
        (Some(original), Some(beside)) => Described {
            config: original,
            beside: files_beside(beside),
        },
        _ => invent_encoder(config).ok_or(NOTHING)?,
    };
    let (mut object, files) = (described.config, described.beside);
    object.insert(
        "quantization_config".to_owned(),
        json!({"quant_method": "tidegate", "bits": bits, "group_size": crate::format::GROUP}),
    );
    let read = Beside {
        modules: list(&files, MODULES),
        pooling: table(&files, POOLING),
        sentence: table(&files, SENTENCE),
        named: table(&files, NAMED),
        generation: None,
    };
    let read = match Architecture::from_json(&object, &read) {
        Ok(Architecture::Encoder(read)) => read,
        Ok(Architecture::Decoder(_)) => return Err(unlike(&object, ANOTHER)),
        Err(error) => return Err(unlike(&object, &error.to_string())),
    };
    let decoder = config.decoder.clone().map(|mut decoder| {
        decoder.quantization = Some(quantization);
        if let Some(read) = &read.decoder {
            decoder.architecture.clone_from(&read.architecture);
            // What `generation_config.json` adds to them ends no vector.
            decoder.eos_tokens.clone_from(&read.eos_tokens);
            // To the last bits of a power, as in `means`.
            let scale = decoder.attention_scale;
            if (read.attention_scale - scale).abs() <= 1e-12 * scale {
                decoder.attention_scale = read.attention_scale;
            }
        }
        decoder
    });
    let expected = EncoderConfig {
        architecture: read.architecture.clone(),
        quantization: Some(quantization),
        decoder,
        ..config.clone()
    };
    if read != expected {
        return Err(unlike(&object, ANOTHER));
    }
    Ok(Described {
        config: object,
        beside: files,
    })
}

const MODULES: &str = "modules.json";
const POOLING: &str = "1_Pooling/config.json";
const SENTENCE: &str = "sentence_bert_config.json";
const NAMED: &str = "config_sentence_transformers.json";

fn list(files: &[(&'static str, Value)], name: &str) -> Option<Vec<Value>> {
    let (_, file) = files.iter().find(|(known, _)| *known == name)?;
    file.as_array().cloned()
}

fn table(files: &[(&'static str, Value)], name: &str) -> Option<Map<String, Value>> {
    let (_, file) = files.iter().find(|(known, _)| *known == name)?;
    file.as_object().cloned()
}

fn files_beside(beside: &Beside) -> Vec<(&'static str, Value)> {
    let table = |table: &Option<Map<String, Value>>| table.clone().map(Value::Object);
    let files = [
        (MODULES, beside.modules.clone().map(Value::Array)),
        (POOLING, table(&beside.pooling)),
        (SENTENCE, table(&beside.sentence)),
        (NAMED, table(&beside.named)),
    ];
    let there = files.into_iter();
    there
        .filter_map(|(name, file)| Some((name, file?)))
        .collect()
}

/// Keys of transformers, and of Nomic's maker: of an encoder out of a GGUF file.
fn invent_encoder(config: &EncoderConfig) -> Option<Described> {
    let EncoderHead::Embedding(pooling) = &config.head else {
        return None;
    };
    let value = match &config.decoder {
        Some(decoder) => Value::Object(invent(decoder)?),
        None if config.gated => json!({
            "architectures": ["NomicBertModel"],
            "vocab_size": config.vocabulary,
            "n_embd": config.hidden,
            "n_inner": config.intermediate,
            "n_layer": config.layers.len(),
            "n_head": config.heads,
            "n_positions": config.context,
            "type_vocab_size": config.types,
            "layer_norm_epsilon": config.norm_epsilon,
            "activation_function": "swiglu",
            "rotary_emb_base": config.ropes.first()?.theta,
        }),
        None => json!({
            "architectures": ["BertModel"],
            "vocab_size": config.vocabulary,
            "hidden_size": config.hidden,
            "intermediate_size": config.intermediate,
            "num_hidden_layers": config.layers.len(),
            "num_attention_heads": config.heads,
            "max_position_embeddings": config.positions,
            "type_vocab_size": config.types,
            "layer_norm_eps": config.norm_epsilon,
            "hidden_act": match config.activation {
                Activation::Gelu => "gelu",
                Activation::GeluTanh => "gelu_pytorch_tanh",
                Activation::Silu => "silu",
            },
        }),
    };
    let Value::Object(object) = value else {
        return None;
    };
    let mode = match pooling {
        Pooling::Mean => "pooling_mode_mean_tokens",
        Pooling::First => "pooling_mode_cls_token",
        Pooling::Last => "pooling_mode_lasttoken",
    };
    let module = |index: usize, path: &str, kind: &str| {
        json!({"idx": index, "name": index.to_string(), "path": path,
            "type": format!("sentence_transformers.models.{kind}")})
    };
    let modules = json!([
        module(0, "", "Transformer"),
        module(1, "1_Pooling", "Pooling"),
        module(2, "2_Normalize", "Normalize"),
    ]);
    let mut pooling = Map::new();
    pooling.insert("word_embedding_dimension".to_owned(), json!(config.hidden));
    pooling.insert(mode.to_owned(), json!(true));
    let mut files = vec![(MODULES, modules), (POOLING, Value::Object(pooling))];
    if config.positions > config.context {
        files.push((SENTENCE, json!({"max_seq_length": config.context})));
    }
    Some(Described {
        config: object,
        beside: files,
    })
}

/// That the text means the model: the same in all but names, how weights are stored, and the last bits of a scale
/// that went through its square.
fn means(
    object: &Map<String, Value>,
    config: &ModelConfig,
    quantization: Quantization,
) -> Result<(), String> {
    let read = match Architecture::from_json(object, &Beside::default()) {
        Ok(Architecture::Decoder(read)) => read,
        Ok(Architecture::Encoder(_)) => return Err(unlike(object, ANOTHER)),
        Err(error) => return Err(unlike(object, &error.to_string())),
    };
    if (read.attention_scale - config.attention_scale).abs() > 1e-12 * config.attention_scale {
        return Err(unlike(object, ANOTHER));
    }
    let expected = ModelConfig {
        architecture: read.architecture.clone(),
        norm_offset: read.norm_offset,
        attention_scale: read.attention_scale,
        quantization: Some(quantization),
        ..config.clone()
    };
    match read == expected {
        true => Ok(()),
        false => Err(unlike(object, ANOTHER)),
    }
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
