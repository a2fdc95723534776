//! Lines that come in beside those of workers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::{AuditDoor, Audited, DoorShut, EntryCipher, Shown};

use super::line::members;
use super::log::now;

/// Most bytes of lines that wait for a cut.
const MOST: usize = 8 << 20;
/// Most questions that are under way.
const OPEN: usize = 64;

/// The door of an audit: one worker takes out with its cut what came in.
pub(super) struct Door {
    cipher: Arc<dyn EntryCipher>,
    content: usize,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    lines: Vec<String>,
    bytes: usize,
    ended: bool,
    /// Questions that have begun and not ended.
    open: BTreeMap<u64, Arc<dyn Shown>>,
    next: u64,
}

impl Door {
    pub(super) fn new(cipher: Arc<dyn EntryCipher>, content: usize) -> Door {
        Door {
            cipher,
            content,
            waits: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// What came in since it was last taken.
    pub(super) fn take_out(&self) -> Vec<String> {
        let mut waits = self.lock();
        waits.bytes = 0;
        std::mem::take(&mut waits.lines)
    }

    /// The same with what has not ended as it stands, and nothing comes in any more. None if the system gives no
    /// randomness.
    pub(super) fn shut(&self) -> Option<Vec<String>> {
        let (mut lines, open) = {
            let mut waits = self.lock();
            waits.ended = true;
            waits.bytes = 0;
            (
                std::mem::take(&mut waits.lines),
                std::mem::take(&mut waits.open),
            )
        };
        // Who ends one just now holds it, and comes in here: so nothing is held here.
        let mut made = Some(());
        for question in open.into_values() {
            question.close(&mut |audited| match self.line(audited) {
                Ok(line) => lines.push(line),
                Err(_) => made = None,
            });
        }
        made.map(|()| lines)
    }

    fn line(&self, audited: &Audited<'_>) -> Result<String, DoorShut> {
        let made = members(audited, now(), self.cipher.as_ref(), self.content);
        made.ok_or(DoorShut::Randomness)
    }
}

impl Waits {
    fn add(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push(line);
    }
}

impl AuditDoor for Door {
    fn take(&self, audited: &Audited<'_>) -> Result<(), DoorShut> {
        let line = self.line(audited)?;
        let mut waits = self.lock();
        if waits.ended {
            return Err(DoorShut::Ended);
        }
        if waits.bytes + line.len() > MOST {
            return Err(DoorShut::Full { limit: MOST });
        }
        waits.add(line);
        Ok(())
    }

    fn begin(&self, question: Arc<dyn Shown>) -> Result<u64, DoorShut> {
        let mut waits = self.lock();
        if waits.ended {
            return Err(DoorShut::Ended);
        }
        // One that has begun is taken whatever waits then: a line each, and few are under way.
        if waits.bytes >= MOST || waits.open.len() >= OPEN {
            return Err(DoorShut::Full { limit: MOST });
        }
        waits.next += 1;
        let place = waits.next;
        waits.open.insert(place, question);
        Ok(place)
    }

    fn end(&self, place: u64, audited: Option<&Audited<'_>>) -> Result<(), DoorShut> {
        let line = audited.map(|audited| self.line(audited)).transpose()?;
        let mut waits = self.lock();
        // Without its place it is being told to close.
        if waits.open.remove(&place).is_none() {
            return Err(DoorShut::Ended);
        }
        if let Some(line) = line {
            waits.add(line);
        }
        Ok(())
    }
}
