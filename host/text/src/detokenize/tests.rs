use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{StopStrings, fixture};

/// Most characters that are not certain yet: half a character as U+FFFDs, or all of one name of a token.
const MOST_UNDECIDED: usize = 3;
const LONGEST_NAME: usize = 6;

/// Decoders of every kind, of which the text is exactly the library's.
static EXACT: LazyLock<Vec<Arc<Tokenizer>>> = LazyLock::new(|| {
    let replace = |pattern: &str, content: &str| json!({"type": "Replace", "pattern": {"String": pattern}, "content": content});
    let strip = |start: usize, stop: usize| json!({"type": "Strip", "content": " ", "start": start, "stop": stop});
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let metaspace = |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let word_piece =
        |cleanup: bool| json!({"type": "WordPiece", "prefix": "##", "cleanup": cleanup});
    let ctc =
        json!({"type": "CTC", "pad_token": "[", "word_delimiter_token": "|", "cleanup": true});
    let fuse = json!({"type": "Fuse"});
    let words = json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"});
    decoders(&[
        Value::Null,
        byte_level.clone(),
        sequence(&[byte_level]),
        metaspace("always"),
        metaspace("never"),
        word_piece(true),
        word_piece(false),
        json!({"type": "BPEDecoder", "suffix": "</w>"}),
        json!({"type": "BPEDecoder", "suffix": ""}),
        ctc.clone(),
        sequence(&[ctc, metaspace("first")]),
        sequence(&[fuse.clone(), replace("aab", "<>")]),
        sequence(&[replace("▁", " "), fuse.clone(), strip(1, 0)]),
        sequence(&[words, fuse.clone(), strip(2, 0)]),
        strip(1, 0),
        fuse,
    ])
});

/// Decoders with tokens for bytes: as of Gemma, Llama 2 (Mistral, Phi-3), and older ones of SentencePiece.
static WITH_BYTES: LazyLock<Vec<Arc<Tokenizer>>> = LazyLock::new(|| {
    let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let metaspace =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
    let (bytes, fuse) = (json!({"type": "ByteFallback"}), json!({"type": "Fuse"}));
    decoders(&[
        bytes.clone(),
        sequence(&[replace.clone(), bytes.clone(), fuse.clone()]),
        sequence(&[replace.clone(), bytes.clone(), fuse.clone(), strip]),
        sequence(&[bytes.clone(), metaspace.clone()]),
        sequence(&[metaspace, bytes.clone(), fuse.clone()]),
        sequence(&[bytes, fuse, replace]),
    ])
});

fn sequence(decoders: &[Value]) -> Value {
    json!({"type": "Sequence", "decoders": decoders})
}

fn decoders(decoders: &[Value]) -> Vec<Arc<Tokenizer>> {
    decoders
        .iter()
        .map(|decoder| Arc::new(fixture::decoding(decoder)))
        .collect()
}

fn id_of(name: &str) -> u32 {
    let names = fixture::names_of_all_kinds();
    names.iter().position(|other| other == name).unwrap() as u32
}

/// Any tokens: many bytes, alone and as whole or broken characters, and names of all kinds.
fn any_tokens() -> impl Strategy<Value = Vec<u32>> {
    let names = fixture::names_of_all_kinds().len() as u32;
    let spelled = |text: &'static str| text.bytes().map(u32::from).collect::<Vec<_>>();
    let some = prop_oneof![
        3 => (256..names).prop_map(|id| vec![id]),
        2 => (0u32..256).prop_map(|byte| vec![byte]),
        1 => Just(spelled("😀")),
        1 => Just(spelled("▁€")),
        1 => Just(spelled(".")),
        1 => (0usize..4).prop_map(|length| "😀".bytes().take(length).map(u32::from).collect()),
        1 => (0usize..3).prop_map(|length| "€".bytes().skip(length).map(u32::from).collect()),
        1 => Just(vec![names, u32::MAX]),
    ];
    proptest::collection::vec(some, 0..24).prop_map(|parts| parts.concat())
}

/// The same tokens with U+FFFD, which is a token, for each byte token that is in no character.
fn mended(ids: &[u32]) -> Vec<u32> {
    let replacement = id_of("\u{fffd}");
    let mut mended = Vec::new();
    // Special and unknown tokens are left out before bytes are put together.
    let names = fixture::names_of_all_kinds().len() as u32;
    let text = |id: &u32| *id < names - 2;
    let ids: Vec<u32> = ids.iter().copied().filter(text).collect();
    // `<0x0a>` is a byte as `<0x0A>` is.
    let byte = |id: u32| if id == id_of("<0x0a>") { 10 } else { id };
    let ids: Vec<u32> = ids.into_iter().map(byte).collect();
    for run in ids.chunk_by(|a, b| (*a < 256) == (*b < 256)) {
        if run[0] >= 256 {
            mended.extend(run);
            continue;
        }
        let bytes: Vec<u8> = run.iter().map(|id| *id as u8).collect();
        for chunk in bytes.utf8_chunks() {
            mended.extend(chunk.valid().bytes().map(u32::from));
            mended.extend(chunk.invalid().iter().map(|_| replacement));
        }
    }
    mended
}

