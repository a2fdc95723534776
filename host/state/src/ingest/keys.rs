//! Idempotency keys: those of the newest batches, whether their records are still in the log or not.
//!
//! The file, all numbers little-endian: magic (8), version (4), number of keys (4), id of the log (16), the keys in the
//! order of their batches (digest of the key 32, of the body 32, first offset 8, number of records 4), CRC-32 of all
//! before (4). It is replaced before a segment whose keys it holds is let go of.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use tidegate_contract::IdempotencyKey;

use super::format::{Bytes, LogId};

const MAGIC: [u8; 8] = *b"TDGINKEY";
const VERSION: u32 = 1;
const HEADER: usize = 32;
const KEY: usize = 76;

/// A batch that came with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) body: [u8; 32],
    pub(super) first: u64,
    pub(super) count: u32,
}

/// The newest keys.
#[derive(Debug)]
pub(super) struct Keys {
    most: usize,
    known: HashMap<[u8; 32], Known>,
    /// Keys by the first offset of their batch.
    order: BTreeMap<u64, [u8; 32]>,
}

impl Keys {
    /// At most so many.
    pub(super) fn new(most: usize) -> Keys {
        Keys {
            most,
            known: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, key: &[u8; 32]) -> Option<Known> {
        self.known.get(key).copied()
    }

    pub(super) fn put(&mut self, idempotency: IdempotencyKey, first: u64, count: u32) {
        let IdempotencyKey { key, body } = idempotency;
        let new = Known { body, first, count };
        match self.known.get(&key) {
            // Segments are not read in the order in which they were written.
            Some(old) if old.first > first => return,
            Some(old) => self.order.remove(&old.first),
            None => None,
        };
        self.known.insert(key, new);
        self.order.insert(first, key);
        while self.order.len() > self.most {
            if let Some((_, oldest)) = self.order.pop_first() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Those of batches that begin at these offsets, in their order: key, first offset and number of records.
    pub(super) fn within(&self, offsets: Range<u64>) -> Vec<([u8; 32], u64, u32)> {
        let keys = self.order.range(offsets).filter_map(|(first, key)| {
            let known = self.known.get(key)?;
            Some((*key, *first, known.count))
        });
        keys.collect()
    }

    /// Those of batches before this offset are not known any more.
    pub(super) fn forget(&mut self, before: u64) {
        let kept = self.order.split_off(&before);
        for key in std::mem::replace(&mut self.order, kept).values() {
            self.known.remove(key);
        }
    }

    /// The file with those of batches before this offset: what the log itself has is read from there.
    pub(super) fn write(&self, id: &LogId, before: u64) -> Vec<u8> {
        let kept: Vec<_> = self.order.range(..before).collect();
        let mut bytes = Vec::with_capacity(HEADER + kept.len() * KEY + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(kept.len() as u32).to_le_bytes());
        bytes.extend_from_slice(id);
        for (first, key) in kept {
            let Some(known) = self.known.get(key) else {
                continue;
            };
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(&known.body);
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&known.count.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Takes what a file has. Returns the id of its log.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<LogId, &'static str> {
        let damaged = "the file of idempotency keys is damaged";
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(damaged)?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return Err(damaged);
        }
        let mut body = Bytes(body);
        if body.array() != Some(MAGIC) {
            return Err("this is no file of idempotency keys");
        }
        if body.u32() != Some(VERSION) {
            return Err("it was written by another version of Tidegate");
        }
        let count = body.u32().ok_or(damaged)?;
        let id = body.array().ok_or(damaged)?;
        for _ in 0..count {
            let key = body.array().ok_or(damaged)?;
            let digest = body.array().ok_or(damaged)?;
            let (first, count) = (body.u64().ok_or(damaged)?, body.u32().ok_or(damaged)?);
            self.put(IdempotencyKey { key, body: digest }, first, count);
        }
        Ok(id)
    }
}
