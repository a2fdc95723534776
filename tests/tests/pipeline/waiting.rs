//! What waits in a pipeline: the output of splits before a stage that is full, retries and answers across restarts.
//! Operators and models are native here; the cut, the sinks and the log are the real ones.

mod aborted;
mod late;
mod stuck;

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    CommitLog, CommitPoint, Committer, Cut, Entry, EntryPart, FileLayer, Model, ModelError,
    ModelFacts, Operator, OperatorError, OperatorVersion, Processed, Request, Sink, Slot, TaskCut,
};
use tidegate_flow::{
    Ended, ModelStage, OperatorStage, Order, Positions, Run, Source, Stage, StageKind, Target,
    Topology, WorkerParts,
};
use tidegate_record::{Batch, Fields, OutcomesBuilder, PatchBuilder};
use tidegate_state::{Crash, FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::{Workspace, until};

use crate::models;
use crate::native::{answer, asked, asking, facts, tokens_are_bytes};

const STATE: &str = "/state/log";
const PATIENCE: Duration = Duration::from_secs(60);

type Answers = dyn Fn(&Batch) -> Vec<u8> + Send + Sync;

/// An operator that is a function of its batch.
#[derive(Clone)]
struct Native(Arc<Answers>);

impl Native {
    fn new(answers: impl Fn(&Batch) -> Vec<u8> + Send + Sync + 'static) -> Native {
        Native(Arc::new(answers))
    }

    /// Makes so many of each record, numbered in their values.
    fn splits(pieces: usize) -> Native {
        Native::new(move |batch| {
            let mut outcomes = OutcomesBuilder::default();
            for record in batch.view().records() {
                let value = record.value().unwrap_or_default();
                let text = String::from_utf8_lossy(value);
                let patches: Vec<PatchBuilder> = (0..pieces)
                    .map(|piece| {
                        let mut patch = PatchBuilder::default();
                        let more = format!(",\"p\":{piece}}}");
                        patch.set_value(Some(text.replace('}', &more).into_bytes()));
                        patch
                    })
                    .collect();
                outcomes.split(patches.iter().map(|patch| (0, patch)));
            }
            outcomes.finish()
        })
    }

    /// Makes so many copies of each record.
    fn copies(pieces: usize) -> Native {
        Native::new(move |batch| {
            let same = vec![PatchBuilder::default(); pieces];
            let mut outcomes = OutcomesBuilder::default();
            for _ in 0..batch.len() {
                outcomes.split(same.iter().map(|patch| (0, patch)));
            }
            outcomes.finish()
        })
    }

    fn stage(&self, name: &str, to: Target) -> Stage {
        Stage {
            name: name.into(),
            targets: vec![to],
            kind: StageKind::Operator(OperatorStage {
                slot: Arc::new(self.clone()),
                configured: "sha256:0".into(),
                named: Default::default(),
                retries: 3,
            }),
        }
    }
}

struct Instance(Native, Arc<OperatorVersion>);

impl Operator for Instance {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        Ok(vec![Processed::Answer {
            first: 0,
            count: batch.len(),
            outcomes: (self.0.0)(batch),
            effects: None,
        }])
    }

    fn version(&self) -> &Arc<OperatorVersion> {
        &self.1
    }
}

impl Slot for Native {
    fn generation(&self) -> u64 {
        1
    }
    fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError> {
        Ok((1, Box::new(Instance(self.clone(), self.version()))))
    }
    fn version(&self) -> Arc<OperatorVersion> {
        Arc::new(OperatorVersion {
            name: "native".into(),
            version: "1.0.0".into(),
            digest: "sha256:0".into(),
            reads: Fields::ALL,
            outputs: Vec::new(),
            revision: Default::default(),
        })
    }
}

type Asked = dyn Fn(usize, Request) + Send + Sync;

/// A model that is a function of how often it was asked before, and the request.
struct Progress {
    asked: AtomicUsize,
    does: Box<Asked>,
}

impl Progress {
    fn new(does: impl Fn(usize, Request) + Send + Sync + 'static) -> Arc<Progress> {
        Arc::new(Progress {
            asked: AtomicUsize::new(0),
            does: Box::new(does),
        })
    }

