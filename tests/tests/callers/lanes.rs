//! Lanes of answers: when they end, and what their handlers hold back until then.

use std::collections::BTreeMap;

use tidegate_contract::{
    AnswerEnd, AnswerLane, Call, Finish, Lane, Made, ModelError, OperatorError, Piece, Through,
    TokenHandler, TokenLogprob,
};
use tidegate_tests::until;

use crate::native::{Held, Native, choice, choices, piece};
use crate::setting::*;
use crate::table::Seen;
use crate::tokens::{Open, handled, names};

/// Keeps everything until the lane ends, and ends an answer at a full stop.
struct Holds(BTreeMap<u64, String>);

impl TokenHandler for Holds {
    fn open(&mut self, number: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        self.0.insert(number, String::new());
        Ok(())
    }
    fn step(&mut self, number: u64, text: &str, last: bool) -> Result<Through, OperatorError> {
        let held = self.0.get_mut(&number).expect("the lane is open");
        held.push_str(text);
        if held.ends_with('.') {
            return Ok(Through {
                text: std::mem::take(held),
                end: Some(AnswerEnd::Stop),
            });
        }
        let text = match last {
            true => std::mem::take(held),
            false => String::new(),
        };
        Ok(Through { text, end: None })
    }
    fn close(&mut self, number: u64) {
        self.0.remove(&number);
    }
}

fn holds() -> Native {
    Native::with_handlers(|| Ok(Box::new(Holds(BTreeMap::new()))))
}

/// Texts of the lanes that were seen, in the order in which they were.
fn lanes_seen(seen: &[Seen]) -> Vec<(u32, Lane, String)> {
    let pieces = seen.iter().map(|seen| match seen {
        Seen::Piece {
            choice, lane, text, ..
        } => (*choice, *lane, text.clone()),
    });
    pieces.filter(|(.., text)| !text.is_empty()).collect()
}

#[test]
fn what_is_held_back_of_a_thought_or_a_call_goes_out_when_another_lane_has_text() {
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), holds())).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    let lane = |lane, index, text| Piece {
        lane,
        ..piece(index, text)
    };
    request.reply.piece(&lane(Lane::Reasoning, 0, "hm"));
    request.reply.piece(&piece(1, "So"));
    until("the thought is seen", PATIENCE, || {
        table.seen(offset, 1).len() == 1
    });
    request.reply.piece(&Piece {
        begins: Some(("call_1", "go")),
        ..lane(Lane::Arguments(0), 2, "{}")
    });
    // It speaks on after the call.
    request.reply.piece(&piece(3, " it"));
    request.reply.piece(&Piece {
        begins: Some(("call_2", "go")),
        ..lane(Lane::Arguments(1), 4, "[]")
    });
    let seen = || lanes_seen(&table.seen(offset, 1));
    let text = |lane, text: &str| (0, lane, text.to_owned());
    // A call does not end what is said.
    let before = [text(Lane::Reasoning, "hm"), text(Lane::Arguments(0), "{}")];
    until("those that ended are seen", PATIENCE, || {
        seen().len() == before.len()
    });
    assert_eq!(seen(), before);
    assert_eq!(table.left(offset), 1, "before its end");
    let mut whole = choice("So it is");
    whole.reasoning = "hm".into();
    for (id, arguments) in [("call_1", "{}"), ("call_2", "[]")] {
        whole.calls.push(Call {
            id: id.into(),
            name: "go".into(),
            arguments: arguments.into(),
        });
    }
    request.reply.done(Ok(choices(vec![whole])));
    running.end();
    let shown = &table.answer(offset).unwrap()["answer_choices"][0];
    assert_eq!(
        (&shown["text"], &shown["reasoning"]),
        (&"So it is".into(), &"hm".into())
    );
    assert_eq!(shown["calls"][1]["arguments"], "[]");
    let behind = [
        text(Lane::Arguments(1), "[]"),
        text(Lane::Content, "So it is"),
    ];
    assert_eq!(seen()[2..], behind, "calls are whole before it");
}

#[test]
fn a_thought_that_is_gone_on_with_ends_where_something_is_said_again() {
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), holds())).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    for (index, (lane, text)) in [
        (Lane::Reasoning, "hm"),
        (Lane::Content, "So"),
        (Lane::Reasoning, ", well"),
        (Lane::Content, " it"),
    ]
    .into_iter()
    .enumerate()
    {
        request.reply.piece(&Piece {
            lane,
            ..piece(index as u32, text)
        });
    }
    until("both thoughts are seen", PATIENCE, || {
        table.text(offset, 1, Lane::Reasoning) == "hm, well"
    });
    assert_eq!(table.text(offset, 1, Lane::Content), "");
    let mut whole = choice("So it");
    whole.reasoning = "hm, well".into();
    request.reply.done(Ok(choices(vec![whole])));
    running.end();
    assert_eq!(table.text(offset, 1, Lane::Content), "So it");
}

