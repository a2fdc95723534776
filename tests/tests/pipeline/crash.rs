//! Crashes through the file layer: at every fsync, before and after it, and with torn writes. The operators and the
//! model are native here, so that thousands of runs take seconds; the cut, the sinks and the log are the real ones.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_codec::{DecoderOptions, Encoder, EncoderOptions};
use tidegate_connect::file::{FileSink, FileSource, FileSourceOptions};
use tidegate_contract::{
    AuditLog, CommitLog, CommitPoint, Conversation, Entry, EntryPart, FileLayer, Model, ModelError,
    ModelFacts, ModelTask, Operator, OperatorError, OperatorVersion, Processed, Prompt,
    PromptTemplate, Request, Role, Sink, Slot, TokenFeed,
};
use tidegate_flow::{
    AnswerInto, Ask, Ended, ModelStage, OperatorStage, Order, Positions, PromptTurn, Run, Source,
    Stage, StageKind, Target, Topology, WorkerParts,
};
use tidegate_record::{Batch, Fields, OutcomesBuilder, PatchBuilder};
use tidegate_state::audit::{Against, AuditFile, AuditLimits, verify};
use tidegate_state::{Crash, FileCommitLog, LogCommitter, MemoryDisk, StateKey};
use tidegate_telemetry::Meters;
use tidegate_tests::{Random, comparable_letters, until};

use crate::native::{answer, asked, asking, facts, tokens_are_bytes};

/// Drops every 7th record, sends every 11th to the dead letters, splits every 5th, asks to retry every 13th once,
/// and marks the rest.
struct Mixed {
    version: Arc<OperatorVersion>,
    retried: Arc<Mutex<HashMap<u64, u32>>>,
}

impl Operator for Mixed {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        let mut outcomes = OutcomesBuilder::default();
        for record in batch.view().records() {
            let text = String::from_utf8_lossy(record.value().unwrap()).into_owned();
            let number: u64 = text
                .split(['n', '}', ':', '"'])
                .filter_map(|w| w.trim().parse().ok())
                .next()
                .unwrap();
            let mut mark = PatchBuilder::default();
            mark.set_value(Some(text.replace('}', ",\"seen\":true}").into_bytes()));
            match number {
                n if n % 7 == 0 => outcomes.drop_record(),
                n if n % 11 == 0 => outcomes.dead_letter("every eleventh"),
                n if n % 5 == 0 => outcomes.split([(0, &mark), (0, &mark)].into_iter()),
                n if n % 13 == 0 && *self.retried.lock().unwrap().entry(n).or_insert(0) == 0 => {
                    self.retried.lock().unwrap().insert(n, 1);
                    outcomes.retry(1, "once");
                }
                _ => outcomes.replace(&mark),
            }
        }
        Ok(vec![Processed::Answer {
            first: 0,
            count: batch.len(),
            outcomes: outcomes.finish(),
            effects: None,
        }])
    }

    fn version(&self) -> &Arc<OperatorVersion> {
        &self.version
    }
}

struct MixedSlot(Arc<Mutex<HashMap<u64, u32>>>);

impl Slot for MixedSlot {
    fn generation(&self) -> u64 {
        1
    }
    fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError> {
        Ok((
            1,
            Box::new(Mixed {
                version: self.version(),
                retried: self.0.clone(),
            }),
        ))
    }
    fn version(&self) -> Arc<OperatorVersion> {
        Arc::new(OperatorVersion {
            name: "mixed".into(),
            version: "1.0.0".into(),
            digest: "sha256:0".into(),
            reads: Fields::ALL,
            outputs: Vec::new(),
            revision: Default::default(),
        })
    }
}

/// Answers with a digest of the prompt, token by token, after a time that depends on the prompt: so answers overtake
/// each other, and a resumed one must be given its tokens back.
struct Echo;

