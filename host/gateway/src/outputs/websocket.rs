//! An output over a WebSocket: text frames of one JSON object each.
//!
//! `{"at": ID}` first, unless there is a gap; `{"id": ID, "record": ...}`; `{"gap": {...}}`. A client has nothing to say:
//! what it sends is read to keep the protocol, and not looked at.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use hyper::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{HeaderMap, StatusCode};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::meter::Metered;
use super::reader::{Next, Reader};
use crate::exchange::Duplex;
use crate::ingest::Refusal;

/// Longest message of a client in bytes.
const MOST: usize = 4096;
/// How long a client may take for what is sent to it.
const SENDING: Duration = Duration::from_secs(30);
/// How often a client is asked whether it is there.
const ASKING: Duration = Duration::from_secs(15);
/// How long a client may be silent.
const SILENCE: Duration = Duration::from_secs(45);
/// How long a client may take to close.
const CLOSING: Duration = Duration::from_secs(1);
/// RFC 6455, section 1.3.
const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

type Socket = WebSocketStream<Metered<Box<dyn Duplex>>>;

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    has_token(headers, UPGRADE, "websocket")
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let mut tokens = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tokens.any(|found| found.trim().eq_ignore_ascii_case(token))
}

/// What the handshake is answered with.
pub(super) fn accept(headers: &HeaderMap) -> Result<Vec<(HeaderName, HeaderValue)>, Refusal> {
    let bad = |why: &str| Refusal::bad("invalid_handshake", why);
    if !has_token(headers, CONNECTION, "upgrade") {
        return Err(bad("Connection does not name Upgrade").of("Connection"));
    }
    let version = headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != "13") {
        let message = "version 13 of the WebSocket protocol is spoken";
        let refusal = Refusal::new(StatusCode::UPGRADE_REQUIRED, "invalid_handshake", message);
        return Err(refusal
            .of("Sec-WebSocket-Version")
            .with(SEC_WEBSOCKET_VERSION, "13"));
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let key = keys.next().filter(|_| keys.next().is_none());
    let key = key.filter(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == 16));
    let key = key.ok_or_else(|| {
        bad("Sec-WebSocket-Key is not 16 bytes in base64").of("Sec-WebSocket-Key")
    })?;
    let accept = [key.as_bytes(), SUFFIX].concat();
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &accept));
    let accept = HeaderValue::try_from(accept).map_err(|_| bad("Sec-WebSocket-Key"))?;
    Ok(vec![
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ])
}

/// Sends all that comes, until the client goes or the output ends.
pub(super) async fn serve(reader: Reader, connection: Box<dyn Duplex>) {
    let config = WebSocketConfig::default()
        .read_buffer_size(MOST)
        .write_buffer_size(16 << 10)
        .max_message_size(Some(MOST))
        .max_frame_size(Some(MOST));
    let connection = Metered::new(connection);
    let mut socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
    let Some((code, reason)) = follow(reader, &mut socket).await else {
        return;
    };
    let frame = CloseFrame {
        code,
        reason: reason.into(),
    };
    if timeout(CLOSING, socket.close(Some(frame))).await.is_ok() {
        let _ = timeout(CLOSING, drain(socket.get_mut().get_mut())).await;
    }
}

/// Until the end. Says how to close, if the client is still to hear that.
async fn follow(mut reader: Reader, socket: &mut Socket) -> Option<(CloseCode, &'static str)> {
    let mut asking = interval(ASKING);
    asking.set_missed_tick_behavior(MissedTickBehavior::Delay);
    asking.tick().await;
    if let Some(id) = reader.at() {
        send(socket, vec![json!({"at": id}).to_string()]).await?;
    }
    loop {
        tokio::select! {
            next = reader.next() => match next {
                Next::Records(records) => {
                    let text = |(id, record): &(String, bytes::Bytes)| {
                        // Checked as UTF-8 when it was encoded.
                        format!("{{\"id\":\"{id}\",\"record\":{}}}", String::from_utf8_lossy(record))
                    };
                    send(socket, records.iter().map(text).collect()).await?;
                }
                Next::Gap(gap) => send(socket, vec![json!({"gap": gap.json()}).to_string()]).await?,
                Next::Closed => return Some((CloseCode::Away, "the output has ended")),
            },
            message = socket.next() => match message {
                // The answer to a goodbye goes out with the next read, which ends the connection.
                Some(Ok(_)) => {}
                Some(Err(error)) => return close_code(&error, socket.get_ref().flooded),
                None => return None,
            },
            _ = asking.tick() => {
                if socket.get_ref().heard.elapsed() > SILENCE {
                    return None;
                }
                let ping = socket.send(Message::Ping(bytes::Bytes::new()));
                timeout(SENDING, ping).await.ok()?.ok()?;
            }
        }
    }
}

/// Sends these texts. None if the client does not take them.
async fn send(socket: &mut Socket, texts: Vec<String>) -> Option<()> {
    for text in texts {
        timeout(SENDING, socket.feed(Message::text(text)))
            .await
            .ok()?
            .ok()?;
    }
    timeout(SENDING, socket.flush()).await.ok()?.ok()
}

/// RFC 6455, section 7.4.1.
fn close_code(error: &Error, flooded: bool) -> Option<(CloseCode, &'static str)> {
    match error {
        Error::Capacity(_) => Some((CloseCode::Size, "at most 4096 bytes are taken")),
        Error::Utf8(_) => Some((CloseCode::Invalid, "not UTF-8")),
        Error::Protocol(_) => Some((CloseCode::Protocol, "not the WebSocket protocol")),
        Error::Io(_) if flooded => Some((CloseCode::Policy, "too much was sent")),
        _ => None,
    }
}

/// Reads what a client still sends, so that the system does not drop the goodbye with what was never read.
async fn drain(connection: &mut Box<dyn Duplex>) {
    const MOST_DRAINED: usize = 64 << 10;
    let mut left = MOST_DRAINED;
    let mut buffer = [0; 4096];
    if connection.shutdown().await.is_err() {
        return;
    }
    while let Ok(read @ 1..) = connection.read(&mut buffer).await {
        match left.checked_sub(read) {
            Some(less) => left = less,
            None => return,
        }
    }
}
