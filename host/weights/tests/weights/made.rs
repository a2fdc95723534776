//! Small models made by code, in either file format: valid, to be spoilt by tests and by the fuzzer, which includes this
//! file too.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_weights::{FileBytes, ReadFile};

/// Files in memory.
#[derive(Clone, Default)]
pub(crate) struct Files(pub(crate) BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    pub(crate) fn with(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.insert(PathBuf::from(path), bytes.into());
        self
    }
}

impl ReadFile for Files {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        match self.0.get(path) {
            Some(bytes) => Ok(Arc::new(bytes.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// A Llama with one layer: 8 tokens, 32 wide, 2 query heads and 1 key head of 8.
pub(crate) fn config() -> String {
    r#"{
  "architectures": ["LlamaForCausalLM"],
  "vocab_size": 8,
  "hidden_size": 32,
  "intermediate_size": 32,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "num_key_value_heads": 1,
  "head_dim": 8,
  "max_position_embeddings": 64,
  "rms_norm_eps": 1e-5,
  "rope_theta": 10000.0,
  "tie_word_embeddings": true,
  "bos_token_id": 1,
  "eos_token_id": 2
}"#
    .to_owned()
}

/// The matrices of [`config`]'s model by their names in safetensors and GGUF files, with rows; all are 32 wide but the
/// one of 16.
const MATRICES: [(&str, &str, usize, usize); 8] = [
    ("model.embed_tokens.weight", "token_embd.weight", 8, 32),
    (
        "model.layers.0.self_attn.q_proj.weight",
        "blk.0.attn_q.weight",
        16,
        32,
    ),
    (
        "model.layers.0.self_attn.k_proj.weight",
        "blk.0.attn_k.weight",
        8,
        32,
    ),
    (
        "model.layers.0.self_attn.v_proj.weight",
        "blk.0.attn_v.weight",
        8,
        32,
    ),
    (
        "model.layers.0.self_attn.o_proj.weight",
        "blk.0.attn_output.weight",
        32,
        16,
    ),
    (
        "model.layers.0.mlp.gate_proj.weight",
        "blk.0.ffn_gate.weight",
        32,
        32,
    ),
    (
        "model.layers.0.mlp.up_proj.weight",
        "blk.0.ffn_up.weight",
        32,
        32,
    ),
    (
        "model.layers.0.mlp.down_proj.weight",
        "blk.0.ffn_down.weight",
        32,
        32,
    ),
];

const NORMS: [(&str, &str); 3] = [
    ("model.norm.weight", "output_norm.weight"),
    (
        "model.layers.0.input_layernorm.weight",
        "blk.0.attn_norm.weight",
    ),
    (
        "model.layers.0.post_attention_layernorm.weight",
        "blk.0.ffn_norm.weight",
    ),
];

/// A tensor of a safetensors file.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// f16 numbers about 0, or 1.0.
fn halves(count: usize, norm: bool) -> Vec<u8> {
    let number = |i: usize| {
        if norm {
            0x3c00u16
        } else {
            0x2c00 | ((i as u16).wrapping_mul(37) & 0x81ff)
        }
    };
    (0..count).flat_map(|i| number(i).to_le_bytes()).collect()
}

/// The tensors of [`config`]'s model in f16.
pub(crate) fn tensors() -> Vec<Tensor> {
    let matrix = |(name, _, rows, width): (&str, &str, usize, usize)| Tensor {
        name: name.to_owned(),
        dtype: "F16",
        shape: vec![rows, width],
        bytes: halves(rows * width, false),
    };
    let norm = |(name, _): (&str, &str)| Tensor {
        name: name.to_owned(),
        dtype: "F16",
        shape: vec![32],
        bytes: halves(32, true),
    };
    MATRICES
        .map(matrix)
        .into_iter()
        .chain(NORMS.map(norm))
        .collect()
}

/// A safetensors file.
pub(crate) fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let mut at = 0;
    let entries = tensors.iter().map(|tensor| {
        let (start, end) = (at, at + tensor.bytes.len());
        at = end;
        let Tensor { name, dtype, shape, .. } = tensor;
        format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}")
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    tensors
        .iter()
        .for_each(|tensor| bytes.extend(&tensor.bytes));
    bytes
}

/// A value of a GGUF key.
#[derive(Clone)]
pub(crate) enum Value {
    U32(u32),
    F32(f32),
    Flag(bool),
    Text(Vec<u8>),
    Texts(Vec<&'static str>),
    F32s(Vec<f32>),
    I32s(Vec<i32>),
    /// A type's number and bytes that are anything.
    Raw(u32, Vec<u8>),
}

/// A GGUF file.
#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    pub(crate) keys: Vec<(String, Value)>,
    /// Name, elements of a row and rows, the type's number, bytes.
    pub(crate) tensors: Vec<(String, Vec<u64>, u32, Vec<u8>)>,
    /// Offsets that are not where the tensors really are.
    pub(crate) lies: Vec<Option<u64>>,
}

impl Gguf {
    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        match self.keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        self.keys.retain(|(known, _)| known != key);
        self
    }

    /// The same model in parts of so many tensors each, as `llama-gguf-split` writes them.
    pub(crate) fn parts(&self, sizes: &[usize]) -> Vec<Gguf> {
        let mut tensors = self.tensors.iter().cloned();
        let part = |(number, size): (usize, &usize)| Gguf {
            keys: if number == 0 {
                self.keys.clone()
            } else {
                Vec::new()
            },
            tensors: tensors.by_ref().take(*size).collect(),
            lies: Vec::new(),
            ..*self
        };
        let parts: Vec<Gguf> = sizes.iter().enumerate().map(part).collect();
        let number = |part: usize| Value::Raw(2, (part as u16).to_le_bytes().to_vec());
        let count = self.tensors.len() as i32;
        let parts = parts.into_iter().enumerate().map(|(index, part)| {
            part.set("split.no", number(index))
                .set("split.count", number(sizes.len()))
                .set(
                    "split.tensors.count",
                    Value::Raw(5, count.to_le_bytes().to_vec()),
                )
        });
        parts.collect()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            text(key.as_bytes(), &mut out);
            value.write(&mut out);
        }
        let mut at = 0u64;
        for (index, (name, shape, kind, bytes)) in self.tensors.iter().enumerate() {
            text(name.as_bytes(), &mut out);
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            let lie = self.lies.get(index).copied().flatten();
            out.extend(lie.unwrap_or(at).to_le_bytes());
            at = (at + bytes.len() as u64).next_multiple_of(32);
        }
        for (_, _, _, bytes) in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(bytes);
        }
        out
    }
}

