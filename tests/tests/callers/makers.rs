//! What makes the answers: while that is the same, an equal question has an equal answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_contract::{OperatorError, OperatorVersion};
use tidegate_flow::{Alternative, Target};
use tidegate_tests::until;

use crate::native::{Held, Native, Says, answer};
use crate::setting::*;

fn passes() -> Native {
    Native::new(|_| Says::Pass)
}

#[test]
fn all_that_has_a_part_in_an_answer_is_in_its_mark_and_nothing_else() {
    let (own, small, beside) = (Held::new(), Held::new(), Held::new());
    let (before, after, aside) = (passes(), passes(), passes());
    let handler = Native::with_handlers(|| Err(OperatorError::Engine("not asked".into())));
    let parts = [&before, &after, &handler].map(|slot| slot.generation.clone());
    let no_part = aside.generation.clone();
    let mut ask = stage_of(own.clone());
    ask.tokens = vec![3];
    ask.alternatives = vec![Alternative {
        name: "small".into(),
        model: small.clone(),
        prompt_tokens: 10,
        parameters: Box::default(),
    }];
    let stages = vec![
        operator("before", before, vec![Target::Stage(1)], vec![]),
        model_stage("ask", ask, vec![Target::Stage(2)]),
        operator("after", after, vec![ANSWERS], vec![Target::Stage(4)]),
        operator("handler", handler, vec![ELSEWHERE], vec![]),
        operator("aside", aside, vec![Target::Stage(5)], vec![]),
        asking("beside", beside.clone(), vec![ELSEWHERE]),
    ];
    let makers = Setting::new(stages).topology().makers(0);
    let mut mark = makers.mark();
    for part in parts {
        part.fetch_add(1, Ordering::SeqCst);
        let changed = makers.mark();
        assert_ne!(changed, mark);
        mark = changed;
    }
    for model in [own, small] {
        model.replaced.store(true, Ordering::SeqCst);
        let changed = makers.mark();
        assert_ne!(changed, mark);
        mark = changed;
    }
    no_part.fetch_add(1, Ordering::SeqCst);
    beside.replaced.store(true, Ordering::SeqCst);
    assert_eq!(makers.mark(), mark);
}

#[test]
fn what_an_operator_says_that_was_replaced_already_is_not_of_the_same_mark() {
    let before = passes();
    let (generation, version, starts) = (
        before.generation.clone(),
        before.version.clone(),
        before.starts.clone(),
    );
    let model = Held::answering(|_| Ok(answer("yes")));
    let stages = vec![
        operator("before", before, vec![Target::Stage(1)], vec![]),
        asking("ask", model, vec![ANSWERS]),
    ];
    let running = Setting::new(stages).start();
    let (table, makers) = (&running.table, &running.makers);
    let stays = || {
        let mark = makers.mark();
        table.ask(chat("a"));
        until("it is answered", PATIENCE, || table.is_done());
        makers.mark() == mark
    };
    assert!(stays(), "nothing was replaced");
    starts.store(false, Ordering::SeqCst);
    {
        let mut version = version.lock().unwrap();
        *version = Arc::new(OperatorVersion::clone(&version));
    }
    generation.fetch_add(1, Ordering::SeqCst);
    assert!(!stays(), "the one before has answered");
    starts.store(true, Ordering::SeqCst);
    until("the next has started", PATIENCE, stays);
    running.end();
}
