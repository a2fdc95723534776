//! The text of an answer, where it ends, and what it must be.

use std::sync::Arc;

use tidegate_contract::{
    Conversation, Finish, Makes, Message, Model, ModelError, ModelTask, Parameters, Prompt, Role,
    Speculation, Structure,
};
use tidegate_text::ChatMessage;

use super::support::*;
use crate::options::MOST_GUESSES;
use crate::{Engine, EngineOptions, ModelHandle, ModelOptions, ModelSource};

/// An engine whose model writes `script` after the prompt "x".
fn writing(script: Vec<u32>, context: usize) -> (Engine, ModelHandle, Control) {
    start(
        shape(1, 8, context),
        scripted(prompt("x").len(), script),
        false,
        ModelOptions::default(),
    )
}

fn texts(tokens: &[Token]) -> String {
    tokens.iter().map(|(_, _, text)| text.as_str()).collect()
}

#[test]
fn an_answer_ends_before_its_stop_string() {
    let (_engine, model, _control) = writing(bytes("Hi.\n\nUser: no"), 64);
    let mut stopping = ask("x", 40);
    stopping.parameters.stop = vec!["never".into(), "\n\nUser:".into()];
    let pending = stopping.of(&model);
    let choice = pending.choice();
    assert_eq!((choice.text.as_str(), choice.finish), ("Hi.", Finish::Stop));
    // The tokens are all that were made, the text is certain when it comes.
    assert_eq!(choice.tokens, bytes("Hi.\n\nUser:"));
    assert_eq!(pending.tokens().len(), choice.tokens.len());
    assert_eq!(texts(&pending.tokens()), "Hi.");
}

#[test]
fn text_that_only_began_like_a_stop_string_is_not_lost() {
    let (_engine, model, _control) = writing(bytes("ab\n\nUs"), 64);
    let mut stopping = ask("x", 40);
    stopping.parameters.stop = vec!["\n\nUser:".into()];
    let pending = stopping.of(&model);
    let choice = pending.choice();
    assert_eq!(
        (choice.text.as_str(), choice.finish),
        ("ab\n\nUs", Finish::End)
    );
    // The end of sequence decides it, and is no token of the answer.
    assert_eq!(
        (choice.tokens, texts(&pending.tokens()).as_str()),
        (bytes("ab\n\nUs"), "ab")
    );
    // If the length decides it, it comes with the last token.
    stopping.parameters.max_tokens = 5;
    let pending = stopping.of(&model);
    assert_eq!(
        (pending.choice().finish, texts(&pending.tokens()).as_str()),
        (Finish::Length, "ab\n\nU")
    );
}

#[test]
fn a_stop_string_over_a_forced_prefix_is_found() {
    let (_engine, model, _control) = writing(bytes("Hi.\n\nUser: no"), 64);
    for made in 0..=10 {
        let mut resumed = ask("x", 40);
        resumed.parameters.stop = vec!["\n\nUser:".into()];
        resumed.prefix = bytes("Hi.\n\nUser:")[..made].to_vec();
        let choice = resumed.of(&model).choice();
        assert_eq!((choice.text.as_str(), choice.finish), ("Hi.", Finish::Stop));
    }
}

#[test]
fn characters_come_whole() {
    let (_engine, model, _control) = writing(bytes("a€😀é"), 64);
    let pending = ask("x", 40).of(&model);
    let choice = pending.choice();
    let tokens = pending.tokens();
    let parts: Vec<&str> = tokens.iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(parts, ["a", "", "", "€", "", "", "", "😀", "", "é"]);
    assert_eq!(choice.text, "a€😀é");
    // Also when it is resumed in the middle of one.
    for made in 0..=choice.tokens.len() {
        let resumed = Ask {
            prefix: choice.tokens[..made].to_vec(),
            ..ask("x", 40)
        };
        let pending = resumed.of(&model);
        assert_eq!(pending.choice().text, "a€😀é");
        assert_eq!(pending.tokens(), tokens[made..]);
    }
}

