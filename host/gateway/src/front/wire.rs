//! The bytes of a connection, between the socket and hyper.
//!
//! hyper is given one request at a time: its head when all of it is there and checked, then its body and no byte more.
//! What a client sends ahead waits here, in a bounded buffer, so that the end of a connection is seen while an answer is
//! made, also behind a second request. hyper alone would not look past that request.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::ReadBufCursor;
use hyper::upgrade::OnUpgrade;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::Instant;

use super::head::{self, Framing};
use super::refusal::Refusal;
use crate::exchange::{Duplex, Takeover};

/// Read from a socket at once.
const STEP: usize = 16 * 1024;

/// What stands for a head that was refused: hyper parses it, and the service answers with the refusal.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";

/// Bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of a head, and of what is read ahead.
    pub(super) head: usize,
    /// From the first byte of a head to its last.
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
    /// It has ended, or is to end.
    Cut,
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

    /// Reads into the buffer. False at the end.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.ended {
            return Poll::Ready(Ok(false));
        }
        let mut bytes = [0; STEP];
        let mut buffer = ReadBuf::new(&mut bytes);
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        if buffer.filled().is_empty() {
            self.ended = true;
            return Poll::Ready(Ok(false));
        }
        if self.ahead.is_empty() {
            self.since = Instant::now();
        }
        self.ahead.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(true))
    }

    /// Looks at what has been read of a head. Sets the next phase if there is enough to say.
    fn look_for_head(&mut self) {
        if self.scanned <= 1 && !self.slipped && self.ahead.starts_with(b"\r\n") {
            // RFC 9112, 2.2: an empty line before a request is a client's slip.
            self.ahead.drain(..2);
            self.scanned = 0;
            self.slipped = true;
        }
        let known = match head::end(&self.ahead, self.scanned) {
            Ok(Some(length)) if length <= self.bounds.head => {
                head::check(&self.ahead[..length]).map(|framing| Some((length, framing)))
            }
            Ok(None) if self.ahead.len() <= self.bounds.head => Ok(None),
            Ok(_) => Err(Refusal::head_too_large(format!(
                "the head exceeds {} bytes",
                self.bounds.head
            ))),
            Err(refusal) => Err(refusal),
        };
        // A carriage return at the end, or a part of the empty line, is looked at again.
        self.scanned = self.ahead.len();
        match known {
            Ok(None) => {}
            Ok(Some((length, framing))) => {
                self.scanned = 0;
                self.phase = Phase::Deliver(length, framing);
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.refusal = Some(refusal);
        self.last = true;
        self.phase = Phase::Refuse(0);
        self.nudge = true;
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.phase {
                Phase::Head => {
                    if !self.ahead.is_empty() && self.ahead.len() > self.scanned {
                        self.look_for_head();
                        continue;
                    }
                    if !std::task::ready!(self.fill(cx))? {
                        return Poll::Ready(Ok(()));
                    }
                }
                Phase::Deliver(left, framing) => {
                    let taken = left.min(out.remaining());
                    out.put_slice(&self.ahead[..taken]);
                    self.ahead.drain(..taken);
                    self.phase = match (left - taken, framing) {
                        (0, Framing::None) => Phase::Answer,
                        (0, framing) => Phase::Body(framing),
                        (left, framing) => Phase::Deliver(left, framing),
                    };
                    return Poll::Ready(Ok(()));
                }
                Phase::Refuse(at) => {
                    let taken = (REFUSED.len() - at).min(out.remaining());
                    out.put_slice(&REFUSED[at..at + taken]);
                    self.phase = if at + taken == REFUSED.len() {
                        Phase::Last
                    } else {
                        Phase::Refuse(at + taken)
                    };
                    return Poll::Ready(Ok(()));
                }
                Phase::Body(framing) => {
                    if self.ahead.is_empty() && !std::task::ready!(self.fill(cx))? {
                        return Poll::Ready(Ok(()));
                    }
                    let mut taken = self.ahead.len().min(out.remaining());
                    if let Framing::Length(left) = framing {
                        taken = taken.min(usize::try_from(left).unwrap_or(usize::MAX));
                        let left = left - taken as u64;
                        self.phase = if left == 0 {
                            Phase::Answer
                        } else {
                            Phase::Body(Framing::Length(left))
                        };
                    }
                    out.put_slice(&self.ahead[..taken]);
                    self.ahead.drain(..taken);
                    return Poll::Ready(Ok(()));
                }
                // The task that owns the connection polls `attend` after hyper, and is woken for us.
                Phase::Answer | Phase::Last => return Poll::Pending,
                Phase::Open => {
                    if self.ahead.is_empty() && !std::task::ready!(self.fill(cx))? {
                        return Poll::Ready(Ok(()));
                    }
                    let taken = self.ahead.len().min(out.remaining());
                    out.put_slice(&self.ahead[..taken]);
                    self.ahead.drain(..taken);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// What is due on this connection, after hyper has done all it can.
    pub(super) fn attend(&mut self, cx: &mut Context<'_>) -> Verdict {
        if self.breaking.is_some_and(|before| self.flushed > before) {
            return Verdict::Cut;
        }
        while self.phase == Phase::Answer {
            match self.fill(cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(true)) if self.ahead.len() <= self.bounds.head => {}
                // The end, or more ahead than anyone needs: with a full buffer the end could not be seen.
                Poll::Ready(_) => return Verdict::Cut,
            }
        }
        if std::mem::take(&mut self.nudge) {
            return Verdict::Again;
        }
        let now = Instant::now();
        let waiting = match self.phase {
            Phase::Head if self.ahead.is_empty() => Some(self.since + self.bounds.idle),
            Phase::Head => Some(self.since + self.bounds.head_time),
            _ => None,
        };
        if waiting.is_some_and(|until| until <= now) {
            if self.ahead.is_empty() {
                return Verdict::Cut;
            }
            self.refuse(Refusal::slow("the head did not come in time"));
            self.nudge = false;
            return Verdict::Again;
        }
        let blocked = self.blocked.map(|since| since + self.bounds.write);
        if blocked.is_some_and(|until| until <= now) {
            return Verdict::Cut;
        }
        Verdict::Wait(waiting.into_iter().chain(blocked).min())
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

    /// Reads and forgets what still comes.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.ahead.clear();
            match self.fill(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }
}

/// A wire as hyper, the service and the connection's own task hold it. All of them run in one task, so that the lock is
/// free whenever it is asked for.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Wire>>);

impl Shared {
    pub(super) fn new(wire: Wire) -> Shared {
        Shared(Arc::new(Mutex::new(wire)))
    }

    pub(super) fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl hyper::rt::Read for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.wire().poll_read(cx, out)
    }
}

impl hyper::rt::Write for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_write(cx, bytes);
        wire.wrote(polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_flush(cx);
        if polled.is_ready() {
            wire.flushed += 1;
        }
        wire.wrote(polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_shutdown(cx);
        wire.wrote(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire().stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire();
        let polled = Pin::new(&mut wire.stream).poll_write_vectored(cx, bytes);
        wire.wrote(polled)
    }
}
