//! GGUF files that were cut, damaged, or made to do harm: each is refused with words that say what is wrong.

use std::path::Path;

use proptest::prelude::*;
use tidegate_weights::{
    Checkpoint, CheckpointError, DecoderTensor, EncoderHead, LayerTensor, Pooling, gguf_vocabulary,
};

use crate::made::{Files, Gguf, Value, gguf, gguf_encoder};
use crate::probe::probe;

fn open(bytes: Vec<u8>) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::open(Path::new("m.gguf"), &Files::default().with("m.gguf", bytes))
}

fn error(file: &Gguf) -> String {
    error_of(file.bytes())
}

/// Why a file is refused when it is opened, or else when it is checked.
fn error_of(bytes: Vec<u8>) -> String {
    match open(bytes) {
        Err(error) => error.to_string(),
        Ok(checkpoint) => checkpoint.check().unwrap_err().to_string(),
    }
}

#[track_caller]
fn assert_refused(file: &Gguf, words: &str) {
    let error = error(file);
    assert!(error.contains(words), "{error}");
    assert!(error.starts_with("m.gguf"), "{error}");
}

#[test]
fn the_file_that_is_spoilt_below_is_whole_to_begin_with() {
    let checkpoint = open(gguf().bytes()).unwrap();
    checkpoint.check().unwrap();
    assert_eq!(probe(&checkpoint), 11);
    let vocabulary = checkpoint.gguf_vocabulary().unwrap();
    assert_eq!(vocabulary.model, "gpt2");
    assert_eq!(vocabulary.tokens, ["a", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(vocabulary.types, [1; 8]);
    assert_eq!(vocabulary.scores, [0.5; 8]);
    assert_eq!(vocabulary.merges, ["a b"]);
    assert_eq!(
        (vocabulary.bos, vocabulary.eos, vocabulary.end_of_turn),
        (Some(1), Some(2), None)
    );
    assert_eq!((vocabulary.add_bos, vocabulary.add_eos), (Some(true), None));
    let version_2 = Gguf {
        version: 2,
        ..gguf()
    };
    open(version_2.bytes()).unwrap().check().unwrap();
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let whole = gguf().bytes();
    for length in (0..whole.len())
        .step_by(7)
        .chain(whole.len() - 3..whole.len())
    {
        let error = match open(whole[..length].to_vec()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{length} of {} bytes were taken for a model", whole.len()),
        };
        assert!(
            error.contains(&format!("is not a whole GGUF file ({length} bytes)")),
            "{error}"
        );
    }
}

#[test]
fn another_format_version_or_byte_order_is_named() {
    assert!(
        error_of(b"PK\x03\x04 and so on".to_vec())
            .contains("it does not begin with the letters GGUF")
    );
    assert_refused(
        &Gguf {
            version: 1,
            ..gguf()
        },
        "its version is 1, supported: 2, 3",
    );
    assert_refused(
        &Gguf {
            version: 3 << 24,
            ..gguf()
        },
        "it is big-endian, supported: little-endian",
    );
}

#[test]
fn absurd_counts_and_lengths_are_refused_before_anything_is_allocated() {
    let counts = |tensors: u64, keys: u64| {
        let mut bytes = gguf().bytes();
        bytes[8..16].copy_from_slice(&tensors.to_le_bytes());
        bytes[16..24].copy_from_slice(&keys.to_le_bytes());
        error_of(bytes)
    };
    assert!(
        counts(u64::MAX, 1)
            .contains("the number of tensors is 18446744073709551615, must be at most 131072")
    );
    assert!(
        counts(1, u64::MAX)
            .contains("the number of keys is 18446744073709551615, must be at most 65536")
    );
    assert!(counts(131_072, 1).contains("it ends within the number of tensors"));
    let list = |kind: u32, count: u64| {
        let raw = [kind.to_le_bytes().as_slice(), &count.to_le_bytes()].concat();
        error(&gguf().set("list", Value::Raw(9, raw)))
    };
    assert!(
        list(4, u64::MAX).contains("key `list` is 18446744073709551615, must be at most 16777216")
    );
    assert!(list(10, 1 << 24).contains("it ends within key `list`"));
    assert!(list(9, 1).contains("key `list` has the value type 9"));
    assert!(list(13, 1).contains("key `list` has the value type 13"));
    let text = Value::Raw(8, u64::MAX.to_le_bytes().to_vec());
    assert_refused(
        &gguf().set("text", text),
        "key `text` is 18446744073709551615, must be at most 16777216",
    );
    assert_refused(
        &gguf().set("odd", Value::Raw(99, Vec::new())),
        "key `odd` has the value type 99",
    );
}

#[test]
fn names_that_stand_twice_and_texts_that_are_no_text_are_refused() {
    let mut twice = gguf();
    twice.keys.push(twice.keys[0].clone());
    assert_refused(&twice, "key `general.architecture` stands there twice");
    let mut twice = gguf();
    twice.tensors.push(twice.tensors[8].clone());
    assert_refused(&twice, "tensor `output_norm.weight` stands there twice");
    let text = Value::Text(vec![b'l', 0xff]);
    assert_refused(
        &gguf().set("general.architecture", text),
        "key `general.architecture` is not UTF-8",
    );
}

#[test]
fn tensors_outside_the_file_over_another_or_off_the_alignment_are_refused() {
    let lying = |index: usize, offset: u64| {
        let mut file = gguf();
        file.lies = vec![None; file.tensors.len()];
        file.lies[index] = Some(offset);
        error(&file)
    };
    assert!(
        lying(3, u64::MAX - 31).contains("past its end"),
        "{}",
        lying(3, u64::MAX - 31)
    );
    assert!(lying(3, 1 << 40).contains("past its end"));
    assert!(lying(1, 8).contains("which does not begin at a multiple of the alignment 32"));
    assert!(lying(2, 0).contains("over another that ends at"));
    for alignment in [0, 3, 4, 1 << 20] {
        let words =
            format!("`general.alignment` is {alignment}, must be a power of two from 8 to 65536");
        assert_refused(
            &gguf().set("general.alignment", Value::U32(alignment)),
            &words,
        );
    }
}

#[test]
fn absurd_shapes_are_refused() {
    let shaped = |shape: Vec<u64>| {
        let mut file = gguf();
        file.tensors[1].1 = shape;
        error(&file)
    };
    assert!(shaped(vec![1 << 40, 1 << 40]).contains("which has more than 2^48 elements"));
    assert!(shaped(vec![32, 0]).contains("which has no elements"));
    assert!(shaped(vec![31, 16]).contains("whose rows are not whole blocks of 32 elements (q4_0)"));
    assert!(shaped(vec![32, 1, 1, 1, 1]).contains("of 5 dimensions, must have 1 to 4"));
    assert!(shaped(Vec::new()).contains("of 0 dimensions, must have 1 to 4"));
    let shape = shaped(vec![32, 8]);
    let words = "tensor `blk.0.attn_q.weight` has shape [8, 32], expected [16, 32] by the model's configuration";
    assert!(shape.contains(words), "{shape}");
}

#[test]
fn a_missing_tensor_a_surplus_layer_and_a_format_that_is_not_read_are_named() {
    let mut file = gguf();
    file.tensors.remove(6);
    assert_refused(
        &file,
        "tensor `blk.0.ffn_up.weight` is missing, expected shape [32, 32]",
    );
    let mut file = gguf();
    file.tensors[5].0 = "blk.1.ffn_gate.weight".to_owned();
    file.tensors.push(gguf().tensors[5].clone());
    assert_eq!(
        error(&file),
        "tensor `blk.1.ffn_gate.weight` belongs to layer 1 (the first is 0), but `llama.block_count` is 1 in m.gguf"
    );
    let mut file = gguf();
    (file.tensors[5].2, file.tensors[5].3) = (24, vec![0; 1024]);
    assert_refused(
        &file,
        "tensor `blk.0.ffn_gate.weight` is stored as i8, supported: f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_K, \
         q3_K, q4_K, q5_K, q6_K, q8_K, iq4_nl, iq4_xs, mxfp4",
    );
    file.tensors[5].2 = 99;
    assert_refused(&file, "`blk.0.ffn_gate.weight` is stored as type number 99");
}

#[test]
fn a_file_of_a_vocabulary_alone_is_no_model_and_its_vocabulary_can_be_had() {
    let mut alone = gguf();
    alone.tensors.clear();
    assert_eq!(
        error(&alone),
        "m.gguf holds no model: its header says at byte 8 that it has 0 tensors; a vocabulary-only file has a \
         tokenizer, but no weights"
    );
    let vocabulary = |file: &Gguf| {
        let files = Files::default().with("m.gguf", file.bytes());
        gguf_vocabulary(Path::new("m.gguf"), &files)
    };
    let whole = vocabulary(&gguf()).unwrap().unwrap();
    assert_eq!(
        open(gguf().bytes()).unwrap().gguf_vocabulary(),
        Some(whole.clone())
    );
    assert!(!whole.strip_after_special);
    let mut alone = gguf();
    alone.tensors.clear();
    assert_eq!(vocabulary(&alone).unwrap(), Some(whole.clone()));
    // Whatever the architecture, of which only Phi-3 is known for its special tokens.
    let of = |name: &str| {
        let file = gguf().set("general.architecture", Value::Text(name.into()));
        vocabulary(&file).unwrap().unwrap()
    };
    assert_eq!(of("mamba"), whole);
    assert!(of("phi3").strip_after_special);
    assert_eq!(
        vocabulary(&gguf().without("tokenizer.ggml.model")).unwrap(),
        None
    );
    let refused = vocabulary(&gguf().without("tokenizer.ggml.tokens")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "m.gguf: key `tokenizer.ggml.tokens` is missing"
    );
}

#[test]
fn absurd_and_missing_keys_are_named_with_their_limit() {
    for (key, value, words) in [
        (
            "llama.embedding_length",
            Value::U32(0),
            "`llama.embedding_length` is 0, must be between 1 and 1048576",
        ),
        (
            "llama.block_count",
            Value::U32(5000),
            "`llama.block_count` is 5000, must be between 1 and 4096",
        ),
        (
            "llama.attention.key_length",
            Value::U32(258),
            "`llama.attention.key_length` is 258, must be even and at most",
        ),
        (
            "llama.attention.head_count_kv",
            Value::U32(3),
            "`llama.attention.head_count_kv` is 3, must be a divisor of llama.attention.head_count 2",
        ),
        (
            "llama.attention.value_length",
            Value::U32(4),
            "`llama.attention.value_length` is 4, supported: as",
        ),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Value::F32(f32::NAN),
            "is NaN, must be above 0 and below 1",
        ),
        (
            "llama.rope.freq_base",
            Value::F32(f32::INFINITY),
            "`llama.rope.freq_base` is inf, must be above 1",
        ),
        (
            "llama.rope.dimension_count",
            Value::U32(4),
            "`llama.rope.dimension_count` is 4, supported: the width",
        ),
        (
            "llama.rope.scaling.type",
            Value::Text(b"ntk".to_vec()),
            "`llama.rope.scaling.type` is ntk, supported: none",
        ),
        (
            "llama.expert_count",
            Value::U32(1025),
            "`llama.expert_count` is 1025, must be between 1 and 1024",
        ),
        (
            "llama.context_length",
            Value::Flag(true),
            "`llama.context_length` is true, must be a whole number",
        ),
        (
            "general.architecture",
            Value::Text(b"mamba".to_vec()),
            "is mamba (it needs state space layers), supported: llama, smollm3, qwen2, qwen3",
        ),
        (
            "tokenizer.ggml.token_type",
            Value::I32s(vec![1]),
            "is a list of 1, must be one for each of the 8 tokens",
        ),
    ] {
        // Two keys that must be equal are not spoilt at once.
        let file = match key {
            "llama.attention.key_length" => gguf().without("llama.attention.value_length"),
            _ => gguf(),
        };
        let error = error(&file.set(key, value));
        assert!(error.contains(words), "{error}");
    }
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        assert_refused(&gguf().without(key), &format!("key `{key}` is missing"));
    }
}

