//! GGUF files with tensors that nothing reads: refused by their names, but for those without which the model is the same.

use tidegate_weights::{DecoderTensor, RopeScaling};

use crate::hostile_gguf::{assert_refused, error, gguf_of, open};
use crate::made::{Gguf, Value, gguf, gguf_encoder};

/// [`gguf_of`] with a second block, which is the first again.
fn of_two_blocks(name: &str) -> Gguf {
    let mut file = gguf_of(name).set(&format!("{name}.block_count"), Value::U32(2));
    if name == "qwen3" {
        add(&mut file, "blk.0.attn_q_norm.weight", 8);
        add(&mut file, "blk.0.attn_k_norm.weight", 8);
    }
    let again = |(known, shape, kind, bytes): &(String, Vec<u64>, u32, Vec<u8>)| {
        let part = known.strip_prefix("blk.0.")?;
        Some((format!("blk.1.{part}"), shape.clone(), *kind, bytes.clone()))
    };
    let second: Vec<_> = file.tensors.iter().filter_map(again).collect();
    file.tensors.extend(second);
    file
}

/// Adds a vector of so many ones.
fn add(file: &mut Gguf, tensor: &str, width: usize) {
    let ones = (0..width).flat_map(|_| 1f32.to_le_bytes()).collect();
    let tensor = (tensor.to_owned(), vec![width as u64], 0, ones);
    file.tensors.push(tensor);
}

fn with(mut file: Gguf, tensor: &str, width: usize) -> Gguf {
    add(&mut file, tensor, width);
    file
}

/// Decoders of two blocks that write text, and one that makes vectors.
fn decoders_of_two_blocks() -> [Gguf; 3] {
    let pooled = of_two_blocks("qwen3").set("qwen3.pooling_type", Value::U32(3));
    [of_two_blocks("llama"), of_two_blocks("qwen3"), pooled]
}

#[test]
fn a_bias_in_one_block_of_a_decoder_is_wanted_in_all() {
    let biases = |file: &Gguf| {
        let checkpoint = open(file.bytes()).unwrap();
        checkpoint.check().unwrap();
        match checkpoint.encoder() {
            Some(encoder) => (encoder.biases.heads, encoder.biases.output),
            None => {
                let decoder = checkpoint.decoder().unwrap();
                (decoder.qkv_bias, decoder.output_bias)
            }
        }
    };
    for file in decoders_of_two_blocks() {
        assert_eq!(biases(&file), (false, false));
        for (alone, width) in [("attn_q", 16), ("attn_k", 8), ("attn_v", 8)] {
            let words = match alone {
                "attn_q" => "tensor `blk.0.attn_q.bias` is missing, expected shape [16]",
                _ => "tensor `blk.0.attn_q.bias` is missing",
            };
            let alone = format!("blk.1.{alone}.bias");
            assert_refused(&with(file.clone(), &alone, width), words);
        }
        let words = "tensor `blk.0.attn_output.bias` is missing, expected shape [32]";
        assert_refused(&with(file.clone(), "blk.1.attn_output.bias", 32), words);
        let mut whole = file;
        for (bias, width) in [("attn_q", 16), ("attn_k", 8), ("attn_v", 8)] {
            add(&mut whole, &format!("blk.0.{bias}.bias"), width);
        }
        let some = with(whole.clone(), "blk.1.attn_q.bias", 16);
        assert_refused(&some, "tensor `blk.1.attn_k.bias` is missing");
        assert_refused(&whole, "tensor `blk.1.attn_q.bias` is missing");
        for (bias, width) in [("attn_q", 16), ("attn_k", 8), ("attn_v", 8)] {
            add(&mut whole, &format!("blk.1.{bias}.bias"), width);
        }
        assert_eq!(biases(&whole), (true, false));
        for block in [0, 1] {
            add(&mut whole, &format!("blk.{block}.attn_output.bias"), 32);
        }
        assert_eq!(biases(&whole), (true, true));
    }
}

