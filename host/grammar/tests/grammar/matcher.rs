//! What the matcher promises besides.

use crate::common::{self, END, OTHER_END, Random, allowed, byte_token, compiler, tokens};
use proptest::prelude::*;
use tidegate_contract::Structure;
use tidegate_grammar::{Compiler, GrammarError, Matcher, Vocabulary};

const PERSON: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["é", "b"]}}},
    "required": ["name", "tags"], "additionalProperties": false}"#;

fn words() -> usize {
    tokens().len().div_ceil(32)
}

fn spell(matcher: &mut Matcher, text: &str) {
    for byte in text.bytes() {
        matcher.accept(byte_token(byte)).unwrap();
    }
}

fn lark(text: &str) -> Structure {
    Structure::Grammar(text.into())
}

#[test]
fn a_forced_prefix_is_accepted_token_by_token_or_the_wrong_one_is_named() {
    let mut matcher = compiler()
        .matcher(&Structure::JsonSchema(PERSON.into()))
        .unwrap();
    spell(&mut matcher, r#"{"name": "a"#);
    assert_eq!(matcher.accepted(), 11);
    let mut matcher = compiler()
        .matcher(&Structure::JsonSchema(PERSON.into()))
        .unwrap();
    spell(&mut matcher, r#"{""#);
    let before = allowed(&mut matcher, words()).unwrap();
    let refused = matcher.accept(byte_token(b'x')).unwrap_err();
    assert_eq!(
        refused,
        GrammarError::Refused {
            token: byte_token(b'x'),
            at: 2
        }
    );
    assert_eq!(
        refused.to_string(),
        "token 122 at 2 is not what the structure asks for"
    );
    for impossible in [1, 299, 301, u32::MAX, END] {
        assert_eq!(
            matcher.accept(impossible).unwrap_err(),
            GrammarError::Refused {
                token: impossible,
                at: 2
            }
        );
    }
    assert_eq!(allowed(&mut matcher, words()).unwrap(), before);
    spell(&mut matcher, r#"name":"x","tags":[]}"#);
    assert!(matcher.must_end());
}

#[test]
fn end_tokens_are_allowed_exactly_where_the_text_may_end() {
    let mut matcher = compiler().matcher(&Structure::Regex("ab?".into())).unwrap();
    assert_eq!(allowed(&mut matcher, words()).unwrap(), [byte_token(b'a')]);
    assert!(!matcher.may_end().unwrap());
    spell(&mut matcher, "a");
    assert!(matcher.may_end().unwrap() && !matcher.must_end());
    assert_eq!(
        allowed(&mut matcher, words()).unwrap(),
        [END, byte_token(b'b'), OTHER_END]
    );
    spell(&mut matcher, "b");
    assert!(matcher.must_end() && !matcher.ended());
    assert_eq!(allowed(&mut matcher, words()).unwrap(), [END, OTHER_END]);
    matcher.accept(OTHER_END).unwrap();
    assert!(matcher.ended());
    assert_eq!(matcher.accepted(), 3);
    assert_eq!(
        matcher.accept(END).unwrap_err(),
        GrammarError::Refused { token: END, at: 3 }
    );
    assert_eq!(allowed(&mut matcher, words()).unwrap(), [END, OTHER_END]);
}

#[test]
fn an_empty_text_may_be_asked_for() {
    for structure in [
        Structure::Regex(String::new()),
        Structure::Choice(vec![String::new()]),
    ] {
        let mut matcher = compiler().matcher(&structure).unwrap();
        assert_eq!(
            allowed(&mut matcher, words()).unwrap(),
            [END, OTHER_END],
            "{structure:?}"
        );
        matcher.accept(END).unwrap();
    }
}

#[test]
fn characters_may_be_split_over_tokens() {
    let matcher = compiler()
        .matcher(&Structure::Choice(vec!["é😀".into()]))
        .unwrap();
    // 'é' as a token, then 2 + 2 bytes of the smiley as 2 + 1 + 1.
    let whole = tokens()
        .iter()
        .position(|t| t.as_deref() == Some("é".as_bytes()))
        .unwrap() as u32;
    let half = tokens()
        .iter()
        .position(|t| t.as_deref() == Some(&"😀".as_bytes()[..2]))
        .unwrap() as u32;
    for path in [
        vec![whole, half],
        "é".bytes().map(byte_token).chain([half]).collect(),
    ] {
        let mut matcher = matcher.clone();
        for token in path {
            assert!(allowed(&mut matcher, words()).unwrap().contains(&token));
            matcher.accept(token).unwrap();
        }
        for byte in &"😀".as_bytes()[2..] {
            assert_eq!(allowed(&mut matcher, words()).unwrap(), [byte_token(*byte)]);
            matcher.accept(byte_token(*byte)).unwrap();
        }
        assert!(matcher.must_end());
    }
    // In free text a character that was begun is finished.
    let mut matcher = compiler().matcher(&Structure::Regex(".*".into())).unwrap();
    matcher.accept(byte_token(0xf0)).unwrap();
    assert!(!matcher.may_end().unwrap());
    let next = allowed(&mut matcher, words()).unwrap();
    assert!(
        !next.is_empty()
            && next
                .iter()
                .all(|t| tokens()[*t as usize].as_ref().unwrap()[0] & 0xc0 == 0x80)
    );
}

#[test]
fn tokens_of_the_same_bytes_are_allowed_together() {
    let mut matcher = compiler()
        .matcher(&Structure::Choice(vec!["12".into()]))
        .unwrap();
    let twice: Vec<u32> = (0..)
        .zip(tokens())
        .filter(|(_, t)| t.as_deref() == Some(b"12"))
        .map(|(id, _)| id)
        .collect();
    assert_eq!(twice.len(), 2);
    let set = allowed(&mut matcher, words()).unwrap();
    assert!(twice.iter().all(|id| set.contains(id)));
}

#[test]
fn guesses_are_counted_without_taking_them() {
    let mut matcher = compiler()
        .matcher(&Structure::Regex("abc?".into()))
        .unwrap();
    let [a, b, c] = [b'a', b'b', b'c'].map(byte_token);
    for (guess, count) in [
        (vec![], 0),
        (vec![a], 1),
        (vec![b], 0),
        (vec![a, b, c], 3),
        (vec![a, b, END], 3),
        (vec![a, END], 1),
        (vec![a, b, c, OTHER_END, a], 4),
        (vec![a, b, b], 2),
        (vec![1, a], 0),
        (vec![a, 99_999], 1),
        (vec![END], 0),
    ] {
        assert_eq!(matcher.accepts(&guess).unwrap(), count, "{guess:?}");
        assert_eq!(matcher.accepted(), 0);
    }
    spell(&mut matcher, "abc");
    assert_eq!(matcher.accepts(&[END, END]).unwrap(), 1);
    assert_eq!(matcher.accepts(&[a]).unwrap(), 0);
    matcher.accept(END).unwrap();
    assert_eq!(matcher.accepts(&[END]).unwrap(), 0);
}

#[test]
fn more_than_was_accepted_cannot_be_taken_back() {
    let mut matcher = compiler().matcher(&Structure::Regex("ab".into())).unwrap();
    spell(&mut matcher, "ab");
    assert_eq!(
        matcher.rollback(3).unwrap_err(),
        GrammarError::Rollback {
            tokens: 3,
            accepted: 2
        }
    );
    matcher.rollback(0).unwrap();
    assert!(matcher.must_end());
}

#[test]
fn a_grammar_that_counts_tokens_can_go_back_too() {
    let mut matcher = compiler()
        .matcher(&lark("start: word \"!\"\nword[max_tokens=3]: /[a-z]+/\n"))
        .unwrap();
    spell(&mut matcher, "ab");
    let before = allowed(&mut matcher, words()).unwrap();
    spell(&mut matcher, "c");
    matcher.rollback(1).unwrap();
    assert_eq!(allowed(&mut matcher, words()).unwrap(), before);
    assert_eq!(matcher.accepted(), 2);
    spell(&mut matcher, "c!");
    assert!(matcher.must_end());
}

#[test]
fn a_grammar_in_larks_syntax_is_followed() {
    let sums = "start: sum\nsum: NUMBER (\"+\" NUMBER)*\nNUMBER: /[1-9][0-9]?/\n%ignore / /\n";
    let matcher = compiler().matcher(&lark(sums)).unwrap();
    for (text, whole) in [("1 + 22", true), ("7", true), ("1+", false)] {
        let mut matcher = matcher.clone();
        spell(&mut matcher, text);
        assert_eq!(matcher.may_end().unwrap(), whole, "{text}");
    }
    let mut wrong = matcher.clone();
    assert!(wrong.accept(byte_token(b'0')).is_err());
    // A special token only if the grammar names its number.
    let mut named = compiler()
        .matcher(&lark("start: \"a\" <[1]> \"b\"\n"))
        .unwrap();
    spell(&mut named, "a");
    assert_eq!(allowed(&mut named, words()).unwrap(), [1]);
    assert_eq!(named.accepts(&[1, byte_token(b'b'), END]).unwrap(), 3);
    named.accept(1).unwrap();
    named.rollback(1).unwrap();
    named.accept(1).unwrap();
    spell(&mut named, "b");
    assert!(named.must_end());
}

#[test]
fn text_up_to_the_end_token_may_be_asked_for() {
    let mut matcher = compiler()
        .matcher(&lark("start: \"a\" rest\nrest[stop=\"\"]: /.*/\n"))
        .unwrap();
    spell(&mut matcher, "ab");
    assert!(allowed(&mut matcher, words()).unwrap().contains(&OTHER_END));
    assert!(matcher.may_end().unwrap());
    assert_eq!(matcher.accepts(&[byte_token(b'c'), OTHER_END]).unwrap(), 2);
    matcher.accept(OTHER_END).unwrap();
    assert!(matcher.ended());
}

#[test]
fn a_vocabulary_without_some_bytes_is_a_dead_end_that_is_said() {
    let vocabulary =
        Vocabulary::new(vec![None, Some(b"a".to_vec()), Some(b"bc".to_vec())], &[0]).unwrap();
    let compiler = Compiler::new(vocabulary);
    let mut matcher = compiler.matcher(&Structure::Regex("a[bd]".into())).unwrap();
    matcher.accept(1).unwrap();
    assert_eq!(
        matcher.mask(&mut [0]).unwrap_err(),
        GrammarError::DeadEnd { at: 1 }
    );
    // What is kept of the structure is not harmed.
    let mut matcher = compiler.matcher(&Structure::Regex("a[bd]".into())).unwrap();
    assert_eq!(allowed(&mut matcher, 1).unwrap(), [1]);
}

#[test]
fn a_mask_may_be_longer_than_the_vocabulary_but_not_shorter() {
    let mut matcher = compiler()
        .matcher(&Structure::Regex("(?s).*".into()))
        .unwrap();
    let mut mask = vec![u32::MAX; words() + 3];
    matcher.mask(&mut mask).unwrap();
    assert_eq!(mask[words()..], [0; 3]);
    assert_eq!(mask[words() - 1] >> (tokens().len() % 32), 0);
    let error = matcher.mask(&mut vec![0; words() - 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mask of 9 words is too short for a vocabulary of 10 words"
    );
}

#[test]
fn matchers_of_one_structure_do_not_disturb_each_other_on_any_thread() {
    let compiler = compiler();
    let structure = Structure::JsonSchema(PERSON.into());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (compiler, structure) = (&compiler, &structure);
            scope.spawn(move || {
                for round in 0..10 {
                    let mut matcher = compiler.matcher(structure).unwrap();
                    let text = common::walk(
                        &mut matcher,
                        &tokens(),
                        &[END, OTHER_END],
                        seed * 100 + round,
                        20,
                    );
                    serde_json::from_slice::<serde_json::Value>(&text).unwrap();
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn taking_back_is_as_if_it_had_never_been_accepted(seed: u64, ahead in 1usize..30, back in 0usize..30, pattern: bool) {
        let structure = match pattern {
            true => Structure::Regex(r"(\w+ ){1,3}é?😀".into()),
            false => Structure::JsonSchema(PERSON.into()),
        };
        let compiler = compiler();
        let mut random = Random(seed);
        let mut matcher = compiler.matcher(&structure).unwrap();
        let mut path = Vec::new();
        let mut masks = Vec::new();
        while path.len() < ahead && !matcher.ended() {
            let set = allowed(&mut matcher, words()).unwrap();
            let token = set[random.below(set.len())];
            masks.push(set);
            matcher.accept(token).unwrap();
            path.push(token);
        }
        let back = back.min(path.len());
        matcher.rollback(back).unwrap();
        let left = path.len() - back;
        prop_assert_eq!(matcher.accepted(), left);
        // The same masks again on the same way, and the same as those of a matcher that only went so far.
        let mut fresh = compiler.matcher(&structure).unwrap();
        for token in &path[..left] {
            fresh.accept(*token).unwrap();
        }
        prop_assert_eq!(fresh.must_end(), matcher.must_end());
        prop_assert_eq!(fresh.may_end().unwrap(), matcher.may_end().unwrap());
        for (token, mask) in path[left..].iter().zip(&masks[left..]) {
            prop_assert_eq!(&allowed(&mut matcher, words()).unwrap(), mask);
            prop_assert_eq!(&allowed(&mut fresh, words()).unwrap(), mask);
            matcher.accept(*token).unwrap();
            fresh.accept(*token).unwrap();
        }
        prop_assert_eq!(fresh.ended(), matcher.ended());
    }

    #[test]
    fn the_mask_is_exactly_what_is_accepted(seed: u64, ahead in 0usize..25) {
        let compiler = compiler();
        let mut random = Random(seed);
        let mut matcher = compiler.matcher(&Structure::JsonSchema(PERSON.into())).unwrap();
        for _ in 0..ahead {
            let set = allowed(&mut matcher, words()).unwrap();
            matcher.accept(set[random.below(set.len())]).unwrap();
            if matcher.ended() {
                return Ok(());
            }
        }
        let set = allowed(&mut matcher, words()).unwrap();
        for token in 0..tokens().len() as u32 {
            let mut copy = matcher.clone();
            prop_assert_eq!(copy.accept(token).is_ok(), set.contains(&token), "token {}", token);
            prop_assert_eq!(matcher.accepts(&[token]).unwrap() == 1, set.contains(&token), "token {}", token);
        }
    }
}
