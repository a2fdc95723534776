//! Answers as they are made, and how soon.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_contract::{Answer, Lane, Made, ModelError, ModelTask, Piece, TokenLogprob};
use tidegate_flow::Target;
use tidegate_tests::until;

use crate::native::{Held, Native, Says, answer, piece};
use crate::setting::*;
use crate::table::Seen;

fn forced(task: &ModelTask) -> Vec<u32> {
    match task {
        ModelTask::Generate { forced_prefix, .. } => forced_prefix.clone(),
        ModelTask::Encode { .. } | ModelTask::Recognize { .. } | ModelTask::Rank { .. } => {
            Vec::new()
        }
    }
}

#[test]
fn a_listener_sees_every_lane_as_it_is_made_and_then_the_answer() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    let likely = [TokenLogprob {
        token: 5,
        logprob: -0.5,
        top: Vec::new(),
        said: true,
    }];
    let lane = |lane, index, text| Piece {
        lane,
        ..piece(index, text)
    };
    request.reply.piece(&lane(Lane::Reasoning, 0, "hm"));
    request.reply.piece(&Piece {
        logprobs: &likely,
        ..piece(1, "So")
    });
    request.reply.piece(&Piece {
        begins: Some(("call_1", "go")),
        ..lane(Lane::Arguments(0), 2, "{")
    });
    let pieces = || table.seen(offset, 1).len();
    tidegate_tests::until("three are seen", PATIENCE, || pieces() == 3);
    assert_eq!(table.left(offset), 1, "before its end");
    let mut whole = answer("So it is");
    let Made::Choices(choices) = &mut whole.made else {
        panic!("it has choices");
    };
    choices[0].reasoning = "hm".into();
    request.reply.done(Ok(whole.clone()));
    running.end();
    let seen = table.seen(offset, 1);
    let likely: Vec<usize> = seen
        .iter()
        .map(|seen| match seen {
            Seen::Piece { logprobs, .. } => *logprobs,
        })
        .collect();
    assert_eq!(likely[..3], [0, 1, 0]);
    assert_eq!(
        table.text(offset, 1, Lane::Content),
        "So it is",
        "what was not told before too"
    );
    assert_eq!(table.brought(offset), [Some(Arc::new(whole))]);
    assert!(seen.iter().any(|seen| matches!(
        seen,
        Seen::Piece { begins: Some((id, name)), .. } if id == "call_1" && name == "go"
    )));
}

#[test]
fn an_attempt_that_fails_is_followed_by_a_higher_one_that_begins_anew() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "One"));
    request.reply.token(0, 1, "One");
    request.reply.done(Err(ModelError::Remote {
        server: "there".into(),
        why: "reset".into(),
        told: "it failed".into(),
        again: true,
        after: None,
    }));
    let mut request = model.next();
    assert_eq!((request.attempt, forced(&request.task)), (2, vec![1]));
    request.reply.piece(&piece(0, "One"));
    request.reply.piece(&piece(1, " two"));
    request.reply.done(Ok(answer("One two")));
    running.end();
    assert_eq!(table.attempts(offset), [1, 2]);
    assert_eq!(table.text(offset, 2, Lane::Content), "One two");
    assert_eq!(table.brought(offset).len(), 1);
}

#[test]
fn what_was_seen_of_an_attempt_that_goes_on_is_not_shown_again() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(1, "Grüß"));
    request.reply.token(0, 1, "Grü");
    request.reply.token(1, 2, "ß");
    tidegate_tests::until("it is seen", PATIENCE, || !table.seen(offset, 1).is_empty());
    // Unloaded, and back: this was no attempt.
    request
        .reply
        .done(Err(ModelError::Unknown("native".into())));
    let mut request = model.next();
    assert_eq!((request.attempt, forced(&request.task)), (1, vec![1, 2]));
    request.reply.piece(&piece(1, "Grüß"));
    request.reply.piece(&piece(2, " Gott"));
    request.reply.done(Ok(answer("Grüß Gott")));
    running.end();
    assert_eq!(table.attempts(offset), [1]);
    assert_eq!(table.text(offset, 1, Lane::Content), "Grüß Gott");
}