    fn times(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Answers with its prompt.
    fn echoes() -> Arc<Progress> {
        Progress::new(|_, request| echo(request))
    }

    fn stage(self: &Arc<Progress>, max_in_flight: usize, attempts: u32) -> Stage {
        Stage {
            name: "ask".into(),
            targets: vec![Target::Sink(0)],
            kind: StageKind::Model(Box::new(ModelStage {
                order: Order::Partition,
                max_in_flight,
                attempts,
                prompt_tokens: 1000,
                ..asking(self.clone(), "{n}-{p}")
            })),
        }
    }
}

fn echo(request: Request) {
    let (prompt, _) = asked(&request);
    let answer = answer(format!("{{\"of\":\"{prompt}\"}}"), vec![1]);
    request.reply.done(Ok(answer));
}

impl Model for Progress {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        (self.does)(self.asked.fetch_add(1, Ordering::SeqCst), request);
        Ok(())
    }
    tokens_are_bytes!();
    fn facts(&self) -> ModelFacts {
        facts()
    }
}

/// A pipeline's input, whatever lives it has.
struct Input(tempfile::TempDir);

impl Input {
    fn records(records: u64) -> Input {
        Input::of((0..records).map(|n| format!("{{\"n\":{n}}}\n")).collect())
    }

    fn of(lines: String) -> Input {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("input.jsonl"), lines).unwrap();
        Input(directory)
    }

    /// Begins a life of the process on this disk. Stages are in a row.
    fn start(&self, disk: &MemoryDisk, stages: Vec<Stage>) -> Result<(Run, Arc<Meters>), String> {
        let over = |committer| Box::new(committer) as Box<dyn Committer>;
        self.start_over(disk, stages, over, CommitPoint::Log)
    }

    /// The same, with a committer over that of the log.
    fn start_over(
        &self,
        disk: &MemoryDisk,
        stages: Vec<Stage>,
        over: impl FnOnce(LogCommitter) -> Box<dyn Committer>,
        commit_point: CommitPoint,
    ) -> Result<(Run, Arc<Meters>), String> {
        let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
        let (log, recovered) = FileCommitLog::open(layer.clone(), Path::new(STATE), key())
            .map_err(|error| error.to_string())?;
        let sink = |name: &str| -> Result<Box<dyn Sink>, String> {
            let encoder = Encoder::new(EncoderOptions::default()).unwrap();
            let mut sink = FileSink::new(name, format!("/out/{name}"), layer.clone(), encoder);
            sink.recover(&recovered.sinks)
                .map_err(|error| error.to_string())?;
            Ok(Box::new(sink))
        };
        let source = FileSource::open(FileSourceOptions {
            source: 0,
            paths: vec![self.0.path().join("input.jsonl")],
            partitions: None,
            decoder: DecoderOptions::default(),
            follow: false,
        })
        .map_err(|error| error.to_string())?;
        let meters = Arc::new(Meters::new(
            "waiting",
            stages.iter().map(|stage| stage.name.as_str()),
        ));
        let log: Arc<dyn CommitLog> = Arc::new(log);
        let parts = WorkerParts {
            seal: None,
            audit: None,
            sources: vec![Box::new(source)],
            sinks: vec![sink("out")?],
            dead: sink("dead-letters")?,
            committer: over(LogCommitter::alone(log.clone())),
        };
        let topology = Topology {
            sources: vec![Source {
                name: "input".into(),
                targets: match stages.is_empty() {
                    true => vec![Target::Sink(0)],
                    false => vec![Target::Stage(0)],
                },
                fixed: true,
                positions: Positions::Cuts,
                called: false,
                beside: false,
                identities: vec!["input.jsonl".into()],
                apart: String::new(),
            }],
            stages,
            sinks: vec!["out".into()],
            commit_point,
            batch: 8,
            batch_bytes: 4 << 20,
            cut_interval: Duration::ZERO,
            callers: None,
            drain: Duration::from_secs(5),
        };
        let run = Run::start(topology, vec![parts], log, recovered, meters.clone())
            .map_err(|error| error.to_string())?;
        Ok((run, meters))
    }

    /// A life that ends by itself.
    fn whole(&self, disk: &MemoryDisk, stages: Vec<Stage>) -> Ended {
        let (run, meters) = self.start(disk, stages).unwrap();
        let ended = run.join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        let counts = ended.counts;
        assert_eq!(
            counts.input + counts.split,
            counts.output + counts.dropped + counts.dead,
            "every record is accounted for: {counts:?}"
        );
        assert_eq!(meters.snapshot().records.in_flight, 0);
        ended
    }
}

