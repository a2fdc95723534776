//! Safetensors files and indices that were cut, damaged, or made to do harm.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_weights::{Checkpoint, CheckpointError, DecoderTensor, LayerTensor};

use crate::made::{Files, Tensor, config, safetensors, tensors};
use crate::probe::probe;

fn with_weights(bytes: impl Into<Vec<u8>>) -> Files {
    Files::default()
        .with("m/config.json", config())
        .with("m/model.safetensors", bytes)
}

fn open(files: &Files) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::open(Path::new("m"), files)
}

/// Why a model is refused when it is opened, or else when it is checked.
fn error(files: &Files) -> String {
    match open(files) {
        Err(error) => error.to_string(),
        Ok(checkpoint) => checkpoint.check().unwrap_err().to_string(),
    }
}

/// A file whose header is this text, with so many bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn the_file_that_is_spoilt_below_is_whole_to_begin_with() {
    let checkpoint = open(&with_weights(safetensors(&tensors()))).unwrap();
    checkpoint.check().unwrap();
    assert_eq!(probe(&checkpoint), 11);
}

/// [`tensors`] and one more, of so many bytes.
fn and(name: &str, bytes: Vec<u8>) -> Vec<Tensor> {
    let mut all = tensors();
    all.push(Tensor {
        name: name.to_owned(),
        dtype: "U8",
        shape: vec![bytes.len()],
        bytes,
    });
    all
}

/// Why a directory with this `config.json` and these tensors is refused, if it is.
fn refusal(config: &str, tensors: &[Tensor]) -> Option<String> {
    let files = Files::default()
        .with("m/config.json", config)
        .with("m/model.safetensors", safetensors(tensors));
    let checked = open(&files).unwrap().check();
    checked.err().map(|error| error.to_string())
}

