//! Requests with an idempotency key over several lives of the process.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate_contract::{
    Became, CallerId, Callers, KeyedChange, KeyedLog, KeyedLogError, KeyedLoss, Lane, Sink,
};
use tidegate_gateway::exchange::{Answered, Asked, Content, Part};
use tidegate_gateway::idempotency::key::Digest;
use tidegate_gateway::idempotency::{Answers, Joining};
use tidegate_gateway::openai::Options;
use tidegate_state::{Fault, FileKeyedLog, Lasting, MemoryDisk, OpenedKeyedLog, StateKey};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::flow::{
    Gateway, PATIENCE, Play, asked, chat, choice, header, parts, says, whole, with_header,
};
use crate::repeating::keeping;

const PATH: &str = "/v1/chat/completions";

fn open(disk: &MemoryDisk) -> OpenedKeyedLog {
    let key = Arc::new(StateKey::from_hex(&"5".repeat(64)).unwrap());
    let layer = Arc::new(disk.clone());
    FileKeyedLog::open(layer, Path::new("/state/answers/log"), key, 0).unwrap()
}

/// A process over this disk.
fn life(disk: &MemoryDisk, script: impl Fn(Play) + Send + Sync + 'static) -> Gateway {
    life_with(disk, script, |_| {})
}

/// One with other options.
pub(crate) fn life_with(
    disk: &MemoryDisk,
    script: impl Fn(Play) + Send + Sync + 'static,
    change: impl FnOnce(&mut Options),
) -> Gateway {
    let OpenedKeyedLog { log, values, .. } = open(disk);
    let answers = Answers::over(keeping(1 << 20), Box::new(log), values).unwrap();
    Gateway::with(script, |options| {
        options.repeated = Some(answers);
        change(options);
    })
}

