//! Encoders and classifiers elsewhere.

use std::sync::{Mutex, mpsc};

use serde_json::{Value, json};
use tidegate_connect::remote::{Kserve, OpenAi, RemoteKind, RemoteModel, RemoteOptions};
use tidegate_contract::{Answer, Made, Makes, Model, ModelError, ModelTask, Reply};

use crate::support::{Asked, Keeps, LIMIT, Server, Told, ask, hello, remote, request};

fn encode(text: &str) -> ModelTask {
    ModelTask::Encode { text: text.into() }
}

fn classifier(server: &Server, batch: usize) -> RemoteOptions {
    let mut options = server.options();
    options.kind = RemoteKind::Kserve(Kserve {
        labels: vec!["short".into(), "long".into()],
        batch,
        version: Some("2".into()),
        ..Kserve::new(&server.url, "length")
    });
    options
}

/// Texts of a request in KServe's form.
fn texts(body: &Value) -> Vec<String> {
    serde_json::from_value(body["inputs"][0]["data"].clone()).unwrap()
}

/// Says of each text whether it is long.
fn classify(asked: &mut Asked) {
    let texts = texts(&asked.body);
    let rows: Vec<[f32; 2]> = texts
        .iter()
        .map(|text| {
            if text.len() > 3 {
                [0.25, 0.75]
            } else {
                [1.0, 0.0]
            }
        })
        .collect();
    let body = json!({"model_name": "length", "outputs": [{"name": "output", "datatype": "FP32",
        "shape": [rows.len(), 2], "data": rows.concat()}]});
    asked.answer(200, "", &body.to_string());
}

