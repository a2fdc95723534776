//! What is asked beside the stream: whatever comes of it, the stream does not know of it.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidegate_connect::remote::{BreakerOptions, Hedge, RemoteModel, RemoteOptions, Standing};
use tidegate_contract::{CLASS_BESIDE, Model as _, ModelError};

use crate::support::{LIMIT, Running, Server, ask, hello, remote, request, text};

fn beside(model: &RemoteModel) -> Result<Running, ModelError> {
    let (mut request, running) = request(hello(), None);
    request.class = CLASS_BESIDE;
    let submitted = model.submit(request).map_err(|(_, error)| error);
    submitted.map(|()| running)
}

/// Two tries say something, and half of them are enough.
fn watched(mut options: RemoteOptions) -> RemoteModel {
    options.hedge = Hedge::Off;
    options.breaker = BreakerOptions {
        least: 2,
        ..BreakerOptions::default()
    };
    RemoteModel::open(options).unwrap()
}

#[test]
fn its_failures_neither_open_the_breaker_nor_make_a_rest_and_nothing_of_it_is_tried_again() {
    let status = Arc::new(AtomicU16::new(500));
    let answered = status.clone();
    let server = Server::start(move |asked| match answered.load(Ordering::SeqCst) {
        200 => asked.say(&["well"]),
        status => asked.answer(status, "retry-after: 60\r\n", "{}"),
    });
    let model = watched(server.options());
    for failing in [500, 429, 503] {
        status.store(failing, Ordering::SeqCst);
        for _ in 0..4 {
            assert!(beside(&model).unwrap().result().is_err());
        }
    }
    assert_eq!(server.requests(), 12, "each is sent once");
    let stats = model.stats();
    assert_eq!(
        (stats.breaker_opened, stats.standing),
        (0, Standing::Closed)
    );
    assert_eq!(stats.retried, 0);
    assert_eq!(
        (stats.failed, stats.expired),
        (0, 0),
        "nor have they failed"
    );
    status.store(200, Ordering::SeqCst);
    assert_eq!(text(ask(&model, hello()).result()), "well");
    assert_eq!(text(beside(&model).unwrap().result()), "well");
}

#[test]
fn a_server_that_the_stream_leaves_alone_is_not_asked_and_not_tried_by_it() {
    let server = Server::start(|asked| asked.answer(500, "", "{}"));
    let mut options = server.options();
    options.attempts = 1;
    options.breaker = BreakerOptions {
        least: 2,
        open: Duration::ZERO,
        ..BreakerOptions::default()
    };
    let model = RemoteModel::open(options).unwrap();
    for _ in 0..2 {
        remote(ask(&model, hello()).result());
    }
    // It is to be tried now, and that is the stream's to do.
    assert!(matches!(model.stats().standing, Standing::HalfOpen { .. }));
    let refused = beside(&model).map(drop);
    assert!(
        matches!(refused, Err(ModelError::Full { .. })),
        "{refused:?}"
    );
    assert_eq!(server.requests(), 2);
    remote(ask(&model, hello()).result());
    assert_eq!(server.requests(), 3);
}

#[test]
fn it_has_a_share_of_the_rights_and_takes_no_place_of_the_stream() {
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let (asked_for, was_asked) = mpsc::channel();
    let server = Server::start(move |asked| {
        asked_for.send(asked.number).unwrap();
        if asked.number < 2 {
            waits.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        asked.say(&["well"]);
    });
    let mut options = server.options();
    (options.concurrency, options.queue) = (8, 4);
    let model = watched(options);
    // Of twelve places a quarter, of eight rights a quarter.
    let running: Vec<Running> = (0..3).map(|_| beside(&model).unwrap()).collect();
    let refused = beside(&model).map(drop);
    assert_eq!(refused, Err(ModelError::Full { limit: 3 }));
    for _ in 0..2 {
        was_asked.recv_timeout(LIMIT).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(text(ask(&model, hello()).result()), "well");
    }
    assert_eq!(server.requests(), 5, "the third beside it waits");
    for _ in 0..2 {
        go_on.send(()).unwrap();
    }
    for one in running {
        assert_eq!(text(one.result()), "well");
    }
}
