//! Models that have no answer yet: which of them are asked again, and when.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_contract::{Lane, ModelError, ModelTask, Request, Terms};

use crate::native::{Held, answer, piece};
use crate::setting::*;
use crate::table::End;

/// Another server has no answer, and may have one after this time.
fn put_off(after: Option<Duration>) -> ModelError {
    ModelError::Remote {
        server: "there".into(),
        why: "429 Too Many Requests".into(),
        told: "it has no time".into(),
        again: true,
        after,
    }
}

#[test]
fn a_server_that_says_when_is_asked_again_then_and_that_is_no_attempt() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let after = Duration::from_millis(30);
    // More often than the stage has attempts.
    for _ in 0..5 {
        let request = model.next();
        assert_eq!(request.attempt, 1);
        let put = Instant::now();
        request.reply.done(Err(put_off(Some(after))));
        tidegate_tests::until("it is asked again", PATIENCE, || model.is_asked());
        assert!(put.elapsed() >= after, "{:?}", put.elapsed());
    }
    model.next().reply.done(Ok(answer("at last")));
    let ended = running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "at last");
    assert_eq!(ended.counts.retried, 5);
}

#[test]
fn a_record_that_nobody_waits_for_is_put_off_only_for_so_long_and_its_lane_goes_on() {
    let model = Held::new();
    let mut stage = stage_of(model.clone());
    stage.order = tidegate_flow::Order::Partition;
    // Long enough that it is put off at least once on any machine.
    stage.deadline = Some(Duration::from_secs(3));
    let stages = vec![model_stage("ask", stage, vec![ANSWERS])];
    let running = Setting::new(stages).start();
    let table = running.table.clone();
    let first = table.ask(chat("first"));
    let mut asked = model.next();
    let second = table.ask(chat("second"));
    model.next().reply.done(Ok(answer("second")));
    let error = put_off(Some(Duration::from_millis(10)));
    let mut times = 0;
    loop {
        asked.reply.done(Err(error.clone()));
        tidegate_tests::until("it is asked again, or ends", PATIENCE, || {
            model.is_asked() || !table.ends(first).is_empty()
        });
        if !model.is_asked() {
            break;
        }
        times += 1;
        asked = model.next();
        assert_eq!(asked.attempt, 1);
    }
    assert!(times > 0, "it is not put off at all");
    let ended = running.end();
    match table.ends(first).as_slice() {
        [End::Dead(_, _, Some(told))] => assert_eq!(*told, error),
        other => panic!("{other:?}"),
    }
    assert_eq!(table.answer(second).unwrap()["answer"], "second");
    assert_eq!(ended.counts.retried, times);
}

#[test]
fn no_server_puts_a_record_off_for_longer_than_ten_minutes() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let error = put_off(Some(Duration::from_secs(601)));
    model.next().reply.done(Err(error));
    let ended = running.end();
    assert!(matches!(table.ends(offset).as_slice(), [End::Dead(..)]));
    assert_eq!(ended.counts.retried, 0);
}

#[test]
fn those_behind_one_that_was_put_off_go_on_and_leave_after_it() {
    let model = Held::new();
    let mut stage = stage_of(model.clone());
    stage.order = tidegate_flow::Order::Partition;
    let stages = vec![model_stage("ask", stage, vec![ANSWERS])];
    let running = Setting::new(stages).start();
    let table = running.table.clone();
    let first = table.ask(chat("first"));
    let asked = model.next();
    let second = table.ask(chat("second"));
    let behind = model.next();
    asked
        .reply
        .done(Err(put_off(Some(Duration::from_millis(30)))));
    behind.reply.done(Ok(answer("second")));
    let again = model.next();
    assert!(table.answer(second).is_none(), "it has overtaken the first");
    again.reply.done(Ok(answer("first")));
    running.end();
    assert!(table.answered_at(first) <= table.answered_at(second));
    assert_eq!(table.answer(second).unwrap()["answer"], "second");
}