#[test]
fn a_thousand_pieces_of_many_answers_come_in_their_order() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let offsets: Vec<u64> = (0..16).map(|n| table.ask(chat(&n.to_string()))).collect();
    let mut requests: Vec<_> = (0..16).map(|_| model.next()).collect();
    let word = |index: u32| format!("{index} ");
    for index in 0..1000 {
        for request in &mut requests {
            request.reply.piece(&piece(index, &word(index)));
        }
    }
    let whole: String = (0..1000).map(word).collect();
    for request in requests {
        request.reply.done(Ok(answer(&whole)));
    }
    running.end();
    for offset in offsets {
        assert_eq!(table.text(offset, 1, Lane::Content), whole);
    }
}

/// How long requests take on their way through the worker, with nothing between: the median and the longest of a hundred.
fn latency(busy: bool) -> (Duration, Duration) {
    let held = Held::new();
    let quick = Held::answering(|_| Ok::<Answer, ModelError>(answer("yes")));
    let mut setting = Setting::new(vec![
        asking("held", held.clone(), vec![ANSWERS]),
        asking("quick", quick, vec![ANSWERS]),
    ]);
    let slot = crate::native::Native::new(|record| match record.value() {
        Some(value) if value.windows(4).any(|part| part == b"held") => {
            crate::native::Says::Route(1)
        }
        _ => crate::native::Says::Pass,
    });
    let stages = std::mem::take(&mut setting.stages);
    setting.stages = vec![operator(
        "choose",
        slot,
        vec![tidegate_flow::Target::Stage(2)],
        vec![tidegate_flow::Target::Stage(1)],
    )];
    setting.stages.extend(stages);
    let running = setting.start();
    let table = running.table.clone();
    let waits = busy.then(|| {
        table.ask(chat("held"));
        held.next()
    });
    let mut took: Vec<Duration> = (0..100)
        .map(|n| {
            std::thread::sleep(Duration::from_millis(3));
            let since = Instant::now();
            let offset = table.ask(chat(&n.to_string()));
            while table.answered_at(offset).is_none() {
                std::thread::yield_now();
            }
            table.answered_at(offset).unwrap() - since
        })
        .collect();
    if let Some(request) = waits {
        request.reply.done(Ok(answer("at last")));
    }
    running.end();
    took.sort_unstable();
    (took[50], took[99])
}

#[test]
fn requests_are_answered_while_another_is_in_flight_and_the_time_it_takes_is_shown() {
    for busy in [false, true] {
        let (median, longest) = latency(busy);
        eprintln!("in flight beside it: {busy}; median {median:?}, longest {longest:?}");
    }
}

/// The words of an answer, one by one.
fn say(request: &mut tidegate_contract::Request, words: &[&str]) {
    for (index, word) in (0..).zip(words) {
        request.reply.piece(&piece(index, word));
    }
}

/// The first choice's text of what a piece brought.
fn said(brought: &Option<Arc<Answer>>) -> &str {
    match brought.as_deref() {
        Some(Answer {
            made: Made::Choices(choices),
            ..
        }) => &choices[0].text,
        other => panic!("no text but {other:?}"),
    }
}

#[test]
fn an_answer_is_shown_early_where_the_other_pieces_of_a_split_come_to_no_caller() {
    let model = Held::new();
    let slot = Native::new(|_| Says::Split(vec![1, 0]));
    let running = Setting::new(vec![
        operator("split", slot, vec![Target::Stage(1)], vec![ELSEWHERE]),
        asking("ask", model.clone(), vec![ANSWERS]),
    ])
    .start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    say(&mut request, &["It ", "is"]);
    until("it is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "It is"
    });
    request.reply.done(Ok(answer("It is")));
    running.end();
    assert_eq!(said(&table.brought(offset)[0]), "It is");
}

