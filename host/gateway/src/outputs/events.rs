//! An output as server-sent events.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::reader::{Next, Reader};
use crate::exchange::{Gone, Part};

/// Bytes that may wait for a slow client, one larger part excepted.
const WINDOW: usize = 256 << 10;

/// Bytes that give their place back when they have gone out.
struct Placed {
    bytes: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends all that comes, until the client goes or the output ends.
pub(super) async fn send(mut reader: Reader, parts: mpsc::UnboundedSender<Part>, mut gone: Gone) {
    let window = Arc::new(Semaphore::new(WINDOW));
    // An id without data is no event, but where a client that has seen none yet goes on after it connects again.
    let begin = reader.at().map(|id| format!("id: {id}\n\n").into_bytes());
    let mut next = begin.unwrap_or_default();
    loop {
        if !next.is_empty() {
            let size = next.len().min(WINDOW) as u32;
            let place = tokio::select! {
                place = window.clone().acquire_many_owned(size) => place,
                () = gone.wait() => return,
                () = parts.closed() => return,
            };
            let Ok(place) = place else { return };
            let placed = Placed {
                bytes: next,
                _place: place,
            };
            if parts.send(Part::Bytes(Bytes::from_owner(placed))).is_err() {
                return;
            }
        }
        let came = tokio::select! {
            came = reader.next() => came,
            () = gone.wait() => return,
            () = parts.closed() => return,
        };
        next = match came {
            Next::Records(records) => events(&records),
            // Without an id: who leaves now comes back with the old one, and is told again.
            Next::Gap(gap) => format!("event: gap\ndata: {}\n\n", gap.json()).into_bytes(),
            Next::Closed => {
                let _ = parts.send(Part::Last(Bytes::new()));
                return;
            }
        };
    }
}

fn events(records: &[(String, Bytes)]) -> Vec<u8> {
    let size: usize = records
        .iter()
        .map(|(id, record)| id.len() + record.len() + 14)
        .sum();
    let mut out = Vec::with_capacity(size);
    for (id, record) in records {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(record);
        out.extend_from_slice(b"\n\n");
    }
    out
}
