//! Handlers of tokens: what they let through is what is seen, and what the record goes on with.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tidegate_contract::{
    AnswerEnd, AnswerLane, Finish, Lane, Made, ModelError, ModelTask, OperatorError, Piece,
    Through, TokenHandler, TokenLogprob,
};
use tidegate_flow::{Alternative, Stage, StageKind, Target};
use tidegate_tests::until;

use crate::native::{Held, Native, answer, choice, choices, piece};
use crate::setting::*;
use crate::table::{Counted, End};

/// Which lanes are open, of all handlers of a test.
pub(crate) type Open = Arc<Mutex<Vec<(u64, u32, Lane)>>>;

/// Writes a name for `<1>`, ends an answer at a word, and fails at another.
struct Names {
    made: u64,
    open: Open,
    held: BTreeMap<u64, String>,
}

impl TokenHandler for Names {
    fn open(&mut self, number: u64, lane: &AnswerLane<'_>) -> Result<(), OperatorError> {
        assert_eq!(lane.model, "model");
        assert!(self.held.insert(number, String::new()).is_none());
        self.open
            .lock()
            .unwrap()
            .push((self.made, lane.choice, lane.lane));
        Ok(())
    }

    fn step(&mut self, number: u64, text: &str, last: bool) -> Result<Through, OperatorError> {
        let held = self.held.get_mut(&number).expect("the lane is open");
        let text = std::mem::take(held) + text;
        if text.contains("FAIL") {
            self.close(number);
            return Err(OperatorError::Poison {
                component: "names".into(),
                why: "a trap".into(),
            });
        }
        let text = text.replace(
            "<1>",
            &format!("Anna{}", "'".repeat(self.made as usize - 1)),
        );
        for (word, end) in [("STOP", AnswerEnd::Stop), ("BAD", AnswerEnd::Filtered)] {
            if let Some((before, _)) = text.split_once(word) {
                return Ok(Through {
                    text: before.into(),
                    end: Some(end),
                });
            }
        }
        let begins = |length: &usize| {
            text.len() >= *length && "<1>".starts_with(&text[text.len() - length..])
        };
        let holds = (1..3).rev().find(|length| {
            !last && text.is_char_boundary(text.len().saturating_sub(*length)) && begins(length)
        });
        let (through, rest) = text.split_at(text.len() - holds.unwrap_or(0));
        *held = rest.into();
        Ok(Through {
            text: through.into(),
            end: None,
        })
    }

    fn close(&mut self, number: u64) {
        if self.held.remove(&number).is_some() {
            self.open.lock().unwrap().pop();
        }
    }
}

/// Writes everything large, and holds nothing back.
struct Large;

impl TokenHandler for Large {
    fn open(&mut self, _: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
    fn step(&mut self, _: u64, text: &str, _: bool) -> Result<Through, OperatorError> {
        Ok(Through {
            text: text.to_uppercase(),
            end: None,
        })
    }
    fn close(&mut self, _: u64) {}
}

pub(crate) fn names(open: &Open) -> Native {
    let (made, open) = (Mutex::new(0), open.clone());
    Native::with_handlers(move || {
        let mut made = made.lock().unwrap();
        *made += 1;
        Ok(Box::new(Names {
            made: *made,
            open: open.clone(),
            held: BTreeMap::new(),
        }))
    })
}

/// A model whose tokens the stage after it handles.
pub(crate) fn handled(model: Arc<Held>, slot: Native) -> Vec<Stage> {
    let mut stage = stage_of(model);
    stage.tokens = vec![1];
    vec![
        model_stage("ask", stage, vec![Target::Stage(1)]),
        operator("names", slot, vec![ANSWERS], Vec::new()),
    ]
}

#[test]
fn the_text_that_handlers_let_through_is_seen_and_is_the_answer() {
    let (model, open) = (Held::new(), Open::default());
    let running = Setting::new(handled(model.clone(), names(&open))).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    for (index, text) in ["Dear ", "<", "1", ">, ", "a < b", "<"]
        .into_iter()
        .enumerate()
    {
        request.reply.piece(&piece(index as u32, text));
    }
    until("the beginning is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "Dear Anna, a < b"
    });
    request.reply.done(Ok(answer("Dear <1>, a < b<")));
    running.end();
    assert_eq!(table.text(offset, 1, Lane::Content), "Dear Anna, a < b<");
    assert_eq!(table.answer(offset).unwrap()["answer"], "Dear Anna, a < b<");
    let whole = table
        .brought(offset)
        .remove(0)
        .expect("a model has answered");
    let Made::Choices(choices) = &whole.made else {
        panic!("it is a text");
    };
    assert_eq!(choices[0].text, "Dear Anna, a < b<");
    assert!(open.lock().unwrap().is_empty(), "every lane is closed");
}