#[test]
fn a_tensor_beside_those_that_are_read_is_refused_by_its_name() {
    for name in [
        "model.layers.0.self_attn.k_proj.bias",
        "model.layers.0.self_attn.o_proj.bias",
        "model.layers.0.mlp.down_proj.bias",
        "model.layers.0.input_layernorm.bias",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.self_attn.sinks",
        "model.layers.0.self_attn.q_proj.lora_A.weight",
        "model.layers.0.self_attn.q_proj.weight_scale",
        "model.layers.0.self_attn.q_proj.weight_zero_point",
        "model.layers.0.self_attn.q_proj.qweight",
        "model.layers.0.self_attn.qkv_proj.weight",
        "model.layers.0.mlp.gate.weight",
        "model.layers.0.mlp.experts.0.up_proj.weight",
        "model.layers.0.pre_feedforward_layernorm.weight",
        "model.layers.0.post_feedforward_layernorm.weight",
        "model.layers.0.layer_scalar",
        "model.norm.bias",
        "model.norm.x.weight",
        "model.embed_tokens.weight_scale",
        "model.embed_tokens.lora_embedding_A.default.weight",
        "lm_head.bias",
        "lm_head.lora_A.weight",
    ] {
        let found = refusal(&config(), &and(name, vec![1, 0]));
        let words = format!(
            "m: tensor `{name}` is there, but LlamaForCausalLM with this config.json does not use it; without it this would be \
             a different model"
        );
        assert_eq!(found.as_deref(), Some(words.as_str()));
    }
    // The first layer is named, not the first name; what is in no layer goes before.
    let two = config().replace(r#""num_hidden_layers": 1"#, r#""num_hidden_layers": 11"#);
    let mut all = tensors();
    for layer in 1..11 {
        let of_first = tensors().into_iter();
        let of_first = of_first.filter(|tensor| tensor.name.starts_with("model.layers.0."));
        all.extend(of_first.map(|tensor| Tensor {
            name: tensor.name.replace(".0.", &format!(".{layer}.")),
            ..tensor
        }));
    }
    assert_eq!(refusal(&two, &all), None);
    let mut first_named = |name: &str| {
        all.push(Tensor {
            name: name.to_owned(),
            ..tensors()[8].clone()
        });
        refusal(&two, &all).unwrap()
    };
    let said = first_named("model.layers.10.self_attn.q_norm.weight");
    assert!(said.contains("`model.layers.10.self_attn"), "{said}");
    let said = first_named("model.layers.2.self_attn.q_norm.weight");
    assert!(said.contains("`model.layers.2.self_attn"), "{said}");
    let said = first_named("model.norm.bias");
    assert!(said.contains("`model.norm.bias`"), "{said}");
}

/// What text does not go through, what the configuration says again, and what adds nothing.
#[test]
fn tensors_of_other_uses_and_those_that_change_nothing_may_be_left_over() {
    for name in [
        // Tables of rotary positions.
        "model.rotary_emb.inv_freq",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.layers.0.self_attn.rotary_emb.cos_cached",
        "model.layers.0.self_attn.rotary_emb.sin_cached",
        // Scales and zero points of activations, and of keys and values in a cache.
        "model.layers.0.self_attn.q_proj.input_scale",
        "model.layers.0.mlp.down_proj.input_scale_ub",
        "model.layers.0.self_attn.q_proj.input_zero_point",
        "model.layers.0.self_attn.k_proj.output_scale",
        "model.layers.0.self_attn.k_proj.output_zero_point",
        "model.layers.0.mlp.down_proj.activation_scale",
        "model.layers.0.mlp.down_proj.act_scale",
        "model.layers.0.self_attn.q_scale",
        "model.layers.0.self_attn.k_scale",
        "model.layers.0.self_attn.v_scale",
        "model.layers.0.self_attn.q_zero_point",
        "model.layers.0.self_attn.k_zero_point",
        "model.layers.0.self_attn.v_zero_point",
        "model.layers.0.self_attn.kv_scale",
        "model.layers.0.self_attn.prob_scale",
        "model.layers.0.self_attn.prob_output_scale",
        // What text does not go through.
        "vision_tower.layers.7.weight",
        "multi_modal_projector.linear.bias",
        "model.mtp.layers.0.weight",
        // Tied.
        "lm_head.weight",
        "v_head.summary.bias",
        "score.weight",
        "cls.predictions.bias",
    ] {
        assert_eq!(refusal(&config(), &and(name, vec![1, 0])), None, "{name}");
    }
    // As AutoGPTQ writes of every matrix, and as compressed-tensors did of symmetric ones.
    for name in [
        "model.layers.0.self_attn.k_proj.bias",
        "model.layers.0.mlp.down_proj.bias",
        "model.layers.0.self_attn.q_proj.weight_zero_point",
    ] {
        assert_eq!(refusal(&config(), &and(name, vec![0; 64])), None, "{name}");
    }
    let found = refusal(
        &config(),
        &and("model.layers.0.self_attn.sinks", vec![0; 64]),
    );
    assert!(found.is_some_and(|error| error.contains("self_attn.sinks` is there")));
}

#[test]
fn zeros_are_not_looked_for_in_a_tensor_larger_than_any_bias() {
    let name = "model.layers.0.self_attn.k_proj.bias";
    let most = 16 << 20;
    assert_eq!(refusal(&config(), &and(name, vec![0; most])), None);
    let found = refusal(&config(), &and(name, vec![0; most + 1]));
    assert!(found.is_some_and(|error| error.contains("k_proj.bias` is there, but ")));
}

/// It would be added to every row.
#[test]
fn a_table_of_token_types_that_the_configuration_does_not_have_is_refused() {
    let name = "bert.embeddings.token_type_embeddings.weight";
    let found = golden_refusal("distilbert-f16", name, &[2, 30]);
    let words = format!("m: tensor `{name}` is there, but ");
    assert!(found.is_some_and(|error| error.starts_with(&words)));
}

#[test]
fn what_lies_below_a_module_that_is_read_is_refused() {
    for name in ["lm_head.lora_A.weight", "model.norm.lora.a.b.weight"] {
        // Of this model the head is its own, and read.
        let found = golden_refusal("llama3-rope-bf16", name, &[1, 0]);
        let words = format!("m: tensor `{name}` is there, but ");
        assert!(
            found.is_some_and(|error| error.starts_with(&words)),
            "{name}"
        );
    }
}

#[test]
fn a_name_that_is_too_long_for_a_message_is_cut() {
    let name = |length: usize| format!("model.norm.{}", "\u{e9}".repeat(length - 11));
    let told = |name: &str| refusal(&config(), &and(name, vec![1])).unwrap();
    let whole = told(&name(200));
    assert!(whole.contains(&format!("`{}` is there", name(200))));
    let cut = told(&name(100_000));
    assert!(cut.contains(&format!("`{}...` is there, but ", name(200))));
    assert!(cut.len() < 1000, "{}", cut.len());
}

/// Why a golden with one more tensor of these bytes is refused, if it is.
fn golden_refusal(golden: &str, name: &str, bytes: &[u8]) -> Option<String> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../reference/tests/golden")
        .join(golden);
    let file = std::fs::read(golden.join("model.safetensors")).unwrap();
    let (length, rest) = file.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let offsets = [data.len(), data.len() + bytes.len()];
    let entry = json!({"dtype": "U8", "shape": [bytes.len()], "data_offsets": offsets});
    assert_eq!(header.insert(name.to_owned(), entry), None);
    let header = Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    let weights = [&length, header.as_bytes(), data, bytes].concat();
    let mut files = Files::default().with("m/model.safetensors", weights);
    for name in ["config.json", "modules.json", "1_Pooling/config.json"] {
        if let Ok(bytes) = std::fs::read(golden.join(name)) {
            files = files.with(&format!("m/{name}"), bytes);
        }
    }
    let checked = open(&files).unwrap().check();
    checked.err().map(|error| error.to_string())
}

