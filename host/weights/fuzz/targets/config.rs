//! JSON files of any bytes beside good weights: `config.json`, and after a zero byte each what stands beside it.

#![no_main]

mod common;

use std::path::Path;
use std::sync::LazyLock;

use common::made::{Files, config, safetensors, tensors};
use libfuzzer_sys::fuzz_target;
use tidegate_weights::Checkpoint;

const FILES: [&str; 5] = [
    "m/config.json",
    "m/1_Pooling/config.json",
    "m/sentence_bert_config.json",
    "m/generation_config.json",
    "m/config_sentence_transformers.json",
];

fn seeds() -> Vec<Vec<u8>> {
    let with = |name: &str, more: &str| {
        let named = config().replace("LlamaForCausalLM", name);
        named.replacen('{', &format!("{{{more}"), 1).into_bytes()
    };
    let beside = |name: &str, others: &[&str]| {
        let mut bytes = with(name, "");
        others
            .iter()
            .for_each(|other| bytes.extend(format!("\0{other}").bytes()));
        bytes
    };
    vec![
        beside(
            "BertModel",
            &[
                r#"{"pooling_mode_cls_token":true}"#,
                r#"{"max_seq_length":16}"#,
                "{}",
                r#"{"prompts":{"query":"q: "},"default_prompt_name":"query"}"#,
            ],
        ),
        beside(
            "LlamaForCausalLM",
            &["{}", "{}", r#"{"eos_token_id":[2,3]}"#],
        ),
        with(
            "LlamaForCausalLM",
            r#""rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":32},"attention_bias":true,"#,
        ),
        with(
            "MistralForCausalLM",
            r#""sliding_window":4,"rope_scaling":{"type":"linear","factor":2.0},"#,
        ),
        with(
            "Qwen2ForCausalLM",
            r#""use_sliding_window":true,"sliding_window":4,"max_window_layers":0,"#,
        ),
        with(
            "Qwen3ForCausalLM",
            r#""layer_types":["sliding_attention"],"rope_parameters":{"rope_type":"yarn","factor":4.0,"rope_theta":1e6,"beta_fast":32,"truncate":false},"#,
        ),
        with(
            "Qwen3MoeForCausalLM",
            r#""num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":16,"mlp_only_layers":[1],"decoder_sparse_step":1,"#,
        ),
        with(
            "Qwen2MoeForCausalLM",
            r#""num_local_experts":4,"num_experts_per_tok":2,"shared_expert_intermediate_size":16,"#,
        ),
        with(
            "MixtralForCausalLM",
            r#""num_local_experts":4,"num_experts_per_tok":2,"#,
        ),
        with(
            "GptOssForCausalLM",
            r#""num_local_experts":4,"num_experts_per_tok":2,"swiglu_limit":7.0,"rope_scaling":{"rope_type":"yarn","factor":2.0,"truncate":false},"quantization_config":{"quant_method":"mxfp4"},"#,
        ),
        with(
            "SmolLM3ForCausalLM",
            r#""no_rope_layers":[0],"no_rope_layer_interval":2,"#,
        ),
        with(
            "Phi3ForCausalLM",
            r#""partial_rotary_factor":0.5,"original_max_position_embeddings":32,"rope_scaling":{"type":"su","short_factor":[1.0,1.5],"long_factor":[2.0,3.0]},"#,
        ),
        with(
            "Gemma2ForCausalLM",
            r#""query_pre_attn_scalar":8,"attn_logit_softcapping":50.0,"torch_dtype":"bfloat16","#,
        ),
        with(
            "Gemma3ForConditionalGeneration",
            r#""text_config":{"hidden_size":32,"num_hidden_layers":1,"sliding_window_pattern":2,"rope_local_base_freq":1e4},"quantization_config":{"quant_method":"tidegate","bits":4,"group_size":32},"#,
        ),
        with(
            "BertForSequenceClassification",
            r#""id2label":{"0":"a","1":"b"},"hidden_act":"gelu_new","#,
        ),
        with(
            "ModernBertForTokenClassification",
            r#""id2label":{"0":"O","1":"B-PER"},"classifier_bias":true,"#,
        ),
        with(
            "NomicBertModel",
            r#""n_inner":32,"rotary_emb_base":1e3,"quantization_config":{"quant_method":"tidegate","bits":8,"group_size":32},"#,
        ),
        with(
            "XLMRobertaModel",
            r#""pad_token_id":1,"type_vocab_size":1,"layer_norm_eps":1e-5,"#,
        ),
    ]
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    static WEIGHTS: LazyLock<Vec<u8>> = LazyLock::new(|| safetensors(&tensors()));
    let mut files = Files::default().with("m/model.safetensors", WEIGHTS.as_slice());
    for (part, name) in data.split(|byte| *byte == 0).zip(FILES) {
        files = files.with(name, part);
    }
    match Checkpoint::open(Path::new("m"), &files) {
        Ok(checkpoint) => {
            common::probe::probe(&checkpoint);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
