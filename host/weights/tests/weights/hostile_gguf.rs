//! GGUF files that were cut, damaged, or made to do harm: each is refused with words that say what is wrong.

use std::path::Path;

use proptest::prelude::*;
use tidegate_weights::{
    Checkpoint, CheckpointError, DecoderTensor, EncoderHead, LayerTensor, Pooling, gguf_vocabulary,
};

use crate::made::{Files, Gguf, OF_EXPERTS, Value, gguf, gguf_encoder, gguf_experts};
use crate::probe::probe;

pub(super) fn open(bytes: Vec<u8>) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::open(Path::new("m.gguf"), &Files::default().with("m.gguf", bytes))
}

pub(super) fn error(file: &Gguf) -> String {
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
pub(super) fn assert_refused(file: &Gguf, words: &str) {
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

/// They are what is fuzzed, too.
#[test]
fn files_of_experts_of_every_architecture_are_whole_to_begin_with() {
    for (architecture, tensors) in OF_EXPERTS.into_iter().zip([15, 22, 17, 27]) {
        let checkpoint = open(gguf_experts(architecture).bytes()).unwrap();
        checkpoint.check().unwrap();
        assert_eq!(probe(&checkpoint), tensors, "{architecture}");
    }
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
pub(super) fn gguf_of(name: &str) -> Gguf {
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
