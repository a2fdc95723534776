//! What takes long and is under way: each piece of work has a handle that counts, and whoever looks on has a list.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::format::{count, size};
use crate::plain::plain;

/// Most pieces of work that are listed at a time. What is begun beyond them goes on unseen.
const MOST: usize = 64;
/// Most bytes of a subject.
const SUBJECT: usize = 256;
/// That nobody can tell how much there is.
const UNKNOWN: u64 = u64::MAX;

/// What kind of work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// A model's files are read and hashed.
    Read,
    /// A model goes onto its adapter.
    Load,
    /// A model is written in another format.
    Convert,
    /// A component becomes machine code.
    Compile,
    /// What waits is read from a changelog.
    Restore,
    /// A log of this machine is read.
    Replay,
}

impl WorkKind {
    /// Its name in every list.
    pub fn name(self) -> &'static str {
        match self {
            WorkKind::Read => "read",
            WorkKind::Load => "load",
            WorkKind::Convert => "convert",
            WorkKind::Compile => "compile",
            WorkKind::Restore => "restore",
            WorkKind::Replay => "replay",
        }
    }

    /// What is counted.
    pub fn unit(self) -> &'static str {
        match self {
            WorkKind::Read | WorkKind::Load | WorkKind::Convert | WorkKind::Replay => "bytes",
            WorkKind::Restore => "records",
            WorkKind::Compile => "bytes of memory",
        }
    }
}

/// The list of what is under way. Cheap to clone: all clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Works(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    begun: u64,
    under_way: BTreeMap<u64, Arc<Doing>>,
}

#[derive(Debug)]
struct Doing {
    kind: WorkKind,
    subject: String,
    since: Instant,
    /// When it last went on, in milliseconds since then.
    moved: AtomicU64,
    done: AtomicU64,
    of: AtomicU64,
}

/// A piece of work that is under way, until this is dropped: however it ended, it is listed no more.
#[derive(Debug)]
pub struct Work {
    works: Works,
    number: u64,
    doing: Arc<Doing>,
}

/// A piece of work as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// Another number for each, in the order in which they were begun.
    pub number: u64,
    /// Its kind.
    pub kind: WorkKind,
    /// With what: on one line, of bounded length.
    pub subject: String,
    /// How much is done.
    pub done: u64,
    /// How much there is, if that is known.
    pub of: Option<u64>,
    /// Since it was begun.
    pub elapsed: Duration,
    /// Since it last went on.
    pub still: Duration,
}

impl Works {
    /// Begins a piece of work. How much there is may be told later.
    pub fn begin(&self, kind: WorkKind, subject: &str) -> Work {
        let doing = Arc::new(Doing {
            kind,
            subject: plain(subject, SUBJECT).into_owned(),
            since: Instant::now(),
            moved: AtomicU64::new(0),
            done: AtomicU64::new(0),
            of: AtomicU64::new(UNKNOWN),
        });
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.begun += 1;
        let number = list.begun;
        if list.under_way.len() < MOST {
            list.under_way.insert(number, Arc::clone(&doing));
        }
        drop(list);
        Work {
            works: self.clone(),
            number,
            doing,
        }
    }

    /// What is under way, the oldest first.
    pub fn under_way(&self) -> Vec<UnderWay> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let each = |(number, doing): (&u64, &Arc<Doing>)| {
            let of = doing.of.load(Ordering::Relaxed);
            let elapsed = now.saturating_duration_since(doing.since);
            let moved = Duration::from_millis(doing.moved.load(Ordering::Relaxed));
            UnderWay {
                number: *number,
                kind: doing.kind,
                subject: doing.subject.clone(),
                done: doing.done.load(Ordering::Relaxed),
                of: (of != UNKNOWN).then_some(of),
                still: elapsed.saturating_sub(moved),
                elapsed,
            }
        };
        list.under_way.iter().map(each).collect()
    }
}

impl Work {
    /// So much is done.
    pub fn done(&self, done: u64) {
        if self.doing.done.swap(done, Ordering::Relaxed) != done {
            self.moved();
        }
    }

    /// So much more is done.
    pub fn add(&self, more: u64) {
        self.doing.done.fetch_add(more, Ordering::Relaxed);
        self.moved();
    }

