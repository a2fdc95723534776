//! Tokens to a feed, beside the cuts, and the reader that puts answers together from them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_codec::tokens::{
    OwnedEvent, OwnedWhat, State, TokenReader, encode_token_event, parse_token_event,
};
use tidegate_contract::{
    AnswerLane, Lane, ModelError, OperatorError, Through, TokenEvent, TokenFeed, TokenHandler,
};
use tidegate_flow::{Stage, Target};
use tidegate_tests::until;

use crate::native::{Held, Native, answer, piece};
use crate::setting::*;

/// Keeps events, and may be full.
#[derive(Default)]
struct Kept {
    events: Mutex<Vec<OwnedEvent>>,
    is_full: AtomicBool,
    /// Has room for the last events of answers all the same.
    has_room_for_ends: AtomicBool,
}

impl TokenFeed for Kept {
    fn send(&self, event: &TokenEvent<'_>) -> bool {
        if self.is_full.load(Ordering::SeqCst) {
            return false;
        }
        self.keep(event);
        true
    }

    fn send_last(&self, event: &TokenEvent<'_>) -> bool {
        let takes = self.has_room_for_ends.load(Ordering::SeqCst);
        if takes {
            self.keep(event);
        }
        takes || self.send(event)
    }
}

impl Kept {
    fn keep(&self, event: &TokenEvent<'_>) {
        let event = parse_token_event(&encode_token_event(event)).unwrap();
        self.events.lock().unwrap().push(event);
    }

    fn len(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    fn texts(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let texts = events.iter().filter_map(|event| match &event.what {
            OwnedWhat::Text { text, .. } => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    }

    fn attempts(&self) -> Vec<u64> {
        let mut attempts: Vec<u64> = {
            let events = self.events.lock().unwrap();
            events.iter().map(|event| event.attempt).collect()
        };
        attempts.dedup();
        attempts
    }

    /// How it stands with the answer to a record, and the text of its one choice.
    fn read(&self, offset: u64) -> (State, String) {
        let mut reader = TokenReader::default();
        for event in self.events.lock().unwrap().iter() {
            reader.take(event);
        }
        let request = format!("ask/0/0/{offset}");
        let answer = reader.answer(&request).expect("something of it was sent");
        let choice = answer.choices.first();
        let text = choice.and_then(|choice| choice.lanes.get(&Lane::Content));
        let state = reader.state(&request).unwrap();
        (state, text.cloned().unwrap_or_default())
    }
}

fn fed(model: Arc<Held>, feed: &Arc<Kept>) -> Vec<Stage> {
    let mut stage = stage_of(model);
    stage.token_feeds = vec![feed.clone()];
    vec![model_stage("ask", stage, vec![ANSWERS])]
}

#[test]
fn an_answer_is_fed_as_it_is_made_and_a_higher_attempt_replaces_what_the_lower_said() {
    let (model, feed) = (Held::new(), Arc::<Kept>::default());
    let running = Setting::new(fed(model.clone(), &feed)).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "Grüß "));
    until("it is fed", PATIENCE, || feed.len() == 2);
    assert_eq!(feed.read(offset), (State::Open, "Grüß ".into()));
    request.reply.piece(&piece(1, "dich"));
    let device = ModelError::Device("it is lost".into());
    request.reply.done(Err(device));
    let mut request = model.next();
    // Not what was said before.
    request.reply.piece(&piece(0, "Grüß Gott"));
    request.reply.done(Ok(answer("Grüß Gott!")));
    running.end();
    assert_eq!(feed.read(offset), (State::Complete, "Grüß Gott!".into()));
    assert_eq!(table.answer(offset).unwrap()["answer"], "Grüß Gott!");
    let attempts = feed.attempts();
    assert!(
        attempts.len() == 2 && attempts[0] < attempts[1],
        "{attempts:?}"
    );
}

#[test]
fn what_a_full_feed_does_not_take_goes_with_what_comes_after() {
    let (model, feed) = (Held::new(), Arc::<Kept>::default());
    let running = Setting::new(fed(model.clone(), &feed)).start();
    let table = running.table.clone();
    feed.is_full.store(true, Ordering::SeqCst);
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "So "));
    request.reply.piece(&piece(1, "far"));
    // A second record shows that the worker has looked.
    let other = table.ask(chat("b"));
    model.next().reply.done(Ok(answer("yes")));
    until("the other is out", PATIENCE, || table.left(other) == 0);
    assert_eq!(feed.len(), 0);
    feed.is_full.store(false, Ordering::SeqCst);
    request.reply.done(Ok(answer("So far, so good")));
    running.end();
    assert_eq!(
        feed.read(offset),
        (State::Complete, "So far, so good".into())
    );
    assert_eq!(feed.texts().concat(), "So far, so good");
}

