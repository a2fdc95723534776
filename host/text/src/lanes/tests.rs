use proptest::prelude::*;

use super::*;
use crate::{Channels, Tag};

fn form(calls: CallForm) -> AnswerForm {
    let tag = |text: &str| Tag::Text(text.into());
    AnswerForm {
        calls,
        reasoning: match calls {
            CallForm::Channels => (
                tag("<|channel|>analysis<|message|>"),
                tag("<|end|><|start|>assistant"),
            ),
            _ => (tag("<think>"), tag("</think>")),
        },
        opens: None,
        spaced: true,
        reasons: true,
        call: match calls {
            CallForm::Tagged => (tag("<tool_call>"), tag("</tool_call>")),
            CallForm::Bare => (tag("<|python_tag|>"), tag("")),
            CallForm::List => (tag("[TOOL_CALLS]"), tag("")),
            CallForm::Channels => (tag("<|channel|>"), tag("")),
        },
        named: None,
        channels: (calls == CallForm::Channels).then(|| Channels {
            channel: tag("<|channel|>"),
            constrain: tag("<|constrain|>"),
            message: tag("<|message|>"),
            end: tag("<|end|>"),
            start: tag("<|start|>"),
        }),
        shown: Vec::new(),
        shown_of_reasoning: Vec::new(),
    }
}

fn parser(calls: CallForm, thinks: bool) -> LaneParser {
    let names = vec!["weather".into(), "time".into()];
    LaneParser::new(&form(calls), thinks, names, true)
}

/// The lanes of an answer: content, reasoning, and name and arguments of each call.
type Lanes = (String, String, Vec<(String, String)>);

fn joined(segments: &[Segment]) -> Lanes {
    let mut lanes = Lanes::default();
    let mut end = 0;
    for segment in segments {
        assert!(
            segment.from >= end && segment.to >= segment.from,
            "{segments:?}"
        );
        end = segment.to;
        if let Some((id, name)) = &segment.begins {
            assert!(id.starts_with("call_") && id.len() == 29, "{id}");
            lanes.2.push((name.clone(), String::new()));
        }
        match segment.lane {
            Lane::Content => lanes.0.push_str(&segment.text),
            Lane::Reasoning => lanes.1.push_str(&segment.text),
            Lane::Arguments(call) => lanes.2[call as usize].1.push_str(&segment.text),
        }
    }
    lanes
}

fn run(mut parser: LaneParser, pieces: &[&str]) -> Lanes {
    let mut out = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut out);
    }
    parser.finish(&mut out);
    joined(&out)
}

fn lanes(content: &str, reasoning: &str, calls: &[(&str, &str)]) -> Lanes {
    let calls = calls
        .iter()
        .map(|(name, text)| ((*name).into(), (*text).into()));
    (content.into(), reasoning.into(), calls.collect())
}

