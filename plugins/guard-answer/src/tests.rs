use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_sdk::testing::{Harness, TestLane, TestRecord};

use super::*;

fn config() -> Value {
    json!({
        "stop": ["the end"],
        "filter": ["hotwire"],
        "cover": [{"pattern": "AC-\\d{4}", "with": "\"AC\""}, {"pattern": "\\d{3,6}!?", "with": "x"}],
    })
}

fn started() -> Harness<GuardAnswer> {
    Harness::start(config()).unwrap()
}

fn each(lane: TestLane, pieces: &[&str]) -> Vec<Through> {
    let operator = started();
    let mut lane = operator.open(&lane).unwrap();
    let last = pieces.len() - 1;
    let steps = pieces.iter().enumerate();
    steps
        .map(|(at, piece)| lane.step(piece, at == last))
        .collect()
}

fn texts(through: &[Through]) -> Vec<&str> {
    through
        .iter()
        .map(|through| through.text.as_str())
        .collect()
}

#[test]
fn what_may_still_match_waits_and_nothing_else() {
    let through = each(
        TestLane::content(),
        &["acc", "ount AC-", "12", "34 or AC-", "7"],
    );
    assert_eq!(texts(&through), ["acc", "ount ", "", "\"AC\" or ", "AC-7"]);
    let through = each(TestLane::content(), &["it is 12", "34", " and 12", "."]);
    assert_eq!(texts(&through), ["it is ", "", "x and ", "12."]);
}

#[test]
fn a_word_ends_the_answer_where_it_is_whole() {
    let through = each(
        TestLane::content(),
        &["no hotwired car; HOT", "WIRE", " it"],
    );
    assert_eq!(texts(&through), ["no hotwired car; ", "", ""]);
    assert_eq!(through[2].end, Some(Ending::Filtered));
    let through = each(TestLane::content(), &["and this is The End", ""]);
    assert_eq!(texts(&through), ["and this is ", ""]);
    assert_eq!(through[1].end, Some(Ending::Stop));
}

#[test]
fn what_is_put_into_arguments_is_escaped() {
    let through = each(TestLane::arguments(), &["{\"a\": \"AC-", "1234\"}"]);
    let sum = texts(&through).concat();
    let arguments: Value = serde_json::from_str(&sum).unwrap();
    assert_eq!(arguments["a"], "\"AC\"");
}

#[test]
fn strings_of_json_are_looked_at_as_they_read() {
    for lane in [TestLane::content(), TestLane::arguments()] {
        // What is put there keeps it JSON, and what was not touched stays as it was written.
        let text = "{\"a\": \"caf\\u00e9 A\\u0043-1234\", \"n\": [1234, 12], \"b\": \"{\\\"c\\\":\\\"AC-1234\\\"}\"}";
        let covered = "{\"a\": \"caf\\u00e9 \\\"AC\\\"\", \"n\": [\"x\", 12], \"b\": \"{\\\"c\\\":\\\"\\\\\\\"AC\\\\\\\"\\\"}\"}";
        assert_eq!(texts(&each(lane.clone(), &[text, ""])).concat(), covered);
        let through = each(
            lane.clone(),
            &["{\"a\": \"so h\\u006", "ft\\u0077ire", "\"}"],
        );
        assert_eq!(texts(&through)[..2], ["{\"a\": \"so ", ""], "{through:?}");
        assert_eq!(through[2].end, Some(Ending::Filtered));
        let through = each(
            lane.clone(),
            &["{\"a\": \"{\\\"b\\\": \\\"hot\\\\u0077ire\\\"", "}\"}"],
        );
        assert_eq!(through[0].end, Some(Ending::Filtered));
        // Each is a text by itself.
        let apart = "[\"hot\", \"wire\", \"the\", \"end\", 123, \"4\"]";
        assert_eq!(
            texts(&each(lane, &[apart, ""])).concat(),
            apart.replace("123", "\"x\"")
        );
    }
}

