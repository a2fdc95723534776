//! What can be loaded, as a page of the book: `TIDEGATE_UPDATE=1` writes it. Whatever the code's lists have must have a test that
//! proves it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_reference::golden::{
    self, ADAPTED_DECODERS, DECODERS, ENCODERS, GGUF_DECODERS, GGUF_ENCODERS, PACKED_DECODERS,
    REENCODED_DECODERS, REENCODED_ENCODERS,
};
use tidegate_text::Tokenizer;
use tidegate_weights::{
    Architecture, EncoderHead, Lora, PackedFormat, Quantization, Stored, StoredFormat,
};

use crate::support::checkpoint;

const PAGE: &str = "docs/src/reference/models.md";

/// A test: the file it stands in, its module (empty at the top of a binary), its name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Proof(&'static str, &'static str, &'static str);

const FAMILIES: Proof = Proof(
    "host/reference/tests/reference/decoders.rs",
    "decoders",
    "every_family_gives_the_logits_of_transformers",
);
const GGUF: Proof = Proof(
    "host/reference/tests/reference/decoders.rs",
    "decoders",
    "every_gguf_gives_the_logits_of_what_it_holds",
);
const PACKED: Proof = Proof(
    "host/reference/tests/reference/decoders.rs",
    "decoders",
    "every_packed_model_gives_the_logits_of_what_it_says",
);
const VECTORS: Proof = Proof(
    "host/reference/tests/reference/encoders.rs",
    "encoders",
    "every_encoder_gives_the_vectors_of_transformers",
);
const GGUF_VECTORS: Proof = Proof(
    "host/reference/tests/reference/encoders.rs",
    "encoders",
    "every_gguf_encoder_gives_the_vectors_of_what_it_holds",
);
const BLOCKS: Proof = Proof(
    "host/weights/src/format/stored_tests.rs",
    "format::stored_tests",
    "dequantization_gives_the_bits_of_the_gguf_package",
);
const CONVERTED: Proof = Proof(
    "host/reference/tests/reference/converted.rs",
    "converted",
    "int8_and_int4_change_the_logits_by_no_more_than_stated",
);
const OTHER_NAMES: Proof = Proof(
    "host/reference/tests/reference/other_names.rs",
    "other_names",
    "an_encoder_is_the_same_under_its_other_names",
);
const GEMMA3: Proof = Proof(
    "host/reference/tests/reference/other_names.rs",
    "other_names",
    "the_part_of_gemma3_that_reads_text_gives_the_same_logits",
);
const FBGEMM: Proof = Proof(
    "host/reference/tests/reference/other_names.rs",
    "other_names",
    "fbgemm_fp8_says_what_compressed_tensors_says_with_a_scale_for_each_row",
);
const LAST_TOKEN: Proof = Proof(
    "host/reference/tests/reference/other_names.rs",
    "other_names",
    "the_vector_of_a_decoder_s_last_token_is_what_its_logits_are_products_of",
);
const PUBLISHED: Proof = Proof(
    "host/text/tests/text/published.rs",
    "published",
    "published_vocabularies_give_the_ids_that_their_makers_give",
);
const SPLITS: Proof = Proof(
    "host/text/src/gguf/tests.rs",
    "gguf::tests",
    "each_name_splits_as_its_models_do",
);
const ALIKE: Proof = Proof(
    "host/text/src/gguf/tests.rs",
    "gguf::tests",
    "names_of_one_split_are_the_same_split",
);
const LORA: Proof = Proof(
    "host/infer/tests/infer/adapters.rs",
    "adapters",
    "adapters_give_the_logits_of_peft_and_rows_without_one_those_of_the_base",
);

/// What has no golden of its own: the test that names it, and what it makes.
const OTHERWISE: [(&str, Proof, &str); 12] = [
    ("BertForMaskedLM", OTHER_NAMES, "embeddings"),
    ("RobertaForMaskedLM", OTHER_NAMES, "embeddings"),
    ("XLMRobertaForMaskedLM", OTHER_NAMES, "embeddings"),
    ("DistilBertForMaskedLM", OTHER_NAMES, "embeddings"),
    ("ModernBertForMaskedLM", OTHER_NAMES, "embeddings"),
    ("NomicBertForMaskedLM", OTHER_NAMES, "embeddings"),
    (
        "RobertaForTokenClassification",
        OTHER_NAMES,
        "labels of tokens",
    ),
    ("Gemma3ForConditionalGeneration", GEMMA3, "text"),
    ("fbgemm_fp8", FBGEMM, ""),
    ("tidegate", CONVERTED, ""),
    ("embeddings by LlamaForCausalLM, LlamaModel", LAST_TOKEN, ""),
    ("embeddings by Qwen2ForCausalLM, Qwen2Model", LAST_TOKEN, ""),
];