#[test]
fn experts_that_cannot_be_are_named_with_their_limit() {
    let mixture = || {
        gguf()
            .set("llama.expert_count", Value::U32(8))
            .set("llama.expert_used_count", Value::U32(2))
    };
    for (key, value, words) in [
        (
            "llama.expert_used_count",
            9,
            "`llama.expert_used_count` is 9, must be between 1 and llama.expert_count 8",
        ),
        (
            "llama.expert_used_count",
            0,
            "`llama.expert_used_count` is 0, must be between 1",
        ),
        (
            "llama.expert_feed_forward_length",
            0,
            "`llama.expert_feed_forward_length` is 0, must be between 1",
        ),
        (
            "llama.expert_gating_func",
            2,
            "`llama.expert_gating_func` is 2, supported: 1 (softmax)",
        ),
        (
            "llama.expert_group_count",
            4,
            "`llama.expert_group_count` is 4, supported: 1",
        ),
        (
            "llama.expert_weights_scale",
            3,
            "`llama.expert_weights_scale` is 3, supported: 1",
        ),
    ] {
        assert_refused(&mixture().set(key, Value::U32(value)), words);
    }
    assert_refused(
        &mixture().without("llama.expert_used_count"),
        "key `llama.expert_used_count` is missing",
    );
    assert_refused(
        &mixture(),
        "`llama.expert_count` is 8, supported: 0 where no layer has the tensor ffn_gate_inp.weight",
    );
    let mut gemma = mixture().set("general.architecture", Value::Text(b"gemma2".to_vec()));
    for (key, _) in &mut gemma.keys {
        *key = key.replace("llama.", "gemma2.");
    }
    assert_refused(
        &gemma,
        "`gemma2.expert_count` is 8, supported: 0 (no experts)",
    );
}