#[test]
fn a_call_within_a_word_hides_it_from_no_handler() {
    let (model, open) = (Held::new(), Open::default());
    let running = Setting::new(handled(model.clone(), names(&open))).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "Dear <"));
    request.reply.piece(&Piece {
        begins: Some(("call_1", "go")),
        lane: Lane::Arguments(0),
        ..piece(1, "{\"to\":\"<1>\"}")
    });
    request.reply.piece(&piece(2, "1>"));
    until("it is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "Dear Anna"
    });
    let mut whole = choice("Dear <1>");
    whole.calls.push(Call {
        id: "call_1".into(),
        name: "go".into(),
        arguments: "{\"to\":\"<1>\"}".into(),
    });
    request.reply.done(Ok(choices(vec![whole])));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "Dear Anna");
    assert!(open.lock().unwrap().is_empty(), "every lane is closed");
}

#[test]
fn log_probabilities_that_handlers_leave_are_of_what_is_said_alone() {
    let (model, open) = (Held::new(), Open::default());
    let running = Setting::new(handled(model.clone(), names(&open))).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    let likely = |token: u32| TokenLogprob {
        token,
        logprob: -0.5,
        top: Vec::new(),
        said: true,
    };
    for (token, lane, text) in [
        (0, Lane::Reasoning, "hm"),
        (1, Lane::Content, "Dear "),
        (2, Lane::Content, "<1>"),
    ] {
        request.reply.piece(&Piece {
            lane,
            logprobs: &[likely(token)],
            ..piece(token, text)
        });
    }
    // What begins and ends the thought is of no lane.
    let mut whole = choice("Dear <1>");
    whole.reasoning = "hm".into();
    whole.reasoning_tokens = 3;
    whole.tokens = vec![8, 0, 9, 1, 2];
    whole.logprobs = whole.tokens.iter().map(|token| likely(*token)).collect();
    request.reply.done(Ok(choices(vec![whole])));
    running.end();
    let brought = table.brought(offset);
    let Some(Made::Choices(made)) = brought[0].as_ref().map(|answer| &answer.made) else {
        panic!("{brought:?}");
    };
    assert_eq!(made[0].text, "Dear Anna");
    let said = made[0].said_logprobs();
    let said: Vec<u32> = said.map(|each| each.token).collect();
    assert_eq!(
        said,
        [1],
        "nothing of the thought, and not what was changed"
    );
}

#[test]
fn what_is_held_back_of_one_answer_goes_out_when_it_ends_and_not_with_the_last() {
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), holds())).start();
    let table = running.table.clone();
    let messages = serde_json::json!([{"role": "user", "content": "a"}]);
    let value = serde_json::json!({"messages": messages, "parameters": {"n": 2}});
    let offset = table.ask(value.to_string());
    let mut request = model.next();
    request.reply.piece(&piece(0, "first"));
    request.reply.piece(&Piece {
        choice: 1,
        ..piece(0, "sec")
    });
    request.reply.choice_ended(0);
    until("the first is seen", PATIENCE, || {
        !table.seen(offset, 1).is_empty()
    });
    let first = (0, Lane::Content, "first".to_owned());
    assert_eq!(lanes_seen(&table.seen(offset, 1)), [first]);
    let both = vec![choice("first"), choice("second")];
    request.reply.done(Ok(choices(both)));
    running.end();
    assert_eq!(
        table.answer(offset).unwrap()["answer_choices"][1]["text"],
        "second"
    );
}

#[test]
fn an_end_in_one_lane_lets_go_of_what_the_others_hold_back() {
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), holds())).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    let mut tell = |lane, index, text| {
        request.reply.piece(&Piece {
            lane,
            ..piece(index, text)
        });
    };
    tell(Lane::Reasoning, 0, "hm");
    tell(Lane::Content, 1, "So");
    // What was thought goes on while something is said.
    tell(Lane::Reasoning, 2, ", well.");
    until("it is ended", PATIENCE, || model.has_ended(request.id));
    tell(Lane::Content, 3, " nobody");
    request.reply.done(Err(ModelError::Cancelled));
    running.end();
    let shown = &table.answer(offset).unwrap()["answer_choices"][0];
    assert_eq!(shown["reasoning"], "hm, well.");
    assert_eq!(
        (&shown["text"], &shown["finish"]),
        (&"So".into(), &"stop".into())
    );
    assert_eq!(table.text(offset, 1, Lane::Content), "So");
}

#[test]
fn an_answer_that_a_handler_has_ended_stays_when_the_model_is_unloaded_and_its_prompt_is_counted() {
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), holds())).start();
    let table = running.table.clone();
    let offset = table.ask(chat("seven"));
    let mut request = model.next();
    request.reply.token(0, 9, "Yes.");
    request.reply.piece(&piece(0, "Yes."));
    let unloaded = ModelError::Unknown("native".into());
    request.reply.done(Err(unloaded));
    running.end();
    assert!(!model.is_asked(), "it is not asked again");
    assert_eq!(table.answer(offset).unwrap()["answer"], "Yes.");
    let brought = table
        .brought(offset)
        .remove(0)
        .expect("a model has answered");
    // A token is a letter to this model.
    assert_eq!(brought.prompt_tokens, 5);
    let Made::Choices(choices) = &brought.made else {
        panic!("it is a text");
    };
    assert_eq!(
        (choices[0].tokens.as_slice(), choices[0].finish),
        (&[9][..], Finish::Stop)
    );
}