/// Lets everything through but secrets.
struct Hides;

impl TokenHandler for Hides {
    fn open(&mut self, _: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
    fn step(&mut self, _: u64, text: &str, _: bool) -> Result<Through, OperatorError> {
        Ok(Through {
            text: text.replace("secret", "***"),
            end: None,
        })
    }
    fn close(&mut self, _: u64) {}
}

#[test]
fn what_nobody_may_read_is_fed_to_nobody() {
    let (model, feed) = (Held::new(), Arc::<Kept>::default());
    let mut stage = stage_of(model.clone());
    stage.token_feeds = vec![feed.clone()];
    stage.tokens = vec![1];
    let hides = Native::with_handlers(|| Ok(Box::new(Hides)));
    let running = Setting::new(vec![
        model_stage("ask", stage, vec![Target::Stage(1)]),
        operator("hides", hides, vec![ANSWERS], Vec::new()),
    ])
    .start();
    let offset = running.table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "my secret"));
    request.reply.done(Ok(answer("my secret is")));
    running.end();
    assert_eq!(feed.read(offset), (State::Complete, "my *** is".into()));
    assert!(!feed.texts().concat().contains("secret"));
}

#[test]
fn a_record_that_ends_without_an_answer_is_lost_to_those_who_read() {
    let (model, feed) = (Held::new(), Arc::<Kept>::default());
    let running = Setting::new(fed(model.clone(), &feed)).start();
    let table = running.table.clone();
    let (dead, gone) = (table.ask(chat("dead")), table.ask(chat("gone")));
    let (mut of_dead, mut of_gone) = (model.next(), model.next());
    for request in [&mut of_dead, &mut of_gone] {
        request.reply.piece(&piece(0, "So"));
    }
    until("both are fed", PATIENCE, || feed.texts().len() == 2);
    table.goes(gone);
    of_dead.reply.done(Err(ModelError::Expired { made: 1 }));
    until("both end", PATIENCE, || table.is_done());
    of_gone.reply.done(Err(ModelError::Cancelled));
    running.end();
    assert_eq!(feed.read(dead).0, State::Lost);
    assert_eq!(feed.read(gone).0, State::Lost);
}

#[test]
fn a_model_that_has_no_room_tells_readers_nothing() {
    let (model, feed) = (Held::new(), Arc::<Kept>::default());
    let running = Setting::new(fed(model.clone(), &feed)).start();
    let offset = running.table.ask(chat("a"));
    let request = model.next();
    // Unloaded before it made anything, and asked again.
    request
        .reply
        .done(Err(ModelError::Unknown("native".into())));
    let request = model.next();
    assert_eq!(feed.len(), 0);
    request.reply.done(Ok(answer("yes")));
    running.end();
    assert_eq!(feed.read(offset), (State::Complete, "yes".into()));
    assert_eq!(feed.attempts().len(), 1);
}

#[test]
fn an_answer_that_ends_while_a_feed_is_full_goes_out_whole_with_its_end() {
    for said_before in [false, true] {
        let (model, feed) = (Held::new(), Arc::<Kept>::default());
        feed.has_room_for_ends.store(true, Ordering::SeqCst);
        let running = Setting::new(fed(model.clone(), &feed)).start();
        let offset = running.table.ask(chat("a"));
        let mut request = model.next();
        if said_before {
            request.reply.piece(&piece(0, "So"));
            until("it is fed", PATIENCE, || !feed.texts().is_empty());
        }
        feed.is_full.store(true, Ordering::SeqCst);
        let more = if said_before { " it" } else { "So it" };
        request.reply.piece(&piece(1, more));
        request.reply.done(Ok(answer("So it is")));
        running.end();
        assert_eq!(feed.read(offset), (State::Complete, "So it is".into()));
    }
}