impl Echo {
    fn tokens(prompt: &str) -> Vec<u32> {
        let mut seed = prompt.bytes().fold(7u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let mut random = Random(std::mem::take(&mut seed));
        (0..6).map(|_| random.below(1000) as u32).collect()
    }
}

impl Model for Echo {
    fn submit(&self, mut request: Request) -> Result<(), (Request, ModelError)> {
        let (prompt, forced) = asked(&request);
        let tokens = Echo::tokens(&prompt);
        assert_eq!(forced, tokens[..forced.len()], "tokens of another answer");
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(u64::from(tokens[0])));
            for (index, token) in tokens.iter().enumerate().skip(forced.len()) {
                request.reply.token(index as u32, *token, "");
            }
            request
                .reply
                .done(Ok(answer(format!("{{\"answer\":{tokens:?}}}"), tokens)));
        });
        Ok(())
    }
    tokens_are_bytes!();
    fn facts(&self) -> ModelFacts {
        facts()
    }
}

pub(crate) const STATE: &str = "/state/commit.log";
pub(crate) const ANSWERS: &str = "/out/answers.jsonl";
pub(crate) const DEAD: &str = "/out/dead.jsonl";
const AUDIT: &str = "/out/audit.jsonl";

pub(crate) struct Setting {
    input: tempfile::TempDir,
    model: Option<Order>,
    pub(crate) interval: Duration,
    /// Where tokens go.
    pub(crate) feeds: Vec<Arc<dyn TokenFeed>>,
    /// Whether it is written who was answered what.
    pub(crate) audit: bool,
    /// Most tokens of an answer.
    pub(crate) max_tokens: u32,
    /// Whether an answer is a member of its record, and not its value, which must be JSON.
    pub(crate) member: bool,
    /// What the model is asked, in the place of a prompt.
    turns: Vec<PromptTurn>,
}

