//! Bodies that are held have a bound: of all clients together, and of each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_gateway::access::{Access, AccessOptions, Permissions};
use tidegate_gateway::front::{Front, FrontOptions, Reason};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::client::{Client, LIMIT};
use crate::keys::key;
use crate::served::{BODY, Served, options};

/// Room for ten bodies, of which one client has two.
const ROOM: usize = 1 << 20;

fn start(mut options: FrontOptions) -> Front {
    options.bounds.bodies = ROOM;
    Front::bind(options, Arc::new(Served::default())).unwrap()
}

/// A front that knows so many keys: `sk-0` and so on.
fn with_keys(count: usize) -> Front {
    let key = |number| {
        let (name, secret) = (format!("client-{number}"), format!("sk-{number}"));
        key(&name, &secret, Permissions::default())
    };
    let known = AccessOptions {
        keys: (0..count).map(key).collect(),
        ..AccessOptions::default()
    };
    start(FrontOptions {
        access: Arc::new(Access::new(known, None).unwrap()),
        ..options()
    })
}

/// Sends a body but for its last byte.
async fn begin(client: &mut Client, headers: &str) {
    let head = format!(
        "POST /echo HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {BODY}\r\n\r\n"
    );
    client.say(head + &"y".repeat(BODY as usize - 1)).await;
}

/// Waits until so many were refused for this.
async fn until_refused(front: &Front, reason: Reason, count: u64) {
    let refused = async {
        while !front.refused().all().any(|found| found == (reason, count)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LIMIT, refused).await.expect("they are not refused");
}

/// Sends the last byte of each, and says how many were answered so.
async fn end(clients: &mut [Client], status: u16, code: &str) -> usize {
    let mut refused = 0;
    for client in clients {
        // Who was refused may have gone.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, b"y").await;
        let answer = client.answer().await;
        if answer.status != 200 {
            assert_eq!((answer.status, &*answer.error_code()), (status, code));
            refused += 1;
        }
    }
    refused
}

async fn connect(front: &Front, from: &str) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    let from: SocketAddr = from.parse().unwrap();
    socket.bind(from).unwrap();
    Client::over(socket.connect(front.address()).await.unwrap())
}

#[tokio::test]
async fn one_client_does_not_hold_the_room_of_all() {
    // By its key, or by its address where nobody has one.
    for keyed in [true, false] {
        let front = match keyed {
            true => with_keys(2),
            false => start(options()),
        };
        let mut clients = Vec::new();
        for _ in 0..12 {
            let mut client = Client::to(front.address()).await;
            begin(&mut client, "x-api-key: sk-0\r\n").await;
            clients.push(client);
        }
        until_refused(&front, Reason::TooManyBodies, 10).await;
        let mut other = match keyed {
            true => Client::to(front.address()).await,
            false => connect(&front, "127.0.0.2:0").await,
        };
        begin(&mut other, "x-api-key: sk-1\r\n").await;
        assert_eq!(end(&mut [other], 429, "too_many_bodies").await, 0);
        assert_eq!(end(&mut clients, 429, "too_many_bodies").await, 10);
        // What was held is free again.
        let mut again = Client::to(front.address()).await;
        begin(&mut again, "x-api-key: sk-0\r\n").await;
        assert_eq!(end(&mut [again], 429, "too_many_bodies").await, 0);
    }
}

#[tokio::test]
async fn bodies_of_all_clients_together_have_a_limit() {
    let front = with_keys(12);
    let mut clients = Vec::new();
    for number in 0..12 {
        let mut client = Client::to(front.address()).await;
        begin(&mut client, &format!("x-api-key: sk-{number}\r\n")).await;
        clients.push(client);
    }
    until_refused(&front, Reason::Overloaded, 2).await;
    assert_eq!(end(&mut clients, 503, "overloaded").await, 2);
}