#[test]
fn a_scale_or_weight_that_is_no_number_is_named_with_its_place() {
    let names = [
        (1, DecoderTensor::Layer(0, LayerTensor::Query), 2 * 18),
        (0, DecoderTensor::Embedding, 2 * 34),
        (4, DecoderTensor::Layer(0, LayerTensor::Output), 2 * 32),
    ];
    for (index, tensor, at) in names {
        let mut file = gguf();
        file.tensors[index].3[at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
        let checkpoint = open(file.bytes()).unwrap();
        let error = checkpoint
            .tensor(tensor)
            .unwrap()
            .check_finite()
            .unwrap_err()
            .to_string();
        let name = &file.tensors[index].0;
        assert_eq!(
            error,
            format!("tensor `{name}` holds NaN at element 0 of row 2, every weight must be finite")
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(checkpoint) = open(bytes.clone()) {
            probe(&checkpoint);
        }
        if let Ok(checkpoint) = open([b"GGUF\x03\0\0\0".as_slice(), &bytes].concat()) {
            probe(&checkpoint);
        }
    }

    #[test]
    fn no_change_to_a_good_file_makes_the_parser_panic(
        changes in prop::collection::vec((0..2200usize, any::<u8>()), 1..6),
        cut in prop::option::of(0..6000usize),
    ) {
        let mut bytes = gguf().bytes();
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(cut.unwrap_or(bytes.len()));
        if let Ok(checkpoint) = open(bytes) {
            probe(&checkpoint);
        }
    }
}

#[test]
fn encoders_of_another_kind_and_absurd_ones_are_named_with_what_is_supported() {
    for nomic in [false, true] {
        let checkpoint = open(gguf_encoder(nomic).bytes()).unwrap();
        checkpoint.check().unwrap();
        assert_eq!(
            probe(&checkpoint),
            checkpoint.encoder().unwrap().tensors().count()
        );
        assert!(checkpoint.gguf_vocabulary().is_some());
    }
    let text = |text: &str| Value::Text(text.into());
    for (nomic, key, value, words) in [
        (
            false,
            "pooling_type",
            Value::U32(0),
            "is 0 (none), supported: 1 (mean), 2 (first token)",
        ),
        (
            false,
            "pooling_type",
            Value::U32(4),
            "is 4 (rank: a reranker or a classifier), supported: 1 (mean), 2 (first token), 3 (last token); rerankers and \
             classifiers are encoders by their directories",
        ),
        (
            true,
            "pooling_type",
            Value::U32(77),
            "is 77, supported: 1 (mean)",
        ),
        (
            false,
            "attention.causal",
            Value::Flag(true),
            "is true, supported: false",
        ),
        (
            false,
            "attention.head_count_kv",
            Value::U32(1),
            "is 1, supported: as many as queries have, 2",
        ),
        (
            false,
            "attention.head_count",
            Value::U32(5),
            "embedding_length` is 32, must be a multiple of bert.attention.head_count 5",
        ),
        (
            false,
            "attention.layer_norm_epsilon",
            Value::F32(0.0),
            "is 0, must be above 0 and below 1",
        ),
        (false, "expert_count", Value::U32(8), "is 8, supported: 0"),
        (
            true,
            "moe_every_n_layers",
            Value::U32(2),
            "is 2, supported: 0",
        ),
        (
            true,
            "rope.scaling.type",
            text("yarn"),
            "is yarn, supported: none",
        ),
        (
            true,
            "rope.dimension_count",
            Value::U32(8),
            "is 8, supported: the width of a head, 16",
        ),
        (
            true,
            "rope.freq_base",
            Value::F32(0.5),
            "is 0.5, must be above 1",
        ),
        (
            true,
            "context_length",
            Value::U32(0),
            "is 0, must be between 1",
        ),
    ] {
        let name = if nomic { "nomic-bert" } else { "bert" };
        let file = gguf_encoder(nomic).set(&format!("{name}.{key}"), value);
        assert_refused(&file, words);
    }
    for (nomic, key) in [(false, "bert"), (true, "nomic-bert")] {
        for missing in [
            "attention.layer_norm_epsilon",
            "block_count",
            "context_length",
        ] {
            let key = format!("{key}.{missing}");
            let file = gguf_encoder(nomic).without(&key);
            assert_refused(&file, &format!("key `{key}` is missing"));
        }
    }
    // What other encoders have beside these.
    for (nomic, tensor, words) in [
        (
            false,
            "blk.0.ffn_gate.weight",
            "supported: feed-forward layers without gates",
        ),
        (
            false,
            "blk.0.attn_q_norm.weight",
            "supported: no norms of queries and keys",
        ),
        (true, "position_embd.weight", "supported: rotary positions"),
        (true, "blk.0.ffn_gate_inp.weight", "supported: no experts"),
        (true, "blk.0.attn_qkv.bias", NO_BIASES),
        (true, "blk.0.attn_q.bias", NO_BIASES),
        (true, "blk.0.attn_output.bias", NO_BIASES),
        (true, "blk.0.ffn_gate.bias", NO_BIASES),
        (true, "blk.0.ffn_up.bias", NO_BIASES),
        (true, "blk.0.ffn_down.bias", NO_BIASES),
        (true, "blk.1.ffn_down.bias", NO_BIASES),
    ] {
        let mut file = gguf_encoder(nomic);
        let (_, shape, kind, bytes) = file.tensors[1].clone();
        file.tensors.push((tensor.to_owned(), shape, kind, bytes));
        assert_refused(&file, words);
    }
    let without = |nomic, tensor: &str| {
        let mut file = gguf_encoder(nomic);
        file.tensors.retain(|(name, ..)| name != tensor);
        file
    };
    for (nomic, tensor) in [
        (false, "blk.0.attn_q.bias"),
        (false, "blk.0.attn_k.bias"),
        (false, "blk.0.attn_output.bias"),
        (false, "blk.0.ffn_up.bias"),
        (false, "position_embd.weight"),
        (false, "token_embd_norm.bias"),
        (true, "blk.0.attn_output_norm.weight"),
        (true, "blk.0.ffn_gate.weight"),
    ] {
        assert_refused(
            &without(nomic, tensor),
            &format!("tensor `{tensor}` is missing"),
        );
    }
    let mut surplus = gguf_encoder(false);
    let (_, shape, kind, bytes) = surplus.tensors[1].clone();
    let next = ("blk.1.attn_q.weight".to_owned(), shape, kind, bytes);
    surplus.tensors.push(next);
    let said = error(&surplus);
    assert!(
        said.starts_with("tensor `blk.1.attn_q.weight` belongs to layer 1"),
        "{said}"
    );
    assert!(said.contains("`bert.block_count` is 1"), "{said}");
    let mut narrow = gguf_encoder(true);
    let fused = narrow
        .tensors
        .iter_mut()
        .find(|(name, ..)| name == "blk.0.attn_qkv.weight");
    let (_, shape, _, bytes) = fused.unwrap();
    shape[1] = 64;
    bytes.truncate(64 * 34);
    assert_refused(
        &narrow,
        "`blk.0.attn_qkv.weight` has shape [64, 32], expected [96, 32]",
    );
}

const NO_BIASES: &str = "is there, supported: matrices without biases";

/// As newer files of llama.cpp may have it.
#[test]
fn queries_keys_and_values_of_bert_in_one_tensor_are_those_apart() {
    let apart = gguf_encoder(false);
    let mut fused = gguf_encoder(false);
    for end in ["weight", "bias"] {
        let of = |part: &str| {
            let name = format!("blk.0.attn_{part}.{end}");
            let found = apart.tensors.iter().position(|(known, ..)| *known == name);
            found.unwrap()
        };
        let places = ["q", "k", "v"].map(of);
        // Elements that differ from part to part.
        for (part, place) in places.into_iter().enumerate() {
            let bytes = &mut fused.tensors[place].3;
            let at = if end == "weight" { 2 } else { 0 };
            bytes[at] = 3 + part as u8;
        }
    }
    let told = fused.clone();
    for end in ["weight", "bias"] {
        let is = |name: &str| {
            ["q", "k", "v"]
                .iter()
                .any(|part| name == format!("blk.0.attn_{part}.{end}"))
        };
        let parts = fused.tensors.iter().filter(|(name, ..)| is(name));
        let bytes: Vec<u8> = parts.flat_map(|(.., bytes)| bytes.clone()).collect();
        let (shape, kind) = match end {
            "weight" => (vec![32, 96], 8),
            _ => (vec![96], 0),
        };
        fused.tensors.retain(|(name, ..)| !is(name));
        fused
            .tensors
            .push((format!("blk.0.attn_qkv.{end}"), shape, kind, bytes));
    }
    let [told, fused] = [told, fused].map(|file| open(file.bytes()).unwrap());
    let config = told.encoder().unwrap();
    assert_eq!(fused.encoder().unwrap(), config);
    fused.check().unwrap();
    for tensor in config.tensors() {
        let [told, fused] = [&told, &fused].map(|file| file.encoder_tensor(tensor).unwrap());
        assert_eq!(
            fused.to_f32().unwrap(),
            told.to_f32().unwrap(),
            "{tensor:?}"
        );
    }
}

#[test]
fn a_decoder_that_is_pooled_makes_vectors_as_far_as_encoders_have_its_layers() {
    let file = gguf().set("llama.pooling_type", Value::U32(3));
    let checkpoint = open(file.bytes()).unwrap();
    checkpoint.check().unwrap();
    let config = checkpoint.encoder().unwrap();
    assert_eq!(config.head, EncoderHead::Embedding(Pooling::Last));
    assert!(config.causal && config.decoder.is_some());
    assert_eq!(probe(&checkpoint), config.tensors().count());
    let scaled = file.clone().set("llama.attention.scale", Value::F32(0.5));
    assert_refused(
        &scaled,
        "`llama.attention.scale` is 0.5, supported: 0.35355339",
    );
    let mixed = file.set("llama.expert_count", Value::U32(8));
    let mut mixed = mixed.set("llama.expert_used_count", Value::U32(2));
    let router = "blk.0.ffn_gate_inp.weight".to_owned();
    mixed
        .tensors
        .push((router, vec![32, 8], 0, vec![0; 32 * 8 * 4]));
    assert_refused(
        &mixed,
        "`llama.expert_count` is 8, supported: 0 for embeddings",
    );
    let none = gguf().set("llama.pooling_type", Value::U32(0));
    assert!(open(none.bytes()).unwrap().decoder().is_some());
    for (number, found) in [(4, "4 (rank: a reranker or a classifier)"), (77, "77")] {
        let other = gguf().set("llama.pooling_type", Value::U32(number));
        let words = format!("`llama.pooling_type` is {found}, supported: 1 (mean), 2 (first");
        assert_refused(&other, &words);
    }
}

/// The same file, of another family.
fn gguf_of(name: &str) -> Gguf {
    let mut file = gguf();
    for (key, _) in &mut file.keys {
        *key = key.replace("llama.", &format!("{name}."));
    }
    file.set("general.architecture", Value::Text(name.into()))
}

#[test]
fn a_decoder_of_another_family_that_is_pooled_is_no_text_model() {
    for name in ["smollm3", "phi3", "qwen3moe", "gemma2", "gemma3"] {
        let key = format!("{name}.pooling_type");
        for number in 1..=4 {
            let pooled = gguf_of(name).set(&key, Value::U32(number));
            let words = match number {
                4 => format!("`{key}` is 4 (rank: a reranker or a classifier), supported: 1"),
                _ => format!(
                    "`{key}` is {number}, supported: 0 (none) for {name}; 1, 2 and 3 for qwen3, qwen2, llama"
                ),
            };
            assert_refused(&pooled, &words);
        }
    }
    let none = gguf_of("smollm3").set("smollm3.pooling_type", Value::U32(0));
    assert!(open(none.bytes()).unwrap().decoder().is_some());
}

#[test]
fn a_decoder_whose_rows_see_those_after_them_is_refused() {
    let words = "`llama.attention.causal` is false, supported: true";
    let both = gguf().set("llama.attention.causal", Value::Flag(false));
    assert_refused(&both, words);
    let pooled = both.set("llama.pooling_type", Value::U32(1));
    assert_refused(&pooled, words);
    let causal = gguf().set("llama.attention.causal", Value::Flag(true));
    assert!(open(causal.bytes()).unwrap().decoder().is_some());
    assert_refused(
        &gguf().set("llama.attention.causal", Value::U32(0)),
        "must be true or false",
    );
}

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
