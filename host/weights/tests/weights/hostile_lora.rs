//! Low-rank adapters that do not fit their base, were damaged, or are of a kind that is not run.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_weights::{
    Activation, LayerConfig, LayerTensor, Lora, LoraError, ModelConfig, Rope, RopeScaling,
};

use crate::made::{Files, Tensor, safetensors};

/// Two layers: 4 heads and 2 key heads of 4 elements over rows of 12, 20 between.
fn base() -> ModelConfig {
    let layer = LayerConfig {
        window: None,
        rope: Some(0),
    };
    ModelConfig {
        architecture: "LlamaForCausalLM".to_owned(),
        vocabulary: 32,
        hidden: 12,
        intermediate: 20,
        experts: None,
        heads: 4,
        kv_heads: 2,
        head_dim: 4,
        layers: vec![layer; 2],
        ropes: vec![Rope {
            theta: 1e4,
            scaling: RopeScaling::None,
            width: 4,
        }],
        norm_epsilon: 1e-5,
        norm_offset: 0.0,
        post_norms: false,
        head_norms: false,
        qkv_bias: false,
        output_bias: false,
        activation: Activation::Silu,
        attention_scale: 0.5,
        attention_softcap: None,
        sinks: false,
        logit_softcap: None,
        embedding_scale: 1.0,
        context: 64,
        tied: false,
        quantization: None,
        bos_token: None,
        eos_tokens: Vec::new(),
    }
}

fn tensor(name: &str, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor {
        name: name.to_owned(),
        dtype: "F32",
        shape: shape.to_vec(),
        bytes: (0..count)
            .flat_map(|i| (i as f32 / 8.0 - 0.5).to_le_bytes())
            .collect(),
    }
}

fn names(module: &str) -> [String; 2] {
    ["A", "B"].map(|which| format!("base_model.model.model.layers.{module}.lora_{which}.weight"))
}

/// A pair of rank 3.
fn pair(module: &str, rows: usize, width: usize) -> Vec<Tensor> {
    let [a, b] = names(module);
    vec![tensor(&a, &[3, width]), tensor(&b, &[rows, 3])]
}

fn whole() -> Vec<Tensor> {
    let mut all = pair("0.self_attn.q_proj", 16, 12);
    all.extend(pair("1.self_attn.qkv_proj", 32, 12));
    all.extend(pair("1.mlp.down_proj", 12, 20));
    all
}

fn config() -> Value {
    json!({"peft_type": "LORA", "r": 3, "lora_alpha": 6, "bias": "none", "use_dora": false})
}

fn files(config: &Value, tensors: &[Tensor]) -> Files {
    Files::default()
        .with("a/adapter_config.json", config.to_string())
        .with("a/adapter_model.safetensors", safetensors(tensors))
}

fn open(files: &Files) -> Result<Lora, LoraError> {
    Lora::open(Path::new("a"), &base(), files)
}

#[track_caller]
fn refused(files: &Files, expected: &str) {
    let error = open(files).unwrap_err().to_string();
    assert_eq!(error, expected);
}

#[test]
fn the_adapter_that_is_spoilt_below_is_whole_to_begin_with() {
    let lora = open(&files(&config(), &whole())).unwrap();
    assert_eq!((lora.matrices(), lora.most_rank()), (5, 3));
    assert_eq!(lora.rank(0, LayerTensor::Query), 3);
    assert_eq!(lora.rank(0, LayerTensor::Down), 0);
    let query = lora.low_rank(0, LayerTensor::Query).unwrap().unwrap();
    assert_eq!(query.scale, 2.0);
    assert_eq!((query.a.rows(), query.a.width()), (3, 12));
    assert_eq!((query.b.rows(), query.b.width()), (16, 3));
    // Of a fused matrix: rows behind those of queries and keys.
    let value = lora.low_rank(1, LayerTensor::Value).unwrap().unwrap();
    let mut row = Vec::new();
    value.b.read_row(7, &mut row).unwrap();
    let from = (16 + 8 + 7) * 3;
    let expected: Vec<f32> = (from..from + 3).map(|i| i as f32 / 8.0 - 0.5).collect();
    assert_eq!((row, value.b.rows()), (expected, 8));
}