#[test]
fn whoever_cannot_wait_so_long_hears_it_at_once() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let terms = Terms {
        deadline: Some(Instant::now() + PATIENCE),
        class: 3,
    };
    let offset = table.ask_with(chat("a"), Some(terms));
    let error = put_off(Some(2 * PATIENCE));
    model.next().reply.done(Err(error.clone()));
    running.end();
    match table.ends(offset).as_slice() {
        [End::Dead(_, _, Some(told))] => assert_eq!(*told, error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_shown_for_good_is_not_asked_for_again() {
    for after in [None, Some(Duration::from_millis(1))] {
        let model = Held::new();
        let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
        let table = running.table.clone();
        table.show_for_good();
        // Nothing of it was shown yet.
        let offset = table.ask(chat("a"));
        model.next().reply.done(Err(put_off(after)));
        let mut request = model.next();
        request.reply.piece(&piece(0, "One"));
        let attempt = *table.attempts(offset).last().unwrap();
        tidegate_tests::until("it is seen", PATIENCE, || {
            table.text(offset, attempt, Lane::Content) == "One"
        });
        request.reply.done(Err(put_off(after)));
        running.end();
        assert!(!model.is_asked(), "it is asked again");
        let ends = table.ends(offset);
        assert!(matches!(ends.as_slice(), [End::Dead(..)]), "{ends:?}");
    }
}

#[test]
fn a_request_that_is_given_back_after_it_was_taken_was_no_attempt() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    for _ in 0..5 {
        let request = model.next();
        assert_eq!(request.attempt, 1);
        request.reply.done(Err(ModelError::Full { limit: 9 }));
    }
    model.next().reply.done(Ok(answer("room")));
    running.end();
    assert_eq!(table.answer(offset).unwrap()["answer"], "room");
}

/// Every way in which a model that was asked has no answer and is asked again.
fn without_an_answer() -> Vec<ModelError> {
    vec![
        ModelError::Full { limit: 9 },
        ModelError::Unknown("native".into()),
        ModelError::Expired { made: 1 },
        ModelError::Hopeless {
            left: Duration::ZERO,
            needed: PATIENCE,
        },
        ModelError::Device("gone".into()),
        put_off(None),
        put_off(Some(Duration::from_millis(1))),
    ]
}

/// A record of which this piece was shown, and by now its caller waits longer than the model was told. Returns it too.
fn shown(running: &Running, model: &Held, text: &str) -> (u64, Request) {
    let table = &running.table;
    let said = Instant::now() + 2 * PATIENCE;
    let terms = Terms {
        deadline: Some(said),
        class: 3,
    };
    let offset = table.ask_with(chat("a"), Some(terms));
    let mut request = model.next();
    request.reply.piece(&piece(0, text));
    tidegate_tests::until("it is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == text
    });
    table.waits_until(offset, said + PATIENCE);
    (offset, request)
}

#[test]
fn what_no_token_brings_again_ends_where_it_was_shown_for_good() {
    for error in without_an_answer() {
        let model = Held::new();
        let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
        let table = running.table.clone();
        table.show_for_good();
        let (offset, request) = shown(&running, &model, "One");
        request.reply.done(Err(error.clone()));
        running.end();
        assert!(!model.is_asked(), "{error}");
        match table.ends(offset).as_slice() {
            [End::Dead(_, _, Some(told))] => assert_eq!(*told, error),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_no_token_brings_again_is_forgotten_and_another_answer_shown_from_its_beginning() {
    for error in without_an_answer() {
        let model = Held::new();
        let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
        let table = running.table.clone();
        let (offset, request) = shown(&running, &model, "One");
        request.reply.done(Err(error.clone()));
        let mut request = model.next();
        request.reply.piece(&piece(0, "Another"));
        request.reply.done(Ok(answer("Another answer")));
        running.end();
        assert_eq!(table.attempts(offset), [1, 2], "{error}");
        assert_eq!(table.text(offset, 1, Lane::Content), "One", "{error}");
        let whole = table.text(offset, 2, Lane::Content);
        assert_eq!(whole, "Another answer", "{error}");
    }
}

#[test]
fn what_its_tokens_bring_again_goes_on_where_it_was_shown_for_good() {
    for error in without_an_answer() {
        let model = Held::new();
        let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
        let table = running.table.clone();
        table.show_for_good();
        let (offset, mut request) = shown(&running, &model, "One");
        request.reply.token(0, 1, "One");
        request.reply.done(Err(error.clone()));
        let mut request = model.next();
        let ModelTask::Generate { forced_prefix, .. } = &request.task else {
            panic!("it is asked for a text");
        };
        assert_eq!(*forced_prefix, [1], "{error}");
        request.reply.piece(&piece(0, "One"));
        request.reply.done(Ok(answer("One two")));
        running.end();
        let last = *table.attempts(offset).last().unwrap();
        assert_eq!(table.text(offset, last, Lane::Content), "One two");
        assert_eq!(table.answer(offset).unwrap()["answer"], "One two");
    }
}

#[test]
fn another_model_does_not_go_on_with_what_was_shown_of_the_one_before() {
    for for_good in [true, false] {
        let model = Held::new();
        let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
        let table = running.table.clone();
        if for_good {
            table.show_for_good();
        }
        let (offset, mut request) = shown(&running, &model, "One");
        request.reply.token(0, 1, "One");
        model.replaced.store(true, Ordering::SeqCst);
        request
            .reply
            .done(Err(ModelError::Unknown("native".into())));
        if !for_good {
            let mut request = model.next();
            request.reply.piece(&piece(0, "Another"));
            request.reply.done(Ok(answer("Another answer")));
        }
        running.end();
        assert!(!model.is_asked(), "it is asked again");
        if for_good {
            let ends = table.ends(offset);
            assert!(matches!(ends.as_slice(), [End::Dead(..)]), "{ends:?}");
        } else {
            assert_eq!(table.attempts(offset), [1, 2]);
            let whole = table.text(offset, 2, Lane::Content);
            assert_eq!(whole, "Another answer");
        }
    }
}
