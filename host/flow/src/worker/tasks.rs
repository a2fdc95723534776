//! The tasks of a worker, and which of them want something: kept as they change, so that a round costs what there is to
//! do, however many tasks there are and whatever waits in them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

use tidegate_contract::Partition;

use crate::task::{Task, Wants};

/// See the module.
#[derive(Default)]
pub(super) struct Tasks {
    tasks: BTreeMap<Partition, Kept>,
    wanted: Wanted,
}

/// A task, and what it wants.
struct Kept {
    task: Task,
    wants: Wants,
}

/// What all of them want.
#[derive(Default)]
struct Wanted {
    in_flight: usize,
    open: usize,
    waiting: BTreeSet<Partition>,
    turns: BTreeSet<Partition>,
    due: BTreeSet<(Instant, Partition)>,
    asking: BTreeSet<Partition>,
    changed: BTreeSet<Partition>,
    /// By source and room.
    rooms: BTreeSet<(u16, usize, Partition)>,
    turned: BTreeSet<Partition>,
}

impl Wanted {
    /// A task wants this now, and wanted that before; nothing of one that is not there.
    fn change(&mut self, partition: Partition, old: Option<Wants>, new: Option<Wants>) {
        let (was, is) = (old.unwrap_or_default(), new.unwrap_or_default());
        self.in_flight = self.in_flight + is.in_flight - was.in_flight;
        self.open = self.open + usize::from(is.open) - usize::from(was.open);
        let sets = [
            (&mut self.waiting, was.in_flight > 0, is.in_flight > 0),
            (&mut self.turns, was.turn, is.turn),
            (&mut self.asking, was.asks, is.asks),
            (&mut self.changed, was.changed, is.changed),
            (&mut self.turned, was.turned, is.turned),
        ];
        for (set, was, is) in sets {
            match (was, is) {
                (false, true) => drop(set.insert(partition)),
                (true, false) => drop(set.remove(&partition)),
                _ => {}
            }
        }
        if was.due != is.due {
            if let Some(due) = was.due {
                self.due.remove(&(due, partition));
            }
            self.due.extend(is.due.map(|due| (due, partition)));
        }
        let room = |wants: Option<Wants>| Some((partition.source, wants?.room, partition));
        if room(old) != room(new) {
            if let Some(room) = room(old) {
                self.rooms.remove(&room);
            }
            self.rooms.extend(room(new));
        }
    }
}

/// A task that does something. When that is over, what it wants is known anew.
pub(super) struct Turn<'a> {
    kept: &'a mut Kept,
    wanted: &'a mut Wanted,
}

impl Deref for Turn<'_> {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.kept.task
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Task {
        &mut self.kept.task
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let wants = self.kept.task.wants();
        if wants != self.kept.wants {
            let old = std::mem::replace(&mut self.kept.wants, wants);
            let partition = self.kept.task.partition;
            self.wanted.change(partition, Some(old), Some(wants));
        }
    }
}

impl Tasks {
    pub(super) fn insert(&mut self, task: Task) {
        let (partition, wants) = (task.partition, task.wants());
        let old = self.tasks.insert(partition, Kept { task, wants });
        let old = old.map(|kept| kept.wants);
        self.wanted.change(partition, old, Some(wants));
    }

    pub(super) fn remove(&mut self, partition: Partition) -> Option<Task> {
        let Kept { task, wants } = self.tasks.remove(&partition)?;
        self.wanted.change(partition, Some(wants), None);
        Some(task)
    }

    pub(super) fn get_mut(&mut self, partition: Partition) -> Option<Turn<'_>> {
        let kept = self.tasks.get_mut(&partition)?;
        let wanted = &mut self.wanted;
        Some(Turn { kept, wanted })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().map(|kept| &kept.task)
    }

    pub(super) fn partitions(&self) -> Vec<Partition> {
        self.tasks.keys().copied().collect()
    }

    /// Records that wait in all of them.
    pub(super) fn in_flight(&self) -> usize {
        self.wanted.in_flight
    }

    /// Whether every partition has ended.
    pub(super) fn have_ended(&self) -> bool {
        self.wanted.open == 0
    }

    /// Those that can go on by now, in their order.
    pub(super) fn with_turn(&self, now: Instant) -> Vec<Partition> {
        let end = Partition {
            source: u16::MAX,
            number: u32::MAX,
        };
        let mut due = self.wanted.due.range(..=(now, end)).peekable();
        let turns = self.wanted.turns.iter().copied();
        if due.peek().is_none() {
            return turns.collect();
        }
        let all: BTreeSet<Partition> = turns.chain(due.map(|(_, one)| *one)).collect();
        all.into_iter().collect()
    }

    /// When the next one can go on by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.wanted.due.first().map(|(due, _)| *due)
    }

    /// Those with records for models.
    pub(super) fn asking(&self) -> Vec<Partition> {
        self.wanted.asking.iter().copied().collect()
    }

    /// Whether a cut would have something to say.
    pub(super) fn have_changes(&self) -> bool {
        !self.wanted.changed.is_empty() || self.grown().next().is_some()
    }

    /// Those of which a cut has something to say, in their order.
    pub(super) fn changed(&self) -> BTreeSet<Partition> {
        let changed = self.wanted.changed.iter().copied();
        changed.chain(self.grown()).collect()
    }

    /// Those that wait, and whose models have made tokens since.
    fn grown(&self) -> impl Iterator<Item = Partition> {
        let waiting = self.wanted.waiting.iter();
        waiting
            .filter(|partition| {
                let kept = self.tasks.get(partition);
                kept.is_some_and(|kept| kept.task.has_changes())
            })
            .copied()
    }

    /// Those of a source that are to be paused or resumed.
    pub(super) fn turned(&self, source: usize) -> Vec<Partition> {
        let turned = self.wanted.turned.iter().copied();
        turned
            .filter(|partition| usize::from(partition.source) == source)
            .collect()
    }

    /// The least room of those of a source that have any; none if none has.
    pub(super) fn least_room(&self, source: usize) -> Option<usize> {
        let source = u16::try_from(source).ok()?;
        let first = Partition { source, number: 0 };
        let rooms = self.wanted.rooms.range((source, 1, first)..);
        let (of, room, _) = rooms.into_iter().next()?;
        (*of == source).then_some(*room)
    }
}
