//! What is said of GGUF files, those that are refused among them, and what would work in their place.

use std::io;
use std::path::Path;

use tidegate_weights::{
    Checkpoint, FileBytes, Format, GgufSummary, ReadFile, gguf_nearest, gguf_summary,
};

use crate::made::{BLOCKS, Files, Gguf, Value, gguf, gguf_encoder, gguf_in};

fn summary(file: &Gguf) -> GgufSummary {
    let files = Files::default().with("m.gguf", file.bytes());
    gguf_summary(Path::new("m.gguf"), &files).unwrap()
}

/// The nearest thing that works in the place of a file that is refused.
fn nearest(file: &Gguf) -> Option<String> {
    let files = Files::default().with("m.gguf", file.bytes());
    nearest_of(Path::new("m.gguf"), &files)
}

fn nearest_of(path: &Path, files: &Files) -> Option<String> {
    let error = Checkpoint::open(path, files)
        .and_then(|checkpoint| checkpoint.check())
        .unwrap_err();
    match gguf_summary(path, files) {
        Ok(summary) => summary.nearest(&error),
        Err(_) => gguf_nearest(&error),
    }
}

#[test]
fn a_file_is_summed_up_whatever_it_is() {
    let text = |text: &str| Value::Text(text.into());
    let mut file = gguf()
        .set("general.architecture", text("mamba"))
        .set("general.name", text("Some Model"))
        .set("tokenizer.ggml.pre", text("poro"))
        .set("tokenizer.chat_template", text("{{ messages }}"));
    (file.tensors[1].2, file.tensors[1].3) = (24, vec![0; 512]);
    file.tensors[2].2 = 99;
    let found = summary(&file);
    assert_eq!(found.architecture.as_deref(), Some("mamba"));
    assert_eq!(found.name.as_deref(), Some("Some Model"));
    assert_eq!(found.tensors(), 11);
    assert_eq!(found.parts.len(), 1);
    assert_eq!(found.parts[0].bytes, Some(file.bytes().len() as u64));
    let tokenizer = found.tokenizer.unwrap();
    assert_eq!(
        (tokenizer.model.as_str(), tokenizer.pre.as_deref()),
        ("gpt2", Some("poro"))
    );
    assert_eq!((tokenizer.tokens, tokenizer.chat_template), (8, true));
    let of = |name: &str| {
        let mut all = found.formats.iter();
        let of = all.find(|of| of.name == name).unwrap();
        (of.tensors, of.bytes, of.handed_on)
    };
    assert_eq!(of("q4_0"), (3, Some(3 * 32 * 18), Some(Format::Int4)));
    assert_eq!(of("q8_0"), (2, Some(2 * 8 * 34), Some(Format::Int8)));
    assert_eq!(of("f16"), (1, Some(32 * 16 * 2), Some(Format::F16)));
    assert_eq!(of("f32"), (3, Some(3 * 32 * 4), Some(Format::F32)));
    assert_eq!(of("i8"), (1, Some(512), None));
    assert_eq!(of("type number 99"), (1, None, None));
    // The largest first.
    let sizes: Vec<Option<u64>> = found.formats.iter().map(|of| of.bytes).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    let bare = Gguf {
        keys: Vec::new(),
        tensors: Vec::new(),
        ..gguf()
    };
    let bare = summary(&bare);
    assert_eq!((bare.architecture, bare.tokenizer), (None, None));
    assert!(bare.formats.is_empty());
}

#[test]
fn formats_that_are_held_as_int8_are_told_from_those_that_are_kept() {
    for (number, elements, size, _) in BLOCKS {
        let found = summary(&gguf_in(number));
        let of = found.formats.iter().find(|of| of.tensors == 7).unwrap();
        let all = (8 + 16 + 8 + 8 + 3 * 256) * 256 / elements * size;
        assert_eq!(of.bytes, Some(all as u64), "{}", of.name);
        let kept = matches!(of.name.as_str(), "q4_0" | "q8_0" | "q4_K" | "q6_K");
        assert_eq!(of.kept, kept, "{}", of.name);
        assert!(kept || of.handed_on == Some(Format::Int8), "{}", of.name);
    }
}

