//! What must be refused, and that the text says what and why.

use serde_json::{Value, json};
use tidegate_infer::weights::Precision;
use tidegate_infer::{
    Adapter, AdapterError, DecoderOptions, GpuDecoder, LoadError, ModelConfig, ReferenceDecoder,
    Weights, WeightsError,
};

use crate::support::{FAMILIES, RandomModel, adapter, config_json, options, shapes, write_tensors};

fn refused(changes: &[(&str, Value)]) -> String {
    ModelConfig::from_json(&config_json(changes))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_configuration_that_is_not_implemented_is_refused_by_key_and_value() {
    let cases = [
        (
            "architectures",
            json!(["GPT2LMHeadModel"]),
            "LlamaForCausalLM, MistralForCausalLM",
        ),
        (
            "hidden_act",
            json!("gelu"),
            "`hidden_act` is gelu, supported: silu",
        ),
        (
            "attention_bias",
            json!(true),
            "`attention_bias` is true, supported: false",
        ),
        (
            "mlp_bias",
            json!(true),
            "`mlp_bias` is true, supported: false",
        ),
        (
            "sliding_window",
            json!(4096),
            "`sliding_window` is 4096, supported: null",
        ),
        (
            "quantization_config",
            json!({"quant_method": "gptq"}),
            "`quantization_config` is \"gptq\"",
        ),
        (
            "rope_scaling",
            json!({"rope_type": "yarn", "factor": 4.0}),
            "`rope_type` is yarn, supported: default",
        ),
        (
            "rope_scaling",
            json!({"type": "dynamic", "factor": 4.0}),
            "`rope_type` is dynamic",
        ),
        (
            "rope_parameters",
            json!({"rope_type": "longrope"}),
            "`rope_type` is longrope",
        ),
        (
            "rope_scaling",
            json!({"factor": 4.0}),
            "`rope_scaling` is {\"factor\":4.0}",
        ),
    ];
    for (key, value, text) in cases {
        let error = refused(&[(key, value)]);
        assert!(error.contains(text), "{key}: {error}");
    }
}

#[test]
fn absurd_dimensions_are_refused_by_key_and_value() {
    let cases = [
        (
            "hidden_size",
            json!(0),
            "`hidden_size` is 0, must be between 1 and 1048576",
        ),
        (
            "vocab_size",
            json!(4_000_000_000_000u64),
            "`vocab_size` is 4000000000000",
        ),
        (
            "num_hidden_layers",
            json!(null),
            "`num_hidden_layers` is missing",
        ),
        (
            "num_key_value_heads",
            json!(4),
            "`num_key_value_heads` is 4, must be a divisor of num_attention_heads 6",
        ),
        (
            "head_dim",
            json!(7),
            "`head_dim` is 7, must be even and at most 256",
        ),
        ("head_dim", json!(512), "`head_dim` is 512"),
        (
            "head_dim",
            json!(null),
            "`hidden_size` is 20, must be a multiple of num_attention_heads 6",
        ),
        ("rms_norm_eps", json!(0.0), "`rms_norm_eps` is 0"),
        ("rope_theta", json!(-1.0), "`rope_theta` is -1"),
        (
            "rope_scaling",
            json!({"type": "linear"}),
            "`factor` is missing",
        ),
        (
            "eos_token_id",
            json!(99),
            "`eos_token_id` is 99, must be a token id below vocab_size 53",
        ),
    ];
    for (key, value, text) in cases {
        let error = refused(&[(key, value)]);
        assert!(error.contains(text), "{key}: {error}");
    }
    let error = refused(&[("hidden_size", json!(-3))]);
    assert!(error.contains("not a model configuration"), "{error}");
    assert!(ModelConfig::from_json("{").is_err());
    assert!(
        ModelConfig::from_dir("/nonexistent")
            .unwrap_err()
            .to_string()
            .contains("/nonexistent/config.json")
    );
}

#[test]
fn a_configuration_is_read_with_the_librarys_defaults() {
    let config = ModelConfig::from_json(
        r#"{"architectures": ["MistralForCausalLM"], "vocab_size": 9, "hidden_size": 8, "intermediate_size": 4,
            "num_hidden_layers": 1, "num_attention_heads": 2, "sliding_window": null, "eos_token_id": 2}"#,
    )
    .unwrap();
    assert_eq!(
        (
            config.kv_heads,
            config.head_dim,
            config.context,
            config.tied
        ),
        (2, 4, 2048, false)
    );
    assert_eq!((config.rope_theta, config.norm_epsilon), (10_000.0, 1e-6));
    assert_eq!(
        (config.bos_token, config.eos_tokens.clone()),
        (None, vec![2])
    );
    // Embedding, head, four square projections, three feed-forward ones and three norms.
    assert_eq!(config.parameters(), 2 * 72 + 4 * 64 + 3 * 32 + 3 * 8);
}

