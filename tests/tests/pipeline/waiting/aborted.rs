//! Cuts that come to nothing: the tasks go back to the last one that holds, and nothing is lost, doubled or asked again.

use std::collections::BTreeMap;
use std::sync::mpsc;

use tidegate_contract::{
    Assignment, CommitError, Participants, RefusedRecord, Settled, TaskId, TaskImage,
};
use tidegate_record::RecordId;

use super::*;

/// Of so many cuts one comes to nothing, and what became of a cut is told late.
struct Aborts {
    log: LogCommitter,
    every: usize,
    cuts: usize,
    asked: usize,
    aborted: Option<Settled>,
    /// The record at this offset is refused when it is in such a cut.
    refuses: Option<u64>,
    aborts: Arc<AtomicUsize>,
    /// All cuts that have begun.
    begun: Arc<AtomicUsize>,
}

impl Aborts {
    fn over(every: usize, refuses: Option<u64>, log: LogCommitter) -> (Aborts, Arc<AtomicUsize>) {
        let aborts = Arc::default();
        let over = Aborts {
            log,
            every,
            cuts: 0,
            asked: 0,
            aborted: None,
            refuses,
            aborts: Arc::clone(&aborts),
            begun: Arc::default(),
        };
        (over, aborts)
    }
}

impl Committer for Aborts {
    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        self.log.load(tasks)
    }

    fn begin(&mut self, cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        self.cuts += 1;
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.asked = 0;
        if !self.cuts.is_multiple_of(self.every) {
            return self.log.begin(cut, sinks);
        }
        self.aborts.fetch_add(1, Ordering::SeqCst);
        let refused = |offset| {
            let record = RefusedRecord {
                id: RecordId {
                    offset,
                    ..RecordId::default()
                },
                key: None,
                value: None,
                reason: "it is too large for the topic".into(),
            };
            ("out".to_owned(), record)
        };
        self.aborted = Some(Settled::Aborted {
            why: "as the test wants it".into(),
            refused: self.refuses.map(refused).into_iter().collect(),
        });
        Ok(())
    }

    fn settled(&mut self, wait: Duration) -> Result<Option<Settled>, CommitError> {
        self.asked += 1;
        if self.asked < 4 {
            std::thread::sleep(wait.min(Duration::from_millis(1)));
            return Ok(None);
        }
        match self.aborted.take() {
            Some(aborted) => Ok(Some(aborted)),
            None => self.log.settled(wait),
        }
    }

    fn release(&mut self, tasks: &[TaskId]) {
        self.log.release(tasks);
    }
}

fn elsewhere() -> CommitPoint {
    CommitPoint::Transaction {
        cluster: "a test".into(),
    }
}

/// Answers each request from a thread of its own, once another cut has begun since the answer before it: so there are as
/// many cuts as answers, whichever thread has its turn.
fn slow(begun: Arc<AtomicUsize>) -> Arc<Progress> {
    let (sender, requests) = mpsc::channel::<Request>();
    std::thread::spawn(move || {
        let mut before = 0;
        for request in requests {
            until("another cut", PATIENCE, || {
                begun.load(Ordering::SeqCst) > before
            });
            before = begun.load(Ordering::SeqCst);
            echo(request);
        }
    });
    Progress::new(move |_, request| sender.send(request).unwrap())
}

