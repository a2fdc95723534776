//! Tokens as an output, through kills, with a model that says something else each time it is asked: whoever reads along
//! ends with what was committed. Every second answer stops half-way until the last life, so that each kill takes something
//! back that was shown, however fast the machine is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tidegate_codec::tokens::{OwnedWhat, State, TokenReader, parse_token_event};
use tidegate_contract::Lane;
use tidegate_tests::script_reader::{self, Shown};
use tidegate_tests::until;

use crate::client::{PATIENCE, Served};
use crate::server::{Asked, Server, finish, said};

const RECORDS: usize = 40;
const KILLS: usize = 3;
const WORDS: usize = 20;
/// Answers that stop half-way and are shown so far, before a kill.
const SHOWN: usize = 4;

fn pipeline(server: &Server) -> String {
    format!(
        r#"
[pipeline]
name = "aloud"
cut-interval = "20ms"
[gateway]
address = "127.0.0.1:0"
[source.events]
type = "ingest"
[model.there]
type = "openai"
url = "{}"
context = 4096
timeouts = {{ between = "300s" }}
[[stage]]
name = "answer"
model = "there"
prompt = "{{n}}"
max-in-flight = 8
tokens-to = ["live"]
[feed.live]
type = "output"
[sink.kept]
type = "file"
path = "kept.jsonl"
envelope = true
"#,
        server.url
    )
}

/// Answers that stop half-way.
#[derive(Clone, Default)]
struct Held {
    /// From now on all go on to their end.
    none_more: Arc<AtomicBool>,
    /// Those that have stopped, by their number.
    numbers: Arc<Mutex<BTreeSet<usize>>>,
}

impl Held {
    fn numbers(&self) -> BTreeSet<usize> {
        self.numbers.lock().unwrap().clone()
    }

    /// Each answer is in words of its own, some of which are more than a byte long. Those to even records stop half-way.
    fn say(&self, asked: &mut Asked) {
        let number = asked.number;
        let record = asked.body["messages"][0]["content"].as_str();
        let record: usize = record.unwrap().parse().unwrap();
        asked.begin();
        for word in 0..WORDS {
            if word == WORDS / 2
                && record.is_multiple_of(2)
                && !self.none_more.load(Ordering::SeqCst)
            {
                self.numbers.lock().unwrap().insert(number);
                // As long as a test may wait for what comes next.
                let _ = (0..4).any(|_| asked.wait_for_the_end());
                return;
            }
            asked.event(&said(&format!("{}{word} ", mark(number))));
            std::thread::sleep(Duration::from_millis(3));
        }
        asked.event(&finish("stop"));
        asked.end();
    }
}

/// What the words of an answer begin with.
fn mark(number: usize) -> String {
    format!("é{number}.")
}

/// What a client has been told, over all lives of the program.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn events(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// How many of these answers something was heard of.
    fn of(&self, answers: &BTreeSet<usize>) -> usize {
        let events = self.0.lock().unwrap();
        let is_of = |event: &String, answer: &usize| event.contains(&mark(*answer));
        let heard = |answer: &&usize| events.iter().any(|event| is_of(event, answer));
        answers.iter().filter(heard).count()
    }

    /// Follows the output until its program has gone.
    fn follow(&self, served: &Served) -> JoinHandle<()> {
        let mut stream = served.open("GET", "/v1/outputs/live?from=start", &[], "");
        let heard = self.clone();
        std::thread::spawn(move || {
            let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                seen.extend(&buffer[..read]);
                while let Some(end) = seen.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = seen.drain(..=end).collect();
                    let line = String::from_utf8(line).unwrap();
                    if let Some(event) = line.strip_prefix("data: ") {
                        heard.0.lock().unwrap().push(event.trim_end().to_owned());
                    }
                }
            }
        })
    }

    fn reader(&self) -> TokenReader {
        let mut reader = TokenReader::default();
        for event in self.events() {
            reader.take(&parse_token_event(event.as_bytes()).unwrap());
        }
        reader
    }
}

/// A committed answer.
struct Committed {
    text: String,
    attempt: u64,
}