fn key() -> StateKey {
    StateKey::from_hex(&"44".repeat(32)).unwrap()
}

/// What waits, as the log on this disk has it.
fn in_flight(disk: &MemoryDisk) -> Vec<Entry> {
    let layer: Arc<dyn FileLayer> = Arc::new(disk.restart(0));
    let (_, state) = FileCommitLog::open(layer, Path::new(STATE), key()).unwrap();
    let whole = |entry: &Entry| matches!(entry.key.part, EntryPart::Record | EntryPart::Batch);
    state.entries().filter(whole).collect()
}

fn text(disk: &MemoryDisk, sink: &str) -> String {
    String::from_utf8(disk.bytes(Path::new(&format!("/out/{sink}")))).unwrap()
}

/// In a row: each to the next, the last as it is.
fn row(operators: &[Native], last: Stage) -> Vec<Stage> {
    let stages = operators.iter().enumerate();
    stages
        .map(|(at, native)| native.stage(&format!("operator-{at}"), Target::Stage(at + 1)))
        .chain([last])
        .collect()
}

#[test]
fn a_split_is_cut_into_batches_before_the_next_stage() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    let counts = Native::new(move |batch| {
        seen.fetch_max(batch.len(), Ordering::SeqCst);
        let mut outcomes = OutcomesBuilder::default();
        (0..batch.len()).for_each(|_| outcomes.pass());
        outcomes.finish()
    });
    let disk = MemoryDisk::new();
    let stages = row(
        &[Native::splits(999)],
        counts.stage("count", Target::Sink(0)),
    );
    let ended = Input::records(20).whole(&disk, stages);
    assert_eq!(ended.counts.output, 20 * 999);
    assert_eq!(
        most.load(Ordering::SeqCst),
        8,
        "records of the largest batch"
    );
    let expected: String = (0..20)
        .flat_map(|n| (0..999).map(move |p| format!("{{\"n\":{n},\"p\":{p}}}\n")))
        .collect();
    assert!(text(&disk, "out") == expected, "pieces are not in order");
}

#[test]
fn what_its_neighbours_grow_to_costs_a_record_nothing() {
    let long = "x".repeat(50_000);
    let lines = (0..24).map(|n| format!("{{\"n\":{n},\"long\":\"{long}\"}}\n"));
    let drops = Native::new(|batch| {
        let mut outcomes = OutcomesBuilder::default();
        (0..batch.len()).for_each(|_| outcomes.drop_record());
        outcomes.finish()
    });
    let disk = MemoryDisk::new();
    let stages = row(&[Native::copies(400)], drops.stage("drop", Target::Sink(0)));
    let ended = Input::of(lines.collect()).whole(&disk, stages);
    assert_eq!((ended.counts.dropped, ended.counts.dead), (24 * 400, 0));
}

#[test]
fn a_split_puts_no_more_in_flight_than_the_stage_has_room_for() {
    let held: Arc<Mutex<Vec<Request>>> = Arc::default();
    let requests = held.clone();
    let model = Progress::new(move |_, request| requests.lock().unwrap().push(request));
    let disk = MemoryDisk::new();
    let stages = row(&[Native::splits(30)], model.stage(12, 1));
    let (run, meters) = Input::records(4).start(&disk, stages).unwrap();
    // Four records of thirty pieces: more than the stage has room for, and all of them in flight.
    until("the pieces are in the log", PATIENCE, || {
        in_flight(&disk).len() > 12
    });
    let logged = in_flight(&disk);
    let taken = logged
        .iter()
        .filter(|entry| entry.key.part == EntryPart::Record);
    assert_eq!(taken.count(), 12, "records that wait in the stage");
    assert!(held.lock().unwrap().len() <= 12);
    until("the rest is in flight", PATIENCE, || {
        let records = meters.snapshot().records;
        records.in_flight > 12 && records.in_flight == records.input + records.split
    });
    until("everything is answered", PATIENCE, || {
        let requests = std::mem::take(&mut *held.lock().unwrap());
        assert!(requests.len() <= 12, "{} requests at once", requests.len());
        requests.into_iter().for_each(echo);
        run.is_finished()
    });
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let expected: String = (0..4)
        .flat_map(|n| (0..30).map(move |p| format!("{{\"of\":\"{n}-{p}\"}}\n")))
        .collect();
    assert_eq!(text(&disk, "out"), expected);
}

