//! Answers as they are made: in pieces, in lanes, with calls that must come, and ended early.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate_contract::{
    Choice, Conversation, Finish, Function, FunctionChoice, Lane, Message, Model, ModelError,
    ModelTask, Parameters, Prompt, Role, Structure, TokenLogprob,
};

use super::support::*;
use crate::{Engine, EngineOptions, ModelHandle, ModelOptions, ModelSource};

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer","maximum":9}},"required":["n"],
    "additionalProperties":false}"#;

fn function(name: &str) -> Function {
    Function {
        name: name.into(),
        description: None,
        parameters: SCHEMA.into(),
        strict: false,
    }
}

/// A chat of one message whose answer has lanes.
fn chat(content: &str) -> Conversation {
    Conversation {
        functions: vec![function("add"), function("sub")],
        parallel_calls: true,
        lanes: true,
        ..vec![Message::new(Role::User, content)].into()
    }
}

fn task(chat: &Conversation, parameters: &Parameters, prefix: &[u32]) -> ModelTask {
    ModelTask::Generate {
        prompt: Prompt::Chat(chat.clone()),
        forced_prefix: prefix.to_vec(),
        parameters: parameters.clone(),
    }
}

fn submit(model: &ModelHandle, task: ModelTask) -> Pending {
    let (request, pending) = Ask::request_of(task, &ask("x", 1));
    assert!(model.submit(request).is_ok());
    pending
}

/// A model of [`tagged`] tokens that writes `script` after the prompt of `chat("x")`.
fn writing(script: &[u32]) -> (Engine, ModelHandle, Control) {
    writing_to(&chat("x"), script)
}

/// A model of [`tagged`] tokens that writes `script` after the prompt of this chat.
fn writing_to(chat: &Conversation, script: &[u32]) -> (Engine, ModelHandle, Control) {
    let prompt =
        tagged().encode_conversation(&chat.messages, &chat.functions, &chat.template_arguments);
    with_tags(scripted(prompt.unwrap().tokens.len(), script.to_vec()))
}

fn with_tags(logits: Arc<Logits>) -> (Engine, ModelHandle, Control) {
    let engine = Engine::start(EngineOptions::default());
    let (load, control) = Fake::loader(shape(4, 64, 2048), logits);
    let source = ModelSource {
        tokenizer: tagged(),
        ..source(load, ModelOptions::default())
    };
    let model = engine.load("fake", source).unwrap();
    (engine, model, control)
}

fn long() -> Parameters {
    Parameters {
        max_tokens: 500,
        ..Parameters::default()
    }
}

/// The lanes of one choice that pieces make: content, reasoning, and each call with its id.
fn joined(pieces: &[Told], choice: u32) -> (String, String, Vec<(String, String, String)>) {
    let mut lanes = (String::new(), String::new(), Vec::new());
    let mut index = 0;
    for piece in pieces.iter().filter(|piece| piece.choice == choice) {
        assert!(piece.index >= index, "{pieces:?}");
        index = piece.index;
        assert!(
            !piece.text.is_empty() || piece.begins.is_some(),
            "{piece:?}"
        );
        if let Some((id, name)) = &piece.begins {
            assert_eq!(piece.lane, Lane::Arguments(lanes.2.len() as u32));
            lanes.2.push((id.clone(), name.clone(), String::new()));
        }
        match piece.lane {
            Lane::Content => lanes.0.push_str(&piece.text),
            Lane::Reasoning => lanes.1.push_str(&piece.text),
            Lane::Arguments(call) => lanes.2[call as usize].2.push_str(&piece.text),
        }
    }
    lanes
}

fn lanes_of(choice: &Choice) -> (String, String, Vec<(String, String, String)>) {
    let calls = choice.calls.iter();
    let calls = calls.map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()));
    (
        choice.text.clone(),
        choice.reasoning.clone(),
        calls.collect(),
    )
}

