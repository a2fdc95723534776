//! Callers that go before they have an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_contract::{ModelError, OperatorError};
use tidegate_flow::{Order, Target};
use tidegate_tests::until;

use crate::native::{Held, Native, Says, answer};
use crate::setting::*;
use crate::table::End;

#[test]
fn a_caller_that_goes_away_frees_its_request_and_the_run_goes_on() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let (goes, stays) = (table.ask(chat("goes")), table.ask(chat("stays")));
    let (of_gone, of_other) = (model.next(), model.next());
    table.goes(goes);
    until("it is cancelled", PATIENCE, || {
        model.has_cancelled(of_gone.id)
    });
    assert_eq!(table.left(goes), 0);
    assert_eq!(table.ends(goes), [End::Dropped("ask".into())]);
    of_gone.reply.done(Err(ModelError::Cancelled));
    of_other.reply.done(Ok(answer("yes")));
    let ended = running.end();
    assert_eq!((ended.counts.dropped, ended.counts.output), (1, 1));
    assert_eq!(table.answer(stays).unwrap()["answer"], "yes");
}

#[test]
fn those_behind_a_caller_that_goes_away_go_on() {
    let model = Held::new();
    let mut stage = stage_of(model.clone());
    (stage.order, stage.max_in_flight) = (Order::Partition, 2);
    let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offsets: Vec<u64> = (0..5).map(|n| table.ask(chat(&n.to_string()))).collect();
    let (first, second) = (model.next(), model.next());
    second.reply.done(Ok(answer("second")));
    // The first of the lane, with an answer behind it.
    table.goes(offsets[0]);
    until("the second is out", PATIENCE, || {
        table.left(offsets[1]) == 0
    });
    first.reply.done(Err(ModelError::Cancelled));
    for _ in 0..3 {
        model.next().reply.done(Ok(answer("yes")));
    }
    running.end();
    assert_eq!(table.ends(offsets[0]), [End::Dropped("ask".into())]);
    assert!(table.answer(offsets[0]).is_none());
}

#[test]
fn a_record_that_is_to_come_again_ends_when_its_caller_goes() {
    let retry = Arc::new(AtomicBool::new(true));
    let again = retry.clone();
    let slot = Native::new(move |_| match again.load(Ordering::SeqCst) {
        true => Says::Later,
        false => Says::Pass,
    });
    let running = Setting::new(vec![operator("wait", slot, vec![ANSWERS], Vec::new())]).start();
    let table = running.table.clone();
    let offset = table.ask("x");
    until("it has come", PATIENCE, || {
        running.run.controls().committed().retried == 1
    });
    table.goes(offset);
    until("it has ended", PATIENCE, || table.left(offset) == 0);
    assert_eq!(table.ends(offset), [End::Dropped("wait".into())]);
    retry.store(false, Ordering::SeqCst);
    table.ask("y");
    running.end();
}

#[test]
fn what_waits_before_a_stage_and_what_an_operator_has_answered_ends_too() {
    let model = Held::new();
    let mut stage = stage_of(model.clone());
    stage.max_in_flight = 4;
    // Each becomes eight: those of the first do not all fit, and those of the others are not made yet.
    let slot = Native::new(|_| Says::Split(vec![0; 8]));
    let mut setting = Setting::new(vec![
        operator("split", slot, vec![Target::Stage(1)], Vec::new()),
        model_stage("ask", stage, vec![ANSWERS]),
    ]);
    setting.batch_bytes = 100;
    let table = setting.table.clone();
    let offsets: Vec<u64> = (0..4).map(|n| table.ask(chat(&n.to_string()))).collect();
    let running = setting.start();
    let asked: Vec<_> = (0..4).map(|_| model.next()).collect();
    for offset in &offsets {
        table.goes(*offset);
    }
    for request in asked {
        until("it is cancelled", PATIENCE, || {
            model.has_cancelled(request.id)
        });
        request.reply.done(Err(ModelError::Cancelled));
    }
    let ended = running.end();
    assert_eq!((ended.counts.dropped, ended.counts.split), (32, 28));
    assert!(!model.is_asked());
    let stages = |offset| -> Vec<End> { table.ends(offset) };
    assert!(
        stages(offsets[3])
            .iter()
            .all(|end| *end == End::Dropped("split".into()))
    );
    assert!(
        stages(offsets[0])
            .iter()
            .all(|end| *end == End::Dropped("ask".into()))
    );
}

#[test]
fn a_caller_that_goes_while_a_handler_is_away_ends_too() {
    let slot = Native::with_handlers(|| Err(OperatorError::Engine("not today".into())));
    let model = Held::new();
    let mut stage = stage_of(model.clone());
    stage.tokens = vec![1];
    let running = Setting::new(vec![
        model_stage("ask", stage, vec![Target::Stage(1)]),
        operator("handle", slot, vec![ANSWERS], Vec::new()),
    ])
    .start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    until("it waits", PATIENCE, || {
        running.run.controls().committed().input == 1
    });
    assert!(!model.is_asked());
    table.goes(offset);
    running.end();
    assert_eq!(table.ends(offset), [End::Dropped("ask".into())]);
}