/// The bytes of a good file, changed, then opened.
fn opened(change: impl FnOnce(&mut Vec<u8>)) -> Result<Weights, WeightsError> {
    let model = RandomModel::new(21, &[], |_| Precision::F32);
    let path = model.directory.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    Weights::open(&path)
}

#[test]
fn a_truncated_or_hostile_header_is_refused() {
    let header = |change: fn(&mut Vec<u8>)| match opened(change) {
        Err(error @ WeightsError::Header { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(header(|bytes| bytes.clear()).contains("0 bytes"));
    header(|bytes| bytes.truncate(7));
    header(|bytes| bytes.truncate(8));
    header(|bytes| bytes.truncate(100));
    header(|bytes| bytes.truncate(bytes.len() - 1));
    header(|bytes| bytes.push(0));
    header(|bytes| bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes()));
    header(|bytes| bytes[..8].copy_from_slice(&(1u64 << 40).to_le_bytes()));
    header(|bytes| bytes[8] = b'!');
    header(|bytes| bytes[20] = 0xff);
    // Offsets that overlap, run backwards or past the end.
    for offsets in ["[0,0]", "[8,4]", "[4,99999999999999]"] {
        let text = format!(r#"{{"a":{{"dtype":"F32","shape":[1],"data_offsets":{offsets}}}}}"#);
        let mut file = (text.len() as u64).to_le_bytes().to_vec();
        file.extend(text.as_bytes());
        file.extend([0; 8]);
        assert!(
            matches!(
                opened(|bytes| *bytes = file),
                Err(WeightsError::Header { .. })
            ),
            "{offsets}"
        );
    }
    let missing = Weights::open("/nonexistent/model.safetensors")
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("cannot read /nonexistent/model.safetensors"),
        "{missing}"
    );
}

#[test]
fn a_model_in_several_files_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("model.safetensors.index.json"), "{}").unwrap();
    assert!(matches!(
        Weights::open(directory.path()),
        Err(WeightsError::Sharded { .. })
    ));
}

type Stored = (String, Vec<usize>, Vec<u8>, Precision);

/// The error of loading a model whose tensors were changed, on the GPU; the reference must say the same.
fn load_error(change: impl FnOnce(&mut Vec<Stored>)) -> String {
    let config = ModelConfig::from_json(&config_json(&[])).unwrap();
    let zeros = |(name, shape): (String, Vec<usize>)| {
        let bytes = vec![0; shape.iter().product::<usize>() * 4];
        (name, shape, bytes, Precision::F32)
    };
    let mut tensors: Vec<Stored> = shapes(&config).into_iter().map(zeros).collect();
    change(&mut tensors);
    let directory = tempfile::tempdir().unwrap();
    write_tensors(&directory.path().join("model.safetensors"), &tensors);
    let weights = Weights::open(directory.path()).unwrap();
    let reference = ReferenceDecoder::load(&config, &weights, &options(FAMILIES[0]))
        .err()
        .unwrap()
        .to_string();
    let error = GpuDecoder::load(adapter(), &config, weights, options(FAMILIES[0]))
        .err()
        .unwrap();
    assert!(matches!(error, LoadError::Weights(_)), "{error}");
    assert_eq!(error.to_string(), reference);
    reference
}

fn named<'a>(tensors: &'a mut [Stored], name: &str) -> &'a mut Stored {
    tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap()
}

