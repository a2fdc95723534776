//! What hyper reads, and where it comes from: heads that are checked, bodies, and what follows an upgrade.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::time::Instant;

use super::super::head::{self, Framing};
use super::super::refusal::Refusal;
use super::{Phase, Wire};

/// Read from a socket at once.
const STEP: usize = 16 * 1024;

/// What stands for a head that was refused: hyper parses it, and the service answers with the refusal.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";

impl Wire {
    /// Reads into the buffer. False at the end.
    pub(super) fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
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
        if !self.has_begun() {
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

    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.refusal = Some(refusal);
        self.last = true;
        self.phase = Phase::Refuse(0);
        self.nudge = true;
    }

    pub(super) fn poll_read(
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

    /// Reads and forgets what still comes, at most so many bytes.
    pub(in crate::front) fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        most: &mut usize,
    ) -> Poll<()> {
        loop {
            *most = most.saturating_sub(self.ahead.len());
            self.ahead.clear();
            if *most == 0 {
                return Poll::Ready(());
            }
            match self.fill(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }
}
