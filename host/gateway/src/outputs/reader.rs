//! Following an output, whichever way its records go out.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::log::{End, OutputLog};
use crate::ingest::Refusal;

/// Bytes of records that are taken at a time, one larger record excepted.
const PAGE: usize = 64 << 10;

/// Where a client wants to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// With what comes next.
    Now,
    /// With the oldest that is kept.
    Start,
    /// After this id.
    After {
        /// Its first part.
        epoch: String,
        /// Its second.
        offset: u64,
    },
}

impl Begin {
    /// `now`, `start`, or an id.
    pub(super) fn parse(text: &str) -> Option<Begin> {
        match text {
            "now" => Some(Begin::Now),
            "start" => Some(Begin::Start),
            id => {
                let (epoch, offset) = id.split_once('-')?;
                let hexadecimal = epoch.len() == 16
                    && epoch
                        .bytes()
                        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
                let decimal = offset.bytes().all(|digit| digit.is_ascii_digit());
                (hexadecimal && decimal).then_some(())?;
                Some(Begin::After {
                    epoch: epoch.to_owned(),
                    offset: offset.parse().ok()?,
                })
            }
        }
    }
}

/// Records that a reader does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The last id before it.
    after: String,
    /// The id that comes next.
    next: String,
    /// How many; none if that is not known.
    missing: Option<u64>,
    reason: &'static str,
}

impl Gap {
    pub(super) fn json(&self) -> Value {
        json!({
            "after": self.after,
            "next": self.next,
            "missing": self.missing,
            "reason": self.reason,
        })
    }
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// These are gone.
    Gap(Gap),
    /// Ids and records.
    Records(Vec<(String, Bytes)>),
    /// No more.
    Closed,
}

/// One who follows an output.
#[derive(Debug)]
pub(super) struct Reader {
    log: Arc<OutputLog>,
    end: watch::Receiver<End>,
    next: u64,
    gap: Option<Gap>,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    pub(super) fn new(
        log: &Arc<OutputLog>,
        place: OwnedSemaphorePermit,
        begin: Begin,
    ) -> Result<Reader, Refusal> {
        let end = log.follow();
        let (ends, first) = (end.borrow().next, log.first());
        let mut gap = None;
        let next = match begin {
            Begin::Now => ends,
            Begin::Start => first,
            Begin::After { epoch, offset } if epoch == log.epoch() => {
                if offset >= ends {
                    let why = format!("id {epoch}-{offset} was not given yet");
                    return Err(Refusal::bad("invalid_event_id", why).of("Last-Event-ID"));
                }
                offset + 1
            }
            // What became of another epoch's records is not known here: all that is kept is shown.
            Begin::After { epoch, offset } => {
                gap = Some(Gap {
                    after: format!("{epoch}-{offset}"),
                    next: id(log, first),
                    missing: None,
                    reason: "epoch",
                });
                first
            }
        };
        Ok(Reader {
            log: log.clone(),
            end,
            next,
            gap,
            _place: place,
        })
    }

    /// The id that the next record follows. After a gap that is still to be told there is none.
    pub(super) fn at(&self) -> Option<String> {
        self.gap.is_none().then(|| id(&self.log, self.next - 1))
    }

    /// Waits for what comes next. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            if let Some(gap) = self.gap.take() {
                return Next::Gap(gap);
            }
            // Before the log is looked at: what comes after is told.
            let closed = self.end.borrow_and_update().closed;
            let page = self.log.page(self.next, PAGE);
            if page.first > self.next {
                let gap = Gap {
                    after: id(&self.log, self.next - 1),
                    next: id(&self.log, page.first),
                    missing: Some(page.first - self.next),
                    reason: "expired",
                };
                self.next = page.first;
                return Next::Gap(gap);
            }
            if !page.records.is_empty() {
                let records = page.records.into_iter().zip(self.next..);
                let records: Vec<_> = records
                    .map(|(record, offset)| (id(&self.log, offset), record))
                    .collect();
                self.next += records.len() as u64;
                return Next::Records(records);
            }
            if closed || self.end.changed().await.is_err() {
                return Next::Closed;
            }
        }
    }
}

fn id(log: &OutputLog, offset: u64) -> String {
    format!("{}-{offset}", log.epoch())
}