#[test]
fn parts_are_summed_up_together_and_missing_or_damaged_ones_named() {
    let all = gguf().parts(&[4, 5, 2]);
    let name = |part: usize| format!("x-{part:05}-of-00003.gguf");
    let files = Files::default()
        .with(&name(1), all[0].bytes())
        .with(&name(2), all[1].bytes())
        .with(&name(3), all[2].bytes());
    let whole = summary(&gguf());
    for part in 1..=3 {
        let found = gguf_summary(Path::new(&name(part)), &files).unwrap();
        assert_eq!(found.formats, whole.formats);
        assert_eq!(found.tokenizer, whole.tokenizer);
        assert_eq!(found.architecture, whole.architecture);
        let tensors: Vec<usize> = found.parts.iter().map(|part| part.tensors).collect();
        assert_eq!(tensors, [4, 5, 2]);
    }
    let mut some = files.clone();
    some.0.remove(Path::new(&name(1)));
    some.0.insert(name(3).into(), b"torn".to_vec());
    let found = gguf_summary(Path::new(&name(2)), &some).unwrap();
    assert_eq!(found.architecture, None);
    assert_eq!((found.parts[0].bytes, found.parts[1].tensors), (None, 5));
    assert_eq!(found.parts[2].bytes, Some(4));
    let problem = found.parts[2].problem.as_deref().unwrap();
    assert!(problem.contains("x-00003-of-00003.gguf is not a whole GGUF file"));
    assert_eq!(
        nearest_of(Path::new(&name(2)), &some).unwrap(),
        "all 3 parts in one directory; 1 of them is not there"
    );
    some.0.insert(name(1).into(), all[1].bytes());
    assert_eq!(
        nearest_of(Path::new(&name(2)), &some).unwrap(),
        "all parts of one model, fetched anew under their own names"
    );
}

/// Files of which one may not be read.
struct Locked(Files, &'static str);

impl ReadFile for Locked {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        if path == Path::new(self.1) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.0.read(path)
    }
}

#[test]
fn a_part_that_may_not_be_read_does_not_hide_the_others() {
    let all = gguf().parts(&[4, 5, 2]);
    let names = [1, 2, 3].map(|part| format!("x-{part:05}-of-00003.gguf"));
    let files = Files::default()
        .with(&names[0], all[0].bytes())
        .with(&names[2], all[2].bytes());
    let files = Locked(files, "x-00002-of-00003.gguf");
    let found = gguf_summary(Path::new(&names[0]), &files).unwrap();
    assert_eq!(found.architecture.as_deref(), Some("llama"));
    assert_eq!(found.tensors(), 6);
    let problem = found.parts[1].problem.as_deref().unwrap();
    assert!(
        problem.starts_with("cannot read x-00002-of-00003.gguf: "),
        "{problem}"
    );
}

