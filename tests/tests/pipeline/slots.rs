//! Slots whose operators cannot be started when they are needed, and what cuts say of versions meanwhile. The operators
//! are native here, so that a test says when a start fails; the tasks, the cuts and the log are the real ones.

mod arriving;
mod setting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_contract::{
    Assignment, CommitError, Committer, Cut, Keeper, Mark, OperatorVersion, Participants, Settled,
    Slot, TaskId, TaskImage,
};
use tidegate_state::LogCommitter;
use tidegate_telemetry::Meters;
use tidegate_tests::until;

use setting::*;

#[test]
fn a_stage_whose_operator_does_not_start_again_keeps_its_records_and_goes_on_by_itself() {
    for keyed in [true, false] {
        goes_on_by_itself(&Setting::new(2, keyed));
    }
}

fn goes_on_by_itself(setting: &Setting) {
    let run = setting.start();
    setting.out(2);
    setting.slot.lost.store(true, Ordering::SeqCst);
    for partition in 0..2 {
        setting.append(partition, 1..5000);
    }
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("both tasks wait", PATIENCE, || {
        unavailable().is_some_and(|unavailable| unavailable.tasks == 2)
    });
    let reason = unavailable().unwrap().reason;
    assert!(reason.contains("init: it takes too long today"), "{reason}");
    assert!(!run.is_finished());
    // A crash now repeats and loses nothing either: the records that wait are part of the cut.
    until("they are in the log", PATIENCE, || {
        let (_, recovered) = setting.log(&setting.disk.restart(0));
        recovered.entries().next().is_some()
    });
    setting.slot.lost.store(false, Ordering::SeqCst);
    setting.out(2 * 5000);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.counts.input, ended.counts.output), (10_000, 10_000));
    assert_eq!((ended.counts.dead, ended.counts.retried), (0, 0));
    setting.check(5000);
    assert!(unavailable().is_none());
}

#[test]
fn records_that_wait_for_an_operator_outlive_a_restart() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.out(1);
    setting.slot.lost.store(true, Ordering::SeqCst);
    setting.append(0, 1..100);
    until("records wait", PATIENCE, || {
        setting.meters.stages()[0].unavailable().is_some()
    });
    run.controls().stop();
    assert!(run.join().error.is_none());
    // And the next run begins without an instance.
    let setting = Setting {
        meters: Arc::new(Meters::new("slots", ["pass"])),
        slot: Doors::new(),
        ..setting
    };
    setting.slot.deploy(setting.slot.version(), 0);
    let run = setting.start();
    until("it has none", PATIENCE, || {
        setting.meters.stages()[0].unavailable().is_some()
    });
    setting.append(0, 100..200);
    let version = setting.slot.version();
    setting.slot.deploy(version, usize::MAX);
    setting.out(200);
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(200);
}

#[test]
fn a_cut_names_the_version_that_every_task_runs() {
    let setting = Setting::new(2, true);
    let run = setting.start();
    setting.out(2);
    let old = setting.slot.version();
    // One of two tasks gets an instance of it.
    setting.slot.deploy(version("sha256:new"), 1);
    let why = run.controls().switch("pass", PATIENCE).unwrap_err();
    assert!(why.contains("no room for an instance"), "{why}");
    for partition in 0..2 {
        setting.append(partition, 1..50);
    }
    setting.out(100);
    assert_eq!(
        setting.named().unwrap(),
        "sha256:old",
        "it is about to go back"
    );
    // The way back: the task that kept the old version needs no instance for it.
    let asked = setting.slot.asked.load(Ordering::SeqCst);
    setting.slot.deploy(old, 1);
    assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 2);
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), asked + 1);
    setting.slot.deploy(version("sha256:next"), 2);
    assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 2);
    until("a cut names it", PATIENCE, || {
        setting.named().as_deref() == Some("sha256:next")
    });
    assert_eq!(run.controls().committed_slots()[0].digest, "sha256:next");
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(50);
}

