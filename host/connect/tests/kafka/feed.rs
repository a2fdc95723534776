//! Tokens to a topic whose brokers go away and come back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_codec::tokens::{State, TokenReader, parse_token_event};
use tidegate_connect::kafka::{KafkaFeed, KafkaFeedOptions, Properties};
use tidegate_contract::{ChoiceEnd, Finish, Lane, TokenEvent, TokenFeed, TokenWhat};

use crate::broker::topic;
use crate::proxy::{Loses, Proxy};
use crate::{DEADLINE, WAIT, options, read_to_end};

fn open(proxy: &Proxy, topic: &str, queue: usize, patience: Duration) -> KafkaFeed {
    // What was sent as the wire was cut is sent again soon.
    let soon = [
        ("socket.timeout.ms", "5000"),
        ("reconnect.backoff.max.ms", "200"),
    ];
    let soon = soon.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let properties: Properties = soon.into_iter().collect();
    KafkaFeed::open(KafkaFeedOptions {
        queue,
        patience,
        properties,
        ..KafkaFeedOptions::new(proxy.address(), topic, "support-bot")
    })
    .unwrap()
}

/// An answer as a stage feeds it: what is not taken goes with what comes after.
struct Fed<'a> {
    feed: &'a KafkaFeed,
    request: String,
    text: String,
    sent: usize,
    begun: bool,
}

impl<'a> Fed<'a> {
    fn new(feed: &'a KafkaFeed, number: usize) -> Fed<'a> {
        Fed {
            feed,
            request: format!("ask/0/0/{number}"),
            text: String::new(),
            sent: 0,
            begun: false,
        }
    }

    fn send(&self, is_last: bool, what: TokenWhat<'_>) -> bool {
        let event = TokenEvent {
            request: &self.request,
            key: None,
            attempt: 1,
            what,
        };
        match is_last {
            true => self.feed.send_last(&event),
            false => self.feed.send(&event),
        }
    }

    fn go_on(&mut self, is_last: bool) -> bool {
        self.begun = self.begun || self.send(is_last, TokenWhat::Reset { from: 0 });
        if self.sent == self.text.len() {
            return self.begun;
        }
        let text = TokenWhat::Text {
            choice: 0,
            lane: Lane::Content,
            at: self.sent as u64,
            index: 0,
            text: &self.text[self.sent..],
            call: None,
        };
        let taken = self.begun && self.send(is_last, text);
        if taken {
            self.sent = self.text.len();
        }
        taken
    }

    /// Says a word more. Returns whether there was room for it.
    fn say(&mut self, word: &str) -> bool {
        self.text.push_str(word);
        self.go_on(false)
    }

    /// Ends. Returns what it said.
    fn end(mut self) -> (String, String) {
        self.go_on(true);
        let choices = [ChoiceEnd {
            choice: 0,
            finish: Finish::End,
            lanes: vec![(Lane::Content, self.text.len() as u64)],
        }];
        self.send(true, TokenWhat::End { choices: &choices });
        (self.request, self.text)
    }
}

fn answer(feed: &KafkaFeed, number: usize, words: usize) -> (String, String) {
    let mut fed = Fed::new(feed, number);
    for word in 0..words {
        fed.say(&format!("{number}.{word} "));
    }
    fed.end()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::sleep(WAIT / 10);
    }
}

/// The answers that a reader of the topic has whole.
fn whole(topic: &str) -> BTreeMap<String, String> {
    let mut reader = TokenReader::default();
    for record in read_to_end(options(topic, topic), 1).records {
        let event = parse_token_event(&record.value.unwrap()).unwrap();
        assert_eq!(record.key.unwrap(), event.request.as_bytes());
        reader.take(&event);
    }
    let requests = reader.requests().map(str::to_owned);
    let whole = requests.filter(|request| reader.state(request) == Some(State::Complete));
    let text = |request: String| {
        let mut answer = reader.answer(&request)?;
        let text = answer.choices.first_mut()?.lanes.remove(&Lane::Content)?;
        Some((request, text))
    };
    whole.filter_map(text).collect()
}

#[test]
fn what_is_said_while_brokers_are_away_for_a_while_is_there_when_they_are_back() {
    let (proxy, topic) = (Proxy::open(), topic("away", 1));
    let feed = open(&proxy, &topic, 256, 10 * DEADLINE);
    let mut said: BTreeMap<String, String> = (0..3).map(|n| answer(&feed, n, 20)).collect();
    let mut before = Fed::new(&feed, 100);
    assert!(before.say("It was "));
    proxy.lose(Loses::Everything);
    // More than the queue holds, and nobody waits: what there is no room for is kept by who says it.
    let mut refused = 0;
    for word in 0..5000 {
        refused += usize::from(!before.say(&format!("{word} ")));
    }
    assert!(refused > 4000, "a queue of 256 took {}", 5000 - refused);
    said.extend((3..9).map(|n| answer(&feed, n, 20)));
    said.extend([before.end()]);
    proxy.lose(Loses::Nothing);
    said.extend((9..12).map(|n| answer(&feed, n, 20)));
    until("all of it is there", || whole(&topic).len() == said.len());
    assert_eq!(whole(&topic), said);
    assert_eq!(feed.lost(), 0);
}

#[test]
fn what_brokers_do_not_take_in_time_is_gone_and_counted_and_later_answers_are_whole() {
    let (proxy, topic) = (Proxy::open(), topic("gone", 1));
    let feed = open(&proxy, &topic, 10_000, Duration::from_secs(10));
    let first = answer(&feed, 0, 5);
    until("the first is there", || {
        whole(&topic).contains_key(&first.0)
    });
    proxy.lose(Loses::Everything);
    let gone = answer(&feed, 1, 5);
    until("it is given up", || feed.lost() >= 7);
    assert_eq!(feed.lost(), 7, "its beginning, its words and its end");
    proxy.lose(Loses::Nothing);
    let mut later = Vec::new();
    until("something goes out again", || {
        later.push(answer(&feed, 2 + later.len(), 5));
        let there = whole(&topic);
        let mut said = later.iter();
        said.any(|(request, _)| there.contains_key(request))
    });
    let there = whole(&topic);
    assert!(!there.contains_key(&gone.0));
    for (request, text) in there {
        let said = later.iter().chain([&first]);
        let said = said.into_iter().find(|(said, _)| *said == request);
        assert_eq!(said.map(|(_, said)| said), Some(&text), "{request}");
    }
}
