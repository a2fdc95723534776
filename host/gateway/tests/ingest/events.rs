//! Outputs as server-sent events.

use hyper::{Method, StatusCode};
use serde_json::json;
use std::sync::Arc;
use tidegate_contract::Sink;
use tidegate_gateway::exchange::{Answered, Content, Part};
use tidegate_gateway::outputs::{OutputLimits, OutputLog, OutputOptions, Outputs};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::asking::{PATIENCE, asked, output, show, whole, write};

fn outputs(log: &Arc<OutputLog>) -> Outputs {
    let answers = OutputOptions {
        name: "answers".into(),
        log: log.clone(),
    };
    Outputs::new([answers], ["https://console.example".to_owned()])
}

struct Following {
    parts: mpsc::UnboundedReceiver<Part>,
    text: String,
    leave: watch::Sender<bool>,
}

impl Following {
    /// Waits until so many events with data have come, and returns what came.
    async fn events(&mut self, count: usize) -> String {
        while self.text.matches("data: ").count() < count {
            let part = timeout(PATIENCE, self.parts.recv()).await.unwrap();
            match part.expect("broken off") {
                Part::Bytes(bytes) => self.text.push_str(std::str::from_utf8(&bytes).unwrap()),
                other => panic!("{other:?}"),
            }
        }
        std::mem::take(&mut self.text)
    }

    /// What comes until the end.
    async fn rest(&mut self) -> String {
        loop {
            let part = timeout(PATIENCE, self.parts.recv()).await.unwrap();
            match part.expect("broken off") {
                Part::Last(_) => return std::mem::take(&mut self.text),
                Part::Bytes(bytes) => self.text.push_str(std::str::from_utf8(&bytes).unwrap()),
                other => panic!("{other:?}"),
            }
        }
    }
}

async fn ask(
    log: &Arc<OutputLog>,
    target: &str,
    headers: &[(&str, &str)],
) -> (Answered, watch::Sender<bool>) {
    let (request, leave) = asked(Method::GET, target, headers, "");
    (outputs(log).answer(request).await, leave)
}

async fn follow(log: &Arc<OutputLog>, target: &str, headers: &[(&str, &str)]) -> Following {
    let (answered, leave) = ask(log, target, headers).await;
    assert_eq!(answered.status, StatusCode::OK);
    let Content::Events(parts) = answered.content else {
        panic!("{answered:?}");
    };
    Following {
        parts,
        text: String::new(),
        leave,
    }
}

fn events(epoch: &str, numbers: std::ops::Range<u64>) -> String {
    let event = |number| format!("id: {epoch}-{}\ndata: {{\"n\":{number}}}\n\n", number + 1);
    numbers.map(event).collect()
}

const ANSWERS: &str = "/v1/outputs/answers";

#[tokio::test]
async fn records_are_seen_once_they_are_flushed_and_not_if_the_cut_came_to_nothing() {
    let (log, mut sink) = output(OutputLimits::default());
    let mut client = follow(&log, ANSWERS, &[]).await;
    write(&mut sink, 7..9);
    assert!(sink.pending() > 0);
    sink.discard();
    assert_eq!(sink.pending(), 0);
    write(&mut sink, 0..2);
    let mut sibling = sink.sibling();
    show(&mut sibling, 0..0);
    log.close();
    let epoch = log.epoch().to_owned();
    assert_eq!(client.rest().await, format!("id: {epoch}-0\n\n"));
    sink.flush().unwrap();
    let mut client = follow(&log, "/v1/outputs/answers?from=start", &[]).await;
    let expected = format!("id: {epoch}-0\n\n{}", events(&epoch, 0..2));
    assert_eq!(client.rest().await, expected);
}

#[tokio::test]
async fn a_client_that_comes_back_with_its_id_misses_nothing_and_sees_nothing_twice() {
    let (log, mut sink) = output(OutputLimits::default());
    let epoch = log.epoch().to_owned();
    show(&mut sink, 0..3);
    let mut client = follow(&log, "/v1/outputs/answers?from=now", &[]).await;
    show(&mut sink, 3..5);
    let begin = format!("id: {epoch}-3\n\n");
    assert_eq!(client.events(2).await, begin + &events(&epoch, 3..5));
    client.leave.send(true).unwrap();
    assert_eq!(timeout(PATIENCE, client.parts.recv()).await.unwrap(), None);
    show(&mut sink, 5..7);
    // The address says `now`, but the id counts.
    let id = format!("{epoch}-5");
    let now = "/v1/outputs/answers?from=now";
    let mut client = follow(&log, now, &[("last-event-id", &id)]).await;
    show(&mut sink, 7..8);
    log.close();
    let expected = format!("id: {id}\n\n{}", events(&epoch, 5..8));
    assert_eq!(client.rest().await, expected);
    let mut client = follow(&log, &format!("{ANSWERS}?x=1&from={id}"), &[]).await;
    assert_eq!(client.rest().await, expected);
}

