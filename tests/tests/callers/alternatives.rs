//! Records that ask for another model than the stage's own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use tidegate_contract::{Lane, ModelError, ModelTask, Parameters};
use tidegate_flow::{Alternative, ModelStage, Target};

use crate::native::{Held, answer, piece};
use crate::setting::*;
use crate::table::End;

/// A stage that may ask "small" in the place of its own model.
fn stage(own: Arc<Held>, small: Arc<Held>) -> ModelStage {
    let mut stage = stage_of(own);
    stage.alternatives = vec![Alternative {
        name: "small".into(),
        model: small,
        prompt_tokens: 10,
        parameters: Box::new(Parameters {
            max_tokens: 16,
            ..Parameters::default()
        }),
    }];
    stage
}

fn instead(text: &str, model: &str) -> String {
    let messages = json!([{"role": "user", "content": text}]);
    json!({"messages": messages, "alternative": model}).to_string()
}

fn most_tokens(task: &ModelTask) -> u32 {
    match task {
        ModelTask::Generate { parameters, .. } => parameters.max_tokens,
        ModelTask::Encode { .. } | ModelTask::Recognize { .. } | ModelTask::Rank { .. } => 0,
    }
}

#[test]
fn a_record_is_answered_by_the_model_that_it_asks_for() {
    let (own, small) = (Held::new(), Held::new());
    let stage = stage(own.clone(), small.clone());
    let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let usual = table.ask(chat("a"));
    let other = table.ask(instead("b", "small"));
    let named = table.ask(instead("c", "model"));
    let nobody = table.ask(instead("d", "tiny"));
    let long = table.ask(instead("more than ten", "small"));
    for offset in [usual, named] {
        let mut request = own.next();
        assert_eq!(most_tokens(&request.task), 64);
        request.reply.token(0, 1, "a");
        request.reply.token(1, 1, "a");
        assert_eq!(table.begun(offset), ["model"]);
        request.reply.done(Ok(answer("large")));
    }
    let mut request = small.next();
    assert_eq!(most_tokens(&request.task), 16);
    request.reply.token(0, 1, "a");
    request.reply.done(Ok(answer("little")));
    running.end();
    assert_eq!(table.begun(other), ["small"]);
    assert_eq!(table.answer(other).unwrap()["answer"], "little");
    assert_eq!(table.answer(named).unwrap()["answer"], "large");
    let dead = |offset, why: &str| match table.ends(offset).as_slice() {
        [End::Dead(_, reason, _)] => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    };
    dead(nobody, "alternative is \"tiny\"");
    dead(long, "exceeds the limit of 10");
}

#[test]
fn those_for_another_model_go_past_those_that_wait_for_a_full_one() {
    let own = Arc::new(Held {
        most: Some(1),
        ..Held::default()
    });
    let small = Held::new();
    let stage = stage(own.clone(), small.clone());
    let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let usual: Vec<u64> = (0..5).map(|_| table.ask(chat("a"))).collect();
    let others: Vec<u64> = (0..3).map(|_| table.ask(instead("b", "small"))).collect();
    for offset in others {
        small.next().reply.done(Ok(answer("little")));
        tidegate_tests::until("it is answered", PATIENCE, || {
            table.answer(offset).is_some()
        });
    }
    for offset in usual {
        assert!(table.answer(offset).is_none());
        own.next().reply.done(Ok(answer("large")));
        tidegate_tests::until("it is answered", PATIENCE, || {
            table.answer(offset).is_some()
        });
    }
    running.end();
}

#[test]
fn a_stage_on_the_way_that_has_not_the_model_answers_with_its_own() {
    let (draft, own, small, audit) = (Held::new(), Held::new(), Held::new(), Held::new());
    let named = |name: &str, model: Arc<Held>| ModelStage {
        name: name.into(),
        field: name.into(),
        ..stage_of(model)
    };
    let stages = vec![
        model_stage(
            "before",
            named("draft", draft.clone()),
            vec![Target::Stage(1), Target::Stage(2)],
        ),
        model_stage("ask", stage(own.clone(), small.clone()), vec![ANSWERS]),
        model_stage("beside", named("audit", audit.clone()), vec![ELSEWHERE]),
    ];
    let running = Setting::new(stages).start();
    let table = running.table.clone();
    let shed = table.ask(instead("a", "small"));
    let nobody = table.ask(instead("b", "tiny"));
    draft.next().reply.done(Ok(answer("drafted")));
    small.next().reply.done(Ok(answer("little")));
    audit.next().reply.done(Ok(answer("fine")));
    running.end();
    assert_eq!(table.answer(shed).unwrap()["answer"], "little");
    assert_eq!(table.answer(shed).unwrap()["draft"], "drafted");
    match table.ends(nobody).as_slice() {
        [End::Dead(_, reason, _)] => assert!(reason.contains("\"tiny\""), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(own.requests.lock().unwrap().is_empty());
}

#[test]
fn a_request_is_cancelled_with_whichever_model_has_it() {
    let (own, small) = (Held::new(), Held::new());
    let stage = stage(own.clone(), small.clone());
    let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offset = table.ask(instead("b", "small"));
    let request = small.next();
    table.goes(offset);
    tidegate_tests::until("it is cancelled", PATIENCE, || {
        small.has_cancelled(request.id)
    });
    request.reply.done(Err(ModelError::Cancelled));
    running.end();
}

#[test]
fn the_own_model_answers_in_the_place_of_one_that_was_given_up() {
    let (own, small) = (Held::new(), Held::new());
    let stage = stage(own.clone(), small.clone());
    let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
    let table = running.table.clone();
    let mut asked = Vec::new();
    for error in [ModelError::Closed, ModelError::Cancelled] {
        asked.push(table.ask(instead("b", "small")));
        let mut request = small.next();
        // It is shown, and can be taken back.
        request.reply.piece(&piece(0, "lit"));
        request.reply.done(Err(error));
        own.next().reply.done(Ok(answer("large")));
    }
    small.closed.store(true, Ordering::SeqCst);
    let unmade = table.ask(instead("b", "small"));
    let request = own.next();
    assert_eq!((request.attempt, most_tokens(&request.task)), (1, 64));
    request.reply.done(Ok(answer("large")));
    let ended = running.end();
    assert_eq!(ended.counts.retried, 3);
    for offset in asked {
        assert_eq!(table.attempts(offset), [1, 2]);
        assert_eq!(table.text(offset, 2, Lane::Content), "large");
        assert_eq!(table.answer(offset).unwrap()["answer"], "large");
    }
    assert_eq!(table.answer(unmade).unwrap()["answer"], "large");
}

#[test]
fn what_was_shown_for_good_ends_with_the_alternative_and_the_run_goes_on() {
    let (own, small) = (Held::new(), Held::new());
    let stage = stage(own.clone(), small.clone());
    let running = Setting::new(vec![model_stage("ask", stage, vec![ANSWERS])]).start();
    let table = running.table.clone();
    table.show_for_good();
    let offset = table.ask(instead("b", "small"));
    let mut request = small.next();
    request.reply.piece(&piece(0, "lit"));
    request.reply.token(0, 1, "lit");
    tidegate_tests::until("it is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "lit"
    });
    request.reply.done(Err(ModelError::Closed));
    let usual = table.ask(chat("a"));
    own.next().reply.done(Ok(answer("large")));
    running.end();
    assert_eq!(table.answer(usual).unwrap()["answer"], "large");
    match table.ends(offset).as_slice() {
        [End::Dead(_, _, Some(told))] => assert_eq!(*told, ModelError::Closed),
        other => panic!("{other:?}"),
    }
}