#[test]
fn a_classifier_behind_kserve_labels_a_text() {
    let server = Server::start(classify);
    let model = RemoteModel::open(classifier(&server, 1)).unwrap();
    assert_eq!(model.makes(), Makes::Labels);
    let made = ask(&model, encode("a long text")).result().unwrap().made;
    assert_eq!(
        made,
        Made::Labels(vec![("short".into(), 0.25), ("long".into(), 0.75)])
    );
    assert!(
        server
            .head(0)
            .starts_with("POST /v2/models/length/versions/2/infer ")
    );
    match ask(&model, hello()).result() {
        Err(ModelError::WrongTask {
            task: "generate", ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn embeddings_are_asked_for_in_base64_and_are_of_unit_length() {
    let server = Server::start(|asked| {
        assert_eq!(asked.body["encoding_format"], "base64");
        // 3 and 4, as little-endian f32.
        let body = json!({"data": [{"index": 0, "embedding": "AABAQAAAgEA="}], "usage": {"prompt_tokens": 9}});
        asked.answer(200, "", &body.to_string());
    });
    let mut options = server.options();
    options.kind = RemoteKind::OpenAi(OpenAi {
        makes: Makes::Embeddings,
        ..OpenAi::new(&server.url, "there")
    });
    let model = RemoteModel::open(options).unwrap();
    let answer = ask(&model, encode("text")).result().unwrap();
    assert_eq!(answer.made, Made::Embedding(vec![0.6, 0.8]));
    assert_eq!(answer.prompt_tokens, 9);
    assert!(server.head(0).starts_with("POST /v1/embeddings "));
}

/// A reply that is part of a trace.
struct Traced(Keeps, String);

impl Reply for Traced {
    fn token(&mut self, index: u32, token: u32, text: &str) {
        self.0.token(index, token, text);
    }

    fn traceparent(&self) -> Option<String> {
        Some(self.1.clone())
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        Box::new(self.0).done(result);
    }
}

#[test]
fn texts_that_are_encoded_go_on_with_the_trace_of_the_first_that_has_one() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::start(move |asked| {
        if asked.number == 0 {
            gate.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        classify(asked);
    });
    let mut options = classifier(&server, 4);
    options.concurrency = 1;
    let model = RemoteModel::open(options).unwrap();
    let first = ask(&model, encode("a"));
    while server.requests() == 0 {
        std::thread::yield_now();
    }
    let untraced = ask(&model, encode("b"));
    let traced = [3, 4].map(|number| {
        let (sender, told) = mpsc::channel();
        let trace = format!("00-{number:032x}-{number:016x}-03");
        let (mut request, _) = request(encode("c"), None);
        request.reply = Box::new(Traced(Keeps(sender), trace));
        assert!(model.submit(request).is_ok());
        told
    });
    // All of them wait for the one that runs, and so does that, for more that it could bring.
    while model.stats().waiting < 4 {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    for running in [first, untraced] {
        running.result().unwrap();
    }
    for told in traced {
        match told.recv_timeout(LIMIT).unwrap() {
            Told::Done(result) => assert!(result.is_ok(), "{result:?}"),
            _ => panic!("it has no pieces"),
        }
    }
    assert!(!server.head(0).contains("traceparent"));
    let of_both = format!("traceparent: 00-{:032x}-{:016x}-03\r\n", 3, 3);
    assert!(server.head(1).contains(&of_both), "{}", server.head(1));
    assert_eq!(server.requests(), 2);
}

#[test]
fn texts_that_wait_go_together_and_each_has_its_own_answer() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::start(move |asked| {
        if asked.number == 0 {
            gate.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        classify(asked);
    });
    let mut options = classifier(&server, 4);
    options.concurrency = 1;
    let model = RemoteModel::open(options).unwrap();
    let first = ask(&model, encode("a"));
    while server.requests() == 0 {
        std::thread::yield_now();
    }
    let others: Vec<_> = ["bb", "four", "c", "fives", "d"]
        .map(|text| (text, ask(&model, encode(text))))
        .into();
    while model.stats().waiting < 5 {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    first.result().unwrap();
    for (text, running) in others {
        let Made::Labels(labels) = running.result().unwrap().made else {
            panic!("no labels");
        };
        assert_eq!(labels[1].1 > 0.5, text.len() > 3, "{text}");
    }
    let sizes: Vec<usize> = (0..server.requests())
        .map(|n| texts(&server.body(n)).len())
        .collect();
    assert_eq!(sizes, [1, 4, 1]);
}

#[test]
fn a_text_that_the_server_refuses_is_refused_alone() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::start(move |asked| {
        if asked.number == 0 {
            gate.lock().unwrap().recv_timeout(LIMIT).unwrap();
        }
        match texts(&asked.body).iter().any(|text| text == "bad") {
            true => asked.answer(400, "", r#"{"error":"unusable text"}"#),
            false => classify(asked),
        }
    });
    let mut options = classifier(&server, 4);
    options.concurrency = 1;
    let model = RemoteModel::open(options).unwrap();
    let first = ask(&model, encode("a"));
    while server.requests() == 0 {
        std::thread::yield_now();
    }
    let good = ask(&model, encode("good"));
    let bad = ask(&model, encode("bad"));
    let gone = ask(&model, encode("gone"));
    while model.stats().waiting < 3 {
        std::thread::yield_now();
    }
    model.cancel(gone.id);
    assert!(matches!(gone.result(), Err(ModelError::Cancelled)));
    go.send(()).unwrap();
    first.result().unwrap();
    assert!(good.result().is_ok());
    let (why, again) = remote(bad.result());
    assert_eq!(why, "400 Bad Request: unusable text");
    assert!(!again);
    // Who has gone is not asked for.
    let seen = (0..server.requests()).flat_map(|n| texts(&server.body(n)));
    assert!(!seen.collect::<Vec<_>>().contains(&"gone".to_owned()));
}

#[test]
fn a_tensor_of_another_form_is_no_answer() {
    let server = Server::start(|asked| {
        asked.answer(
            200,
            "",
            r#"{"outputs":[{"name":"output","datatype":"INT64","shape":[1,2],"data":[1,2]}]}"#,
        );
    });
    let model = RemoteModel::open(classifier(&server, 1)).unwrap();
    let (why, again) = remote(ask(&model, encode("a")).result());
    assert!(why.contains("\"INT64\", must be of \"FP32\""), "{why}");
    assert!(!again);
    assert_eq!(server.requests(), 1);
}

#[test]
fn an_encoder_in_trouble_is_tried_again() {
    let server = Server::start(|asked| match asked.number {
        0 => asked.answer(503, "", "{}"),
        _ => classify(asked),
    });
    let model = RemoteModel::open(classifier(&server, 1)).unwrap();
    assert!(ask(&model, encode("a")).result().is_ok());
    assert_eq!(model.stats().retried, 1);
}

#[test]
fn what_a_server_says_of_a_call_is_told_to_nobody_else_who_has_a_text_in_it() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let server = Server::start(move |asked| match asked.number {
        0 => {
            gate.lock().unwrap().recv_timeout(LIMIT).unwrap();
            classify(asked);
        }
        _ => {
            let said = format!("cannot take {:?}", texts(&asked.body));
            asked.answer(500, "", &said);
        }
    });
    let mut options = classifier(&server, 4);
    (options.concurrency, options.attempts) = (1, 1);
    let model = RemoteModel::open(options).unwrap();
    let first = ask(&model, encode("a"));
    while server.requests() == 0 {
        std::thread::yield_now();
    }
    let together = ["mine", "yours"].map(|text| ask(&model, encode(text)));
    // So does the one that runs, for more that it could bring.
    while model.stats().waiting < 3 {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    first.result().unwrap();
    for running in together {
        let Err(ModelError::Remote { why, told, .. }) = running.result() else {
            panic!("it is answered");
        };
        assert!(why.contains("mine") && why.contains("yours"), "{why}");
        assert_eq!(told, "it failed");
    }
}