#[test]
fn a_batch_that_takes_long_is_cut_and_its_operator_replaced_in_its_middle() {
    for keyed in [true, false] {
        let setting = Setting::new(2, keyed);
        let run = setting.start();
        setting.out(2);
        setting.slot.answers.store(3, Ordering::SeqCst);
        for partition in 0..2 {
            setting.append(partition, 1..50);
        }
        // A cut has what is done of the batch, and the rest of it as one entry.
        setting.out(5);
        until("what is under way is in the log", PATIENCE, || {
            let (_, recovered) = setting.log(&setting.disk.restart(0));
            let kept = recovered.entries().count();
            assert!(kept < 8, "{kept} entries for two batches");
            kept > 0
        });
        setting.slot.deploy(version("sha256:new"), usize::MAX);
        assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 2);
        assert_eq!(setting.lines("out").len(), 5, "still under way");
        run.controls().stop();
        let ended = run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert_eq!(ended.counts.in_flight(), ended.counts.input - 5);
        setting.slot.answers.store(usize::MAX, Ordering::SeqCst);
        let setting = Setting {
            meters: Arc::new(Meters::new("slots", ["pass"])),
            ..setting
        };
        let run = setting.start();
        setting.out(100);
        run.controls().stop();
        assert!(run.join().error.is_none());
        setting.check(50);
    }
}

#[test]
fn a_stage_without_an_instance_is_asked_less_and_less_while_a_record_of_it_waits_for_its_time() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.has_a_record_wait_for_its_time();
    setting.slot.lost.store(true, Ordering::SeqCst);
    setting.append(0, 1..2);
    let unavailable = || setting.meters.stages()[0].unavailable();
    // It is the same trouble all the time: what has its time later does not end it.
    until("the trouble has lasted for a while", PATIENCE, || {
        unavailable().is_some_and(|trouble| trouble.since.elapsed() > Duration::from_secs(2))
    });
    let in_vain = setting.slot.in_vain.load(Ordering::SeqCst);
    assert!(in_vain <= 12, "{in_vain} starts in vain");
    setting.slot.lost.store(false, Ordering::SeqCst);
    setting.out(2);
    assert!(unavailable().is_none());
    run.controls().stop();
    assert!(run.join().error.is_none());
}

#[test]
fn records_of_a_partition_that_was_taken_away_are_counted_once() {
    let setting = Setting::new(1, false);
    setting.slot.answers.store(3, Ordering::SeqCst);
    let topic = Topic::new(20);
    let taken_away = topic.taken_away.clone();
    let run = setting.start_with(Box::new(topic), false);
    let committed = || run.controls().committed();
    until("three of a batch are done", PATIENCE, || {
        committed().output == 3 && committed().in_flight() > 0
    });
    taken_away.store(true, Ordering::SeqCst);
    until("it is taken away", PATIENCE, || {
        !taken_away.load(Ordering::SeqCst)
    });
    setting.slot.answers.store(usize::MAX, Ordering::SeqCst);
    setting.out(20);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!((ended.counts.input, ended.counts.output), (20, 20));
    setting.check(20);
}

#[test]
fn what_another_member_has_done_is_gone_from_the_log_with_the_next_cut() {
    let setting = Setting::new(1, false);
    setting.slot.answers.store(3, Ordering::SeqCst);
    let topic = Topic::new(20);
    let (taken_away, others) = (topic.taken_away.clone(), topic.others.clone());
    let run = setting.start_with(Box::new(topic), false);
    let committed = || run.controls().committed();
    until("three of a batch are done", PATIENCE, || {
        committed().output == 3 && committed().in_flight() > 0
    });
    *others.lock().unwrap() = Some(12);
    taken_away.store(true, Ordering::SeqCst);
    until("it is taken away, and has come back", PATIENCE, || {
        others.lock().unwrap().is_none()
    });
    setting.slot.answers.store(usize::MAX, Ordering::SeqCst);
    setting.out(11);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let counts = ended.counts;
    assert_eq!(
        (counts.input, counts.output, counts.in_flight()),
        (11, 11, 0)
    );
    let (_, recovered) = setting.log(&setting.disk.restart(0));
    assert_eq!(recovered.entries().count(), 0);
    let numbers = setting.lines("out").len();
    assert_eq!(numbers, 11);
}

