//! The bytes of the commit log, version 2. All integers are little-endian.
//!
//! ```text
//! file    = header, entries
//! header  = "TGCL", version u32 = 2, reserved u64 = 0
//! entry   = length u32 of the payload, crc32 u32 of the payload (IEEE), crc32 u32 of the eight bytes before, payload
//! payload = kind u8 (1 cut, 2 snapshot), cut number u64, body length u32, body, sealed
//! body    = JSON: tasks (source, partition, identity, position, unfinished, counters, whether marks stand beside its
//!           positions, the changelog that its state has gone to, and the names of the in-flight entries that are put
//!           and done), sinks (each with whether the last run that wrote it has ended), slots
//! sealed  = for each entry that is put, in the order of the body: length u32, XChaCha20-Poly1305 (nonce 24,
//!           ciphertext, tag 16; task and name of the entry are bound to it)
//! ```
//!
//! A cut is what changed; a snapshot is the sum of all before it and is always the first entry of a compacted file,
//! which is written beside the old one and renamed over it.
//!
//! The position of a source's partition, a slot and a counter take the place of the one before; so does a sink's, if
//! it is in the same file. The positions in the last 1,000 files of a sink are kept, in the order in which they came.
//! In logs from before each position said whether its run has ended, the last entry said it of all.
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
//! The names of the entries stand in plain beside the ciphertexts: entries that are done need no key any more.
//!
//! Logs of version 1 are read if nothing waits in them, see `version1`.

mod version1;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tidegate_contract::{
    Cut, Entry, EntryCipher, EntryKey, Moved, Recovered, SinkPosition, SlotVersion, TaskCut,
    TaskId, TaskImage,
};

use crate::cipher::StateKey;

/// First bytes of the file.
pub const MAGIC: [u8; 4] = *b"TGCL";
/// Version of the format.
pub const VERSION: u32 = 2;
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskBody>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sinks: Vec<SinkBody>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<SlotVersion>,
    /// Of a log of version 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counters: Vec<(String, u64)>,
    /// Of logs in which no position says it: the run ended with this entry.
    #[serde(default, skip_serializing)]
    ended: bool,
}

#[derive(Serialize, Deserialize)]
struct SinkBody {
    #[serde(flatten)]
    position: SinkPosition,
    /// Not in older logs.
    #[serde(default)]
    ended: Option<bool>,
}

impl SinkBody {
    fn of(positions: &[SinkPosition]) -> Vec<SinkBody> {
        let of = |position: &SinkPosition| SinkBody {
            position: position.clone(),
            ended: Some(position.ended),
        };
        positions.iter().map(of).collect()
    }

    fn position(self) -> SinkPosition {
        SinkPosition {
            ended: self.ended.unwrap_or(false),
            ..self.position
        }
    }
}

#[derive(Serialize, Deserialize)]
struct TaskBody {
    #[serde(flatten)]
    id: TaskId,
    identity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<u64>,
    counters: Vec<(String, u64)>,
    /// Marks stand beside its positions: not in logs from before there were any.
    #[serde(default)]
    marked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved: Option<Moved>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    put: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    done: Vec<String>,
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

/// What is bound to the ciphertext of an entry.
fn bound(task: &TaskId, key: &str) -> Vec<u8> {
    format!("{}/{}/{key}", task.source, task.partition).into_bytes()
}

/// The entry of a cut, and the cut as it is added to the state of a log: with payloads encrypted. None if the system
/// gives no randomness for a nonce.
pub(crate) fn cut_entry(number: u64, cut: &Cut, key: &StateKey) -> Option<(Vec<u8>, Cut)> {
    let mut sealed = cut.clone();
    for (task, of_task) in &mut sealed.tasks {
        for entry in &mut of_task.put {
            entry.payload = key.seal(&bound(task, &entry.key.to_string()), &entry.payload)?;
        }
    }
    let mut payloads = Vec::new();
    let mut body = Body {
        sinks: SinkBody::of(&cut.sinks),
        slots: cut.slots.clone(),
        ..Body::default()
    };
    for (task, of_task) in &sealed.tasks {
        for entry in &of_task.put {
            put_payload(&mut payloads, &entry.payload)?;
        }
        body.tasks.push(TaskBody {
            id: task.clone(),
            identity: of_task.identity.clone(),
            position: of_task.position,
            unfinished: of_task.unfinished,
            counters: of_task.counters.clone(),
            marked: true,
            moved: of_task.moved.clone(),
            put: names(of_task.put.iter().map(|entry| &entry.key)),
            done: names(of_task.done.iter()),
        });
    }
    Some((entry(CUT, number, &body, &payloads)?, sealed))
}

/// The entry of a snapshot of a state whose payloads are encrypted.
pub(crate) fn snapshot_entry(state: &Recovered) -> Option<Vec<u8>> {
    let mut payloads = Vec::new();
    let mut body = Body {
        sinks: SinkBody::of(&state.sinks),
        slots: state.slots.clone(),
        counters: state.counters.clone(),
        ..Body::default()
    };
    for (task, of_task) in &state.tasks {
        for payload in of_task.entries.values() {
            put_payload(&mut payloads, payload)?;
        }
        body.tasks.push(TaskBody {
            id: task.clone(),
            identity: of_task.identity.clone(),
            position: of_task.position,
            unfinished: of_task.unfinished,
            counters: of_task.counters.clone(),
            marked: of_task.marked,
            moved: of_task.moved.clone(),
            put: names(of_task.entries.keys()),
            done: Vec::new(),
        });
    }
    entry(SNAPSHOT, state.cut, &body, &payloads)
}

fn names<'a>(keys: impl Iterator<Item = &'a EntryKey>) -> Vec<String> {
    keys.map(EntryKey::to_string).collect()
}