#[test]
fn encoders_are_refused_with_more_in_their_layers_or_in_the_head_that_is_read() {
    for (golden, name) in [
        (
            "bert-f16",
            "encoder.layer.0.attention.self.distance_embedding.weight",
        ),
        ("bert-f16", "embeddings.LayerNorm.gamma"),
        ("roberta-f16", "encoder.layer.0.adapter.weight"),
        ("distilbert-f16", "transformer.layer.0.ffn.gate.weight"),
        ("modernbert-bf16", "layers.0.attn.Wqkv.bias"),
        ("modernbert-bf16", "final_norm.bias"),
        ("modernbert-entities-bf16", "head.dense.bias"),
        ("nomic-bert-f16", "encoder.layers.0.mlp.fc2.bias"),
        ("qwen3-embedding-bf16", "layers.0.self_attn.q_proj.bias"),
    ] {
        let found = golden_refusal(golden, name, &[1, 0]);
        let words = format!("m: tensor `{name}` is there, but ");
        assert!(
            found.is_some_and(|error| error.starts_with(&words)),
            "{golden}: {name}"
        );
    }
    for (golden, name) in [
        ("bert-f16", "embeddings.position_ids"),
        ("bert-f16", "cls.predictions.decoder.weight"),
        ("bert-f16", "classifier.weight"),
        ("bert-entities-f16", "bert.pooler.dense.weight"),
        ("roberta-f16", "lm_head.dense.weight"),
        ("distilbert-f16", "vocab_transform.bias"),
        ("modernbert-bf16", "head.dense.weight"),
        ("modernbert-bf16", "decoder.bias"),
        (
            "nomic-bert-f16",
            "encoder.layers.0.attn.rotary_emb.inv_freq",
        ),
        ("qwen3-embedding-bf16", "lm_head.weight"),
    ] {
        assert_eq!(
            golden_refusal(golden, name, &[1, 0]),
            None,
            "{golden}: {name}"
        );
    }
}

