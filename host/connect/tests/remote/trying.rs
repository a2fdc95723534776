//! Trying again, and trying twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tidegate_connect::remote::{Hedge, RemoteModel, RemoteTimeouts, RetryBudget, Secret};
use tidegate_contract::{Message, Model as _, Parameters, Prompt, Role};

use crate::support::{LIMIT, Server, ask, generate, hello, remote, text};

#[test]
fn what_fails_before_anything_is_shown_is_tried_again() {
    let server = Server::start(|asked| match asked.number {
        0 => asked.answer(503, "", "{}"),
        1 => asked.cut(),
        _ => asked.say(&["third"]),
    });
    let model = server.model();
    let (pieces, result) = ask(&model, hello()).all();
    assert_eq!(text(result), "third");
    assert_eq!(pieces.len(), 1);
    assert_eq!((server.requests(), model.stats().retried), (3, 2));
}

#[test]
fn after_the_last_attempt_the_last_failure_is_told() {
    let server = Server::start(|asked| asked.answer(500, "", r#"{"error":{"message":"ill"}}"#));
    let (why, again) = remote(ask(&server.model(), hello()).result());
    assert_eq!(why, "500 Internal Server Error: ill");
    assert!(again);
    assert_eq!(server.requests(), 3);
}

#[test]
fn a_failure_that_says_when_is_tried_again_no_sooner_and_within_attempts_and_budget() {
    let wait = Duration::from_millis(40);
    for (status, more) in [(500, ""), (400, "x-should-retry: true\r\n")] {
        for budget in [1.0, 0.0] {
            let times = Arc::new(Mutex::new(Vec::new()));
            let noted = times.clone();
            let server = Server::start(move |asked| {
                noted.lock().unwrap().push(Instant::now());
                asked.answer(status, &format!("retry-after-ms: 40\r\n{more}"), "{}");
            });
            let mut options = server.options();
            options.budget = RetryBudget {
                share: budget,
                least: 100.0 * budget,
            };
            let model = RemoteModel::open(options).unwrap();
            let (_, again) = remote(ask(&model, hello()).result());
            assert!(again);
            let times = times.lock().unwrap();
            assert_eq!(times.len(), if budget > 0.0 { 3 } else { 1 }, "{status}");
            for two in times.windows(2) {
                assert!(two[1] - two[0] >= wait, "{status}: {two:?}");
            }
        }
    }
}

#[test]
fn a_request_that_waits_for_its_next_try_takes_nobodys_place() {
    let server = Server::start(|asked| match asked.number {
        0 => asked.answer(500, "", "{}"),
        _ => asked.say(&["at once"]),
    });
    let mut options = server.options();
    options.concurrency = 1;
    options.backoff = LIMIT;
    let model = RemoteModel::open(options).unwrap();
    let waits = ask(&model, hello());
    let prompt = Prompt::Chat(vec![Message::new(Role::User, "another")].into());
    let other = ask(&model, generate(prompt, Parameters::default()));
    assert_eq!(text(other.result()), "at once");
    assert_eq!(server.body(1)["messages"][0]["content"], "another");
    model.cancel(waits.id);
    assert!(waits.result().is_err());
}

#[test]
fn a_server_in_trouble_is_not_asked_more_than_the_budget_allows() {
    let server = Server::start(|asked| asked.answer(503, "", "{}"));
    let mut options = server.options();
    options.breaker.share = 2.0;
    options.budget = RetryBudget {
        share: 0.1,
        least: 0.0,
    };
    let model = RemoteModel::open(options).unwrap();
    for _ in 0..20 {
        remote(ask(&model, hello()).result());
    }
    // One to begin with, and a tenth of twenty.
    assert_eq!(server.requests(), 23);
}

#[test]
fn a_late_answer_has_a_second_try_beside_it_and_the_first_to_speak_goes_on() {
    let (gone, told) = mpsc::channel();
    let hellos = AtomicUsize::new(0);
    let server = Server::start(move |asked| {
        if asked.body["messages"][0]["content"] == "warm" {
            return asked.say(&["connected"]);
        }
        match hellos.fetch_add(1, Ordering::SeqCst) {
            0 => gone.send(asked.wait_for_the_end()).unwrap(),
            _ => asked.say(&["second"]),
        }
    });
    let mut options = server.options();
    // The first has come by then, on a slow machine too.
    options.hedge = Hedge::After(Duration::from_secs(2));
    let model = RemoteModel::open(options).unwrap();
    let warm = Prompt::Chat(vec![Message::new(Role::User, "warm")].into());
    let warm = ask(&model, generate(warm, Parameters::default()));
    assert_eq!(text(warm.result()), "connected");
    // A slow machine may have tried that one twice.
    let before = model.stats();
    assert_eq!(text(ask(&model, hello()).result()), "second");
    assert!(told.recv_timeout(LIMIT).unwrap(), "the other is not let go");
    let stats = model.stats();
    assert_eq!(
        (
            stats.hedged - before.hedged,
            stats.hedge_wins - before.hedge_wins,
            stats.retried - before.retried,
        ),
        (1, 1, 0)
    );
}

#[test]
fn the_first_try_goes_on_if_it_speaks_first_and_the_second_is_let_go() {
    let (second, seen) = mpsc::channel();
    let seen = Mutex::new(seen);
    let (gone, told) = mpsc::channel();
    let server = Server::start(move |asked| match asked.number {
        0 => {
            seen.lock().unwrap().recv_timeout(LIMIT).unwrap();
            asked.say(&["first"]);
        }
        _ => {
            second.send(()).unwrap();
            gone.send(asked.wait_for_the_end()).unwrap();
        }
    });
    let mut options = server.options();
    options.hedge = Hedge::After(Duration::from_secs(2));
    let model = RemoteModel::open(options).unwrap();
    assert_eq!(text(ask(&model, hello()).result()), "first");
    assert!(told.recv_timeout(LIMIT).unwrap());
    assert_eq!(model.stats().hedge_wins, 0);
}

#[test]
fn a_server_that_is_not_there_or_never_begins_is_told_as_such() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    let server = Server {
        url,
        ..Server::start(|_| {})
    };
    drop(free);
    let (why, again) = remote(ask(&server.model(), hello()).result());
    assert!(why.contains("onnect"), "{why}");
    assert!(again);
    let silent = Server::start(|asked| {
        asked.begin();
        // That the server is there is no answer.
        asked.piece(": wait\n\n");
        asked.wait_for_the_end();
    });
    let mut options = silent.options();
    options.attempts = 1;
    options.timeouts = RemoteTimeouts {
        first: Duration::from_millis(50),
        ..RemoteTimeouts::default()
    };
    let model = RemoteModel::open(options).unwrap();
    let (why, _) = remote(ask(&model, hello()).result());
    assert!(why.contains("no answer began in 50ms"), "{why}");
}

#[test]
fn a_key_is_sent_and_never_repeated() {
    let server = Server::start(|asked| {
        asked.answer(401, "", r#"{"error":{"message":"no key sk-secret here"}}"#);
    });
    let mut options = server.options();
    let kind = &mut options.kind;
    if let tidegate_connect::remote::RemoteKind::OpenAi(there) = kind {
        there.key = Some(Secret::new("sk-secret"));
    }
    options.headers = vec![("X-Tenant".into(), Secret::new("blue"))];
    assert!(!format!("{options:?}").contains("sk-secret"));
    let model = RemoteModel::open(options).unwrap();
    let (why, again) = remote(ask(&model, hello()).result());
    assert_eq!(why, "401 the key is not accepted: no key *** here");
    assert!(!again);
    let head = server.head(0);
    assert!(
        head.contains("authorization: Bearer sk-secret\r\n"),
        "{head}"
    );
    assert!(head.contains("x-tenant: blue\r\n"), "{head}");
}