#[test]
fn of_several_pieces_that_are_asked_none_is_shown_early_and_what_is_told_is_of_the_one_that_is_sent()
 {
    let model = Held::new();
    let slot = Native::new(|_| Says::Split(vec![0, 0]));
    let running = Setting::new(vec![
        operator("split", slot, vec![Target::Stage(1)], Vec::new()),
        asking("ask", model.clone(), vec![ANSWERS]),
    ])
    .start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let (mut first, mut second) = (model.next(), model.next());
    assert!(table.attempts(offset).is_empty(), "nobody sees it");
    say(&mut first, &["first"]);
    say(&mut second, &["second"]);
    second.reply.done(Ok(answer("second")));
    until("it is out", PATIENCE, || table.values(offset).len() == 1);
    first.reply.done(Ok(answer("first")));
    running.end();
    assert!(table.attempts(offset).is_empty());
    let brought = table.brought(offset);
    assert_eq!((said(&brought[0]), said(&brought[1])), ("second", "first"));
    assert_eq!(table.answer(offset).unwrap()["answer"], "second");
}

#[test]
fn of_two_stages_that_generate_the_last_is_heard() {
    let (drafts, answers) = (Held::new(), Held::new());
    let running = Setting::new(vec![
        asking("draft", drafts.clone(), vec![Target::Stage(1)]),
        asking("answer", answers.clone(), vec![ANSWERS]),
    ])
    .start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let draft = drafts.next();
    assert!(table.attempts(offset).is_empty(), "nobody sees it");
    draft.reply.done(Ok(answer("a draft")));
    let mut request = answers.next();
    say(&mut request, &["An ", "answer"]);
    until("it is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "An answer"
    });
    request.reply.done(Ok(answer("An answer")));
    running.end();
    assert_eq!(said(&table.brought(offset)[0]), "An answer");
}

#[test]
fn a_route_to_one_of_several_models_is_heard_as_it_answers() {
    let (small, large) = (Held::new(), Held::new());
    let slot = Native::new(|record| match record.value() {
        Some(value) if value.windows(4).any(|part| part == b"hard") => Says::Route(1),
        _ => Says::Pass,
    });
    let running = Setting::new(vec![
        operator(
            "choose",
            slot,
            vec![Target::Stage(1)],
            vec![Target::Stage(2)],
        ),
        asking("small", small.clone(), vec![ANSWERS]),
        asking("large", large.clone(), vec![ANSWERS]),
    ])
    .start();
    let table = running.table.clone();
    for (text, model) in [("easy", small), ("hard", large)] {
        let offset = table.ask(chat(text));
        let mut request = model.next();
        say(&mut request, &[text]);
        until("it is seen", PATIENCE, || {
            table.text(offset, 1, Lane::Content) == text
        });
        request.reply.done(Ok(answer(text)));
        until("it is out", PATIENCE, || table.left(offset) == 0);
        assert_eq!(said(&table.brought(offset)[0]), text);
    }
    running.end();
}

#[test]
fn a_model_whose_answer_goes_elsewhere_is_not_heard() {
    let (audits, answers) = (Held::new(), Held::new());
    let mut setting = Setting::new(vec![
        asking("audit", audits.clone(), vec![ELSEWHERE]),
        asking("answer", answers.clone(), vec![ANSWERS]),
    ]);
    setting.targets = vec![Target::Stage(0), Target::Stage(1)];
    let running = setting.start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let (mut audit, mut request) = (audits.next(), answers.next());
    say(&mut audit, &["harmless"]);
    say(&mut request, &["Yes"]);
    until("it is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "Yes"
    });
    request.reply.done(Ok(answer("Yes")));
    until("it is out", PATIENCE, || table.values(offset).len() == 1);
    audit.reply.done(Ok(answer("harmless")));
    running.end();
    let brought = table.brought(offset);
    assert_eq!((brought.len(), said(&brought[0])), (1, "Yes"));
}

#[test]
fn what_is_told_is_of_the_stage_whose_member_the_sink_takes() {
    let (answers, summaries) = (Held::new(), Held::new());
    let mut summary = stage_of(summaries.clone());
    summary.field = "summary".into();
    let running = Setting::new(vec![
        asking("answer", answers.clone(), vec![Target::Stage(1)]),
        model_stage("sum-up", summary, vec![ANSWERS]),
    ])
    .start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    answers.next().reply.done(Ok(answer("All of it")));
    summaries.next().reply.done(Ok(answer("In short")));
    running.end();
    assert!(table.attempts(offset).is_empty(), "either may yet be lost");
    assert_eq!(said(&table.brought(offset)[0]), "All of it");
}