#[test]
fn parts_of_quantized_matrices_are_read_or_refused() {
    for (golden, name) in [
        ("gptq-llama-int4", "model.layers.0.mlp.up_proj.weight"),
        ("gptq-llama-int4", "model.layers.0.mlp.up_proj.bias"),
        ("awq-qwen2-int4", "model.layers.0.mlp.up_proj.g_idx"),
        ("compressed-llama-int4", "model.layers.0.mlp.up_proj.qzeros"),
        (
            "compressed-llama-fp8",
            "model.layers.0.mlp.up_proj.weight_zero_point",
        ),
        ("fp8-qwen3-blocks", "model.layers.0.mlp.up_proj.qweight"),
        // It has `weight_scale_inv`.
        (
            "fp8-qwen3-blocks",
            "model.layers.0.mlp.up_proj.weight_scale",
        ),
        (
            "gpt-oss-mxfp4",
            "model.layers.0.mlp.experts.down_proj_zeros",
        ),
    ] {
        let found = golden_refusal(golden, name, &[1, 0]);
        let words = format!("m: tensor `{name}` is there, but ");
        assert!(
            found.is_some_and(|error| error.starts_with(&words)),
            "{golden}: {name}"
        );
    }
    let zero_point = "model.layers.0.mlp.up_proj.weight_zero_point";
    for (golden, name) in [
        ("gptq-llama-int4", "model.layers.0.mlp.up_proj.bias"),
        ("compressed-llama-fp8", zero_point),
        ("compressed-llama-int8", zero_point),
    ] {
        assert_eq!(
            golden_refusal(golden, name, &[0; 4]),
            None,
            "{golden}: {name}"
        );
    }
    let found = golden_refusal("compressed-llama-int8", zero_point, &[0, 0, 1, 0]);
    let words = "is stored as U8, supported: zeros, where numbers are whole bytes";
    assert_eq!(found, Some(format!("m: tensor `{zero_point}` {words}")));
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let whole = safetensors(&tensors());
    let (first, _) = whole.split_first_chunk().unwrap();
    let header = u64::from_le_bytes(*first) as usize;
    for length in (0..whole.len())
        .step_by(61)
        .chain(whole.len() - 3..whole.len())
    {
        let error = error(&with_weights(&whole[..length]));
        let why = match length {
            0..8 => "it begins with a length of 8 bytes".to_owned(),
            _ if length < 8 + header => format!("its header should be {header} bytes long"),
            _ => format!("its header announces {} bytes", whole.len()),
        };
        let expected = format!("is not a whole safetensors file ({length} bytes): {why}");
        assert!(error.ends_with(&expected), "{error}");
    }
    let longer = error(&with_weights([whole.as_slice(), &[0]].concat()));
    let why = format!("its header announces {} bytes", whole.len());
    assert!(longer.ends_with(&why), "{longer}");
    let endless = error(&with_weights(u64::MAX.to_le_bytes()));
    assert!(endless.ends_with("the limit is 100000000"), "{endless}");
}

#[test]
fn absurd_headers_are_refused() {
    let entry = |shape: &str, offsets: &str| {
        file(
            &format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#),
            16,
        )
    };
    for bytes in [
        u64::MAX.to_le_bytes().to_vec(),
        (1u64 << 40).to_le_bytes().to_vec(),
        file("{", 0),
        file("[]", 0),
        file("\u{7}", 4),
        file(&"[".repeat(100_000), 4),
        file(
            r#"{"a":{"dtype":"F7","shape":[4],"data_offsets":[0,16]}}"#,
            16,
        ),
        entry("[4]", "[0,12]"),
        entry("[4]", "[16,0]"),
        entry("[4]", "[0,18446744073709551615]"),
        entry("[4]", "[4,20]"),
        entry("[-4]", "[0,16]"),
        entry("[4294967296,4294967296,4294967296]", "[0,16]"),
        entry("[4611686018427387904]", "[0,16]"),
        // Two tensors over the same bytes, and a name that stands there twice.
        file(
            r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#,
            16,
        ),
        file(
            r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}}"#,
            32,
        ),
        [8u64.to_le_bytes().as_slice(), b"{\"\xff\":{}}"].concat(),
    ] {
        let error = error(&with_weights(bytes));
        assert!(
            error.starts_with("m/model.safetensors is not a whole safetensors file ("),
            "{error}"
        );
    }
}