#[test]
fn a_bias_that_no_decoder_of_the_family_has_is_refused_in_any_block() {
    let all = decoders_of_two_blocks();
    let of_experts = [
        "ffn_gate_inp",
        "ffn_gate_exps",
        "ffn_up_exps",
        "ffn_down_exps",
    ];
    for file in &all {
        let parts = [
            "ffn_gate",
            "ffn_up",
            "ffn_down",
            "attn_qkv",
            "attn_norm",
            "ffn_norm",
        ];
        let in_blocks = parts
            .iter()
            .chain(&of_experts)
            .map(|part| format!("blk.1.{part}.bias"));
        let outside = ["output_norm.bias", "output.bias"].map(str::to_owned);
        for tensor in in_blocks.chain(outside) {
            let words = format!(
                "`{tensor}` is there, supported: attn_q.bias, attn_k.bias, attn_v.bias, attn_output.bias"
            );
            assert_refused(&with(file.clone(), &tensor, 32), &words);
        }
        // The first block is named, not the first name.
        let two = with(file.clone(), "blk.10.ffn_up.bias", 32);
        let two = with(two, "blk.2.ffn_up.bias", 32);
        let said = error(&two);
        assert!(said.starts_with("tensor `blk.2.ffn_up.bias` "), "{said}");
        // The half of a model that looks at images, which text does not go through.
        let looks = with(file.clone(), "v.blk.0.ffn_up.bias", 32);
        open(looks.bytes()).unwrap().check().unwrap();
    }
    let gpt_oss = family("gpt-oss");
    let has = |part: &&str| {
        let bias = format!("blk.0.{part}.bias");
        gpt_oss.tensors.iter().any(|(name, ..)| *name == bias)
    };
    assert!(of_experts.iter().all(has));
    open(gpt_oss.bytes()).unwrap().check().unwrap();
    assert_refused(
        &with(gpt_oss, "blk.0.ffn_up.bias", 32),
        "`blk.0.ffn_up.bias` is there, supported: attn_q.bias, attn_k.bias, attn_v.bias, attn_output.bias, \
         ffn_gate_inp.bias, ffn_gate_exps.bias, ffn_up_exps.bias, ffn_down_exps.bias",
    );
}

#[test]
fn a_head_that_scores_texts_is_refused_whether_or_not_the_pooling_says_so() {
    let [bert, nomic] = [false, true].map(gguf_encoder);
    let [llama, qwen3, pooled] = decoders_of_two_blocks();
    let files = [
        bert.clone().without("bert.pooling_type"),
        bert.clone(),
        nomic.without("nomic-bert.pooling_type"),
        llama,
        qwen3.clone(),
        qwen3.set("qwen3.pooling_type", Value::U32(0)),
        pooled,
        gguf_of("smollm3"),
    ];
    for file in files {
        open(file.bytes()).unwrap().check().unwrap();
        for tensor in [
            "cls.weight",
            "cls.bias",
            "cls.norm.weight",
            "cls.output.weight",
            "cls.output.bias",
        ] {
            let words = format!(
                "`{tensor}` is there, supported: no head that scores texts; rerankers and classifiers are encoders by their \
                 directories"
            );
            assert_refused(&with(file.clone(), tensor, 32), &words);
        }
    }
    // The key says more than the tensor.
    let ranks = bert.set("bert.pooling_type", Value::U32(4));
    let words = "`bert.pooling_type` is 4 (rank: a reranker or a classifier)";
    assert_refused(&with(ranks, "cls.output.weight", 32), words);
}

/// What the names in [`FAMILIES`] are by `general.architecture`.
fn architecture(name: &str) -> &str {
    match name {
        "mixtral" => "llama",
        "pooled" => "qwen3",
        name => name,
    }
}

/// Every family, Mixtral by its own name, and a decoder that makes vectors.
const FAMILIES: [&str; 14] = [
    "llama",
    "mixtral",
    "smollm3",
    "qwen2",
    "qwen3",
    "pooled",
    "qwen2moe",
    "qwen3moe",
    "phi3",
    "gemma2",
    "gemma3",
    "gpt-oss",
    "bert",
    "nomic-bert",
];

/// A file with all that a family has, and no more.
fn family(name: &str) -> Gguf {
    let mut file = match name {
        "bert" | "nomic-bert" => return gguf_encoder(name == "nomic-bert"),
        name => gguf_of(architecture(name)),
    };
    if ["qwen3", "pooled", "qwen3moe", "gemma3"].contains(&name) {
        add(&mut file, "blk.0.attn_q_norm.weight", 8);
        add(&mut file, "blk.0.attn_k_norm.weight", 8);
    }
    if name.starts_with("gemma") {
        add(&mut file, "blk.0.post_attention_norm.weight", 32);
        add(&mut file, "blk.0.post_ffw_norm.weight", 32);
    }
    match name {
        "pooled" => file.set("qwen3.pooling_type", Value::U32(3)),
        "mixtral" | "qwen2moe" | "qwen3moe" | "gpt-oss" => with_experts(file, name),
        _ => file,
    }
}

