//! A stage in which records wait: for a model's answer, for their retry, or behind others of their lane.
//!
//! Beside the entries stand queues of those that can go on: whose turn it is with the model, whose answer may leave,
//! whose retry is due. They are kept as entries come, change and go, so that a step costs the same however many wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use tidegate_contract::{self as contract, EntryKey, EntryPart};
use tidegate_record::RecordView;

use crate::asked::Asked;
use crate::entry::{Entry, EntryId, Grown, KeptParts, Lane, State};
use crate::kept;
use crate::showing::Showing;
use crate::topology::Order;

/// The records that wait in one stage of one task.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Name of the stage.
    stage: String,
    entries: BTreeMap<u64, Entry>,
    /// Which records these are, and their numbers.
    ids: BTreeMap<EntryId, u64>,
    lanes: HashMap<Lane, VecDeque<u64>>,
    /// Bytes of all records together.
    bytes: usize,
    /// Most of one key that are with the model at once.
    most_of_key: usize,
    /// Of each key with entries that are queued or with the model: how many are, or may be given to it.
    keys: HashMap<Lane, OfKey>,
    /// Queued entries that may be given to the model.
    ready: BTreeSet<u64>,
    /// The first of its lane, and answered.
    answered: BTreeSet<u64>,
    /// The first of its lane, and queued.
    first: BTreeSet<u64>,
    /// The first of its lane, and to come again at this time.
    due: BTreeSet<(Instant, u64)>,
    /// To come again at this time, wherever it stands in its lane.
    delayed: BTreeSet<(Instant, u64)>,
    /// Entries that the last cut does not have, or has otherwise.
    changed: BTreeSet<u64>,
    /// Those whose answers have grown.
    grown: Grown,
    /// What the last cut has and that is done.
    done: Vec<EntryKey>,
}

#[derive(Debug, Default)]
struct OfKey {
    taken: usize,
    queued: BTreeSet<u64>,
}

/// The lane of a record.
pub(crate) fn lane(order: Order, record: &RecordView<'_>, number: u64) -> Lane {
    match (order, record.key()) {
        (Order::Partition, _) => Lane::Partition,
        (Order::Key, Some(key)) => {
            // Two keys with one hash share a lane, which only costs them some waiting.
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            Lane::Key(hasher.finish())
        }
        (Order::Key, None) | (Order::None, _) => Lane::Own(number),
    }
}

