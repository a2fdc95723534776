//! Cuts whose end is long in coming: the worker reads and calls operators meanwhile, and holds no more output than one cut
//! may have.

use tidegate_contract::{Assignment, CommitError, Participants, Settled, TaskId, TaskImage};

use super::*;

/// What a worker may hold for the next cut: more forces one.
const MAX_PENDING: u64 = 8 << 20;
const RECORD: usize = 100_000;
/// Records of a batch, see [`Input::start_over`].
const BATCH: u64 = 8;

/// Tells what became of a cut only when it was asked often, and writes down where reading was at each.
struct Late {
    log: LogCommitter,
    asked: usize,
    positions: Arc<Mutex<Vec<u64>>>,
}

impl Committer for Late {
    fn load(&mut self, tasks: &[Assignment]) -> Result<Vec<TaskImage>, CommitError> {
        self.log.load(tasks)
    }

    fn begin(&mut self, cut: Cut, sinks: &mut dyn Participants) -> Result<(), CommitError> {
        self.asked = 0;
        let positions = cut.tasks.values().filter_map(|task| task.position);
        self.positions.lock().unwrap().extend(positions);
        self.log.begin(cut, sinks)
    }

    fn settled(&mut self, wait: Duration) -> Result<Option<Settled>, CommitError> {
        self.asked += 1;
        if self.asked < 200 {
            std::thread::sleep(wait.min(Duration::from_millis(1)));
            return Ok(None);
        }
        self.log.settled(wait)
    }

    fn release(&mut self, tasks: &[TaskId]) {
        self.log.release(tasks);
    }
}

#[test]
fn while_a_cut_is_under_way_reading_goes_on_and_what_is_held_for_the_next_is_bounded() {
    let line = |n: u64| format!("{{\"n\":{n},\"text\":\"{}\"}}\n", "x".repeat(RECORD));
    let whole: String = (0..400).map(line).collect();
    let input = Input::of(whole.clone());
    for stages in [vec![], vec![passes().stage("pass", Target::Sink(0))]] {
        let disk = MemoryDisk::new();
        let (calls, positions) = (stages.len(), Arc::<Mutex<Vec<u64>>>::default());
        let over = |log| {
            let positions = Arc::clone(&positions);
            Box::new(Late {
                log,
                asked: 0,
                positions,
            }) as Box<dyn Committer>
        };
        let point = CommitPoint::Transaction {
            cluster: "a test".into(),
        };
        let (run, _) = input.start_over(&disk, stages, over, point).unwrap();
        let ended = run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert!(text(&disk, "out") == whole, "{calls} operators");
        let positions = positions.lock().unwrap();
        let read = positions.windows(2).map(|pair| pair[1] - pair[0]);
        let most = read.max().unwrap_or_default();
        let batch = BATCH * (RECORD as u64 + 100);
        assert!(
            most > 2 * batch,
            "nothing was read meanwhile: {positions:?}"
        );
        // What is read beyond it stands before the operator.
        assert!(
            most <= MAX_PENDING + 2 * batch,
            "{most} bytes were read in one cut: {positions:?}"
        );
    }
}