#[test]
fn partitions_that_come_at_any_time_start_their_operators_with_their_first_records() {
    let setting = Setting::new(1, false);
    let topic = Topic::new(0);
    let polled = topic.polled.clone();
    let run = setting.start_with(Box::new(topic), false);
    until("it has been given its partition", PATIENCE, || {
        polled.load(Ordering::SeqCst) > 2
    });
    // A deployment does not start it either, and counts no task that has nothing to switch.
    setting.slot.deploy(version("sha256:new"), usize::MAX);
    let report = run.controls().switch("pass", PATIENCE).unwrap();
    assert_eq!(report.tasks, 0);
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), 0);
    run.controls().stop();
    assert!(run.join().error.is_none());

    let setting = Setting::new(1, false);
    let run = setting.start_with(Box::new(Topic::new(20)), false);
    setting.out(20);
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), 1);
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(20);
}

#[test]
fn a_deployment_that_is_done_is_in_the_log_whether_a_record_has_come_or_not() {
    let setting = Setting::new(1, false);
    let topic = Topic::new(0);
    let polled = topic.polled.clone();
    let run = setting.start_with(Box::new(topic), false);
    until("it has been given its partition", PATIENCE, || {
        polled.load(Ordering::SeqCst) > 2
    });
    let old = setting.slot.version();
    setting.slot.deploy(version("sha256:new"), usize::MAX);
    run.controls().switch("pass", PATIENCE).unwrap();
    assert_eq!(setting.named().as_deref(), Some("sha256:new"));
    assert_eq!(run.controls().committed_slots()[0].digest, "sha256:new");
    // The way back is a deployment too.
    setting.slot.deploy(old, usize::MAX);
    run.controls().switch("pass", PATIENCE).unwrap();
    assert_eq!(setting.named().as_deref(), Some("sha256:old"));
    // Another configuration of the same component is another revision.
    let mut other = OperatorVersion::clone(&setting.slot.version());
    other.revision.digest = "sha256:other".into();
    setting.slot.deploy(Arc::new(other), usize::MAX);
    run.controls().switch("pass", PATIENCE).unwrap();
    let (_, recovered) = setting.log(&setting.disk.restart(0));
    assert_eq!(recovered.slots[0].revision.digest, "sha256:other");
    run.controls().stop();
    assert!(run.join().error.is_none());
    assert!(run_has_ended(&setting), "nothing is said after the end");
}

fn run_has_ended(setting: &Setting) -> bool {
    let (_, recovered) = setting.log(&setting.disk.restart(0));
    recovered.sinks.iter().all(|file| file.ended)
}

#[test]
fn a_start_that_hangs_is_tried_by_one_task_for_all_of_its_worker() {
    let setting = Setting::new(8, false);
    setting.slot.hangs.store(1000, Ordering::SeqCst);
    setting.slot.deploy(setting.slot.version(), 0);
    let run = setting.start();
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("all tasks wait", PATIENCE, || {
        unavailable().is_some_and(|unavailable| unavailable.tasks == 8)
    });
    // A pause is much longer than the try before it.
    let asked = setting.slot.asked.load(Ordering::SeqCst);
    assert!(asked < 4, "{asked} tries for eight tasks");
    let reason = unavailable().unwrap().reason;
    assert!(reason.ends_with("no room for an instance"), "{reason:?}");
    // Another version is tried at once.
    setting.slot.deploy(version("sha256:new"), usize::MAX);
    assert_eq!(run.controls().switch("pass", PATIENCE).unwrap().tasks, 8);
    setting.out(8);
    assert!(unavailable().is_none());
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(1);
}

