//! How the front begins and ends, and how a connection goes over to another protocol.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tidegate_gateway::access::Access;
use tidegate_gateway::exchange::Part;
use tidegate_gateway::front::{Bound, Cors, Front, FrontOptions};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::{Client, LIMIT, get};
use crate::served::{SHORT, Served, options, start};

#[tokio::test]
async fn a_front_that_stops_finishes_its_answers_and_takes_no_more() {
    let (front, served) = start(options());
    let address = front.address();
    let (send, events) = mpsc::unbounded_channel();
    *served.events.lock().unwrap() = Some(events);
    let mut idle = Client::to(address).await;
    idle.say(get("/echo", "")).await;
    assert_eq!(idle.answer().await.status, 200);
    let mut client = Client::to(address).await;
    client.say(get("/events", "")).await;
    client.head().await;

    let stopping = tokio::spawn(front.stop(LIMIT));
    assert!(idle.ends().await, "an idle connection stays");
    assert!(
        TcpStream::connect(address).await.is_err(),
        "it still listens"
    );
    send.send(Part::Last("data: 1\n\n".into())).unwrap();
    assert_eq!(client.chunk().await.unwrap(), b"data: 1\n\n");
    assert_eq!(client.chunk().await.unwrap(), b"");
    assert!(client.ends().await);
    timeout(LIMIT, stopping).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_cut_when_the_front_stops() {
    let (front, served) = start(options());
    let (tell, mut told) = mpsc::unbounded_channel();
    *served.waits.lock().unwrap() = Some(tell);
    let mut client = Client::to(front.address()).await;
    client.say(get("/wait", "")).await;
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(true));
    timeout(LIMIT, front.stop(SHORT))
        .await
        .expect("it never stops");
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(false));
    assert!(client.ends().await);
}

#[tokio::test]
async fn a_front_that_is_dropped_ends_at_once() {
    let (front, served) = start(options());
    let (tell, mut told) = mpsc::unbounded_channel();
    *served.waits.lock().unwrap() = Some(tell);
    let mut client = Client::to(front.address()).await;
    client.say(get("/wait", "")).await;
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(true));
    drop(front);
    assert_eq!(timeout(LIMIT, told.recv()).await.unwrap(), Some(false));
}

#[tokio::test]
async fn without_keys_only_a_loopback_address_is_taken() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let options = FrontOptions::new(address.parse().unwrap(), Arc::new(Access::anyone()));
        let error = Front::bind(options, Arc::new(Served::default())).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("without keys only a loopback address"),
            "{error}"
        );
    }
}

#[test]
fn options_that_cannot_be_are_refused_by_name() {
    let refused = |options: FrontOptions, part: &str| {
        let error = Front::bind(options, Arc::new(Served::default()))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    };
    let mut wild = options();
    wild.cors = Some(Cors {
        origins: vec!["*".into()],
        credentials: true,
    });
    refused(wild, "`*` with credentials");
    let mut path = options();
    path.cors = Some(Cors {
        origins: vec!["https://a.example/".into()],
        credentials: false,
    });
    refused(path, "https://a.example/");
    let mut port = options();
    port.cors = Some(Cors {
        origins: vec!["https://a.example:443".into()],
        credentials: false,
    });
    let said = port.cors.as_ref().unwrap().check().unwrap_err();
    assert!(said.to_string().contains("leave `:443` out"), "{said}");
    refused(port, "is never sent");
    let mut none = options();
    none.bounds.connections = 0;
    refused(none, "`connections`: 0 is less than 1");
    refused(options(), "tokio runtime");
}

#[tokio::test]
async fn an_address_is_taken_before_anybody_is_answered_and_who_comes_meanwhile_is_turned_away() {
    let bound = Bound::new(options()).unwrap();
    let address = bound.address();
    let turned_away = std::net::TcpStream::connect(address).unwrap_err();
    assert_eq!(turned_away.kind(), ErrorKind::ConnectionRefused);
    let other = std::net::TcpListener::bind(address).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::AddrInUse);
    let front = bound.serve(Arc::new(Served::default())).unwrap();
    assert_eq!(front.address(), address);
    let mut client = Client::to(address).await;
    client.say(get("/echo", "")).await;
    assert_eq!(client.answer().await.status, 200);
    drop(client);
    front.stop(LIMIT).await;
    // Whatever is left of its connections, the next one gets the address.
    let mut again = options();
    again.address = address;
    let again = Bound::new(again).unwrap();
    again.serve(Arc::new(Served::default())).unwrap();
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let (front, _served) = start(options());
    let mut again = options();
    again.address = front.address();
    let error = Front::bind(again, Arc::new(Served::default())).unwrap_err();
    assert!(
        error.to_string().contains(&front.address().to_string()),
        "{error}"
    );
}

#[tokio::test]
async fn a_connection_goes_over_to_another_protocol() {
    let (front, _served) = start(options());
    let mut client = Client::to(front.address()).await;
    client
        .say(get("/over", "connection: upgrade\r\nupgrade: mirror\r\n") + "ahead")
        .await;
    let (status, head) = client.head().await;
    assert_eq!(status, 101, "{head}");
    client.say(" and after").await;
    assert_eq!(client.until(b"after").await.unwrap(), b"ahead and after");
    drop(client);
    timeout(LIMIT, front.stop(Duration::from_secs(30)))
        .await
        .expect("the connection is kept");
}
