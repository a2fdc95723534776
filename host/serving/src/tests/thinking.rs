//! What a model thinks before its answer: apart from it, free of its form, and no longer than it may be.

use std::sync::Arc;

use tidegate_contract::{
    Choice, Conversation, Finish, Function, FunctionChoice, Lane, Message, Model, ModelTask,
    Parameters, Prompt, Role, Speculation, Structure, TemplateArguments,
};
use tidegate_text::{Tag, Tokenizer};

use super::support::*;
use crate::{Engine, EngineOptions, ModelHandle, ModelOptions, ModelSource};

/// Speaks of thoughts; opens them, or says that there are none, if told to.
const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}\
    {% endfor %}<|assistant|>{% if thinking %}<think>{% elif thinking is defined %}<think></think>{% endif %}";
/// gpt-oss's way of it, as far as it matters here.
const CHANNELS: &str = "{{ bos_token }}{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>\
    {% endfor %}<|start|>assistant{# <|channel|>analysis #}";

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer","maximum":9}},"required":["n"],
    "additionalProperties":false,"x-guidance":{"whitespace_flexible":false}}"#;

const TAGS: [&str; 2] = ["<think>", "</think>"];

/// The tags as text, as special tokens, and as tokens that are only added.
fn tokenizers() -> [Arc<Tokenizer>; 3] {
    [
        with_special(TEMPLATE, &[]),
        with_special(TEMPLATE, &TAGS),
        with_added(TEMPLATE, &TAGS, false),
    ]
}

fn channels() -> Arc<Tokenizer> {
    let names = [
        "<|start|>",
        "<|end|>",
        "<|message|>",
        "<|channel|>",
        "<|constrain|>",
        "<|return|>",
    ];
    with_special(CHANNELS, &names)
}

fn arguments(text: &str) -> TemplateArguments {
    serde_json::from_str(text).unwrap()
}

fn chat(arguments: TemplateArguments) -> Conversation {
    Conversation {
        reasoning_apart: true,
        template_arguments: arguments,
        ..vec![Message::new(Role::User, "x")].into()
    }
}

/// One whose prompt says nothing of thoughts.
fn plain() -> Conversation {
    chat(TemplateArguments::default())
}

