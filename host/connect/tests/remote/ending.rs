//! Requests end once, and in time.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_connect::remote::RemoteModel;
use tidegate_contract::{
    Answer, Finish, Message, Model, ModelError, Parameters, Piece, Prompt, Reply, Role,
};

use crate::support::{
    LIMIT, Server, Told, ask, choices, finish, generate, hello, request, said, text,
};

/// A server that says something and then waits until the client has gone.
fn talks_on() -> (Server, mpsc::Receiver<bool>) {
    let (gone, told) = mpsc::channel();
    let server = Server::start(move |asked| {
        asked.begin();
        asked.event(&said("half"));
        let _ = gone.send(asked.wait_for_the_end());
    });
    (server, told)
}

#[test]
fn a_request_that_is_cancelled_closes_its_connection() {
    let (server, gone) = talks_on();
    let model = server.model();
    let running = ask(&model, hello());
    assert_eq!(running.piece().text, "half");
    model.cancel(running.id);
    assert!(matches!(running.result(), Err(ModelError::Cancelled)));
    assert!(gone.recv_timeout(LIMIT).unwrap());
    assert_eq!(model.stats().cancelled, 1);
    assert_eq!(model.stats().running, 0);
}

#[test]
fn a_request_that_is_cancelled_before_the_first_byte_closes_its_connection() {
    let (asked, came) = mpsc::channel();
    let (gone, told) = mpsc::channel();
    let server = Server::start(move |request| {
        asked.send(()).unwrap();
        gone.send(request.wait_for_the_end()).unwrap();
    });
    let model = server.model();
    let running = ask(&model, hello());
    came.recv_timeout(LIMIT).unwrap();
    model.cancel(running.id);
    assert!(matches!(running.result(), Err(ModelError::Cancelled)));
    assert!(told.recv_timeout(LIMIT).unwrap());
}

#[test]
fn an_answer_that_has_said_enough_ends_with_what_it_has() {
    let (server, gone) = talks_on();
    let model = server.model();
    let running = ask(&model, hello());
    running.piece();
    model.end(running.id);
    let choice = choices(running.result()).swap_remove(0);
    assert_eq!(
        (choice.text.as_str(), choice.finish),
        ("half", Finish::Filtered)
    );
    assert!(gone.recv_timeout(LIMIT).unwrap());
}

