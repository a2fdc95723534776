//! What a `config.json` says: keys of both spellings, and defaults of each family.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_contract::ScoreScale;
use tidegate_weights::{
    Activation, Architecture, Checkpoint, ClampedGate, EncoderConfig, EncoderHead, EncoderTensor,
    Experts, HeadActivation, ModelConfig, Pooling, Quantization, RopeScaling,
};

use crate::made::{Files, safetensors, tensors};

/// A configuration of that architecture with these keys added, changed, or (by null) taken out.
pub(crate) fn with(architecture: &str, changes: Value) -> Value {
    let mut config = json!({
        "architectures": [architecture],
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

pub(crate) fn open_beside(config: &Value, beside: &[(&str, Value)]) -> Result<Checkpoint, String> {
    let mut files = Files::default()
        .with("m/config.json", config.to_string())
        .with("m/model.safetensors", safetensors(&tensors()));
    for (name, value) in beside {
        files = files.with(&format!("m/{name}"), value.to_string());
    }
    Checkpoint::open(Path::new("m"), &files).map_err(|error| error.to_string())
}

#[track_caller]
fn decoder(architecture: &str, changes: Value) -> ModelConfig {
    let checkpoint = open_beside(&with(architecture, changes), &[]).unwrap();
    checkpoint.decoder().unwrap().clone()
}

#[track_caller]
pub(crate) fn encoder(changes: Value, beside: &[(&str, Value)]) -> EncoderConfig {
    let mut config =
        json!({"architectures": ["BertModel"], "hidden_size": 64, "num_attention_heads": 4});
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    open_beside(&config, beside)
        .unwrap()
        .encoder()
        .unwrap()
        .clone()
}

fn windows(config: &ModelConfig) -> Vec<Option<usize>> {
    config.layers.iter().map(|layer| layer.window).collect()
}

fn turns(config: &ModelConfig) -> Vec<Option<usize>> {
    config.layers.iter().map(|layer| layer.rope).collect()
}

#[test]
fn a_llama_is_what_its_keys_say() {
    let llama = decoder(
        "LlamaForCausalLM",
        json!({"bos_token_id": 1, "eos_token_id": [2, 3], "rope_theta": 5e5}),
    );
    assert_eq!(
        (llama.vocabulary, llama.hidden, llama.intermediate),
        (100, 64, 96)
    );
    assert_eq!((llama.heads, llama.kv_heads, llama.head_dim), (4, 2, 16));
    assert_eq!(
        (windows(&llama), turns(&llama)),
        (vec![None; 4], vec![Some(0); 4])
    );
    assert_eq!(
        (
            llama.ropes.len(),
            llama.ropes[0].theta,
            llama.ropes[0].width
        ),
        (1, 5e5, 16)
    );
    assert_eq!(
        (
            llama.qkv_bias,
            llama.output_bias,
            llama.head_norms,
            llama.post_norms
        ),
        (false, false, false, false)
    );
    assert_eq!(
        (llama.activation, llama.attention_scale),
        (Activation::Silu, 0.25)
    );
    assert_eq!(
        (llama.norm_offset, llama.embedding_scale, llama.tied),
        (0.0, 1.0, false)
    );
    assert_eq!(
        (llama.bos_token, llama.eos_tokens.as_slice()),
        (Some(1), [2, 3].as_slice())
    );
    let older = json!({"num_key_value_heads": null, "head_dim": null, "attention_bias": true, "tie_word_embeddings": true});
    let older = decoder("LlamaForCausalLM", older);
    assert_eq!((older.kv_heads, older.head_dim), (4, 16));
    assert_eq!(
        (older.qkv_bias, older.output_bias, older.tied),
        (true, true, true)
    );
}

#[test]
fn rotary_parameters_are_read_in_the_spelling_of_both_versions() {
    let scaling = json!({"rope_type": "linear", "factor": 4.0});
    let old = decoder(
        "LlamaForCausalLM",
        json!({"rope_theta": 5e5, "rope_scaling": scaling}),
    );
    let new = json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5});
    let new = decoder("LlamaForCausalLM", json!({"rope_parameters": new}));
    assert_eq!(old, new);
    assert_eq!(old.ropes[0].scaling, RopeScaling::Linear { factor: 4.0 });
    let nothing = decoder("SmolLM3ForCausalLM", json!({}));
    assert_eq!(nothing.ropes[0].theta, 2e6);
}

/// Frequencies as transformers 5.23's `ROPE_INIT_FUNCTIONS` give them, to their seven digits.
#[test]
fn stretched_frequencies_are_those_of_transformers() {
    let check = |config: ModelConfig, context: usize, expected: &[f64], factor: f64| {
        let found = config.ropes[0].frequencies(context);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() <= 2e-6 * expected,
                "{found} and {expected}"
            );
        }
        let first = config.rope_table(0, 3)[0];
        assert!(
            (first[0] - factor).abs() < 1e-9 && first[1] == 0.0,
            "{first:?}"
        );
    };
    let llama3 = json!({"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}});
    let expected = [
        1.0,
        0.1939228,
        0.03760603,
        0.001312569,
        0.0001767767,
        3.428102e-05,
        6.64787e-06,
        1.289173e-06,
    ];
    check(decoder("LlamaForCausalLM", llama3), 100, &expected, 1.0);
    let yarn = json!({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}});
    let expected = [
        1.0,
        0.3162278,
        0.1,
        0.02569351,
        0.00625,
        0.001383497,
        0.00025,
        7.905695e-05,
    ];
    check(
        decoder("Qwen2ForCausalLM", yarn),
        100,
        &expected,
        1.138629436111989,
    );
    let yarn = json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048,
        "truncate": false, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 1.0}});
    let expected = [
        1.0,
        0.3162278,
        0.1,
        0.0266075,
        0.004261619,
        0.0007905695,
        0.00025,
        7.905695e-05,
    ];
    check(
        decoder("LlamaForCausalLM", yarn),
        100,
        &expected,
        0.9634746568860826,
    );
    let long = json!({"original_max_position_embeddings": 2048, "partial_rotary_factor": 0.5, "rope_scaling": {
        "type": "su", "short_factor": [1.0, 1.1, 1.2, 1.5], "long_factor": [1.0, 2.0, 4.0, 8.0]}});
    let long = decoder("Phi3ForCausalLM", long);
    assert_eq!(long.ropes[0].width, 8);
    let factor = 1.087114613009218;
    check(
        long.clone(),
        2048,
        &[1.0, 0.09090909, 0.008333333, 0.0006666667],
        factor,
    );
    check(long, 2049, &[1.0, 0.05, 0.0025, 0.000125], factor);
}