#[test]
fn a_missing_tensor_is_named_with_the_shape_it_must_have() {
    let error = load_error(|tensors| {
        tensors.retain(|(name, ..)| name != "model.layers.1.mlp.up_proj.weight")
    });
    assert_eq!(
        error,
        "tensor `model.layers.1.mlp.up_proj.weight` is missing, expected shape [17, 20]"
    );
}

#[test]
fn a_tensor_of_another_shape_is_named_with_both_shapes() {
    let error = load_error(|tensors| {
        named(tensors, "model.layers.0.self_attn.k_proj.weight").1 = vec![20, 12]
    });
    let expected = "tensor `model.layers.0.self_attn.k_proj.weight` has shape [20, 12], expected [12, 20] by config.json";
    assert_eq!(error, expected);
}

#[test]
fn a_weight_that_is_not_finite_is_refused_and_its_tensor_named() {
    for (value, text) in [
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
        (f32::NEG_INFINITY, "-inf"),
    ] {
        let error = load_error(|tensors| {
            let bytes = &mut named(tensors, "model.layers.1.mlp.down_proj.weight").2;
            bytes[4 * 33..4 * 34].copy_from_slice(&value.to_le_bytes());
        });
        assert!(
            error.starts_with(&format!(
                "tensor `model.layers.1.mlp.down_proj.weight` holds {text} at element"
            )),
            "{error}"
        );
    }
    let error = load_error(|tensors| {
        named(tensors, "model.norm.weight").2[..4].copy_from_slice(&f32::NAN.to_le_bytes())
    });
    assert!(error.contains("`model.norm.weight`"), "{error}");
}

#[test]
fn a_tensor_of_another_precision_is_refused() {
    let model = RandomModel::new(22, &[], |_| Precision::F32);
    let path = model.directory.path().join("model.safetensors");
    let text = std::fs::read(&path).unwrap();
    let header = u64::from_le_bytes(text[..8].try_into().unwrap()) as usize;
    let changed = String::from_utf8(text[8..8 + header].to_vec())
        .unwrap()
        .replace("\"F32\"", "\"I32\"");
    let bytes = [&text[..8], changed.as_bytes(), &text[8 + header..]].concat();
    std::fs::write(&path, bytes).unwrap();
    let error = model
        .weights()
        .check(&model.config)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "tensor `model.embed_tokens.weight` is stored as I32, supported: F32, F16, BF16"
    );
}

#[test]
fn options_out_of_range_are_refused_with_value_and_limit() {
    let model = RandomModel::new(23, &[], |_| Precision::F32);
    let load = |options| {
        GpuDecoder::load(adapter(), &model.config, model.weights(), options)
            .err()
            .unwrap()
            .to_string()
    };
    let good = options(FAMILIES[0]);
    let error = load(DecoderOptions {
        context: 97,
        ..good.clone()
    });
    assert_eq!(error, "context is 97, must be between 1 and 96");
    assert_eq!(
        load(DecoderOptions {
            slots: 0,
            ..good.clone()
        }),
        "slots is 0, must be between 1 and 65536"
    );
    assert_eq!(
        load(DecoderOptions {
            max_rows: 5000,
            ..good.clone()
        }),
        "max_rows is 5000, must be between 1 and 4096"
    );
    let binding = adapter().info().largest_binding;
    if 65_536 * 96 * 2 * 8 * 4 > binding {
        let error = load(DecoderOptions {
            slots: 65_536,
            context: 96,
            ..good
        });
        assert!(
            error.contains("keys or values of a layer of 402653184 bytes exceed"),
            "{error}"
        );
        assert!(error.ends_with("lower slots or context"), "{error}");
    }
}

#[test]
fn an_adapter_that_is_not_there_is_refused_with_what_there_is() {
    let error = Adapter::choose(Some("no such adapter")).unwrap_err();
    assert!(matches!(error, AdapterError::NoMatch { .. }));
    assert!(
        error.to_string().contains(&adapter().info().name),
        "{error}"
    );
    let text = AdapterError::None.to_string();
    assert!(text.contains("mesa-vulkan-drivers"), "{text}");
}