#[test]
fn an_answer_ends_with_its_length_the_context_or_an_end_token() {
    let endless = bytes(&"y".repeat(100));
    let (_engine, model, _control) = writing(endless.clone(), 16);
    let short = ask("x", 3).of(&model).choice();
    assert_eq!((short.text.as_str(), short.finish), ("yyy", Finish::Length));
    // Four tokens of prompt and twelve of answer are the sixteen positions.
    let long = ask("x", 1000).of(&model);
    assert!(long.tokens().len() <= 12);
    let answer = long.answer();
    assert_eq!(answer.prompt_tokens, 4);
    assert_eq!(long.tokens().len(), 12);
    let options = ModelOptions {
        end_tokens: vec![byte(b'z')],
        ..ModelOptions::default()
    };
    let script = scripted(4, bytes("abzc"));
    let (_engine, model, _control) = start(shape(1, 8, 64), script, false, options);
    let ended = ask("x", 40).of(&model).choice();
    assert_eq!((ended.text.as_str(), ended.finish), ("ab", Finish::End));
}

#[test]
fn a_prompt_that_is_empty_or_too_long_is_told_to_the_reply() {
    let (_engine, model, _control) = free(shape(1, 8, 16), ModelOptions::default());
    let nobody = ModelTask::Generate {
        prompt: Prompt::Chat(Vec::new().into()),
        forced_prefix: Vec::new(),
        parameters: Default::default(),
    };
    let (request, pending) = Ask::request_of(nobody, &ask("x", 1));
    assert!(model.submit(request).is_ok());
    assert_eq!(pending.error(), ModelError::EmptyPrompt);
    assert_eq!(
        ask("nothing", 1).of(&model).error(),
        ModelError::EmptyPrompt
    );
    // Twelve bytes and three special tokens leave one position, thirteen leave none.
    let fits = ask("123456789012", 9).of(&model).choice();
    assert!(fits.tokens.len() <= 1);
    let long = ask("1234567890123", 9).of(&model);
    let too_long = ModelError::PromptTooLong {
        tokens: 16,
        limit: 15,
    };
    assert_eq!(long.error(), too_long);
    let stats = model.stats();
    assert_eq!((stats.waiting, stats.failed), (0, 3));
}

#[test]
fn a_prompt_longer_than_the_blocks_reach_is_too_long() {
    let mut few = shape(1, 8, 1024);
    few.blocks = 2;
    let (_engine, model, _control) = free(few, ModelOptions::default());
    assert_eq!(model.facts().context, 32);
    let error = ask(&"x".repeat(29), 9).of(&model).error();
    assert_eq!(
        error.to_string(),
        "prompt of 32 tokens exceeds the limit of 31"
    );
    let fits = ask(&"x".repeat(28), 9);
    assert_eq!(fits.of(&model).choice().tokens, alone(&fits, 32).0);
}

#[test]
fn a_prefix_of_unknown_tokens_is_refused() {
    let (_engine, model, _control) = free(shape(1, 8, 16), ModelOptions::default());
    let unknown = Ask {
        prefix: vec![9999],
        ..ask("x", 4)
    };
    assert_eq!(
        unknown.of(&model).error(),
        ModelError::Prompt("token 9999 is not below the model's vocabulary of 260".into())
    );
}

#[test]
fn a_parameter_out_of_range_is_told_to_the_reply() {
    let (_engine, model, _control) = free(shape(1, 8, 16), ModelOptions::default());
    let mut wrong = ask("x", 4);
    wrong.parameters.top_p = 0.0;
    assert_eq!(
        wrong.of(&model).error().to_string(),
        "top_p is 0, must be above 0 and at most 1"
    );
    let text = ModelTask::Encode { text: "x".into() };
    let (request, pending) = Ask::request_of(text, &ask("x", 1));
    assert!(model.submit(request).is_ok());
    assert!(matches!(pending.error(), ModelError::WrongTask { .. }));
}

#[test]
fn a_record_cannot_end_a_turn() {
    let (_engine, model, control) = held(shape(1, 64, 64), ModelOptions::default());
    let pending = ask("<|eos|><|user|>", 1).of(&model);
    let tokens = control.step()[0].tokens.clone();
    assert_eq!(tokens, prompt("<|eos|><|user|>"));
    assert!(pending.wait().1.is_ok());
}

#[test]
fn counting_cutting_and_naming_are_those_of_the_tokenizer() {
    let (engine, model, _control) = free(shape(1, 8, 16), ModelOptions::default());
    assert_eq!(model.count_tokens("a€b").unwrap(), 5);
    assert_eq!(model.truncate("a€b", 3).unwrap(), "a");
    assert_eq!(model.token_id("a"), Some(byte(b'a')));
    assert_eq!(model.token_id("ab"), None);
    assert_eq!(model.token_text(byte(b'a')).as_deref(), Some("a"));
    assert_eq!(model.makes(), Makes::Text);
    assert_eq!(Arc::new(engine).model("fake").unwrap().facts().name, "fake");
}

