//! Leaving a server alone: that fails, or that asks for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tidegate_connect::remote::{BreakerOptions, Clock, RemoteModel, RemoteOptions, Standing};
use tidegate_contract::{Model as _, ModelError};

use crate::support::{LIMIT, Server, ask, finish, hello, remote, request, said, text};

/// A clock that is turned by hand.
struct Seconds(Arc<AtomicU64>);

impl Seconds {
    fn turn_to(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

/// Each request is tried once, and four tries say something.
fn watched(mut options: RemoteOptions) -> (RemoteModel, Seconds) {
    let seconds = Arc::new(AtomicU64::new(0));
    let (begin, turned) = (Instant::now(), seconds.clone());
    options.attempts = 1;
    options.clock = Clock::new(move || begin + Duration::from_secs(turned.load(Ordering::SeqCst)));
    options.breaker = BreakerOptions {
        least: 4,
        ..BreakerOptions::default()
    };
    (RemoteModel::open(options).unwrap(), Seconds(seconds))
}

/// What is asked now is given back: it waits where it is, and this was no attempt.
fn gives_back(model: &RemoteModel) {
    let (request, _running) = request(hello(), None);
    let refused = model.submit(request).map_err(|(_, error)| error);
    assert!(
        matches!(refused, Err(ModelError::Full { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_server_that_fails_is_left_alone_until_one_request_has_tried_it() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = well.clone();
    let server = Server::start(move |asked| match is_well.load(Ordering::SeqCst) {
        true => asked.say(&["well"]),
        false => asked.answer(500, "", "{}"),
    });
    let (model, clock) = watched(server.options());
    for _ in 0..4 {
        remote(ask(&model, hello()).result());
    }
    assert!(model.stats().breaker_open && model.is_silent());
    gives_back(&model);
    assert_eq!(server.requests(), 4, "it is asked though it is left alone");
    // The one that tries it finds it ill, and it is left alone again.
    clock.turn_to(10);
    let half_open = Standing::HalfOpen {
        since: Duration::from_secs(10),
        probing: false,
    };
    assert_eq!(model.stats().standing, half_open);
    remote(ask(&model, hello()).result());
    gives_back(&model);
    assert_eq!(server.requests(), 5);
    well.store(true, Ordering::SeqCst);
    clock.turn_to(20);
    for _ in 0..3 {
        assert_eq!(text(ask(&model, hello()).result()), "well");
    }
    let stats = model.stats();
    assert_eq!((stats.breaker_opened, stats.breaker_open), (2, false));
    assert_eq!(stats.standing, Standing::Closed);
    assert!(!model.is_silent());
}

#[test]
fn a_server_is_well_as_soon_as_it_begins_to_answer_the_one_that_tries_it() {
    let (asked_for, was_asked) = mpsc::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let server = Server::start(move |asked| {
        let waits = || waits.lock().unwrap().recv_timeout(LIMIT).unwrap();
        match asked.number {
            0..4 => asked.answer(500, "", "{}"),
            4 => {
                asked_for.send(()).unwrap();
                waits();
                asked.begin();
                asked.event(&said("long"));
                waits();
                asked.event(&finish("stop"));
                asked.end();
            }
            _ => asked.say(&["meanwhile"]),
        }
    });
    let (model, clock) = watched(server.options());
    for _ in 0..4 {
        remote(ask(&model, hello()).result());
    }
    clock.turn_to(10);
    let tries = ask(&model, hello());
    was_asked.recv_timeout(LIMIT).unwrap();
    // Whoever comes now is not answered that it failed.
    gives_back(&model);
    go_on.send(()).unwrap();
    assert_eq!(tries.piece().text, "long");
    assert_eq!(text(ask(&model, hello()).result()), "meanwhile");
    go_on.send(()).unwrap();
    assert_eq!(text(tries.result()), "long");
}

#[test]
fn those_who_were_taken_before_it_was_left_alone_are_given_back_and_did_not_fail() {
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let server = Server::start(move |asked| {
        if asked.number == 0 {
            waits.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        asked.answer(500, "", "{}");
    });
    let mut options = server.options();
    options.concurrency = 1;
    let (model, _clock) = watched(options);
    let running: Vec<_> = (0..6).map(|_| ask(&model, hello())).collect();
    go_on.send(()).unwrap();
    let ends: Vec<_> = running.into_iter().map(|one| one.result()).collect();
    let failed = |end: &&Result<_, _>| matches!(end, Err(ModelError::Remote { .. }));
    let given_back = |end: &&Result<_, _>| matches!(end, Err(ModelError::Full { .. }));
    assert_eq!(ends.iter().filter(failed).count(), 4, "{ends:?}");
    assert_eq!(ends.iter().filter(given_back).count(), 2, "{ends:?}");
    assert_eq!(server.requests(), 4);
}

#[test]
fn a_server_whose_answers_break_off_is_left_alone_too() {
    let server = Server::start(|asked| {
        asked.begin();
        asked.event(&said("half"));
        asked.cut();
    });
    let (model, _clock) = watched(server.options());
    for _ in 0..4 {
        assert!(!model.stats().breaker_open);
        remote(ask(&model, hello()).result());
    }
    assert!(model.stats().breaker_open);
}

const SEVEN: Duration = Duration::from_secs(7);

#[test]
fn a_server_that_says_when_to_come_again_is_asked_no_sooner_and_has_not_failed() {
    for status in [429, 503] {
        let server = Server::start(move |asked| match asked.number {
            0..8 => asked.answer(status, "retry-after: 7\r\n", "{}"),
            _ => asked.say(&["now"]),
        });
        let (model, clock) = watched(server.options());
        for turn in 0..8 {
            clock.turn_to(turn * 7);
            match ask(&model, hello()).result() {
                // Waiting is left to whoever asks: the place is free.
                Err(ModelError::Remote { again, after, .. }) => {
                    let after = after.unwrap();
                    assert!(again && (SEVEN..SEVEN + SEVEN / 4).contains(&after));
                }
                other => panic!("{other:?}"),
            }
            clock.turn_to(turn * 7 + 6);
            gives_back(&model);
        }
        assert_eq!(server.requests(), 8);
        clock.turn_to(8 * 7);
        assert_eq!(text(ask(&model, hello()).result()), "now");
        let stats = model.stats();
        assert_eq!((stats.breaker_opened, stats.retried), (0, 0));
    }
}

#[test]
fn a_server_that_asks_for_next_to_no_time_is_left_alone_longer_each_time_until_it_answers() {
    let server = Server::start(|asked| match asked.number {
        3 => asked.say(&["now"]),
        _ => asked.answer(429, "retry-after-ms: 1\r\n", "{}"),
    });
    let mut options = server.options();
    options.backoff = Duration::from_secs(1);
    let (model, clock) = watched(options);
    let put_off = |seconds| {
        let (least, after) = match ask(&model, hello()).result() {
            Err(ModelError::Remote { after, .. }) => (Duration::from_secs(seconds), after.unwrap()),
            other => panic!("{other:?}"),
        };
        assert!((least..least + least / 4).contains(&after), "{after:?}");
        gives_back(&model);
    };
    put_off(1);
    clock.turn_to(1);
    put_off(2);
    clock.turn_to(3);
    put_off(4);
    clock.turn_to(7);
    assert_eq!(text(ask(&model, hello()).result()), "now");
    put_off(1);
    assert_eq!(server.requests(), 5);
}

#[test]
fn a_failure_that_says_when_leaves_the_server_to_all_others() {
    let server = Server::start(|asked| match asked.number {
        0 => asked.answer(500, "retry-after: 7\r\n", "{}"),
        1 => asked.answer(400, "retry-after: 7\r\nx-should-retry: true\r\n", "{}"),
        _ => asked.say(&["well"]),
    });
    let (model, _clock) = watched(server.options());
    for _ in 0..2 {
        match ask(&model, hello()).result() {
            // Nothing is put off: it was an attempt.
            Err(ModelError::Remote { again, after, .. }) => {
                assert_eq!((again, after), (true, None))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(text(ask(&model, hello()).result()), "well");
}
