//! Lines that come in beside those of workers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_contract::{AuditDoor, Audited, DoorShut, EntryCipher};

use super::line::members;
use super::log::now;

/// Most bytes of lines that wait for a cut.
const MOST: usize = 8 << 20;

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

    /// The same, and nothing comes in any more.
    pub(super) fn shut(&self) -> Vec<String> {
        self.lock().ended = true;
        self.take_out()
    }
}

impl AuditDoor for Door {
    fn take(&self, audited: &Audited<'_>) -> Result<(), DoorShut> {
        let made = members(audited, now(), self.cipher.as_ref(), self.content);
        let line = made.ok_or(DoorShut::Randomness)?;
        let mut waits = self.lock();
        if waits.ended {
            return Err(DoorShut::Ended);
        }
        if waits.bytes + line.len() > MOST {
            return Err(DoorShut::Full { limit: MOST });
        }
        waits.bytes += line.len();
        waits.lines.push(line);
        Ok(())
    }
}