#[test]
fn a_cut_that_comes_to_nothing_loses_and_doubles_nothing_and_asks_no_model_again() {
    for every in [1, 2, 3, 7] {
        // Of cuts that all come to nothing none would ever hold.
        let every = every + 1;
        let input = Input::records(60);
        let disk = MemoryDisk::new();
        let begun = Arc::<AtomicUsize>::default();
        let model = slow(begun.clone());
        let stages = row(&[Native::splits(2)], model.stage(9, 1));
        let mut aborts = Arc::default();
        let (run, meters) = input
            .start_over(
                &disk,
                stages,
                |log| {
                    let (mut over, counted) = Aborts::over(every, None, log);
                    over.begun = begun;
                    aborts = counted;
                    Box::new(over)
                },
                elsewhere(),
            )
            .unwrap();
        until("the input is read", PATIENCE, || run.is_finished());
        let (restored, again) = (run.controls().restored(), run.controls().taken_back());
        let ended = run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert!(aborts.load(Ordering::SeqCst) > 2, "one of {every}");
        let expected: String = (0..60)
            .flat_map(|n| (0..2).map(move |p| format!("{{\"of\":\"{n}-{p}\"}}\n")))
            .collect();
        assert!(text(&disk, "out") == expected, "one of {every}");
        assert_eq!(model.times(), 120, "one of {every}");
        let counts = ended.counts;
        assert_eq!((counts.input, counts.split, counts.output), (60, 60, 120));
        assert_eq!(
            (counts.requests, counts.dead, counts.in_flight()),
            (120, 0, 0)
        );
        // What status says is the same.
        let seen = meters.snapshot().records;
        let output = (restored.output + seen.output).saturating_sub(again.output);
        let input = (restored.input + seen.input).saturating_sub(again.input);
        assert_eq!((input, output, seen.in_flight), (60, 120, 0));
        assert!(in_flight(&disk).is_empty());
    }
}

#[test]
fn retries_and_held_records_survive_cuts_that_come_to_nothing() {
    let input = Input::records(40);
    let disk = MemoryDisk::new();
    let tries: Arc<Mutex<BTreeMap<u64, usize>>> = Arc::default();
    let seen = tries.clone();
    let retries = Native::new(move |batch| {
        let mut outcomes = OutcomesBuilder::default();
        for record in batch.view().records() {
            let tries = *seen
                .lock()
                .unwrap()
                .entry(record.id().offset)
                .and_modify(|tries| *tries += 1)
                .or_default();
            match tries {
                0 | 1 => outcomes.retry(3, "not yet"),
                _ => outcomes.pass(),
            }
        }
        outcomes.finish()
    });
    let (run, _) = input
        .start_over(
            &disk,
            vec![retries.stage("retry", Target::Sink(0))],
            |log| Box::new(Aborts::over(3, None, log).0),
            elsewhere(),
        )
        .unwrap();
    until("the input is read", PATIENCE, || run.is_finished());
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let mut lines: Vec<String> = text(&disk, "out").lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected: Vec<String> = (0..40).map(|n| format!("{{\"n\":{n}}}")).collect();
    expected.sort();
    assert_eq!(lines, expected);
    assert_eq!(
        (ended.counts.input, ended.counts.output, ended.counts.dead),
        (40, 40, 0)
    );
}

#[test]
fn a_record_that_an_output_refuses_is_a_dead_letter_when_it_comes_again() {
    let input = Input::records(20);
    let disk = MemoryDisk::new();
    let (run, _) = input
        .start_over(
            &disk,
            vec![passes().stage("pass", Target::Sink(0))],
            |log| {
                // At byte 8 the second line begins.
                Box::new(Aborts::over(2, Some(8), log).0)
            },
            elsewhere(),
        )
        .unwrap();
    until("the input is read", PATIENCE, || run.is_finished());
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let out = text(&disk, "out");
    let dead = text(&disk, "dead-letters");
    let (letters, whole) = (dead.lines().count(), out.lines().count());
    assert_eq!(letters + whole, 20, "{out}{dead}");
    assert_eq!(
        (ended.counts.output, ended.counts.dead),
        (whole as u64, letters as u64)
    );
    // Whether the record was in a cut that held before the first that did not is chance.
    assert!(letters <= 1, "{dead}");
    if letters == 1 {
        assert!(dead.contains("it is too large for the topic"), "{dead}");
        assert!(!out.contains("{\"n\":1}\n"), "{out}");
    }
}