#[test]
fn windows_stand_where_each_family_puts_them() {
    let all = |window| vec![Some(window); 4];
    assert_eq!(
        windows(&decoder("MistralForCausalLM", json!({}))),
        all(4096)
    );
    assert_eq!(
        windows(&decoder(
            "MistralForCausalLM",
            json!({"sliding_window": null})
        )),
        [None; 4]
    );
    assert_eq!(
        windows(&decoder("Phi3ForCausalLM", json!({"sliding_window": 2047}))),
        all(2047)
    );
    assert_eq!(windows(&decoder("Phi3ForCausalLM", json!({}))), [None; 4]);
    let late = json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 3});
    assert_eq!(
        windows(&decoder("Qwen2ForCausalLM", late)),
        [None, None, None, Some(8)]
    );
    let off = json!({"use_sliding_window": false, "sliding_window": 8, "max_window_layers": 0});
    assert_eq!(windows(&decoder("Qwen3ForCausalLM", off)), [None; 4]);
    let by_layer = json!({"use_sliding_window": true, "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]});
    assert_eq!(
        windows(&decoder("Qwen3ForCausalLM", by_layer)),
        [Some(8), None, None, Some(8)]
    );
    assert_eq!(
        windows(&decoder("Gemma2ForCausalLM", json!({"sliding_window": 8}))),
        [Some(8), None, Some(8), None]
    );
    let three = json!({"sliding_window": 8, "sliding_window_pattern": 3});
    assert_eq!(
        windows(&decoder("Gemma3ForCausalLM", three)),
        [Some(8), Some(8), None, Some(8)]
    );
}

#[test]
fn smollm3_does_not_turn_in_every_fourth_layer_or_where_it_says() {
    assert_eq!(
        turns(&decoder("SmolLM3ForCausalLM", json!({}))),
        [Some(0), Some(0), Some(0), None]
    );
    let said = decoder(
        "SmolLM3ForCausalLM",
        json!({"no_rope_layers": [0, 1, 1, 0, 1, 1]}),
    );
    assert_eq!(turns(&said), [None, Some(0), Some(0), None]);
    assert!(said.tied);
}

#[test]
fn biases_and_head_norms_are_those_of_the_family() {
    let qwen2 = decoder("Qwen2ForCausalLM", json!({}));
    assert_eq!(
        (qwen2.qkv_bias, qwen2.output_bias, qwen2.head_norms),
        (true, false, false)
    );
    let qwen3 = decoder("Qwen3ForCausalLM", json!({}));
    assert_eq!(
        (qwen3.qkv_bias, qwen3.output_bias, qwen3.head_norms),
        (false, false, true)
    );
    let wide = json!({"num_attention_heads": 4, "head_dim": 128});
    assert_eq!(
        decoder("Qwen3ForCausalLM", wide).attention_scale,
        128f64.powf(-0.5)
    );
}

#[test]
fn experts_are_counted_by_either_key_with_the_defaults_of_the_family() {
    let experts = |architecture: &str, changes: Value| decoder(architecture, changes).experts;
    let mixtral = experts("MixtralForCausalLM", json!({})).unwrap();
    let expected = Experts {
        count: 8,
        chosen: 2,
        intermediate: 96,
        normalized: true,
        shared: None,
        layers: vec![true; 4],
        clamped: None,
    };
    assert_eq!(mixtral, expected);
    let qwen3 = experts("Qwen3MoeForCausalLM", json!({})).unwrap();
    let expected = Experts {
        count: 128,
        chosen: 8,
        intermediate: 768,
        normalized: false,
        ..expected
    };
    assert_eq!(qwen3, expected);
    let qwen2 = experts("Qwen2MoeForCausalLM", json!({"qkv_bias": false})).unwrap();
    let expected = Experts {
        count: 60,
        chosen: 4,
        intermediate: 1408,
        shared: Some(5632),
        ..expected
    };
    assert_eq!(qwen2, expected);
    for key in ["num_experts", "num_local_experts"] {
        for architecture in ["MixtralForCausalLM", "Qwen3MoeForCausalLM"] {
            let some = experts(architecture, json!({key: 5, "num_experts_per_tok": 5})).unwrap();
            assert_eq!((some.count, some.chosen), (5, 5), "{architecture}, {key}");
        }
    }
    let normalized = experts("Qwen3MoeForCausalLM", json!({"norm_topk_prob": true}));
    assert!(normalized.unwrap().normalized);
}

#[test]
fn gpt_oss_has_sinks_biases_clamped_gates_and_a_window_in_every_other_layer() {
    let rope = json!({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
        "original_max_position_embeddings": 4096});
    let with = |changes: Value| {
        let mut all = json!({"rope_scaling": rope});
        let more = changes.as_object().unwrap();
        more.iter()
            .for_each(|(key, value)| all[key] = value.clone());
        decoder("GptOssForCausalLM", all)
    };
    let plain = with(json!({}));
    assert!(plain.sinks && plain.qkv_bias && plain.output_bias && !plain.head_norms);
    assert_eq!(windows(&plain), [Some(128), None, Some(128), None]);
    let experts = plain.experts.unwrap();
    assert_eq!((experts.count, experts.chosen), (128, 4));
    assert_eq!(experts.clamped, Some(ClampedGate::PUBLISHED));
    assert!(experts.normalized);
    let other = with(
        json!({"swiglu_alpha": 1.5, "swiglu_limit": 3, "sliding_window": 9, "attention_bias": false,
        "layer_types": ["full_attention", "full_attention", "sliding_attention", "full_attention"]}),
    );
    assert_eq!(windows(&other), [None, None, Some(9), None]);
    assert!(!other.qkv_bias && !other.output_bias);
    let clamped = ClampedGate {
        slope: 1.5,
        limit: 3.0,
    };
    assert_eq!(other.experts.unwrap().clamped, Some(clamped));
}

/// As their makers say: Mixtral 8x7B has 46.7 billion parameters, of which a token goes through 12.9; Qwen3-30B-A3B 30.5 and 3.3;
/// gpt-oss-20b 20.91 and gpt-oss-120b 116.83, and without the embedding 3.61 and 5.13.
#[test]
fn parameters_are_those_that_makers_state() {
    let of = |architecture: &str, changes: Value| {
        let config = decoder(architecture, changes);
        [config.parameters(), config.active_parameters()].map(|n| n as f64 / 1e9)
    };
    let [all, active] = of(
        "MixtralForCausalLM",
        json!({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}),
    );
    assert!(
        (46.65..46.75).contains(&all) && (12.85..12.95).contains(&active),
        "{all} {active}"
    );
    let [all, active] = of(
        "Qwen3MoeForCausalLM",
        json!({"vocab_size": 151_936, "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
            "num_key_value_heads": 4, "head_dim": 128}),
    );
    assert!(
        (30.45..30.55).contains(&all) && (3.3..3.4).contains(&active),
        "{all} {active}"
    );
    for (layers, experts, stated) in [(24, 32, [20.91, 3.61]), (36, 128, [116.83, 5.13])] {
        let [all, active] = of(
            "GptOssForCausalLM",
            json!({"vocab_size": 201_088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": layers,
                "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": experts,
                "rope_scaling": {"rope_type": "default"}}),
        );
        let active = active - 201_088.0 * 2880.0 / 1e9;
        for (found, stated) in [all, active].into_iter().zip(stated) {
            assert!(
                (found - stated).abs() < 0.006,
                "{experts}: {found} {stated}"
            );
        }
    }
}

#[test]
fn layers_without_experts_are_those_that_are_named_and_those_between() {
    let layers = |changes: Value| {
        let config = decoder("Qwen3MoeForCausalLM", changes);
        config.experts.map(|experts| experts.layers)
    };
    assert_eq!(
        layers(json!({"mlp_only_layers": [1, 9]})).unwrap(),
        [true, false, true, true]
    );
    assert_eq!(
        layers(json!({"decoder_sparse_step": 2, "mlp_only_layers": [3]})).unwrap(),
        [false, true, false, false]
    );
    assert_eq!(layers(json!({"decoder_sparse_step": 5})), None);
    assert_eq!(layers(json!({"num_experts": 0})), None);
}

#[test]
fn windows_of_models_with_experts_are_those_of_the_family() {
    let on = json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 3});
    assert_eq!(
        windows(&decoder("Qwen3MoeForCausalLM", on.clone())),
        [Some(8); 4]
    );
    assert_eq!(
        windows(&decoder("Qwen2MoeForCausalLM", on)),
        [Some(8), None, Some(8), None]
    );
    let off = json!({"sliding_window": 8});
    assert_eq!(
        windows(&decoder("Qwen3MoeForCausalLM", off.clone())),
        [None; 4]
    );
    assert_eq!(
        windows(&decoder("Qwen2MoeForCausalLM", off.clone())),
        [None; 4]
    );
    assert_eq!(windows(&decoder("MixtralForCausalLM", off)), [Some(8); 4]);
}

