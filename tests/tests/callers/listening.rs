//! Answers as they are made, and how soon.

use std::time::{Duration, Instant};

use tidegate_contract::{Answer, Lane, Made, ModelError, ModelTask, Piece, TokenLogprob};

use crate::native::{Held, answer, piece};
use crate::setting::*;
use crate::table::Seen;

fn forced(task: &ModelTask) -> Vec<u32> {
    match task {
        ModelTask::Generate { forced_prefix, .. } => forced_prefix.clone(),
        ModelTask::Encode { .. } => Vec::new(),
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
        .filter_map(|seen| match seen {
            Seen::Piece { logprobs, .. } => Some(*logprobs),
            Seen::Answer(_) => None,
        })
        .collect();
    assert_eq!(likely[..3], [0, 1, 0]);
    assert_eq!(
        table.text(offset, 1, Lane::Content),
        "So it is",
        "what was not told before too"
    );
    assert_eq!(seen.last(), Some(&Seen::Answer(whole)));
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
        again: true,
    }));
    let mut request = model.next();
    assert_eq!((request.attempt, forced(&request.task)), (2, vec![1]));
    request.reply.piece(&piece(0, "One"));
    request.reply.piece(&piece(1, " two"));
    request.reply.done(Ok(answer("One two")));
    running.end();
    assert_eq!(table.attempts(offset), [1, 2]);
    assert_eq!(table.text(offset, 2, Lane::Content), "One two");
    let answers = |attempt| {
        let seen = table.seen(offset, attempt);
        seen.iter()
            .filter(|seen| matches!(seen, Seen::Answer(_)))
            .count()
    };
    assert_eq!((answers(1), answers(2)), (0, 1));
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