/// The same with two experts in the place of the feed-forward layer, and what else comes with them.
fn with_experts(mut file: Gguf, name: &str) -> Gguf {
    let dense = ["ffn_gate", "ffn_up", "ffn_down"].map(|part| format!("blk.0.{part}.weight"));
    file.tensors.retain(|(name, ..)| !dense.contains(name));
    for part in ["ffn_gate", "ffn_up", "ffn_down"] {
        shaped(
            &mut file,
            &format!("blk.0.{part}_exps.weight"),
            &[32, 32, 2],
        );
    }
    shaped(&mut file, "blk.0.ffn_gate_inp.weight", &[32, 2]);
    let mut counts = vec![("expert_count", 2), ("expert_used_count", 1)];
    match name {
        "qwen2moe" => {
            for part in ["ffn_gate", "ffn_up", "ffn_down"] {
                shaped(&mut file, &format!("blk.0.{part}_shexp.weight"), &[32, 32]);
            }
            add(&mut file, "blk.0.ffn_gate_inp_shexp.weight", 32);
            counts.push(("expert_feed_forward_length", 32));
        }
        "gpt-oss" => {
            for part in ["ffn_gate", "ffn_up", "ffn_down"] {
                shaped(&mut file, &format!("blk.0.{part}_exps.bias"), &[32, 2]);
            }
            add(&mut file, "blk.0.ffn_gate_inp.bias", 2);
            add(&mut file, "blk.0.attn_sinks.weight", 2);
            let names = file.tensors.iter_mut().map(|(name, ..)| name);
            for name in names.filter(|name| *name == "blk.0.ffn_norm.weight") {
                *name = "blk.0.post_attention_norm.weight".to_owned();
            }
            counts.push(("attention.sliding_window", 4));
        }
        _ => {}
    }
    counts.into_iter().fold(file, |file, (key, count)| {
        file.set(&format!("{}.{key}", architecture(name)), Value::U32(count))
    })
}

/// Adds a tensor of ones of this shape.
fn shaped(file: &mut Gguf, tensor: &str, shape: &[u64]) {
    let ones = (0..shape.iter().product())
        .flat_map(|_| 1f32.to_le_bytes())
        .collect();
    let tensor = (tensor.to_owned(), shape.to_vec(), 0, ones);
    file.tensors.push(tensor);
}

/// Tensors of blocks that some architecture has, or that a tool has put there.
const OF_BLOCKS: [&str; 34] = [
    "attn_q_norm.weight",
    "attn_k_norm.weight",
    "attn_norm_2.weight",
    "attn_sub_norm.weight",
    "attn_output_norm.weight",
    "attn_qkv.weight",
    "attn_gate.weight",
    "attn_sinks.weight",
    "attn_q.scale",
    "attn_output.input_scale",
    "attn_norm.bias",
    "post_attention_norm.weight",
    "post_ffw_norm.weight",
    "ffn_norm.weight",
    "ffn_norm.bias",
    "ffn_sub_norm.weight",
    "ffn_gate.weight",
    "ffn_gate_up_exps.weight",
    "ffn_gate.2.weight",
    "ffn_gate_exps.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_inp_shexp.weight",
    "ffn_up_shexp.weight",
    "ffn_down.scale",
    "ffn_down.input_scale",
    "ffn_down_exps.scale",
    "ffn_up.bias",
    "ffn_up.lora_a",
    "exp_probs_b.bias",
    "layer_output_norm.weight",
    "layer_output_scale.weight",
    "nextn.eh_proj.weight",
    "nextn.enorm.weight",
    "ssm_a",
];

/// The same outside of blocks.
const OUTSIDE: [&str; 20] = [
    "output.bias",
    "output.scale",
    "output_norm.bias",
    "token_embd.bias",
    "token_embd_norm.weight",
    "token_types.weight",
    "position_embd.weight",
    "per_layer_token_embd.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
    "dense_2.weight",
    "dense_3.weight",
    "dense.0.weight",
    "cls.weight",
    "cls.output.weight",
    "enc.blk.0.attn_q.weight",
    "blk.x.attn_q.weight",
    "vocab.weight",
    "mmm.weight",
    "anything",
];

