//! Records that say themselves what is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_contract::{
    Call, Finish, Model, ModelError, ModelFacts, ModelTask, Parameters, Prompt, Request, RequestId,
    Role, Structure, Terms, TokenLogprob,
};
use tidegate_flow::{Ask, Target};

use crate::native::{Held, answer, choice, choices};
use crate::setting::*;
use crate::table::End;

#[test]
fn a_record_says_what_is_asked_and_how_and_the_stage_what_it_leaves_open() {
    let model = Held::new();
    let mut stage = stage_of(model.clone());
    stage.ask = Ask::Generate {
        raw: false,
        system: Some("Be kind.".into()),
        from_record: true,
        turns: Vec::new(),
        template_arguments: Default::default(),
        reasoning: None,
        parameters: Box::new(Parameters {
            max_tokens: 64,
            temperature: 0.5,
            ..Parameters::default()
        }),
    };
    let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let value = json!({
        "model": "any", "metadata": {"a": 1},
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"},
            {"role": "user", "content": "Bye"}],
        "lanes": true,
        "parameters": {"max_tokens": 9000, "top_p": 0.5, "n": 2, "stop": ["."], "seed": 11, "logprobs": 1},
    });
    let deadline = Some(Instant::now() + Duration::from_secs(3600));
    let terms = Terms { deadline, class: 1 };
    let offset = table.ask_with(value.to_string(), Some(terms));
    let request = model.next();
    assert_eq!((request.seed, request.class, request.attempt), (11, 1, 1));
    assert_eq!(request.deadline, deadline, "the stage has none");
    let ModelTask::Generate {
        prompt: Prompt::Chat(chat),
        parameters,
        ..
    } = &request.task
    else {
        panic!("it is a chat");
    };
    let said: Vec<_> = chat
        .messages
        .iter()
        .map(|m| (m.role, m.content.as_str()))
        .collect();
    let expected = [
        (Role::System, "Be kind."),
        (Role::User, "Hi"),
        (Role::Assistant, "Yes?"),
        (Role::User, "Bye"),
    ];
    assert_eq!(said, expected);
    assert!(chat.lanes);
    let expected = Parameters {
        max_tokens: 64,
        temperature: 0.5,
        top_p: 0.5,
        n: 2,
        stop: vec![".".into()],
        logprobs: Some(1),
        ..Parameters::default()
    };
    assert_eq!(*parameters, expected);
    let mut first = choice("So long");
    first.reasoning = "It ends".into();
    first.finish = Finish::Calls;
    first.calls.push(Call {
        id: "call_1".into(),
        name: "leave".into(),
        arguments: "{}".into(),
    });
    first.logprobs.push(TokenLogprob {
        token: 83,
        logprob: -0.5,
        top: Vec::new(),
        said: true,
    });
    request.reply.done(Ok(choices(vec![first, choice("Bye")])));
    running.end();
    let answer = table.answer(offset).unwrap();
    assert_eq!(
        (&answer["answer"], &answer["metadata"]["a"]),
        (&json!("So long"), &json!(1))
    );
    let choices = answer["answer_choices"].as_array().unwrap();
    assert_eq!(choices.len(), 2);
    assert_eq!(choices[0]["reasoning"], "It ends");
    assert_eq!(choices[0]["finish"], "calls");
    let call = json!([{"id": "call_1", "name": "leave", "arguments": "{}"}]);
    assert_eq!(choices[0]["calls"], call);
    assert_eq!(choices[0]["logprobs"][0]["id"], 83);
    assert_eq!(choices[1]["text"], "Bye");
    assert!(choices[1].get("calls").is_none());
    assert_eq!(table.ends(offset), [End::Written("answers".into())]);
}

#[test]
fn a_record_of_a_caller_never_goes_before_the_class_of_its_stage() {
    let class = |of_stage, of_caller| {
        let model = Held::new();
        let mut stage = stage_of(model.clone());
        stage.class = of_stage;
        let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
        let terms = Terms {
            deadline: None,
            class: of_caller,
        };
        running.table.ask_with(chat("a"), Some(terms));
        let request = model.next();
        request.reply.done(Ok(answer("yes")));
        running.end();
        request.class
    };
    assert_eq!(class(Some(9), 0), 9);
    assert_eq!(class(Some(2), 4), 4);
    assert_eq!(class(None, 0), 0);
    assert_eq!(class(None, 7), 7);
}

