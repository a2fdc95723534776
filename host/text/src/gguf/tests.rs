use serde_json::Value;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

use super::*;
use crate::fixture;

/// The byte-level fixture as GGUF has it.
fn byte_level(pre: &str) -> GgufVocabulary {
    let json = fixture::byte_level_json();
    let mut tokens = vec![String::new(); 267];
    for (name, id) in json["model"]["vocab"].as_object().unwrap() {
        tokens[id.as_u64().unwrap() as usize] = name.clone();
    }
    let merges = json["model"]["merges"].as_array().unwrap();
    GgufVocabulary {
        model: "gpt2".into(),
        pre: Some(pre.into()),
        types: (0..tokens.len())
            .map(|id| if id < 5 { CONTROL } else { NORMAL })
            .collect(),
        tokens,
        merges: merges
            .iter()
            .map(|merge| merge.as_str().unwrap().into())
            .collect(),
        bos: Some(0),
        eos: Some(1),
        chat_template: Some(fixture::TEMPLATE.into()),
        ..GgufVocabulary::default()
    }
}

fn refusal(change: impl FnOnce(&mut GgufVocabulary)) -> String {
    let mut tokens = byte_level("gpt-2");
    change(&mut tokens);
    Tokenizer::from_gguf(&tokens).unwrap_err().to_string()
}

/// The pieces of a text before merging, with the bytes as they were.
fn pieces(pre: &str, text: &str) -> Vec<String> {
    let tokenizer = Tokenizer::from_gguf(&byte_level(pre)).unwrap();
    let mut split = PreTokenizedString::from(text);
    tokenizer
        .inner
        .get_pre_tokenizer()
        .unwrap()
        .pre_tokenize(&mut split)
        .unwrap();
    let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
    splits
        .into_iter()
        .map(|(_, (begin, end), _)| text[begin..end].to_owned())
        .collect()
}

#[test]
fn each_name_splits_as_its_models_do() {
    let text = "DON'T I'll 12345x\n\n  é";
    let cases: [(&str, &[&str]); 6] = [
        (
            "gpt-2",
            &["DON", "'", "T", " I", "'ll", " 12345", "x", "\n\n ", " é"],
        ),
        (
            "smollm",
            &[
                "DON", "'", "T", " I", "'ll", " ", "1", "2", "3", "4", "5", "x", "\n\n ", " é",
            ],
        ),
        (
            "llama-bpe",
            &[
                "DON", "'T", " I", "'ll", " ", "123", "45", "x", "\n\n", " ", " é",
            ],
        ),
        (
            "qwen2",
            &[
                "DON", "'T", " I", "'ll", " ", "1", "2", "3", "4", "5", "x", "\n\n", " ", " é",
            ],
        ),
        (
            "tekken",
            &[
                "DON", "'T", " I", "'ll", " ", "1", "2", "3", "4", "5", "x", "\n\n", " ", " é",
            ],
        ),
        (
            "default",
            &[
                "DON", "'", "T", " I", "'", "ll", " ", "123", "45", "x", "\n\n ", " é",
            ],
        ),
    ];
    for (pre, wanted) in cases {
        assert_eq!(pieces(pre, text), wanted, "{pre}");
    }
    assert_eq!(
        pieces("falcon", "a... it's `12345`"),
        ["a", "...", " it", "'", "s", " ", "`", "123", "45", "`"]
    );
    // The punctuation that DeepSeek LLM lists is a range with the letters of ASCII in it.
    assert_eq!(
        pieces("deepseek-llm", "Wörter, 漢字カ 12\n "),
        ["W", "ö", "rter", ",", " ", "漢字カ", " ", "12", "\n", " "]
    );
    assert_eq!(
        pieces("deepseek-coder", "Wörter, 漢字カ 12\n "),
        ["Wörter", ",", " ", "漢字カ", " ", "1", "2", "\n", " "]
    );
    assert_eq!(pieces("command-r", "it's 12"), ["it", "'s", " ", "1", "2"]);
    // Marks are joined to their letters before the split.
    let tokenizer = Tokenizer::from_gguf(&byte_level("command-r")).unwrap();
    assert_eq!(
        tokenizer.encode("e\u{301}").unwrap(),
        tokenizer.encode("é").unwrap()
    );
    assert_eq!(
        pieces("gpt-4o", "DON'T getName's 12345"),
        ["DON'T", " get", "Name's", " ", "123", "45"]
    );
    // Tekken's words begin where the case rises.
    assert_eq!(
        pieces("tekken", "HTMLParser getName"),
        ["HTMLParser", " get", "Name"]
    );
}

