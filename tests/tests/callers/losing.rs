//! Handlers that lose what they know, or cannot go on: whose answer ends with that, and whose goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_contract::{
    AnswerLane, Lane, ModelError, ModelTask, OperatorError, Request, Through, TokenHandler,
    TokenLogprob,
};
use tidegate_tests::until;

use crate::native::{Held, Native, answer, piece};
use crate::setting::*;
use crate::table::{End, Table};
use crate::tokens::handled;

/// What the slot of a test does.
#[derive(Default)]
struct Does {
    /// Instances that were made.
    made: u64,
    /// Why none can be made, or none goes on, now; of versions up to this generation.
    ails: Option<(u64, OperatorError)>,
    /// Every text that a handler was given, in order.
    given: Vec<String>,
}

type Shared = Arc<Mutex<Does>>;

/// Holds back the last letter of each lane, writes `<>` as its generation, and dies of CRASH: alone that is a verdict. At
/// the end of a lane that said BYE it dies as well.
struct Frail {
    generation: u64,
    does: Shared,
    lanes: BTreeMap<u64, String>,
    /// Lanes that this instance has seen.
    seen: Vec<u64>,
}

impl Frail {
    fn ails(&self) -> Result<(), OperatorError> {
        match &self.does.lock().unwrap().ails {
            Some((generation, error)) if self.generation <= *generation => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn dies(&mut self, number: u64) -> OperatorError {
        self.lanes.clear();
        let alone = std::mem::take(&mut self.seen) == [number];
        self.does.lock().unwrap().made += 1;
        let (component, why) = ("frail".to_owned(), "it crashed".to_owned());
        match alone {
            true => OperatorError::Poison { component, why },
            false => OperatorError::Lost { component, why },
        }
    }
}

impl TokenHandler for Frail {
    fn open(&mut self, number: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        self.ails()?;
        self.seen.push(number);
        self.lanes.insert(number, String::new());
        Ok(())
    }

    fn step(&mut self, number: u64, text: &str, last: bool) -> Result<Through, OperatorError> {
        if let Err(error) = self.ails() {
            self.lanes.remove(&number);
            return Err(error);
        }
        self.does.lock().unwrap().given.push(text.to_owned());
        if text.contains("CRASH") {
            return Err(self.dies(number));
        }
        let Some(held) = self.lanes.get_mut(&number) else {
            return Err(OperatorError::Lost {
                component: "frail".into(),
                why: "it crashed before".into(),
            });
        };
        let text = std::mem::take(held) + text;
        let text = text.replace("<>", &self.generation.to_string());
        let keep = match last {
            true => text.len(),
            false => text.len() - text.len().min(1),
        };
        let (through, rest) = text.split_at(keep);
        *held = rest.to_owned();
        Ok(Through {
            text: through.to_owned(),
            end: None,
        })
    }

    fn close(&mut self, number: u64) {
        let was_open = self.lanes.remove(&number).is_some();
        let bye = self
            .does
            .lock()
            .unwrap()
            .given
            .iter()
            .any(|text| text == "BYE");
        if was_open && bye {
            self.does.lock().unwrap().given.retain(|text| text != "BYE");
            self.dies(number);
        }
    }
}

/// A slot of such handlers, what they do, and its generation.
fn frail() -> (Native, Shared, Arc<AtomicU64>) {
    let does = Shared::default();
    let generation = Arc::new(AtomicU64::new(1));
    let (of, current) = (does.clone(), generation.clone());
    let mut slot = Native::with_handlers(move || {
        let frail = Frail {
            generation: current.load(Ordering::SeqCst),
            does: of.clone(),
            lanes: BTreeMap::new(),
            seen: Vec::new(),
        };
        frail.ails()?;
        of.lock().unwrap().made += 1;
        Ok(Box::new(frail))
    });
    slot.generation = generation.clone();
    (slot, does, generation)
}

fn tripped() -> OperatorError {
    OperatorError::Tripped {
        component: "frail".into(),
        why: "it has failed too often".into(),
    }
}

fn shows(table: &Table, offset: u64, text: &str) {
    until("the text is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == text
    });
}

/// An answer of which the beginning is seen.
fn begun(table: &Table, model: &Held, text: &str) -> (u64, Request) {
    let offset = table.ask(chat(text));
    let mut request = model.next();
    request.reply.piece(&piece(0, text));
    request.reply.token(0, 7, text);
    shows(table, offset, &text[..text.len() - 1]);
    (offset, request)
}

#[test]
fn an_answer_that_crashes_its_handler_ends_alone_and_every_other_is_whole() {
    let (slot, does, _) = frail();
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), slot)).start();
    let table = running.table.clone();
    let mut others: Vec<_> = ["abc", "def", "ghi"]
        .map(|text| begun(&table, &model, text))
        .into();
    for round in 1..4 {
        let (bad, mut request) = begun(&table, &model, "so far");
        request.reply.piece(&piece(1, "CRASH"));
        until("it ends", PATIENCE, || !table.ends(bad).is_empty());
        request.reply.done(Err(ModelError::Cancelled));
        let End::Dead(stage, reason, None) = table.ends(bad).remove(0) else {
            panic!("its handler fails on it");
        };
        assert!(stage == "ask" && reason.ends_with("it crashed"), "{reason}");
        // What was held back of it before is not shown past the crash.
        assert_eq!(table.text(bad, 1, Lane::Content), "so fa");
        for (_, request) in &mut others {
            request.reply.piece(&piece(round, "+"));
        }
    }
    for (offset, request) in others {
        let begins = table.text(offset, 1, Lane::Content)[..2].to_owned();
        let whole = ["abc+++", "def+++", "ghi+++"];
        let whole = whole.into_iter().find(|whole| whole.starts_with(&begins));
        let whole = whole.unwrap();
        request.reply.done(Ok(answer(whole)));
        until("it is out", PATIENCE, || table.left(offset) == 0);
        assert_eq!(table.text(offset, 1, Lane::Content), whole);
        assert_eq!(table.answer(offset).unwrap()["answer"], whole);
        assert_eq!(table.attempts(offset), [1]);
    }
    let ended = running.end();
    assert_eq!(ended.counts.dead, 3);
    assert!(
        does.lock().unwrap().made >= 4,
        "it was lost again and again"
    );
}