#[test]
fn a_crash_within_the_output_of_a_split_neither_loses_nor_repeats() {
    let input = Input::records(3);
    let stages = || {
        row(
            &[Native::splits(4), Native::splits(5)],
            Progress::echoes().stage(6, 1),
        )
    };
    let disk = MemoryDisk::new();
    input.whole(&disk, stages());
    let expected = text(&disk, "out");
    assert_eq!(expected.lines().count(), 3 * 4 * 5);
    let (mut crashes, mut within) = (0, 0);
    for sync in 1..=disk.syncs() {
        for crash in [Crash::BeforeSync(sync), Crash::AfterSync(sync)] {
            let disk = MemoryDisk::new();
            disk.crash_at(crash);
            if let Ok((run, _)) = input.start(&disk, stages()) {
                run.join();
            }
            if !disk.has_crashed() {
                continue;
            }
            let after = disk.restart(0);
            let logged = in_flight(&after);
            within += usize::from(
                logged
                    .iter()
                    .any(|entry| entry.key.part == EntryPart::Batch),
            );
            input.whole(&after, stages());
            assert_eq!(text(&after, "out"), expected, "{crash:?}");
            crashes += 1;
        }
    }
    assert!(crashes > 10, "only {crashes} crashes happened");
    assert!(within > 2, "only {within} crashes were within a split");
}

#[test]
fn pieces_of_pieces_of_pieces_all_come_out_and_have_their_own_ids() {
    let disk = MemoryDisk::new();
    let splits = vec![Native::splits(2); 9];
    let stages = row(&splits, Native::splits(2).stage("last", Target::Sink(0)));
    let ended = Input::records(1).whole(&disk, stages);
    assert_eq!((ended.counts.output, ended.counts.dead), (1 << 10, 0));
    assert_eq!(text(&disk, "out").lines().count(), 1 << 10);
}

#[test]
fn an_answer_that_is_none_costs_its_records_and_not_the_run() {
    let lies = Native::new(|_| b"no outcomes".to_vec());
    let disk = MemoryDisk::new();
    let ended = Input::records(3).whole(&disk, vec![lies.stage("lie", Target::Sink(0))]);
    assert_eq!((ended.counts.output, ended.counts.dead), (0, 3));
    assert!(text(&disk, "dead-letters").contains("answer begins with"));
}

fn device() -> ModelError {
    ModelError::Device("it was lost".into())
}

#[test]
fn a_kill_is_no_attempt() {
    let input = Input::of("{\"n\":1,\"p\":1}\n".into());
    let disk = MemoryDisk::new();
    let hangs = Progress::new(|_, request| std::mem::forget(request));
    let (run, _) = input.start(&disk, vec![hangs.stage(4, 2)]).unwrap();
    until("it is asked", PATIENCE, || hangs.times() == 1);
    run.controls().stop();
    assert!(run.join().error.is_none());
    assert_eq!(in_flight(&disk).len(), 1);
    let fails_once = Progress::new(|before, request| match before {
        0 => request.reply.done(Err(device())),
        _ => echo(request),
    });
    let after = disk.restart(0);
    let ended = input.whole(&after, vec![fails_once.stage(4, 2)]);
    assert_eq!((ended.counts.output, ended.counts.dead), (1, 0));
}

#[test]
fn an_unloaded_model_is_no_attempt() {
    let model = Progress::new(|before, request| match before {
        0 | 2 => request.reply.done(Err(ModelError::Unknown("model".into()))),
        1 => request.reply.done(Err(device())),
        _ => echo(request),
    });
    let disk = MemoryDisk::new();
    let input = Input::of("{\"n\":1,\"p\":1}\n".into());
    let ended = input.whole(&disk, vec![model.stage(4, 2)]);
    assert_eq!((ended.counts.output, ended.counts.dead), (1, 0));
    // And as many as there are count.
    let model = Progress::new(|_, request| request.reply.done(Err(device())));
    let disk = MemoryDisk::new();
    let ended = input.whole(&disk, vec![model.stage(4, 2)]);
    assert_eq!((ended.counts.output, ended.counts.dead), (0, 1));
    assert_eq!(model.times(), 2);
    assert!(text(&disk, "dead-letters").contains("\"attempts\":2"));
}