impl Setting {
    pub(crate) fn new(records: u64, model: Option<Order>) -> Setting {
        let input = tempfile::tempdir().unwrap();
        let lines: String = (1..=records)
            .map(|n| format!("{{\"k\":\"k{}\",\"n\":{n}}}\n", n % 5))
            .collect();
        std::fs::write(input.path().join("input.jsonl"), lines).unwrap();
        Setting {
            input,
            model,
            interval: Duration::ZERO,
            feeds: Vec::new(),
            audit: false,
            max_tokens: 6,
            member: false,
            turns: Vec::new(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.input.path().join("input.jsonl")
    }

    fn sink(
        &self,
        disk: &Arc<dyn FileLayer>,
        name: &str,
        path: &str,
        known: &tidegate_contract::Recovered,
    ) -> Result<Box<dyn Sink>, String> {
        let encoder = Encoder::new(EncoderOptions::default()).unwrap();
        let mut sink = FileSink::new(name, Path::new(path), disk.clone(), encoder);
        sink.recover(&known.sinks).map_err(|e| e.to_string())?;
        Ok(Box::new(sink))
    }

    /// One life of the process on this disk: until the input is read, or the disk crashes.
    pub(crate) fn run(&self, disk: &MemoryDisk) -> Result<Ended, String> {
        Ok(self.start(disk, Arc::new(Echo))?.join())
    }

    pub(crate) fn start(&self, disk: &MemoryDisk, model: Arc<dyn Model>) -> Result<Run, String> {
        let layer: Arc<dyn FileLayer> = Arc::new(disk.clone());
        let key = StateKey::from_hex(&"11".repeat(32)).unwrap();
        let (log, recovered) = FileCommitLog::open(layer.clone(), Path::new(STATE), key.clone())
            .map_err(|e| e.to_string())?;
        let sinks = vec![self.sink(&layer, "answers", ANSWERS, &recovered)?];
        let dead = self.sink(&layer, "dead-letters", DEAD, &recovered)?;
        let audit = || {
            let limits = AuditLimits {
                file: 8 << 10,
                content: 1 << 10,
                decided_elsewhere: false,
            };
            AuditFile::recover(
                Path::new(AUDIT),
                layer.clone(),
                Arc::new(key),
                limits,
                &recovered.sinks,
            )
        };
        let audit = self.audit.then(audit).transpose();
        let audit = audit.map_err(|e| e.to_string())?;
        let source = FileSource::open(FileSourceOptions {
            source: 0,
            paths: vec![self.path()],
            partitions: None,
            decoder: DecoderOptions {
                key: Some("k".into()),
                ..DecoderOptions::default()
            },
            follow: false,
        })
        .map_err(|e| e.to_string())?;
        let mut stages = vec![Stage {
            name: "mixed".into(),
            targets: vec![if self.model.is_some() {
                Target::Stage(1)
            } else {
                Target::Sink(0)
            }],
            kind: StageKind::Operator(OperatorStage {
                slot: Arc::new(MixedSlot(Arc::default())),
                configured: "sha256:0".into(),
                named: Default::default(),
                retries: 3,
            }),
        }];
        if let Some(order) = self.model {
            let mut asks = asking(model, "{k} {n}");
            if let Ask::Generate {
                turns, parameters, ..
            } = &mut asks.ask
            {
                turns.clone_from(&self.turns);
                parameters.max_tokens = self.max_tokens;
            }
            if self.member {
                asks.into = AnswerInto::Member;
            }
            stages.push(Stage {
                name: "answer".into(),
                targets: vec![Target::Sink(0)],
                kind: StageKind::Model(Box::new(ModelStage {
                    max_in_flight: 12,
                    seed: 1,
                    order,
                    attempts: 2,
                    token_feeds: self.feeds.clone(),
                    ..asks
                })),
            });
        }
        let topology = Topology {
            sources: vec![Source {
                name: "input".into(),
                targets: vec![Target::Stage(0)],
                fixed: true,
                positions: Positions::Cuts,
                called: false,
                beside: false,
                identities: vec!["input.jsonl".into()],
                apart: String::new(),
            }],
            stages,
            sinks: vec!["answers".into()],
            commit_point: CommitPoint::Log,
            batch: 8,
            batch_bytes: 1 << 20,
            cut_interval: self.interval,
            callers: None,
            drain: Duration::from_secs(5),
        };
        let meters = Arc::new(Meters::new("crash", ["mixed", "answer"]));
        let log: Arc<dyn CommitLog> = Arc::new(log);
        let worker = WorkerParts {
            seal: None,
            audit: audit.map(|audit| Box::new(audit) as Box<dyn AuditLog>),
            sources: vec![Box::new(source)],
            sinks,
            dead,
            committer: Box::new(LogCommitter::alone(log.clone())),
        };
        Run::start(topology, vec![worker], log, recovered, meters).map_err(|e| e.to_string())
    }

    pub(crate) fn whole(&self, disk: &MemoryDisk) -> Ended {
        let ended = self.run(disk).unwrap();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        let c = ended.counts;
        assert_eq!(
            c.input + c.split,
            c.output + c.dropped + c.dead,
            "every record is accounted for: {c:?}"
        );
        ended
    }

    /// Crashes once, restarts, and gives what is there at the end.
    fn crashed(&self, crash: Crash, kept: usize) -> Option<MemoryDisk> {
        let disk = MemoryDisk::new();
        disk.crash_at(crash);
        let _ = self.run(&disk);
        if !disk.has_crashed() {
            return None;
        }
        let after = disk.restart(kept);
        self.whole(&after);
        Some(after)
    }
}

/// Answers and dead letters. When a record died is another time in every run, and is taken out.
pub(crate) fn files(disk: &MemoryDisk) -> (String, String) {
    let text = |path| String::from_utf8(disk.bytes(Path::new(path))).unwrap();
    (text(ANSWERS), comparable_letters(&text(DEAD)))
}

#[test]
fn a_crash_at_any_fsync_gives_byte_identical_output() {
    // A retry depends on the time; the order of its key stays, the order between keys does not.
    let setting = Setting::new(60, None);
    let lines: String = (1..=60u64)
        .filter(|n| n % 13 != 0)
        .map(|n| format!("{{\"k\":\"k{}\",\"n\":{n}}}\n", n % 5))
        .collect();
    std::fs::write(setting.path(), lines).unwrap();
    let disk = MemoryDisk::new();
    let whole = setting.whole(&disk);
    let expected = files(&disk);
    assert!(whole.counts.dead > 0 && whole.counts.dropped > 0 && whole.counts.split > 0);
    let syncs = disk.syncs();
    assert!(
        syncs > 10,
        "only {syncs} fsyncs: the run was cut too rarely to say anything"
    );
    let mut crashes = 0;
    for n in 1..=syncs {
        for crash in [
            Crash::BeforeSync(n),
            Crash::AfterSync(n),
            Crash::TornAppend(n),
        ] {
            for kept in [0, 9, usize::MAX] {
                if let Some(after) = setting.crashed(crash, kept) {
                    assert_eq!(
                        files(&after),
                        expected,
                        "{crash:?}, {kept} unsynced bytes kept"
                    );
                    crashes += 1;
                }
            }
        }
    }
    // A run that is held up has more cuts than others, and so may the first have had.
    assert!(crashes > 60, "only {crashes} crashes happened");
}

/// The records that the audit has, in order.
fn audited(disk: &MemoryDisk) -> Vec<String> {
    let records = audit_lines(disk).into_iter();
    records
        .map(|line| line["record"].as_str().unwrap().to_owned())
        .collect()
}

/// What the audit has of answered records, in order; its chain is whole.
pub(crate) fn audit_lines(disk: &MemoryDisk) -> Vec<serde_json::Value> {
    let place = tempfile::tempdir().unwrap();
    let mut records = Vec::new();
    let later = (2..).map(|number| format!("{AUDIT}.{number}"));
    for file in std::iter::once(AUDIT.to_owned()).chain(later) {
        let file = Path::new(&file);
        let bytes = disk.bytes(file);
        if bytes.is_empty() {
            break;
        }
        for line in String::from_utf8(bytes.clone()).unwrap().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            if line.get("mark").is_some() {
                continue;
            }
            assert_eq!(line["outcome"], "answered");
            records.push(line);
        }
        std::fs::write(place.path().join(file.file_name().unwrap()), bytes).unwrap();
    }
    let first = place.path().join("audit.jsonl");
    assert_eq!(
        verify(&first, &Against::default()).unwrap().entries,
        records.len() as u64
    );
    records
}

#[test]
fn a_crash_with_answers_in_flight_repeats_and_loses_none() {
    let mut setting = Setting::new(40, Some(Order::Partition));
    setting.audit = true;
    let lines: String = (1..=40u64)
        .filter(|n| n % 13 != 0)
        .map(|n| format!("{{\"k\":\"k{}\",\"n\":{n}}}\n", n % 5))
        .collect();
    std::fs::write(setting.path(), lines).unwrap();
    let disk = MemoryDisk::new();
    setting.whole(&disk);
    let expected = files(&disk);
    assert!(expected.0.lines().count() > 20);
    let asked = audited(&disk);
    assert!(asked.len() > 20, "{asked:?}");
    let mut crashes = 0;
    for n in 1..=disk.syncs() {
        for crash in [Crash::BeforeSync(n), Crash::AfterSync(n)] {
            if let Some(after) = setting.crashed(crash, 9) {
                assert_eq!(files(&after), expected, "{crash:?}");
                assert_eq!(audited(&after), asked, "{crash:?}");
                crashes += 1;
            }
        }
    }
    assert!(crashes > 20, "only {crashes} crashes happened");
}

#[test]
fn per_key_order_survives_crashes_and_retries() {
    let setting = Setting::new(60, Some(Order::Key));
    let mut crashes = 0;
    for n in (1..200).step_by(3) {
        let Some(after) = setting.crashed(Crash::BeforeSync(n), 0) else {
            continue;
        };
        crashes += 1;
        let (answers, dead) = files(&after);
        let text = answers.clone() + &dead;
        for n in (1..=60u64).filter(|n| n % 7 != 0) {
            let prompt_key = format!("{:?}", Echo::tokens(&format!("k{} {n}", n % 5)));
            if n % 11 == 0 {
                assert_eq!(text.matches("every eleventh").count(), 5);
            } else {
                let expected = if n % 5 == 0 { 2 } else { 1 };
                assert_eq!(
                    answers.matches(&prompt_key).count(),
                    expected,
                    "record {n}, crash at fsync {n}"
                );
            }
        }
        // Answers of one key come in the order of its records.
        for key in 0..5u64 {
            let numbers: Vec<u64> = (1..=60u64)
                .filter(|n| n % 5 == key && n % 7 != 0 && n % 11 != 0)
                .collect();
            let places: Vec<usize> = numbers
                .iter()
                .map(|n| {
                    answers
                        .find(&format!("{:?}", Echo::tokens(&format!("k{key} {n}"))))
                        .unwrap()
                })
                .collect();
            assert!(places.is_sorted(), "key {key}: {places:?}");
        }
    }
    assert!(crashes > 10, "only {crashes} crashes happened");
}

/// Makes 24 tokens of an answer and then, in its first life, no more.
struct Halting {
    ends: bool,
    /// Tokens of the longest prefix it was given.
    resumed_from: AtomicUsize,
    /// What it was asked last.
    asked: Mutex<Option<Conversation>>,
}

impl Halting {
    fn new(ends: bool) -> Arc<Halting> {
        Arc::new(Halting {
            ends,
            resumed_from: AtomicUsize::new(0),
            asked: Mutex::default(),
        })
    }
}

impl Model for Halting {
    fn submit(&self, mut request: Request) -> Result<(), (Request, ModelError)> {
        let made = asked(&request).1.len();
        self.resumed_from.fetch_max(made, Ordering::SeqCst);
        if let ModelTask::Generate {
            prompt: Prompt::Chat(chat),
            ..
        } = &request.task
        {
            *self.asked.lock().unwrap() = Some(chat.clone());
        }
        let made = made as u32;
        for token in made..24 {
            request.reply.token(token, token, "");
        }
        if self.ends {
            let tokens = (0..24).collect();
            request
                .reply
                .done(Ok(answer("{\"tokens\":24}".into(), tokens)));
        } else {
            // Held for ever, as by a device that hangs.
            std::mem::forget(request);
        }
        Ok(())
    }
    tokens_are_bytes!();
    fn facts(&self) -> ModelFacts {
        facts()
    }
}

/// Runs until the tokens of an answer are in the log, and dies.
fn half_made(setting: &Setting, disk: &MemoryDisk, model: Arc<Halting>) -> MemoryDisk {
    let run = setting.start(disk, model).unwrap();
    let logged = |disk: &MemoryDisk| {
        let key = StateKey::from_hex(&"11".repeat(32)).unwrap();
        let layer: Arc<dyn FileLayer> = Arc::new(disk.restart(0));
        let (_, state) = FileCommitLog::open(layer, Path::new(STATE), key).unwrap();
        let progress = |entry: &Entry| entry.key.part == EntryPart::Progress;
        let payload = state.entries().find(progress).map(|entry| entry.payload);
        let payload = payload.unwrap_or_default();
        String::from_utf8_lossy(&payload).contains("\"tokens\":[0,1,2")
    };
    until("the tokens are in the log", Duration::from_secs(30), || {
        logged(disk)
    });
    // The process dies here: what is on the disk now is all there is.
    let after = disk.restart(0);
    run.controls().stop();
    run.join();
    after
}

#[test]
fn a_half_made_answer_is_resumed_from_its_tokens() {
    let setting = Setting::new(1, Some(Order::Key));
    let after = half_made(&setting, &MemoryDisk::new(), Halting::new(false));
    let second = Halting::new(true);
    let ended = setting.start(&after, second.clone()).unwrap().join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(second.resumed_from.load(Ordering::SeqCst), 24);
    assert_eq!(files(&after).0, "{\"tokens\":24}\n");
}

#[test]
fn a_half_made_answer_goes_on_behind_the_messages_that_it_was_begun_to() {
    let turn = |role, content: &str| PromptTurn {
        role,
        content: PromptTemplate::parse(content).unwrap(),
    };
    let turns = vec![
        turn(Role::System, "Count \u{fdd1} {k}."),
        turn(Role::User, "{n}"),
        turn(Role::Assistant, "I count: "),
    ];
    let others = vec![turn(Role::User, "Something else: {n}")];
    for now in [turns.clone(), others, Vec::new()] {
        let mut setting = Setting::new(1, Some(Order::Key));
        setting.turns.clone_from(&turns);
        let first = Halting::new(false);
        let after = half_made(&setting, &MemoryDisk::new(), first.clone());
        let asked = first.asked.lock().unwrap().clone().unwrap();
        let said: Vec<&str> = asked.messages.iter().map(|m| m.content.as_str()).collect();
        assert_eq!(said, ["Count \u{fdd1} k1.", "1", "I count: "]);
        assert!(asked.continues);
        // The pipeline file has been changed meanwhile.
        setting.turns = now;
        let second = Halting::new(true);
        let ended = setting.start(&after, second.clone()).unwrap().join();
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert_eq!(second.resumed_from.load(Ordering::SeqCst), 24);
        assert_eq!(second.asked.lock().unwrap().clone().unwrap(), asked);
    }
}