/// Holds what comes out with each token against the decode of all of them.
fn check(
    tokenizer: &Arc<Tokenizer>,
    ids: &[u32],
    whole: &str,
    undecided: usize,
) -> Result<(), TestCaseError> {
    let mut detokenizer = Detokenizer::new(Arc::clone(tokenizer));
    let mut stop = StopStrings::new(["END"]);
    let (mut text, mut stopped) = (String::new(), false);
    for (index, id) in ids.iter().enumerate() {
        let before = text.len();
        detokenizer.push(*id, &mut text);
        stopped = stopped || stop.push(&text[before..], &mut String::new());
        let mut ended = String::new();
        detokenizer.clone().finish(&mut ended);
        prop_assert!(
            ended.chars().count() <= undecided,
            "{:?} after {:?}",
            ended,
            &ids[..=index]
        );
        let so_far = text.contains("END");
        prop_assert_eq!(stopped, so_far, "{:?}", text);
    }
    detokenizer.finish(&mut text);
    prop_assert_eq!(text, whole, "{:?}", tokenizer.inner.get_decoder());
    Ok(())
}

fn stream(tokenizer: &Arc<Tokenizer>, ids: &[u32]) -> Vec<String> {
    let mut detokenizer = Detokenizer::new(Arc::clone(tokenizer));
    let mut parts = Vec::new();
    for id in ids {
        let mut out = String::new();
        detokenizer.push(*id, &mut out);
        parts.push(out);
    }
    let mut out = String::new();
    detokenizer.finish(&mut out);
    parts.push(out);
    parts
}

#[test]
fn a_character_comes_with_its_last_byte() {
    let tokenizer = Arc::new(fixture::byte_level());
    let ids: Vec<u32> = "é€".bytes().map(fixture::byte_token).collect();
    assert_eq!(stream(&tokenizer, &ids), ["", "é", "", "", "€", ""]);
}

#[test]
fn half_a_character_at_the_end_is_one_replacement() {
    let tokenizer = Arc::new(fixture::byte_level());
    let ids = [0xe2, 0x82].map(fixture::byte_token);
    assert_eq!(stream(&tokenizer, &ids), ["", "", "\u{fffd}"]);
}

#[test]
fn special_and_unknown_tokens_have_no_text() {
    let tokenizer = Arc::new(fixture::byte_level());
    let eos = tokenizer.eos().unwrap();
    assert_eq!(
        stream(
            &tokenizer,
            &[fixture::byte_token(b'a'), eos, 999_999, u32::MAX]
        )
        .concat(),
        "a"
    );
}

#[test]
fn text_and_stop_strings_go_on_after_bytes_that_are_no_text() {
    let mut ids: Vec<u32> = "😀".bytes().map(u32::from).collect();
    ids.extend([
        0xff,
        id_of("a"),
        0xe2,
        0x82,
        id_of("b"),
        id_of("END"),
        id_of("a"),
    ]);
    for tokenizer in WITH_BYTES.iter() {
        let parts = stream(tokenizer, &ids);
        let wanted = [
            "",
            "",
            "",
            "😀",
            "\u{fffd}",
            "a",
            "",
            "",
            "\u{fffd}\u{fffd}b",
            "END",
            "a",
            "",
        ];
        assert_eq!(parts, wanted);
        let mut stop = StopStrings::new(["END"]);
        let mut text = String::new();
        assert!(parts.iter().any(|part| stop.push(part, &mut text)));
        assert_eq!(text, "😀\u{fffd}a\u{fffd}\u{fffd}b");
    }
}

#[test]
fn spaces_at_the_end_wait_for_what_comes_after_them() {
    let strip = json!({"type": "Strip", "content": " ", "start": 0, "stop": 2});
    let tokenizer = Arc::new(fixture::decoding(&sequence(&[
        json!({"type": "Fuse"}),
        strip,
    ])));
    let [a, space] = ["a", " "].map(id_of);
    let parts = stream(&tokenizer, &[a, space, space, space, a, space]);
    assert_eq!(parts, ["a", "", "", " ", "  a", "", ""]);
    // The library panics over a text that is shorter than what it would strip.
    assert_eq!(stream(&tokenizer, &[space]), ["", ""]);
}

#[test]
fn an_answer_of_stray_bytes_alone_comes_out_as_it_is_made() {
    for tokenizer in WITH_BYTES.iter() {
        let parts = stream(tokenizer, &[0xff; 100]);
        assert!(
            parts[..100].iter().all(|part| part == "\u{fffd}"),
            "{parts:?}"
        );
        // All of them are no text for the library too.
        assert_eq!(parts.concat(), tokenizer.decode(&[0xff; 100]).unwrap());
    }
}