#[test]
fn names_of_one_split_are_the_same_split() {
    // As `llm_tokenizer_bpe` of llama.cpp's `llama-vocab.cpp` has them together.
    let alike: [(&str, &[&str]); 7] = [
        ("gpt-2", &["phi-2", "mpt", "olmo", "jais"]),
        (
            "llama-bpe",
            &[
                "llama3",
                "llama-v3",
                "falcon3",
                "falcon-h1",
                "lfm2",
                "pixtral",
            ],
        ),
        ("llama-bpe", &["dbrx", "smaug-bpe"]),
        ("gpt-4o", &["llama4"]),
        ("qwen2", &["megrez", "deepseek-r1-qwen", "stablelm2"]),
        ("smollm", &["starcoder", "refact"]),
        ("tekken", &[]),
    ];
    let text = "DON'T I'll getName's 12345x\n\n  é, HTMLParser: 漢字 `a`...";
    let mut seen = std::collections::BTreeSet::new();
    for (first, others) in alike {
        seen.insert(pieces(first, text));
        for other in others {
            assert_eq!(pieces(other, text), pieces(first, text), "{other}");
        }
    }
    // Six ways, which this text tells apart.
    assert_eq!(seen.len(), 6);
}

#[test]
fn the_tables_of_a_tokenizer_are_that_tokenizer() {
    let own = fixture::byte_level();
    let tokenizer = Tokenizer::from_gguf(&byte_level("gpt-2")).unwrap();
    for text in ["hello hello", "  w é<|user|>x", "", "12 it's", "a<|eos|>"] {
        assert_eq!(
            tokenizer.encode(text).unwrap(),
            own.encode(text).unwrap(),
            "{text}"
        );
        assert_eq!(
            tokenizer.encode_literal(text).unwrap(),
            own.encode_literal(text).unwrap()
        );
    }
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (own.bos(), own.eos()));
    let message = crate::ChatMessage {
        role: "user",
        content: "hello",
    };
    assert_eq!(
        tokenizer.encode_chat(&[message]).unwrap(),
        own.encode_chat(&[message]).unwrap()
    );
    assert_eq!(tokenizer.token_bytes(2), None);
}

#[test]
fn whether_a_prompt_begins_and_ends_is_as_the_file_says() {
    let ids = |tokens: &GgufVocabulary| {
        Tokenizer::from_gguf(tokens)
            .unwrap()
            .encode_text("a")
            .unwrap()
    };
    let a = fixture::byte_token(b'a');
    assert_eq!(ids(&byte_level("gpt-2")), [a]);
    assert_eq!(ids(&byte_level("llama-bpe")), [0, a]);
    let all = GgufVocabulary {
        add_bos: Some(true),
        add_eos: Some(true),
        ..byte_level("gpt-2")
    };
    assert_eq!(ids(&all), [0, a, 1]);
    let none = GgufVocabulary {
        add_bos: Some(false),
        ..byte_level("llama-bpe")
    };
    assert_eq!(ids(&none), [a]);
}

#[test]
fn an_answer_ends_with_the_sequence_or_the_turn() {
    let ends =
        |tokens: &GgufVocabulary| Tokenizer::from_gguf(tokens).unwrap().end_tokens().to_vec();
    assert_eq!(ends(&byte_level("gpt-2")), [1]);
    assert_eq!(
        ends(&GgufVocabulary {
            end_of_turn: Some(4),
            ..byte_level("gpt-2")
        }),
        [1, 4]
    );
    let mut named = byte_level("gpt-2");
    named.tokens[3] = "<|im_end|>".into();
    assert_eq!(ends(&named), [1, 3]);
    // Only where it is a special token.
    named.types[3] = NORMAL;
    assert_eq!(ends(&named), [1]);
}

