//! The tasks of a worker, and which of them want something: kept as they change, so that a round costs what there is to
//! do, however many tasks there are and whatever waits in them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use tidegate_contract::Partition;
use tidegate_telemetry::Meters;

use super::loads::Loads;
use crate::task::{StageLoad, Task, Wants};

/// See the module.
pub(super) struct Tasks {
    tasks: BTreeMap<Partition, Kept>,
    wanted: Wanted,
    loads: Loads,
}

/// A task, what it wants, and what waits in its stages.
struct Kept {
    task: Task,
    wants: Wants,
    loads: Box<[StageLoad]>,
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
    loads: &'a mut Loads,
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
        for (stage, known) in self.kept.loads.iter_mut().enumerate() {
            let now = self.kept.task.load(stage);
            if now != *known {
                self.loads.change(stage, *known, now);
                *known = now;
            }
        }
    }
}

impl Tasks {
    /// None yet; what waits in their stages is told to these meters.
    pub(super) fn new(meters: Arc<Meters>) -> Tasks {
        Tasks {
            tasks: BTreeMap::new(),
            wanted: Wanted::default(),
            loads: Loads::new(meters),
        }
    }

    pub(super) fn insert(&mut self, task: Task) {
        let partition = task.partition;
        let old = self.remove(partition);
        debug_assert!(old.is_none(), "a partition has one task");
        let wants = task.wants();
        self.wanted.change(partition, None, Some(wants));
        let stages = 0..task.topology.stages.len();
        let loads: Box<[StageLoad]> = stages.map(|stage| task.load(stage)).collect();
        for (stage, load) in loads.iter().enumerate() {
            self.loads.change(stage, StageLoad::default(), *load);
        }
        self.tasks.insert(partition, Kept { task, wants, loads });
    }

    pub(super) fn remove(&mut self, partition: Partition) -> Option<Task> {
        let Kept { task, wants, loads } = self.tasks.remove(&partition)?;
        self.wanted.change(partition, Some(wants), None);
        for (stage, load) in loads.iter().enumerate() {
            self.loads.change(stage, *load, StageLoad::default());
        }
        Some(task)
    }

    /// Stages that were full until now since it was looked at last are counted as such.
    pub(super) fn count_full(&mut self) {
        self.loads.count_full();
    }

