//! How long is waited for the parts of an answer.

use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use tidegate_connect::remote::{RemoteModel, RemoteTimeouts};

use crate::support::{Asked, LIMIT, Server, ask, finish, hello, remote, said, text};

/// Little enough for a test to see that it is waited.
const SHORT: Duration = Duration::from_millis(50);

fn model(server: &Server, timeouts: RemoteTimeouts) -> RemoteModel {
    let mut options = server.options();
    (options.timeouts, options.attempts) = (timeouts, 1);
    RemoteModel::open(options).unwrap()
}

/// Says again and again that it is there, until the client has gone.
fn comments(asked: &mut Asked) {
    use std::io::Write;
    while asked.stream.write_all(b"8\r\n: wait\n\n\r\n").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_takes_its_time_before_the_first_token_has_it_though_its_head_comes_early() {
    let (go_on, waits) = mpsc::channel();
    let waits = Mutex::new(waits);
    let server = Server::start(move |asked| {
        asked.begin();
        asked.piece(": there\n\n");
        waits.lock().unwrap().recv_timeout(LIMIT).unwrap();
        // In one write: nothing of it is late.
        asked.rest(&[said("at last"), finish("stop")]);
    });
    let timeouts = RemoteTimeouts {
        between: SHORT,
        ..RemoteTimeouts::default()
    };
    let model = model(&server, timeouts);
    let running = ask(&model, hello());
    // Longer than is waited between two parts.
    std::thread::sleep(4 * SHORT);
    go_on.send(()).unwrap();
    assert_eq!(text(running.result()), "at last");
}

#[test]
fn a_head_that_comes_early_and_a_silence_after_it_are_no_answer() {
    for says_that_it_is_there in [false, true] {
        let server = Server::start(move |asked| {
            asked.begin();
            match says_that_it_is_there {
                true => comments(asked),
                false => {
                    asked.wait_for_the_end();
                }
            }
        });
        let timeouts = RemoteTimeouts {
            first: SHORT,
            ..RemoteTimeouts::default()
        };
        let (why, again) = remote(ask(&model(&server, timeouts), hello()).result());
        assert!(why.contains("no answer began in 50ms"), "{why}");
        assert!(again);
    }
}

#[test]
fn a_server_that_stalls_is_left_after_the_time_between_parts_whatever_it_says_beside_them() {
    for says_that_it_is_there in [false, true] {
        let server = Server::start(move |asked| {
            asked.begin();
            asked.event(&said("half"));
            match says_that_it_is_there {
                true => comments(asked),
                false => {
                    asked.wait_for_the_end();
                }
            }
        });
        let timeouts = RemoteTimeouts {
            between: SHORT,
            ..RemoteTimeouts::default()
        };
        let (why, again) = remote(ask(&model(&server, timeouts), hello()).result());
        assert!(why.contains("nothing came for 50ms"), "{why}");
        assert!(again);
    }
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
    let timeouts = RemoteTimeouts {
        whole: 2 * SHORT,
        ..RemoteTimeouts::default()
    };
    let (why, _) = remote(ask(&model(&server, timeouts), hello()).result());
    assert!(why.contains("no end after 100ms"), "{why}");
}