#[test]
fn unused_tokens_are_not_there_and_added_ones_are_found_in_the_text() {
    let mut tokens = byte_level("gpt-2");
    tokens
        .tokens
        .extend(["[PAD267]", "<think>", "[PAD269]"].map(String::from));
    tokens.types.extend([UNUSED, USER_DEFINED, UNUSED]);
    let tokenizer = Tokenizer::from_gguf(&tokens).unwrap();
    assert_eq!(tokenizer.vocabulary(), 269);
    assert_eq!(tokenizer.token_bytes(267), None);
    assert_eq!(tokenizer.token_bytes(268), Some(b"<think>".to_vec()));
    assert_eq!(tokenizer.encode_literal("<think>").unwrap(), [268]);
    assert_eq!(tokenizer.decode(&[268]).unwrap(), "<think>");
    // What is used by a merge is kept, whatever its type.
    let mut tokens = byte_level("gpt-2");
    let hello = tokens
        .tokens
        .iter()
        .position(|token| token == "hello")
        .unwrap();
    tokens.types[hello] = UNUSED;
    assert_eq!(
        Tokenizer::from_gguf(&tokens)
            .unwrap()
            .encode("hello")
            .unwrap(),
        [hello as u32]
    );
}

#[test]
fn white_space_behind_special_tokens_may_belong_to_them() {
    let tokens = GgufVocabulary {
        strip_after_special: true,
        ..byte_level("gpt-2")
    };
    let tokenizer = Tokenizer::from_gguf(&tokens).unwrap();
    assert_eq!(
        tokenizer.encode("<|user|>\n a").unwrap(),
        [3, fixture::byte_token(b'a')]
    );
    // The tokens around a whole text keep it.
    let mut tokens = tokens;
    tokens.tokens[3] = "<s>".into();
    let tokenizer = Tokenizer::from_gguf(&tokens).unwrap();
    assert_eq!(
        tokenizer.encode("<s>\n").unwrap(),
        [3, fixture::byte_token(b'\n')]
    );
}

/// `a`, `b`, `c` and two joints, of which the first in the vocabulary or the one with the higher score goes first.
fn joints(scores: [f32; 2], merges: &[&str]) -> Vec<String> {
    let tables = GgufVocabulary {
        model: "llama".into(),
        tokens: ["a", "b", "c", "ab", "bc"].map(String::from).to_vec(),
        scores: [&[0.0; 3][..], &scores].concat(),
        merges: merges.iter().map(|merge| (*merge).to_owned()).collect(),
        add_space_prefix: Some(false),
        ..GgufVocabulary::default()
    };
    let tokenizer = Tokenizer::from_gguf(&tables).unwrap();
    let ids = tokenizer.encode("abc").unwrap();
    ids.iter()
        .map(|id| tables.tokens[*id as usize].clone())
        .collect()
}

#[test]
fn the_higher_score_is_merged_first_and_where_all_are_alike_the_earlier_token() {
    assert_eq!(joints([-2.0, -1.0], &[]), ["a", "bc"]);
    assert_eq!(joints([-1.0, -2.0], &[]), ["ab", "c"]);
    assert_eq!(joints([0.0, 0.0], &[]), ["ab", "c"]);
    // Listed merges say it before the scores.
    assert_eq!(joints([-1.0, -2.0], &["b c", "a b"]), ["a", "bc"]);
}