    fn moved(&self) {
        let milliseconds = self.doing.since.elapsed().as_millis() as u64;
        self.doing.moved.store(milliseconds, Ordering::Relaxed);
    }

    /// So much is done of so much.
    pub fn done_of(&self, done: u64, of: u64) {
        self.doing.of.store(of, Ordering::Relaxed);
        self.done(done);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut list = self.works.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.under_way.remove(&self.number);
    }
}

impl UnderWay {
    /// The share of it that is done, 0 to 1, if that is known.
    pub fn share(&self) -> Option<f64> {
        Some(share(self.done, self.of.filter(|of| *of > 0)?))
    }
}

impl std::fmt::Display for UnderWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.elapsed.as_secs();
        let (kind, unit) = (self.kind.name(), self.kind.unit());
        f.write_str(&work_line(
            kind,
            &self.subject,
            (self.done, self.of, unit),
            seconds,
        ))
    }
}

/// The one line that shows a piece of work, wherever that is: its kind and subject, how much is done of how much, if that
/// is known, in which unit, and for how many seconds it has been under way.
pub fn work_line(
    kind: &str,
    subject: &str,
    (done, of, unit): (u64, Option<u64>, &str),
    seconds: u64,
) -> String {
    let amount = |amount: u64| match unit {
        "bytes" => size(amount),
        "bytes of memory" => format!("{} of memory", size(amount)),
        unit => format!("{} {unit}", count(amount)),
    };
    let subject = plain(subject, 2 * SUBJECT);
    match of.filter(|of| *of > 0) {
        Some(of) => {
            let percent = (share(done, of) * 100.0).floor();
            format!(
                "{kind} {subject}: {percent:.0} % of {}, {seconds} s",
                amount(of)
            )
        }
        None if done > 0 => format!("{kind} {subject}: {}, {seconds} s", amount(done)),
        None => format!("{kind} {subject}: {seconds} s"),
    }
}

fn share(done: u64, of: u64) -> f64 {
    (done as f64 / of as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_listed_while_it_is_under_way_and_never_after() {
        let works = Works::default();
        let load = works.begin(WorkKind::Load, "support");
        let compile = works.begin(WorkKind::Compile, "a\u{1b}[2Jb\n");
        load.done_of(1 << 20, 4 << 20);
        load.add(1 << 20);
        let listed = works.under_way();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0].share(), Some(0.5));
        assert_eq!(listed[0].to_string(), "load support: 50 % of 4.0 MiB, 0 s");
        assert_eq!(listed[1].to_string(), "compile a\\u{1b}[2Jb\\n: 0 s");
        compile.done(300 << 20);
        let line = works.under_way()[1].to_string();
        assert!(line.ends_with(": 300.0 MiB of memory, 0 s"), "{line}");
        drop(load);
        assert_eq!(works.under_way().len(), 1);
        let failed: Result<(), String> = (|| {
            let _work = works.begin(WorkKind::Replay, "commit.log");
            Err("the disk is gone")?;
            Ok(())
        })();
        assert!(failed.is_err());
        drop(compile);
        assert_eq!(works.under_way(), []);
    }

    #[test]
    fn work_that_says_the_same_again_has_not_gone_on() {
        let works = Works::default();
        let load = works.begin(WorkKind::Load, "support");
        load.done_of(1, 4);
        let still = || works.under_way()[0].still;
        let waits = |than: Duration| {
            while still() <= than {
                std::thread::yield_now();
            }
        };
        waits(Duration::from_millis(20));
        let before = still();
        load.done_of(1, 4);
        assert!(still() >= before, "nothing more is done");
        load.done_of(2, 4);
        let listed = &works.under_way()[0];
        assert!(listed.still < listed.elapsed, "{listed:?}");
    }

    #[test]
    fn more_work_than_the_list_has_room_for_goes_on_unseen() {
        let works = Works::default();
        let subject = "x".repeat(100_000);
        let many: Vec<Work> = (0..MOST + 10)
            .map(|_| works.begin(WorkKind::Restore, &subject))
            .collect();
        many.iter().for_each(|work| work.add(1));
        let listed = works.under_way();
        assert_eq!(listed.len(), MOST);
        assert!(listed.iter().all(|one| one.subject.len() < 2 * SUBJECT));
        drop(many);
        assert_eq!(works.under_way(), []);
    }
}
