//! Clients that go, queues that are full, sources that pause.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_contract::{CallerId, Callers, Partition, Source, SourceEvent};
use tidegate_gateway::requests::{NewRecord, Options, Refused, Requests, Waiting};

use crate::flow::{Gateway, PATIENCE, asked, chat};

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
    waiting.ask(3, tag, record, terms(), None)
}

#[test]
fn what_was_not_read_is_taken_back_and_a_full_queue_says_so() {
    let requests = Requests::new(Options {
        queue: 2,
        ..Options::default()
    });
    let mut waiting = requests.waiting();
    ask(&mut waiting, 0).unwrap();
    ask(&mut waiting, 1).unwrap();
    assert!(matches!(
        ask(&mut waiting, 2),
        Err(Refused::Full { limit: 2, .. })
    ));
    assert_eq!(requests.waiting_callers(), 2);
    drop(waiting);
    assert_eq!(requests.waiting_callers(), 0);
    // Nobody has seen them: there is nothing to be cancelled.
    assert_eq!(requests.take_gone(), []);
    let mut waiting = requests.waiting();
    ask(&mut waiting, 0).unwrap();
    requests.close();
    assert_eq!(ask(&mut waiting, 1), Err(Refused::Closed));
}

#[test]
fn the_source_has_one_partition_one_reader_and_an_end_when_closed() {
    let requests = Requests::new(Options::default());
    let mut waiting = requests.waiting();
    let wait = Duration::from_millis(5);
    let mut source = requests.source(3);
    let mut other = requests.source(3);
    let partition = Partition {
        source: 3,
        number: 0,
    };
    let Ok(SourceEvent::Assigned(assigned)) = source.poll(8, 1 << 20, wait) else {
        panic!()
    };
    assert_eq!(assigned.len(), 1);
    assert_eq!(assigned[0].partition, partition);
    let Ok(SourceEvent::Assigned(assigned)) = other.poll(8, 1 << 20, wait) else {
        panic!()
    };
    assert!(assigned.is_empty());
    assert!(matches!(
        source.poll(8, 1 << 20, wait),
        Ok(SourceEvent::Idle)
    ));

    for tag in 0..3 {
        ask(&mut waiting, tag).unwrap();
    }
    source.pause(partition).unwrap();
    assert!(matches!(
        source.poll(8, 1 << 20, wait),
        Ok(SourceEvent::Idle)
    ));
    source.resume(partition).unwrap();
    let mut read = 0;
    let mut last = 0;
    for _ in 0..2 {
        let Ok(SourceEvent::Records { batch, next, .. }) = source.poll(2, 1 << 20, wait) else {
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
        source.poll(8, 1 << 20, wait),
        Ok(SourceEvent::End(_))
    ));
    assert!(matches!(
        source.poll(8, 1 << 20, wait),
        Ok(SourceEvent::Idle)
    ));
    let mut late = requests.source(4);
    assert!(matches!(
        late.poll(8, 1 << 20, wait),
        Ok(SourceEvent::Assigned(_))
    ));
    assert!(matches!(
        late.poll(8, 1 << 20, wait),
        Ok(SourceEvent::End(_))
    ));
    drop(source);
    // Whoever comes next has the partition.
    let mut next = requests.source(3);
    let Ok(SourceEvent::Assigned(assigned)) = next.poll(8, 1 << 20, wait) else {
        panic!()
    };
    assert_eq!(assigned.len(), 1);
}

#[test]
fn offsets_of_a_later_life_are_above_those_of_an_earlier_one() {
    let offset = || {
        let requests = Requests::new(Options::default());
        let mut waiting = requests.waiting();
        ask(&mut waiting, 0).unwrap();
        let mut source = requests.source(3);
        source.poll(1, 1, Duration::ZERO).unwrap();
        let Ok(SourceEvent::Records { batch, .. }) = source.poll(1, 1, Duration::ZERO) else {
            panic!()
        };
        batch.view().get(0).unwrap().id().offset
    };
    let first = offset();
    std::thread::sleep(Duration::from_millis(3));
    assert!(offset() > first + 1000);
}