#[test]
fn word_piece_tables_are_that_tokenizer() {
    let own = fixture::word_piece();
    let names = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁play", "ing", "▁[", "▁]", "▁cl", "s", "▁c", "▁se",
        "p", "▁s", "▁ℝ",
    ];
    let tokens = GgufVocabulary {
        model: "bert".into(),
        types: (0..names.len())
            .map(|id| if id < 4 { CONTROL } else { NORMAL })
            .collect(),
        tokens: names.map(String::from).to_vec(),
        unknown: Some(1),
        padding: Some(0),
        cls: Some(2),
        separator: Some(3),
        ..GgufVocabulary::default()
    };
    let tokenizer = Tokenizer::from_gguf(&tokens).unwrap();
    for text in [
        "Playing PLAY",
        "",
        "play [SEP] [CLS]",
        "plays sep cls",
        "ünknown 漢字",
        "ℝ s",
    ] {
        assert_eq!(
            tokenizer.encode_text(text).unwrap(),
            own.encode_text(text).unwrap(),
            "{text}"
        );
    }
    let cased = GgufVocabulary {
        tokens: tokens
            .tokens
            .iter()
            .map(|t| t.replace("▁s", "▁S"))
            .collect(),
        ..tokens.clone()
    };
    let tokenizer = Tokenizer::from_gguf(&cased).unwrap();
    assert_ne!(
        tokenizer.encode_text("S").unwrap(),
        tokenizer.encode_text("s").unwrap()
    );
    let without = GgufVocabulary {
        separator: None,
        ..tokens
    };
    assert_eq!(
        Tokenizer::from_gguf(&without).unwrap_err().to_string(),
        "tokenizer.ggml.seperator_token_id: WordPiece needs it and cls_token_id"
    );
}

#[test]
fn a_wrong_table_is_named_by_its_key() {
    assert_eq!(
        refusal(|t| t.model = "t5".into()),
        "tokenizer.ggml.model: \"t5\" is not known, only gpt2, llama, gemma4 and bert are"
    );
    assert!(
        refusal(|t| t.pre = Some("poro".into()))
            .starts_with("tokenizer.ggml.pre: \"poro\" is not known, only default,")
    );
    assert!(refusal(|t| t.pre = None).starts_with("tokenizer.ggml.pre: there is none, so how"));
    assert_eq!(
        refusal(|t| t.tokens.clear()),
        "tokenizer.ggml.tokens: the vocabulary is empty"
    );
    assert_eq!(
        refusal(|t| t.tokens[9] = "a".repeat(2049)),
        "tokenizer.ggml.tokens: token 9 of 2049 bytes exceeds the limit of 2048 bytes"
    );
    assert_eq!(
        refusal(|t| t.types.truncate(3)),
        "tokenizer.ggml.token_type: 3 entries for 267 tokens"
    );
    assert_eq!(
        refusal(|t| t.scores = vec![0.0]),
        "tokenizer.ggml.scores: 1 entries for 267 tokens"
    );
    assert_eq!(
        refusal(|t| t.scores = (0..267)
            .map(|id| if id == 7 { f32::NAN } else { 0.0 })
            .collect()),
        "tokenizer.ggml.scores: that of token 7 is not a number"
    );
    assert_eq!(
        refusal(|t| t.eos = Some(267)),
        "tokenizer.ggml.eos_token_id: 267 is not below the 267 tokens"
    );
    assert_eq!(
        refusal(|t| t.merges.clear()),
        "tokenizer.ggml.merges: there are none"
    );
    assert_eq!(
        refusal(|t| t.merges[2] = "abc".into()),
        "tokenizer.ggml.merges: entry 2, \"abc\", is no pair of tokens"
    );
    assert_eq!(
        refusal(|t| t.merges[2] = "a b c".into()),
        "tokenizer.ggml.merges: entry 2, \"a b c\", is no pair of tokens"
    );
    let unknown = refusal(|t| t.merges[2] = "xy z".into());
    assert!(
        unknown.starts_with("tokenizer.ggml.tokens: ") && unknown.contains("xy"),
        "{unknown}"
    );
    let template = refusal(|t| t.chat_template = Some("{% if %}".into()));
    assert!(
        template.starts_with("tokenizer.chat_template: line 1: syntax error"),
        "{template}"
    );
    assert_eq!(
        refusal(|t| (t.model, t.merges) = ("llama".into(), Vec::new())),
        "tokenizer.ggml.scores: there are none"
    );
    assert_eq!(
        refusal(|t| t.model = "bert".into()),
        "tokenizer.ggml.unknown_token_id: WordPiece needs one"
    );
}