/// Waits until a process finds something on this disk, or nothing.
pub(crate) async fn found(disk: &MemoryDisk, something: bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while open(&killed(disk)).values.is_empty() == something {
        assert!(tokio::time::Instant::now() < until, "{something}");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// The disk as a process finds it after the one before was killed.
pub(crate) fn killed(disk: &MemoryDisk) -> MemoryDisk {
    disk.restart(1 << 30)
}

pub(crate) fn ask(body: &Value) -> (watch::Sender<bool>, Asked) {
    with_header(asked(PATH, body), "idempotency-key", "a")
}

fn says_again(play: Play) {
    says(&["Hello"])(play);
}

fn text(body: &[u8]) -> Value {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["choices"].clone()
}

pub(crate) fn nobody(_: Play) {
    panic!("nothing is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_end_was_told_is_given_again_by_every_later_process() {
    for stream in [false, true] {
        let body = chat(json!({"stream": stream}));
        let disk = MemoryDisk::new();
        let gateway = life(&disk, says(&["Hel", "lo"]));
        let first = gateway.send(ask(&body)).await;
        let first = match stream {
            true => parts(first).await.0.concat(),
            false => whole(first).to_vec(),
        };
        let mut disk = disk.restart(0);
        for _ in 0..2 {
            let gateway = life(&disk, nobody);
            gateway.requests.left(0, &[]);
            let again = gateway.send(ask(&body)).await;
            assert_eq!(
                header(&again, "idempotent-replayed").as_deref(),
                Some("true")
            );
            let again = match stream {
                true => {
                    let (shown, ended) = parts(again).await;
                    assert!(ended);
                    shown.concat()
                }
                false => whole(again).to_vec(),
            };
            assert_eq!(again, first);
            let other = gateway.send(ask(&chat(json!({"n": 1})))).await;
            assert_eq!(other.status, 422);
            disk = disk.restart(0);
        }
    }
}

/// A process that is killed when a part of an answer was shown. Returns the disk, the record, and what was shown.
pub(crate) async fn broken_off(body: &Value) -> (MemoryDisk, CallerId, String) {
    let disk = MemoryDisk::new();
    let (to, read) = channel();
    let gateway = life(&disk, move |play| {
        play.listen(1).piece(0, Lane::Content, "Hel");
        to.send(play.id).unwrap();
    });
    let mut first = gateway.send(ask(body)).await;
    let id = read.recv_timeout(PATIENCE).unwrap();
    let tidegate_gateway::exchange::Content::Events(parts) = &mut first.content else {
        panic!("no stream: {first:?}");
    };
    let Some(tidegate_gateway::exchange::Part::Bytes(shown)) = parts.recv().await else {
        panic!("nothing is shown");
    };
    found(&disk, true).await;
    let shown = String::from_utf8(shown.to_vec()).unwrap();
    (killed(&disk), id, shown)
}

/// A record that the pipeline has of an earlier life.
pub(crate) fn left(gateway: &Gateway, id: CallerId) -> Play {
    Play {
        requests: gateway.requests.clone(),
        id,
        value: json!({}),
        key: None,
        headers: Vec::new(),
    }
}

/// The pipeline goes on with it from its beginning.
pub(crate) fn goes_on(gateway: &Gateway, id: CallerId) {
    let play = left(gateway, id);
    let mut heard = play.listen(1);
    for text in ["Hel", "lo"] {
        heard.piece(0, Lane::Content, text);
    }
    heard.answer(vec![choice("Hello")]);
    play.answer("Hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_being_made_goes_on_and_is_read_from_its_beginning() {
    let body = chat(json!({"stream": true}));
    for asks_first in [false, true] {
        let (disk, id, shown) = broken_off(&body).await;
        let gateway = life(&disk, nobody);
        let other = CallerId { offset: 1, ..id };
        let openai = gateway.openai.clone();
        let (_here, question) = ask(&body);
        let again = async move { openai.answer(question).await };
        // Before the pipeline has begun, or when the answer is made already.
        let again = match asks_first {
            true => {
                let again = tokio::spawn(again);
                tokio::task::yield_now().await;
                assert_eq!(gateway.requests.left(0, &[(id, 1), (other, 2)]), [id]);
                assert!(gateway.requests.terms(other).is_none());
                goes_on(&gateway, id);
                again.await.unwrap()
            }
            false => {
                assert_eq!(gateway.requests.left(0, &[(id, 1), (other, 2)]), [id]);
                let terms = gateway.requests.terms(id).unwrap();
                assert!(terms.class == 1 && terms.deadline.is_some());
                goes_on(&gateway, id);
                again.await
            }
        };
        let (parts, ended) = parts(again).await;
        assert!(ended);
        let whole = String::from_utf8(parts.concat()).unwrap();
        // With the same id, to the byte.
        assert!(whole.starts_with(&shown), "{whole}\n{shown}");
        assert!(whole.contains("\"lo\"") && whole.ends_with("data: [DONE]\n\n"));
        assert_eq!(gateway.requests.waiting_callers(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_pipeline_does_not_have_or_could_not_answer_is_asked_anew() {
    let body = chat(json!({"stream": true}));
    for fails in [false, true] {
        let (disk, id, _) = broken_off(&body).await;
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let says = says(&["Hello"]);
        let gateway = life(&disk, move |play| {
            counted.fetch_add(1, Ordering::SeqCst);
            says(play);
        });
        if fails {
            assert_eq!(gateway.requests.left(0, &[(id, 1)]), [id]);
            let dead = Became::Dead {
                stage: "answer",
                reason: "its deadline came",
                error: None,
            };
            gateway.requests.tell(id, &dead);
        } else {
            assert_eq!(gateway.requests.left(0, &[]), []);
        }
        let (shown, ended) = parts(gateway.send(ask(&body)).await).await;
        assert!(ended);
        let shown = String::from_utf8(shown.concat()).unwrap();
        assert!(shown.contains("Hello"), "{shown}");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_kept_is_given_all_the_same() {
    let body = chat(json!({}));
    let disk = MemoryDisk::new();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let says = says(&["Hello"]);
    let gateway = life(&disk, move |play| {
        counted.fetch_add(1, Ordering::SeqCst);
        says(play);
    });
    disk.fail(Fault::Append(1), Lasting::ForGood);
    let first = whole(gateway.send(ask(&body)).await);
    assert_eq!(whole(gateway.send(ask(&body)).await), first);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    disk.mend();
    // The next process knows of no answer, and of nothing that the pipeline has.
    let gateway = life(&killed(&disk), says_again);
    gateway.requests.left(0, &[]);
    let again = text(&whole(gateway.send(ask(&body)).await));
    assert_eq!(again, text(&first));
}

/// A log that writes when it is told to, and says what is durable.
#[derive(Debug)]
struct Told(Mutex<Receiver<()>>, Arc<Mutex<Vec<&'static str>>>);

impl KeyedLog for Told {
    fn write(
        &mut self,
        _: &[KeyedChange],
        durable: bool,
        _: u64,
    ) -> Result<Option<KeyedLoss>, KeyedLogError> {
        if durable {
            let told = self.0.lock().unwrap();
            told.recv_timeout(PATIENCE).unwrap();
            self.1.lock().unwrap().push("kept");
        }
        Ok(None)
    }
}

/// A log whose disk hangs until the test has ended.
#[derive(Debug)]
struct Hangs(Mutex<Receiver<()>>);

impl KeyedLog for Hangs {
    fn write(
        &mut self,
        _: &[KeyedChange],
        _: bool,
        _: u64,
    ) -> Result<Option<KeyedLoss>, KeyedLogError> {
        let _ = self.0.lock().unwrap().recv();
        Ok(None)
    }
}

/// The clock stands still but where all wait for it.
#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_holds_no_answer_up() {
    /// Less than a cut waits.
    const LIMIT: Duration = Duration::from_secs(4);
    let (_held, hangs) = channel();
    let log = Box::new(Hangs(Mutex::new(hangs)));
    let answers = Answers::over(keeping(1 << 20), log, Vec::new()).unwrap();
    let join = |number: u8, stream: bool, patience: Duration| {
        let digest = Digest::from([number; 32]);
        let joining = Joining {
            client: digest,
            key: digest,
            body: digest,
            until: Instant::now() + patience,
        };
        let content = match stream {
            true => {
                let (to, parts) = unbounded_channel();
                to.send(Part::Bytes("Hel".into())).unwrap();
                to.send(Part::Last("lo".into())).unwrap();
                Content::Events(parts)
            }
            false => Content::Whole {
                media_type: "application/json",
                bytes: "Hello".into(),
            },
        };
        let answered = Answered {
            status: StatusCode::OK,
            headers: Vec::new(),
            content,
        };
        answers
            .join(joining, None, None, |_| async { answered })
            .unwrap()
    };
    let mut number = 0;
    let mut waits = async |stream, patience| {
        number += 1;
        let began = Instant::now();
        let said = async {
            let answered = join(number, stream, patience).await;
            assert_eq!(answered.status, 200);
            match stream {
                true => {
                    let (said, ended) = parts(answered).await;
                    assert!(ended);
                    said.concat()
                }
                false => whole(answered).to_vec(),
            }
        };
        let said = timeout(LIMIT, said).await.expect("it is held up");
        assert_eq!(said, b"Hello");
        began.elapsed()
    };
    // No longer than it has.
    let short = Duration::from_millis(500);
    for stream in [false, true] {
        assert!(waits(stream, short).await <= short + Duration::from_millis(1));
    }
    waits(true, PATIENCE).await;
    // It is known by now.
    for stream in [false, true] {
        assert_eq!(waits(stream, PATIENCE).await, Duration::ZERO);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_that_lets_go_of_a_record_waits_until_its_answer_is_kept() {
    let happened = Arc::new(Mutex::new(Vec::new()));
    let (go, wait) = channel();
    let log = Told(Mutex::new(wait), happened.clone());
    let answers = Answers::over(keeping(1 << 20), Box::new(log), Vec::new()).unwrap();
    let (to, flushed) = channel();
    let into = happened.clone();
    let script = move |play: Play| {
        let mut sink = play.requests.sink();
        // Asked for with a key, or not.
        let is_keyed = play
            .headers
            .iter()
            .any(|(name, _)| name == "idempotency-key");
        play.write_to(&mut sink, b"Hello", 0);
        if is_keyed {
            assert_eq!(sink.pending(), 1);
            go.send(()).unwrap();
        } else {
            assert_eq!(sink.pending(), 0);
        }
        sink.flush().unwrap();
        assert_eq!(sink.pending(), 0);
        into.lock().unwrap().push("cut");
        to.send(()).unwrap();
    };
    let gateway = Gateway::with(script, |options| options.repeated = Some(answers));
    let body = chat(json!({}));
    assert_eq!(gateway.send(ask(&body)).await.status, 200);
    flushed.recv_timeout(PATIENCE).unwrap();
    assert_eq!(gateway.send(asked(PATH, &body)).await.status, 200);
    flushed.recv_timeout(PATIENCE).unwrap();
    assert_eq!(*happened.lock().unwrap(), ["kept", "cut", "cut"]);
}
