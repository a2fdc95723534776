//! A `config.json` that is absurd or not implemented: refused with key, value and limit.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_weights::Checkpoint;

use crate::configurations::{open_beside, with};
use crate::made::Files;

#[track_caller]
fn assert_refused(architecture: &str, changes: Value, words: &str) {
    let error = open_beside(&with(architecture, changes), &[]).unwrap_err();
    assert!(error.starts_with("m/config.json: "), "{error}");
    assert!(error.contains(words), "{error}");
}

#[test]
fn packings_of_other_tools_that_are_not_read_are_refused_with_what_is() {
    let weights = |changes: Value| {
        let mut weights =
            json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32});
        for (key, value) in changes.as_object().unwrap() {
            weights[key] = value.clone();
        }
        json!({"quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": {"weights": weights}}})
    };
    let mut unlike = weights(json!({}));
    unlike["config_groups"]["group_1"] = json!({"weights": {"num_bits": 8, "type": "int"}});
    let mut sparse = weights(json!({}));
    sparse["sparsity_config"] = json!({"format": "sparse-24-bitmask"});
    let mut bytes = weights(json!({"num_bits": 8, "symmetric": false}));
    bytes["format"] = json!("int-quantized");
    let mut floats = weights(json!({"num_bits": 8, "type": "float", "symmetric": false}));
    floats["format"] = json!("float-quantized");
    let mut nothing = weights(json!({}));
    nothing["config_groups"] = json!({"group_0": {"weights": null}});
    let mut empty = weights(json!({}));
    empty["config_groups"] = json!({});
    for (quantization, words) in [
        (
            json!({"bits": 4}),
            "`quantization_config` is of no quant_method, supported: none",
        ),
        (json!({"quant_method": "gptq"}), "key `bits` is missing"),
        (
            json!({"quant_method": "gptq", "bits": 3}),
            "`quantization_config` is gptq with 3 bits, supported: gptq with 4 or 8 bits",
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "group_size": 0}),
            "`group_size` is 0, must be a whole number from 1 to 1048576",
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "group_size": -2}),
            "`group_size` is -2, must be",
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}),
            "is gptq with checkpoint_format marlin, supported: gptq with checkpoint_format gptq or gptq_v2",
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "is_marlin_format": true}),
            "is gptq with is_marlin_format true, supported",
        ),
        (
            json!({"quant_method": "awq", "bits": 8}),
            "is awq with 8 bits, supported: awq with 4 bits",
        ),
        (
            json!({"quant_method": "awq", "bits": 4, "version": "gemv"}),
            "is awq with version gemv, supported: awq with version gemm",
        ),
        (
            json!({"quant_method": "fp8", "weight_block_size": [128]}),
            "`weight_block_size` is a list of 1, must be a list of two",
        ),
        (
            json!({"quant_method": "fp8", "weight_block_size": [128, 0]}),
            "`weight_block_size` is 0, must be a whole number from 1",
        ),
        (weights(json!({"num_bits": 3})), "with 3 bits, supported"),
        (
            weights(json!({"strategy": "tensor_group"})),
            "compressed-tensors in pack-quantized of int with strategy tensor_group, supported",
        ),
        (
            weights(json!({"type": "float"})),
            "is compressed-tensors in pack-quantized of float, supported",
        ),
        (
            weights(json!({"symmetric": "no"})),
            "`symmetric` is \"no\", must be true or false",
        ),
        (
            bytes,
            "is compressed-tensors in int-quantized of int with symmetric false, supported: symmetric true, but for",
        ),
        (
            floats,
            "is compressed-tensors in float-quantized of float with symmetric false, supported",
        ),
        (
            unlike,
            "with config_groups of unlike weights, supported: one way",
        ),
        (sparse, "with sparsity_config sparse-24-bitmask, supported"),
        (
            nothing,
            "without quantized weights, supported: config_groups",
        ),
        (
            empty,
            "`config_groups` is an object of 0, must be between 1 and 4096",
        ),
        (
            json!({"quant_method": "compressed-tensors"}),
            "key `config_groups` is missing",
        ),
    ] {
        let changes = json!({"quantization_config": quantization});
        assert_refused("LlamaForCausalLM", changes, words);
    }
}

