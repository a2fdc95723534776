//! Models that are published under other names than the goldens': the same model under each of them gives the same.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_contract::EncoderText;
use tidegate_reference::{ReferenceEncoder, golden};
use tidegate_weights::{Checkpoint, DecoderTensor, FileBytes, ReadFile, ReadWhole};

use crate::support::{checkpoint, decoder_of, logits, sequence};

/// A golden model with some of its files changed.
struct Changed {
    folder: PathBuf,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl ReadFile for Changed {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        match self.files.get(path) {
            Some(bytes) => Ok(Arc::new(bytes.clone())),
            None => ReadWhole.read(path),
        }
    }
}

impl Changed {
    fn new(golden: &str) -> Changed {
        Changed {
            folder: golden::folder(golden),
            files: BTreeMap::new(),
        }
    }

    fn with(mut self, name: &str, value: &Value) -> Changed {
        self.files
            .insert(self.folder.join(name), value.to_string().into_bytes());
        self
    }

    fn config(self, change: impl FnOnce(&mut Map<String, Value>)) -> Changed {
        let bytes = std::fs::read(self.folder.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&bytes).unwrap();
        change(config.as_object_mut().unwrap());
        self.with("config.json", &config)
    }

    /// Tensors under other names, and one more that belongs to a head.
    fn tensors(mut self, name: impl Fn(&str) -> String) -> Changed {
        let path = self.folder.join("model.safetensors");
        let bytes = std::fs::read(&path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let (header, data) = bytes[8..].split_at(length);
        let header: Map<String, Value> = serde_json::from_slice(header).unwrap();
        let renamed = header.into_iter().map(|(old, value)| match old.as_str() {
            "__metadata__" => (old, value),
            _ => (name(&old), value),
        });
        let mut renamed: Map<String, Value> = renamed.collect();
        let of_head =
            json!({"dtype": "F32", "shape": [1], "data_offsets": [data.len(), data.len() + 4]});
        renamed.insert("cls.predictions.bias".to_owned(), of_head);
        let mut header = Value::Object(renamed).to_string();
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        for part in [header.as_bytes(), data, &[0; 4]] {
            file.extend_from_slice(part);
        }
        self.files.insert(path, file);
        self
    }

    fn open(self) -> Checkpoint {
        let checkpoint = Checkpoint::open(&self.folder, &self).unwrap();
        checkpoint.check().unwrap();
        checkpoint
    }
}

fn named(name: &str) -> impl FnOnce(&mut Map<String, Value>) {
    let name = json!([name]);
    move |config| {
        config.insert("architectures".to_owned(), name);
    }
}

fn vectors(checkpoint: &Checkpoint, golden: &str) -> Vec<f64> {
    let cases = golden::encoder(golden).unwrap();
    let texts: Vec<EncoderText<'_>> = cases.iter().map(|case| case.text()).collect();
    let mut vectors = Vec::new();
    let encoder = ReferenceEncoder::load(checkpoint, 80).unwrap();
    encoder.wide_encode(&texts, &mut vectors).unwrap();
    vectors
}

/// The logits of a golden's first case.
fn first_logits(checkpoint: &Checkpoint, golden: &str) -> Vec<f64> {
    let case = &golden::decoder(golden).unwrap()[0];
    let mut decoder = decoder_of(checkpoint, case.context);
    logits(&mut decoder, &[sequence(0, &case.tokens, &[0, 1, 2, 3])])
}

#[test]
fn an_encoder_is_the_same_under_its_other_names() {
    for (name, golden, prefix) in [
        ("BertForMaskedLM", "bert-f16", "bert."),
        ("RobertaForMaskedLM", "roberta-f16", "roberta."),
        ("XLMRobertaModel", "roberta-f16", ""),
        ("XLMRobertaForMaskedLM", "roberta-f16", "roberta."),
        ("DistilBertForMaskedLM", "distilbert-f16", "distilbert."),
        ("ModernBertForMaskedLM", "modernbert-bf16", "model."),
        ("NomicBertForMaskedLM", "nomic-bert-f16", "bert."),
        ("RobertaForTokenClassification", "roberta-entities-bf16", ""),
    ] {
        let changed = Changed::new(golden).config(named(name));
        let other = changed.tensors(|old| format!("{prefix}{old}")).open();
        assert_eq!(other.encoder().unwrap().architecture, name);
        let expected = vectors(&checkpoint(golden), golden);
        assert!(vectors(&other, golden) == expected, "{name}");
    }
}

#[test]
fn the_part_of_gemma3_that_reads_text_gives_the_same_logits() {
    let golden = "gemma3-bf16";
    let changed = Changed::new(golden).config(|config| {
        let text = config.clone();
        config.retain(|key, _| key.ends_with("dtype"));
        config.insert("text_config".to_owned(), Value::Object(text));
        config.insert("vision_config".to_owned(), json!({}));
        named("Gemma3ForConditionalGeneration")(config);
    });
    let renamed = |old: &str| match old.strip_prefix("model.") {
        Some(rest) => format!("language_model.model.{rest}"),
        None => format!("language_model.{old}"),
    };
    let other = changed.tensors(renamed).open();
    let expected = first_logits(&checkpoint(golden), golden);
    assert!(first_logits(&other, golden) == expected);
}

#[test]
fn fbgemm_fp8_says_what_compressed_tensors_says_with_a_scale_for_each_row() {
    let golden = "compressed-llama-fp8";
    let changed = Changed::new(golden).config(|config| {
        let said = json!({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0});
        config.insert("quantization_config".to_owned(), said);
    });
    let other = changed.open().exact();
    let expected = first_logits(&checkpoint(golden).exact(), golden);
    assert!(first_logits(&other, golden) == expected);
}

#[test]
fn the_vector_of_a_decoder_s_last_token_is_what_its_logits_are_products_of() {
    for (name, golden) in [
        ("LlamaForCausalLM", "llama-odd-f16"),
        ("Qwen2ForCausalLM", "qwen2-bf16"),
    ] {
        let modules = json!([{"type": "sentence_transformers.models.Transformer"},
            {"type": "sentence_transformers.models.Pooling"}]);
        let pooling = json!({"pooling_mode_lasttoken": true});
        let changed = Changed::new(golden).with("modules.json", &modules);
        let other = changed.with("1_Pooling/config.json", &pooling).open();
        assert_eq!(other.encoder().unwrap().architecture, name);
        let decoder = checkpoint(golden);
        let head = match decoder.decoder().unwrap().tied {
            true => DecoderTensor::Embedding,
            false => DecoderTensor::Head,
        };
        let head = decoder.tensor(head).unwrap();
        let (width, rows) = (head.width(), head.to_f32().unwrap());
        for case in golden::decoder(golden).unwrap() {
            let text = EncoderText {
                tokens: &case.tokens,
                types: &[],
            };
            let mut vector = Vec::new();
            let encoder = ReferenceEncoder::load(&other, 80).unwrap();
            encoder.wide_encode(&[text], &mut vector).unwrap();
            let product = |row: &[f32]| -> f64 {
                let each = row.iter().zip(&vector);
                each.map(|(weight, value)| f64::from(*weight) * value).sum()
            };
            let products: Vec<f64> = rows.chunks_exact(width).map(product).collect();
            // Those of the last token are what transformers gives; the vector is of unit length, so all differ by one factor.
            let expected = case.logits.last().unwrap();
            let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
            let angle = dot(&products, expected)
                / (dot(&products, &products) * dot(expected, expected)).sqrt();
            assert!((angle - 1.0).abs() < 1e-12, "{name}: {angle}");
        }
    }
}