#[test]
fn a_tensor_that_nothing_reads_is_refused_by_its_name_whatever_the_family() {
    for name in FAMILIES {
        let whole = family(name);
        let checked = open(whole.bytes()).map(|checkpoint| checkpoint.check());
        checked
            .unwrap()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let has = |tensor: &String| whole.tensors.iter().any(|(known, ..)| known == tensor);
        let blocks = OF_BLOCKS.iter().map(|part| format!("blk.0.{part}"));
        let all = blocks.chain(OUTSIDE.map(str::to_owned));
        // Of these two, queries, keys and values may be one tensor, which must then have that shape.
        let fused =
            |tensor: &String| ["phi3", "bert"].contains(&name) && tensor == "blk.0.attn_qkv.weight";
        for tensor in all.filter(|tensor| !has(tensor) && !fused(tensor)) {
            let error = error(&with(whole.clone(), &tensor, 32));
            let is_there = format!("`{tensor}` is there, ");
            let (_, why) = error
                .split_once(&is_there)
                .unwrap_or_else(|| panic!("{name}: {error}"));
            assert!(error.starts_with("m.gguf: "), "{name}: {error}");
            let unused = format!(
                "but {} does not use it; without it this would be a different model",
                architecture(name)
            );
            assert!(
                why == unused || why.starts_with("supported: "),
                "{name}: {error}"
            );
        }
    }
    let norm = with(gguf(), "blk.0.attn_q_norm.weight", 8);
    assert_eq!(
        error(&norm),
        "m.gguf: tensor `blk.0.attn_q_norm.weight` is there, but llama does not use it; without it this would be a different \
         model"
    );
}

#[test]
fn of_several_tensors_that_nothing_reads_the_first_is_named() {
    let mut file = of_two_blocks("llama");
    for tensor in ["blk.1.attn_a.weight", "blk.0.attn_z.weight"] {
        add(&mut file, tensor, 8);
    }
    assert_refused(&file, "tensor `blk.0.attn_z.weight` is there");
    add(&mut file, "zero.weight", 8);
    assert_refused(&file, "tensor `zero.weight` is there");
    // A block past the last says more.
    let past = with(gguf(), "blk.1.attn_z.weight", 8);
    let said = error(&with(past, "zero.weight", 8));
    assert!(
        said.starts_with("tensor `blk.1.attn_z.weight` belongs to layer 1"),
        "{said}"
    );
}