/// An operator that sends each record to retry in ten minutes when it sees it first.
fn later() -> Native {
    let seen = AtomicUsize::new(0);
    Native::new(move |batch| {
        let mut outcomes = OutcomesBuilder::default();
        for _ in 0..batch.len() {
            match seen.fetch_add(1, Ordering::SeqCst) {
                0 => outcomes.retry(600_000, "later"),
                _ => outcomes.pass(),
            }
        }
        outcomes.finish()
    })
}

#[test]
fn a_record_that_comes_again_sees_the_time_of_its_turn() {
    let clocks: Arc<Mutex<Vec<i64>>> = Arc::default();
    let seen = clocks.clone();
    let waits = Native::new(move |batch| {
        let mut outcomes = OutcomesBuilder::default();
        let mut seen = seen.lock().unwrap();
        seen.push(batch.view().clock());
        match seen.len() {
            0..4 => outcomes.retry(20, "not yet"),
            _ => outcomes.pass(),
        }
        outcomes.finish()
    });
    let disk = MemoryDisk::new();
    let ended = Input::records(1).whole(&disk, vec![waits.stage("waits", Target::Sink(0))]);
    assert_eq!(ended.counts.output, 1);
    let clocks = clocks.lock().unwrap();
    assert_eq!(clocks.len(), 4);
    let later = |two: &[i64]| two[1] >= two[0] + 20_000;
    assert!(clocks.windows(2).all(later), "{clocks:?}");
}

/// Runs until the record waits for its retry, and changes what the log says of it.
fn delayed(input: &Input, change: impl Fn(&mut serde_json::Value)) -> MemoryDisk {
    let disk = MemoryDisk::new();
    let (run, _) = input
        .start(&disk, vec![later().stage("later", Target::Sink(0))])
        .unwrap();
    until("the retry is in the log", PATIENCE, || {
        in_flight(&disk).len() == 1
    });
    run.controls().stop();
    assert!(run.join().error.is_none());
    let disk = disk.restart(0);
    let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
    let (log, state) = FileCommitLog::open(layer, Path::new(STATE), key()).unwrap();
    let (task, _) = state.tasks.first_key_value().unwrap();
    let progress = |entry: &Entry| entry.key.part == EntryPart::Progress;
    let mut entry = state.entries().find(progress).unwrap();
    let mut said = serde_json::from_slice(&entry.payload).unwrap();
    change(&mut said);
    entry.payload = serde_json::to_vec(&said).unwrap();
    let of_task = TaskCut {
        identity: state.tasks[task].identity.clone(),
        put: vec![entry],
        ..TaskCut::default()
    };
    log.commit(&Cut {
        tasks: [(task.clone(), of_task)].into(),
        ..Cut::default()
    })
    .unwrap();
    disk.restart(0)
}

fn passes() -> Native {
    Native::new(|batch| {
        let mut outcomes = OutcomesBuilder::default();
        (0..batch.len()).for_each(|_| outcomes.pass());
        outcomes.finish()
    })
}

#[test]
fn a_delay_that_ended_while_nothing_ran_does_not_begin_again() {
    let input = Input::records(1);
    // The ten minutes are over: the process was down for them.
    let disk = delayed(&input, |said| {
        assert!(said["delay_ms"].as_u64().unwrap() > 500_000, "{said}");
        let due = said["due_ms"].as_u64().unwrap_or(600_001);
        said["due_ms"] = (due - 600_000).into();
    });
    let stages = vec![passes().stage("later", Target::Sink(0))];
    let (run, _) = input.start(&disk, stages).unwrap();
    until("it comes again", PATIENCE, || run.is_finished());
    assert_eq!(run.join().counts.output, 1);
}

#[test]
fn a_clock_that_was_set_back_delays_nothing_beyond_its_delay() {
    let input = Input::records(1);
    let disk = delayed(&input, |said| {
        said["delay_ms"] = 20.into();
        said["due_ms"] = u64::MAX.into();
    });
    let stages = vec![passes().stage("later", Target::Sink(0))];
    let (run, _) = input.start(&disk, stages).unwrap();
    until("it comes again", PATIENCE, || run.is_finished());
    assert_eq!(run.join().counts.output, 1);
}

