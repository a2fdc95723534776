//! Trying again, trying twice, and leaving a server alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tidegate_connect::remote::{
    BreakerOptions, Clock, Hedge, RemoteModel, RemoteTimeouts, RetryBudget, Secret,
};
use tidegate_contract::{Model as _, ModelError};

use crate::support::{LIMIT, Server, ask, hello, remote, request, said, text};

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
fn a_server_that_asks_to_be_left_alone_is_asked_again_no_sooner() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let server = Server::start(move |asked| {
        noted.lock().unwrap().push(Instant::now());
        match asked.number {
            0 => asked.answer(429, "retry-after-ms: 120\r\nretry-after: 60\r\n", "{}"),
            _ => asked.say(&["now"]),
        }
    });
    assert_eq!(text(ask(&server.model(), hello()).result()), "now");
    let times = times.lock().unwrap();
    assert!(times[1] - times[0] >= Duration::from_millis(120));
}

#[test]
fn a_wait_that_passes_the_deadline_is_not_waited() {
    let server = Server::start(|asked| asked.answer(429, "retry-after: 50\r\n", "{}"));
    let model = server.model();
    let deadline = Instant::now() + LIMIT;
    let (request, running) = crate::support::request(hello(), Some(deadline));
    tidegate_contract::Model::submit(&model, request)
        .map_err(|(_, error)| error)
        .unwrap();
    let (why, again) = remote(running.result());
    assert!(why.starts_with("429"), "{why}");
    assert!(again);
    assert!(Instant::now() < deadline);
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
    let server = Server::start(move |asked| match asked.number {
        0 => asked.say(&["connected"]),
        1 => gone.send(asked.wait_for_the_end()).unwrap(),
        _ => asked.say(&["second"]),
    });
    let mut options = server.options();
    options.hedge = Hedge::After(Duration::from_millis(200));
    let model = RemoteModel::open(options).unwrap();
    assert_eq!(text(ask(&model, hello()).result()), "connected");
    assert_eq!(text(ask(&model, hello()).result()), "second");
    assert!(told.recv_timeout(LIMIT).unwrap(), "the other is not let go");
    let stats = model.stats();
    assert_eq!((stats.hedged, stats.hedge_wins, stats.retried), (1, 1, 0));
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
    options.hedge = Hedge::After(Duration::from_millis(200));
    let model = RemoteModel::open(options).unwrap();
    assert_eq!(text(ask(&model, hello()).result()), "first");
    assert!(told.recv_timeout(LIMIT).unwrap());
    assert_eq!(model.stats().hedge_wins, 0);
}

#[test]
fn a_server_that_fails_is_left_alone_until_one_request_has_tried_it() {
    let well = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_well = well.clone();
    let server = Server::start(move |asked| match is_well.load(Ordering::SeqCst) {
        true => asked.say(&["well"]),
        false => asked.answer(500, "", "{}"),
    });
    let seconds = Arc::new(AtomicU64::new(0));
    let (begin, turned) = (Instant::now(), seconds.clone());
    let mut options = server.options();
    options.attempts = 1;
    options.clock = Clock::new(move || begin + Duration::from_secs(turned.load(Ordering::SeqCst)));
    options.breaker = BreakerOptions {
        least: 4,
        ..BreakerOptions::default()
    };
    let model = RemoteModel::open(options).unwrap();
    for _ in 0..4 {
        remote(ask(&model, hello()).result());
    }
    assert!(model.stats().breaker_open);
    // What is asked meanwhile is given back: it waits where it is, and this was no attempt.
    let given_back = || {
        let (request, _running) = request(hello(), None);
        let refused = model.submit(request).map_err(|(_, error)| error);
        assert!(
            matches!(refused, Err(ModelError::Full { .. })),
            "{refused:?}"
        );
    };
    given_back();
    assert_eq!(server.requests(), 4, "it is asked though it is left alone");
    // The one that tries it finds it ill, and it is left alone again.
    seconds.store(10, Ordering::SeqCst);
    remote(ask(&model, hello()).result());
    given_back();
    assert_eq!(server.requests(), 5);
    well.store(true, Ordering::SeqCst);
    seconds.store(20, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(text(ask(&model, hello()).result()), "well");
    }
    let stats = model.stats();
    assert_eq!((stats.breaker_opened, stats.breaker_open), (2, false));
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
fn a_drip_of_pieces_has_its_end_too() {
    let server = Server::start(|asked| {
        use std::io::Write;
        asked.begin();
        let event = format!("data: {}\n\n", said("x"));
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        while asked.stream.write_all(chunk.as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut options = server.options();
    options.timeouts.whole = Duration::from_millis(100);
    let model = RemoteModel::open(options).unwrap();
    let (why, _) = remote(ask(&model, hello()).result());
    assert!(why.contains("no end after 100ms"), "{why}");
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