#[test]
fn what_a_record_wants_decides_what_its_answer_is() {
    let model = Held::answering(|_| {
        let mut cut = choice("{\"a\":");
        cut.finish = Finish::Length;
        Ok(choices(vec![cut]))
    });
    let running = Setting::new(vec![asking("ask", model, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let structure = Structure::JsonSchema("{}".into());
    let messages = json!([{"role": "user", "content": "a"}]);
    let parameters = json!({"max_tokens": 5, "structure": structure});
    let wants = json!({"messages": messages, "parameters": parameters});
    let (wants, plain) = (table.ask(wants.to_string()), table.ask(chat("a")));
    running.end();
    // A form that is not whole is a dead letter, but for a caller, who is told that it was cut.
    assert_eq!(table.answer(wants).unwrap()["answer"], "{\"a\":");
    assert_eq!(table.answer(plain).unwrap()["answer"], "{\"a\":");
}

#[test]
fn a_record_that_is_no_request_is_a_dead_letter_that_says_so() {
    let model = Held::answering(|_| Ok(answer("yes")));
    let running = Setting::new(vec![asking("ask", model, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let long = "a".repeat(200);
    for (value, why) in [
        ("no".to_owned(), "value is no request to a model: expected"),
        ("{}".to_owned(), "value has no messages and no prompt"),
        ("[1]".to_owned(), "value is no request to a model"),
        (
            r#"{"prompt":"a","parameters":{"temprature":1}}"#.to_owned(),
            "unknown field `temprature`",
        ),
        (
            r#"{"prompt":"a","parameters":{"seed":9007199254740992}}"#.to_owned(),
            "seed is 9007199254740992, must be below",
        ),
        (
            r#"{"messages":[{"role":"king","content":"a"}]}"#.to_owned(),
            "unknown variant `king`",
        ),
        (
            json!({"prompt": long}).to_string(),
            "prompt of 200 tokens exceeds the limit of 100",
        ),
        (chat(&long), "prompt of 200 tokens exceeds the limit of 100"),
    ] {
        let offset = table.ask(value.clone());
        tidegate_tests::until("it ends", PATIENCE, || table.left(offset) == 0);
        let End::Dead(stage, reason, error) = table.ends(offset).remove(0) else {
            panic!("{value}");
        };
        assert!(stage == "ask" && reason.contains(why), "{value}: {reason}");
        let too_long = matches!(error, Some(ModelError::PromptTooLong { limit: 100, .. }));
        assert_eq!(too_long, why.contains("exceeds"), "{value}: {error:?}");
    }
    running.end();
}

#[test]
fn a_raw_prompt_goes_to_the_model_as_it_is_and_nobodys_terms_are_the_stages() {
    let model = Held::new();
    let mut setting = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]);
    setting.targets = vec![Target::Stage(0)];
    let table = setting.table.clone();
    let offset = table.ask(r#"{"prompt":"Once upon"}"#);
    table.forget_terms(offset);
    let running = setting.start();
    let request = model.next();
    assert_eq!((request.class, request.deadline), (5, None));
    let ModelTask::Generate { prompt, .. } = &request.task else {
        panic!("it is asked for a text");
    };
    assert_eq!(*prompt, Prompt::Raw("Once upon".into()));
    request.reply.done(Ok(answer(" a time")));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], " a time");
    assert!(table.attempts(offset).is_empty(), "nobody listens");
}

/// A model that has no room for so many submissions, and counts how often texts are counted.
#[derive(Default)]
struct Full {
    refuses: AtomicUsize,
    counted: AtomicUsize,
    taken: Mutex<Vec<Request>>,
}

impl Model for Full {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        let less = |left: usize| left.checked_sub(1);
        let refuses = &self.refuses;
        if (refuses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)).is_ok() {
            return Err((request, ModelError::Full { limit: 0 }));
        }
        self.taken.lock().unwrap().push(request);
        Ok(())
    }
    fn cancel(&self, _: RequestId) {}
    fn count_tokens(&self, _: &str) -> Result<usize, ModelError> {
        self.counted.fetch_add(1, Ordering::SeqCst);
        Ok(1)
    }
    fn truncate<'a>(&self, text: &'a str, _: usize) -> Result<&'a str, ModelError> {
        Ok(text)
    }
    fn facts(&self) -> ModelFacts {
        Held::new().facts()
    }
}

#[test]
fn a_record_is_read_once_however_long_its_model_has_no_room() {
    let model = Arc::new(Full::default());
    model.refuses.store(20, Ordering::SeqCst);
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    // Longer than the stage's limit of tokens has to be counted.
    let long = "a".repeat(200);
    let offset = table.ask(chat(&long));
    tidegate_tests::until("it is taken", PATIENCE, || {
        !model.taken.lock().unwrap().is_empty()
    });
    assert_eq!(model.refuses.load(Ordering::SeqCst), 0);
    assert_eq!(model.counted.load(Ordering::SeqCst), 1);
    let request = model.taken.lock().unwrap().remove(0);
    let ModelTask::Generate {
        prompt: Prompt::Chat(asked),
        ..
    } = &request.task
    else {
        panic!("it is a chat");
    };
    assert_eq!(asked.messages[0].content, long);
    request.reply.done(Ok(answer("yes")));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "yes");
}
