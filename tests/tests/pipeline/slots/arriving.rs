//! Partitions whose state takes long to read: everything else goes on meanwhile, and they begin when it is there. And
//! positions that whoever keeps them does not take for a while.

use super::*;

/// Tells of the first partition only once it is let that it is known where it begins.
struct Slow {
    log: LogCommitter,
    lets: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Committer for Slow {
    fn fetch(&mut self, tasks: &[Assignment]) -> Result<bool, CommitError> {
        assert!(!tasks.is_empty(), "it is asked of tasks that come");
        let waits = tasks.iter().any(|one| one.task.partition == 0);
        if !waits || self.lets.load(Ordering::SeqCst) {
            return Ok(true);
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(false)
    }

    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        self.log.load(tasks)
    }

    fn begin(&mut self, cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        let early = cut.tasks.keys().any(|task| task.partition == 0);
        let lets = self.lets.load(Ordering::SeqCst);
        assert!(lets || !early, "a cut has a task that has not begun");
        self.log.begin(cut, sinks)
    }

    fn settled(&mut self, wait: Duration) -> Result<Option<Settled>, CommitError> {
        self.log.settled(wait)
    }

    fn mark(&self, task: &TaskId) -> Mark {
        self.log.mark(task)
    }

    fn keeper(&self, source: &str) -> Keeper {
        self.log.keeper(source)
    }

    fn release(&mut self, tasks: &[TaskId]) {
        self.log.release(tasks);
    }
}

/// A committer that is slow until the first is set, and how often it was asked in vain.
fn slow() -> (
    Arc<AtomicBool>,
    Arc<AtomicUsize>,
    impl FnOnce(LogCommitter) -> Box<dyn Committer>,
) {
    let (lets, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let (told, counted) = (lets.clone(), asked.clone());
    let over = move |log| {
        let (lets, asked) = (told, counted);
        Box::new(Slow { log, lets, asked }) as Box<dyn Committer>
    };
    (lets, asked, over)
}

fn of(setting: &Setting, partition: u64) -> usize {
    let lines = setting.lines("out");
    lines.iter().filter(|line| line["p"] == partition).count()
}

#[test]
fn while_it_is_read_where_a_partition_begins_the_others_go_on() {
    let setting = Setting::new(2, false);
    let (lets, asked, over) = slow();
    lets.store(true, Ordering::SeqCst);
    setting.slot.answers.store(10, Ordering::SeqCst);
    let topic = Topic::of(2, 2000);
    let taken_away = topic.taken_away.clone();
    let run = setting.start_over(Box::new(topic), false, over);
    setting.out(10);
    lets.store(false, Ordering::SeqCst);
    // It goes and comes back again and again.
    for _ in 0..3 {
        let before = asked.load(Ordering::SeqCst);
        taken_away.store(true, Ordering::SeqCst);
        until("it is asked for", PATIENCE, || {
            asked.load(Ordering::SeqCst) > before + 2
        });
    }
    let first = of(&setting, 0);
    setting.slot.answers.store(usize::MAX, Ordering::SeqCst);
    until("the second is out", PATIENCE, || of(&setting, 1) == 2000);
    assert_eq!(of(&setting, 0), first);
    assert!(first < 2000 && !run.is_finished());
    lets.store(true, Ordering::SeqCst);
    until("the first is out", PATIENCE, || of(&setting, 0) == 2000);
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    setting.check(2000);
}

#[test]
fn a_run_neither_ends_nor_waits_for_ever_for_a_partition_that_ended_before_it_began() {
    // One that has nothing to be read tells its end at once.
    for records in [20, 0] {
        let setting = Setting::new(1, false);
        let (lets, asked, over) = slow();
        let mut topic = Topic::of(1, records);
        topic.ends = Some(records);
        let run = setting.start_over(Box::new(topic), true, over);
        until("it is asked for", PATIENCE, || {
            asked.load(Ordering::SeqCst) > 5
        });
        assert!(!run.is_finished());
        lets.store(true, Ordering::SeqCst);
        until("it ends by itself", PATIENCE, || run.is_finished());
        let ended = run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        if records > 0 {
            setting.check(records);
        }
    }
}

#[test]
fn whoever_keeps_positions_may_be_away_as_long_as_its_source_is_patient() {
    let setting = Setting::new(2, false);
    let topic = Topic::of(2, 20);
    let (away, committed) = (topic.away.clone(), topic.committed.clone());
    away.store(true, Ordering::SeqCst);
    let run = setting.start_with(Box::new(topic), false);
    setting.out(40);
    assert_eq!(*committed.lock().unwrap(), [0, 0]);
    assert!(!run.is_finished());
    away.store(false, Ordering::SeqCst);
    // Nothing more is read: it is told all the same.
    until("it is told", PATIENCE, || {
        *committed.lock().unwrap() == [20, 20]
    });
    run.controls().stop();
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    setting.check(20);
}

#[test]
fn the_last_cut_insists_on_its_positions() {
    let setting = Setting::new(1, false);
    let topic = Topic::of(1, 20);
    let (away, committed) = (topic.away.clone(), topic.committed.clone());
    let refused = topic.refused.clone();
    away.store(true, Ordering::SeqCst);
    let run = setting.start_with(Box::new(topic), false);
    setting.out(20);
    run.controls().stop();
    let before = refused.load(Ordering::SeqCst);
    until("it is told again and again", PATIENCE, || {
        refused.load(Ordering::SeqCst) > before + 3
    });
    away.store(false, Ordering::SeqCst);
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(*committed.lock().unwrap(), [20]);
}