/// Answers in each form, and their lanes.
fn answers() -> Vec<(CallForm, &'static str, Lanes)> {
    use CallForm::{Bare, Channels, List, Tagged};
    let paris = r#"{"city": "Paris {}\"]"}"#;
    let weather = ("weather", paris);
    vec![
        (Tagged, "Hello.\n", lanes("Hello.\n", "", &[])),
        (Tagged, "", lanes("", "", &[])),
        (Tagged, "  <thin air", lanes("  <thin air", "", &[])),
        (
            Tagged,
            "<think>\nHm.\n</think>\n\nHello.",
            lanes("Hello.", "Hm.", &[]),
        ),
        (Tagged, "<think>Hm. </thin", lanes("", "Hm. </thin", &[])),
        (
            Tagged,
            "A <think>b</think>",
            lanes("A <think>b</think>", "", &[]),
        ),
        (
            Tagged,
            "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris {}\\\"]\"}}\n</tool_call>\n\
             <tool_call>{\"arguments\": {}, \"name\": \"time\"}</tool_call>\n",
            lanes("I look.", "", &[weather, ("time", "{}")]),
        ),
        (
            Tagged,
            "<think>a</think>\n<tool_call>{\"name\":\"time\"}</tool_call> Done. ",
            lanes("Done. ", "a", &[("time", "{}")]),
        ),
        (
            Tagged,
            "<tool_call>{\"name\": \"time\", \"arguments\": \"{\\\"zone\\\": 1}\"}",
            lanes("", "", &[("time", "{\"zone\": 1}")]),
        ),
        (
            Tagged,
            "a <tool_call>{\"name\": \"unheard\", \"arguments\": {}}</tool_call>",
            lanes(
                "a <tool_call>{\"name\": \"unheard\", \"arguments\": {}}</tool_call>",
                "",
                &[],
            ),
        ),
        (
            Tagged,
            "<tool_call>\n<function=time>\n</tool_call>",
            lanes("<tool_call>\n<function=time>\n</tool_call>", "", &[]),
        ),
        (
            Tagged,
            "x <tool_call> <tool_call>{\"name\":\"time\",\"arguments\":{\"a\":[1",
            lanes("x <tool_call>", "", &[("time", "{\"a\":[1")]),
        ),
        (
            Tagged,
            "x\n<tool_call>{\"name\":\"ti",
            lanes("x\n<tool_call>{\"name\":\"ti", "", &[]),
        ),
        (
            Bare,
            "{\"name\": \"weather\", \"parameters\": {\"city\": \"Paris {}\\\"]\"}}; {\"name\":\"time\",\"parameters\":{}}",
            lanes("", "", &[weather, ("time", "{}")]),
        ),
        (
            Bare,
            "<|python_tag|>{\"type\": \"function\", \"name\": \"time\", \"parameters\": {}}",
            lanes("", "", &[("time", "{}")]),
        ),
        (Bare, "{\"a\": 1}", lanes("{\"a\": 1}", "", &[])),
        (
            Bare,
            "<|python_tag|>print(1)",
            lanes("<|python_tag|>print(1)", "", &[]),
        ),
        (
            Bare,
            "So: {\"name\": \"time\", \"parameters\": {}}",
            lanes("So: {\"name\": \"time\", \"parameters\": {}}", "", &[]),
        ),
        (
            List,
            "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris {}\\\"]\"}, \"id\": \"123456789\"}, \
             {\"name\": \"time\", \"arguments\": {}}]",
            lanes("", "", &[weather, ("time", "{}")]),
        ),
        (
            List,
            "Well.[TOOL_CALLS]weather[ARGS]{\"city\": \"Paris {}\\\"]\"}[TOOL_CALLS]time[CALL_ID]123456789[ARGS]{}",
            lanes("Well.", "", &[weather, ("time", "{}")]),
        ),
        (List, "[TOOL_CALLS] 7", lanes("[TOOL_CALLS] 7", "", &[])),
        (List, "[TOOL_CALLS][1]", lanes("[TOOL_CALLS][1]", "", &[])),
        (
            Channels,
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.\n",
            lanes("Hello.\n", "Hm.", &[]),
        ),
        (
            Channels,
            "<|channel|>final<|message|>A <|end",
            lanes("A <|end", "", &[]),
        ),
        (
            Channels,
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.weather \
             <|constrain|>json<|message|>{\"city\": \"Paris {}\\\"]\"}",
            lanes("", "Hm.", &[weather]),
        ),
        (
            Channels,
            "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.weather<|channel|>commentary \
             json<|message|> {\"city\": \"Paris {}\\\"]\"} <|end|><|start|>assistant<|channel|>commentary \
             to=functions.time<|message|>{}",
            lanes("I look.", "", &[weather, ("time", "{}")]),
        ),
        (
            Channels,
            "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>\
             <|start|>assistant<|channel|>final<|message|>Yes.<|end|>no more",
            lanes("I look.\n\nYes.", "Hm.", &[]),
        ),
        (
            Channels,
            "<|channel|>commentary to=functions.unheard <|constrain|>json<|message|>{}",
            lanes(
                "<|channel|>commentary to=functions.unheard <|constrain|>json<|message|>{}",
                "",
                &[],
            ),
        ),
        (
            Channels,
            "<|channel|>commentary to=functions.time<|message|>12",
            lanes(
                "<|channel|>commentary to=functions.time<|message|>12",
                "",
                &[],
            ),
        ),
        (
            Channels,
            "<|channel|>analysis to=browser<|message|>search",
            lanes("", "search", &[]),
        ),
        (
            Channels,
            "<|channel|>commentary to=fun",
            lanes("<|channel|>commentary to=fun", "", &[]),
        ),
        (Channels, "Plain.", lanes("Plain.", "", &[])),
    ]
}

#[test]
fn reasoning_and_calls_of_each_form_have_lanes_of_their_own_and_the_rest_is_content() {
    for (form, answer, wanted) in answers() {
        assert_eq!(run(parser(form, false), &[answer]), wanted, "{answer}");
    }
}

#[test]
fn an_answer_cut_after_any_character_has_the_same_lanes() {
    for (form, answer, wanted) in answers() {
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(run(parser(form, false), &pieces), wanted, "{answer}");
    }
}

#[test]
fn an_answer_may_begin_inside_the_reasoning() {
    let answer = ["\n\nHm.", " <think>", "\n</thi", "nk>\nYes."];
    let wanted = lanes("Yes.", "Hm. <think>", &[]);
    assert_eq!(run(parser(CallForm::Tagged, true), &answer), wanted);
}

#[test]
fn reasoning_that_was_cut_goes_on_with_the_space_that_stands_between() {
    let tokens = [
        "\n", "\n", "Hm", ",", " it", " ", " is", "\n", "so", ".", "\n", "</think>", "\n", "Yes",
        ".",
    ];
    let whole = run(parser(CallForm::Tagged, true), &tokens);
    assert_eq!(whole, lanes("Yes.", "Hm, it  is\nso.", &[]));
    for cut in 0..=11 {
        let (_, before, _) = run(parser(CallForm::Tagged, true), &tokens[..cut]);
        let goes_on = parser(CallForm::Tagged, true).behind(&before, "");
        let (content, behind, _) = run(goes_on, &tokens[cut..]);
        // That before the end of the reasoning was not known to be there.
        assert_eq!((before + &behind).trim_end(), whole.1, "cut at {cut}");
        assert_eq!(content, whole.0, "cut at {cut}");
    }
}

#[test]
fn without_functions_no_call_is_looked_for() {
    let answer = "a <tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call> ";
    let parser = LaneParser::new(&form(CallForm::Tagged), false, Vec::new(), true);
    assert_eq!(run(parser, &[answer]), lanes(answer, "", &[]));
}

#[test]
fn where_one_call_is_wanted_nothing_comes_behind_it() {
    let names = vec!["time".into()];
    let mut parser = LaneParser::new(&form(CallForm::Tagged), false, names, false);
    let mut out = Vec::new();
    let call = "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>";
    parser.push(&call[..40], &mut out);
    assert!(!parser.is_complete());
    parser.push(&format!("{}{call} and more", &call[40..]), &mut out);
    assert!(parser.is_complete() && parser.calls() == 1);
    parser.finish(&mut out);
    assert_eq!(joined(&out), lanes("", "", &[("time", "{}")]));
}

#[test]
fn an_answer_has_no_more_calls_than_anyone_may_keep() {
    let call = "<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>";
    let mut parser = parser(CallForm::Tagged, false);
    let mut out = Vec::new();
    for _ in 1..MOST_CALLS {
        parser.push(call, &mut out);
    }
    assert!(!parser.is_complete());
    for _ in 0..3 {
        parser.push(call, &mut out);
    }
    assert!(parser.is_complete());
    parser.push(" and more", &mut out);
    parser.finish(&mut out);
    let expected = vec![("time", "{}"); MOST_CALLS];
    assert_eq!(joined(&out), lanes("", "", &expected));
}

#[test]
fn arguments_come_as_they_are_written_and_content_that_is_certain_is_not_held_back() {
    let mut parser = parser(CallForm::Tagged, false);
    let mut texts = Vec::new();
    for piece in [
        "Hello ",
        "you",
        "<tool",
        "_call>{\"name\":\"time\",\"arguments\":",
        "{\"a\"",
        ":1",
        "}}",
    ] {
        let mut out = Vec::new();
        parser.push(piece, &mut out);
        texts.push(
            out.iter()
                .map(|segment| segment.text.as_str())
                .collect::<String>(),
        );
    }
    assert_eq!(texts, ["Hello", " you", "", "", "{\"a\"", ":1", "}"]);
}

#[test]
fn ids_are_those_of_seed_and_place() {
    let ids = |seed: u64| {
        let answer = "<tool_call>{\"name\":\"time\"}</tool_call>".repeat(3);
        let mut out = Vec::new();
        parser(CallForm::Tagged, false)
            .with_seed(seed)
            .push(&answer, &mut out);
        let ids = out.into_iter().filter_map(|segment| segment.begins);
        ids.map(|(id, _)| id).collect::<Vec<String>>()
    };
    let all: std::collections::BTreeSet<String> = (0..50).flat_map(ids).collect();
    assert_eq!(all.len(), 150);
    assert_eq!(ids(7), ids(7));
}

proptest! {
    #[test]
    fn pieces_of_any_text_have_the_lanes_of_the_whole(
        parts in proptest::collection::vec(prop_oneof![
            Just("<think>"), Just("</think>"), Just("<tool_call>"), Just("</tool_call>"), Just("[TOOL_CALLS]"),
            Just("[ARGS]"), Just("<|python_tag|>"), Just("{\"name\":\"time\","), Just("\"arguments\":{"), Just("}}"),
            Just("<|channel|>commentary to=functions.time"), Just("<|channel|>analysis"), Just("<|message|>"),
            Just("<|end|>"), Just("<|start|>assistant"), Just("<|channel|>final<|message|>"),
            Just("["), Just("]"), Just("\n"), Just(" "), Just("é"), Just("\""), Just("a"), Just("time"), Just(","),
        ], 0..24),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        which in 0..4usize,
        thinks in any::<bool>(),
    ) {
        let text = parts.concat();
        let form = [CallForm::Tagged, CallForm::Bare, CallForm::List, CallForm::Channels][which];
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        places.retain(|place| text.is_char_boundary(*place));
        places.extend([0, text.len()]);
        places.sort_unstable();
        let pieces: Vec<&str> = places.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
        let whole = run(parser(form, thinks), &[&text]);
        prop_assert_eq!(&run(parser(form, thinks), &pieces), &whole);
        if which < 3 && !text.contains("think>") && whole.2.is_empty() && !thinks {
            prop_assert_eq!(whole.0, text);
        }
    }
}