/// The committed answers, by request.
fn committed(served: &Served) -> BTreeMap<String, Committed> {
    let records = served.workspace.json_lines("kept.jsonl").into_iter();
    let records = records.map(|record| {
        let header = |name: &str| {
            let mut headers = record["headers"].as_array().unwrap().iter();
            let header = headers.find(|header| header[0] == name).unwrap();
            header[1].as_str().unwrap().to_owned()
        };
        let committed = Committed {
            text: record["value"]["answer"].as_str().unwrap().to_owned(),
            attempt: header("token-attempt").parse().unwrap(),
        };
        (header("token-request"), committed)
    });
    records.collect()
}

fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_micros() as u64
}

#[test]
fn whoever_follows_tokens_ends_with_what_was_committed_however_often_the_program_is_killed() {
    let held = Held::default();
    let holds = held.clone();
    let server = Server::start(move |asked| holds.say(asked));
    let mut served = Served::start(&pipeline(&server));
    for n in 0..RECORDS {
        let got = served.post("/v1/ingest/events", &json!({"n": n}));
        assert!(matches!(got.status, 200..=299), "{got:?}");
    }
    let heard = Heard::default();
    let mut last_life = 0;
    // Those that stopped in lives before.
    let mut before = BTreeSet::new();
    // One who never reads holds nobody up.
    let mut silent: Vec<TcpStream> = Vec::new();
    for life in 0..=KILLS {
        let follows = heard.follow(&served);
        silent.push(served.open("GET", "/v1/outputs/live?from=start", &[], ""));
        if life == KILLS {
            break;
        }
        until(
            "answers stop half-way, and are shown so far",
            PATIENCE,
            || {
                let held = held.numbers();
                heard.of(&held.difference(&before).copied().collect()) >= SHOWN
            },
        );
        served.running.kill();
        follows.join().unwrap();
        before = held.numbers();
        held.none_more.store(life + 1 == KILLS, Ordering::SeqCst);
        last_life = micros();
        served = Served::again(served.workspace);
    }
    until("every answer is committed", PATIENCE, || {
        committed(&served).len() == RECORDS
    });
    let committed = committed(&served);
    let of_last_life = |committed: &Committed| committed.attempt > last_life;
    until("all of the last life is heard", PATIENCE, || {
        let reader = heard.reader();
        committed
            .iter()
            .filter(|(_, committed)| of_last_life(committed))
            .all(|(request, _)| reader.state(request) == Some(State::Complete))
    });

    let (events, reader) = (heard.events(), heard.reader());
    let scripted = script_reader::read(&events);
    let mut attempts: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for event in &events {
        let event = parse_token_event(event.as_bytes()).unwrap();
        if matches!(event.what, OwnedWhat::Text { .. }) {
            let seen = attempts.entry(event.request).or_default();
            seen.insert(event.attempt);
        }
    }
    let mut whole = 0;
    for (request, committed) in &committed {
        let Some(answer) = reader.answer(request) else {
            // All of it was said before anybody followed, in a life that has ended.
            assert!(!of_last_life(committed), "{request}");
            continue;
        };
        assert!(answer.attempt <= committed.attempt, "{request}");
        let text = answer
            .choices
            .first()
            .and_then(|choice| choice.lanes.get(&Lane::Content));
        let text = text.cloned().unwrap_or_default();
        let is_whole = reader.state(request) == Some(State::Complete);
        if is_whole && answer.attempt == committed.attempt {
            whole += 1;
            assert_eq!(text, committed.text, "{request}");
        }
        // The reader of the guide shows the same.
        let shown = scripted.get(request).cloned().unwrap_or_default();
        let expected = Shown {
            lanes: (!text.is_empty())
                .then(|| ("0/content".to_owned(), text))
                .into_iter()
                .collect(),
            state: if is_whole { "whole" } else { "open" }.into(),
        };
        assert_eq!(shown, expected, "{request}");
    }
    let last = committed
        .values()
        .filter(|committed| of_last_life(committed));
    assert!(whole >= last.count() && whole > 0, "{whole} are whole");
    let replaced = attempts.values().filter(|seen| seen.len() > 1).count();
    assert!(replaced >= SHOWN, "{replaced} were taken back by a kill");
    drop(silent);
}