fn put_payload(payloads: &mut Vec<u8>, payload: &[u8]) -> Option<()> {
    payloads.extend_from_slice(&u32::try_from(payload.len()).ok()?.to_le_bytes());
    payloads.extend_from_slice(payload);
    Some(())
}

fn entry(kind: u8, number: u64, body: &Body, payloads: &[u8]) -> Option<Vec<u8>> {
    let body = serde_json::to_vec(body).ok()?;
    let mut payload = vec![kind];
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend_from_slice(&u32::try_from(body.len()).ok()?.to_le_bytes());
    payload.extend_from_slice(&body);
    payload.extend_from_slice(payloads);
    let mut bytes = u32::try_from(payload.len()).ok()?.to_le_bytes().to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend_from_slice(&payload);
    Some(bytes)
}

/// A task as it was before its payloads were encrypted.
pub(crate) fn unsealed(task: &TaskId, sealed: &TaskImage, key: &StateKey) -> Option<TaskImage> {
    let mut plain = sealed.clone();
    for (name, payload) in &mut plain.entries {
        *payload = key.open(&bound(task, &name.to_string()), payload)?;
    }
    Some(plain)
}

/// A log as it was read.
pub(crate) struct Read {
    /// The state its cuts add up to; its payloads are encrypted.
    pub state: Recovered,
    /// How many bytes of it are good: what follows is a torn write.
    pub good: usize,
    /// Whether these bytes are of an older version, or say less than is written now.
    pub old: bool,
}

impl Read {
    /// Whether anything waits.
    pub(crate) fn waits(&self) -> bool {
        let mut tasks = self.state.tasks.values();
        tasks.any(|task| !task.entries.is_empty())
    }

    /// The state with its payloads as they were written; none if they were written with another key.
    pub(crate) fn unsealed(&self, key: &StateKey) -> Option<Recovered> {
        let mut plain = self.state.clone();
        for (task, of_task) in &mut plain.tasks {
            *of_task = unsealed(task, of_task, key)?;
        }
        Some(plain)
    }
}

/// Reads a log.
pub(crate) fn read(bytes: &[u8]) -> Result<Read, Damage> {
    read_told(bytes, &|_, _| {})
}

/// The same. `told` is how many bytes are read, and how many there are.
pub(crate) fn read_told(bytes: &[u8], told: &dyn Fn(u64, u64)) -> Result<Read, Damage> {
    let mut read = Read {
        state: Recovered::default(),
        good: 0,
        old: false,
    };
    if bytes.len() < HEADER {
        // A crash while the file was made: nothing was ever committed.
        return Ok(read);
    }
    if bytes[..4] != MAGIC {
        return Err(Damage::at(0, "this is not a commit log"));
    }
    if bytes[4..8] == version1::VERSION.to_le_bytes() {
        return version1::read(bytes);
    }
    if bytes[4..8] != VERSION.to_le_bytes() {
        return Err(Damage::at(4, "written by another version of Tidegate"));
    }
    read.good = HEADER;
    // What the last entry says of all positions, where they do not say it themselves.
    let mut all_ended = None;
    while read.good < bytes.len() {
        let at = read.good;
        let Some(end) = whole_entry(bytes, at)? else {
            break;
        };
        let parts = parts(&bytes[at + ENTRY_HEADER..end], at, read.state.cut)?;
        let body: Body = serde_json::from_slice(parts.body).map_err(|_| invalid_body(at))?;
        let is_older = body.sinks.iter().any(|sink| sink.ended.is_none());
        if is_older || all_ended.is_some() {
            all_ended = Some(body.ended);
        }
        apply(&parts, body, at, &mut read.state)?;
        read.good = end;
        told(end as u64, bytes.len() as u64);
    }
    if let Some(ended) = all_ended {
        say_ended(&mut read.state.sinks, ended);
        read.old = true;
    }
    Ok(read)
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

/// The parts of an entry's payload.
struct Parts<'a> {
    number: u64,
    body: &'a [u8],
    sealed: &'a [u8],
}