#[test]
fn gemmas_have_caps_scales_and_offsets() {
    let two = decoder(
        "Gemma2ForCausalLM",
        json!({"torch_dtype": "bfloat16", "query_pre_attn_scalar": 144}),
    );
    assert_eq!(
        (two.attention_softcap, two.logit_softcap),
        (Some(50.0), Some(30.0))
    );
    assert_eq!(
        (two.post_norms, two.head_norms, two.norm_offset, two.tied),
        (true, false, 1.0, true)
    );
    assert_eq!(
        (two.activation, two.attention_scale),
        (Activation::GeluTanh, 1.0 / 12.0)
    );
    let none = json!({"attn_logit_softcapping": null, "final_logit_softcapping": null});
    let none = decoder("Gemma2ForCausalLM", none);
    assert_eq!((none.attention_softcap, none.logit_softcap), (None, None));
    // sqrt(2304) is 48 in any precision; sqrt(1152) = 33.94112549... is 34 in bf16, and 33.9375 in f16.
    let scale = |dtype: Value| {
        decoder(
            "Gemma3ForCausalLM",
            json!({"hidden_size": 1152, "dtype": dtype}),
        )
        .embedding_scale
    };
    assert_eq!(scale(json!("bfloat16")), 34.0);
    assert_eq!(scale(json!("float16")), 33.9375);
    assert_eq!(scale(json!(null)), f64::from(1152f32.sqrt()));
    let three = decoder(
        "Gemma3ForCausalLM",
        json!({"rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    );
    assert_eq!(
        (
            three.attention_softcap,
            three.logit_softcap,
            three.head_norms
        ),
        (None, None, true)
    );
    assert_eq!([three.ropes[0].theta, three.ropes[1].theta], [1e6, 1e4]);
    assert_eq!(three.ropes[0].scaling, RopeScaling::Linear { factor: 8.0 });
    assert_eq!(three.ropes[1].scaling, RopeScaling::None);
    assert_eq!(turns(&three), [Some(1); 4]);
    let nested = json!({"sliding_window_pattern": 2, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}});
    let nested = decoder("Gemma3ForCausalLM", nested);
    assert_eq!(nested.ropes, three.ropes);
    assert_eq!(turns(&nested), [Some(1), Some(0), Some(1), Some(0)]);
}

#[test]
fn the_part_of_gemma3_that_reads_text_is_read_with_its_defaults() {
    let config = json!({"architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 106],
        "torch_dtype": "bfloat16", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": 34, "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}});
    let checkpoint = open_beside(&config, &[]).unwrap();
    let config = checkpoint.decoder().unwrap();
    assert_eq!(
        (
            config.heads,
            config.kv_heads,
            config.head_dim,
            config.vocabulary
        ),
        (8, 4, 256, 262_208)
    );
    assert_eq!(
        (
            config.layers.len(),
            config.context,
            config.eos_tokens.as_slice()
        ),
        (34, 131_072, [1, 106].as_slice())
    );
    assert_eq!(config.embedding_scale, 50.5);
}

#[test]
fn end_tokens_of_generation_config_are_added() {
    let config = with("LlamaForCausalLM", json!({"eos_token_id": 2}));
    let beside = [("generation_config.json", json!({"eos_token_id": [2, 7]}))];
    let checkpoint = open_beside(&config, &beside).unwrap();
    assert_eq!(checkpoint.decoder().unwrap().eos_tokens, [2, 7]);
}

#[test]
fn encoders_pool_label_and_place_as_their_files_say() {
    let bert = encoder(json!({}), &[]);
    assert_eq!(
        (bert.head, bert.first_position, bert.context),
        (EncoderHead::Embedding(Pooling::Mean), 0, 512)
    );
    assert_eq!(
        (
            bert.layers.len(),
            bert.intermediate,
            bert.norm_epsilon,
            bert.types
        ),
        (12, 3072, 1e-12, 2)
    );
    assert_eq!(bert.activation, Activation::Gelu);
    let first = [
        (
            "1_Pooling/config.json",
            json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}),
        ),
        ("sentence_bert_config.json", json!({"max_seq_length": 256})),
    ];
    let first = encoder(json!({}), &first);
    assert_eq!(
        (first.head, first.context),
        (EncoderHead::Embedding(Pooling::First), 256)
    );
    let newer = [("1_Pooling/config.json", json!({"pooling_mode": "cls"}))];
    assert_eq!(
        encoder(json!({}), &newer).head,
        EncoderHead::Embedding(Pooling::First)
    );
    let roberta = json!({"architectures": ["XLMRobertaForSequenceClassification"], "max_position_embeddings": 514,
        "id2label": {"1": "bad", "0": "good", "2": "odd"}});
    let roberta = encoder(roberta, &[]);
    assert_eq!(
        (roberta.first_position, roberta.context, roberta.positions),
        (2, 512, 514)
    );
    let labels = ["good", "bad", "odd"].map(str::to_owned).to_vec();
    assert_eq!(roberta.head, EncoderHead::Classification(labels));
    let tokens = encoder(
        json!({"architectures": ["XLMRobertaForTokenClassification"], "id2label": {"0": "O", "1": "B-PER"}}),
        &[],
    );
    let labels = ["O", "B-PER"].map(str::to_owned).to_vec();
    assert_eq!(tokens.head, EncoderHead::TokenClassification(labels));
    assert_eq!((tokens.head.is_of_tokens(), tokens.scoring), (true, None));
    // One label is a score, in the scale that sentence-transformers would give it.
    let (raw, sigmoid) = (
        json!("torch.nn.modules.linear.Identity"),
        json!("torch.nn.modules.activation.Sigmoid"),
    );
    for (more, scale) in [
        (json!({}), ScoreScale::Sigmoid),
        (
            json!({"sbert_ce_default_activation_function": raw}),
            ScoreScale::Raw,
        ),
        (
            json!({"sentence_transformers": {"activation_fn": raw}}),
            ScoreScale::Raw,
        ),
        (
            json!({"sentence_transformers": {"activation_fn": sigmoid, "version": "5.0"},
                "sbert_ce_default_activation_function": raw}),
            ScoreScale::Sigmoid,
        ),
        (
            json!({"sentence_transformers": {"version": "5.0"}}),
            ScoreScale::Sigmoid,
        ),
    ] {
        let mut config = json!({"architectures": ["BertForSequenceClassification"],
            "id2label": {"0": "LABEL_0"}});
        let members = config.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let found = encoder(config, &[]);
        assert_eq!(found.head, EncoderHead::Relevance(scale), "{more}");
        assert_eq!((found.head.scores(), found.token_types()), (Some(1), 2));
    }
    let most = [(
        "1_Pooling/config.json",
        json!({"pooling_mode_max_tokens": true}),
    )];
    let error = open_beside(&json!({"architectures": ["BertModel"]}), &most).unwrap_err();
    assert!(
        error.contains("is pooling_mode_max_tokens, supported: one of pooling_mode_mean_tokens"),
        "{error}"
    );
}