#[test]
fn what_waits_is_in_flight_from_the_start_of_a_run() {
    let hangs = || Progress::new(|_, request| std::mem::forget(request)).stage(64, 1);
    let input = Input::of((0..5).map(|n| format!("{{\"n\":{n},\"p\":0}}\n")).collect());
    let disk = MemoryDisk::new();
    let (run, _) = input.start(&disk, vec![hangs()]).unwrap();
    until("they wait", PATIENCE, || in_flight(&disk).len() == 5);
    run.controls().stop();
    run.join();
    let after = disk.restart(0);
    let (run, meters) = input.start(&after, vec![hangs()]).unwrap();
    // Before its first cut, and whether or not a worker has looked at its partition yet.
    for _ in 0..50 {
        let (restored, now) = (run.controls().restored(), meters.snapshot().records);
        assert_eq!((restored.input, now.input, now.in_flight), (5, 0, 5));
        std::thread::sleep(Duration::from_millis(2));
    }
    run.controls().stop();
    assert_eq!(run.join().counts.input, 5);
    assert_eq!(in_flight(&after).len(), 5);
}

#[test]
fn status_counts_what_waits_from_the_moment_a_run_is_started_again() {
    let workspace = models::workspace(&models::asking("max-tokens = 4"), 2);
    let all = models::tickets(12);
    let ask = |arguments: &[&str]| -> Option<serde_json::Value> {
        let arguments = [arguments, &["--state", "state", "--json"]].concat();
        serde_json::from_slice(&workspace.run(&arguments).stdout).ok()
    };
    let records =
        || ask(&["status"]).map_or_else(Default::default, |status| status["records"].clone());
    let forever = ["run", "--quiet", "--until", "forever", "pipeline.toml"];
    let mut running = workspace.start(&forever);
    until("the first are answered", PATIENCE * 2, || {
        records()["out"] == 2
    });
    assert_eq!(
        ask(&["model", "unload", "support"]).unwrap()[0]["loaded"],
        false
    );
    let mut file = std::fs::File::options()
        .append(true)
        .open(workspace.path("tickets.jsonl"))
        .unwrap();
    let more = all.split_inclusive('\n').skip(2).collect::<String>();
    file.write_all(more.as_bytes()).unwrap();
    until("the others wait", PATIENCE, || records()["in_flight"] == 10);
    let before = records();
    assert_eq!((&before["in"], &before["out"]), (&12.into(), &2.into()));
    assert!(running.terminate(PATIENCE).success());
    let mut running = workspace.start(&forever);
    let mut first = None;
    until("it says how it stands", PATIENCE * 2, || {
        assert!(running.ended().is_none());
        // Before its log is read it knows of none.
        first = ask(&["status"]).filter(|status| status["records"]["in"] != 0);
        first.is_some()
    });
    // Its model may be loaded by now and some be answered; none of them is unaccounted for.
    let (first, number) = (first.unwrap(), |status: &serde_json::Value, name: &str| {
        status["records"][name].as_u64().unwrap()
    });
    assert_eq!(number(&first, "in"), 12, "{first}");
    if first["state"] == "starting" {
        let stands = ["out", "in_flight"].map(|name| number(&first, name));
        assert_eq!(stands, [2, 10], "{first}");
    }
    until("all are answered", PATIENCE * 2, || {
        let now = records();
        now["in"] == 12 && now["out"] == 12 && now["in_flight"] == 0
    });
    let said = workspace.run(&["status", "--state", "state"]);
    let said = models::text(&said.stdout);
    assert!(
        said.contains(
            "in 12  out 12  dropped 0  dead 0  in flight 0, since the state directory was made"
        ),
        "{said}"
    );
}

#[test]
fn a_run_that_failed_says_what_starting_it_again_does() {
    // Where everything that is written fails.
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let failed = |source: &str| {
        let workspace = Workspace::new(&format!(
            "[pipeline]\nname = \"failing\"\n[source.in]\n{source}\n[sink.out]\ntype = \"stdout\"\n"
        ));
        workspace.write("in.jsonl", "{\"n\":1}\n");
        let output = workspace
            .command(&["run", "--quiet", "pipeline.toml"])
            .stdin(std::fs::File::open(workspace.path("in.jsonl")).unwrap())
            .stdout(std::fs::File::options().write(true).open(full).unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        models::text(&output.stderr)
    };
    let file = failed("type = \"file\"\npaths = [\"in.jsonl\"]");
    assert!(
        file.contains("started again") && file.contains("may write again what"),
        "{file}"
    );
    let stdin = failed("type = \"stdin\"");
    assert!(
        stdin.contains("what it had read of \"in\" (standard input)"),
        "{stdin}"
    );
    assert!(!stdin.contains("started again"), "{stdin}");
}
