//! Handlers of tokens that the SDKs of all languages make, of `plugin-sdk/conformance`: many lanes in one instance, and how
//! each fails. What each does with one text, the conformance suite has.

use tidegate_contract::{AnswerEnd, AnswerLane, Lane, OperatorError, Slot, TokenHandler};
use tidegate_operator::{ComponentSlot, Grants, SlotOptions};

use crate::support::*;

const LANGUAGES: [&str; 5] = ["rust", "c", "js", "python", "go"];

fn started(language: &str) -> ComponentSlot {
    let component = format!("conformance-{language}");
    let options = SlotOptions {
        grants: Grants::ALL,
        limits: patient(),
        ..SlotOptions::new(&component)
    };
    ComponentSlot::new(&KEEPING, options, &guest(&component), &component).unwrap()
}

/// Opens a lane that its handler does this with.
fn open(handler: &mut dyn TokenHandler, number: u64, does: &str) -> Result<(), OperatorError> {
    let lane = AnswerLane {
        record: "source 0 partition 2 offset 7",
        model: does,
        choice: 1,
        lane: Lane::Arguments(3),
        attributes: &[("a".to_owned(), b"1".to_vec())],
    };
    handler.open(number, &lane)
}

fn step(handler: &mut dyn TokenHandler, number: u64, text: &str) -> String {
    handler.step(number, text, false).unwrap().text
}

#[test]
fn lanes_of_many_answers_are_open_at_the_same_time() {
    for language in LANGUAGES {
        let slot = started(language);
        assert!(slot.handles_tokens(), "{language}");
        let mut handler = slot.tokens().unwrap().handler;
        for number in 0..200 {
            let does = ["hold", "upper", "stop", "lane"][number as usize % 4];
            open(&mut *handler, number, does).unwrap();
        }
        for round in ["a", "b"] {
            for number in 0..200 {
                let text = format!("{round}{number}");
                let came = step(&mut *handler, number, &text);
                let expected = match number % 4 {
                    0 | 3 => String::new(),
                    1 => text.to_uppercase(),
                    _ => text,
                };
                assert_eq!(came, expected, "{language}, lane {number}");
            }
        }
        // They end in another order than they began.
        for number in (0..200).rev() {
            let came = handler.step(number, "EN", true).unwrap();
            let expected = match number % 4 {
                0 => format!("a{number}b{number}EN"),
                3 => "source 0 partition 2 offset 7|lane|1|arguments 3|a=1|last a=1".to_owned(),
                _ => "EN".to_owned(),
            };
            assert_eq!(came.text, expected, "{language}, lane {number}");
            handler.close(number);
        }
        // A number that was closed begins anew.
        open(&mut *handler, 7, "hold").unwrap();
        assert_eq!(handler.step(7, "x", true).unwrap().text, "x", "{language}");
        assert_eq!(slot.stats().instances_lost, 0, "{language}");
    }
}

#[test]
fn a_lane_that_is_refused_or_ended_leaves_the_others_open() {
    for language in LANGUAGES {
        let slot = started(language);
        let mut handler = slot.tokens().unwrap().handler;
        open(&mut *handler, 1, "hold").unwrap();
        let refused = open(&mut *handler, 2, "refuse").unwrap_err();
        assert!(
            matches!(&refused, OperatorError::Poison { why, .. } if why.contains("no-lane: the lane asks for it")),
            "{language}: {refused}"
        );
        open(&mut *handler, 2, "filter").unwrap();
        let ended = handler.step(2, "so far END", false).unwrap();
        assert_eq!(
            (ended.text.as_str(), ended.end),
            ("so far ", Some(AnswerEnd::Filtered)),
            "{language}"
        );
        handler.close(2);
        step(&mut *handler, 1, "one ");
        let last = handler.step(1, "two", true).unwrap();
        assert_eq!(last.text, "one two", "{language}");
        assert_eq!(slot.stats().instances_lost, 0, "{language}");
    }
}

#[test]
fn what_a_language_raises_in_a_step_ends_its_lane() {
    for (language, said, lost) in [
        // What ends the instance says so in the log.
        ("rust", "was lost: trap: ", 1),
        ("c", "was lost: trap: ", 1),
        ("js", "Error: boom (conformance.js:", 0),
        ("python", "RuntimeError: boom (conformance.py:", 0),
        ("go", "panic: boom (tokens.go:", 0),
    ] {
        let slot = started(language);
        let mut handler = slot.tokens().unwrap().handler;
        open(&mut *handler, 1, "throw").unwrap();
        open(&mut *handler, 2, "").unwrap();
        assert_eq!(step(&mut *handler, 2, "good"), "good");
        let error = handler.step(1, "x", false).unwrap_err();
        let of_lane = matches!(error, OperatorError::Poison { .. });
        assert_eq!(of_lane, lost == 0, "{language}: {error:?}");
        let error = error.to_string();
        assert!(error.contains(said), "{language}: {error}");
        let beside = handler.step(2, "good", false);
        assert_eq!(beside.is_ok(), lost == 0, "{language}: {beside:?}");
        assert_eq!(slot.stats().instances_lost, lost, "{language}");
        // Where the instance is lost, the next lane has another.
        open(&mut *handler, 3, "").unwrap();
        assert_eq!(step(&mut *handler, 3, "good"), "good", "{language}");
    }
}

/// In Rust a step has no failure in words.
#[test]
fn a_step_that_fails_in_words_costs_no_instance_and_no_other_lane() {
    for language in ["c", "js", "python", "go"] {
        let slot = started(language);
        let mut handler = slot.tokens().unwrap().handler;
        open(&mut *handler, 1, "fail").unwrap();
        open(&mut *handler, 2, "hold").unwrap();
        assert_eq!(step(&mut *handler, 1, "good"), "good");
        assert_eq!(step(&mut *handler, 2, "held"), "");
        let error = handler.step(1, "bad", false).unwrap_err();
        assert!(
            matches!(error, OperatorError::Poison { .. }),
            "{language}: {error:?}"
        );
        let error = error.to_string();
        assert!(
            error.contains("asked-for: the text asks for it"),
            "{language}: {error}"
        );
        let last = handler.step(2, "", true).unwrap();
        assert_eq!(last.text, "held", "{language}");
        assert_eq!(slot.stats().instances_lost, 0, "{language}");
    }
}

#[test]
fn an_operator_without_a_handler_does_not_export_one() {
    let interface = b"tidegate:operator/tokens@1.0.0";
    let exports = |component: &str| {
        let bytes = guest(component);
        bytes
            .windows(interface.len())
            .any(|found| found == interface)
    };
    for language in LANGUAGES {
        assert!(exports(&format!("conformance-{language}")), "{language}");
    }
    for component in [
        "redact-pii",
        "parse-logs",
        "map-fields",
        "chunk-text",
        "validate-schema",
    ] {
        assert!(!exports(component), "{component}");
    }
}