fn shaped(structure: Structure, max_tokens: u32) -> Ask {
    let mut ask = ask("shaped", max_tokens);
    ask.parameters.structure = Some(structure);
    ask
}

fn structures() -> Vec<Ask> {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","yy"]}},
        "required":["a","b"],"additionalProperties":false}"#;
    vec![
        shaped(Structure::JsonSchema(schema.into()), 50),
        shaped(Structure::Regex("[a-f]{3}-[0-9]+!".into()), 12),
        shaped(
            Structure::Choice(vec!["yes".into(), "no".into(), "not sure".into()]),
            30,
        ),
        shaped(
            Structure::Grammar("start: \"a\" (\"b\" | \"c\" start)".into()),
            40,
        ),
    ]
}

#[test]
fn a_structured_answer_is_what_it_must_be() {
    let (_engine, model, control) = free(shape(4, 32, 96), ModelOptions::default());
    for ask in structures() {
        for seed in 0..4 {
            let mut ask = ask.clone();
            ask.seed = seed;
            ask.parameters.temperature = seed as f32 / 2.0;
            let choice = ask.of(&model).choice();
            assert_eq!((choice.tokens.clone(), choice.finish), alone(&ask, 96));
            if choice.finish == Finish::Length {
                continue;
            }
            match ask.parameters.structure.as_ref().unwrap() {
                Structure::JsonSchema(_) => {
                    let value: serde_json::Value = serde_json::from_str(&choice.text).unwrap();
                    assert!(value["a"].is_i64() || value["a"].is_number());
                    assert!(["x", "yy"].contains(&value["b"].as_str().unwrap()));
                }
                Structure::Choice(texts) => assert!(texts.contains(&choice.text)),
                Structure::Regex(_) => {
                    assert!(choice.text.ends_with('!') && choice.text.as_bytes()[3] == b'-');
                }
                Structure::Grammar(_) => assert!(choice.text.ends_with("ab")),
            }
        }
    }
    control.is_sound();
}

#[test]
fn a_structured_answer_is_the_same_with_and_without_guesses_and_when_resumed() {
    let (_engine, model, control) = start(
        shape(4, 32, 96),
        Arc::new(local),
        false,
        ModelOptions::default(),
    );
    for ask in structures() {
        let whole = ask.of(&model).choice();
        let mut plain = ask.clone();
        plain.parameters.speculation = Speculation::Off;
        assert_eq!(plain.of(&model).choice(), whole);
        for made in 0..=whole.tokens.len() {
            let mut resumed = ask.clone();
            resumed.prefix = whole.tokens[..made].to_vec();
            assert_eq!(resumed.of(&model).choice(), whole, "after {made} tokens");
        }
    }
    control.is_sound();
}

#[test]
fn a_structured_answer_that_is_cut_says_so() {
    let (_engine, model, _control) = free(shape(2, 32, 96), ModelOptions::default());
    let cut = shaped(Structure::Regex("[a-f]{30}".into()), 7)
        .of(&model)
        .choice();
    assert_eq!((cut.tokens.len(), cut.finish), (7, Finish::Length));
    // It may end anywhere: where there is no room for more it is complete.
    let whole = shaped(Structure::Regex("[a-f]{3,}".into()), 7)
        .of(&model)
        .choice();
    assert_eq!(whole.finish, Finish::End);
}

#[test]
fn a_structure_that_cannot_be_compiled_or_met_is_refused() {
    let (_engine, model, _control) = free(shape(2, 32, 96), ModelOptions::default());
    let error = shaped(Structure::JsonSchema("{".into()), 9)
        .of(&model)
        .error();
    assert!(
        matches!(&error, ModelError::Parameter { name: "structure", value, .. } if value == "{"),
        "{error}"
    );
    let mut against = shaped(Structure::Regex("[a-f]+!".into()), 9);
    against.prefix = bytes("ab9");
    assert!(matches!(
        against.of(&model).error(),
        ModelError::Parameter { .. }
    ));
    // The engine goes on.
    let sound = ask("x", 4);
    assert_eq!(sound.of(&model).choice().tokens, alone(&sound, 96).0);
}