const ANSWER: &str = "<think>Add?</think>\n\nI add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": 1}}\n</tool_call>\n\
    <tool_call>{\"name\": \"sub\", \"arguments\": {\"n\": 2}}</tool_call>";

#[test]
fn reasoning_content_and_calls_come_in_lanes_of_their_own() {
    let (_engine, model, _control) = writing(&tokens_of(ANSWER));
    let pending = submit(&model, task(&chat("x"), &long(), &[]));
    let choice = pending.choice();
    let (text, reasoning, calls) = lanes_of(&choice);
    assert_eq!((text.as_str(), reasoning.as_str()), ("I add.", "Add?"));
    let calls: Vec<(&str, &str)> = calls
        .iter()
        .map(|(_, n, a)| (n.as_str(), a.as_str()))
        .collect();
    assert_eq!(calls, [("add", "{\"n\": 1}"), ("sub", "{\"n\": 2}")]);
    assert_eq!(choice.finish, Finish::Calls);
    assert_eq!(choice.tokens, tokens_of(ANSWER));
    assert_eq!(joined(&pending.pieces(), 0), lanes_of(&choice));
    assert!(choice.calls[0].id != choice.calls[1].id);
    // The same request again, and resumed after any token, has the same calls.
    for made in [0, 9, 40, 60, 100, choice.tokens.len()] {
        let again = submit(&model, task(&chat("x"), &long(), &choice.tokens[..made]));
        assert_eq!(again.choice(), choice, "{made}");
        let pieces = again.pieces();
        assert_eq!(joined(&pieces, 0), lanes_of(&choice), "{made}");
        if made == 9 {
            // The prefix comes first, in one piece of each lane.
            assert_eq!((pieces[0].index, pieces[0].text.as_str()), (8, "Ad"));
        }
    }
}

#[test]
fn without_lanes_an_answer_is_one_text_without_special_tokens() {
    let (_engine, model, _control) = writing(&tokens_of(ANSWER));
    let chat = Conversation {
        lanes: false,
        ..chat("x")
    };
    let pending = submit(&model, task(&chat, &long(), &[]));
    let choice = pending.choice();
    assert_eq!(
        choice.text,
        ANSWER
            .replace("<tool_call>", "")
            .replace("</tool_call>", "")
    );
    assert_eq!((choice.finish, choice.calls.len()), (Finish::End, 0));
    assert_eq!(joined(&pending.pieces(), 0).0, choice.text);
}

#[test]
fn what_stands_before_a_stop_string_is_content_where_it_could_have_begun_a_call() {
    let mut parameters = long();
    parameters.stop = vec!["STOP".into()];
    for before in [
        "Sure",
        "Sure \n",
        "Sure \n<tool_",
        "<",
        "<tool_call>{\"name\": \"ad",
    ] {
        let (_engine, model, _control) = writing(&tokens_of(&format!("{before}STOP and more")));
        let pending = submit(&model, task(&chat("x"), &parameters, &[]));
        let choice = pending.choice();
        assert_eq!(
            (choice.text.as_str(), choice.finish),
            (before, Finish::Stop)
        );
        assert_eq!(joined(&pending.pieces(), 0), lanes_of(&choice));
    }
}

#[test]
fn a_piece_comes_before_its_token_and_the_last_one_with_the_end() {
    let plain = Conversation::from(chat("x").messages);
    let (_engine, model, _control) = writing_to(&plain, &tokens_of("a€b\n\nUs"));
    let mut parameters = long();
    parameters.stop = vec!["\n\nUser:".into()];
    parameters.logprobs = Some(1);
    let pending = submit(&model, task(&plain, &parameters, &[]));
    let choice = pending.choice();
    let pieces = pending.pieces();
    let told: Vec<(u32, &str, usize)> = pieces
        .iter()
        .map(|piece| (piece.index, piece.text.as_str(), piece.logprobs.len()))
        .collect();
    assert_eq!(
        told,
        [(0, "a", 1), (3, "€", 3), (4, "b", 1), (8, "\n\nUs", 4)]
    );
    let logprobs: Vec<TokenLogprob> = pieces.into_iter().flat_map(|p| p.logprobs).collect();
    assert_eq!(logprobs, choice.logprobs);
    let order: String = pending.order().into_iter().collect();
    assert_eq!(order, "ptttptptttttp");
}

#[test]
fn a_further_call_does_not_come_where_one_is_wanted() {
    let (_engine, model, _control) = writing(&tokens_of(ANSWER));
    let one = Conversation {
        parallel_calls: false,
        ..chat("x")
    };
    let choice = submit(&model, task(&one, &long(), &[])).choice();
    assert_eq!((choice.calls.len(), choice.finish), (1, Finish::Calls));
    assert!(choice.tokens.len() < tokens_of(ANSWER).len() - 40);
}

#[test]
fn functions_that_are_not_to_be_called_are_not_shown_and_no_call_is_looked_for() {
    let none = Conversation {
        function_choice: FunctionChoice::None,
        ..chat("x")
    };
    let bare = Conversation {
        functions: Vec::new(),
        ..chat("x")
    };
    let (_engine, model, _control) = writing(&[]);
    let count = |chat: &Conversation| model.prompt_tokens(&Prompt::Chat(chat.clone())).unwrap();
    assert_eq!(count(&none), count(&bare));
    assert!(count(&chat("x")) > count(&bare) + 100);
    let logits = scripted(count(&bare), tokens_of(ANSWER));
    let (_other, model, _control) = with_tags(logits);
    let choice = submit(&model, task(&none, &long(), &[])).choice();
    assert_eq!((choice.calls.len(), choice.finish), (0, Finish::End));
    assert!(choice.text.contains("<tool_call>"), "{}", choice.text);
}

#[test]
fn a_call_that_must_come_comes_and_keeps_to_the_schema() {
    let (_engine, model, _control) = with_tags(Arc::new(hashed));
    for (choice, several) in [
        (FunctionChoice::Required, false),
        (FunctionChoice::Named("sub".into()), false),
        (FunctionChoice::Named("add".into()), true),
    ] {
        let forced = Conversation {
            function_choice: choice.clone(),
            parallel_calls: several,
            ..chat("call")
        };
        for seed in 0..8 {
            let mut parameters = long();
            parameters.temperature = 1.0;
            let mut like = ask("x", 1);
            like.seed = seed;
            let (request, pending) = Ask::request_of(task(&forced, &parameters, &[]), &like);
            assert!(model.submit(request).is_ok());
            let answer = pending.choice();
            assert!(!answer.calls.is_empty(), "{answer:?}");
            assert_eq!(answer.text, "");
            if answer.finish == Finish::Calls {
                for call in &answer.calls {
                    let arguments: serde_json::Value =
                        serde_json::from_str(&call.arguments).unwrap();
                    assert!(
                        arguments["n"].as_i64().is_some_and(|n| n <= 9),
                        "{arguments}"
                    );
                    if let FunctionChoice::Named(name) = &choice {
                        assert_eq!(call.name, *name);
                    }
                }
                assert!(several || answer.calls.len() == 1);
            }
            assert_eq!(joined(&pending.pieces(), 0), lanes_of(&answer));
        }
    }
}

#[test]
fn a_function_that_is_strict_is_called_by_its_schema_and_text_is_free() {
    let mut strict = chat("x");
    strict.functions[0].strict = true;
    let wrong = ANSWER.replace("\"n\": 1", "\"n\": true");
    let (_engine, model, _control) = writing(&tokens_of(&wrong));
    let choice = submit(&model, task(&strict, &long(), &[])).choice();
    assert_eq!(choice.text, "I add.");
    let arguments = &choice.calls[0].arguments;
    assert!(!arguments.contains("true"), "{arguments}");
}

#[test]
fn a_json_answer_or_a_call_may_come_where_both_may() {
    let mut parameters = long();
    parameters.structure = Some(Structure::JsonSchema(r#"{"type":"boolean"}"#.into()));
    for (script, text, calls) in [
        ("true", "true", 0),
        (
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>",
            "",
            1,
        ),
    ] {
        let (_engine, model, _control) = writing(&tokens_of(script));
        let choice = submit(&model, task(&chat("x"), &parameters, &[])).choice();
        assert_eq!((choice.text.as_str(), choice.calls.len()), (text, calls));
    }
}

#[test]
fn functions_that_cannot_be_are_told_to_the_reply_and_to_who_counts_first() {
    let (_engine, model, _control) = with_tags(Arc::new(hashed));
    type Change = fn(&mut Conversation);
    let cases: [(Change, &str); 6] = [
        (
            |chat| chat.functions[1].name = "add".into(),
            "functions is \"add\" twice, must be of each name once",
        ),
        (
            |chat| chat.functions[1].name = String::new(),
            "functions is one without a name, must be of names that are not empty",
        ),
        (
            |chat| chat.functions[1].parameters = "[]".into(),
            "functions is \"sub\" with parameters that are no object, must be of JSON Schemas that are objects",
        ),
        (
            |chat| chat.functions = (0..129).map(|n| function(&n.to_string())).collect(),
            "functions is 129 functions, must be at most 128",
        ),
        (
            |chat| chat.function_choice = FunctionChoice::Named("mul".into()),
            "function_choice is \"mul\", must be the name of one of the functions",
        ),
        (
            |chat| {
                chat.functions.clear();
                chat.function_choice = FunctionChoice::Required;
            },
            "function_choice is required, must be auto or none where there are no functions",
        ),
    ];
    for (change, wanted) in cases {
        let mut chat = chat("x");
        change(&mut chat);
        let counted = model.prompt_tokens(&Prompt::Chat(chat.clone()));
        assert_eq!(counted.unwrap_err().to_string(), wanted);
        let error = submit(&model, task(&chat, &long(), &[])).error();
        assert_eq!(error.to_string(), wanted);
    }
    let mut strict = chat("x");
    strict.functions[0].strict = true;
    strict.functions[0].parameters = r#"{"type": "nonsense"}"#.into();
    let error = submit(&model, task(&strict, &long(), &[])).error();
    assert!(
        error
            .to_string()
            .starts_with("functions is add, sub, must be "),
        "{error}"
    );
    // Where it need not be kept to, a call that must come is an object.
    strict.functions[0].strict = false;
    strict.function_choice = FunctionChoice::Named("add".into());
    let choice = submit(&model, task(&strict, &long(), &[])).choice();
    assert_eq!(choice.calls[0].name, "add");
}

#[test]
fn a_prompt_is_counted_as_it_is_submitted() {
    let (_engine, model, control) = with_tags(Arc::new(hashed));
    for prompt in [
        Prompt::Chat(chat("Hello <tool_call>")),
        Prompt::Chat(vec![Message::new(Role::User, "x")].into()),
        Prompt::Raw("go on".into()),
    ] {
        let task = ModelTask::Generate {
            prompt: prompt.clone(),
            forced_prefix: Vec::new(),
            parameters: Parameters {
                max_tokens: 1,
                ..Parameters::default()
            },
        };
        let made = submit(&model, task).answer();
        assert_eq!(
            model.prompt_tokens(&prompt),
            Ok(made.prompt_tokens as usize)
        );
    }
    assert_eq!(
        model.prompt_tokens(&Prompt::Chat(Conversation::default())),
        Err(ModelError::EmptyPrompt)
    );
    let long = Prompt::Raw("x".repeat(5000));
    let error = ModelError::PromptTooLong {
        tokens: 5000,
        limit: 2047,
    };
    assert_eq!(model.prompt_tokens(&long), Err(error));
    control.is_sound();
}

#[test]
fn a_request_that_has_said_enough_ends_with_what_it_has() {
    for n in [1, 3] {
        let (_engine, model, control) = held(shape(4, 64, 128), ModelOptions::default());
        let mut asked = ask("enough", 100);
        asked.parameters.n = n;
        let pending = asked.of(&model);
        for _ in 0..8 {
            control.step();
        }
        control.entered();
        model.end(pending.id);
        // A second time, and one that nobody knows, change nothing.
        model.end(pending.id);
        model.end(tidegate_contract::RequestId(u64::MAX));
        control.run_free();
        let choices = pending.choices();
        assert_eq!(choices.len(), n as usize);
        for (number, choice) in choices.iter().enumerate() {
            assert_eq!(choice.finish, Finish::Filtered);
            assert!(
                (1..20).contains(&choice.tokens.len()),
                "{}",
                choice.tokens.len()
            );
            let (tokens, _) = choice_alone(&asked, number as u32, 128, &hashed);
            assert!(tokens.starts_with(&choice.tokens));
            assert_eq!(joined(&pending.pieces(), number as u32).0, choice.text);
        }
        assert_eq!(model.stats().running, 0);
        control.is_sound();
    }
}

#[test]
fn one_that_waits_ends_without_text() {
    let (_engine, model, control) = held(shape(1, 64, 128), at_once(1));
    let first = ask("first", 4).of(&model);
    control.entered();
    let second = ask("second", 4).of(&model);
    model.end(second.id);
    control.run_free();
    assert!(first.wait().1.is_ok());
    let choice = second.choice();
    assert_eq!(
        (choice.finish, choice.text.as_str()),
        (Finish::Filtered, "")
    );
}

fn parts() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(
        prop_oneof![
            Just("<think>"),
            Just("</think>"),
            Just("<tool_call>"),
            Just("</tool_call>"),
            Just("{\"name\": \"add\", \"arguments\": {\"n\": "),
            Just("1}}"),
            Just("text "),
            Just("€"),
            Just("\n"),
            Just("St"),
            Just("Stop"),
        ],
        0..16,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_of_a_lane_are_the_text_of_the_answer_there(
        parts in parts(),
        made in any::<proptest::sample::Index>(),
        stop in any::<bool>(),
        lanes in any::<bool>(),
        parallel_calls in any::<bool>(),
        limit in 1..150u32,
    ) {
        let script = tokens_of(&parts.concat());
        let (_engine, model, _control) = writing(&script);
        let chat = Conversation { lanes, parallel_calls, ..chat("x") };
        let parameters = Parameters {
            max_tokens: limit,
            stop: if stop { vec!["Stop".into(), "\n\n".into()] } else { Vec::new() },
            logprobs: Some(0),
            ..Parameters::default()
        };
        let pending = submit(&model, task(&chat, &parameters, &[]));
        let choice = pending.choice();
        prop_assert_eq!(joined(&pending.pieces(), 0), lanes_of(&choice));
        let told: Vec<TokenLogprob> = pending.pieces().into_iter().flat_map(|p| p.logprobs).collect();
        prop_assert!(told.len() <= choice.logprobs.len());
        if !lanes && !stop && choice.tokens.len() == script.len() {
            let special = choice.tokens.iter().rev().take_while(|token| **token >= VOCABULARY as u32 - 2).count();
            prop_assert!(told.len() >= choice.logprobs.len() - special);
        }
        // Resumed after any of its tokens it is the same.
        let prefix = &choice.tokens[..made.index(choice.tokens.len() + 1)];
        let resumed = submit(&model, task(&chat, &parameters, prefix));
        let again = resumed.choice();
        prop_assert_eq!(joined(&resumed.pieces(), 0), lanes_of(&again));
        prop_assert_eq!(lanes_of(&again), lanes_of(&choice));
        prop_assert_eq!((again.tokens, again.finish), (choice.tokens, choice.finish));
    }

    #[test]
    fn pieces_of_every_choice_are_its_text(seed in 0..1000u64, n in 1..4u32, stop in "[a-c]{0,2}") {
        let (_engine, model, _control) = free(shape(4, 64, 128), ModelOptions::default());
        let mut asked = ask("x", 40);
        asked.seed = seed;
        asked.parameters.n = n;
        asked.parameters.temperature = 1.5;
        asked.parameters.stop = vec![stop];
        let pending = asked.of(&model);
        for (number, choice) in pending.choices().iter().enumerate() {
            prop_assert_eq!(&joined(&pending.pieces(), number as u32).0, &choice.text);
        }
    }
}