#[test]
fn a_text_that_is_gone_on_with_keeps_its_space() {
    let tokenizer = fixture::shared_byte_fallback();
    let after = |prompt: &str, tokens: &[u32]| {
        let prompt = tokenizer.encode_raw(prompt).unwrap();
        let mut detokenizer = Detokenizer::after(Arc::clone(&tokenizer), &prompt);
        let mut text = String::new();
        tokens
            .iter()
            .for_each(|token| detokenizer.push(*token, &mut text));
        detokenizer.finish(&mut text);
        text
    };
    let word = tokenizer.token_id("▁ab").unwrap();
    assert_eq!(after("ab", &[word]), " ab");
    assert_eq!(after("ab", &[word, word]), " ab ab");
    // A text that has not begun yet begins with the word.
    assert_eq!(after("", &[word]), "ab");
}

#[test]
fn a_verbatim_text_is_what_its_tokens_stand_for() {
    let tokenizer = fixture::shared_byte_fallback();
    let mut detokenizer = Detokenizer::verbatim(Arc::clone(&tokenizer));
    let mut parts = Vec::new();
    let word = tokenizer.token_id("▁ab").unwrap();
    let euro = "€".bytes().map(|byte| 3 + u32::from(byte));
    let special = tokenizer.eos().unwrap();
    for token in [word, special, word, u32::MAX].into_iter().chain(euro) {
        let mut out = String::new();
        detokenizer.push(token, &mut out);
        parts.push(out);
    }
    assert_eq!(parts, [" ab", "", " ab", "", "", "", "€"]);
}

proptest! {
    /// Whatever the decoder; bytes that are no text are replaced as when all are known.
    #[test]
    fn verbatim_parts_joined_are_the_bytes_of_all_tokens(ids in any_tokens()) {
        for tokenizer in EXACT.iter().chain(WITH_BYTES.iter()) {
            let mut detokenizer = Detokenizer::verbatim(Arc::clone(tokenizer));
            let (mut text, mut bytes) = (String::new(), Vec::new());
            for id in &ids {
                detokenizer.push(*id, &mut text);
                bytes.extend(tokenizer.token_bytes(*id).unwrap_or_default());
            }
            detokenizer.finish(&mut text);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }

    /// The text of a continuation is what the whole text has beyond the beginning.
    #[test]
    fn what_goes_on_after_tokens_is_the_rest_of_the_whole_decode(ids in any_tokens(), share in 0.0..1.0f64) {
        for tokenizer in EXACT.iter() {
            let (before, after) = ids.split_at((ids.len() as f64 * share) as usize);
            let mut detokenizer = Detokenizer::after(Arc::clone(tokenizer), before);
            let mut text = String::new();
            after.iter().for_each(|id| detokenizer.push(*id, &mut text));
            detokenizer.finish(&mut text);
            let whole = stream(tokenizer, &ids).concat();
            let begun = stream(tokenizer, before).concat();
            if let Some(rest) = whole.strip_prefix(begun.as_str()) {
                prop_assert_eq!(text.as_str(), rest, "after {:?}", before);
            }
        }
    }

    #[test]
    fn parts_of_any_tokens_joined_are_the_whole_decode(ids in proptest::collection::vec(0u32..270, 0..64)) {
        let tokenizer = fixture::shared();
        prop_assert_eq!(stream(&tokenizer, &ids).concat(), tokenizer.decode(&ids).unwrap());
    }

    #[test]
    fn text_survives_any_split_over_tokens(text in "\\PC{0,24}") {
        let tokenizer = fixture::shared();
        let by_bytes: Vec<u32> = text.bytes().map(fixture::byte_token).collect();
        prop_assert_eq!(stream(&tokenizer, &by_bytes).concat(), text.as_str());
        let by_tokens = tokenizer.encode_literal(&text).unwrap();
        prop_assert_eq!(stream(&tokenizer, &by_tokens).concat(), text.as_str());
    }

    #[test]
    fn a_sentencepiece_tokenizer_streams_its_decode(text in "[ab é€]{0,16}") {
        let tokenizer = fixture::shared_byte_fallback();
        let ids = tokenizer.encode(&text).unwrap();
        let parts = stream(&tokenizer, &ids);
        let half = parts.iter().any(|part| part.contains(char::REPLACEMENT_CHARACTER));
        prop_assert!(!half);
        prop_assert_eq!(parts.concat(), tokenizer.decode(&ids).unwrap());
    }

    #[test]
    fn parts_of_any_tokens_joined_are_the_whole_decode_of_every_decoder(ids in any_tokens()) {
        for tokenizer in EXACT.iter() {
            let whole = tokenizer.decode(&ids).unwrap();
            check(tokenizer, &ids, &whole, LONGEST_NAME)?;
        }
    }

    #[test]
    fn of_any_byte_tokens_characters_stay_and_the_others_are_replaced(ids in any_tokens()) {
        for tokenizer in WITH_BYTES.iter() {
            let mended = mended(&ids);
            check(tokenizer, &ids, &tokenizer.decode(&mended).unwrap(), MOST_UNDECIDED)?;
        }
    }
}