#[tokio::test]
async fn an_expired_id_and_one_of_another_epoch_are_told_of_the_gap() {
    let small = OutputLimits {
        records: 3,
        ..OutputLimits::default()
    };
    let (log, mut sink) = output(small);
    let epoch = log.epoch().to_owned();
    show(&mut sink, 0..10);
    log.close();
    let id = format!("{epoch}-2");
    let mut client = follow(&log, ANSWERS, &[("last-event-id", &id)]).await;
    let gap = json!({
        "after": id, "next": format!("{epoch}-8"), "missing": 5, "reason": "expired",
    });
    let expected = format!(
        "id: {id}\n\nevent: gap\ndata: {gap}\n\n{}",
        events(&epoch, 7..10)
    );
    assert_eq!(client.rest().await, expected);
    let other = "0123456789abcdef-77";
    let mut client = follow(&log, &format!("{ANSWERS}?from={other}"), &[]).await;
    let gap = json!({
        "after": other, "next": format!("{epoch}-8"), "missing": null, "reason": "epoch",
    });
    let expected = format!("event: gap\ndata: {gap}\n\n{}", events(&epoch, 7..10));
    assert_eq!(client.rest().await, expected);
}

#[tokio::test]
async fn a_slow_client_holds_little_and_is_told_what_it_missed() {
    let small = OutputLimits {
        records: 1_000_000,
        bytes: 1 << 20,
        readers: 1,
    };
    let (log, mut sink) = output(small);
    let epoch = log.epoch().to_owned();
    let mut client = follow(&log, ANSWERS, &[]).await;
    assert!(client.events(0).await.is_empty());
    // It reads nothing, and far more comes than the log keeps.
    for round in 0..400 {
        show(&mut sink, round * 1000..(round + 1) * 1000);
        tokio::task::yield_now().await;
    }
    log.close();
    let waiting: usize = std::iter::from_fn(|| match client.parts.try_recv() {
        Ok(Part::Bytes(bytes)) => {
            client.text.push_str(std::str::from_utf8(&bytes).unwrap());
            Some(bytes.len())
        }
        _ => None,
    })
    .sum();
    assert!(waiting <= 700 << 10, "{waiting} bytes wait");
    let text = client.rest().await;
    // Every record is there or is counted as missing, and nothing comes twice.
    let mut next = 1;
    for event in text.split("\n\n").filter(|event| event.contains("data: ")) {
        match event.strip_prefix("event: gap\ndata: ") {
            Some(gap) => {
                let gap: serde_json::Value = serde_json::from_str(gap).unwrap();
                next += gap["missing"].as_u64().unwrap();
            }
            None => {
                assert!(
                    event.starts_with(&format!("id: {epoch}-{next}\n")),
                    "{event}"
                );
                next += 1;
            }
        }
    }
    assert_eq!(next, 400_001);
    assert!(text.contains("event: gap"));
}

#[tokio::test]
async fn pages_of_other_sites_and_too_many_readers_are_refused() {
    let one = OutputLimits {
        readers: 1,
        ..OutputLimits::default()
    };
    let (log, _sink) = output(one);
    let evil = [("origin", "https://console.example.evil")];
    let (answered, _) = ask(&log, ANSWERS, &evil).await;
    let (status, _, body) = whole(answered);
    assert_eq!(
        (status.as_u16(), &body["error"]["code"]),
        (403, &json!("origin_not_allowed"))
    );
    let known = [("origin", "https://console.example")];
    let (answered, leave) = ask(&log, ANSWERS, &known).await;
    let told = answered.headers.iter();
    let told: Vec<_> = told
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert!(told.contains(&("access-control-allow-origin", "https://console.example")));
    let (second, _) = ask(&log, ANSWERS, &[]).await;
    assert_eq!(whole(second).0, 429);
    // Whoever leaves makes place.
    leave.send(true).unwrap();
    let Content::Events(mut parts) = answered.content else {
        panic!("no events");
    };
    while timeout(PATIENCE, parts.recv()).await.unwrap().is_some() {}
    follow(&log, ANSWERS, &[]).await;
}

#[tokio::test]
async fn ids_and_names_that_are_none_are_refused() {
    let (log, _sink) = output(OutputLimits::default());
    let epoch = log.epoch().to_owned();
    let ahead = format!("{ANSWERS}?from={epoch}-1");
    let signed = format!("{ANSWERS}?from={epoch}-+0");
    for target in [
        "/v1/outputs/answers?from=",
        "/v1/outputs/answers?from=later",
        "/v1/outputs/answers?from=now&from=now",
        "/v1/outputs/answers?from=0123456789abcdef-",
        &signed,
        &ahead,
    ] {
        let (answered, _) = ask(&log, target, &[]).await;
        let (status, _, body) = whole(answered);
        let code = &body["error"]["code"];
        assert_eq!(
            (status.as_u16(), code),
            (400, &json!("invalid_event_id")),
            "{target}"
        );
    }
    let (answered, _) = ask(&log, ANSWERS, &[("last-event-id", "now")]).await;
    assert_eq!(whole(answered).0, 400);
    let (answered, _) = ask(&log, "/v1/outputs/other", &[]).await;
    assert_eq!(whole(answered).0, 404);
    let (request, _leave) = asked(Method::POST, ANSWERS, &[], "");
    assert_eq!(whole(outputs(&log).answer(request).await).0, 405);
}