#[test]
fn a_handler_that_is_lost_at_the_end_of_an_answer_costs_no_answer() {
    let (slot, _, _) = frail();
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), slot)).start();
    let table = running.table.clone();
    let (beside, second) = begun(&table, &model, "abc");
    let (offset, mut first) = begun(&table, &model, "xyz");
    first.reply.piece(&piece(1, "BYE"));
    first.reply.done(Ok(answer("xyzBYE")));
    until("it is out", PATIENCE, || table.left(offset) == 0);
    second.reply.done(Ok(answer("abc!")));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "xyzBYE");
    assert_eq!(table.answer(beside).unwrap()["answer"], "abc!");
}

#[test]
fn answers_wait_while_no_handler_can_be_had_their_ends_too() {
    let (slot, does, _) = frail();
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), slot)).start();
    let table = running.table.clone();
    let (offset, mut request) = begun(&table, &model, "abc");
    let starts = OperatorError::Start {
        component: "frail".into(),
        why: "init: not today".into(),
    };
    does.lock().unwrap().ails = Some((1, starts));
    request.reply.piece(&piece(1, "def"));
    request.reply.done(Ok(answer("abcdef")));
    // One that comes meanwhile waits as well.
    let after = table.ask(chat("later"));
    let trouble = || running.meters.stages()[1].unavailable();
    until("it is known", PATIENCE, || trouble().is_some());
    assert!(trouble().unwrap().reason.contains("not today"));
    assert_eq!((table.left(offset), table.left(after)), (1, 1));
    assert_eq!(table.text(offset, 1, Lane::Content), "ab");
    does.lock().unwrap().ails = None;
    model.next().reply.done(Ok(answer("later")));
    until("both are out", PATIENCE, || table.is_done());
    until("it is over", PATIENCE, || trouble().is_none());
    let ended = running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "abcdef");
    assert_eq!(table.answer(after).unwrap()["answer"], "later");
    assert_eq!((ended.counts.dead, ended.counts.retried), (0, 0));
    assert!(!model.is_asked(), "no model is asked twice");
}

#[test]
fn answers_of_a_version_that_runs_no_more_go_on_with_the_one_that_does() {
    let (slot, does, generation) = frail();
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), slot)).start();
    let table = running.table.clone();
    table.show_for_good();
    let (offset, mut request) = begun(&table, &model, "abc");
    does.lock().unwrap().ails = Some((1, tripped()));
    request.reply.piece(&piece(1, "<>!"));
    until("it is stuck", PATIENCE, || {
        running.meters.stages()[1].unavailable().is_some()
    });
    generation.store(2, Ordering::SeqCst);
    shows(&table, offset, "abc2");
    request.reply.done(Ok(answer("abc<>!")));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "abc2!");
    assert_eq!(table.attempts(offset), [1]);
}