#[test]
fn tokens_are_counted_as_they_are_made_seen_or_not_and_until_the_model_lets_go() {
    let (model, open) = (Held::new(), Open::default());
    let running = Setting::new(handled(model.clone(), names(&open))).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    until("it is said that a model is asked", PATIENCE, || {
        table.made(offset, 1).asked
    });
    // The handler holds it back, and the next token has no text yet.
    request.reply.piece(&piece(0, "<"));
    request.reply.token(0, 7, "<");
    request.reply.token(1, 8, "");
    let counted = |tokens| Counted {
        asked: true,
        before: 0,
        tokens: BTreeMap::from([(0, tokens)]),
        over: false,
    };
    assert_eq!(table.made(offset, 1), counted(2));
    table.goes(offset);
    until("it is cancelled", PATIENCE, || {
        model.has_cancelled(request.id)
    });
    assert_eq!(table.seen(offset, 1), []);
    request.reply.token(2, 9, "b");
    assert_eq!(table.made(offset, 1), counted(3));
    request.reply.done(Err(ModelError::Cancelled));
    until("the model has let go", PATIENCE, || {
        table.made(offset, 1).over
    });
    running.end();
}

#[test]
fn handlers_go_in_their_order_and_run_where_nobody_listens() {
    let (model, open) = (Held::new(), Open::default());
    let mut stage = stage_of(model.clone());
    stage.tokens = vec![1, 2];
    let large = Native::with_handlers(|| Ok(Box::new(Large)));
    let setting = Setting::new(vec![
        model_stage("ask", stage, vec![Target::Stage(1)]),
        operator("names", names(&open), vec![Target::Stage(2)], Vec::new()),
        operator("large", large, vec![ANSWERS], Vec::new()),
    ]);
    let table = setting.table.clone();
    let offset = table.ask(chat("a"));
    table.forget_terms(offset);
    let running = setting.start();
    // A model that tells nothing before its answer.
    model.next().reply.done(Ok(answer("is <1> in <")));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "IS ANNA IN <");
    assert!(table.attempts(offset).is_empty());
}

#[test]
fn a_handler_ends_an_answer_and_the_model_need_not_go_on() {
    for (word, finish) in [("STOP", "stop"), ("BAD", "filtered")] {
        let (model, open) = (Held::new(), Open::default());
        let running = Setting::new(handled(model.clone(), names(&open))).start();
        let table = running.table.clone();
        for cancelled in [false, true] {
            let offset = table.ask(chat("a"));
            let mut request = model.next();
            request.reply.piece(&piece(0, "So far"));
            request.reply.token(0, 9, "So far");
            request.reply.piece(&piece(1, &format!(", so {word} good")));
            until("it is ended", PATIENCE, || model.has_ended(request.id));
            request.reply.piece(&piece(2, " and more"));
            let whole = match cancelled {
                true => Err(ModelError::Cancelled),
                false => Ok(answer(&format!("So far, so {word} good and more"))),
            };
            request.reply.done(whole);
            until("it is out", PATIENCE, || table.left(offset) == 0);
            assert_eq!(table.text(offset, 1, Lane::Content), "So far, so ");
            assert_eq!(table.answer(offset).unwrap()["answer"], "So far, so ");
            let whole = table
                .brought(offset)
                .remove(0)
                .expect("a model has answered");
            let Made::Choices(choices) = &whole.made else {
                panic!("it is a text");
            };
            assert_eq!(choices[0].finish.name(), finish);
        }
        running.end();
        assert!(open.lock().unwrap().is_empty());
    }
}

