use proptest::prelude::*;
use serde_json::json;
use tidegate_sdk::config::config_schema;
use tidegate_sdk::testing::{Answer, Harness, TestRecord};
use tidegate_sdk_sandbox::{Came, Limits, Options, Sandbox, build};

use super::*;

fn start() -> Harness<DropAbuse> {
    Harness::start(json!({
        "words": ["ass", "shit", "cunt", "god", "hill billy", "Blödmann", "ばか", "kill yourself"],
    }))
    .unwrap()
}

#[track_caller]
fn dropped(texts: &[&str]) {
    let mut operator = start();
    for text in texts {
        assert!(
            operator.run_one(TestRecord::of(*text)).is_drop(),
            "{text:?} should be dropped"
        );
    }
}

#[track_caller]
fn passed(texts: &[&str]) {
    let mut operator = start();
    for text in texts {
        assert!(
            operator.run_one(TestRecord::of(*text)).is_pass(),
            "{text:?} should pass"
        );
    }
}

#[test]
fn whole_words_match_in_any_case() {
    dropped(&[
        "You ASS",
        "ass",
        "what an ass!",
        "shit-storm",
        "'shit'",
        "so: Shit.",
    ]);
}

#[test]
fn parts_of_words_do_not_match() {
    passed(&[
        "Scunthorpe",
        "the class passes",
        "assess the grass",
        "Mishit",
        "cassette",
        "godly",
        "",
    ]);
}

#[test]
fn digits_and_signs_are_read_as_letters() {
    dropped(&[
        "sh1t",
        "5h17",
        "a$$",
        "@ss",
        "@$$",
        "$hit",
        "c0n g0d",
        "h1ll bi1ly",
        "k1ll y0urself",
        "4ss",
        "@shit you",
        "$1 shit$",
    ]);
}

#[test]
fn numbers_prices_and_models_are_no_words() {
    passed(&[
        "455",
        "$455",
        "order 455 for $455.00",
        "Galaxy A55",
        "A455 road",
        "ships in 5 to 7 days",
    ]);
}

#[test]
fn drawn_out_letters_count_once() {
    dropped(&[
        "shiiiiit", "shhit", "asssss", "aaass", "SHIIIT", "goood", "CUUUNT",
    ]);
    passed(&["good", "as", "he has", "Asa"]);
}

#[test]
fn what_a_reader_does_not_see_is_not_seen_here() {
    dropped(&[
        "s\u{200b}h\u{200d}it",
        "sh\u{ad}it",
        "s\u{336}h\u{336}i\u{336}t\u{336}",
        "ｓｈｉｔ",
        "shít",
        "ѕhіt",
        "BLÖDMANN",
        "blodmann",
    ]);
}

#[test]
fn words_spelled_out_are_read_together() {
    dropped(&["s h i t", "you s.h.i.t you", "a-s-s"]);
    passed(&["a s s e t", "plan a s", "s h"]);
}

#[test]
fn phrases_match_over_any_separators() {
    dropped(&[
        "kill yourself",
        "go KILL,  yourself now",
        "kill kill yourself",
        "hill-billy",
    ]);
    passed(&[
        "kill the process yourself",
        "kill",
        "yourself kill",
        "uphill billy",
    ]);
}

#[test]
fn scripts_without_spaces_match_inside() {
    dropped(&["お前はばかだ"]);
    passed(&["ばいか", "かば"]);
}

#[test]
fn only_the_configured_members_are_looked_at() {
    let mut operator =
        Harness::<DropAbuse>::start(json!({"words": ["ass"], "paths": ["text"]})).unwrap();
    let value = |field: &str| json!({"id": 1, field: "you ass"}).to_string();
    assert!(operator.run_one(TestRecord::of(value("text"))).is_drop());
    assert!(operator.run_one(TestRecord::of(value("note"))).is_pass());
    assert!(
        operator
            .run_one(TestRecord::of(r#"{"text":"you \u0061ss"}"#))
            .is_drop()
    );
    assert!(
        operator
            .run_one(TestRecord::of("no JSON, you ass"))
            .is_drop()
    );
}

#[test]
fn the_action_is_as_configured() {
    let mut operator =
        Harness::<DropAbuse>::start(json!({"words": ["Ass"], "action": "dead-letter"})).unwrap();
    assert_eq!(
        operator.run_one(TestRecord::of("a$$")).reason(),
        Some("abusive: has \"Ass\"")
    );
    let mut operator =
        Harness::<DropAbuse>::start(json!({"words": ["Ass"], "action": "route"})).unwrap();
    let answer = operator.run_one(TestRecord::of("a$$"));
    assert_eq!(answer.output(), Some("abuse"));
    assert_eq!(answer.record().header_text("abuse"), Some("Ass"));
    assert_eq!(answer.record().text().unwrap(), "a$$");
}

#[test]
fn a_wrong_configuration_is_named() {
    let error = |config| Harness::<DropAbuse>::start(config).unwrap_err().message;
    assert!(error(json!({"words": []})).contains("`words` has 0 entries"));
    assert!(error(json!({"words": ["ok", "!!"]})).contains("\"!!\""));
    assert!(error(json!({})).contains("`words` is missing"));
    assert!(error(json!({"words": ["a"], "paths": ["a."]})).contains("\"a.\""));
    let action = error(json!({"words": ["a"], "action": "eat"}));
    assert!(
        action.contains("`action`")
            && action.contains("\"eat\"")
            && action.contains("\"dead-letter\""),
        "{action}"
    );
}

#[test]
fn null_values_pass() {
    assert!(matches!(
        start().run_one(TestRecord::default()),
        Answer::Pass(_)
    ));
}

#[test]
fn the_component_answers_as_the_operator_does_natively() {
    let config = json!({"words": ["ass"], "action": "route"});
    let records = ["an ass", "a class", "ａｓｓ", ""].map(TestRecord::of);
    let native = Harness::<DropAbuse>::start(&config).unwrap().run(&records);
    let component = build(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut operator = Sandbox::start(&component, Options::config(config)).unwrap();
    let came = operator.run(&records).unwrap();
    let came: Vec<&Answer> = came.iter().map(Came::answer).collect();
    assert_eq!(came, native.iter().collect::<Vec<_>>());
    assert_eq!(operator.outputs(), ["abuse"]);
    // As JSON: the order of members is that of a feature of serde_json, which another crate may have asked for.
    let schema = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(
        schema(&operator.config_schema()),
        schema(&config_schema::<Config>())
    );
}

#[test]
fn a_record_that_takes_too_much_memory_is_found_among_the_others() {
    let component = build(env!("CARGO_MANIFEST_DIR")).unwrap();
    let options = Options::config(json!({"words": ["ass"]}));
    let options = Options {
        limits: Limits {
            memory: 8 << 20,
            ..options.limits
        },
        ..options
    };
    let mut operator = Sandbox::start(&component, options).unwrap();
    let records = ["fine", &"x".repeat(16 << 20), "an ass"].map(TestRecord::of);
    let came = operator.run(&records).unwrap();
    assert!(came[0].answer().is_pass() && came[2].answer().is_drop());
    assert!(
        matches!(&came[1], Came::Poison { reason, .. } if reason.contains("memory")),
        "{:?}",
        came[1]
    );
    assert!(operator.lost_instances() > 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x6162_7573),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_text_panics_and_an_inserted_word_is_found(before in any::<String>(), after in any::<String>()) {
        let mut operator = start();
        let text = format!("{before} . cunt . {after}");
        prop_assert!(operator.run_one(TestRecord::of(text)).is_drop());
    }
}