#[test]
fn what_would_work_is_told_where_it_is_known() {
    let named = |name: &str| {
        let mut file = gguf();
        for (key, _) in &mut file.keys {
            *key = key.replace("llama.", &format!("{name}."));
        }
        nearest(&file.set("general.architecture", Value::Text(name.into())))
    };
    assert_eq!(named("deepseek").as_deref(), Some("Qwen2.5 (qwen2)"));
    assert_eq!(named("llama4").as_deref(), Some("Llama 3.x (llama)"));
    assert!(
        named("modern-bert")
            .unwrap()
            .contains("config.json and safetensors")
    );
    assert!(
        named("nomic-bert-moe")
            .unwrap()
            .contains("nomic-embed-text")
    );
    assert!(
        named("mamba")
            .unwrap()
            .starts_with("a decoder of about its size: ")
    );
    assert!(
        named("zamba")
            .unwrap()
            .starts_with("a decoder of about its size: ")
    );
    assert_eq!(
        nearest(
            &gguf()
                .set("llama.expert_count", Value::U32(8))
                .set("llama.expert_used_count", Value::U32(2))
        )
        .as_deref(),
        Some("a dense model of llama, without experts")
    );
    let mut file = gguf();
    for tensor in &mut file.tensors[5..7] {
        (tensor.2, tensor.3) = (24, vec![0; 1024]);
    }
    assert_eq!(
        nearest(&file).as_deref(),
        Some(
            "the same model as Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0, IQ4_XS or IQ4_NL; this file has i8 in 2 tensors, which is \
             not read"
        )
    );
    let mut alone = gguf();
    alone.tensors.clear();
    assert!(nearest(&alone).unwrap().starts_with("the model's own file"));
    assert_eq!(
        nearest(&gguf().without("llama.block_count")).as_deref(),
        Some("a newer conversion of the model, which has `llama.block_count`")
    );
    let adapter = gguf().set("general.type", Value::Text("adapter".into()));
    let told = nearest(&adapter).unwrap();
    assert!(told.contains("adapter_config.json"), "{told}");
    let pooled = |file: Gguf, name: &str, number| {
        let key = format!("{name}.pooling_type");
        nearest(&file.set(&key, Value::U32(number))).unwrap()
    };
    let told = pooled(gguf_encoder(false), "bert", 4);
    assert!(
        told.starts_with("the directory that it was converted from"),
        "{told}"
    );
    // A decoder's head is read from nowhere.
    let told = pooled(gguf(), "llama", 4);
    assert!(
        told.starts_with("a reranker or classifier that is an encoder"),
        "{told}"
    );
    // So is that of a file whose pooling is not said.
    let headed = |mut file: Gguf| {
        let head = ("cls.output.weight".to_owned(), vec![32], 0, vec![0; 128]);
        file.tensors.push(head);
        nearest(&file).unwrap()
    };
    let told = headed(gguf_encoder(false).without("bert.pooling_type"));
    assert!(
        told.starts_with("the directory that it was converted from"),
        "{told}"
    );
    let told = headed(gguf());
    assert!(
        told.starts_with("a reranker or classifier that is an encoder"),
        "{told}"
    );
    let holding = |tensor: &str| {
        let mut file = gguf();
        let tensor = (tensor.to_owned(), vec![32], 0, vec![0; 128]);
        file.tensors.push(tensor);
        nearest(&file).unwrap()
    };
    for scale in ["blk.0.attn_q.scale", "blk.0.attn_q.input_scale"] {
        let told = holding(scale);
        assert!(told.starts_with("the same model as Q8_0"), "{told}");
    }
    let told = holding("dense_2.weight");
    assert!(
        told.starts_with("a decoder for embeddings of qwen3"),
        "{told}"
    );
    for other in ["blk.0.attn_q_norm.weight", "blk.0.ffn_up.bias"] {
        let told = holding(other);
        assert!(
            told.starts_with("a file of which llama uses every tensor"),
            "{told}"
        );
    }
    for number in [0, 77] {
        let told = pooled(gguf_encoder(false), "bert", number);
        assert!(
            told.starts_with("a conversion whose `pooling_type` is 1 (mean)"),
            "{told}"
        );
        assert!(!told.contains("labels"), "{told}");
    }
    let of = |bytes: &[u8]| {
        let files = Files::default().with("m.gguf", bytes);
        nearest_of(Path::new("m.gguf"), &files).unwrap()
    };
    assert!(of(b"PK\x03\x04").starts_with("a file that begins with GGUF"));
    assert!(of(b"GGUF\x01\0\0\0").starts_with("a conversion of the model since"));
    assert!(of(b"GGUF\0\0\0\x03").starts_with("the little-endian file"));
    let whole = gguf().bytes();
    assert!(of(&whole[..whole.len() - 1]).starts_with("the whole file"));
    assert!(of(&whole[..40]).starts_with("the whole file"));
}