#[test]
fn encoders_of_other_families_are_what_their_files_and_their_makers_defaults_say() {
    let distilbert = open_beside(&json!({"architectures": ["DistilBertModel"]}), &[]).unwrap();
    let distilbert = distilbert.encoder().unwrap().clone();
    assert_eq!(
        (distilbert.layers.len(), distilbert.hidden, distilbert.types),
        (6, 768, 0)
    );
    assert_eq!((distilbert.positions, distilbert.context), (512, 512));
    assert_eq!(distilbert.token_types(), 1);

    let modernbert = open_beside(&json!({"architectures": ["ModernBertModel"]}), &[]).unwrap();
    let modernbert = modernbert.encoder().unwrap().clone();
    assert!(modernbert.pre_norm && modernbert.gated && !modernbert.biases.norms);
    assert_eq!((modernbert.context, modernbert.positions), (8192, 0));
    let reach = |layer: usize| modernbert.layers[layer].reach;
    assert_eq!(
        [0, 1, 2, 3, 21].map(reach),
        [None, Some(64), Some(64), None, None]
    );
    let thetas = |config: &EncoderConfig| {
        let layers = config.layers.iter();
        layers
            .map(|layer| config.ropes[layer.rope.unwrap()].theta)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        thetas(&modernbert)[..4],
        [160_000.0, 10_000.0, 10_000.0, 160_000.0]
    );
    // Layers one by one, and the tables of either kind.
    let given = encoder(
        json!({"architectures": ["ModernBertForSequenceClassification"], "num_hidden_layers": 2, "local_attention": 9,
            "layer_types": ["sliding_attention", "full_attention"], "classifier_pooling": "mean",
            "rope_parameters": {"full_attention": {"rope_theta": 50.0, "rope_type": "linear", "factor": 2.0},
                "sliding_attention": {"rope_theta": 20.0}}}),
        &[],
    );
    assert_eq!(
        (given.layers[0].reach, given.layers[1].reach),
        (Some(4), None)
    );
    assert_eq!(thetas(&given), [20.0, 50.0]);
    assert_eq!(given.ropes[0].scaling, RopeScaling::Linear { factor: 2.0 });
    let scoring = given.scoring.unwrap();
    assert_eq!(
        (scoring.pooling, scoring.bias, scoring.norm),
        (Pooling::Mean, false, true)
    );
    assert_eq!(scoring.activation, HeadActivation::Of(Activation::Gelu));

    // The keys of its maker and those of transformers.
    for keys in [
        json!({"n_embd": 64, "n_head": 4, "n_layer": 3, "n_inner": 100, "n_positions": 8192, "rotary_emb_base": 500.0,
            "activation_function": "swiglu"}),
        json!({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 100,
            "max_position_embeddings": 8192, "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}}),
    ] {
        let mut config = json!({"architectures": ["NomicBertModel"]});
        config
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        let checkpoint = open_beside(&config, &[]).unwrap();
        let nomic = checkpoint.encoder().unwrap();
        assert_eq!(
            (nomic.layers.len(), nomic.heads, nomic.intermediate),
            (3, 4, 100)
        );
        assert_eq!((nomic.context, nomic.types, nomic.gated), (8192, 2, true));
        assert_eq!(
            (nomic.activation, nomic.ropes[0].theta),
            (Activation::Silu, 500.0)
        );
        // A table that stretches with the text is as it is up to what the model was trained with.
        config["rotary_scaling_factor"] = json!(2.0);
        let checkpoint = open_beside(&config, &[]).unwrap();
        assert_eq!(checkpoint.encoder().unwrap().context, 2048);
    }
}

#[test]
fn an_encoder_may_have_no_table_of_token_types() {
    for name in ["BertModel", "NomicBertModel"] {
        let config = json!({"architectures": [name], "type_vocab_size": 0});
        let checkpoint = open_beside(&config, &[]).unwrap();
        let found = checkpoint.encoder().unwrap();
        assert_eq!((found.types, found.token_types()), (0, 1), "{name}");
        assert!(found.tensors().all(|tensor| tensor != EncoderTensor::Types));
    }
    let config = json!({"architectures": ["RobertaModel"], "type_vocab_size": 0});
    let error = open_beside(&config, &[]).unwrap_err();
    assert!(
        error.contains("`type_vocab_size` is 0, must be between 1"),
        "{error}"
    );
}

#[test]
fn how_weights_are_stored_is_read() {
    let int4 =
        json!({"quantization_config": {"quant_method": "tidegate", "bits": 4, "group_size": 32}});
    assert_eq!(
        decoder("LlamaForCausalLM", int4).quantization,
        Some(Quantization::Int4)
    );
    assert!(matches!(
        open_beside(&with("LlamaForCausalLM", json!({})), &[])
            .unwrap()
            .architecture(),
        Architecture::Decoder(ModelConfig {
            quantization: None,
            ..
        })
    ));
}