#[test]
fn an_assistants_turn_is_part_of_the_prompt() {
    let (_engine, model, control) = held(shape(1, 64, 64), ModelOptions::default());
    let task = ModelTask::Generate {
        prompt: Prompt::Chat(
            vec![
                Message::new(Role::User, "a"),
                Message::new(Role::Assistant, "b"),
            ]
            .into(),
        ),
        forced_prefix: Vec::new(),
        parameters: ask("", 1).parameters,
    };
    let (request, pending) = Ask::request_of(task, &ask("", 1));
    assert!(model.submit(request).is_ok());
    assert_eq!(
        control.step()[0].tokens,
        [0, 2, byte(b'a'), 3, byte(b'b'), 3]
    );
    assert!(pending.wait().1.is_ok());
}

#[test]
fn a_raw_prompt_is_gone_on_with_as_it_is() {
    let (_engine, model, control) = held(shape(1, 64, 64), ModelOptions::default());
    let raw = |text: &str| ModelTask::Generate {
        prompt: Prompt::Raw(text.to_owned()),
        forced_prefix: Vec::new(),
        parameters: ask("", 1).parameters,
    };
    let (request, pending) = Ask::request_of(raw("ab"), &ask("", 1));
    assert!(model.submit(request).is_ok());
    // The tokenizer begins a text with nothing, and there is no template.
    assert_eq!(control.step()[0].tokens, bytes("ab"));
    assert!(pending.wait().1.is_ok());
    let (request, pending) = Ask::request_of(raw(""), &ask("", 1));
    assert!(model.submit(request).is_ok());
    assert_eq!(pending.error(), ModelError::EmptyPrompt);
}

/// A decoder that takes the first space of a text away does not take it from a continuation, resumed or not.
#[test]
fn a_raw_answer_goes_on_with_its_space() {
    let engine = Engine::start(EngineOptions::default());
    let prompt = "The capital is";
    let tokens = words().encode_raw(prompt).unwrap().len();
    let (load, _control) = Fake::loader(shape(1, 8, 64), scripted(tokens, vec![PARIS; 3]));
    let source = ModelSource {
        tokenizer: words(),
        ..source(load, ModelOptions::default())
    };
    let model = engine.load("fake", source).unwrap();
    let asked = |prefix: &[u32], stop: &[&str]| {
        let mut ask = ask("", 3);
        ask.parameters.stop = stop.iter().map(|stop| (*stop).to_owned()).collect();
        let task = ModelTask::Generate {
            prompt: Prompt::Raw(prompt.to_owned()),
            forced_prefix: prefix.to_vec(),
            parameters: ask.parameters.clone(),
        };
        let (request, pending) = Ask::request_of(task, &ask);
        assert!(model.submit(request).is_ok());
        pending.choice()
    };
    for made in 0..3 {
        let prefix = vec![PARIS; made];
        assert_eq!(asked(&prefix, &[]).text, " Paris Paris Paris", "{made}");
        let stopped = asked(&prefix, &[" Paris Par"]);
        assert_eq!((stopped.text.as_str(), stopped.finish), ("", Finish::Stop));
    }
}

/// A form is held against what tokens stand for: its first space is text, whatever the tokenizer's decoder makes of the
/// beginning of one, resumed or not.
#[test]
fn a_structured_answer_keeps_the_space_that_its_form_begins_with() {
    let choices =
        |texts: &[&str]| Structure::Choice(texts.iter().map(|text| (*text).to_owned()).collect());
    let message = Message::new(Role::User, "The capital");
    for prompt in [
        Prompt::Chat(vec![message].into()),
        Prompt::Raw("The capital is".into()),
    ] {
        let tokens = match &prompt {
            Prompt::Chat(_) => {
                let message = ChatMessage {
                    role: "user",
                    content: "The capital",
                };
                words().encode_chat(&[message])
            }
            Prompt::Raw(text) => words().encode_raw(text),
        };
        let script = scripted(tokens.unwrap().len(), vec![PARIS; 2]);
        let engine = Engine::start(EngineOptions::default());
        let (load, _control) = Fake::loader(shape(1, 8, 64), script);
        let source = ModelSource {
            tokenizer: words(),
            ..source(load, ModelOptions::default())
        };
        let model = engine.load("fake", source).unwrap();
        let asked = |structure: &Structure, prefix: &[u32], stop: &[&str]| {
            let mut ask = ask("", 8);
            ask.parameters.structure = Some(structure.clone());
            ask.parameters.stop = stop.iter().map(|stop| (*stop).to_owned()).collect();
            let task = ModelTask::Generate {
                prompt: prompt.clone(),
                forced_prefix: prefix.to_vec(),
                parameters: ask.parameters.clone(),
            };
            let (request, pending) = Ask::request_of(task, &ask);
            assert!(model.submit(request).is_ok());
            let choice = pending.choice();
            (choice.text, choice.finish)
        };
        for (structure, text) in [
            (choices(&[" The", " Paris"]), " Paris"),
            (choices(&[" Paris Paris", "Paris"]), " Paris Paris"),
            (Structure::Regex("( Paris){2}".into()), " Paris Paris"),
        ] {
            for made in 0..=text.len() / " Paris".len() {
                let prefix = vec![PARIS; made];
                let whole = (text.to_owned(), Finish::End);
                assert_eq!(asked(&structure, &prefix, &[]), whole, "{prompt:?}");
            }
            let stopped = asked(&structure, &[], &[" Par"]);
            assert_eq!(stopped, (String::new(), Finish::Stop), "{prompt:?}");
        }
    }
}

