//! A client that goes away is missed.

use tidegate_gateway::exchange::Part;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{Client, LIMIT, get};
use crate::served::{options, start};

/// How a client goes.
#[derive(Clone, Copy, Debug)]
enum Going {
    Closed,
    Half,
    Reset,
}

async fn goes(before: &str, going: Going) {
    let (front, served) = start(options());
    let (tell, mut told) = mpsc::unbounded_channel();
    *served.waits.lock().unwrap() = Some(tell);
    let mut client = Client::to(front.address()).await;
    client.say(before).await;
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(true));
    match going {
        Going::Closed => drop(client),
        Going::Half => client.stream.shutdown().await.unwrap(),
        Going::Reset => {
            client.stream.set_zero_linger().unwrap();
            drop(client);
        }
    }
    assert_eq!(
        timeout(LIMIT, told.recv())
            .await
            .expect("the client is not missed"),
        Some(false)
    );
    assert_eq!(*served.seen.lock().unwrap(), ["/wait"]);
}

#[tokio::test]
async fn a_client_that_goes_before_the_answer_is_missed() {
    for going in [Going::Closed, Going::Half, Going::Reset] {
        goes(&get("/wait", ""), going).await;
    }
}

#[tokio::test]
async fn a_second_request_behind_the_first_hides_nobody() {
    for going in [Going::Closed, Going::Half, Going::Reset] {
        let both = get("/wait", "") + &get("/echo", "");
        goes(&both, going).await;
    }
}

#[tokio::test]
async fn more_ahead_of_an_answer_than_anyone_needs_ends_the_connection() {
    let (front, served) = start(options());
    let (tell, mut told) = mpsc::unbounded_channel();
    *served.waits.lock().unwrap() = Some(tell);
    let mut client = Client::to(front.address()).await;
    client.say(get("/wait", "")).await;
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(true));
    let ahead = get("/echo", &format!("x: {}\r\n", "y".repeat(1000)));
    // The front may end the connection while we still write.
    let _ = client.stream.write_all(ahead.repeat(100).as_bytes()).await;
    assert_eq!(
        timeout(LIMIT, told.recv())
            .await
            .expect("it may go on sending"),
        Some(false)
    );
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_a_stream_is_missed() {
    let (front, served) = start(options());
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut client = Client::to(front.address()).await;
    client.say(get("/events", "")).await;
    send.send(Part::Bytes("data: 1\n\n".into())).unwrap();
    client.until(b"data: 1").await.unwrap();
    drop(client);
    timeout(LIMIT, send.closed())
        .await
        .expect("nobody missed it");
}
