//! A flow that reads records from the gateway's source, and does with each what the script says.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use serde_json::{Value, json};
use tidegate_contract::{
    Answer, Became, Call, CallerId, Callers, Choice, Finish, HostHeaders, Lane, Listener, Made,
    Piece, Sink, Source, SourceEvent, Tally, Timings, TokenLogprob,
};
use tidegate_gateway::access::Who;
use tidegate_gateway::exchange::{Answered, Asked, Content, Gone, Part};
use tidegate_gateway::openai::admission::Open;
use tidegate_gateway::openai::load::Shed;
use tidegate_gateway::openai::route::{Bounds, Endpoint, ModelEntry, PromptCost, Route, Settled};
use tidegate_gateway::openai::{OpenAi, Options};
use tidegate_gateway::requests::{self, GatewaySink, Requests};
use tidegate_record::{BatchBuilder, NewRecord, RecordId};
use tokio::sync::watch;

/// Longer than anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What is done with a record.
pub(crate) type Script = Arc<dyn Fn(Play) + Send + Sync>;

/// One record that was read.
pub(crate) struct Play {
    pub(crate) requests: Requests,
    pub(crate) id: CallerId,
    pub(crate) value: Value,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl Play {
    pub(crate) fn listen(&self, attempt: u32) -> Heard {
        self.goes_on(attempt, 0)
    }

    /// An attempt that begins with so many tokens of the one before.
    pub(crate) fn goes_on(&self, attempt: u32, made: u32) -> Heard {
        Heard {
            requests: self.requests.clone(),
            id: self.id,
            listener: self.requests.listen(self.id, attempt),
            tally: self.requests.tally(self.id, attempt, made).unwrap(),
            index: 0,
            logprobs: Vec::new(),
        }
    }

    /// The model of this name has made its first token.
    pub(crate) fn begun(&self, model: &str) {
        self.requests.begun(self.id, model);
    }

    pub(crate) fn tell(&self, became: &Became<'_>) {
        self.requests.tell(self.id, became);
    }

    /// The record comes to the sink with this value.
    pub(crate) fn write(&self, value: &[u8], emit: u64) {
        self.write_to(&mut self.requests.sink(), value, emit);
    }

    /// The same to a sink that was there before.
    pub(crate) fn write_to(&self, sink: &mut GatewaySink, value: &[u8], emit: u64) {
        let mut batch = BatchBuilder::default();
        let id = RecordId {
            source: self.id.source,
            partition: self.id.partition,
            offset: self.id.offset,
            emit,
            ..RecordId::default()
        };
        let record = NewRecord {
            id,
            value: Some(value),
            ..NewRecord::default()
        };
        batch.push(&record).unwrap();
        let batch = batch.finish(0);
        sink.write(
            batch.view().get(0).unwrap().public(),
            HostHeaders::default(),
        )
        .unwrap();
        self.tell(&Became::Written { sink: "gateway" });
    }

    /// The record's value with this answer.
    pub(crate) fn answer(&self, answer: impl Into<Value>) {
        let mut value = self.value.clone();
        value["answer"] = answer.into();
        self.write(value.to_string().as_bytes(), 0);
    }
}

/// Who listens, if anyone does.
pub(crate) struct Heard {
    requests: Requests,
    id: CallerId,
    pub(crate) listener: Option<Box<dyn Listener>>,
    pub(crate) tally: Arc<dyn Tally>,
    index: u32,
    /// What every piece is told with.
    pub(crate) logprobs: Vec<TokenLogprob>,
}

impl Heard {
    pub(crate) fn piece(&mut self, choice: u32, lane: Lane, text: &str) {
        self.begin(choice, lane, text, None);
    }

    pub(crate) fn begin(
        &mut self,
        choice: u32,
        lane: Lane,
        text: &str,
        begins: Option<(&str, &str)>,
    ) {
        let piece = Piece {
            choice,
            index: self.index,
            lane,
            text,
            begins,
            logprobs: &self.logprobs,
        };
        self.index += 1;
        if let Some(listener) = &mut self.listener {
            listener.piece(&piece);
        }
    }