#[test]
fn a_trouble_is_over_with_the_start_that_ends_it_though_a_record_waits_for_its_time() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.has_a_record_wait_for_its_time();
    run.controls().stop();
    assert!(run.join().error.is_none());
    let setting = Setting {
        meters: Arc::new(Meters::new("slots", ["pass"])),
        slot: Doors::new(),
        ..setting
    };
    setting.slot.deploy(setting.slot.version(), 0);
    let run = setting.start();
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("it has none", PATIENCE, || unavailable().is_some());
    setting.slot.deploy(setting.slot.version(), usize::MAX);
    until("it has one", PATIENCE, || unavailable().is_none());
    run.controls().stop();
    assert_eq!(run.join().counts.in_flight(), 1);
}

#[test]
fn a_stage_that_has_an_instance_which_answers_nothing_is_in_one_trouble_until_it_does() {
    let setting = Setting::new(1, true);
    let run = setting.start();
    setting.out(1);
    setting.slot.mute.store(true, Ordering::SeqCst);
    setting.append(0, 1..2);
    let unavailable = || setting.meters.stages()[0].unavailable();
    until("it answers nothing", PATIENCE, || unavailable().is_some());
    let since = unavailable().unwrap().since;
    let in_vain = || setting.slot.in_vain.load(Ordering::SeqCst);
    until("it was asked more often", PATIENCE, || in_vain() >= 5);
    assert_eq!(unavailable().unwrap().since, since);
    setting.slot.mute.store(false, Ordering::SeqCst);
    setting.out(2);
    until("it answers", PATIENCE, || unavailable().is_none());
    assert_eq!(setting.slot.asked.load(Ordering::SeqCst), 1);
    run.controls().stop();
    assert!(run.join().error.is_none());
    setting.check(2);
}

#[test]
fn a_batch_that_takes_many_turns_is_counted_once() {
    let setting = Setting::new(1, false);
    let run = setting.start();
    setting.out(1);
    let before = setting.meters.batches.get();
    setting.slot.answers.store(3, Ordering::SeqCst);
    setting.append(0, 1..9);
    setting.out(4);
    for out in [5, 7, 9] {
        let given = setting.slot.answers.load(Ordering::SeqCst);
        assert_eq!(given, 0);
        setting
            .slot
            .answers
            .store(out - setting.lines("out").len(), Ordering::SeqCst);
        setting.out(out);
    }
    run.controls().stop();
    assert!(run.join().error.is_none());
    let batches = setting.meters.batches.get() - before;
    // The source may have cut the lines in two as they were written.
    assert!(
        (1..=3).contains(&batches),
        "{batches} batches of eight records"
    );
    setting.check(9);
}

#[test]
fn positions_that_a_source_refuses_while_it_takes_a_partition_away_are_committed_later() {
    let mut setting = Setting::new(1, false);
    setting.cut_interval = Duration::from_secs(3600);
    let mut topic = Topic::of(2, 20);
    topic.refuses = true;
    let (taken_away, committed) = (topic.taken_away.clone(), topic.committed.clone());
    let run = setting.start_with(Box::new(topic), false);
    let out = |records: u64| {
        until("the records are out", PATIENCE, || {
            setting.meters.snapshot().records.output >= records
        });
    };
    out(40);
    assert_eq!(*committed.lock().unwrap(), [0, 0]);
    taken_away.store(true, Ordering::SeqCst);
    // The log has its position, and the source takes it when it comes back.
    out(40);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(*committed.lock().unwrap(), [20, 20]);
}

/// Once it is told so, cuts are fenced until the source was polled since the first that was.
struct UntilPolled {
    log: LogCommitter,
    begins: Arc<AtomicBool>,
    polled: Arc<AtomicUsize>,
    fenced_at: Option<usize>,
    fenced: bool,
}