    pub(super) fn get_mut(&mut self, partition: Partition) -> Option<Turn<'_>> {
        let kept = self.tasks.get_mut(&partition)?;
        let (wanted, loads) = (&mut self.wanted, &mut self.loads);
        Some(Turn {
            kept,
            wanted,
            loads,
        })
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().map(|kept| &kept.task)
    }

    pub(super) fn partitions(&self) -> Vec<Partition> {
        self.tasks.keys().copied().collect()
    }

    /// Whether any is of this source.
    pub(super) fn reads(&self, source: u16) -> bool {
        let first = Partition { source, number: 0 };
        let mut from = self.tasks.range(first..);
        from.next()
            .is_some_and(|(partition, _)| partition.source == source)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_contract::{CommitPoint, Operator, OperatorError, OperatorVersion, Slot};
    use tidegate_record::{BatchBuilder, NewRecord};

    use super::*;
    use crate::begin::{Begin, Keeps};
    use crate::counts::Counts;
    use crate::entry::{By, Entry, EntryId, KeptParts, Lane, State, Tokens};
    use crate::task::Starts;
    use crate::topology::{OperatorStage, Positions, Source, Stage, StageKind, Topology};
    use crate::versions::Versions;

    const TASKS: u32 = 500;

    /// An operator that nobody starts.
    struct Still;

    impl Slot for Still {
        fn generation(&self) -> u64 {
            1
        }
        fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError> {
            Err(OperatorError::Engine("nobody starts it".into()))
        }
        fn version(&self) -> Arc<OperatorVersion> {
            unreachable!("nobody asks for it")
        }
    }

    fn partition(number: u32) -> Partition {
        Partition { source: 0, number }
    }

    /// Five hundred tasks of a topic, with an operator.
    fn tasks(meters: &Arc<Meters>) -> Tasks {
        let topology = Arc::new(Topology {
            sources: vec![Source {
                name: "in".into(),
                targets: Vec::new(),
                fixed: false,
                positions: Positions::Cuts,
                called: false,
                beside: false,
                identities: vec!["a topic".into()],
                apart: String::new(),
            }],
            stages: vec![Stage {
                name: "still".into(),
                targets: Vec::new(),
                kind: StageKind::Operator(OperatorStage {
                    slot: Arc::new(Still),
                    configured: "sha256:0".into(),
                    named: BTreeMap::new(),
                    retries: 1,
                }),
            }],
            sinks: Vec::new(),
            commit_point: CommitPoint::Log,
            batch: 8,
            batch_bytes: 1 << 20,
            cut_interval: Duration::ZERO,
            callers: None,
            drain: Duration::ZERO,
        });
        let starts = Arc::new(Starts::new(1));
        let mut tasks = Tasks::new(meters.clone());
        for number in 0..TASKS {
            let begin = Begin {
                identity: String::new(),
                position: None,
                keeps: Keeps::All,
                counts: Counts::default(),
            };
            let (topology, starts) = (topology.clone(), starts.clone());
            tasks.insert(Task::new(partition(number), topology, &begin, starts));
        }
        tasks
    }

    fn entry(number: u64, state: State) -> Entry {
        let mut record = BatchBuilder::default();
        record.push(&NewRecord::default()).unwrap();
        Entry {
            record: record.finish(0),
            id: EntryId {
                offset: number,
                ..EntryId::default()
            },
            lane: Lane::Own(number),
            key: Lane::Own(number),
            arrived: Instant::now(),
            attempt: 0,
            state,
            prompt: String::new(),
            wants: None,
            asked: None,
            tokens: Tokens::default(),
            versions: Versions::default(),
            by: By::default(),
            model: "".into(),
            kept: KeptParts::default(),
            showing: None,
            fed: 0,
            until: None,
            submitted: None,
            put_off: None,
            caller: None,
        }
    }

    /// How many tasks a round would ask something.
    fn asked(tasks: &Tasks, now: Instant) -> usize {
        tasks.with_turn(now).len() + tasks.asking().len() + tasks.turned(0).len()
    }

    #[test]
    fn a_round_asks_the_tasks_that_want_something_however_many_there_are_and_whatever_waits() {
        let meters = Arc::new(Meters::new("still", ["still"]));
        let mut tasks = tasks(&meters);
        let shown = || {
            let stage = &meters.stages()[0];
            [stage.inbox.get(), stage.waiting.get(), stage.limit.get()]
        };
        let now = Instant::now();
        let later = now + Duration::from_secs(600);
        assert_eq!((asked(&tasks, later), tasks.in_flight()), (0, 0));
        assert!(!tasks.have_changes() && !tasks.have_ended());
        // Whatever waits for a later time asks nothing, in however many tasks.
        for number in 0..TASKS {
            for record in 0..20 {
                let mut task = tasks.get_mut(partition(number)).unwrap();
                let waits = entry(record, State::Delayed(later));
                task.waiting[0].add(record, waits);
            }
        }
        assert_eq!(asked(&tasks, now), 0);
        assert_eq!(tasks.in_flight(), 20 * TASKS as usize);
        assert_eq!(shown(), [0, 10_000, 1024 * 500]);
        tasks.count_full();
        assert_eq!(meters.stages()[0].full.get(), Duration::ZERO);
        assert_eq!(tasks.next_due(), Some(later));
        assert_eq!(tasks.with_turn(later).len(), TASKS as usize);
        // One has its turn.
        let due = |task: &mut Task| {
            let due = |entry: &mut Entry| entry.state = State::Delayed(now);
            task.waiting[0].change(3, due)
        };
        due(&mut tasks.get_mut(partition(77)).unwrap());
        assert_eq!(tasks.with_turn(now), [partition(77)]);
        assert_eq!(tasks.next_due(), Some(now));
        tasks.get_mut(partition(77)).unwrap().waiting[0].remove(3);
        assert_eq!(asked(&tasks, now), 0);
        // One that is full is paused, and the room of the others counts.
        let mut number = 1000;
        while tasks.get_mut(partition(5)).unwrap().room() > 0 {
            let mut task = tasks.get_mut(partition(5)).unwrap();
            task.waiting[0].add(number, entry(number, State::Delayed(later)));
            number += 1;
        }
        assert_eq!(tasks.turned(0), [partition(5)]);
        tasks.count_full();
        assert!(meters.stages()[0].full.get() > Duration::ZERO);
        assert_eq!(tasks.least_room(0), Some(1024 - 20));
        tasks.get_mut(partition(5)).unwrap().paused = true;
        assert_eq!(asked(&tasks, now), 0);
        // After a cut of all, the next one is of those that have changed.
        assert_eq!(tasks.changed().len(), TASKS as usize);
        for number in 0..TASKS {
            tasks.get_mut(partition(number)).unwrap().cut();
        }
        assert!(!tasks.have_changes());
        tasks.get_mut(partition(9)).unwrap().waiting[0].remove(0);
        assert_eq!(tasks.changed(), BTreeSet::from([partition(9)]));
        // What is gone wants nothing, and leaves nothing behind.
        for number in 0..TASKS {
            tasks.get_mut(partition(number)).unwrap().ended = true;
        }
        assert!(tasks.have_ended());
        for number in 0..TASKS {
            assert!(tasks.remove(partition(number)).is_some());
        }
        assert_eq!((asked(&tasks, later), tasks.in_flight()), (0, 0));
        assert!(tasks.changed().is_empty() && tasks.least_room(0).is_none());
        assert_eq!(shown(), [0, 0, 0]);
    }
}