/// Takes apart the payload of the entry at this byte, which follows the cut `last`.
fn parts(payload: &[u8], at: usize, last: u64) -> Result<Parts<'_>, Damage> {
    let short = Damage::at(at, "entry is too short");
    let Some((&[kind, n0, n1, n2, n3, n4, n5, n6, n7, b0, b1, b2, b3], rest)) =
        payload.split_first_chunk::<13>()
    else {
        return Err(short);
    };
    let number = u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
    let length = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    let (body, sealed) = rest.split_at_checked(length).ok_or(short)?;
    check_order(kind, number, at, last)?;
    Ok(Parts {
        number,
        body,
        sealed,
    })
}

fn invalid_body(at: usize) -> Damage {
    Damage::at(at, "body of the entry is not valid")
}

fn apply(parts: &Parts<'_>, body: Body, at: usize, state: &mut Recovered) -> Result<(), Damage> {
    let mut cut = Cut {
        sinks: body.sinks.into_iter().map(SinkBody::position).collect(),
        slots: body.slots,
        ..Cut::default()
    };
    let mut payloads = parts.sealed;
    let named = |name: &String| EntryKey::parse(name).ok_or_else(|| invalid_body(at));
    let mut unmarked = Vec::new();
    for task in body.tasks {
        let mut put = Vec::with_capacity(task.put.len());
        for name in &task.put {
            let payload = next_payload(&mut payloads);
            let payload = payload.ok_or(Damage::at(at, "in-flight set is not valid"))?;
            let payload = payload.to_vec();
            put.push(Entry {
                key: named(name)?,
                payload,
            });
        }
        let of_task = TaskCut {
            identity: task.identity,
            position: task.position,
            unfinished: task.unfinished,
            put,
            done: task.done.iter().map(named).collect::<Result<_, _>>()?,
            counters: task.counters,
            moved: task.moved,
            ..TaskCut::default()
        };
        if !task.marked {
            unmarked.push(task.id.clone());
        }
        cut.tasks.insert(task.id, of_task);
    }
    for counter in body.counters {
        upsert(&mut state.counters, counter, |a, b| a.0 == b.0);
    }
    add(state, parts.number, cut);
    unmark(state, &unmarked);
    Ok(())
}

fn next_payload<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Some(payload)
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

/// Adds a cut, whose payloads are encrypted, to the state.
pub(crate) fn add(state: &mut Recovered, number: u64, cut: Cut) {
    state.cut = number;
    for (task, of_task) in cut.tasks {
        let known = state.tasks.entry(task).or_default();
        (known.identity, known.counters) = (of_task.identity, of_task.counters);
        (known.moved, known.marked) = (of_task.moved, true);
        known.position = of_task.position.or(known.position);
        known.unfinished = of_task.unfinished.or(known.unfinished);
        for done in &of_task.done {
            known.entries.remove(done);
        }
        let put = of_task.put.into_iter();
        known
            .entries
            .extend(put.map(|entry| (entry.key, entry.payload)));
    }
    for new in cut.sinks {
        move_on(&mut state.sinks, new);
    }
    for new in cut.slots {
        upsert(&mut state.slots, new, |a, b| a.slot == b.slot);
    }
}

/// No marks stand beside the positions of these tasks.
fn unmark(state: &mut Recovered, tasks: &[TaskId]) {
    for task in tasks {
        if let Some(known) = state.tasks.get_mut(task) {
            known.marked = false;
        }
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

/// Says of each position what a log from before they said it themselves had of all: whether the last run ended. A file that
/// a sink had left for another was left as a run that ended had it.
fn say_ended(sinks: &mut [SinkPosition], ended: bool) {
    let mut later = BTreeSet::new();
    for known in sinks.iter_mut().rev() {
        known.ended = !later.insert(known.sink.clone()) || ended;
    }
}

fn upsert<T>(items: &mut Vec<T>, new: T, same: impl Fn(&T, &T) -> bool) {
    match items.iter_mut().find(|item| same(item, &new)) {
        Some(item) => *item = new,
        None => items.push(new),
    }
}
