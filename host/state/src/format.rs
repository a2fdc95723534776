//! The bytes of the commit log, version 1. All integers are little-endian.
//!
//! ```text
//! file    = header, entries
//! header  = "TGCL", version u32 = 1, reserved u64 = 0
//! entry   = length u32 of the payload, crc32 u32 of the payload (IEEE), crc32 u32 of the eight bytes before, payload
//! payload = kind u8 (1 cut, 2 snapshot), cut number u64, body length u32, body, in-flight
//! body    = JSON: sources, sinks, added and done (numbers of in-flight entries), slots, counters, whether the
//!           run ended with this cut
//! in-flight = empty, or XChaCha20-Poly1305 (nonce 24, ciphertext, tag 16; the cut number is bound to it) of
//!             a run of: number u64, length u32, payload
//! ```
//!
//! A cut is what changed; a snapshot is the sum of all before it and is always the first entry of a compacted file,
//! which is written beside the old one and renamed over it.
//!
//! The position of a source's partition, a slot and a counter take the place of the one before; so does a sink's, if
//! it is in the same file. The positions in the last 1,000 files of a sink are kept, in the order in which they came.
//!
//! Numbers: the first entry is cut 1 or a snapshot of any number; each after it is a cut, with the number before plus
//! one. Anything else is damage.
//!
//! What is assumed of the disk: after fsync returns, the bytes survive; a file written, synced and renamed is seen
//! whole or not at all; an append that was not synced leaves a prefix of its bytes, or zeros in place of some of those
//! behind the entry's header. Such a torn entry at the end of the file is a cut that never was. Any other
//! flaw is damage, because an entry is only appended after the one before it was synced; the log is then refused, for
//! what lies behind the flaw did happen. In detail:
//!
//! | found | taken as |
//! |---|---|
//! | fewer bytes than an entry's header | torn |
//! | header checksum wrong, nothing but zeros behind the header | torn |
//! | header checksum wrong, anything else behind it | damage |
//! | header checksum right, payload goes beyond the end | torn |
//! | payload checksum wrong, nothing but zeros behind the payload | torn |
//! | payload checksum wrong, anything else behind it | damage |
//!
//! Nothing is assumed of an fsync that failed: the kernel may show bytes from its memory that it has given up writing.
//! So who opens a log does not go on with the file it finds, but writes what it has read of it into a new one.
//!
//! The numbers of the entries stand in plain beside the ciphertext: entries that are done need no key any more. Logs
//! from before that have no `added`; of theirs every ciphertext needs its key.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use tidegate_contract::{Cut, InFlightEntry, Recovered, SinkPosition, SlotVersion, SourcePosition};

use crate::cipher::StateKey;

/// First bytes of the file.
pub const MAGIC: [u8; 4] = *b"TGCL";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Bytes before the first entry.
pub const HEADER: usize = 16;
/// Bytes before an entry's payload.
pub const ENTRY_HEADER: usize = 12;

/// Most files that are known of a sink: of one that left more behind, those it wrote longest ago are forgotten.
const MOST_FILES: usize = 1000;

const CUT: u8 = 1;
const SNAPSHOT: u8 = 2;

#[derive(Serialize, Deserialize, Default)]
struct Body {
    sources: Vec<SourcePosition>,
    sinks: Vec<SinkPosition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    added: Vec<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    done: Vec<u64>,
    slots: Vec<SlotVersion>,
    counters: Vec<(String, u64)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
}

/// Why a log cannot be read: the byte, and what is wrong there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    At(usize, Cow<'static, str>),
    Key,
}

impl Damage {
    fn at(byte: usize, why: impl Into<Cow<'static, str>>) -> Damage {
        Damage::At(byte, why.into())
    }
}

/// The header of a new file.
pub(crate) fn header() -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The entry of a cut. None if the system gives no randomness for the nonce.
pub(crate) fn cut_entry(number: u64, cut: &Cut, key: &StateKey) -> Option<Vec<u8>> {
    let body = Body {
        sources: cut.sources.clone(),
        sinks: cut.sinks.clone(),
        added: numbers(&cut.in_flight_added),
        done: cut.in_flight_done.clone(),
        slots: cut.slots.clone(),
        counters: cut.counters.clone(),
        ended: cut.ended,
    };
    entry(CUT, number, &body, cut.in_flight_added.iter(), key)
}