/// What text does not go through, and what the keys say again.
#[test]
fn tensors_that_change_nothing_may_be_left_over() {
    for name in FAMILIES {
        let mut file = family(name);
        for tensor in [
            "v.blk.0.attn_q.weight",
            "v.patch_embd.bias",
            "mm.0.weight",
            "mm.a.mlp.1.weight",
            "a.blk.0.ffn_up.scale",
            "blk.0.attn_rot_embd",
            "blk.0.attn_rot_embd.weight",
        ] {
            add(&mut file, tensor, 32);
        }
        let checkpoint = open(file.bytes()).unwrap();
        let checked = checkpoint.check();
        checked.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_head_is_read_where_text_is_made_and_left_where_vectors_are() {
    for name in FAMILIES {
        let mut file = family(name);
        shaped(&mut file, "output.weight", &[32, 8]);
        let opened = open(file.bytes()).unwrap();
        match (opened.decoder(), name) {
            (Some(config), _) => {
                assert!(!config.tied, "{name}");
                let head = opened.tensor(DecoderTensor::Head).unwrap();
                assert_eq!((head.rows(), head.width()), (8, 32), "{name}");
                opened.check().unwrap();
            }
            (None, "pooled") => opened.check().unwrap(),
            // No encoder has one.
            (None, _) => assert_refused(&file, "tensor `output.weight` is there"),
        }
    }
}

#[test]
fn factors_of_frequencies_are_read_or_refused() {
    let pair = ["rope_factors_long.weight", "rope_factors_short.weight"];
    for name in ["llama", "phi3", "pooled"] {
        let file = family(name);
        for alone in pair {
            let words = format!(
                "tensor `{alone}` is there, but {} does not use it",
                architecture(name)
            );
            assert_refused(&with(file.clone(), alone, 4), &words);
        }
        let both = pair
            .into_iter()
            .fold(file.clone(), |file, name| with(file, name, 4));
        let stretched = with(file, "rope_freqs.weight", 4);
        for file in [&both, &stretched] {
            open(file.bytes()).unwrap().check().unwrap();
        }
        let all = with(both, "rope_freqs.weight", 4);
        assert_refused(&all, "tensor `rope_freqs.weight` is there");
    }
    for name in ["bert", "nomic-bert"] {
        let stretched = with(family(name), "rope_freqs.weight", 8);
        assert_refused(&stretched, "tensor `rope_freqs.weight` is there");
    }
}

/// As llama.cpp has it: a factor without a type is linear, by either name, and divides what `rope_freqs` divides as well.
#[test]
fn a_factor_of_positions_is_read_by_either_name_and_beside_those_of_frequencies() {
    let scaling = |file: &Gguf| {
        let checkpoint = open(file.bytes()).unwrap();
        checkpoint.decoder().unwrap().ropes[0].scaling.clone()
    };
    let linear = RopeScaling::Linear { factor: 4.0 };
    let typed = |file: Gguf, kind: &str| {
        file.set("llama.rope.scaling.type", Value::Text(kind.into()))
            .set("llama.rope.scaling.factor", Value::F32(4.0))
    };
    for key in ["llama.rope.scaling.factor", "llama.rope.scale_linear"] {
        let file = gguf().set(key, Value::F32(4.0));
        assert_eq!(scaling(&file), linear, "{key}");
    }
    assert_eq!(scaling(&typed(gguf(), "linear")), linear);
    assert_eq!(scaling(&typed(gguf(), "none")), RopeScaling::None);
    let zero = gguf().set("llama.rope.scaling.factor", Value::F32(0.0));
    assert_eq!(scaling(&zero), RopeScaling::None);

    let divided = with(gguf(), "rope_freqs.weight", 4);
    let divisors = |file: &Gguf| match scaling(file) {
        RopeScaling::LongRope { short, long, .. } if short == long => short,
        other => panic!("{other:?}"),
    };
    let plain = divisors(&divided);
    assert_eq!(divisors(&typed(divided.clone(), "none")), plain);
    let both: Vec<f64> = plain.iter().map(|each| each * 4.0).collect();
    assert_eq!(divisors(&typed(divided.clone(), "linear")), both);
    let words =
        "`llama.rope.scaling.type` is yarn, supported: none or linear beside rope_freqs.weight";
    assert_refused(&typed(divided, "yarn"), words);
}

/// As files were until April 2024.
#[test]
fn experts_lie_together_or_each_by_itself() {
    let together = family("mixtral");
    let is_of_experts = |name: &str| name.ends_with("_exps.weight");
    let mut apart = together.clone();
    apart.tensors.retain(|(name, ..)| !is_of_experts(name));
    for part in ["ffn_gate", "ffn_up", "ffn_down"] {
        for expert in 0..2 {
            shaped(
                &mut apart,
                &format!("blk.0.{part}.{expert}.weight"),
                &[32, 32],
            );
        }
    }
    open(apart.bytes()).unwrap().check().unwrap();
    let mut more = apart.clone();
    shaped(&mut more, "blk.0.ffn_up.2.weight", &[32, 32]);
    assert_refused(&more, "tensor `blk.0.ffn_up.2.weight` is there");
    // Nobody can tell which of the two is meant.
    let mut both = together;
    shaped(&mut both, "blk.0.ffn_up.0.weight", &[32, 32]);
    assert_refused(&both, "tensor `blk.0.ffn_up.0.weight` is there");
}

#[test]
fn fused_and_single_projections_beside_each_other_are_refused() {
    let mut phi3 = family("phi3");
    shaped(&mut phi3, "blk.0.attn_qkv.weight", &[32, 32]);
    assert_refused(&phi3, "tensor `blk.0.attn_k.weight` is there");
    let mut bert = family("bert");
    shaped(&mut bert, "blk.0.attn_qkv.weight", &[32, 96]);
    assert_refused(&bert, "tensor `blk.0.attn_k.weight` is there");
}
