//! The body of a commit log of version 1, which numbered its in-flight entries and encrypted those of a cut together.
//!
//! What waits in such a log was written for another flow: it is gone on with by the version that wrote it.

use std::collections::BTreeSet;

use serde::Deserialize;
use tidegate_contract::{Cut, SinkPosition, SlotVersion, TaskCut, TaskId};

use super::{
    Damage, ENTRY_HEADER, HEADER, Read, add, invalid_body, parts, say_ended, unmark, upsert,
    whole_entry,
};

pub(super) const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Body {
    sources: Vec<Position>,
    sinks: Vec<SinkPosition>,
    #[serde(default)]
    added: Vec<u64>,
    #[serde(default)]
    done: Vec<u64>,
    slots: Vec<SlotVersion>,
    counters: Vec<(String, u64)>,
    #[serde(default)]
    ended: bool,
}

#[derive(Deserialize)]
struct Position {
    #[serde(flatten)]
    task: TaskId,
    identity: String,
    position: u64,
}

pub(super) fn read(bytes: &[u8]) -> Result<Read, Damage> {
    let mut read = Read {
        state: Default::default(),
        good: HEADER,
        old: true,
    };
    let mut waiting = BTreeSet::new();
    let mut ended = false;
    while read.good < bytes.len() {
        let at = read.good;
        let Some(end) = whole_entry(bytes, at)? else {
            break;
        };
        let parts = parts(&bytes[at + ENTRY_HEADER..end], at, read.state.cut)?;
        let body: Body = serde_json::from_slice(parts.body).map_err(|_| invalid_body(at))?;
        for done in &body.done {
            waiting.remove(done);
        }
        waiting.extend(body.added);
        let tasks = body.sources.into_iter().map(|source| {
            let of_task = TaskCut {
                identity: source.identity,
                position: Some(source.position),
                unfinished: Some(source.position),
                ..TaskCut::default()
            };
            (source.task, of_task)
        });
        let cut = Cut {
            tasks: tasks.collect(),
            witness: None,
            sinks: body.sinks,
            slots: body.slots,
        };
        add(&mut read.state, parts.number, cut);
        ended = body.ended;
        for counter in body.counters {
            upsert(&mut read.state.counters, counter, |a, b| a.0 == b.0);
        }
        read.good = end;
    }
    say_ended(&mut read.state.sinks, ended);
    let tasks: Vec<TaskId> = read.state.tasks.keys().cloned().collect();
    unmark(&mut read.state, &tasks);
    if waiting.is_empty() {
        return Ok(read);
    }
    let why = format!(
        "{} records wait in it that an older version of Tidegate wrote; let the pipeline finish with that one",
        waiting.len()
    );
    Err(Damage::at(4, why))
}