#[test]
fn what_would_work_is_by_what_is_wrong() {
    let nearest =
        |config: &Value, tensors: &[Tensor]| open(&files(config, tensors)).unwrap_err().nearest();
    let dora = json!({"peft_type": "LORA", "r": 3, "lora_alpha": 6, "use_dora": true});
    assert!(nearest(&dora, &whole()).contains("merge_and_unload"));
    let wide = pair("0.self_attn.q_proj", 16, 13);
    assert!(nearest(&config(), &wide).starts_with("the base that the adapter was trained on"));
    assert!(nearest(&config(), &whole()[1..]).starts_with("the whole directory"));
}

/// Peft leaves them out, and so makes another model.
#[test]
fn tensors_that_the_configuration_does_not_select_are_refused() {
    let with = |key: &str, value: Value| {
        let mut config = config();
        config[key] = value;
        open(&files(&config, &whole())).map_err(|error| error.to_string())
    };
    for (key, value) in [
        (
            "target_modules",
            json!(["q_proj", "qkv_proj", "down_proj", "up_proj"]),
        ),
        (
            "target_modules",
            json!([
                "q_proj",
                "self_attn.qkv_proj",
                "model.layers.1.mlp.down_proj"
            ]),
        ),
        ("target_modules", json!("all-linear")),
        ("target_modules", Value::Null),
        ("layers_to_transform", json!([1, 0])),
        // To peft that is all of them.
        ("layers_to_transform", json!([])),
        ("layers_to_transform", Value::Null),
    ] {
        assert!(with(key, value.clone()).is_ok(), "{key} {value}");
    }
    for (key, value, words) in [
        (
            "target_modules",
            json!(["q_proj", "qkv_proj"]),
            "mlp.down_proj`, and `target_modules` of",
        ),
        (
            "target_modules",
            json!(["proj", "_proj"]),
            "and `target_modules` of",
        ),
        (
            "target_modules",
            json!(3),
            "`target_modules` is 3, must be a list of names",
        ),
        ("layers_to_transform", json!(0), "layers.1."),
        (
            "layers_to_transform",
            json!([99]),
            "and `layers_to_transform` of",
        ),
        (
            "layers_to_transform",
            json!("1"),
            "must be the number of a layer",
        ),
    ] {
        let error = with(key, value).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_scale_is_by_the_rank_or_its_root_and_by_patterns() {
    let scale = |more: Value| {
        let mut config = config();
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        let lora = open(&files(&config, &whole())).unwrap();
        let scale = |layer, part| lora.low_rank(layer, part).unwrap().unwrap().scale;
        [scale(0, LayerTensor::Query), scale(1, LayerTensor::Down)]
    };
    assert_eq!(scale(json!({})), [2.0, 2.0]);
    assert_eq!(
        scale(json!({"use_rslora": true})),
        [6.0 / 3.0_f64.sqrt(); 2]
    );
    assert_eq!(
        scale(json!({"alpha_pattern": {"down_proj": 9}})),
        [2.0, 3.0]
    );
    let anywhere = json!({"alpha_pattern": {r"layers\.0\..*": 1.5}});
    assert_eq!(scale(anywhere), [0.5, 2.0]);
    // A pattern is of whole names, or of what follows a dot.
    assert_eq!(
        scale(json!({"alpha_pattern": {"own_proj": 9, "down": 9}})),
        [2.0, 2.0]
    );
}

const MUTATES: &str = "one that leaves its base as it is: save it with peft's path_initial_model_for_weight_conversion, \
    which makes plain pairs of it";

#[test]
fn what_is_not_run_is_refused_by_its_key() {
    for (key, value, limit) in [
        ("peft_type", json!("LOHA"), "\"LORA\""),
        // Trained beside a base that training had changed.
        ("init_lora_weights", json!("pissa_niter_16"), MUTATES),
        ("init_lora_weights", json!("OLoRA"), MUTATES),
        ("init_lora_weights", json!("loftq"), MUTATES),
        ("use_rslora", json!("true"), "true or false"),
        (
            "use_dora",
            json!(true),
            "left out: only plain pairs of matrices are run",
        ),
        (
            "lora_bias",
            json!(true),
            "left out: only plain pairs of matrices are run",
        ),
        (
            "fan_in_fan_out",
            json!(true),
            "left out: only plain pairs of matrices are run",
        ),
        (
            "modules_to_save",
            json!(["lm_head"]),
            "left out: only plain pairs of matrices are run",
        ),
        (
            "alora_invocation_tokens",
            json!([1]),
            "left out: only plain pairs of matrices are run",
        ),
        ("bias", json!("all"), "\"none\": biases are not adapted"),
        ("r", json!(0), "between 1 and 512"),
        ("r", json!(-3), "between 1 and 512"),
        ("r", json!(1_000_000_000_000_u64), "between 1 and 512"),
        ("lora_alpha", json!("much"), "a number"),
        (
            "rank_pattern",
            json!({"(": 3}),
            "an object of expressions that Rust's regex crate reads too",
        ),
        (
            "alpha_pattern",
            json!({"q_proj": null}),
            "an object of numbers",
        ),
        (
            "alpha_pattern",
            json!([1]),
            "an object of at most 4096 members",
        ),
    ] {
        let mut config = config();
        config[key] = value.clone();
        let error = open(&files(&config, &whole())).unwrap_err().to_string();
        let begins = format!("a/adapter_config.json: `{key}` is ");
        assert!(
            error.starts_with(&begins) && error.ends_with(&format!(", must be {limit}")),
            "{error}"
        );
    }
    let mut twice = config();
    twice["alpha_pattern"] = json!({"q_proj": 1, ".*": 2});
    let error = open(&files(&twice, &whole())).unwrap_err().to_string();
    assert!(
        error.contains("`alpha_pattern` is ")
            && error.contains("must be one number of model.layers.0"),
        "{error}"
    );
}

#[test]
fn what_does_not_fit_its_base_is_refused_by_its_tensor() {
    let at = "a/adapter_model.safetensors: tensor";
    let [a, b] = names("0.self_attn.q_proj");
    let with = |tensors: Vec<Tensor>| files(&config(), &tensors);
    let alone = with(vec![tensor(&a, &[3, 12])]);
    refused(
        &alone,
        &format!("{at} `{a}` is there without its partner `{b}`"),
    );
    let alone = with(vec![tensor(&b, &[16, 3])]);
    refused(
        &alone,
        &format!("{at} `{b}` is there without its partner `{a}`"),
    );
    let by = "by adapter_config.json and the base";
    let wide = with(vec![tensor(&a, &[3, 13]), tensor(&b, &[16, 3])]);
    refused(
        &wide,
        &format!("{at} `{a}` has shape [3, 13], must be [3, 12] {by}"),
    );
    let other_rank = with(vec![tensor(&a, &[4, 12]), tensor(&b, &[16, 4])]);
    refused(
        &other_rank,
        &format!("{at} `{a}` has shape [4, 12], must be [3, 12] {by}"),
    );
    let by = "by its partner and the base";
    let high = with(vec![tensor(&a, &[3, 12]), tensor(&b, &[17, 3])]);
    refused(
        &high,
        &format!("{at} `{b}` has shape [17, 3], must be [16, 3] {by}"),
    );
    let unlike = with(vec![tensor(&a, &[3, 12]), tensor(&b, &[16, 2])]);
    refused(
        &unlike,
        &format!("{at} `{b}` has shape [16, 2], must be [16, 3] {by}"),
    );
    let absurd = with(vec![tensor(&a, &[513, 12]), tensor(&b, &[16, 513])]);
    refused(
        &absurd,
        &format!("{at} `{a}` has rank 513, must be between 1 and 512"),
    );
    for (module, reason) in [
        (
            "2.self_attn.q_proj",
            "adapts layer 2 (the first is 0), and the base has 2 layers",
        ),
        (
            "0.mlp.experts.0.gate_proj",
            "adapts `model.layers.0.mlp.experts.0.gate_proj`, which is not run: adapted are q_proj",
        ),
        (
            "0.self_attn.rotary",
            "adapts `model.layers.0.self_attn.rotary`, which is not run: adapted are q_proj",
        ),
    ] {
        let error = open(&with(pair(module, 16, 12))).unwrap_err().to_string();
        let begins = format!("{at} `{}` {reason}", names(module)[0]);
        assert!(error.starts_with(&begins), "{error}");
    }
    let mut more = whole();
    more.push(tensor("base_model.model.lm_head.weight", &[32, 12]));
    let error = open(&with(more)).unwrap_err().to_string();
    assert!(
        error.contains("`base_model.model.lm_head.weight` is neither"),
        "{error}"
    );
    let mut both = whole();
    both.extend(pair("1.self_attn.k_proj", 8, 12));
    let error = open(&with(both)).unwrap_err().to_string();
    assert!(
        error.contains("adapts what") && error.ends_with("adapts already"),
        "{error}"
    );
    refused(
        &with(Vec::new()),
        "a/adapter_model.safetensors adapts nothing: it has no tensors",
    );
    let mut whole_numbers = whole();
    whole_numbers[0].dtype = "I32";
    let error = open(&with(whole_numbers)).unwrap_err().to_string();
    assert!(
        error.contains("is stored as I32, supported: F32, F16 and BF16"),
        "{error}"
    );
}

#[test]
fn a_scale_that_is_no_number_and_files_that_are_not_there_are_refused() {
    let mut huge = config();
    huge["lora_alpha"] = json!(1e300);
    let error = open(&files(&huge, &whole())).unwrap_err().to_string();
    assert!(
        error.starts_with("a/adapter_config.json: the scale of `model.layers."),
        "{error}"
    );
    assert!(
        error.ends_with("by rank 3; must be a finite number of f32"),
        "{error}"
    );
    // Python writes what JSON does not have.
    let not_a_number = config()
        .to_string()
        .replace("\"lora_alpha\":6", "\"lora_alpha\":NaN");
    assert!(not_a_number.contains("NaN"));
    let files = Files::default()
        .with("a/adapter_config.json", not_a_number)
        .with("a/adapter_model.safetensors", safetensors(&whole()));
    let error = open(&files).unwrap_err().to_string();
    assert!(
        error.starts_with("a/adapter_config.json is not the configuration of an adapter"),
        "{error}"
    );
    let gguf = Lora::open(Path::new("a/polite.gguf"), &base(), &Files::default()).unwrap_err();
    assert!(
        gguf.to_string()
            .starts_with("a/polite.gguf: adapters as GGUF files are not read; give the directory"),
        "{gguf}"
    );
    let no_weights = Files::default().with("a/adapter_config.json", config().to_string());
    let expected = "a holds no adapter: expected a directory with adapter_config.json and adapter_model.safetensors";
    refused(&no_weights, expected);
    refused(&Files::default(), expected);
}

#[test]
fn every_adapter_of_a_base_has_a_digest_of_its_own() {
    let digest =
        |config: &Value, tensors: &[Tensor]| open(&files(config, tensors)).unwrap().digest();
    let own = digest(&config(), &whole());
    assert!(own.starts_with("sha256:") && own.len() == 71, "{own}");
    assert_eq!(own, digest(&config(), &whole()));
    let mut other = config();
    other["lora_alpha"] = json!(7);
    assert_ne!(own, digest(&other, &whole()));
    let mut other = whole();
    other[0].bytes[0] ^= 1;
    assert_ne!(own, digest(&config(), &other));
    let with = |base| tidegate_weights::adapted_digest(base, &own);
    assert_ne!(with("one"), with("two"));
    assert_ne!(with("one"), own);
}

proptest! {
    #[test]
    fn cut_and_damaged_files_are_refused_or_read(cut in 0usize..4000, at in 0usize..4000, bits in 1u8.., of_config: bool) {
        let (mut config, mut weights) = (config().to_string().into_bytes(), safetensors(&whole()));
        let bytes = if of_config { &mut config } else { &mut weights };
        let at = at % bytes.len();
        bytes[at] ^= bits;
        if cut < bytes.len() {
            bytes.truncate(cut);
        }
        let files = Files::default()
            .with("a/adapter_config.json", config)
            .with("a/adapter_model.safetensors", weights);
        if let Ok(lora) = open(&files) {
            for layer in 0..2 {
                for part in [LayerTensor::Query, LayerTensor::Value, LayerTensor::Down] {
                    if let Some(pair) = lora.low_rank(layer, part).unwrap() {
                        prop_assert!(pair.scale.is_finite() && pair.a.rows() <= 512);
                        let mut row = Vec::new();
                        for index in 0..pair.b.rows() {
                            let _ = pair.b.read_row(index, &mut row);
                        }
                    }
                }
            }
        }
    }
}