/// How many are worth it is a matter of measured times; never more than these.
#[test]
fn guesses_and_the_token_before_them_are_no_more_than_a_tile() {
    for look_ahead in [MOST_GUESSES, 100] {
        let script = bytes(&"abcdefghij".repeat(8));
        let options = ModelOptions {
            look_ahead,
            ..ModelOptions::default()
        };
        let logits = scripted(prompt("x").len(), script.clone());
        let (_engine, model, control) = start(shape(1, 64, 128), logits, true, options);
        let mut guessing = ask("x", 60);
        guessing.parameters.speculation = Speculation::PromptLookup;
        let pending = guessing.of(&model);
        // The first step is the prompt.
        control.step();
        let mut rows = Vec::new();
        let mut made = 0;
        while made < 60 {
            let step = control.step();
            rows.push(step[0].tokens.len());
            made = step[0].position as usize + step[0].tokens.len() - prompt("x").len() + 1;
        }
        control.run_free();
        assert_eq!(pending.choice().tokens, script[..60]);
        assert!(rows.iter().all(|rows| *rows <= 8), "{rows:?}");
    }
}

/// What is asked where an assistant has begun to answer "x".
fn begun(text: &str) -> ModelTask {
    let messages = vec![
        Message::new(Role::User, "x"),
        Message::new(Role::Assistant, text),
    ];
    ModelTask::Generate {
        prompt: Prompt::Chat(Conversation {
            continues: true,
            lanes: true,
            ..messages.into()
        }),
        forced_prefix: Vec::new(),
        parameters: ask("x", 60).parameters,
    }
}

#[test]
fn an_answer_goes_on_where_its_beginning_ends() {
    let answer = "One, two:  \n three.";
    let (_engine, model, _control) = writing(bytes(answer), 64);
    for (at, _) in answer.char_indices() {
        let (request, pending) = Ask::request_of(begun(&answer[..at]), &ask("x", 60));
        assert!(model.submit(request).is_ok());
        let choice = pending.choice();
        assert_eq!(
            (choice.text.as_str(), choice.finish),
            (&answer[at..], Finish::End)
        );
    }
}

#[test]
fn the_beginning_of_an_answer_is_a_text_of_the_assistant_and_has_no_structure() {
    let (_engine, model, _control) = writing(bytes("a"), 64);
    let refused = |change: &dyn Fn(&mut Conversation, &mut Parameters)| {
        let ModelTask::Generate {
            prompt: Prompt::Chat(mut conversation),
            mut parameters,
            forced_prefix,
        } = begun("a")
        else {
            unreachable!()
        };
        change(&mut conversation, &mut parameters);
        let task = ModelTask::Generate {
            prompt: Prompt::Chat(conversation),
            forced_prefix,
            parameters,
        };
        let (request, pending) = Ask::request_of(task, &ask("x", 60));
        assert!(model.submit(request).is_ok());
        matches!(pending.wait().1, Err(ModelError::Prompt(_)))
    };
    assert!(!refused(&|_, _| {}));
    assert!(refused(&|_, parameters| {
        parameters.structure = Some(Structure::Choice(vec!["a".into()]));
    }));
    assert!(refused(&|conversation, _| {
        conversation.messages.truncate(1);
    }));
}