impl Waiting {
    /// The stage of this name, which may give a model so many records of one key at once.
    pub(crate) fn new(stage: &str, most_of_key: usize) -> Waiting {
        Waiting {
            stage: stage.to_owned(),
            entries: BTreeMap::new(),
            ids: BTreeMap::new(),
            lanes: HashMap::new(),
            bytes: 0,
            most_of_key: most_of_key.max(1),
            keys: HashMap::new(),
            ready: BTreeSet::new(),
            answered: BTreeSet::new(),
            first: BTreeSet::new(),
            due: BTreeSet::new(),
            delayed: BTreeSet::new(),
            changed: BTreeSet::new(),
            grown: Grown::default(),
            done: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the records that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether records of this lane wait.
    pub(crate) fn blocks(&self, lane: Lane) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// Adds an entry at the end of its lane.
    pub(crate) fn add(&mut self, number: u64, mut entry: Entry) {
        // The same record may come by several ways, and wait here more than once.
        while self.ids.contains_key(&entry.id) {
            entry.id.copy += 1;
        }
        self.ids.insert(entry.id, number);
        if !entry.kept.record {
            self.changed.insert(number);
        }
        entry.tokens.tell(number, &self.grown);
        self.bytes += entry.record.as_bytes().len();
        let lane = self.lanes.entry(entry.lane).or_default();
        lane.push_back(number);
        let front = lane.len() == 1;
        let key = entry.key;
        self.entries.insert(number, entry);
        self.queue(number);
        if front {
            self.queue_front(number);
        }
        self.promote(key);
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number)
    }

    /// Changes an entry; the next cut will have it so.
    pub(crate) fn change<T>(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        if !self.entries.contains_key(&number) {
            return None;
        }
        self.unqueue(number);
        let entry = self.entries.get_mut(&number)?;
        let result = change(entry);
        entry.tokens.tell(number, &self.grown);
        let (lane, key) = (entry.lane, entry.key);
        self.changed.insert(number);
        self.queue(number);
        if self.front_number(lane) == Some(number) {
            self.queue_front(number);
        }
        self.promote(key);
        Some(result)
    }

    /// The answer of an entry as it is made: no cut has that.
    pub(crate) fn showing(&mut self, number: u64) -> Option<&mut Option<Box<Showing>>> {
        let entry = self.entries.get_mut(&number)?;
        Some(&mut entry.showing)
    }

    /// The model of an entry is asked in another turn, and the record is not read again for that: no cut has it.
    pub(crate) fn keep_asked(&mut self, number: u64, asked: Asked) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.wants.clone_from(&asked.wants);
            entry.asked = Some(Box::new(asked));
        }
    }

    /// What the model of an entry is to be asked, if that was kept.
    pub(crate) fn take_asked(&mut self, number: u64) -> Option<Asked> {
        let entry = self.entries.get_mut(&number)?;
        entry.asked.take().map(|asked| *asked)
    }

    /// Entries in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// All entries, in order of arrival.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.entries.into_values()
    }

    /// The first of a lane.
    pub(crate) fn front(&self, lane: Lane) -> Option<(u64, &Entry)> {
        let number = self.front_number(lane)?;
        Some((number, self.entries.get(&number)?))
    }

    fn front_number(&self, lane: Lane) -> Option<u64> {
        self.lanes.get(&lane)?.front().copied()
    }

    /// The first entry from this number on whose turn with the model has come.
    pub(crate) fn next_ready(&self, from: u64) -> Option<u64> {
        self.ready.range(from..).next().copied()
    }

    /// The entries that are answered and have nothing before them in their lane, in order of arrival.
    pub(crate) fn answered(&self) -> impl Iterator<Item = u64> {
        self.answered.iter().copied()
    }

    /// The lanes whose first entry is to come again by now, in order of arrival.
    pub(crate) fn due(&self, now: Instant) -> Vec<Lane> {
        let due = self.due.range(..=(now, u64::MAX));
        let mut numbers: Vec<u64> = due.map(|(_, number)| *number).collect();
        // Its turn has come, and the stages after this one had no room for what it becomes.
        numbers.extend(&self.first);
        numbers.sort_unstable();
        let lanes = numbers.iter().filter_map(|number| self.entries.get(number));
        lanes.map(|entry| entry.lane).collect()
    }

    /// Whether an entry is to come again by now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.first.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }

    /// Whether the turn of an entry has come that is queued and the first of its lane.
    pub(crate) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    /// When the next retry is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// When the next entry is due, wherever it stands in its lane: a model is asked again for those behind others, too.
    pub(crate) fn next_delayed(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// Those whose time has come have their turn. Returns whether there are any.
    pub(crate) fn queue_delayed(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((due, number)) = self.delayed.first().copied()
            && due <= now
        {
            let queued = self.change(number, |entry| entry.state = State::Queued);
            if queued.is_none() {
                break;
            }
            any = true;
        }
        any
    }

    /// The numbers of the records with this offset.
    pub(crate) fn of_offset(&self, offset: u64) -> Vec<u64> {
        let id = |offset| EntryId {
            offset,
            ..EntryId::default()
        };
        let mut numbers = Vec::new();
        for (id, number) in self.ids.range(id(offset)..) {
            if id.offset != offset {
                break;
            }
            numbers.push(*number);
        }
        numbers
    }

    /// The last cut that holds has these entries, and the next one says everything else anew. What it keeps is taken out
    /// of them.
    pub(crate) fn stay(&mut self, kept: &mut BTreeSet<EntryKey>) {
        self.done.clear();
        for (number, entry) in &mut self.entries {
            let mut has = |part| kept.remove(&kept::key(&self.stage, entry.id, part));
            entry.kept = KeptParts {
                record: has(EntryPart::Record),
                prompt: has(EntryPart::Prompt),
                progress: has(EntryPart::Progress),
            };
            self.changed.insert(*number);
        }
    }

    /// The lowest offset of the records that wait.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.ids.keys().next().map(|id| id.offset)
    }

    /// Takes an entry out of its lane, wherever it stands in it.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Entry> {
        self.unqueue(number);
        let entry = self.entries.remove(&number)?;
        self.ids.remove(&entry.id);
        self.bytes -= entry.record.as_bytes().len();
        if let Some(lane) = self.lanes.get_mut(&entry.lane) {
            if lane.front() == Some(&number) {
                lane.pop_front();
                match lane.front().copied() {
                    Some(next) => self.queue_front(next),
                    None => drop(self.lanes.remove(&entry.lane)),
                }
            } else {
                lane.retain(|other| *other != number);
            }
        }
        self.promote(entry.key);
        self.changed.remove(&number);
        self.done
            .extend(kept::done(&self.stage, entry.id, entry.kept));
        Some(entry)
    }

    /// What the next cut must say: parts of entries that are new or changed, and parts that are done. Afterwards it is
    /// taken to have it.
    pub(crate) fn take_changes(&mut self) -> (Vec<contract::Entry>, Vec<EntryKey>) {
        let grown = self.grown.take();
        self.changed.extend(grown);
        let mut put = Vec::new();
        for number in std::mem::take(&mut self.changed) {
            if let Some(entry) = self.entries.get_mut(&number) {
                put.extend(kept::put(&self.stage, number, entry, true));
            }
        }
        (put, std::mem::take(&mut self.done))
    }

    /// Whether the next cut has something to say of this stage.
    pub(crate) fn has_changes(&self) -> bool {
        !self.done.is_empty() || !self.changed.is_empty() || !self.grown.is_empty()
    }

    /// Puts an entry into the queues of its state.
    fn queue(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else {
            return;
        };
        match entry.state {
            State::Queued => {
                let of_key = self.keys.entry(entry.key).or_default();
                of_key.queued.insert(number);
            }
            State::Submitted(_) => self.keys.entry(entry.key).or_default().taken += 1,
            // It keeps its place: those behind it of its key are not asked before it.
            State::Delayed(at) => {
                self.keys.entry(entry.key).or_default().taken += 1;
                self.delayed.insert((at, number));
            }
            State::Answered(_) => {}
        }
    }

    /// Puts an entry that is the first of its lane into the queues of those.
    fn queue_front(&mut self, number: u64) {
        match self.entries.get(&number).map(|entry| &entry.state) {
            Some(State::Answered(_)) => drop(self.answered.insert(number)),
            Some(State::Delayed(at)) => drop(self.due.insert((*at, number))),
            Some(State::Queued) => drop(self.first.insert(number)),
            Some(State::Submitted(_)) | None => {}
        }
    }

    /// Takes an entry out of all queues.
    fn unqueue(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else {
            return;
        };
        match &entry.state {
            State::Queued => {
                self.first.remove(&number);
                let ready = self.ready.remove(&number);
                if let Some(of_key) = self.keys.get_mut(&entry.key) {
                    of_key.queued.remove(&number);
                    of_key.taken -= usize::from(ready);
                }
            }
            State::Submitted(_) => {
                if let Some(of_key) = self.keys.get_mut(&entry.key) {
                    of_key.taken = of_key.taken.saturating_sub(1);
                }
            }
            State::Answered(_) => drop(self.answered.remove(&number)),
            State::Delayed(at) => {
                self.due.remove(&(*at, number));
                self.delayed.remove(&(*at, number));
                if let Some(of_key) = self.keys.get_mut(&entry.key) {
                    of_key.taken = of_key.taken.saturating_sub(1);
                }
            }
        }
    }

    /// Lets as many queued entries of a key have their turn as may be with the model.
    fn promote(&mut self, key: Lane) {
        let Some(of_key) = self.keys.get_mut(&key) else {
            return;
        };
        let most = match key {
            Lane::Key(_) => self.most_of_key,
            Lane::Partition | Lane::Own(_) => usize::MAX,
        };
        while of_key.taken < most
            && let Some(next) = of_key.queued.pop_first()
        {
            of_key.taken += 1;
            self.ready.insert(next);
        }
        if of_key.taken == 0 {
            self.keys.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_record::{BatchBuilder, NewRecord};

    use super::*;
    use crate::entry::{By, Tokens};
    use crate::versions::Versions;

    fn entry(key: u64, offset: u64, state: State) -> Entry {
        let mut record = BatchBuilder::default();
        record.push(&NewRecord::default()).unwrap();
        Entry {
            record: record.finish(0),
            id: EntryId {
                offset,
                ..EntryId::default()
            },
            lane: Lane::Key(key),
            key: Lane::Key(key),
            arrived: Instant::now(),
            attempt: 0,
            state,
            prompt: String::new(),
            wants: None,
            asked: None,
            tokens: Tokens::default(),
            versions: Versions::default(),
            by: By::default(),
            model: "sha256:model".into(),
            kept: KeptParts::default(),
            showing: None,
            fed: 0,
            until: None,
            submitted: None,
            put_off: None,
            caller: None,
        }
    }

    fn ready(waiting: &Waiting) -> Vec<u64> {
        let mut from = 0;
        let next = || {
            let number = waiting.next_ready(from)?;
            from = number + 1;
            Some(number)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn of_one_key_so_many_have_their_turn_and_the_others_after_them() {
        let mut waiting = Waiting::new("ask", 2);
        for number in 1..=4 {
            waiting.add(number, entry(7, number, State::Queued));
        }
        waiting.add(5, entry(8, 5, State::Queued));
        assert_eq!(ready(&waiting), [1, 2, 5]);
        waiting.change(1, |entry| entry.state = State::Submitted(10));
        assert_eq!(ready(&waiting), [2, 5]);
        waiting.change(2, |entry| entry.state = State::Submitted(11));
        assert_eq!(ready(&waiting), [5]);
        // The model failed: it comes again before those behind it.
        waiting.change(2, |entry| entry.state = State::Queued);
        assert_eq!(ready(&waiting), [2, 5]);
        waiting.remove(1);
        assert_eq!(ready(&waiting), [2, 3, 5]);
        waiting.remove(2);
        waiting.remove(3);
        assert_eq!(ready(&waiting), [4, 5]);
        waiting.remove(4);
        waiting.remove(5);
        assert!(ready(&waiting).is_empty() && waiting.keys.is_empty());
    }

    #[test]
    fn one_that_the_model_put_off_keeps_its_place_and_has_its_turn_wherever_it_stands() {
        let mut waiting = Waiting::new("ask", 2);
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        for number in 1..=4 {
            waiting.add(number, entry(7, number, State::Queued));
        }
        waiting.change(1, |entry| entry.state = State::Submitted(10));
        waiting.change(2, |entry| entry.state = State::Delayed(later));
        assert!(ready(&waiting).is_empty(), "two of the key are under way");
        assert_eq!(waiting.next_delayed(), Some(later));
        assert!(!waiting.queue_delayed(now));
        assert!(waiting.queue_delayed(later));
        assert_eq!(ready(&waiting), [2]);
        assert_eq!(waiting.next_delayed(), None);
        waiting.change(2, |entry| entry.state = State::Delayed(later));
        waiting.remove(2);
        assert_eq!((ready(&waiting), waiting.next_delayed()), (vec![3], None));
    }

    #[test]
    fn an_answer_leaves_when_those_before_it_in_its_lane_have() {
        let answer = || {
            let made = tidegate_contract::Made::Embedding(Vec::new());
            State::Answered(Box::new(tidegate_contract::Answer {
                made,
                prompt_tokens: 0,
                adapter: String::new(),
                timings: tidegate_contract::Timings::default(),
            }))
        };
        let mut waiting = Waiting::new("ask", 9);
        for number in 1..=3 {
            waiting.add(number, entry(7, number, State::Queued));
        }
        waiting.change(2, |entry| entry.state = answer());
        assert_eq!(waiting.answered().count(), 0);
        waiting.change(1, |entry| entry.state = answer());
        assert_eq!(waiting.answered().collect::<Vec<_>>(), [1]);
        waiting.remove(1);
        assert_eq!(waiting.answered().collect::<Vec<_>>(), [2]);
        waiting.remove(2);
        assert_eq!(waiting.answered().count(), 0);
    }

    #[test]
    fn the_first_of_a_lane_is_due_at_its_time_and_those_behind_it_at_once() {
        let mut waiting = Waiting::new("ask", 1);
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        waiting.add(1, entry(7, 1, State::Delayed(later)));
        waiting.add(2, entry(7, 2, State::Queued));
        waiting.add(3, entry(8, 3, State::Delayed(now)));
        assert_eq!(waiting.due(now), [Lane::Key(8)]);
        assert_eq!(waiting.next_due(), Some(now));
        assert_eq!(waiting.due(later), [Lane::Key(7), Lane::Key(8)]);
        waiting.remove(3);
        assert!(!waiting.is_due(now) && waiting.is_due(later));
        waiting.remove(1);
        assert_eq!(waiting.due(now), [Lane::Key(7)], "it was only held");
    }

    #[test]
    fn an_answer_that_goes_on_after_its_record_came_again_is_heard_to_grow() {
        let mut before = Waiting::new("ask", 1);
        before.add(1, entry(7, 4, State::Submitted(10)));
        // The engine has them, whatever becomes of the task.
        let engine = before.get(1).unwrap().tokens.clone();
        let mut after = Waiting::new("ask", 1);
        after.add(2, entry(7, 4, State::Queued));
        after.change(2, |entry| {
            entry.tokens = engine.clone();
            entry.state = State::Submitted(10);
        });
        after.take_changes();
        assert!(!after.has_changes());
        (0..1000).for_each(|token| engine.push(token));
        assert!(after.has_changes());
    }

    #[test]
    fn the_same_record_may_wait_more_than_once_and_each_is_kept() {
        let mut waiting = Waiting::new("ask", 1);
        waiting.add(1, entry(7, 4, State::Queued));
        waiting.add(2, entry(7, 4, State::Queued));
        let (put, _) = waiting.take_changes();
        let keys: Vec<String> = put.iter().map(|entry| entry.key.to_string()).collect();
        assert_eq!(keys, ["ask/4/0/0/record", "ask/4/0/1/record"]);
        assert!(!waiting.has_changes());
        waiting.remove(1);
        let (put, done) = waiting.take_changes();
        assert!(put.is_empty() && done.len() == 1);
        assert_eq!(done[0].to_string(), "ask/4/0/0/record");
    }
}