#[test]
fn an_unknown_architecture_is_named_with_what_it_needs_and_all_that_are_known() {
    assert_refused(
        "NewForCausalLM",
        json!({}),
        "`architectures` is NewForCausalLM, supported: LlamaForCausalLM, ",
    );
    assert_refused(
        "MambaForCausalLM",
        json!({}),
        "`architectures` is MambaForCausalLM (it needs state space layers), supported: LlamaForCausalLM, ",
    );
    assert_refused(
        "LlamaForCausalLM",
        json!({"architectures": null}),
        "key `architectures` is missing",
    );
    assert_refused(
        "LlamaForCausalLM",
        json!({"architectures": []}),
        "key `architectures` is missing",
    );
}

#[test]
fn absurd_values_are_refused_with_key_value_and_limit() {
    for (changes, words) in [
        (json!({"hidden_size": null}), "key `hidden_size` is missing"),
        (
            json!({"hidden_size": 0}),
            "`hidden_size` is 0, must be between 1 and 1048576",
        ),
        (
            json!({"vocab_size": 1_048_577}),
            "`vocab_size` is 1048577, must be between 1 and 1048576",
        ),
        (
            json!({"vocab_size": u64::MAX}),
            "`vocab_size` is 18446744073709551615, must be between",
        ),
        (
            json!({"vocab_size": -4}),
            "`vocab_size` is -4, must be a whole number, not negative",
        ),
        (
            json!({"vocab_size": "many"}),
            "`vocab_size` is \"many\", must be a whole number",
        ),
        (
            json!({"num_hidden_layers": 5000}),
            "`num_hidden_layers` is 5000, must be between 1 and 4096",
        ),
        (
            json!({"head_dim": 258}),
            "`head_dim` is 258, must be even and at most 256",
        ),
        (
            json!({"head_dim": 15}),
            "`head_dim` is 15, must be even and at most 256",
        ),
        (
            json!({"num_key_value_heads": 3}),
            "`num_key_value_heads` is 3, must be a divisor of num_attention_heads 4",
        ),
        (
            json!({"head_dim": null, "hidden_size": 66}),
            "`hidden_size` is 66, must be a multiple of num_attention_heads 4 where head_dim is absent",
        ),
        (
            json!({"num_attention_heads": 65_536, "head_dim": 256}),
            "`num_attention_heads` is 65536, must be at most 1048576 when multiplied by the width of a head, 256",
        ),
        (
            json!({"rms_norm_eps": 0.0}),
            "`rms_norm_eps` is 0, must be above 0 and below 1",
        ),
        (
            json!({"rms_norm_eps": 1e300}),
            "must be above 0 and below 1",
        ),
        (
            json!({"rope_theta": 0.5}),
            "`rope_theta` is 0.5, must be above 1 and at most 1e12",
        ),
        (
            json!({"partial_rotary_factor": 1.5}),
            "`partial_rotary_factor` is 1.5, must be above 0 and at most 1",
        ),
        (
            json!({"partial_rotary_factor": 0.19}),
            "must be such that an even number of the 16 elements of a head turn",
        ),
        (
            json!({"rope_scaling": {"rope_type": "ntk"}}),
            "`rope_type` is ntk, supported: default, linear, llama3, yarn",
        ),
        (
            json!({"rope_scaling": {"rope_type": "linear"}}),
            "`factor` is missing, must be a number above 0",
        ),
        (
            json!({"rope_scaling": {"rope_type": "linear", "factor": -1}}),
            "`factor` is -1, must be a number above 0",
        ),
        (
            json!({"rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [1]}}),
            "`short_factor` is a list of 1, must be one for each of the 8 frequencies",
        ),
        (
            json!({"hidden_act": "relu"}),
            "`hidden_act` is relu, supported: silu, gelu, gelu_pytorch_tanh",
        ),
        (
            json!({"mlp_bias": true}),
            "`mlp_bias` is true, supported: false",
        ),
        (
            json!({"sliding_window": 7}),
            "`sliding_window` is 7, supported: null (full attention) for LlamaForCausalLM",
        ),
        (
            json!({"eos_token_id": 100}),
            "`eos_token_id` is 100, must be a token id below vocab_size 100",
        ),
        (
            json!({"eos_token_id": [1, "x"]}),
            "`eos_token_id` is \"x\", must be a token id",
        ),
        (
            json!({"tie_word_embeddings": 1}),
            "`tie_word_embeddings` is 1, must be true or false",
        ),
        (
            json!({"quantization_config": {"quant_method": "hqq", "bits": 4}}),
            "`quantization_config` is hqq, supported: none (f32, f16 or bf16 weights), tidegate, gptq, awq, fp8",
        ),
        (
            json!({"quantization_config": {"quant_method": "tidegate", "bits": 4, "group_size": 64}}),
            "`quantization_config` is tidegate with 4 bits in groups of 64, supported",
        ),
    ] {
        assert_refused("LlamaForCausalLM", changes, words);
    }
    assert_refused(
        "Gemma3ForCausalLM",
        json!({"query_pre_attn_scalar": 0}),
        "must be a number above 0",
    );
    assert_refused(
        "Gemma3ForCausalLM",
        json!({"sliding_window_pattern": 0}),
        "`sliding_window_pattern` is 0",
    );
    assert_refused(
        "Qwen2ForCausalLM",
        json!({"use_sliding_window": true, "sliding_window": 0}),
        "`sliding_window` is 0",
    );
    let types = json!({"layer_types": ["full_attention"]});
    assert_refused(
        "Gemma2ForCausalLM",
        types,
        "`layer_types` is a list of 1, must be one for each of num_hidden_layers 4",
    );
    let roberta = json!({"pad_token_id": 8191});
    assert_refused(
        "RobertaModel",
        roberta,
        "`pad_token_id` is 8191, must be below max_position_embeddings 8192 less 1",
    );
    assert_refused(
        "BertModel",
        json!({"layer_norm_eps": 2}),
        "`layer_norm_eps` is 2, must be above 0 and below 1",
    );
    let labels = json!({"id2label": {"0": "a", "7": "b"}});
    assert_refused(
        "BertForSequenceClassification",
        labels,
        "must be an object with a label for each of the ids 0 to 1",
    );
    assert_refused(
        "BertForSequenceClassification",
        json!({"num_labels": 1, "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}),
        "`sentence_transformers.activation_fn` is torch.nn.modules.activation.Tanh, supported: torch.nn.modules.activation.Sigmoid",
    );
}

#[test]
fn labels_of_tokens_that_have_no_names_are_refused() {
    let family = "BertForTokenClassification";
    assert_refused(
        family,
        json!({"num_labels": 3}),
        "key `id2label` is missing",
    );
    assert_refused(
        family,
        json!({"id2label": {}}),
        "`id2label` is an object of 0",
    );
    assert_refused(
        family,
        json!({"id2label": {"0": "O", "1": 7}}),
        "`id2label` is 7, must be an object of texts",
    );
    assert_refused(
        "ModernBertForTokenClassification",
        json!({"id2label": {"0": "O", "2": "B-PER"}}),
        "`id2label` is without id 1, must be an object with a label for each of the ids 0 to 1",
    );
}

#[test]
fn encoders_that_are_absurd_or_not_implemented_are_refused() {
    let unlike = json!({"layer_types": ["full_attention"], "num_hidden_layers": 4});
    for (architecture, changes, words) in [
        (
            "DistilBertModel",
            json!({"dim": 0}),
            "`dim` is 0, must be between 1",
        ),
        (
            "DistilBertModel",
            json!({"n_layers": 5000}),
            "`n_layers` is 5000, must be between 1 and 4096",
        ),
        (
            "DistilBertModel",
            json!({"n_heads": 7}),
            "`dim` is 768, must be a multiple of n_heads 7",
        ),
        (
            "DistilBertModel",
            json!({"activation": "relu"}),
            "`activation` is relu, supported: silu",
        ),
        (
            "ModernBertModel",
            json!({"attention_bias": true}),
            "`attention_bias` is true, supported: false",
        ),
        (
            "ModernBertModel",
            json!({"mlp_bias": true}),
            "`mlp_bias` is true, supported: false",
        ),
        (
            "ModernBertModel",
            json!({"local_attention": 0}),
            "`local_attention` is 0, must be between 1",
        ),
        (
            "ModernBertModel",
            json!({"global_attn_every_n_layers": 0}),
            "`global_attn_every_n_layers` is 0, must be",
        ),
        (
            "ModernBertModel",
            json!({"norm_eps": 0.0}),
            "`norm_eps` is 0, must be above 0 and below 1",
        ),
        (
            "ModernBertModel",
            unlike,
            "`layer_types` is a list of 1, must be a list of num_hidden_layers 4",
        ),
        (
            "ModernBertModel",
            json!({"layer_types": ["chunked_attention"], "num_hidden_layers": 1}),
            "`layer_types` is \"chunked_attention\", supported: full_attention, sliding_attention",
        ),
        (
            "ModernBertForSequenceClassification",
            json!({"classifier_pooling": "max"}),
            "`classifier_pooling` is max, supported: cls, mean",
        ),
        (
            "ModernBertModel",
            json!({"local_rope_theta": 0.5}),
            "`local_rope_theta` is 0.5, must be above 1",
        ),
        (
            "ModernBertModel",
            json!({"quantization_config": {"quant_method": "gptq", "bits": 4}}),
            "`quantization_config` is gptq, supported: none (f32, f16 or bf16 weights) or tidegate for encoders",
        ),
        (
            "NomicBertModel",
            json!({"quantization_config": {"bits": 8}}),
            "`quantization_config` is of no quant_method, supported: none",
        ),
        (
            "DistilBertModel",
            json!({"quantization_config": {"quant_method": "tidegate", "bits": 3, "group_size": 32}}),
            "`quantization_config` is tidegate with 3 bits in groups of 32, supported: tidegate with 8 or 4 bits",
        ),
        (
            "NomicBertModel",
            json!({"prenorm": true}),
            "`prenorm` is true, supported: false",
        ),
        (
            "NomicBertModel",
            json!({"num_experts": 8}),
            "`num_experts` is 8, supported: 0",
        ),
        (
            "NomicBertModel",
            json!({"rotary_emb_fraction": 0.5}),
            "`rotary_emb_fraction` is 0.5, supported: 1",
        ),
        (
            "NomicBertModel",
            json!({"rotary_emb_interleaved": true}),
            "`rotary_emb_interleaved` is true",
        ),
        (
            "NomicBertModel",
            json!({"activation_function": "gelu"}),
            "`activation_function` is gelu, supported: swiglu",
        ),
        (
            "NomicBertModel",
            json!({"rotary_scaling_factor": 2, "max_trained_positions": 0}),
            "`max_trained_positions` is 0, must be between 1",
        ),
    ] {
        let mut config = json!({"architectures": [architecture]});
        let changes = changes.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(changes);
        let error = open_beside(&config, &[]).unwrap_err();
        assert!(error.starts_with("m/config.json: "), "{error}");
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn text_that_is_no_json_is_refused() {
    for text in ["", "{", "[]", "\u{0}", &"[".repeat(100_000)] {
        let files = Files::default().with("m/config.json", text);
        let error = Checkpoint::open(Path::new("m"), &files)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("m/config.json is not a model configuration: "),
            "{error}"
        );
    }
}

#[test]
fn experts_that_cannot_be_are_refused_with_key_value_and_limit() {
    for (architecture, changes, words) in [
        (
            "MixtralForCausalLM",
            json!({"num_local_experts": 0}),
            "`num_local_experts` is 0, must be between 1 and 1024",
        ),
        (
            "Qwen3MoeForCausalLM",
            json!({"num_experts": 1025}),
            "`num_experts` is 1025, must be between 1 and 1024",
        ),
        (
            "Qwen3MoeForCausalLM",
            json!({"num_experts": -1}),
            "`num_experts` is -1, must be a whole number",
        ),
        (
            "MixtralForCausalLM",
            json!({"num_experts_per_tok": 9}),
            "`num_experts_per_tok` is 9, must be between 1 and num_local_experts 8",
        ),
        (
            "Qwen2MoeForCausalLM",
            json!({"num_experts_per_tok": 0}),
            "`num_experts_per_tok` is 0, must be between 1 and num_experts 60",
        ),
        (
            "Qwen3MoeForCausalLM",
            json!({"moe_intermediate_size": 0}),
            "`moe_intermediate_size` is 0, must be between 1",
        ),
        (
            "Qwen2MoeForCausalLM",
            json!({"shared_expert_intermediate_size": 1_048_577}),
            "`shared_expert_intermediate_size` is 1048577, must be between 1",
        ),
        (
            "Qwen3MoeForCausalLM",
            json!({"decoder_sparse_step": 0}),
            "`decoder_sparse_step` is 0, must be between 1",
        ),
        (
            "Qwen3MoeForCausalLM",
            json!({"mlp_only_layers": [0, "one"]}),
            "`mlp_only_layers` is \"one\", must be a list of whole numbers",
        ),
        (
            "Qwen3MoeForCausalLM",
            json!({"norm_topk_prob": 1}),
            "`norm_topk_prob` is 1, must be true or false",
        ),
        (
            "GptOssForCausalLM",
            json!({}),
            "key `rope_parameters, rope_scaling` is missing",
        ),
        (
            "GptOssForCausalLM",
            json!({"rope_scaling": {"rope_type": "default"}, "swiglu_limit": 0}),
            "`swiglu_limit` is 0, must be a number above 0",
        ),
        (
            "GptOssForCausalLM",
            json!({"rope_scaling": {"rope_type": "default"}, "num_attention_heads": 257, "num_key_value_heads": 1,
                "head_dim": 8}),
            "`num_attention_heads` is 257, must be at most 256 heads with sinks",
        ),
        (
            "MixtralForCausalLM",
            json!({"quantization_config": {"quant_method": "mxfp4"}}),
            "`quantization_config` is mxfp4, supported: another quant_method for MixtralForCausalLM",
        ),
        (
            "DeepseekV3ForCausalLM",
            json!({}),
            "`architectures` is DeepseekV3ForCausalLM (it needs another mixture of experts)",
        ),
    ] {
        assert_refused(architecture, changes, words);
    }
}

/// A golden model with another number of experts than its file has.
#[test]
fn an_expert_that_is_not_there_is_named() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/tests/golden/mixtral-bf16");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let checked = |change: fn(&mut Value)| {
        let mut config: Value = serde_json::from_slice(&read("config.json")).unwrap();
        change(&mut config);
        let files = Files::default()
            .with("m/config.json", config.to_string())
            .with("m/model.safetensors", read("model.safetensors"));
        let checkpoint = Checkpoint::open(Path::new("m"), &files).unwrap();
        checkpoint.check().map_err(|error| error.to_string())
    };
    assert_eq!(checked(|_| {}), Ok(()));
    let more = checked(|config| config["num_local_experts"] = json!(9)).unwrap_err();
    let fewer = checked(|config| config["num_local_experts"] = json!(7)).unwrap_err();
    for error in [more, fewer] {
        assert!(
            error.contains("model.layers.0.block_sparse_moe.gate.weight"),
            "{error}"
        );
    }
    let error = checked(|config| config["architectures"] = json!(["Qwen3MoeForCausalLM"]));
    assert!(error.unwrap_err().contains("q_norm.weight"));
    let wide = checked(|config| config["intermediate_size"] = json!(37)).unwrap_err();
    assert!(
        wide.contains("block_sparse_moe.experts.0.w1.weight"),
        "{wide}"
    );
}