    pub(crate) fn answer(&mut self, choices: Vec<Choice>) {
        self.tally.asked();
        for (number, choice) in (0u32..).zip(&choices) {
            self.tally.made(number, choice.tokens.len() as u32);
        }
        let answer = Answer {
            made: Made::Choices(choices),
            prompt_tokens: 7,
            adapter: String::new(),
            timings: Timings::default(),
        };
        self.requests.brings(self.id, Some(Arc::new(answer)));
    }
}

/// A choice with this text, of as many tokens as it has characters.
pub(crate) fn choice(text: &str) -> Choice {
    Choice {
        text: text.to_owned(),
        reasoning: String::new(),
        reasoning_tokens: 0,
        calls: Vec::new(),
        tokens: (0..text.chars().count() as u32).collect(),
        finish: Finish::End,
        logprobs: Vec::new(),
    }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

/// The endpoints, with a flow behind them.
pub(crate) struct Gateway {
    pub(crate) requests: Requests,
    pub(crate) openai: OpenAi,
    flow: Option<JoinHandle<()>>,
}

impl Gateway {
    pub(crate) fn new(script: impl Fn(Play) + Send + Sync + 'static) -> Gateway {
        Gateway::with(script, |_| {})
    }

    pub(crate) fn with(
        script: impl Fn(Play) + Send + Sync + 'static,
        change: impl FnOnce(&mut Options),
    ) -> Gateway {
        let requests = Requests::new(requests::Options::default());
        let mut options = Options {
            requests: requests.clone(),
            routes: vec![route()],
            admission: Arc::new(Open),
            max_body: 1 << 20,
            clock: || 1_700_000_000,
            repeated: None,
            shared: None,
            shed: Shed::default(),
            audit: None,
        };
        change(&mut options);
        let requests = options.requests.clone();
        let flow = std::thread::spawn({
            let requests = requests.clone();
            move || play(&requests, Arc::new(script))
        });
        Gateway {
            requests,
            openai: OpenAi::new(options),
            flow: Some(flow),
        }
    }

    pub(crate) async fn ask(&self, path: &str, body: Value) -> Answered {
        self.send(asked(path, &body)).await
    }

    pub(crate) async fn send(&self, asked: (watch::Sender<bool>, Asked)) -> Answered {
        let (here, asked) = asked;
        // Clients here do not go: those that do are told of by their tests.
        std::mem::forget(here);
        tokio::time::timeout(PATIENCE, self.openai.answer(asked))
            .await
            .unwrap()
    }

    /// Status and body.
    pub(crate) async fn json(&self, path: &str, body: Value) -> (u16, Value) {
        let answered = self.ask(path, body).await;
        let status = answered.status.as_u16();
        (status, serde_json::from_slice(&whole(answered)).unwrap())
    }

    /// The bytes of a stream, and whether it ended in order.
    pub(crate) async fn stream(&self, path: &str, body: Value) -> (String, bool) {
        let (_here, asked) = asked(path, &body);
        let answered = self.openai.answer(asked).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        let (parts, ended) = tokio::time::timeout(PATIENCE, parts(answered))
            .await
            .unwrap();
        (String::from_utf8(parts.concat()).unwrap(), ended)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.requests.close();
        if let Some(flow) = self.flow.take() {
            let joined = flow.join();
            // A test that failed has said why.
            assert!(std::thread::panicking() || joined.is_ok());
        }
    }
}

fn play(requests: &Requests, script: Script) {
    let mut source = requests.source(0);
    let mut players = Vec::new();
    loop {
        match source.poll(16, 1 << 20, Duration::from_millis(20)).unwrap() {
            SourceEvent::Records {
                batch, rejected, ..
            } => {
                assert!(rejected.is_empty(), "{rejected:?}");
                for record in batch.view().records() {
                    let play = Play {
                        requests: requests.clone(),
                        id: record.id().into(),
                        value: serde_json::from_slice(record.value().unwrap()).unwrap(),
                        key: record.key().map(<[u8]>::to_vec),
                        headers: record
                            .headers()
                            .map(|pair| (pair.name.to_owned(), pair.value.unwrap().to_vec()))
                            .collect(),
                    };
                    let script = script.clone();
                    players.push(std::thread::spawn(move || script(play)));
                }
            }
            SourceEvent::End(_) => break,
            _ => {}
        }
    }
    for player in players {
        player.join().unwrap();
    }
}

pub(crate) fn route() -> Route {
    let model = |name: &str| ModelEntry {
        name: name.to_owned(),
        made: 1_600_000_000,
    };
    Route {
        name: "all".to_owned(),
        models: vec![model("small")],
        own: vec!["support".to_owned()],
        steps: Vec::new(),
        others: Vec::new(),
        endpoints: Endpoint::ALL.to_vec(),
        headers: vec![HeaderName::from_static("x-tenant")],
        key_header: None,
        deadline: PATIENCE,
        class: 1,
        source: 0,
        bounds: Bounds {
            context_tokens: 100,
            answer_tokens: 50,
            dimensions: Some(2),
        },
        ranks_whole: false,
        count: Some(Arc::new(|record| {
            let messages = record.messages.iter().map(|message| message.content.len());
            let prompt = record.prompt.as_ref().map_or(0, String::len);
            Ok(PromptCost {
                tokens: messages.sum::<usize>() + prompt,
            })
        })),
        settled: Settled::WhereAsked,
        present: Arc::new(String::new),
        has_form: false,
        token_text: Some(Arc::new(|token| char::from_u32(token).map(String::from))),
        is_silent: None,
    }
}

pub(crate) fn asked(path: &str, body: &Value) -> (watch::Sender<bool>, Asked) {
    let (here, gone) = Gone::new();
    let get = body.is_null();
    let mut who = Who::anyone();
    who.name = "ann".into();
    let asked = Asked {
        id: "req-1".to_owned(),
        method: if get { Method::GET } else { Method::POST },
        path: path.to_owned(),
        query: None,
        headers: HeaderMap::new(),
        body: if get {
            Bytes::new()
        } else {
            body.to_string().into()
        },
        who,
        under_way: None,
        gone,
        trace: None,
    };
    (here, asked)
}

pub(crate) fn with_header(
    mut asked: (watch::Sender<bool>, Asked),
    name: &'static str,
    value: &'static str,
) -> (watch::Sender<bool>, Asked) {
    asked.1.headers.append(
        HeaderName::from_static(name),
        HeaderValue::from_static(value),
    );
    asked
}

pub(crate) fn whole(answered: Answered) -> Bytes {
    match answered.content {
        Content::Whole { bytes, .. } => bytes,
        _ => panic!("a stream"),
    }
}

pub(crate) fn header(answered: &Answered, name: &str) -> Option<String> {
    let found = answered.headers.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.to_str().unwrap().to_owned())
}

/// The parts of a stream, and whether it ended in order.
pub(crate) async fn parts(answered: Answered) -> (Vec<Bytes>, bool) {
    let Content::Events(mut parts) = answered.content else {
        panic!("no stream: {answered:?}");
    };
    let mut all = Vec::new();
    loop {
        match parts.recv().await {
            Some(Part::Bytes(bytes)) => all.push(bytes),
            Some(Part::Last(bytes)) => {
                all.push(bytes);
                return (all, true);
            }
            Some(Part::Broken(bytes)) => {
                all.push(bytes);
                return (all, false);
            }
            None => return (all, false),
        }
    }
}

/// A chat of one word.
pub(crate) fn chat(more: Value) -> Value {
    let mut body = json!({"model": "small", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Answers every chat with these words, shown one by one.
pub(crate) fn says(words: &'static [&'static str]) -> impl Fn(Play) + Send + Sync + 'static {
    move |play| {
        let mut heard = play.listen(1);
        for word in words {
            heard.piece(0, Lane::Content, word);
        }
        let text = words.concat();
        heard.answer(vec![choice(&text)]);
        play.answer(text);
    }
}