#[test]
fn what_only_begins_like_json_is_looked_at_as_it_is_written() {
    let config = json!({"cover": [{"pattern": "\\[\\d\\]", "with": ""}, {"pattern": "hot wire", "with": "x"}]});
    let operator = Harness::<GuardAnswer>::start(config).unwrap();
    for (text, through) in [
        ("[1] is so [2]", " is so "),
        ("[1, hot wire", "[1, x"),
        ("{\"a\": 1, hot wire", "{\"a\": 1, x"),
        ("{\"a\": hot wire", "{\"a\": x"),
        ("[3", "[3"),
        ("{\"[1]\": \"[\", \"[4", "{\"\": \"[\", \"[4"),
        ("{\"a\": \"\\ud8", "{\"a\": \"\\ud8"),
    ] {
        for cut in 0..=text.len() {
            let lane = operator.open(&TestLane::content()).unwrap();
            let came = lane.run([&text[..cut], &text[cut..], ""]);
            assert_eq!(came, (through.to_owned(), None), "{text} at {cut}");
        }
    }
}

#[test]
fn a_record_is_guarded_as_its_answer_is() {
    let answer = started().run_one(TestRecord::of(
        r#"{"n": 1234, "a": "AC-1234 the end of it"}"#,
    ));
    let record = answer.record();
    assert_eq!(record.text().unwrap(), r#"{"n": 1234, "a": "\"AC\" "}"#);
    assert!(started().run_one(TestRecord::of("nothing here")).is_pass());
    assert!(started().run_one(TestRecord::of([0xff])).is_pass());
}

#[test]
fn a_pattern_without_a_bound_is_named() {
    for (pattern, why) in [
        ("\\d+", "+ has no bound; write {1,32}"),
        ("a*", "* has no bound"),
        ("\\d{300}", "is not as {2} or {2,8}"),
        ("a{200}b{200}", "it matches up to 400 characters, limit 256"),
        ("a?", "it matches an empty text"),
        ("(a)", "( stands for nothing here"),
        ("[a", "a [ has no ]"),
        ("[z-a]", "z-a is the wrong way round"),
        ("\\q", "\\q stands for nothing"),
    ] {
        let config = json!({"cover": [{"pattern": pattern}]});
        let failure = Harness::<GuardAnswer>::start(config).unwrap_err();
        assert!(
            failure.message.contains("`cover`") && failure.message.contains(why),
            "{failure}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x6775_6172),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn however_a_text_is_cut_the_same_goes_through(
        parts in prop::collection::vec(prop_oneof![
            Just("AC-1234".to_owned()), Just("AC-".to_owned()), Just("the end".to_owned()), Just("hotwire".to_owned()),
            Just("[{\"a\":\"".to_owned()), Just("[1,\"".to_owned()), "[\\[{\"\\\\u0-9,:}\\]]{0,4}", Just("\\u0031".to_owned()),
            "[0-9]{1,8}", "[ !a.THE-]{0,3}", any::<String>(),
        ], 0..10),
        cuts in prop::collection::vec(0usize..120, 0..12),
    ) {
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let operator = started();
        for kind in [LaneKind::Content, LaneKind::Arguments(0)] {
            let lane = || operator.open(&TestLane::of(kind)).unwrap();
            let whole = lane().run([text.as_str()]);
            // As every lane ends: what was held back goes out without a text.
            prop_assert_eq!(&lane().run([text.as_str(), ""]), &whole);
            prop_assert_eq!(&lane().run(cuts.windows(2).map(|cut| &text[cut[0]..cut[1]])), &whole);
            let chars: Vec<String> = text.chars().map(String::from).collect();
            prop_assert_eq!(&lane().run(chars.iter().map(String::as_str)), &whole);
            let is_covered = !whole.0.contains("AC-1234") && !whole.0.contains("123");
            // An escape is written in digits too.
            prop_assert!(is_covered || text.contains('\\'));
        }
    }
}