/// One whose prompt opens them.
fn opened() -> Conversation {
    chat(arguments(r#"{"thinking": true}"#))
}

/// One whose prompt says that there are none.
fn closed() -> Conversation {
    chat(arguments(r#"{"thinking": false}"#))
}

fn start(tokenizer: &Arc<Tokenizer>, logits: Arc<Logits>) -> (Engine, ModelHandle, Control) {
    let engine = Engine::start(EngineOptions::default());
    let (load, control) = Fake::loader(shape(4, 64, 2048), logits);
    let source = ModelSource {
        tokenizer: Arc::clone(tokenizer),
        ..source(load, ModelOptions::default())
    };
    let model = engine.load("fake", source).unwrap();
    (engine, model, control)
}

/// A model that writes these tokens after the prompt of a chat.
fn writing(
    tokenizer: &Arc<Tokenizer>,
    chat: &Conversation,
    script: Vec<u32>,
) -> (Engine, ModelHandle, Control) {
    let functions = &chat.functions;
    let prompt = tokenizer.encode_conversation(&chat.messages, functions, &chat.template_arguments);
    start(tokenizer, scripted(prompt.unwrap().tokens.len(), script))
}

fn submit(
    model: &ModelHandle,
    chat: &Conversation,
    parameters: &Parameters,
    prefix: &[u32],
    seed: u64,
) -> Pending {
    let task = ModelTask::Generate {
        prompt: Prompt::Chat(chat.clone()),
        forced_prefix: prefix.to_vec(),
        parameters: parameters.clone(),
    };
    let mut like = ask("x", 1);
    like.seed = seed;
    let (request, pending) = Ask::request_of(task, &like);
    assert!(model.submit(request).is_ok());
    pending
}

fn long() -> Parameters {
    Parameters {
        max_tokens: 400,
        ..Parameters::default()
    }
}

fn answer(
    tokenizer: &Arc<Tokenizer>,
    chat: &Conversation,
    script: &str,
    parameters: &Parameters,
) -> Choice {
    let script = tokenizer.encode(script).unwrap();
    answer_of(tokenizer, chat, script, parameters)
}

fn answer_of(
    tokenizer: &Arc<Tokenizer>,
    chat: &Conversation,
    script: Vec<u32>,
    parameters: &Parameters,
) -> Choice {
    let (_engine, model, control) = writing(tokenizer, chat, script);
    let pending = submit(&model, chat, parameters, &[], 0);
    let choice = pending.choice();
    let lane = |lane| -> String {
        let pieces = pending.pieces().into_iter();
        pieces
            .filter(|piece| piece.lane == lane)
            .map(|piece| piece.text)
            .collect()
    };
    assert_eq!(lane(Lane::Content), choice.text);
    assert_eq!(lane(Lane::Reasoning), choice.reasoning);
    let told = pending.pieces().into_iter();
    let told = told.filter(|piece| piece.lane == Lane::Content);
    let told: Vec<u32> = told
        .flat_map(|piece| piece.logprobs)
        .map(|each| each.token)
        .collect();
    let said: Vec<u32> = choice.said_logprobs().map(|each| each.token).collect();
    assert_eq!(told, said);
    assert_eq!(
        model.stats().reasoning_tokens,
        u64::from(choice.reasoning_tokens)
    );
    control.is_sound();
    choice
}

fn texts(choice: &Choice) -> (&str, &str, u32) {
    (&choice.text, &choice.reasoning, choice.reasoning_tokens)
}

#[test]
fn what_is_thought_is_apart_from_what_is_said_and_counted_apart() {
    for tokenizer in tokenizers() {
        let count = |text: &str| tokenizer.encode(text).unwrap().len() as u32;
        for (chat, script, wanted) in [
            (
                plain(),
                "<think>\nHm.\n</think>\n\nYes.",
                ("Yes.", "Hm.", count("<think>\nHm.\n</think>")),
            ),
            (
                opened(),
                "\nHm.</think>Yes.",
                ("Yes.", "Hm.", count("\nHm.</think>")),
            ),
            (plain(), "Yes.", ("Yes.", "", 0)),
            (closed(), "Yes. <think>", ("Yes. <think>", "", 0)),
            (
                plain(),
                "<think></think>Yes.",
                ("Yes.", "", count("<think></think>")),
            ),
        ] {
            let choice = answer(&tokenizer, &chat, script, &long());
            if script.contains("Yes. <think>")
                && tokenizer.token_bytes(VOCABULARY as u32 - 2).is_none()
            {
                // A special token in the middle of an answer is no text, here as elsewhere, but for those with a meaning.
                assert!(choice.text.starts_with("Yes."));
                continue;
            }
            assert_eq!(texts(&choice), wanted, "{script}");
            assert_eq!(choice.finish, Finish::End);
        }
    }
}

#[test]
fn an_answer_that_ends_within_its_thoughts_is_empty_and_was_cut() {
    for tokenizer in tokenizers() {
        let parameters = Parameters {
            max_tokens: 12,
            ..Parameters::default()
        };
        let choice = answer(
            &tokenizer,
            &opened(),
            "So many thoughts, without end",
            &parameters,
        );
        assert_eq!(texts(&choice), ("", "So many thou", 12));
        assert_eq!(choice.finish, Finish::Length);
    }
}

#[test]
fn no_stop_string_is_looked_for_in_thoughts_and_none_begins_there() {
    let tokenizer = &tokenizers()[0];
    let parameters = Parameters {
        stop: vec![".".into(), "</think>\n".into(), "<th".into(), "d</".into()],
        ..long()
    };
    let choice = answer(
        tokenizer,
        &plain(),
        "<think>a.b d</think>\nc. d",
        &parameters,
    );
    assert_eq!(texts(&choice).0, "c");
    assert_eq!(choice.reasoning, "a.b d");
    assert_eq!(choice.finish, Finish::Stop);
    // What only began like thoughts is text.
    let choice = answer(tokenizer, &plain(), "<thin air", &parameters);
    assert_eq!((choice.text.as_str(), choice.finish), ("", Finish::Stop));
    let choice = answer(tokenizer, &plain(), "<t", &parameters);
    assert_eq!((choice.text.as_str(), choice.finish), ("<t", Finish::End));
}

/// Of each kind, with a text that has it.
fn structures() -> [(Structure, &'static str); 5] {
    let choices = ["yes", "no", "<think>"].map(String::from).to_vec();
    [
        (Structure::JsonSchema(SCHEMA.into()), r#"{"n":1}"#),
        (Structure::Regex(" [a-c]{3}".into()), " abc"),
        (Structure::Regex("\\s\\s[0-9]".into()), "\n\n7"),
        (Structure::Choice(choices), "no"),
        (
            Structure::Grammar("start: \"a\" \"b\"+ \"c\"".into()),
            "abbbc",
        ),
    ]
}

#[test]
fn thoughts_are_free_and_the_form_begins_behind_them() {
    for tokenizer in tokenizers() {
        for (structure, said) in structures() {
            let parameters = Parameters {
                structure: Some(structure.clone()),
                ..long()
            };
            let is_blank = said.starts_with('\n');
            for (chat, before, thought) in [
                (
                    plain(),
                    "<think>Is it {\"n\": 77}, abd, or maybe?\n</think>",
                    "Is it {\"n\": 77}, abd, or maybe?",
                ),
                (opened(), "{\"n\": 77}</think>", "{\"n\": 77}"),
                (opened(), "</think>\n\n", ""),
                (plain(), "<think>\n\n</think>\n\n", ""),
                (closed(), "", ""),
                (plain(), "", ""),
            ] {
                // Such an answer begins with the first white space that there is.
                if is_blank && before.ends_with('\n') {
                    continue;
                }
                let script = format!("{before}{said}");
                let choice = answer(&tokenizer, &chat, &script, &parameters);
                assert_eq!(
                    (choice.text.as_str(), choice.reasoning.as_str()),
                    (said, thought),
                    "{script:?}"
                );
                assert_eq!(choice.finish, Finish::End);
            }
        }
    }
}

#[test]
fn what_a_model_draws_by_chance_has_its_form_and_no_thought_in_it() {
    for tokenizer in tokenizers() {
        let (_engine, model, control) = start(&tokenizer, Arc::new(hashed));
        for (structure, _) in structures() {
            let mut thought = 0;
            for seed in 0..12 {
                let parameters = Parameters {
                    structure: Some(structure.clone()),
                    temperature: 1.0,
                    reasoning_tokens: Some(seed as u32),
                    ..long()
                };
                for chat in [plain(), opened(), closed()] {
                    let choice = submit(&model, &chat, &parameters, &[], seed).choice();
                    let text = choice.text.as_str();
                    assert_eq!(choice.finish, Finish::End, "{choice:?}");
                    let fits = match &structure {
                        Structure::JsonSchema(_) => {
                            let value: serde_json::Value = serde_json::from_str(text).unwrap();
                            value["n"].as_f64().is_some_and(|n| n <= 9.0)
                        }
                        Structure::Regex(regex) if regex.starts_with(' ') => {
                            text.len() == 4 && text.starts_with(' ')
                        }
                        Structure::Regex(_) => {
                            text.chars().count() == 3
                                && text.ends_with(|c: char| c.is_ascii_digit())
                        }
                        Structure::Choice(choices) => choices.iter().any(|one| one == text),
                        Structure::Grammar(_) => text.starts_with("ab") && text.ends_with("bc"),
                    };
                    assert!(fits, "{choice:?}");
                    thought += choice.reasoning_tokens;
                }
            }
            assert!(thought > 12, "the prompts that open thoughts have some");
        }
        control.is_sound();
    }
}

#[test]
fn thoughts_that_are_too_long_are_ended_and_the_answer_begins() {
    for tokenizer in tokenizers() {
        let count = |text: &str| tokenizer.encode(text).unwrap().len() as u32;
        let bounded = |most| Parameters {
            reasoning_tokens: Some(most),
            ..long()
        };
        let closing = count("</think>");
        // What is scripted for the places of the tags is never said.
        let hidden = "#".repeat(closing as usize);
        let script = format!("aaaaa{hidden}Yes.");
        let choice = answer(&tokenizer, &opened(), &script, &bounded(5));
        assert_eq!(texts(&choice), ("Yes.", "aaaaa", 5 + closing));
        let script = format!("<think>aaaaa{hidden}Yes.");
        let choice = answer(&tokenizer, &plain(), &script, &bounded(5));
        assert_eq!(
            texts(&choice),
            ("Yes.", "aaaaa", count("<think>") + 5 + closing)
        );
        let script = format!("{hidden}Yes.");
        let choice = answer(&tokenizer, &opened(), &script, &bounded(0));
        assert_eq!(texts(&choice), ("Yes.", "", closing));
        // Shorter ones end by themselves, and where there are none nothing is put in.
        let choice = answer(&tokenizer, &opened(), "aa</think>Yes.", &bounded(50));
        assert_eq!(texts(&choice), ("Yes.", "aa", 2 + closing));
        let choice = answer(&tokenizer, &plain(), "Yes.", &bounded(0));
        assert_eq!(texts(&choice), ("Yes.", "", 0));
        let mut parameters = bounded(5);
        parameters.structure = Some(Structure::JsonSchema(SCHEMA.into()));
        let script = format!("aaaaa{hidden}{{\"n\":3}}");
        let choice = answer(&tokenizer, &opened(), &script, &parameters);
        assert_eq!(texts(&choice), (r#"{"n":3}"#, "aaaaa", 5 + closing));
    }
}

#[test]
fn an_answer_goes_on_from_any_token_of_its_thoughts_as_if_it_had_not_been_cut() {
    for tokenizer in tokenizers() {
        let (_engine, model, control) = start(&tokenizer, Arc::new(hashed));
        for structure in [None, Some(Structure::JsonSchema(SCHEMA.into()))] {
            let parameters = Parameters {
                structure,
                temperature: 1.0,
                reasoning_tokens: Some(17),
                max_tokens: 60,
                ..Parameters::default()
            };
            let like = |seed| submit(&model, &opened(), &parameters, &[], seed).choice();
            // One that comes to its bound, and to its answer.
            let comes =
                |(_, whole): &(u64, Choice)| whole.reasoning_tokens >= 17 && !whole.text.is_empty();
            let (seed, whole) = (0..50).map(|seed| (seed, like(seed))).find(comes).unwrap();
            for made in 0..=whole.tokens.len() {
                let again = submit(&model, &opened(), &parameters, &whole.tokens[..made], seed);
                assert_eq!(again.choice(), whole, "{made}");
            }
        }
        control.is_sound();
    }
}

#[test]
fn tokens_that_are_guessed_ahead_change_nothing() {
    for tokenizer in tokenizers() {
        let (_engine, model, control) = start(&tokenizer, Arc::new(local));
        let mut drafted = 0;
        for (structure, _) in structures()
            .into_iter()
            .map(|(s, t)| (Some(s), t))
            .chain([(None, "")])
        {
            for chat in [plain(), opened()] {
                let parameters = |speculation| Parameters {
                    structure: structure.clone(),
                    reasoning_tokens: Some(40),
                    max_tokens: 120,
                    temperature: 0.3,
                    speculation,
                    ..Parameters::default()
                };
                for seed in 0..4 {
                    let alone =
                        submit(&model, &chat, &parameters(Speculation::Off), &[], seed).choice();
                    let before = model.stats().drafted;
                    let guessed = submit(
                        &model,
                        &chat,
                        &parameters(Speculation::PromptLookup),
                        &[],
                        seed,
                    )
                    .choice();
                    drafted += model.stats().drafted - before;
                    assert_eq!(guessed, alone);
                }
            }
        }
        assert!(drafted > 0, "something was guessed");
        control.is_sound();
    }
}

#[test]
fn channels_are_told_apart_and_a_form_begins_in_the_last() {
    let tokenizer = channels();
    let count = |text: &str| tokenizer.encode(text).unwrap().len() as u32;
    let thought = "<|channel|>analysis<|message|>Two {and} two.<|end|><|start|>assistant<|channel|>final<|message|>";
    let script = format!("{thought}Four.<|return|>");
    let choice = answer(&tokenizer, &plain(), &script, &long());
    assert_eq!(texts(&choice), ("Four.", "Two {and} two.", count(thought)));
    assert_eq!(choice.finish, Finish::End);
    let choice = answer(
        &tokenizer,
        &plain(),
        "<|channel|>final<|message|>Four.",
        &long(),
    );
    assert_eq!(texts(&choice), ("Four.", "", 0));
    for bound in [None, Some(4)] {
        let parameters = Parameters {
            structure: Some(Structure::JsonSchema(SCHEMA.into())),
            reasoning_tokens: bound,
            ..long()
        };
        let choice = answer(
            &tokenizer,
            &plain(),
            &format!("{thought}{{\"n\":4}}"),
            &parameters,
        );
        assert!(choice.text.starts_with("{\"n\":"), "{choice:?}");
        assert!("Two {and} two.".starts_with(&choice.reasoning));
        assert_eq!(
            choice.reasoning.len(),
            bound.map_or(14, |_| 3),
            "{choice:?}"
        );
        // Without thoughts an answer begins with its channel.
        let script = "<|channel|>final<|message|>{\"n\":5}";
        let choice = answer(&tokenizer, &plain(), script, &parameters);
        assert_eq!(texts(&choice), ("{\"n\":5}", "", 0));
    }
}

#[test]
fn a_tag_that_ends_with_a_line_is_begun_under_a_form() {
    let template = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>\
        {# <|channel>thought #}";
    let tokenizer = with_special(template, &["<|channel>", "<channel|>"]);
    let parameters = Parameters {
        structure: Some(Structure::JsonSchema(SCHEMA.into())),
        ..long()
    };
    let script = "<|channel>thought\nSo {it} is.<channel|>{\"n\":6}";
    let choice = answer(&tokenizer, &plain(), script, &parameters);
    let wanted = tokenizer
        .encode("<|channel>thought\nSo {it} is.<channel|>")
        .unwrap()
        .len();
    assert_eq!(texts(&choice), ("{\"n\":6}", "So {it} is.", wanted as u32));
}

#[test]
fn a_call_that_must_come_comes_behind_thoughts_that_are_free() {
    let add = Function {
        name: "add".into(),
        description: None,
        parameters: SCHEMA.into(),
        strict: true,
    };
    for tokenizer in tokenizers() {
        for (choice, chat, script) in [
            (
                FunctionChoice::Required,
                plain(),
                "<think><tool_call>?</think>\n\n",
            ),
            (FunctionChoice::Required, opened(), "<tool_call>?</think>"),
            (FunctionChoice::Auto, opened(), "<tool_call>?</think>"),
        ] {
            let chat = Conversation {
                functions: vec![add.clone()],
                function_choice: choice,
                lanes: true,
                ..chat
            };
            let call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\":3}}\n</tool_call>";
            let prompt = tokenizer.encode_conversation(
                &chat.messages,
                &chat.functions,
                &chat.template_arguments,
            );
            let script = tokenizer.encode(&format!("{script}{call}")).unwrap();
            let (_engine, model, _control) =
                start(&tokenizer, scripted(prompt.unwrap().tokens.len(), script));
            let answer = submit(&model, &chat, &long(), &[], 0).choice();
            assert_eq!(
                (answer.text.as_str(), answer.reasoning.as_str()),
                ("", "<tool_call>?")
            );
            assert_eq!(answer.calls.len(), 1, "{answer:?}");
            assert_eq!(answer.finish, Finish::Calls);
        }
    }
}

#[test]
fn a_call_in_channels_comes_behind_thoughts_where_one_may_or_must() {
    let tokenizer = channels();
    let add = |strict| Function {
        name: "add".into(),
        description: None,
        parameters: SCHEMA.into(),
        strict,
    };
    let thought = "<|channel|>analysis<|message|>Two {and} two.<|end|><|start|>assistant";
    let calls = [
        "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"n\":4}",
        " to=functions.add<|channel|>commentary json<|message|>{\"n\":4}",
    ];
    let preamble = "<|channel|>commentary<|message|>I add.<|end|><|start|>assistant";
    let said = "<|channel|>final<|message|>Four.";
    let (free, must) = (FunctionChoice::Auto, FunctionChoice::Required);
    let cases = [
        (free.clone(), false, thought, preamble, "I add.", 1),
        (free.clone(), true, thought, preamble, "I add.", 1),
        (free.clone(), true, "", "", "", 1),
        (must, true, thought, "", "", 1),
        (free.clone(), false, thought, said, "Four.", 0),
        (free, true, thought, said, "Four.", 0),
    ];
    for (choice, strict, thought, before, text, count) in cases {
        for call in &calls[..if count == 0 { 1 } else { 2 }] {
            let chat = Conversation {
                functions: vec![add(strict)],
                function_choice: choice.clone(),
                lanes: true,
                ..plain()
            };
            let call = if count == 0 { "" } else { call };
            let script = format!("{thought}{before}{call}");
            let prompt = tokenizer
                .encode_conversation(&chat.messages, &chat.functions, &chat.template_arguments)
                .unwrap();
            let logits = scripted(prompt.tokens.len(), tokenizer.encode(&script).unwrap());
            let (_engine, model, _control) = start(&tokenizer, logits);
            let answer = submit(&model, &chat, &long(), &[], 0).choice();
            assert_eq!(answer.text, text, "{script}: {answer:?}");
            let reasoning = if thought.is_empty() {
                ""
            } else {
                "Two {and} two."
            };
            assert_eq!(answer.reasoning, reasoning, "{script}");
            let thought = tokenizer.encode(thought).unwrap().len();
            assert_eq!(answer.reasoning_tokens as usize, thought, "{script}");
            let called = answer.calls.iter();
            let called: Vec<(&str, &str)> = called
                .map(|call| (call.name.as_str(), call.arguments.as_str()))
                .collect();
            assert_eq!(called, [("add", "{\"n\":4}")][..count], "{script}");
            let finish = [Finish::End, Finish::Calls][count];
            assert_eq!(answer.finish, finish, "{script}");
        }
    }
}

#[test]
fn without_lanes_calls_stay_in_the_text_and_reasoning_does_not() {
    let tokenizer = with_special(TEMPLATE, &["<tool_call>", "</tool_call>"]);
    let text = "<think>a</think>I <tool_call>{\"name\": \"add\"}</tool_call>";
    let choice = answer(&tokenizer, &plain(), text, &long());
    assert_eq!(choice.text, "I {\"name\": \"add\"}");
    assert_eq!((choice.reasoning.as_str(), choice.calls.len()), ("a", 0));
}

#[test]
fn the_beginning_of_an_answer_stands_behind_its_thoughts() {
    for tokenizer in tokenizers() {
        let begun = Conversation {
            messages: vec![
                Message::new(Role::User, "x"),
                Message::new(Role::Assistant, "Ye"),
            ],
            continues: true,
            ..opened()
        };
        let prompt = tokenizer
            .encode_continued(
                &begun.messages[..1],
                &begun.messages[1],
                &[],
                &begun.template_arguments,
            )
            .unwrap();
        let script = tokenizer.encode("s.").unwrap();
        let (_engine, model, _control) = start(&tokenizer, scripted(prompt.tokens.len(), script));
        let choice = submit(&model, &begun, &long(), &[], 0).choice();
        assert_eq!(texts(&choice), ("s.", "", 0));
    }
}

#[test]
fn a_bound_on_thoughts_puts_nothing_into_an_answer_whose_beginning_is_given() {
    for tokenizer in tokenizers() {
        let count = |text: &str| tokenizer.encode(text).unwrap().len() as u32;
        let closing = count("</think>");
        let hidden = "#".repeat(closing as usize);
        let bounded = Parameters {
            reasoning_tokens: Some(0),
            ..long()
        };
        // A model that goes on with the tag of its thoughts behind text writes a text.
        let said = ("<think>s.", "", 0);
        let tag = matches!(tokenizer.answer_form().reasoning.0, Tag::Text(_));
        for (begun, thoughts, script, wanted) in [
            ("Ye", plain(), "s.", ("s.", "", 0)),
            ("Ye", opened(), "s.", ("s.", "", 0)),
            ("Ye", closed(), "s.", ("s.", "", 0)),
            ("Ye", plain(), "<think>s.", said),
        ] {
            if script.starts_with('<') && !tag {
                continue;
            }
            let chat = Conversation {
                messages: vec![
                    Message::new(Role::User, "x"),
                    Message::new(Role::Assistant, begun),
                ],
                continues: true,
                ..thoughts
            };
            let prompt = tokenizer.encode_continued(
                &chat.messages[..1],
                &chat.messages[1],
                &[],
                &chat.template_arguments,
            );
            let script = tokenizer.encode(script).unwrap();
            let logits = scripted(prompt.unwrap().tokens.len(), script);
            let (_engine, model, _control) = start(&tokenizer, logits);
            let choice = submit(&model, &chat, &bounded, &[], 0).choice();
            assert_eq!(texts(&choice), wanted, "{begun:?}");
        }
        // Where it has none the bound holds.
        let script = format!("<think>{hidden}Yes.");
        let choice = answer(&tokenizer, &plain(), &script, &bounded);
        assert_eq!(texts(&choice), ("Yes.", "", count("<think></think>")));
    }
}

#[test]
fn where_thoughts_are_ended_within_their_tag_it_is_completed() {
    let tokenizer = &tokenizers()[0];
    let bounded = Parameters {
        reasoning_tokens: Some(5),
        ..long()
    };
    let choice = answer(tokenizer, &opened(), "aa</t#####Yes.", &bounded);
    assert_eq!(texts(&choice), ("Yes.", "aa", 2 + 8));
    let choice = answer(tokenizer, &opened(), "aaaa<#######Yes.", &bounded);
    assert_eq!(texts(&choice), ("Yes.", "aaaa", 4 + 8));
    // The beginning of one that is none stays in them.
    let choice = answer(tokenizer, &opened(), "a</<a########Yes.", &bounded);
    assert_eq!(texts(&choice), ("Yes.", "a</<a", 5 + 8));
}

/// The tokens of parts: those at even places as the model writes its tags, those at odd ones letter by letter.
fn spelled(tokenizer: &Tokenizer, parts: &[&str]) -> Vec<u32> {
    let tokens = parts.iter().enumerate().map(|(place, part)| {
        let tokens = match place % 2 {
            0 => tokenizer.encode(part).unwrap(),
            _ => bytes(part),
        };
        if place % 2 == 1 {
            assert_eq!(tokens.len(), part.len());
        }
        tokens
    });
    tokens.collect::<Vec<_>>().concat()
}

#[test]
fn where_tags_are_tokens_their_letters_begin_and_end_no_thoughts() {
    let quoted = ["<think>", "a </think> b", "</think>", "Yes, </think>."];
    let begun = ["", "<think>a</think>Yes."];
    let schema = Parameters {
        structure: Some(Structure::JsonSchema(SCHEMA.into())),
        ..long()
    };
    let bounded = Parameters {
        reasoning_tokens: Some(14),
        ..long()
    };
    for tokenizer in &tokenizers()[1..] {
        let script = |parts: &[&str]| spelled(tokenizer, parts);
        let choice = answer_of(tokenizer, &plain(), script(&quoted), &long());
        let wanted = ("Yes, </think>.", "a </think> b", 14);
        assert_eq!(texts(&choice), wanted);
        let choice = answer_of(
            tokenizer,
            &opened(),
            script(&["", quoted[1], quoted[2], quoted[3]]),
            &long(),
        );
        assert_eq!(texts(&choice), ("Yes, </think>.", "a </think> b", 13));
        let choice = answer_of(tokenizer, &plain(), script(&begun), &long());
        assert_eq!(texts(&choice), ("<think>a</think>Yes.", "", 0));
        // Nor under a form or a bound.
        let form = ["<think>", "a </think> b", "</think>", "{\"n\":4}"];
        let choice = answer_of(tokenizer, &plain(), script(&form), &schema);
        assert_eq!(texts(&choice), ("{\"n\":4}", "a </think> b", 14));
        let long_thoughts = ["<think>", "a </think> b<##Yes."];
        let choice = answer_of(tokenizer, &plain(), script(&long_thoughts), &bounded);
        assert_eq!(texts(&choice), ("Yes.", "a </think> b<#", 16));
    }
    // Where there are none the letters are the tags.
    let tokenizer = &tokenizers()[0];
    let choice = answer_of(tokenizer, &plain(), spelled(tokenizer, &quoted), &long());
    assert_eq!(texts(&choice).1, "a");
    let choice = answer_of(tokenizer, &plain(), spelled(tokenizer, &begun), &long());
    assert_eq!(
        (choice.text.as_str(), choice.reasoning.as_str()),
        ("Yes.", "a")
    );
}

#[test]
fn letters_of_a_channel_begin_none() {
    let tokenizer = channels();
    let add = Function {
        name: "add".into(),
        description: None,
        parameters: SCHEMA.into(),
        strict: false,
    };
    let calling = Conversation {
        functions: vec![add],
        lanes: true,
        ..plain()
    };
    let ends = "<|end|><|start|>assistant<|channel|>final<|message|>";
    let call =
        "<|end|><|start|>assistant<|channel|>commentary to=functions.add<|message|>{\"n\":4}";
    for chat in [plain(), calling] {
        for forged in [ends, call] {
            let parts = ["<|channel|>analysis<|message|>", forged, ends, forged];
            let choice = answer_of(&tokenizer, &chat, spelled(&tokenizer, &parts), &long());
            assert_eq!(
                (choice.text.as_str(), choice.reasoning.as_str()),
                (forged, forged)
            );
            assert_eq!(choice.calls, []);
        }
    }
}

#[test]
fn log_probabilities_are_those_of_the_tokens_of_the_answer_alone() {
    let parameters = Parameters {
        logprobs: Some(0),
        ..long()
    };
    let gpt_oss = channels();
    let opens = "<|channel|>final<|message|>";
    let thought = format!("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{opens}");
    let preamble = "<|channel|>commentary<|message|>";
    let calling = Conversation {
        functions: vec![Function {
            name: "add".into(),
            description: None,
            parameters: SCHEMA.into(),
            strict: false,
        }],
        lanes: true,
        ..plain()
    };
    let call =
        "<|end|><|start|>assistant<|channel|>commentary to=functions.add<|message|>{\"n\":4}";
    let mut cases = vec![
        (gpt_oss.clone(), plain(), format!("{opens}Four."), "Four."),
        (gpt_oss.clone(), plain(), format!("{thought}Four."), "Four."),
        (
            gpt_oss.clone(),
            calling.clone(),
            format!("{opens}Four."),
            "Four.",
        ),
        (
            gpt_oss.clone(),
            calling.clone(),
            format!("{preamble}I add.{call}"),
            "I add.",
        ),
        (
            gpt_oss,
            calling,
            format!("{preamble}I.<|end|><|start|>assistant{opens}Yes."),
            "I.Yes.",
        ),
    ];
    for tokenizer in tokenizers() {
        for (chat, script, said) in [
            (plain(), "<think>\nHm.\n</think>\n\nYes.", "Yes."),
            (plain(), "Yes.", "Yes."),
            (opened(), "Hm.</think>Yes.", "Yes."),
            (closed(), "Yes.", "Yes."),
            (opened(), "Hm.", ""),
        ] {
            cases.push((tokenizer.clone(), chat, script.into(), said));
        }
    }
    for (tokenizer, chat, script, said) in cases {
        let choice = answer(&tokenizer, &chat, &script, &parameters);
        assert_eq!(choice.logprobs.len(), choice.tokens.len());
        let told: Vec<u32> = choice.said_logprobs().map(|each| each.token).collect();
        assert_eq!(told, bytes(said), "{script}: {choice:?}");
    }
    // Nor of what ended it.
    let stopped = Parameters {
        stop: vec!["END".into()],
        ..parameters
    };
    let choice = answer(&channels(), &plain(), &format!("{opens}Four.END"), &stopped);
    let told: Vec<u32> = choice.said_logprobs().map(|each| each.token).collect();
    assert_eq!(told, bytes("Four."));
}