#[test]
fn a_missing_tensor_another_shape_or_precision_and_a_surplus_layer_are_named() {
    let spoilt = |spoil: &dyn Fn(&mut Vec<Tensor>)| {
        let mut all = tensors();
        spoil(&mut all);
        error(&with_weights(safetensors(&all)))
    };
    assert_eq!(
        spoilt(&|all| {
            all.remove(7);
        }),
        "m: tensor `model.layers.0.mlp.down_proj.weight` is missing, expected shape [32, 32]"
    );
    assert_eq!(
        spoilt(&|all| all[1].shape = vec![32, 16]),
        "m: tensor `model.layers.0.self_attn.q_proj.weight` has shape [32, 16], expected [16, 32] by the model's \
         configuration"
    );
    let integer = spoilt(&|all| all[1].dtype = "I16");
    assert!(
        integer.starts_with("m: tensor `model.layers.0.self_attn.q_proj.weight` is stored as I16, supported: F32, F16, BF16"),
        "{integer}"
    );
    // Numbers without a word of it in config.json.
    let int8 = spoilt(&|all| {
        all[1].dtype = "I8";
        all[1].bytes.truncate(16 * 32);
    });
    assert!(
        int8.contains("is stored as I8, supported: F32, F16, BF16"),
        "{int8}"
    );
    assert_eq!(
        spoilt(&|all| {
            let surplus = Tensor {
                name: "model.layers.1.mlp.up_proj.weight".to_owned(),
                ..all[6].clone()
            };
            all.push(surplus);
        }),
        "tensor `model.layers.1.mlp.up_proj.weight` belongs to layer 1 (the first is 0), but `num_hidden_layers` is 1 in \
         m/config.json"
    );
}

#[test]
fn quantized_tensors_need_their_scales_in_shape_and_finite() {
    let quantized = config().replacen(
        '{',
        r#"{"quantization_config":{"quant_method":"tidegate","bits":8,"group_size":32},"#,
        1,
    );
    let model = |spoil: &dyn Fn(&mut Vec<Tensor>)| {
        let mut all = tensors();
        all[1].dtype = "I8";
        all[1].bytes.truncate(16 * 32);
        all.push(Tensor {
            name: format!("{}_scale", all[1].name),
            dtype: "F16",
            shape: vec![16, 1],
            bytes: 0x2000u16.to_le_bytes().repeat(16),
        });
        spoil(&mut all);
        Files::default()
            .with("m/config.json", quantized.clone())
            .with("m/model.safetensors", safetensors(&all))
    };
    open(&model(&|_| {})).unwrap().check().unwrap();
    let missing = error(&model(&|all| {
        all.pop();
    }));
    assert_eq!(
        missing,
        "m: tensor `model.layers.0.self_attn.q_proj.weight_scale` is missing, expected shape [16, 1]"
    );
    let shape = error(&model(&|all| all[11].shape = vec![4, 4]));
    assert!(
        shape.contains("q_proj.weight_scale` has shape [4, 4], expected [16, 1]"),
        "{shape}"
    );
    let precision = error(&model(&|all| all[11].dtype = "BF16"));
    assert!(
        precision.contains("q_proj.weight_scale` is stored as BF16, supported: F16 for scales"),
        "{precision}"
    );
    let nan = open(&model(&|all| {
        all[11].bytes[10..12].copy_from_slice(&0xfc00u16.to_le_bytes())
    }))
    .unwrap();
    let tensor = nan
        .tensor(DecoderTensor::Layer(0, LayerTensor::Query))
        .unwrap();
    let text = tensor.check_finite().unwrap_err().to_string();
    assert!(
        text.starts_with("tensor `model.layers.0.self_attn.q_proj.weight` holds "),
        "{text}"
    );
    assert!(
        text.ends_with(" at element 0 of row 5, every weight must be finite"),
        "{text}"
    );
}

#[test]
fn a_weight_that_is_no_number_is_named_with_its_place() {
    for (bits, value) in [(0x7c00u16, "inf"), (0xfc00, "-inf"), (0x7e00, "NaN")] {
        let mut all = tensors();
        let at = 2 * (7 * 32 + 9);
        all[7].bytes[at..at + 2].copy_from_slice(&bits.to_le_bytes());
        let checkpoint = open(&with_weights(safetensors(&all))).unwrap();
        let tensor = checkpoint
            .tensor(DecoderTensor::Layer(0, LayerTensor::Down))
            .unwrap();
        let words = format!(
            "tensor `model.layers.0.mlp.down_proj.weight` holds {value} at element 9 of row 7, every weight must be finite"
        );
        assert_eq!(tensor.check_finite().unwrap_err().to_string(), words);
        assert_eq!(
            tensor
                .row_parts(7, &mut Default::default())
                .unwrap_err()
                .to_string(),
            words
        );
    }
}