#[test]
fn what_another_version_says_otherwise_is_shown_anew_or_not_at_all() {
    for for_good in [false, true] {
        let (slot, does, generation) = frail();
        let model = Held::new();
        let running = Setting::new(handled(model.clone(), slot)).start();
        let table = running.table.clone();
        if for_good {
            table.show_for_good();
        }
        let offset = table.ask(chat("a"));
        let mut request = model.next();
        request.reply.piece(&piece(0, "v<>."));
        request.reply.token(0, 7, "v<>.");
        shows(&table, offset, "v1");
        does.lock().unwrap().ails = Some((1, tripped()));
        generation.store(2, Ordering::SeqCst);
        request.reply.piece(&piece(1, " on"));
        until("it is given up", PATIENCE, || {
            model.has_cancelled(request.id)
        });
        request.reply.done(Err(ModelError::Cancelled));
        if !for_good {
            model.next().reply.done(Ok(answer("v<>. on")));
        }
        let ended = running.end();
        match for_good {
            true => {
                let End::Dead(_, reason, None) = table.ends(offset).remove(0) else {
                    panic!("it cannot be taken back");
                };
                assert!(reason.contains("let something else through"), "{reason}");
                assert_eq!(table.text(offset, 1, Lane::Content), "v1");
            }
            false => {
                assert_eq!(table.answer(offset).unwrap()["answer"], "v2. on");
                assert_eq!(table.attempts(offset), [1, 2]);
                assert_eq!(table.text(offset, 2, Lane::Content), "v2. on");
                assert_eq!(ended.counts.retried, 1);
            }
        }
    }
}

#[test]
fn an_answer_that_goes_on_with_another_request_keeps_the_handler_that_somebody_has_seen() {
    let (slot, _, generation) = frail();
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), slot)).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "v<>."));
    request.reply.token(0, 7, "v<>.");
    shows(&table, offset, "v1");
    generation.store(2, Ordering::SeqCst);
    request
        .reply
        .done(Err(ModelError::Unknown("native".into())));
    let request = model.next();
    let ModelTask::Generate { forced_prefix, .. } = &request.task else {
        panic!("it is asked for a text");
    };
    assert_eq!(*forced_prefix, [7]);
    request.reply.done(Ok(answer("v<>. v<>.")));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "v1. v1.");
    assert_eq!(table.text(offset, 1, Lane::Content), "v1. v1.");
    assert_eq!(table.attempts(offset), [1]);
}

/// Takes long for a text that is SLOW, and tells of each that it is given. The first time it waits for the test as well.
struct Slow {
    tells: Sender<String>,
    goes_on: Receiver<()>,
    waited: bool,
}

impl TokenHandler for Slow {
    fn open(&mut self, _: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
    fn step(&mut self, _: u64, text: &str, _: bool) -> Result<Through, OperatorError> {
        self.tells.send(text.to_owned()).unwrap();
        if text == "SLOW" {
            if !std::mem::replace(&mut self.waited, true) {
                self.goes_on.recv_timeout(PATIENCE).unwrap();
            }
            // A turn is shorter, however slow this machine is.
            std::thread::sleep(Duration::from_millis(150));
        }
        let text = text.to_owned();
        Ok(Through { text, end: None })
    }
    fn close(&mut self, _: u64) {}
}

#[test]
fn an_answer_whose_handler_is_slow_leaves_others_their_turn() {
    let (tells, told) = channel();
    let (lets, goes_on) = channel();
    let goes_on = Mutex::new(Some(goes_on));
    let slot = Native::with_handlers(move || {
        Ok(Box::new(Slow {
            tells: tells.clone(),
            goes_on: goes_on.lock().unwrap().take().unwrap(),
            waited: false,
        }))
    });
    let model = Held::new();
    let running = Setting::new(handled(model.clone(), slot)).start();
    let table = running.table.clone();
    let (slow, quick) = (table.ask(chat("a")), table.ask(chat("b")));
    let (mut first, second) = (model.next(), model.next());
    let likely = [TokenLogprob {
        token: 1,
        logprob: -0.5,
        top: Vec::new(),
        said: true,
    }];
    // Pieces with probabilities are steps of their own.
    let mut tell = |index| {
        first.reply.piece(&tidegate_contract::Piece {
            logprobs: &likely,
            ..piece(index, "SLOW")
        });
    };
    tell(0);
    let next = || told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(next(), "SLOW");
    (1..6).for_each(&mut tell);
    second.reply.done(Ok(answer("quick")));
    lets.send(()).unwrap();
    let mut steps = Vec::new();
    while steps.last().is_none_or(|last| last != "quick") {
        steps.push(next());
    }
    // Five are left of the slow one.
    assert!(steps.len() < 6, "{steps:?}");
    first.reply.done(Ok(answer("SLOWSLOWSLOWSLOWSLOWSLOW")));
    running.end();
    assert_eq!(table.answer(quick).unwrap()["answer"], "quick");
    assert_eq!(
        table.answer(slow).unwrap()["answer"],
        "SLOWSLOWSLOWSLOWSLOWSLOW"
    );
}