/// Of GGUF files' tokenizers: the vocabularies that come with their makers' ids are named as these are.
const TOKENIZERS: [(&str, Proof); 4] = [
    ("gpt2", PUBLISHED),
    ("llama", PUBLISHED),
    ("gemma4", PUBLISHED),
    ("bert", PUBLISHED),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn source(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of a test, up to the next; nothing if there is no such test.
fn body<'s>(source: &'s str, name: &str) -> Option<&'s str> {
    let begin = source.find(&format!("#[test]\nfn {name}()"))?;
    let rest = &source[begin + 1..];
    Some(rest.find("#[test]").map_or(rest, |end| &rest[..end]))
}

/// A golden, what shows that it is right, and what it is.
struct Golden {
    name: &'static str,
    proof: Proof,
    /// Whether it is a GGUF file, and not a directory.
    gguf: bool,
    architecture: String,
    makes: &'static str,
    embeds_by_decoder: bool,
    stored: BTreeSet<Stored>,
    method: Option<String>,
}

fn goldens() -> Vec<Golden> {
    let lists: [(&[&'static str], Proof); 7] = [
        (&DECODERS, FAMILIES),
        (&ENCODERS, VECTORS),
        (&GGUF_DECODERS, GGUF),
        (&REENCODED_DECODERS, GGUF),
        (&PACKED_DECODERS, PACKED),
        (&GGUF_ENCODERS, GGUF_VECTORS),
        (&REENCODED_ENCODERS, GGUF_VECTORS),
    ];
    let each = lists
        .into_iter()
        .flat_map(|(names, proof)| names.iter().map(move |name| (*name, proof)));
    each.map(|(name, proof)| {
        let checkpoint = checkpoint(name);
        let stored = checkpoint.all_tensors();
        let stored = stored.map(|tensor| tensor.unwrap().stored()).collect();
        let (architecture, makes, embeds_by_decoder) = match checkpoint.architecture() {
            Architecture::Decoder(config) => (config.architecture.clone(), "text", false),
            Architecture::Encoder(config) => {
                let makes = match config.head {
                    EncoderHead::Embedding(_) => "embeddings",
                    EncoderHead::Classification(_) => "labels",
                    EncoderHead::TokenClassification(_) => "labels of tokens",
                    EncoderHead::Relevance(_) => "scores of pairs",
                };
                let by_decoder = config.decoder.is_some();
                (config.architecture.clone(), makes, by_decoder)
            }
        };
        let method = std::fs::read(golden::folder(name).join("config.json")).ok();
        let method = method.and_then(|bytes| {
            let config: Value = serde_json::from_slice(&bytes).unwrap();
            let method = &config["quantization_config"]["quant_method"];
            Some(method.as_str()?.to_owned())
        });
        Golden {
            name,
            proof,
            gguf: golden::model(name).is_file(),
            architecture,
            makes,
            embeds_by_decoder,
            stored,
            method,
        }
    })
    .collect()
}

/// A page that is made of the code's lists; what no test proves is collected.
#[derive(Default)]
struct Page {
    text: String,
    unproven: Vec<String>,
    used: BTreeSet<&'static str>,
    proofs: Vec<Proof>,
}

impl Page {
    fn heading(&mut self, heading: &str, about: &str, columns: &str) {
        let count = columns.matches('|').count() - 1;
        let line = "|---".repeat(count);
        let _ = write!(
            self.text,
            "\n## {heading}\n\n{about}\n\n{columns}\n{line}|\n"
        );
    }

    fn test(&mut self, proof: Proof) -> String {
        if !self.proofs.contains(&proof) {
            self.proofs.push(proof);
        }
        let Proof(file, module, name) = proof;
        format!("[`{module}::{name}`](../../../{file})")
    }

    /// One line for each test that proves an entry, with the goldens of each.
    fn line(&mut self, cells: &str, found: &[&Golden]) {
        let mut by_test: BTreeMap<&str, (Proof, Vec<String>)> = BTreeMap::new();
        for golden in found {
            let Proof(_, _, name) = golden.proof;
            let entry = by_test.entry(name).or_insert((golden.proof, Vec::new()));
            entry.1.push(format!("`{}`", golden.name));
        }
        for (proof, names) in by_test.into_values() {
            let test = self.test(proof);
            let _ = writeln!(self.text, "| {cells} | {} | {test} |", names.join(", "));
        }
    }

    fn otherwise(&mut self, entry: &str) -> Option<(String, &'static str)> {
        let Some((name, proof, makes)) = OTHERWISE.iter().find(|(name, ..)| *name == entry) else {
            self.unproven.push(entry.to_owned());
            return None;
        };
        self.used.insert(name);
        Some((self.test(*proof), *makes))
    }
}

/// What a name means for people where that is not plain.
fn makes(goldens: &[&Golden]) -> String {
    let makes: BTreeSet<&str> = goldens.iter().map(|golden| golden.makes).collect();
    makes.into_iter().collect::<Vec<_>>().join(", ")
}

fn page() -> Page {
    let goldens = goldens();
    let of = |is: &dyn Fn(&Golden) -> bool| -> Vec<&Golden> {
        goldens.iter().filter(|golden| is(golden)).collect()
    };
    let mut page = Page::default();
    page.text += "# Models, formats and tokenizers\n\n\
        Made from the code's own lists by the test `supported::the_page_of_models_is_that_of_the_code`, which fails where an entry \
        has no test. Which model to choose, and how: [Serve your own model](../models.md). Each line names the test that proves it and \
        the models of `host/reference/tests/golden` that it is proven on; the engine is held to the same models in `host/infer/tests`.\n";

    page.heading(
        "Directories of safetensors",
        "The first of `architectures` in `config.json`, and what such a model makes.",
        "| `architectures` | makes | models | test |",
    );
    let in_gguf = |golden: &Golden| golden.gguf;
    for name in Architecture::names() {
        let found = of(&|golden| {
            golden.architecture == name && !in_gguf(golden) && !golden.embeds_by_decoder
        });
        if found.is_empty() {
            if let Some((test, makes)) = page.otherwise(name) {
                let _ = writeln!(page.text, "| `{name}` | {makes} | | {test} |");
            }
            continue;
        }
        page.line(&format!("`{name}` | {}", makes(&found)), &found);
    }

    page.heading(
        "Embeddings by decoders",
        "Decoders, with or without their heads, beside the files of sentence-transformers.",
        "| `architectures` | models | test |",
    );
    for name in Architecture::embedding_decoders() {
        let bare = name.replace("ForCausalLM", "Model");
        let found = of(&|golden| golden.architecture == *name && golden.embeds_by_decoder);
        let names = format!("`{name}`, `{bare}`");
        if !found.is_empty() {
            page.line(&names, &found);
            continue;
        }
        let entry = format!("embeddings by {name}, {bare}");
        if let Some((test, _)) = page.otherwise(&entry) {
            let _ = writeln!(page.text, "| {names} | | {test} |");
        }
    }

    page.heading(
        "GGUF files",
        "`general.architecture`, and what such a model makes.",
        "| `general.architecture` | makes | models | test |",
    );
    for name in Architecture::gguf_names() {
        let found = of(&|golden| golden.architecture == name && in_gguf(golden));
        if found.is_empty() {
            page.unproven.push(format!("{name} of GGUF files"));
        }
        page.line(&format!("`{name}` | {}", makes(&found)), &found);
    }

    page.heading(
        "Formats of tensors in GGUF files",
        "Bits of an element count its share of the scales. Formats that no kernel reads are held as int8.",
        "| stored as | elements of a block | bits of an element | held as | models | test |",
    );
    for stored in StoredFormat::ALL {
        let name = stored.gguf_name();
        let held = match stored {
            StoredFormat::Kept(_) => "the same",
            stored => stored.handed_on().name(),
        };
        let bits = 8.0 * stored.block_bytes() as f64 / stored.block() as f64;
        let cells = format!("`{name}` | {} | {bits} | {held}", stored.block());
        let blocks = format!("host/weights/tests/golden/{}.bin", name.to_lowercase());
        if root().join(blocks).exists() {
            let test = page.test(BLOCKS);
            let _ = writeln!(page.text, "| {cells} | | {test} |");
            continue;
        }
        // Plain floats.
        let found =
            of(&|golden| in_gguf(golden) && golden.stored.contains(&Stored::Blocks(stored)));
        if found.is_empty() {
            page.unproven.push(format!("{name} of GGUF files"));
        }
        page.line(&cells, &found);
    }

    page.heading(
        "Matrices in safetensors that other tools quantized",
        "s is a scale, q a whole number as it is stored, z its zero point.",
        "| stored as | `quantization_config` | element | held as | models | test |",
    );
    for format in PackedFormat::ALL {
        let [said, element, held] = format.described();
        let found = of(&|golden| golden.stored.contains(&Stored::Packed(format)));
        if found.is_empty() {
            page.unproven.push(format.name().to_owned());
        }
        let cells = format!("`{}` | {said} | {element} | {held}", format.name());
        page.line(&cells, &found);
    }

    page.heading(
        "`quant_method`",
        "What `quantization_config` may name; `tidegate` is what `tidegate model convert` writes.",
        "| `quant_method` | models | test |",
    );
    for method in Quantization::methods() {
        let found = of(&|golden| golden.method.as_deref() == Some(method));
        if !found.is_empty() {
            page.line(&format!("`{method}`"), &found);
        } else if let Some((test, _)) = page.otherwise(method) {
            let _ = writeln!(page.text, "| `{method}` | | {test} |");
        }
    }

    page.heading(
        "Tokenizers of GGUF files",
        "`tokenizer.ggml.model`: byte-level BPE, SentencePiece (twice) and WordPiece. A directory has a `tokenizer.json`, which the \
         `tokenizers` library reads as it reads any.",
        "| `tokenizer.ggml.model` | test |",
    );
    for name in Tokenizer::gguf_models() {
        match TOKENIZERS.iter().find(|(known, _)| *known == name) {
            Some((_, proof)) => {
                let test = page.test(*proof);
                let _ = writeln!(page.text, "| `{name}` | {test} |");
            }
            None => page.unproven.push(format!("tokenizer {name}")),
        }
    }

    page.heading(
        "How byte-level BPE splits a text",
        "`tokenizer.ggml.pre`, or `pre-tokenizer` of a model in the pipeline file where a GGUF file has none.",
        "| name | tests |",
    );
    for name in Tokenizer::pre_tokenizers() {
        let quoted = format!("\"{name}\"");
        let mut tests = Vec::new();
        for proof in [PUBLISHED, SPLITS, ALIKE] {
            let text = source(proof.0);
            // The list of the published ones stands before its test.
            let where_named = match proof == PUBLISHED {
                true => text
                    .find("const KNOWN")
                    .and_then(|at| text[at..].split("];").next()),
                false => body(&text, proof.2),
            };
            if where_named.is_some_and(|text| text.contains(&quoted)) {
                tests.push(page.test(proof));
            }
        }
        if tests.is_empty() {
            page.unproven.push(format!("pre-tokenizer {name}"));
        }
        let _ = writeln!(page.text, "| `{name}` | {} |", tests.join(", "));
    }

    page.heading(
        "Low-rank adapters",
        "Modules of a layer that an adapter of the peft library may adapt, and the bases that its logits were held against peft's on. A \
         base is any decoder of the tables above.",
        "| module | bases | test |",
    );
    let test = page.test(LORA);
    for module in Lora::modules() {
        let tensor = format!("{module}.lora_A.weight");
        let adapts = |base: &&str| {
            golden::adapters(base).unwrap().iter().any(|(folder, _)| {
                let bytes = std::fs::read(folder.join("adapter_model.safetensors")).unwrap();
                bytes
                    .windows(tensor.len())
                    .any(|part| part == tensor.as_bytes())
            })
        };
        let bases: Vec<String> = ADAPTED_DECODERS
            .iter()
            .filter(|base| adapts(base))
            .map(|base| format!("`{base}`"))
            .collect();
        if bases.is_empty() {
            page.unproven.push(format!("adapters of {module}"));
        }
        let _ = writeln!(page.text, "| `{module}` | {} | {test} |", bases.join(", "));
    }
    page
}

#[test]
fn the_page_of_models_is_that_of_the_code() {
    let page = page();
    let unproven = &page.unproven;
    assert!(
        unproven.is_empty(),
        "no test proves {unproven:?}: add a golden to tidegate_reference::golden, or name a test in this file"
    );
    let path = root().join(PAGE);
    if std::env::var_os("TIDEGATE_UPDATE").is_some() {
        std::fs::write(&path, &page.text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.text.lines().zip(written.lines()).find(|(a, b)| a != b);
    assert!(
        written == page.text,
        "{PAGE} is not what the code says, TIDEGATE_UPDATE=1 writes it anew; the first difference: {differs:?}"
    );
}

#[test]
fn every_test_that_is_named_exists_and_names_what_it_proves() {
    let page = page();
    for Proof(file, module, name) in &page.proofs {
        let text = source(file);
        assert!(body(&text, name).is_some(), "{file} has no test {name}");
        let place = file.trim_end_matches(".rs").replace('/', "::");
        assert!(place.ends_with(module), "{file} is not {module}");
    }
    for (entry, Proof(file, _, name), _) in OTHERWISE {
        assert!(page.used.contains(entry), "{entry} is in none of the lists");
        let text = source(file);
        // By its name, or by the first of its names.
        let entry = entry.trim_start_matches("embeddings by ");
        let entry = entry.split(',').next().unwrap_or_default();
        let said = body(&text, name).is_some_and(|body| body.contains(entry));
        let of_all = entry == "tidegate" || said;
        assert!(of_all, "{name} does not name {entry}");
    }
    let text = source(PUBLISHED.0);
    for name in ["gpt-2", "llama-spm", "gemma-4", "bert-bge"] {
        assert!(text.contains(&format!("\"{name}\"")), "{name}");
    }
}