#[test]
fn of_several_answers_that_have_said_enough_each_ends_with_what_it_has() {
    let (gone, told) = mpsc::channel();
    let server = Server::start(move |asked| {
        let part = |index, text| json!({"choices": [{"index": index, "delta": {"content": text}}]});
        asked.begin();
        asked.event(
            &json!({"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]}),
        );
        asked.event(&part(2, "c"));
        asked.event(&part(0, "a"));
        gone.send(asked.wait_for_the_end()).unwrap();
    });
    let model = server.model();
    let prompt = Prompt::Chat(vec![Message::new(Role::User, "x")].into());
    let parameters = Parameters {
        n: 4,
        ..Parameters::default()
    };
    let running = ask(&model, generate(prompt, parameters));
    for _ in 0..3 {
        running.piece();
    }
    model.end(running.id);
    let choices = choices(running.result());
    let ends = choices
        .iter()
        .map(|choice| (choice.text.as_str(), choice.finish));
    let expected = [
        ("a", Finish::Filtered),
        ("b", Finish::End),
        ("c", Finish::Filtered),
        ("", Finish::Filtered),
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
    assert!(told.recv_timeout(LIMIT).unwrap(), "the server goes on");
}

#[test]
fn a_choice_that_ends_before_the_others_is_told_when_it_does() {
    let (go, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let server = Server::start(move |asked| {
        let part = |index, text, finish: Option<&str>| json!({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]});
        asked.begin();
        asked.event(&part(1, "b", Some("stop")));
        wait.lock().unwrap().recv_timeout(LIMIT).unwrap();
        asked.event(&part(0, "a", Some("length")));
        asked.end();
    });
    let model = server.model();
    let prompt = Prompt::Chat(vec![Message::new(Role::User, "x")].into());
    let parameters = Parameters {
        n: 2,
        ..Parameters::default()
    };
    let running = ask(&model, generate(prompt, parameters));
    assert!(matches!(running.told(), Told::Piece(piece) if piece.choice == 1));
    assert!(matches!(running.told(), Told::Ended(1)));
    go.send(()).unwrap();
    assert!(matches!(running.told(), Told::Piece(piece) if piece.choice == 0));
    // That all have ended is said by the answer.
    assert!(matches!(running.told(), Told::Done(Ok(_))));
}

#[test]
fn a_deadline_ends_a_request_wherever_it_is() {
    let (server, gone) = talks_on();
    let mut options = server.options();
    options.concurrency = 1;
    let model = RemoteModel::open(options).unwrap();
    let deadline = || Some(Instant::now() + Duration::from_secs(3));
    let (running_one, running) = request(hello(), deadline());
    let (waiting_one, waiting) = request(hello(), deadline());
    model
        .submit(running_one)
        .map_err(|(_, error)| error)
        .unwrap();
    model
        .submit(waiting_one)
        .map_err(|(_, error)| error)
        .unwrap();
    assert_eq!(running.piece().text, "half");
    assert!(matches!(
        running.result(),
        Err(ModelError::Expired { made: 1 })
    ));
    match waiting.result() {
        Err(ModelError::Expired { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(gone.recv_timeout(LIMIT).unwrap());
    assert_eq!(model.stats().expired, 2);
    let (late, told) = request(hello(), Some(Instant::now() - Duration::from_secs(1)));
    model.submit(late).map_err(|(_, error)| error).unwrap();
    assert!(matches!(
        told.result(),
        Err(ModelError::Expired { made: 0 })
    ));
}

#[test]
fn a_full_queue_gives_the_request_back_and_a_place_is_free_when_the_reply_hears() {
    let (server, _gone) = talks_on();
    let mut options = server.options();
    (options.concurrency, options.queue) = (1, 1);
    let model = RemoteModel::open(options).unwrap();
    let running = ask(&model, hello());
    let waiting = ask(&model, hello());
    let (third, _told) = request(hello(), None);
    let id = third.id;
    match model.submit(third) {
        Err((request, ModelError::Full { limit: 2 })) => assert_eq!(request.id, id),
        other => panic!("{:?}", other.map_err(|(_, error)| error)),
    }
    model.cancel(waiting.id);
    assert!(matches!(waiting.result(), Err(ModelError::Cancelled)));
    let next = ask(&model, hello());
    for request in [running, next] {
        model.cancel(request.id);
        assert!(matches!(request.result(), Err(ModelError::Cancelled)));
    }
    assert_eq!(model.stats().refused, 1);
}

#[test]
fn a_model_that_is_dropped_or_whose_runtime_ends_answers_every_request() {
    let (server, gone) = talks_on();
    let model = server.model();
    let running = ask(&model, hello());
    running.piece();
    drop(model);
    assert!(matches!(running.result(), Err(ModelError::Closed)));
    assert!(gone.recv_timeout(LIMIT).unwrap());

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut options = server.options();
    options.runtime = Some(runtime.handle().clone());
    let model = RemoteModel::open(options).unwrap();
    let running = ask(&model, hello());
    running.piece();
    runtime.shutdown_timeout(LIMIT);
    assert!(matches!(running.result(), Err(ModelError::Closed)));
    let late = ask(&model, hello());
    assert!(matches!(late.result(), Err(ModelError::Closed)));
    model.close();
    let (request, _told) = request(hello(), None);
    assert!(matches!(
        model.submit(request),
        Err((_, ModelError::Closed))
    ));
}

struct Panics(Sender<()>);

impl Reply for Panics {
    fn token(&mut self, _: u32, _: u32, _: &str) {}

    fn piece(&mut self, _: &Piece<'_>) {
        panic!("a reply that panics");
    }

    fn done(self: Box<Self>, _: Result<Answer, ModelError>) {
        self.0.send(()).unwrap();
        panic!("and again");
    }
}

#[test]
fn a_reply_that_panics_ends_its_own_request_alone() {
    let server = Server::start(|asked| asked.say(&["a", "b"]));
    let model = server.model();
    let (sender, done) = channel();
    let (mut panics, _told) = request(hello(), None);
    panics.reply = Box::new(Panics(sender));
    model.submit(panics).map_err(|(_, error)| error).unwrap();
    done.recv_timeout(LIMIT).unwrap();
    assert!(done.recv_timeout(LIMIT).is_err(), "done twice");
    assert_eq!(text(ask(&model, hello()).result()), "ab");
}

#[test]
fn no_more_requests_run_at_once_than_are_allowed() {
    let running = Arc::new(Mutex::new((0_usize, 0_usize)));
    let counted = running.clone();
    let server = Server::start(move |asked| {
        {
            let mut running = counted.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        asked.begin();
        asked.event(&said("x"));
        std::thread::sleep(Duration::from_millis(5));
        counted.lock().unwrap().0 -= 1;
        asked.event(&finish("stop"));
        asked.end();
    });
    let mut options = server.options();
    options.concurrency = 3;
    let model = RemoteModel::open(options).unwrap();
    let requests: Vec<_> = (0..20).map(|_| ask(&model, hello())).collect();
    for request in requests {
        assert_eq!(text(request.result()), "x");
    }
    assert!(running.lock().unwrap().1 <= 3);
}
