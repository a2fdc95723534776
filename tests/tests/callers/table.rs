//! A table of those who wait, which checks what it is told, and the source and the sink beside it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tidegate_contract::{
    Answer, Assigned, Became, CallerId, Callers, DeadLetter, HostHeaders, Lane, Listener,
    ModelError, Partition, Piece, Sink, SinkError, SinkPosition, Source, SourceError, SourceEvent,
    Tally, Terms,
};
use tidegate_record::{BatchBuilder, NewRecord, PublicRecord, RecordId};

pub(crate) const PARTITION: Partition = Partition {
    source: 0,
    number: 0,
};

/// What became of a piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Dropped(String),
    Untaken(String),
    Written(String),
    Dead(String, String, Option<ModelError>),
}

/// What a listener was shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Piece {
        choice: u32,
        lane: Lane,
        text: String,
        begins: Option<(String, String)>,
        logprobs: usize,
    },
}

/// What a model has made of an attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) asked: bool,
    /// Tokens that the first choice begins with.
    pub(crate) before: u32,
    /// Tokens of each choice.
    pub(crate) tokens: BTreeMap<u32, u32>,
    /// The model has let go.
    pub(crate) over: bool,
}

#[derive(Default)]
struct Inner {
    /// Pieces that have not ended, by offset.
    left: BTreeMap<u64, i64>,
    ends: BTreeMap<u64, Vec<End>>,
    terms: BTreeMap<u64, Terms>,
    gone: Vec<u64>,
    /// By offset and attempt.
    seen: BTreeMap<(u64, u32), Vec<Seen>>,
    /// What each piece brought that came to the sink.
    brought: BTreeMap<u64, Vec<Option<Arc<Answer>>>>,
    /// What models have made, by offset and attempt.
    made: BTreeMap<(u64, u32), Counted>,
    /// The models that have begun, by offset.
    begun: BTreeMap<u64, Vec<String>>,
    incoming: VecDeque<(u64, Vec<u8>)>,
    next: u64,
    /// What the sink was given: offset and value.
    answers: Vec<(u64, Vec<u8>, Instant)>,
    wake: Option<Arc<dyn Fn() + Send + Sync>>,
    /// What is seen stays seen.
    shows_for_good: bool,
    /// Of an earlier run: the offsets that are still wanted.
    wanted: Vec<u64>,
    /// What the run was told that an earlier one left: offsets and pieces.
    was_left: Option<Vec<(u64, usize)>>,
}

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Table(Arc<(Mutex<Inner>, Condvar)>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.0.lock().unwrap()
    }

    /// Somebody asks, and waits. Returns the offset.
    pub(crate) fn ask(&self, value: impl Into<Vec<u8>>) -> u64 {
        self.ask_with(value, None)
    }

    pub(crate) fn ask_with(&self, value: impl Into<Vec<u8>>, terms: Option<Terms>) -> u64 {
        let mut inner = self.lock();
        let offset = inner.next;
        inner.next += 1;
        inner.left.insert(offset, 1);
        let nobody_hurries = Terms {
            deadline: None,
            class: 3,
        };
        inner.terms.insert(offset, terms.unwrap_or(nobody_hurries));
        inner.incoming.push_back((offset, value.into()));
        self.0.1.notify_all();
        let wake = inner.wake.clone();
        drop(inner);
        if let Some(wake) = wake {
            wake();
        }
        offset
    }

    /// From now on what listeners are shown cannot be taken back.
    pub(crate) fn show_for_good(&self) {
        self.lock().shows_for_good = true;
    }

    /// Nobody waits for this one from the beginning.
    pub(crate) fn forget_terms(&self, offset: u64) {
        self.lock().terms.remove(&offset);
    }

    /// Somebody will ask again for these records of an earlier run. What is asked here comes after them.
    pub(crate) fn wants(&self, offsets: &[u64], next: u64) {
        let mut inner = self.lock();
        (inner.wanted, inner.next) = (offsets.to_vec(), next);
    }

    /// What an earlier run left.
    pub(crate) fn was_left(&self) -> Option<Vec<(u64, usize)>> {
        self.lock().was_left.clone()
    }

    /// A caller waits until then.
    pub(crate) fn waits_until(&self, offset: u64, deadline: Instant) {
        let mut inner = self.lock();
        inner.terms.get_mut(&offset).unwrap().deadline = Some(deadline);
    }

    /// A caller goes. What was not read yet is nobody's to end.
    pub(crate) fn goes(&self, offset: u64) {
        let mut inner = self.lock();
        let before = inner.incoming.len();
        inner.incoming.retain(|(of, _)| *of != offset);
        match inner.incoming.len() < before {
            true => drop(inner.left.insert(offset, 0)),
            false => inner.gone.push(offset),
        }
    }

    /// How many pieces of a record have no end yet.
    pub(crate) fn left(&self, offset: u64) -> i64 {
        self.lock().left[&offset]
    }

    /// Whether every piece of every record has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().left.values().all(|left| *left == 0)
    }

    pub(crate) fn ends(&self, offset: u64) -> Vec<End> {
        self.lock().ends.get(&offset).cloned().unwrap_or_default()
    }

    /// What was seen of an attempt.
    pub(crate) fn seen(&self, offset: u64, attempt: u32) -> Vec<Seen> {
        let inner = self.lock();
        inner
            .seen
            .get(&(offset, attempt))
            .cloned()
            .unwrap_or_default()
    }

    /// What was made of an attempt.
    pub(crate) fn made(&self, offset: u64, attempt: u32) -> Counted {
        let inner = self.lock();
        inner
            .made
            .get(&(offset, attempt))
            .cloned()
            .unwrap_or_default()
    }

    /// The texts that were seen of a lane of the first choice, put together.
    pub(crate) fn text(&self, offset: u64, attempt: u32, of: Lane) -> String {
        let seen = self.seen(offset, attempt);
        let texts = seen.iter().filter_map(|seen| match seen {
            Seen::Piece {
                choice: 0,
                lane,
                text,
                ..
            } if *lane == of => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// What each piece brought that came to the sink: what a model has said.
    pub(crate) fn brought(&self, offset: u64) -> Vec<Option<Arc<Answer>>> {
        let inner = self.lock();
        inner.brought.get(&offset).cloned().unwrap_or_default()
    }

    /// The values of the pieces that came to the sink.
    pub(crate) fn values(&self, offset: u64) -> Vec<String> {
        let inner = self.lock();
        let answers = inner.answers.iter().filter(|(of, ..)| *of == offset);
        answers
            .map(|(_, value, _)| String::from_utf8_lossy(value).into_owned())
            .collect()
    }

    /// Whether a piece has come to the sink with the member that it takes for the answer.
    fn is_answered(&self, offset: u64) -> bool {
        let answer = |value: &String| {
            let value: serde_json::Value = serde_json::from_str(value).unwrap();
            value.get("answer").is_some()
        };
        self.values(offset).iter().any(answer)
    }

    /// The attempts that were listened to.
    pub(crate) fn attempts(&self, offset: u64) -> Vec<u32> {
        let inner = self.lock();
        let attempts = inner.seen.keys().filter(|(of, _)| *of == offset);
        attempts.map(|(_, attempt)| *attempt).collect()
    }

    /// The models that have begun to answer a record.
    pub(crate) fn begun(&self, offset: u64) -> Vec<String> {
        let inner = self.lock();
        inner.begun.get(&offset).cloned().unwrap_or_default()
    }

    /// What the sink has of a record, as JSON.
    pub(crate) fn answer(&self, offset: u64) -> Option<serde_json::Value> {
        let inner = self.lock();
        let (_, value, _) = inner.answers.iter().find(|(of, ..)| *of == offset)?;
        Some(serde_json::from_slice(value).unwrap())
    }

    /// When the sink was given it.
    pub(crate) fn answered_at(&self, offset: u64) -> Option<Instant> {
        let inner = self.lock();
        let (.., at) = inner.answers.iter().find(|(of, ..)| *of == offset)?;
        Some(*at)
    }
}

impl Callers for Table {
    fn terms(&self, caller: CallerId) -> Option<Terms> {
        self.lock().terms.get(&caller.offset).copied()
    }

    fn listen(&self, caller: CallerId, attempt: u32) -> Option<Box<dyn Listener>> {
        let place = (caller.offset, attempt);
        // As the gateway: whoever has an answer hears no other.
        if self.is_answered(caller.offset) {
            return None;
        }
        let before = self.lock().seen.insert(place, Vec::new());
        assert_eq!(before, None, "one stage, and one piece, is heard");
        Some(Box::new(Hears(self.clone(), place)))
    }

    fn brings(&self, caller: CallerId, answer: Option<Arc<Answer>>) {
        let mut inner = self.lock();
        inner.brought.entry(caller.offset).or_default().push(answer);
    }

    fn tally(&self, caller: CallerId, attempt: u32, made: u32) -> Option<Arc<dyn Tally>> {
        let counts = Counts(self.clone(), (caller.offset, attempt));
        counts.change(|counted| counted.before = made);
        Some(Arc::new(counts))
    }

    fn begun(&self, caller: CallerId, model: &str) {
        let mut inner = self.lock();
        let begun = inner.begun.entry(caller.offset).or_default();
        begun.push(model.to_owned());
    }

    fn tell(&self, caller: CallerId, became: &Became<'_>) {
        assert_eq!(
            (caller.source, caller.partition),
            (0, 0),
            "nobody else waits"
        );
        let mut inner = self.lock();
        let left = inner
            .left
            .get_mut(&caller.offset)
            .expect("somebody waits for it");
        assert!(*left > 0, "{caller:?} has ended, and {became:?}");
        let end = match became {
            Became::Several(pieces) => {
                assert!(*pieces > 1, "{pieces} pieces are not several");
                *left += *pieces as i64 - 1;
                return;
            }
            Became::Dropped { stage } => End::Dropped((*stage).into()),
            Became::Untaken { stage } => End::Untaken((*stage).into()),
            Became::Written { sink } => End::Written((*sink).into()),
            Became::Dead {
                stage,
                reason,
                error,
            } => End::Dead((*stage).into(), (*reason).into(), error.cloned()),
        };
        *left -= 1;
        inner.ends.entry(caller.offset).or_default().push(end);
    }

    fn take_gone(&self) -> Vec<CallerId> {
        let gone = std::mem::take(&mut self.lock().gone);
        let of = |offset| CallerId {
            source: 0,
            partition: 0,
            offset,
        };
        gone.into_iter().map(of).collect()
    }

    fn left(&self, source: u16, left: &[(CallerId, usize)]) -> Vec<CallerId> {
        assert_eq!(source, 0);
        let mut inner = self.lock();
        assert_eq!(inner.was_left, None, "it is told once");
        let counts = left.iter().map(|(caller, pieces)| (caller.offset, *pieces));
        inner.was_left = Some(counts.collect());
        let mut wanted = Vec::new();
        for (caller, pieces) in left {
            inner.left.insert(caller.offset, *pieces as i64);
            if inner.wanted.contains(&caller.offset) {
                let terms = Terms {
                    deadline: None,
                    class: 3,
                };
                inner.terms.insert(caller.offset, terms);
                wanted.push(*caller);
            }
        }
        wanted
    }
}

struct Hears(Table, (u64, u32));

impl Hears {
    fn push(&self, seen: Seen) {
        let mut inner = self.0.lock();
        inner.seen.get_mut(&self.1).unwrap().push(seen);
    }
}

impl Listener for Hears {
    fn piece(&mut self, piece: &Piece<'_>) {
        self.push(Seen::Piece {
            choice: piece.choice,
            lane: piece.lane,
            text: piece.text.into(),
            begins: piece.begins.map(|(id, name)| (id.into(), name.into())),
            logprobs: piece.logprobs.len(),
        });
    }

    fn has_shown(&self) -> bool {
        let inner = self.0.lock();
        inner.shows_for_good && inner.seen.get(&self.1).is_some_and(|seen| !seen.is_empty())
    }
}

struct Counts(Table, (u64, u32));

impl Counts {
    fn change(&self, change: impl FnOnce(&mut Counted)) {
        change(self.0.lock().made.entry(self.1).or_default());
    }
}

impl Tally for Counts {
    fn asked(&self) {
        self.change(|made| made.asked = true);
    }

    fn made(&self, choice: u32, tokens: u32) {
        self.change(|made| {
            made.tokens.insert(choice, tokens);
        });
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.change(|made| made.over = true);
    }
}

/// What is asked comes from here.
pub(crate) struct Incoming {
    pub(crate) table: Table,
    pub(crate) assigned: bool,
    pub(crate) paused: bool,
}

impl Source for Incoming {
    fn poll(
        &mut self,
        records: usize,
        _: usize,
        wait: Duration,
    ) -> Result<SourceEvent, SourceError> {
        if !std::mem::replace(&mut self.assigned, true) {
            return Ok(SourceEvent::Assigned(vec![Assigned {
                partition: PARTITION,
                kept: None,
            }]));
        }
        let mut inner = self.table.lock();
        if inner.incoming.is_empty() && !wait.is_zero() {
            (inner, _) = self.table.0.1.wait_timeout(inner, wait).unwrap();
        }
        if self.paused || inner.incoming.is_empty() {
            return Ok(SourceEvent::Idle);
        }
        let mut batch = BatchBuilder::default();
        let mut next = 0;
        for _ in 0..records.min(inner.incoming.len()) {
            let (offset, value) = inner.incoming.pop_front().unwrap();
            next = offset + 1;
            let id = RecordId {
                offset,
                ..RecordId::default()
            };
            let record = NewRecord {
                id,
                value: Some(&value),
                ..NewRecord::default()
            };
            batch.push(&record).unwrap();
        }
        Ok(SourceEvent::Records {
            partition: PARTITION,
            batch: batch.finish(0),
            rejected: Vec::new(),
            next,
        })
    }
    fn seek(&mut self, _: Partition, _: u64) -> Result<(), SourceError> {
        panic!("what was asked does not come again");
    }
    fn pause(&mut self, _: Partition) -> Result<(), SourceError> {
        self.paused = true;
        Ok(())
    }
    fn resume(&mut self, _: Partition) -> Result<(), SourceError> {
        self.paused = false;
        Ok(())
    }
    fn wakes(&mut self, wake: Arc<dyn Fn() + Send + Sync>) -> bool {
        self.table.lock().wake = Some(wake);
        true
    }
}

/// Answers, at once.
pub(crate) struct Answers(pub(crate) Table);

impl Sink for Answers {
    fn write(&mut self, record: PublicRecord<'_>, _: HostHeaders<'_>) -> Result<(), SinkError> {
        let value = record.value().unwrap_or_default().to_vec();
        if value.ends_with(b"unwritable") {
            let mut inner = self.0.lock();
            let brought = inner.brought.get_mut(&record.id().offset);
            brought.expect("it was told what comes").pop();
            return Err(SinkError::Encode {
                format: "json",
                why: "it says so".into(),
            });
        }
        let answer = (record.id().offset, value, Instant::now());
        self.0.lock().answers.push(answer);
        Ok(())
    }
    fn write_dead(&mut self, _: &DeadLetter<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn pending(&self) -> usize {
        0
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn discard(&mut self) {}
    fn recover(&mut self, _: &[SinkPosition]) -> Result<(), SinkError> {
        Ok(())
    }
}