#[test]
fn an_answer_that_a_handler_fails_on_ends_with_its_reason_and_the_others_go_on() {
    let (model, open) = (Held::new(), Open::default());
    let running = Setting::new(handled(model.clone(), names(&open))).start();
    let table = running.table.clone();
    let (fails, beside) = (table.ask(chat("a")), table.ask(chat("b")));
    let (mut first, mut second) = (model.next(), model.next());
    second.reply.piece(&piece(0, "I am "));
    until("it is seen", PATIENCE, || !table.seen(beside, 1).is_empty());
    first.reply.piece(&piece(0, "FAIL"));
    until("it is cancelled", PATIENCE, || {
        model.has_cancelled(first.id)
    });
    first.reply.piece(&piece(1, " nobody sees it"));
    first.reply.done(Err(ModelError::Cancelled));
    second.reply.piece(&piece(1, "<1>"));
    second.reply.done(Ok(answer("I am <1>")));
    until("both end", PATIENCE, || table.is_done());
    let End::Dead(stage, reason, None) = table.ends(fails).remove(0) else {
        panic!("its handler fails on it");
    };
    assert!(
        stage == "ask" && reason == "names fails on this answer: a trap",
        "{reason}"
    );
    assert_eq!(table.text(fails, 1, Lane::Content), "");
    assert_eq!(table.text(beside, 1, Lane::Content), "I am Anna");
    assert_eq!(table.answer(beside).unwrap()["answer"], "I am Anna");
    let next = table.ask(chat("c"));
    model.next().reply.done(Ok(answer("<1>")));
    running.end();
    assert_eq!(
        table.answer(next).unwrap()["answer"],
        "Anna",
        "the same handler"
    );
    assert!(open.lock().unwrap().is_empty());
}