/// The entry of a snapshot.
pub(crate) fn snapshot_entry(state: &Recovered, key: &StateKey) -> Option<Vec<u8>> {
    let body = Body {
        sources: state.sources.clone(),
        sinks: state.sinks.clone(),
        added: numbers(&state.in_flight),
        done: Vec::new(),
        slots: state.slots.clone(),
        counters: state.counters.clone(),
        ended: state.ended,
    };
    entry(SNAPSHOT, state.cut, &body, state.in_flight.iter(), key)
}

fn numbers(entries: &[InFlightEntry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

fn entry<'a>(
    kind: u8,
    number: u64,
    body: &Body,
    in_flight: impl Iterator<Item = &'a InFlightEntry>,
    key: &StateKey,
) -> Option<Vec<u8>> {
    let body = serde_json::to_vec(body).ok()?;
    let mut plain = Vec::new();
    for entry in in_flight {
        plain.extend_from_slice(&entry.number.to_le_bytes());
        plain.extend_from_slice(&u32::try_from(entry.payload.len()).ok()?.to_le_bytes());
        plain.extend_from_slice(&entry.payload);
    }
    let sealed = if plain.is_empty() {
        Vec::new()
    } else {
        key.seal(number, &plain)?
    };
    let mut payload = vec![kind];
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend_from_slice(&u32::try_from(body.len()).ok()?.to_le_bytes());
    payload.extend_from_slice(&body);
    payload.extend_from_slice(&sealed);
    let mut bytes = u32::try_from(payload.len()).ok()?.to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend_from_slice(&payload);
    Some(bytes)
}

/// Entries by number; none for one that cannot be read with the key at hand.
type InFlight = BTreeMap<u64, Option<Vec<u8>>>;

/// Reads a log: the state its cuts add up to, and how many bytes of it are good (what follows is a torn write).
/// Without a key, a log in which nothing waits can be read.
pub(crate) fn read(bytes: &[u8], key: Option<&StateKey>) -> Result<(Recovered, usize), Damage> {
    let mut state = Recovered::default();
    if bytes.len() < HEADER {
        // A crash while the file was made: nothing was ever committed.
        return Ok((state, 0));
    }
    if bytes[..4] != MAGIC {
        return Err(Damage::at(0, "this is not a commit log"));
    }
    if bytes[4..8] != VERSION.to_le_bytes() {
        return Err(Damage::at(4, "written by another version of Tidegate"));
    }
    let mut in_flight = InFlight::new();
    let mut at = HEADER;
    while at < bytes.len() {
        let Some(end) = whole_entry(bytes, at)? else {
            break;
        };
        apply(
            &bytes[at + ENTRY_HEADER..end],
            at,
            key,
            &mut state,
            &mut in_flight,
        )?;
        at = end;
    }
    let waiting = in_flight.into_iter().map(|(number, payload)| {
        let payload = payload.ok_or(Damage::Key)?;
        Ok(InFlightEntry { number, payload })
    });
    state.in_flight = waiting.collect::<Result<_, _>>()?;
    Ok((state, at))
}

/// Where the entry at this byte ends, or none if it is torn.
fn whole_entry(bytes: &[u8], at: usize) -> Result<Option<usize>, Damage> {
    let Some(header) = bytes[at..].first_chunk::<ENTRY_HEADER>() else {
        return Ok(None);
    };
    let [l0, l1, l2, l3, c0, c1, c2, c3, h0, h1, h2, h3] = *header;
    let begin = at + ENTRY_HEADER;
    if crc32fast::hash(&header[..8]) != u32::from_le_bytes([h0, h1, h2, h3]) {
        // The length means nothing. A payload never begins with a zero, so that zeros alone are no entry's.
        return torn_or(
            bytes,
            begin,
            Damage::at(at, "header of an entry is damaged"),
        );
    }
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let Some(end) = begin.checked_add(length).filter(|&end| end <= bytes.len()) else {
        return Ok(None);
    };
    if crc32fast::hash(&bytes[begin..end]) == u32::from_le_bytes([c0, c1, c2, c3]) {
        return Ok(Some(end));
    }
    torn_or(
        bytes,
        end,
        Damage::at(at, "entry is damaged and others follow it"),
    )
}

/// A flawed entry is torn if nothing but zeros was written from this byte on, else it is damage.
fn torn_or(bytes: &[u8], from: usize, damage: Damage) -> Result<Option<usize>, Damage> {
    if bytes[from..].iter().all(|&byte| byte == 0) {
        Ok(None)
    } else {
        Err(damage)
    }
}

fn apply(
    payload: &[u8],
    at: usize,
    key: Option<&StateKey>,
    state: &mut Recovered,
    in_flight: &mut InFlight,
) -> Result<(), Damage> {
    let short = Damage::at(at, "entry is too short");
    let Some((&[kind, n0, n1, n2, n3, n4, n5, n6, n7, b0, b1, b2, b3], rest)) =
        payload.split_first_chunk::<13>()
    else {
        return Err(short);
    };
    let number = u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
    let length = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    let (body, sealed) = rest.split_at_checked(length).ok_or(short)?;
    check_order(kind, number, at, state.cut)?;
    let body: Body = serde_json::from_slice(body)
        .map_err(|_| Damage::at(at, "body of the entry is not valid"))?;
    for done in &body.done {
        in_flight.remove(done);
    }
    if !sealed.is_empty() {
        match key.and_then(|key| key.open(number, sealed)) {
            Some(plain) => read_in_flight(&plain, in_flight)
                .ok_or(Damage::at(at, "in-flight set is not valid"))?,
            None if body.added.is_empty() => return Err(Damage::Key),
            None => in_flight.extend(body.added.iter().map(|number| (*number, None))),
        }
    }
    merge(
        state,
        number,
        body.sources,
        body.sinks,
        body.slots,
        body.counters,
    );
    state.ended = body.ended;
    Ok(())
}

/// Whether an entry of this kind and number may be at this byte, after the cut `last`.
fn check_order(kind: u8, number: u64, at: usize, last: u64) -> Result<(), Damage> {
    match kind {
        SNAPSHOT if at == HEADER => Ok(()),
        SNAPSHOT => Err(Damage::at(at, "a snapshot is not the first entry")),
        CUT if last.checked_add(1) == Some(number) => Ok(()),
        CUT => Err(Damage::at(at, format!("cut {number} follows cut {last}"))),
        _ => Err(Damage::at(at, "entry is of an unknown kind")),
    }
}

fn read_in_flight(mut plain: &[u8], in_flight: &mut InFlight) -> Option<()> {
    while !plain.is_empty() {
        let (number, rest) = plain.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        in_flight.insert(u64::from_le_bytes(*number), Some(payload.to_vec()));
        plain = rest;
    }
    Some(())
}

/// Adds a cut to the state, as recovery would; used by the running log to know what a snapshot must hold.
pub(crate) fn add(state: &mut Recovered, number: u64, cut: &Cut) {
    if !cut.in_flight_done.is_empty() {
        let done: HashSet<u64> = cut.in_flight_done.iter().copied().collect();
        state
            .in_flight
            .retain(|entry| !done.contains(&entry.number));
    }
    for added in &cut.in_flight_added {
        match state
            .in_flight
            .binary_search_by_key(&added.number, |entry| entry.number)
        {
            Ok(at) => state.in_flight[at] = added.clone(),
            Err(at) => state.in_flight.insert(at, added.clone()),
        }
    }
    merge(
        state,
        number,
        cut.sources.clone(),
        cut.sinks.clone(),
        cut.slots.clone(),
        cut.counters.clone(),
    );
    state.ended = cut.ended;
}

fn merge(
    state: &mut Recovered,
    number: u64,
    sources: Vec<SourcePosition>,
    sinks: Vec<SinkPosition>,
    slots: Vec<SlotVersion>,
    counters: Vec<(String, u64)>,
) {
    state.cut = number;
    for new in sources {
        upsert(&mut state.sources, new, |a, b| {
            a.source == b.source && a.partition == b.partition
        });
    }
    for new in sinks {
        move_on(&mut state.sinks, new);
    }
    for new in slots {
        upsert(&mut state.slots, new, |a, b| a.slot == b.slot);
    }
    for new in counters {
        upsert(&mut state.counters, new, |a, b| a.0 == b.0);
    }
}

/// The file that a sink writes is the last of its own. One without a name is of an older log, and is the next named one.
fn move_on(sinks: &mut Vec<SinkPosition>, new: SinkPosition) {
    let of_it = |known: &SinkPosition| known.sink == new.sink;
    let same = |known: &SinkPosition| known.identity.is_empty() || known.identity == new.identity;
    sinks.retain(|known| !of_it(known) || !same(known));
    if sinks.iter().filter(|known| of_it(known)).count() >= MOST_FILES
        && let Some(oldest) = sinks.iter().position(of_it)
    {
        sinks.remove(oldest);
    }
    sinks.push(new);
}

fn upsert<T>(items: &mut Vec<T>, new: T, same: impl Fn(&T, &T) -> bool) {
    match items.iter_mut().find(|item| same(item, &new)) {
        Some(item) => *item = new,
        None => items.push(new),
    }
}