impl Committer for UntilPolled {
    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        self.log.load(tasks)
    }

    fn begin(&mut self, cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        let polled = self.polled.load(Ordering::SeqCst);
        if self.begins.load(Ordering::SeqCst) {
            let at = *self.fenced_at.get_or_insert(polled);
            self.fenced = polled == at;
        }
        if self.fenced {
            return Ok(());
        }
        self.log.begin(cut, sinks)
    }

    fn settled(&mut self, wait: Duration) -> Result<Option<Settled>, CommitError> {
        if std::mem::take(&mut self.fenced) {
            let why = "the group went on without this member".into();
            return Ok(Some(Settled::Fenced { why }));
        }
        self.log.settled(wait)
    }

    fn release(&mut self, tasks: &[TaskId]) {
        self.log.release(tasks);
    }
}

#[test]
fn a_run_that_is_told_to_end_while_its_group_changes_hears_of_it_and_ends() {
    let mut setting = Setting::new(1, false);
    // A cut has them all before the second stage.
    let after = Doors::new();
    after.answers.store(0, Ordering::SeqCst);
    setting.after = Some(after.clone());
    let topic = Topic::of(1, 20);
    let (polled, begins) = (topic.polled.clone(), Arc::new(AtomicBool::new(false)));
    let told = begins.clone();
    let run = setting.start_over(Box::new(topic), true, |log| {
        Box::new(UntilPolled {
            log,
            begins: told,
            polled,
            fenced_at: None,
            fenced: false,
        })
    });
    until("they wait in the log", PATIENCE, || {
        let (_, recovered) = setting.log(&setting.disk.restart(0));
        recovered.entries().next().is_some()
    });
    // They go on, whenever a cut that has them out comes to nothing.
    begins.store(true, Ordering::SeqCst);
    run.controls().stop();
    after.answers.store(usize::MAX, Ordering::SeqCst);
    until("it has ended", PATIENCE, || run.is_finished());
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let counts = ended.counts;
    assert_eq!(counts.input, counts.output + counts.in_flight());
    assert_eq!(setting.lines("out").len() as u64, counts.output);
}

#[test]
fn a_partition_that_is_taken_away_leaves_the_counts_of_the_run_balanced_also_of_splits() {
    let mut setting = Setting::new(1, false);
    // Each record becomes three. Those of the first go on, and one of the second.
    let after = Doors::new();
    after.answers.store(4, Ordering::SeqCst);
    setting.after = Some(after.clone());
    let mut topic = Topic::new(20);
    topic.key = Some("split");
    let taken_away = topic.taken_away.clone();
    let run = setting.start_with(Box::new(topic), false);
    until("four pieces are done", PATIENCE, || {
        run.controls().committed().output == 4 && run.controls().committed().in_flight() > 0
    });
    taken_away.store(true, Ordering::SeqCst);
    until("it is taken away", PATIENCE, || {
        // It is counted last.
        setting.meters.splits_abandoned.get() > 0
    });
    // The second of a batch of eight and those after it wait for whoever has the partition next.
    assert_eq!(setting.meters.records_abandoned.get(), 7);
    assert_eq!(setting.meters.splits_abandoned.get(), 7 * 2 - 1);
    assert!(!run.is_finished());
    after.answers.store(usize::MAX, Ordering::SeqCst);
    // It comes back here, where the log has what waits.
    setting.out(60);
    let restored = run.controls().restored();
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let counts = ended.counts;
    assert_eq!((counts.input, counts.split, counts.output), (20, 40, 60));
    let mut seen = setting.meters.snapshot().records;
    assert_eq!((seen.output, seen.in_flight), (60, 0));
    // What the meters left out when it was taken away is in what it came back with.
    seen.input += restored.input;
    seen.split += restored.split;
    assert_eq!((seen.input, seen.split), (20, 40));
}