#[test]
fn each_choice_and_lane_goes_through_by_itself_and_changed_probabilities_are_left_out() {
    let (model, open) = (Held::new(), Open::default());
    let running = Setting::new(handled(model.clone(), names(&open))).start();
    let table = running.table.clone();
    let messages = serde_json::json!([{"role": "user", "content": "a"}]);
    let parameters = serde_json::json!({"n": 2, "logprobs": 0});
    let value = serde_json::json!({"messages": messages, "lanes": true, "parameters": parameters});
    let offset = table.ask(value.to_string());
    let mut request = model.next();
    let logprob = |token| TokenLogprob {
        token,
        logprob: -0.5,
        top: Vec::new(),
        said: true,
    };
    let mut tell = |choice, lane, index, text, begins, token| {
        request.reply.piece(&Piece {
            choice,
            lane,
            index,
            text,
            begins,
            logprobs: &[logprob(token)],
        });
    };
    tell(0, Lane::Content, 0, "To ", None, 1);
    tell(1, Lane::Content, 0, "BAD", None, 2);
    tell(0, Lane::Reasoning, 1, "<", None, 3);
    tell(0, Lane::Content, 2, "<1>", None, 4);
    tell(
        0,
        Lane::Arguments(0),
        3,
        "{\"to\":\"<1",
        Some(("call_1", "send")),
        5,
    );
    tell(0, Lane::Arguments(0), 4, ">\"}", None, 6);
    let (mut first, mut second) = (choice("To <1>"), choice("BAD it is"));
    (first.reasoning, first.finish) = ("<".into(), Finish::Calls);
    first.logprobs = (1..7).map(logprob).collect();
    first.calls.push(tidegate_contract::Call {
        id: "call_1".into(),
        name: "send".into(),
        arguments: "{\"to\":\"<1>\"}".into(),
    });
    second.logprobs = vec![logprob(2)];
    assert!(!model.has_ended(request.id), "one of two goes on");
    request.reply.done(Ok(choices(vec![first, second])));
    running.end();
    let shown = &table.answer(offset).unwrap()["answer_choices"];
    assert_eq!(
        (&shown[0]["text"], &shown[0]["reasoning"]),
        (&"To Anna".into(), &"<".into())
    );
    assert_eq!(shown[0]["calls"][0]["arguments"], "{\"to\":\"Anna\"}");
    let likely: Vec<u64> = shown[0]["logprobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_u64().unwrap())
        .collect();
    assert_eq!(likely, [1], "what was held back or changed has none");
    assert_eq!(
        (&shown[1]["text"], &shown[1]["finish"]),
        (&"".into(), &"filtered".into())
    );
    assert_eq!(shown[1]["logprobs"].as_array().unwrap().len(), 0);
}

#[test]
fn an_answer_keeps_its_handler_and_the_next_has_the_one_that_was_deployed() {
    let (model, open) = (Held::new(), Open::default());
    let slot = names(&open);
    let generation = slot.generation.clone();
    let running = Setting::new(handled(model.clone(), slot)).start();
    let table = running.table.clone();
    let before = table.ask(chat("a"));
    let first = model.next();
    generation.fetch_add(1, Ordering::SeqCst);
    let after = table.ask(chat("b"));
    model.next().reply.done(Ok(answer("<1>")));
    first.reply.done(Ok(answer("<1>")));
    running.end();
    assert_eq!(table.answer(before).unwrap()["answer"], "Anna");
    assert_eq!(table.answer(after).unwrap()["answer"], "Anna'");
}

#[test]
fn what_was_seen_is_not_shown_again_when_tokens_are_replayed_through_a_fresh_handler() {
    let (model, open) = (Held::new(), Open::default());
    let running = Setting::new(handled(model.clone(), names(&open))).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "Dear <1"));
    request.reply.token(0, 7, "Dear <1");
    until("it is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "Dear "
    });
    request
        .reply
        .done(Err(ModelError::Unknown("native".into())));
    let mut request = model.next();
    let ModelTask::Generate { forced_prefix, .. } = &request.task else {
        panic!("it is asked for a text");
    };
    assert_eq!(*forced_prefix, [7]);
    until(
        "it is said that the token was made before",
        PATIENCE,
        || table.made(offset, 1).before == 1,
    );
    request.reply.piece(&piece(0, "Dear <1"));
    request.reply.piece(&piece(1, ">!"));
    request.reply.done(Ok(answer("Dear <1>!")));
    running.end();
    assert_eq!(table.text(offset, 1, Lane::Content), "Dear Anna!");
    assert_eq!(table.answer(offset).unwrap()["answer"], "Dear Anna!");
    assert!(open.lock().unwrap().is_empty());
}

/// Ends an answer at its first text.
struct Ends;

impl TokenHandler for Ends {
    fn open(&mut self, _: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
    fn step(&mut self, _: u64, text: &str, _: bool) -> Result<Through, OperatorError> {
        Ok(Through {
            text: String::new(),
            end: (!text.is_empty()).then_some(AnswerEnd::Filtered),
        })
    }
    fn close(&mut self, _: u64) {}
}

#[test]
fn the_prompt_of_an_answer_that_handlers_ended_is_counted_by_the_model_that_was_asked() {
    let small = Arc::new(Held {
        more_tokens: 7,
        ..Held::default()
    });
    let mut stages = handled(Held::new(), Native::with_handlers(|| Ok(Box::new(Ends))));
    if let StageKind::Model(kind) = &mut stages[0].kind {
        kind.alternatives = vec![Alternative {
            name: "small".into(),
            model: small.clone(),
            prompt_tokens: 10,
            parameters: Box::default(),
        }];
    }
    let running = Setting::new(stages).start();
    let asked = serde_json::json!({
        "messages": [{"role": "user", "content": "b"}], "alternative": "small",
    });
    running.table.ask(asked.to_string());
    let mut request = small.next();
    request.reply.piece(&piece(0, "BAD"));
    until("it is ended", PATIENCE, || small.has_ended(request.id));
    request.reply.done(Err(ModelError::Cancelled));
    let ended = running.end();
    assert_eq!(ended.counts.prompt_tokens, 8);
}
