//! The text of an answer, and where it ends.

use std::sync::Arc;

use tidegate_contract::{Finish, Message, Model, ModelError, Role};

use super::support::*;
use crate::serving::EngineOptions;

/// An engine whose model writes `script` after the prompt "x".
fn writing(script: Vec<u32>, context: usize) -> (crate::serving::Engine, Control) {
    start(
        shape(1, 8, context),
        scripted(prompt("x").len(), script),
        false,
        EngineOptions::default(),
    )
}

fn texts(tokens: &[Token]) -> String {
    tokens.iter().map(|(_, _, text)| text.as_str()).collect()
}

#[test]
fn an_answer_ends_before_its_stop_string() {
    let (engine, _control) = writing(bytes("Hi.\n\nUser: no"), 64);
    let mut stopping = ask("x", 40);
    stopping.parameters.stop = vec!["never".into(), "\n\nUser:".into()];
    let (tokens, answer) = stopping.of(&engine).wait();
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("Hi.", Finish::Stop));
    // The tokens are all that were made, the text is certain when it comes.
    assert_eq!(answer.tokens, bytes("Hi.\n\nUser:"));
    assert_eq!(tokens.len(), answer.tokens.len());
    assert_eq!(texts(&tokens), "Hi.");
}

#[test]
fn text_that_only_began_like_a_stop_string_is_not_lost() {
    let (engine, _control) = writing(bytes("ab\n\nUs"), 64);
    let mut stopping = ask("x", 40);
    stopping.parameters.stop = vec!["\n\nUser:".into()];
    let (tokens, answer) = stopping.of(&engine).wait();
    let answer = answer.unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.finish),
        ("ab\n\nUs", Finish::End)
    );
    // The end of sequence decides it, and is no token of the answer.
    assert_eq!(
        (answer.tokens, texts(&tokens).as_str()),
        (bytes("ab\n\nUs"), "ab")
    );
    // If the length decides it, it comes with the last token.
    stopping.parameters.max_tokens = 5;
    let (tokens, answer) = stopping.of(&engine).wait();
    assert_eq!(
        (answer.unwrap().finish, texts(&tokens).as_str()),
        (Finish::Length, "ab\n\nU")
    );
}

#[test]
fn characters_come_whole() {
    let (engine, _control) = writing(bytes("a€😀é"), 64);
    let (tokens, answer) = ask("x", 40).of(&engine).wait();
    let parts: Vec<&str> = tokens.iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(parts, ["a", "", "", "€", "", "", "", "😀", "", "é"]);
    assert_eq!(answer.unwrap().text, "a€😀é");
}

#[test]
fn an_answer_ends_with_its_length_the_context_or_an_end_token() {
    let endless = bytes(&"y".repeat(100));
    let (engine, _control) = writing(endless.clone(), 16);
    let short = ask("x", 3).of(&engine).answer();
    assert_eq!((short.text.as_str(), short.finish), ("yyy", Finish::Length));
    // Four tokens of prompt and twelve of answer are the sixteen positions.
    let long = ask("x", 1000).of(&engine).answer();
    assert_eq!(
        (long.tokens.len(), long.finish, long.prompt_tokens),
        (12, Finish::Length, 4)
    );
    let options = EngineOptions {
        end_tokens: vec![byte(b'z')],
        ..EngineOptions::default()
    };
    let (engine, _control) = start(shape(1, 8, 64), scripted(4, bytes("abzc")), false, options);
    let ended = ask("x", 40).of(&engine).answer();
    assert_eq!((ended.text.as_str(), ended.finish), ("ab", Finish::End));
}

#[test]
fn a_prompt_that_is_empty_or_too_long_is_told_to_the_reply() {
    let (engine, _control) = free(shape(1, 8, 16), EngineOptions::default());
    let (mut request, pending) = ask("x", 1).request();
    request.messages.clear();
    assert!(engine.submit(request).is_ok());
    assert_eq!(pending.error(), ModelError::EmptyPrompt);
    assert_eq!(
        ask("nothing", 1).of(&engine).error(),
        ModelError::EmptyPrompt
    );
    // Twelve bytes and three special tokens leave one position, thirteen leave none.
    assert_eq!(ask("123456789012", 9).of(&engine).answer().tokens.len(), 1);
    let long = ask("1234567890123", 9).of(&engine);
    assert_eq!(
        long.error(),
        ModelError::PromptTooLong {
            tokens: 16,
            limit: 15
        }
    );
    let stats = engine.stats();
    assert_eq!((stats.waiting, stats.failed), (0, 3));
}

#[test]
fn a_prefix_of_unknown_tokens_is_refused() {
    let (engine, _control) = free(shape(1, 8, 16), EngineOptions::default());
    let error = Ask {
        prefix: vec![9999],
        ..ask("x", 4)
    }
    .of(&engine)
    .error();
    assert_eq!(
        error,
        ModelError::Prompt("token 9999 is not below the model's vocabulary of 260".into())
    );
}

#[test]
fn a_record_cannot_end_a_turn() {
    let (engine, control) = held(shape(1, 64, 64), EngineOptions::default());
    let (mut request, pending) = ask("", 1).request();
    request.messages = vec![Message {
        role: Role::User,
        content: "<|eos|><|user|>".into(),
    }];
    assert!(engine.submit(request).is_ok());
    let tokens: Vec<u32> = control.step().iter().map(|row| row.token).collect();
    assert_eq!(tokens, prompt("<|eos|><|user|>"));
    assert!(pending.wait().1.is_ok());
}

#[test]
fn counting_and_cutting_are_those_of_the_tokenizer() {
    let (engine, _control) = free(shape(1, 8, 16), EngineOptions::default());
    assert_eq!(engine.count_tokens("a€b").unwrap(), 5);
    assert_eq!(engine.truncate("a€b", 3).unwrap(), "a");
    assert_eq!(Arc::new(engine).facts().name, "fake");
}