#[test]
fn what_is_saved_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::from_gguf(&byte_level("llama-bpe")).unwrap();
    tokenizer.save(dir.path()).unwrap();
    let read = Tokenizer::from_dir(dir.path()).unwrap();
    let message = crate::ChatMessage {
        role: "user",
        content: "hello 123",
    };
    assert_eq!(
        read.encode_chat(&[message]).unwrap(),
        tokenizer.encode_chat(&[message]).unwrap()
    );
    assert_eq!(
        read.encode_text("a b").unwrap(),
        tokenizer.encode_text("a b").unwrap()
    );
    assert_eq!((read.bos(), read.eos()), (Some(0), Some(1)));
    let config: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("tokenizer_config.json")).unwrap())
            .unwrap();
    assert_eq!(config["eos_token"], "<|eos|>");
    let error = tokenizer
        .save(dir.path().join("none"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("none/tokenizer.json: "), "{error}");
}

mod hostile {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn any_tables_are_an_answer(
            model in "gpt2|llama|gemma4|bert", tokens in proptest::collection::vec("[ab▁<0x1>\\[\\]]{0,4}", 0..12),
            scores in proptest::collection::vec(-2f32..2.0, 12), types in proptest::collection::vec(0i32..8, 12),
            merges in proptest::collection::vec("[ab ]{0,4}", 0..4), ids in proptest::collection::vec(0u32..14, 4), text in "[ab <0x1>▁é\\[\\]]{0,12}",
        ) {
            let count = tokens.len();
            let tables = GgufVocabulary {
                model, pre: Some("default".into()), scores: scores[..count].to_vec(), types: types[..count].to_vec(), tokens, merges,
                bos: Some(ids[0]), eos: Some(ids[1]), unknown: Some(ids[2]), separator: Some(ids[3]), add_bos: Some(true),
                ..GgufVocabulary::default()
            };
            if let Ok(tokenizer) = Tokenizer::from_gguf(&tables) {
                let _ = tokenizer.encode_text(&text);
                if let Ok(ids) = tokenizer.encode(&text) {
                    let _ = tokenizer.decode(&ids);
                }
            }
        }
    }
}

#[test]
fn a_file_that_does_not_say_how_texts_are_split_is_split_as_is_named() {
    // How its texts are split, as its files would have it.
    let splits = |tokenizer: &Tokenizer| {
        serde_json::to_string(&tokenizer.inner.get_pre_tokenizer().unwrap()).unwrap()
    };
    let own = Tokenizer::from_gguf(&byte_level("llama-bpe")).unwrap();
    let other = Tokenizer::from_gguf(&byte_level("gpt-2")).unwrap();
    assert_ne!(splits(&own), splits(&other));
    for pre in [None, Some("poro"), Some("default")] {
        let vocabulary = GgufVocabulary {
            pre: pre.map(str::to_owned),
            ..byte_level("gpt-2")
        };
        assert!(Tokenizer::lacks_pre_tokenizer(&vocabulary), "{pre:?}");
        let named = Tokenizer::from_gguf_split_as(&vocabulary, "llama-bpe").unwrap();
        assert_eq!(splits(&named), splits(&own), "{pre:?}");
        for name in Tokenizer::pre_tokenizers() {
            Tokenizer::from_gguf_split_as(&vocabulary, name).unwrap();
        }
        let error = Tokenizer::from_gguf_split_as(&vocabulary, "viking").unwrap_err();
        let words = "tokenizer.ggml.pre: \"viking\" is not known, only default,";
        assert!(error.to_string().starts_with(words), "{error}");
    }
    // What a file says is not overruled.
    let vocabulary = byte_level("gpt-2");
    assert!(!Tokenizer::lacks_pre_tokenizer(&vocabulary));
    Tokenizer::from_gguf_split_as(&vocabulary, "gpt-2").unwrap();
    let error = Tokenizer::from_gguf_split_as(&vocabulary, "llama-bpe").unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokenizer.ggml.pre: the file says \"gpt-2\": leave out the pre-tokenizer \"llama-bpe\""
    );
    let vocabulary = GgufVocabulary {
        model: "llama".into(),
        pre: None,
        ..vocabulary
    };
    assert!(!Tokenizer::lacks_pre_tokenizer(&vocabulary));
    let error = Tokenizer::from_gguf_split_as(&vocabulary, "gpt-2").unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokenizer.ggml.model: \"llama\" does not split texts before it merges: leave out the pre-tokenizer \"gpt-2\""
    );
}