fn text(text: &[u8], out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

impl Value {
    fn write(&self, out: &mut Vec<u8>) {
        let list = |kind: u32, count: usize, out: &mut Vec<u8>| {
            out.extend(9u32.to_le_bytes());
            out.extend(kind.to_le_bytes());
            out.extend((count as u64).to_le_bytes());
        };
        match self {
            Value::U32(number) => {
                out.extend(4u32.to_le_bytes());
                out.extend(number.to_le_bytes());
            }
            Value::F32(number) => {
                out.extend(6u32.to_le_bytes());
                out.extend(number.to_le_bytes());
            }
            Value::Flag(flag) => {
                out.extend(7u32.to_le_bytes());
                out.push(u8::from(*flag));
            }
            Value::Text(bytes) => {
                out.extend(8u32.to_le_bytes());
                text(bytes, out);
            }
            Value::Texts(texts) => {
                list(8, texts.len(), out);
                texts.iter().for_each(|one| text(one.as_bytes(), out));
            }
            Value::F32s(numbers) => {
                list(6, numbers.len(), out);
                numbers
                    .iter()
                    .for_each(|number| out.extend(number.to_le_bytes()));
            }
            Value::I32s(numbers) => {
                list(5, numbers.len(), out);
                numbers
                    .iter()
                    .for_each(|number| out.extend(number.to_le_bytes()));
            }
            Value::Raw(kind, bytes) => {
                out.extend(kind.to_le_bytes());
                out.extend(bytes);
            }
        }
    }
}

/// [`config`]'s model as a GGUF file: q4_0 and q8_0 where rows are 32 wide, else f16; norms in f32.
pub(crate) fn gguf() -> Gguf {
    let matrix = |(_, name, rows, width): (&str, &str, usize, usize)| {
        let (kind, bytes) = match width {
            16 => (1, halves(rows * width, false)),
            _ if rows == 8 => (8, (0..rows).flat_map(|row| block(row, 32)).collect()),
            _ => (2, (0..rows).flat_map(|row| block(row, 16)).collect()),
        };
        (
            name.to_owned(),
            vec![width as u64, rows as u64],
            kind,
            bytes,
        )
    };
    let norm = |(_, name): (&str, &str)| {
        let bytes = (0..32).flat_map(|_| 1f32.to_le_bytes()).collect();
        (name.to_owned(), vec![32], 0, bytes)
    };
    let keys = [
        ("general.architecture", Value::Text(b"llama".to_vec())),
        ("llama.vocab_size", Value::U32(8)),
        ("llama.context_length", Value::U32(64)),
        ("llama.embedding_length", Value::U32(32)),
        ("llama.feed_forward_length", Value::U32(32)),
        ("llama.block_count", Value::U32(1)),
        ("llama.attention.head_count", Value::U32(2)),
        ("llama.attention.head_count_kv", Value::U32(1)),
        ("llama.attention.key_length", Value::U32(8)),
        ("llama.attention.value_length", Value::U32(8)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.freq_base", Value::F32(10_000.0)),
        ("tokenizer.ggml.model", Value::Text(b"gpt2".to_vec())),
        (
            "tokenizer.ggml.tokens",
            Value::Texts(vec!["a", "b", "c", "d", "e", "f", "g", "h"]),
        ),
        ("tokenizer.ggml.token_type", Value::I32s(vec![1; 8])),
        ("tokenizer.ggml.scores", Value::F32s(vec![0.5; 8])),
        ("tokenizer.ggml.merges", Value::Texts(vec!["a b"])),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        ("tokenizer.ggml.eos_token_id", Value::U32(2)),
        ("tokenizer.ggml.add_bos_token", Value::Flag(true)),
    ];
    Gguf {
        version: 3,
        keys: keys.map(|(key, value)| (key.to_owned(), value)).to_vec(),
        tensors: MATRICES
            .map(matrix)
            .into_iter()
            .chain(NORMS.map(norm))
            .collect(),
        lies: Vec::new(),
    }
}

/// An encoder with one layer as a GGUF file: 8 tokens, 32 wide, 2 heads, 16 positions of BERT, queries, keys and values in one and
/// a gate of Nomic. Matrices in q8_0, all else f32.
pub(crate) fn gguf_encoder(nomic: bool) -> Gguf {
    let name = if nomic { "nomic-bert" } else { "bert" };
    let mut tensors = Vec::new();
    let mut matrix = |name: &str, rows: usize| {
        let bytes = (0..rows).flat_map(|row| block(row, 32)).collect();
        tensors.push((name.to_owned(), vec![32, rows as u64], 8, bytes));
    };
    matrix("token_embd.weight", 8);
    match nomic {
        true => {
            matrix("blk.0.attn_qkv.weight", 96);
            matrix("blk.0.ffn_gate.weight", 32);
        }
        false => ["q", "k", "v"]
            .iter()
            .for_each(|part| matrix(&format!("blk.0.attn_{part}.weight"), 32)),
    }
    for part in ["attn_output", "ffn_up", "ffn_down"] {
        matrix(&format!("blk.0.{part}.weight"), 32);
    }
    let ones = |count: usize| (0..count).flat_map(|_| 1f32.to_le_bytes()).collect();
    tensors.push(("token_types.weight".to_owned(), vec![32, 2], 0, ones(64)));
    if !nomic {
        let positions = (
            "position_embd.weight".to_owned(),
            vec![32, 16],
            0,
            ones(512),
        );
        tensors.push(positions);
    }
    let mut vectors: Vec<String> = [
        "token_embd_norm",
        "blk.0.attn_output_norm",
        "blk.0.layer_output_norm",
    ]
    .iter()
    .flat_map(|norm| [format!("{norm}.weight"), format!("{norm}.bias")])
    .collect();
    if !nomic {
        let biased = [
            "attn_q",
            "attn_k",
            "attn_v",
            "attn_output",
            "ffn_up",
            "ffn_down",
        ];
        vectors.extend(biased.map(|part| format!("blk.0.{part}.bias")));
    }
    tensors.extend(
        vectors
            .into_iter()
            .map(|name| (name, vec![32], 0, ones(32))),
    );
    let of = |key: &str| format!("{name}.{key}");
    let mut keys = vec![
        ("general.architecture".to_owned(), Value::Text(name.into())),
        (of("context_length"), Value::U32(16)),
        (of("embedding_length"), Value::U32(32)),
        (of("feed_forward_length"), Value::U32(32)),
        (of("block_count"), Value::U32(1)),
        (of("attention.head_count"), Value::U32(2)),
        (of("attention.layer_norm_epsilon"), Value::F32(1e-12)),
        (of("attention.causal"), Value::Flag(false)),
        (of("pooling_type"), Value::U32(2)),
    ];
    if nomic {
        keys.push((of("rope.freq_base"), Value::F32(1000.0)));
    }
    let text = |text: &str| Value::Text(text.into());
    keys.extend([
        ("tokenizer.ggml.model".to_owned(), text("bert")),
        (
            "tokenizer.ggml.tokens".to_owned(),
            Value::Texts(vec![
                "[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁a", "▁b", "a", "b",
            ]),
        ),
    ]);
    for (key, id) in [("padding", 0), ("unknown", 1), ("cls", 2), ("seperator", 3)] {
        keys.push((format!("tokenizer.ggml.{key}_token_id"), Value::U32(id)));
    }
    Gguf {
        version: 3,
        keys,
        tensors,
        lies: Vec::new(),
    }
}

/// The number of each format of blocks in GGUF files, with the elements and bytes of a block, and where its f16 scales stand.
pub(crate) const BLOCKS: [(u32, usize, usize, &[usize]); 14] = [
    (2, 32, 18, &[0]),
    (3, 32, 20, &[0, 2]),
    (6, 32, 22, &[0]),
    (7, 32, 24, &[0, 2]),
    (8, 32, 34, &[0]),
    (10, 256, 84, &[80, 82]),
    (11, 256, 110, &[108]),
    (12, 256, 144, &[0, 2]),
    (13, 256, 176, &[0, 2]),
    (14, 256, 210, &[208]),
    // The upper half of an f32.
    (15, 256, 292, &[2]),
    (20, 32, 18, &[0]),
    (23, 256, 136, &[0]),
    (39, 32, 17, &[]),
];

/// [`gguf`] 256 wide, with the matrices of that width in the format of this number.
pub(crate) fn gguf_in(number: u32) -> Gguf {
    let wide = |key: &str| Value::U32(if key.ends_with("length") { 256 } else { 2 });
    let mut file = gguf();
    for key in ["llama.embedding_length", "llama.feed_forward_length"] {
        file = file.set(key, wide(key));
    }
    let (_, elements, size, scales) = BLOCKS
        .into_iter()
        .find(|(known, ..)| *known == number)
        .expect("it is a format of blocks");
    for (_, shape, kind, bytes) in &mut file.tensors {
        shape
            .iter_mut()
            .filter(|n| **n == 32)
            .for_each(|n| *n = 256);
        let all: u64 = shape.iter().product();
        if shape.len() == 1 || shape[0] != 256 {
            *bytes = match *kind {
                0 => (0..all).flat_map(|_| 1f32.to_le_bytes()).collect(),
                _ => halves(all as usize, false),
            };
            continue;
        }
        *kind = number;
        let (scale_is_f32, scale_is_power) = (number == 15, number == 39);
        *bytes = (0..all as usize / elements)
            .flat_map(|number| {
                let mut block: Vec<u8> = (0..size).map(|i| (i * 29 + number * 7) as u8).collect();
                // 0.008 each.
                let scale = if scale_is_f32 { 0x3c00u16 } else { 0x2000 };
                for at in scales {
                    block[*at..*at + 2].copy_from_slice(&scale.to_le_bytes());
                }
                if scale_is_power {
                    block[0] = 121;
                }
                block
            })
            .collect();
    }
    file
}

/// Architectures of GGUF files with experts; `llama` is Mixtral.
pub(crate) const OF_EXPERTS: [&str; 4] = ["llama", "qwen2moe", "qwen3moe", "gpt-oss"];

/// [`gguf`] of one of [`OF_EXPERTS`] with two experts, of which each row goes through one. Their matrices are f16.
pub(crate) fn gguf_experts(architecture: &str) -> Gguf {
    let mut file = gguf();
    for (key, _) in &mut file.keys {
        *key = key.replace("llama.", &format!("{architecture}."));
    }
    let key = |name: &str| format!("{architecture}.{name}");
    let text = |text: &str| Value::Text(text.into());
    file = file
        .set("general.architecture", text(architecture))
        .set(&key("expert_count"), Value::U32(2))
        .set(&key("expert_used_count"), Value::U32(1));
    file.tensors.retain(|(name, ..)| {
        let dense = ["gate", "up", "down"].map(|part| format!("blk.0.ffn_{part}.weight"));
        !dense.contains(name)
    });
    let mut matrix = |name: &str, shape: &[u64]| {
        let elements: u64 = shape.iter().product();
        let bytes = halves(elements as usize, false);
        (file.tensors).push((format!("blk.0.{name}.weight"), shape.to_vec(), 1, bytes));
    };
    for part in ["gate", "up", "down"] {
        matrix(&format!("ffn_{part}_exps"), &[32, 32, 2]);
    }
    matrix("ffn_gate_inp", &[32, 2]);
    if architecture == "qwen2moe" {
        for part in ["gate", "up", "down"] {
            matrix(&format!("ffn_{part}_shexp"), &[32, 32]);
        }
    }
    let mut floats = |name: &str, shape: &[u64]| {
        let elements: u64 = shape.iter().product();
        let bytes = (0..elements).flat_map(|_| 1f32.to_le_bytes()).collect();
        (file.tensors).push((format!("blk.0.{name}"), shape.to_vec(), 0, bytes));
    };
    let rows = [("q", 16), ("k", 8), ("v", 8)];
    match architecture {
        "qwen2moe" => {
            floats("ffn_gate_inp_shexp.weight", &[32]);
            for (part, rows) in rows {
                floats(&format!("attn_{part}.bias"), &[rows]);
            }
        }
        "qwen3moe" => ["q", "k"]
            .iter()
            .for_each(|part| floats(&format!("attn_{part}_norm.weight"), &[8])),
        "gpt-oss" => {
            for (part, rows) in rows {
                floats(&format!("attn_{part}.bias"), &[rows]);
            }
            floats("attn_output.bias", &[32]);
            floats("attn_sinks.weight", &[2]);
            floats("ffn_gate_inp.bias", &[2]);
            for part in ["gate", "up", "down"] {
                floats(&format!("ffn_{part}_exps.bias"), &[32, 2]);
            }
            for (name, ..) in &mut file.tensors {
                *name = name.replace("ffn_norm", "post_attention_norm");
            }
            file = file
                .set(&key("attention.sliding_window"), Value::U32(4))
                .set(&key("rope.scaling.type"), text("yarn"))
                .set(&key("rope.scaling.factor"), Value::F32(2.0))
                .set(&key("rope.scaling.original_context_length"), Value::U32(32))
                .set(&key("rope.scaling.yarn_beta_fast"), Value::F32(32.0))
                .set(&key("rope.scaling.yarn_beta_slow"), Value::F32(1.0));
        }
        _ => {}
    }
    if architecture != "llama" {
        file = file.set(&key("expert_feed_forward_length"), Value::U32(32));
    }
    if architecture == "qwen2moe" {
        let shared = key("expert_shared_feed_forward_length");
        file = file.set(&shared, Value::U32(32));
    }
    file
}

/// A block of q4_0 or q8_0 with so many bytes of numbers.
fn block(row: usize, numbers: usize) -> Vec<u8> {
    let scale = (0x2000u16 + row as u16).to_le_bytes();
    scale
        .into_iter()
        .chain((0..numbers).map(|i| (i * 29 + row * 7) as u8))
        .collect()
}
