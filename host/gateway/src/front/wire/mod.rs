//! The bytes of a connection, between the socket and hyper.
//!
//! hyper is given one request at a time: its head when all of it is there and checked, then its body and no byte more.
//! What a client sends ahead waits here, in a bounded buffer, so that the end of a connection is seen while an answer is
//! made, also behind a second request. hyper alone would not look past that request.

mod reading;
mod shared;

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use tokio::time::Instant;

pub(super) use shared::Shared;

use super::head::Framing;
use super::refusal::Refusal;
use super::refused::Reason;
use crate::exchange::{Duplex, Takeover};

/// Bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of a head, and of what is read ahead.
    pub(super) head: usize,
    /// From the first byte of a head to its last. An empty line before it is a part of it.
    pub(super) head_time: Duration,
    /// Between requests.
    pub(super) idle: Duration,
    /// A write that makes no progress.
    pub(super) write: Duration,
}

/// What the wire does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for a head.
    Head,
    /// Hands a checked head over: so many bytes, then what follows.
    Deliver(usize, Framing),
    /// Hands the refusal's head over, from this byte on.
    Refuse(usize),
    /// Hands a body over.
    Body(Framing),
    /// An answer is made: reads ahead.
    Answer,
    /// The last answer goes out; nothing is read any more.
    Last,
    /// Another protocol: bytes pass.
    Open,
}

/// What is to be done with a connection.
pub(super) enum Verdict {
    /// Nothing before this instant.
    Wait(Option<Instant>),
    /// hyper has something to do.
    Again,
    /// It has ended, or is to end: by whose fault, if it is the client's.
    Cut(Option<Reason>),
}

pub(super) struct Wire {
    stream: Box<dyn Duplex>,
    bounds: Bounds,
    phase: Phase,
    /// Read and not handed over.
    ahead: Vec<u8>,
    /// So much of it holds no end of a head.
    scanned: usize,
    /// An empty line came before the head.
    slipped: bool,
    /// The client has ended its side.
    ended: bool,
    /// Why the head is refused.
    refusal: Option<Refusal>,
    /// The answer to come is the last of this connection.
    last: bool,
    /// Since when there is nothing to do, or a head is coming.
    since: Instant,
    /// Since when a write waits.
    blocked: Option<Instant>,
    /// Writes that went out whole.
    flushed: u64,
    /// The body broke: the connection ends once more than so many writes went out.
    breaking: Option<u64>,
    /// hyper is to look again.
    nudge: bool,
    /// What is spoken after this request.
    takeover: Option<(OnUpgrade, Takeover)>,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Duplex>, bounds: Bounds) -> Wire {
        Wire {
            stream,
            bounds,
            phase: Phase::Head,
            ahead: Vec::new(),
            scanned: 0,
            slipped: false,
            ended: false,
            refusal: None,
            last: false,
            since: Instant::now(),
            blocked: None,
            flushed: 0,
            breaking: None,
            nudge: false,
            takeover: None,
        }
    }

    /// The refusal of the request that hyper has been given, if it was refused.
    pub(super) fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// The request has been read whole, and an answer is made.
    pub(super) fn read_whole(&mut self) {
        if let Phase::Body(framing) = self.phase {
            // Behind chunks hyper may hold the beginning of what follows. Nothing may follow.
            self.last |= framing == Framing::Chunked;
            self.phase = Phase::Answer;
            self.nudge = true;
        }
    }

    /// The request is refused. If there is more of it, that is not read, and the answer to come is the last.
    pub(super) fn end_unless_read(&mut self) {
        if self.phase != Phase::Answer {
            self.last = true;
            self.phase = Phase::Last;
        }
    }

    /// Whether the answer to come is the last.
    pub(super) fn is_last(&self) -> bool {
        self.last
    }

    /// The answer is over: on to the next request.
    pub(super) fn answered(&mut self) {
        if self.phase == Phase::Open {
            return;
        }
        self.phase = if self.last || self.phase != Phase::Answer {
            Phase::Last
        } else {
            Phase::Head
        };
        self.since = Instant::now();
        self.slipped = false;
        self.nudge = true;
    }

    /// The body of the answer has broken: what went before is sent, then the connection ends.
    pub(super) fn break_off(&mut self) {
        self.breaking = Some(self.flushed);
    }

    /// Bytes pass from now on: another protocol begins.
    pub(super) fn open(&mut self, upgrade: OnUpgrade, takeover: Takeover) {
        self.phase = Phase::Open;
        self.takeover = Some((upgrade, takeover));
    }

    /// The protocol that hyper has left the connection to.
    pub(super) fn take_takeover(&mut self) -> Option<(OnUpgrade, Takeover)> {
        self.takeover.take()
    }

    /// Whether unread bytes of the client may be on their way.
    pub(super) fn wants_linger(&self) -> bool {
        self.phase == Phase::Last && !self.ended
    }

    /// What is due on this connection, after hyper has done all it can.
    pub(super) fn attend(&mut self, cx: &mut Context<'_>) -> Verdict {
        if self.breaking.is_some_and(|before| self.flushed > before) {
            return Verdict::Cut(None);
        }
        while self.phase == Phase::Answer {
            match self.fill(cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(true)) if self.ahead.len() <= self.bounds.head => {}
                // More ahead than anyone needs: with a full buffer the end could not be seen.
                Poll::Ready(Ok(true)) => return Verdict::Cut(Some(Reason::SentAhead)),
                Poll::Ready(_) => return Verdict::Cut(None),
            }
        }
        if std::mem::take(&mut self.nudge) {
            return Verdict::Again;
        }
        let now = Instant::now();
        let waiting = match self.phase {
            Phase::Head if self.has_begun() => Some(self.since + self.bounds.head_time),
            Phase::Head => Some(self.since + self.bounds.idle),
            _ => None,
        };
        if waiting.is_some_and(|until| until <= now) {
            // An answer to an empty line alone could be taken for that to the next request.
            if self.ahead.is_empty() {
                return Verdict::Cut(None);
            }
            self.refuse(Refusal::slow("the head did not come in time"));
            self.nudge = false;
            return Verdict::Again;
        }
        let blocked = self.blocked.map(|since| since + self.bounds.write);
        if blocked.is_some_and(|until| until <= now) {
            return Verdict::Cut(Some(Reason::ReaderStopped));
        }
        Verdict::Wait(waiting.into_iter().chain(blocked).min())
    }

    /// Whether anything has come of the next request.
    fn has_begun(&self) -> bool {
        self.slipped || !self.ahead.is_empty()
    }

    /// Notes whether writing goes on.
    fn wrote<T>(&mut self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match polled {
            Poll::Pending => {
                self.blocked.get_or_insert_with(Instant::now);
            }
            Poll::Ready(_) => self.blocked = None,
        }
        polled
    }
}