fn sharded(index: &str) -> Files {
    let all = tensors();
    Files::default()
        .with("m/config.json", config())
        .with("m/model.safetensors.index.json", index)
        .with("m/a.safetensors", safetensors(&all[..5]))
        .with("m/b.safetensors", safetensors(&all[5..]))
}

fn index(change: impl Fn(usize, &str) -> String) -> String {
    let all = tensors();
    let entries = all.iter().enumerate().map(|(number, tensor)| {
        let place = change(
            number,
            if number < 5 {
                "a.safetensors"
            } else {
                "b.safetensors"
            },
        );
        format!("{:?}:{place:?}", tensor.name)
    });
    format!(
        r#"{{"metadata":{{"total_size":1}},"weight_map":{{{}}}}}"#,
        entries.collect::<Vec<_>>().join(",")
    )
}

#[test]
fn an_index_that_lies_or_leads_outside_is_refused() {
    let honest = open(&sharded(&index(|_, place| place.to_owned()))).unwrap();
    honest.check().unwrap();
    assert_eq!(probe(&honest), 11);
    let lie = error(&sharded(&index(|number, place| {
        if number == 3 { "b.safetensors" } else { place }.to_owned()
    })));
    assert_eq!(
        lie,
        "m/model.safetensors.index.json: it says that tensor `model.layers.0.self_attn.v_proj.weight` is in \
         \"b.safetensors\", where it is not"
    );
    let gone = error(&sharded(&index(|number, place| {
        if number == 3 { "c.safetensors" } else { place }.to_owned()
    })));
    assert!(
        gone.contains("it names the file \"c.safetensors\", which is not there"),
        "{gone}"
    );
    for outside in [
        "../a.safetensors",
        "/etc/passwd",
        "x/a.safetensors",
        "x\\a.safetensors",
        ".safetensors",
        "a.bin",
        "",
    ] {
        let error = error(&sharded(&index(|_, _| outside.to_owned())));
        assert!(
            error.contains("is not the plain name of a .safetensors file in this directory"),
            "{error}"
        );
    }
    for broken in ["", "{}", "[]", r#"{"weight_map":{"a":1}}"#] {
        assert!(error(&sharded(broken)).contains("is not an index of safetensors files"));
    }
    assert!(
        error(&sharded(r#"{"weight_map":{}}"#))
            .contains("it names 0 files, must be between 1 and 4096")
    );
    let twice = sharded(&index(|_, place| place.to_owned()))
        .with("m/b.safetensors", safetensors(&tensors()));
    assert!(
        error(&twice).contains("is in m/a.safetensors too"),
        "{}",
        error(&twice)
    );
}

#[test]
fn a_json_file_without_end_is_refused_unread() {
    let long = vec![b' '; (64 << 20) + 1];
    for name in ["m/config.json", "m/model.safetensors.index.json"] {
        assert_eq!(
            error(&sharded(&index(|_, place| place.to_owned())).with(name, long.clone())),
            format!("{name} has 67108865 bytes, must have at most 67108864")
        );
    }
}

#[test]
fn a_directory_without_a_model_says_what_was_expected() {
    let error = error(&Files::default().with("m/config.json", config()));
    assert!(
        error.starts_with(
            "m holds no model: expected a directory with config.json and model.safetensors"
        ),
        "{error}"
    );
    let none = open(&Files::default()).unwrap_err();
    assert!(matches!(none, CheckpointError::NoModel { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for files in [with_weights(bytes.clone()), sharded(&String::from_utf8_lossy(&bytes))] {
            if let Ok(checkpoint) = open(&files) {
                probe(&checkpoint);
            }
        }
    }

    #[test]
    fn no_change_to_a_good_file_makes_the_parser_panic(
        changes in prop::collection::vec((0..1200usize, any::<u8>()), 1..4),
    ) {
        let mut bytes = safetensors(&tensors());
        for (at, value) in changes {
            bytes[at] = value;
        }
        if let Ok(checkpoint) = open(&with_weights(bytes)) {
            probe(&checkpoint);
        }
    }
}
