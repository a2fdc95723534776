//! Clients that go, queues that are full, sources that pause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_contract::{Became, CallerId, Callers, Partition, Source, SourceEvent};
use tidegate_gateway::requests::{
    GatewaySource, Heard, NewRecord, Options, Refused, Requests, Spending, Waiting,
};

use crate::flow::{Gateway, PATIENCE, asked, chat, header, with_header};

const PATH: &str = "/v1/chat/completions";

/// Asks without end, until there is one.
fn soon<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(found) = ask() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not come");
}

async fn goes(stream: bool, shown: bool) {
    let (to, read) = mpsc::channel();
    let gateway = Gateway::new(move |play| {
        if shown {
            play.listen(1)
                .piece(0, tidegate_contract::Lane::Content, "Hel");
        }
        to.send(play.id).unwrap();
    });
    let (here, asked) = asked(PATH, &chat(json!({"stream": stream})));
    let openai = gateway.openai.clone();
    let client = tokio::spawn(async move { openai.answer(asked).await });
    let id: CallerId = tokio::task::spawn_blocking(move || read.recv_timeout(PATIENCE).unwrap())
        .await
        .unwrap();
    if shown && stream {
        // The head of the stream is there, and its reader goes.
        let answered = tokio::time::timeout(PATIENCE, client)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(answered.status, 200);
        drop(answered);
    } else {
        here.send_replace(true);
    }
    let requests = gateway.requests.clone();
    let gone = tokio::task::spawn_blocking(move || {
        soon(|| Some(requests.take_gone()).filter(|gone| !gone.is_empty()))
    })
    .await
    .unwrap();
    assert_eq!(gone, [id]);
    assert_eq!(gateway.requests.terms(id), None);
    assert!(gateway.requests.listen(id, 2).is_none());
    assert_eq!(gateway.requests.waiting_callers(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_frees_its_request() {
    goes(false, false).await;
    goes(true, false).await;
    goes(true, true).await;
}

fn terms() -> tidegate_contract::Terms {
    tidegate_contract::Terms {
        deadline: None,
        class: 0,
    }
}

fn ask(waiting: &mut Waiting, tag: usize) -> Result<(), Refused> {
    let record = NewRecord {
        value: b"{}".to_vec(),
        ..NewRecord::default()
    };
    waiting.ask(tag, record, terms(), None).map(drop)
}

fn uncounted() -> Arc<Spending> {
    Spending::new(&[], |_| {})
}

/// A request of so many records of source 3.
async fn wait(requests: &Requests, records: usize) -> Result<Waiting, Refused> {
    requests.wait(3, records, 64, uncounted()).await
}

/// The limit that is reached.
fn full(refused: Option<Refused>) -> Option<usize> {
    match refused {
        Some(Refused::Full { limit, after }) => {
            assert!(after >= Duration::from_secs(1), "{after:?}");
            Some(limit)
        }
        _ => None,
    }
}

#[tokio::test]
async fn what_was_not_read_is_taken_back_and_a_full_queue_says_so() {
    let requests = Requests::new(Options {
        waiting: BTreeMap::from([(3, 2)]),
        ..Options::default()
    });
    let mut waiting = wait(&requests, 2).await.unwrap();
    ask(&mut waiting, 0).unwrap();
    ask(&mut waiting, 1).unwrap();
    assert!(!waiting.has_room());
    assert_eq!(full(wait(&requests, 1).await.err()), Some(2));
    // Another source has places of its own.
    let other = requests.wait(4, 3, 64, uncounted()).await;
    drop(other.unwrap());
    assert_eq!(requests.waiting_callers(), 2);
    drop(waiting);
    assert_eq!(requests.waiting_callers(), 0);
    // Nobody has seen them: there is nothing to be cancelled.
    assert_eq!(requests.take_gone(), []);
    let mut waiting = wait(&requests, 1).await.unwrap();
    ask(&mut waiting, 0).unwrap();
    requests.close();
    assert_eq!(ask(&mut waiting, 1), Err(Refused::Closed));
    assert_eq!(wait(&requests, 1).await.err(), Some(Refused::Closed));
}

/// Reads what was asked of source 3.
fn read(source: &mut GatewaySource) -> Vec<CallerId> {
    soon(|| {
        let event = source.poll(8, 1 << 20, Duration::from_millis(5)).unwrap();
        let SourceEvent::Records { batch, .. } = event else {
            return None;
        };
        let records = batch.view();
        Some(records.records().map(|record| record.id().into()).collect())
    })
}

#[tokio::test]
async fn a_record_waits_until_a_model_has_made_the_first_of_its_answer() {
    let requests = Requests::new(Options {
        waiting: BTreeMap::from([(3, 1)]),
        ..Options::default()
    });
    let mut source = requests.source(3);
    let mut waiting = wait(&requests, 1).await.unwrap();
    ask(&mut waiting, 0).unwrap();
    let [id] = read(&mut source)[..] else {
        panic!()
    };
    let refused = async || full(wait(&requests, 1).await.err());
    assert_eq!(refused().await, Some(1), "it was read");
    let tally = requests.tally(id, 1, 0).unwrap();
    tally.asked();
    assert_eq!(refused().await, Some(1), "a model has it");
    requests.begun(id, "large");
    let mut next = wait(&requests, 1).await.expect("it is answered by now");
    ask(&mut next, 0).unwrap();
    let [id] = read(&mut source)[..] else {
        panic!()
    };
    // One that no model answers waits until it has ended.
    assert_eq!(refused().await, Some(1));
    requests.tell(id, &Became::Dropped { stage: "mask" });
    assert!(wait(&requests, 1).await.is_ok());
}

#[tokio::test]
async fn a_request_of_several_records_has_all_its_places_before_the_first_is_queued() {
    let requests = Requests::new(Options {
        waiting: BTreeMap::from([(3, 4)]),
        ..Options::default()
    });
    let mut few = wait(&requests, 3).await.unwrap();
    let several = tokio::spawn({
        let requests = requests.clone();
        async move { wait(&requests, 9).await }
    });
    // It has what there was, and waits for the rest: nobody else is taken meanwhile.
    let until = tokio::time::Instant::now() + PATIENCE;
    while let Ok(got) = wait(&requests, 1).await {
        drop(got);
        assert!(tokio::time::Instant::now() < until, "it does not wait");
        tokio::task::yield_now().await;
    }
    assert_eq!(full(wait(&requests, 2).await.err()), Some(4));
    ask(&mut few, 0).unwrap();
    assert_eq!(requests.waiting_callers(), 1);
    assert!(!several.is_finished());
    drop(few);
    let mut several = several.await.unwrap().unwrap();
    for tag in 0..4 {
        assert!(several.has_room());
        ask(&mut several, tag).unwrap();
    }
    // Never more at once than there are places.
    assert!(!several.has_room());
    let mut source = requests.source(3);
    let first = read(&mut source)[0];
    requests.tell(first, &Became::Dropped { stage: "mask" });
    assert!(matches!(several.hear().await, (0, Heard::Failed(_))));
    // The place is the next record's.
    assert!(wait(&requests, 1).await.is_err());
    assert!(several.has_room());
    ask(&mut several, 4).unwrap();
    drop(several);
    assert!(wait(&requests, 4).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_places_waits_no_longer_than_its_deadline() {
    let gateway = Gateway::with(
        |play| panic!("asked: {}", play.value),
        |options| {
            options.requests = Requests::new(Options {
                waiting: BTreeMap::from([(0, 2)]),
                ..Options::default()
            });
        },
    );
    let held = gateway.requests.wait(0, 1, 64, uncounted());
    let _held = held.await.unwrap();
    let body = json!({"model": "small", "input": ["a", "b"]});
    let asked = with_header(
        asked("/v1/embeddings", &body),
        "x-tidegate-deadline-ms",
        "50",
    );
    let answered = gateway.send(asked).await;
    assert_eq!(answered.status, 504);
    assert_eq!(gateway.requests.waiting_callers(), 0);
    // A queue that has no place at all refuses at once.
    let _rest = gateway.requests.wait(0, 1, 64, uncounted()).await;
    let answered = gateway.ask("/v1/embeddings", body).await;
    assert_eq!(answered.status, 429);
    assert_eq!(header(&answered, "retry-after").as_deref(), Some("1"));
}

#[tokio::test]
async fn the_source_has_one_partition_one_reader_and_an_end_when_closed() {
    let requests = Requests::new(Options::default());
    let mut waiting = wait(&requests, 3).await.unwrap();
    let poll = Duration::from_millis(5);
    let mut source = requests.source(3);
    let mut other = requests.source(3);
    let partition = Partition {
        source: 3,
        number: 0,
    };
    let Ok(SourceEvent::Assigned(assigned)) = source.poll(8, 1 << 20, poll) else {
        panic!()
    };
    assert_eq!(assigned.len(), 1);
    assert_eq!(assigned[0].partition, partition);
    let Ok(SourceEvent::Assigned(assigned)) = other.poll(8, 1 << 20, poll) else {
        panic!()
    };
    assert!(assigned.is_empty());
    assert!(matches!(
        source.poll(8, 1 << 20, poll),
        Ok(SourceEvent::Idle)
    ));

    for tag in 0..3 {
        ask(&mut waiting, tag).unwrap();
    }
    source.pause(partition).unwrap();
    assert!(matches!(
        source.poll(8, 1 << 20, poll),
        Ok(SourceEvent::Idle)
    ));
    source.resume(partition).unwrap();
    let mut read = 0;
    let mut last = 0;
    for _ in 0..2 {
        let Ok(SourceEvent::Records { batch, next, .. }) = source.poll(2, 1 << 20, poll) else {
            panic!()
        };
        for record in batch.view().records() {
            assert!(record.id().offset > last && record.id().offset < next);
            last = record.id().offset;
            read += 1;
        }
    }
    assert_eq!(read, 3);
    requests.close();
    assert!(matches!(
        source.poll(8, 1 << 20, poll),
        Ok(SourceEvent::End(_))
    ));
    assert!(matches!(
        source.poll(8, 1 << 20, poll),
        Ok(SourceEvent::Idle)
    ));
    let mut late = requests.source(4);
    assert!(matches!(
        late.poll(8, 1 << 20, poll),
        Ok(SourceEvent::Assigned(_))
    ));
    assert!(matches!(
        late.poll(8, 1 << 20, poll),
        Ok(SourceEvent::End(_))
    ));
    drop(source);
    // Whoever comes next has the partition.
    let mut next = requests.source(3);
    let Ok(SourceEvent::Assigned(assigned)) = next.poll(8, 1 << 20, poll) else {
        panic!()
    };
    assert_eq!(assigned.len(), 1);
}

#[tokio::test]
async fn offsets_of_a_later_life_are_above_those_of_an_earlier_one() {
    let offset = async || {
        let requests = Requests::new(Options::default());
        let mut waiting = wait(&requests, 1).await.unwrap();
        ask(&mut waiting, 0).unwrap();
        let mut source = requests.source(3);
        source.poll(1, 1, Duration::ZERO).unwrap();
        let Ok(SourceEvent::Records { batch, .. }) = source.poll(1, 1, Duration::ZERO) else {
            panic!()
        };
        batch.view().get(0).unwrap().id().offset
    };
    let first = offset().await;
    std::thread::sleep(Duration::from_millis(3));
    assert!(offset().await > first + 1000);
}
