//! A run of several processes with one group, what goes into it, and what it promised.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_tests::mock::{self, Call};
use tidegate_tests::{Random, Running, Workspace, full, root, tidegate, until};

use super::check::{Findings, Record, Seen, Sights, check};
use super::topics::{Feeder, Live, Sent, committed, open, read, settled, written};
use crate::topic_at;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How long no output may come while there is more to come: longer than any transaction stays open.
const PROGRESS: Duration = Duration::from_secs(90);
/// The same of a run that is to be found at fault: whoever was killed in it is started again, which ends what was open.
const PROGRESS_AT_FAULT: Duration = Duration::from_secs(30);
pub(crate) const PARTITIONS: i32 = 6;
/// Short, so that others soon have the partitions of who was killed.
const SESSION: Duration = Duration::from_secs(6);
/// A member that shows no life for so long is out of its group, and others have its partitions: its session is over.
pub(crate) const TAKEN_OVER: Duration = Duration::from_millis(8500);

const REDACT: &str = r#"
[[stage]]
name = "redact"
operator = "{operators}/redact-pii.wasm"
config = { paths = ["text"] }
"#;

/// What a pipeline delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    ExactlyOnce,
    AtLeastOnce,
}

impl Delivery {
    /// What asks for it in `[pipeline]`.
    fn line(self) -> &'static str {
        match self {
            Delivery::ExactlyOnce => "delivery = \"exactly-once\"",
            Delivery::AtLeastOnce => "delivery = \"at-least-once\"",
        }
    }
}

/// What the processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `tidegate run`, with an operator.
    Operator,
    /// The same with a model that is a mock, which takes so many requests at once.
    Mock { at_once: usize },
    /// That with a fault that was put into it.
    Planted { fault: &'static str, at_once: usize },
}

/// How a scene is set up.
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) brokers: String,
    pub(crate) delivery: Delivery,
    pub(crate) program: Program,
    pub(crate) records: usize,
    pub(crate) keys: u64,
    /// Records come at an even pace over this time.
    pub(crate) during: Duration,
    /// Every so many-th record is too large for the output.
    pub(crate) poison: Option<usize>,
    pub(crate) processes: usize,
    /// Whether they keep their names in the group over a restart.
    pub(crate) named: bool,
    pub(crate) cut_interval: &'static str,
    /// A member that shows no life for so long is out of its group.
    pub(crate) session: Duration,
}

impl Plan {
    /// Three processes; 20,000 records over 500 keys in 10 s, with `--full` in three minutes.
    pub(crate) fn new(name: &'static str, program: Program) -> Plan {
        Plan {
            name,
            brokers: crate::broker(),
            delivery: Delivery::ExactlyOnce,
            program,
            records: 20_000,
            keys: 500,
            during: Duration::from_secs(if full() { 180 } else { 10 }),
            poison: None,
            processes: 3,
            named: true,
            // Short, so that what comes over a process hits an open transaction.
            cut_interval: "10ms",
            session: SESSION,
        }
    }
}

/// One process of the group, over all of its lives.
pub(crate) struct Member {
    pub(crate) workspace: Workspace,
    pub(crate) running: Option<Running>,
}

/// The run of a plan.
pub(crate) struct Scene {
    plan: Plan,
    pub(crate) random: Random,
    seed: u64,
    input: String,
    output: String,
    dead: String,
    expected: Vec<Record>,
    poisoned: Vec<Record>,
    pub(crate) members: Vec<Member>,
    feeder: Option<Feeder>,
    live: Live,
    /// Processes that were killed.
    kills: usize,
    /// Killed processes that are started again at a time.
    down: Vec<(Instant, usize)>,
}

/// How a scene ended.
pub(crate) struct Ended {
    pub(crate) findings: Findings,
    pub(crate) committed: Vec<Seen>,
    pub(crate) calls: Vec<Call>,
    pub(crate) kills: usize,
    pub(crate) said: String,
}

/// `TIDEGATE_CHAOS_SEED`, or one of its own: always the same in the short runs, another one with `--full`.
fn seed() -> u64 {
    let now = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_nanos() as u64
    };
    match std::env::var("TIDEGATE_CHAOS_SEED") {
        Ok(seed) => seed.parse().expect("TIDEGATE_CHAOS_SEED is a number"),
        Err(_) if full() => now(),
        Err(_) => 11,
    }
}

impl Scene {
    /// Makes the topics and starts the processes, the readers and what feeds them.
    pub(crate) fn begin(plan: Plan) -> Scene {
        let seed = seed();
        println!("{}: TIDEGATE_CHAOS_SEED={seed}", plan.name);
        let topic = |name: &str, settings: &[(&str, &str)]| {
            topic_at(&plan.brokers, name, PARTITIONS, settings)
        };
        let (input, dead) = (topic("in", &[]), topic("dead", &[]));
        let output = topic("out", &[("max.message.bytes", "8000")]);
        let sent = super::topics::records(seed, plan.records, plan.keys, plan.poison);
        let (poisoned, expected): (Vec<&Sent>, Vec<&Sent>) =
            sent.iter().partition(|sent| sent.value.len() > 8000);
        let of = |sent: Vec<&Sent>| sent.iter().map(|sent| sent.record.clone()).collect();
        let (poisoned, expected) = (of(poisoned), of(expected));
        let live = Live::start(&plan.brokers, &output);
        let mut scene = Scene {
            random: Random(seed),
            feeder: Some(Feeder::start(&plan.brokers, &input, sent, plan.during)),
            seed,
            input,
            output,
            dead,
            expected,
            poisoned,
            members: Vec::new(),
            live,
            kills: 0,
            down: Vec::new(),
            plan,
        };
        for _ in 0..scene.plan.processes {
            scene.join();
        }
        scene
    }

    /// Starts another process with a state directory of its own.
    pub(crate) fn join(&mut self) {
        let number = self.members.len();
        let workspace = Workspace::new(&self.pipeline(number));
        self.members.push(Member {
            workspace,
            running: None,
        });
        self.start(number);
    }

    fn group(&self) -> String {
        format!("{}-group", self.input)
    }

    fn pipeline(&self, number: usize) -> String {
        let stages = match self.plan.program {
            Program::Operator => REDACT.to_owned(),
            Program::Mock { .. } | Program::Planted { .. } => format!(
                "[model.mock]\npath = {:?}\n[[stage]]\nname = \"ask\"\nmodel = \"mock\"\nprompt = \"{{k}} {{n}}\"\n\
                 into = \"member\"\nmax-in-flight = 64\nmax-in-flight-per-key = 4\n",
                root().join("examples/support-bot/model")
            ),
        };
        let instance = if self.plan.named {
            format!("instance = \"member-{number}\"")
        } else {
            String::new()
        };
        format!(
            r#"
[pipeline]
name = "{input}"
cut-interval = "{interval}"
{delivery}
[source.in]
type = "kafka"
brokers = ["{brokers}"]
topic = "{input}"
group = "{group}"
{instance}
properties = {{ "session.timeout.ms" = {session}, "heartbeat.interval.ms" = 500 }}
{stages}
[sink.out]
type = "kafka"
brokers = ["{brokers}"]
topic = "{output}"
[dead-letters]
type = "kafka"
brokers = ["{brokers}"]
topic = "{dead}"
"#,
            interval = self.plan.cut_interval,
            session = self.plan.session.as_millis(),
            delivery = self.plan.delivery.line(),
            brokers = self.plan.brokers,
            input = self.input,
            group = self.group(),
            output = self.output,
            dead = self.dead,
        )
    }

    /// The program with the mock: the one of this build, or what `cargo xtask planted` built.
    fn with_mock(&self, at_once: usize) -> Command {
        let built = std::env::var_os("TIDEGATE_WITH_MOCK");
        let mut command =
            Command::new(built.unwrap_or_else(|| env!("CARGO_BIN_EXE_tidegate-with-mock").into()));
        let (seed, at_once) = (self.seed.to_string(), at_once.to_string());
        command.args(["pipeline.toml", "calls.jsonl", &seed, &at_once]);
        command
    }

    /// Starts a process that does not run.
    pub(crate) fn start(&mut self, number: usize) {
        let directory = self.members[number].workspace.path("");
        let mut command = match self.plan.program {
            Program::Operator => {
                let mut command = Command::new(tidegate());
                command.args(["run", "--quiet", "pipeline.toml"]);
                command
            }
            Program::Mock { at_once } => self.with_mock(at_once),
            Program::Planted { fault, at_once } => {
                let mut command = self.with_mock(at_once);
                command.env(mock::PLANTED, fault);
                command
            }
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(directory.join("stderr.log"))
            .unwrap();
        command
            .current_dir(&directory)
            .env("TIDEGATE_STATE_KEY", "22".repeat(32))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.members[number].running = Some(Running::spawn(command));
    }

    /// Kills a process with SIGKILL.
    pub(crate) fn kill(&mut self, number: usize) {
        if let Some(mut running) = self.members[number].running.take() {
            running.kill();
            self.kills += 1;
        }
    }

    /// Kills a process while a transaction of its own is open, so that there is something to take back: it is stopped
    /// until one is found that stays open. Where it has none in 100 tries it is killed as it is.
    pub(crate) fn kill_in_a_transaction(&mut self, number: usize) {
        for _ in 0..100 {
            self.process(number).signal("STOP");
            let before = open(&self.plan.brokers, &self.output);
            if !before.is_empty() {
                // As long as others need for theirs.
                std::thread::sleep(Duration::from_millis(300));
                let after = open(&self.plan.brokers, &self.output);
                if before.iter().any(|open| after.get(open.0) == Some(open.1)) {
                    break;
                }
            }
            self.process(number).signal("CONT");
            self.wait(Duration::from_millis(40));
        }
        self.kill(number);
    }

    /// Kills all processes while there are outputs of records that the group has not behind it yet, and starts them again,
    /// so that there may be something to be done twice: not where a cut has them already, and the group was not told
    /// before they were stopped. Every record so far has had one output at most. Where every output has its cut in 100
    /// tries they are killed as they are.
    pub(crate) fn kill_all_before_a_cut(&mut self) {
        let (brokers, group) = (self.plan.brokers.clone(), self.group());
        for _ in 0..100 {
            self.signal_all("STOP");
            // What is on its way to the broker arrives.
            std::thread::sleep(Duration::from_millis(300));
            let (cut, outputs) = (
                committed(&brokers, &group, &self.input),
                written(&brokers, &self.output),
            );
            if outputs > cut {
                break;
            }
            self.signal_all("CONT");
            self.wait(Duration::from_millis(40));
        }
        for number in 0..self.members.len() {
            self.kill(number);
            self.start(number);
        }
    }

    fn signal_all(&self, signal: &str) {
        for number in 0..self.members.len() {
            self.process(number).signal(signal);
        }
    }

    /// Kills one of those that run, by chance. Most are started again at once and take back what they had; every fourth
    /// stays away for so long that the others have it.
    pub(crate) fn kill_one(&mut self) {
        let running = |member: &usize| self.members[*member].running.is_some();
        let running: Vec<usize> = (0..self.members.len()).filter(running).collect();
        let number = running[self.random.below(running.len() as u64) as usize];
        self.kill(number);
        let away = self.random.below(4) == 0 && running.len() > 1;
        let away = if away { TAKEN_OVER } else { Duration::ZERO };
        self.down.push((Instant::now() + away, number));
        self.start_due(Instant::now());
    }

    /// Starts those again whose time has come.
    fn start_due(&mut self, now: Instant) {
        let (due, down) = self.down.drain(..).partition(|(at, _)| *at <= now);
        self.down = down;
        let due: Vec<(Instant, usize)> = due;
        for (_, number) in due {
            self.start(number);
        }
    }

    /// Ends a process in order, and expects it to be content.
    pub(crate) fn leave(&mut self, number: usize) {
        if let Some(mut running) = self.members[number].running.take() {
            until("it hears signals", PATIENCE, || running.hears_term());
            let status = running.terminate(PATIENCE);
            let words = format!("{status}: {}", self.last_words(number));
            assert!(status.success(), "{words}");
        }
    }

    pub(crate) fn process(&self, number: usize) -> &Running {
        self.members[number].running.as_ref().expect("it runs")
    }

    fn last_words(&self, number: usize) -> String {
        let text = self.members[number].workspace.read("stderr.log");
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(20).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        format!("process {number}: {}", lines.join("\n"))
    }

    /// Whether everything was sent. A process that ended by itself is a failure.
    pub(crate) fn all_sent(&mut self) -> bool {
        self.nobody_ended();
        self.feeder.as_ref().is_none_or(Feeder::is_done)
    }

    fn nobody_ended(&mut self) {
        for number in 0..self.members.len() {
            let running = self.members[number].running.as_mut();
            if let Some(status) = running.and_then(Running::ended) {
                panic!("ended by itself, {status}: {}", self.last_words(number));
            }
        }
    }

    /// Lets the run go on for a while.
    pub(crate) fn wait(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
            self.start_due(Instant::now());
            self.nobody_ended();
        }
    }

    /// Outputs that a reader has seen so far.
    pub(crate) fn outputs(&self) -> usize {
        self.live.count()
    }

    /// Waits for the first output, and lets the other records come.
    pub(crate) fn under_way(&mut self) {
        until("the first output", PATIENCE * 2, || {
            self.nobody_ended();
            self.live.count() > 0
        });
        if let Some(feeder) = &self.feeder {
            feeder.go();
        }
    }

    /// Waits until every record has its output, ends the processes in order, and looks at what was written.
    pub(crate) fn end(mut self) -> Ended {
        for (_, number) in std::mem::take(&mut self.down) {
            self.start(number);
        }
        let patience = match self.plan.program {
            Program::Planted { .. } => PROGRESS_AT_FAULT,
            Program::Operator | Program::Mock { .. } => PROGRESS,
        };
        let mut best = (0, Instant::now());
        loop {
            let records = self.live.records();
            if self.all_sent() && records >= self.expected.len() {
                break;
            }
            if records > best.0 {
                best = (records, Instant::now());
            }
            if best.1.elapsed() > patience {
                println!("{records} of {} records, and no more", self.expected.len());
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        if let Some(feeder) = self.feeder.take() {
            feeder.join();
        }
        for number in 0..self.members.len() {
            if let Some(running) = &self.members[number].running {
                until("it hears signals", PATIENCE, || running.hears_term());
                running.signal("TERM");
            }
        }
        for number in 0..self.members.len() {
            let Some(running) = self.members[number].running.as_mut() else {
                continue;
            };
            let status = running.wait(PATIENCE);
            let words = format!("{status}: {}", self.last_words(number));
            assert!(status.success(), "{words}");
        }
        let brokers = &self.plan.brokers;
        settled(brokers, &self.output);
        let committed = read(brokers, &self.output, "read_committed");
        let uncommitted = read(brokers, &self.output, "read_uncommitted");
        let live = self.live.stop(committed.len());
        let sights = Sights {
            committed: &committed,
            uncommitted: &uncommitted,
            live: &live,
        };
        let findings = check(&self.expected, &sights);
        settled(brokers, &self.dead);
        let letters = letters(&read(brokers, &self.dead, "read_committed"));
        let input = read(brokers, &self.input, "read_uncommitted");
        check_letters(self.plan.delivery, &self.poisoned, &input, &letters);
        let calls = self.members.iter();
        let calls: Vec<Call> = calls
            .flat_map(|member| Call::read(&member.workspace.path("calls.jsonl")))
            .collect();
        let said = format!(
            "{}, seed {}: {} records, {} kills; {}",
            self.plan.name,
            self.seed,
            self.expected.len(),
            self.kills,
            findings.shown(),
        );
        println!("{said}");
        Ended {
            findings,
            committed,
            calls,
            kills: self.kills,
            said,
        }
    }
}

/// Partition and offset of the record that each dead letter is of.
fn letters(seen: &[Seen]) -> Vec<(i32, i64)> {
    let of = |seen: &Seen| {
        let letter: serde_json::Value = serde_json::from_str(&seen.value).unwrap();
        let number = |name: &str| letter[name].as_i64().unwrap();
        (number("partition") as i32, number("offset"))
    };
    seen.iter().map(of).collect()
}

/// The records that the output refuses are dead letters, and no others are.
fn check_letters(delivery: Delivery, poisoned: &[Record], input: &[Seen], letters: &[(i32, i64)]) {
    let mut places: Vec<(i32, i64)> = input
        .iter()
        .filter(|seen| poisoned.contains(&(seen.key.clone(), seen.number)))
        .map(|seen| (seen.partition, seen.offset))
        .collect();
    let mut letters = letters.to_vec();
    places.sort_unstable();
    letters.sort_unstable();
    if delivery == Delivery::AtLeastOnce {
        letters.dedup();
    }
    assert_eq!(letters, places, "dead letters by partition and offset");
}

impl Ended {
    /// Holds the run against what its pipeline promises.
    pub(crate) fn kept(&self, delivery: Delivery) -> &Ended {
        assert!(!self.findings.broken(), "{}", self.said);
        if delivery == Delivery::ExactlyOnce {
            assert_eq!(self.findings.repeats(), 0, "{}", self.said);
        }
        self
    }

    /// A run in which nothing was taken back proves nothing.
    pub(crate) fn counts(&self) -> &Ended {
        let seen = self.findings.aborted;
        assert!(seen > 0, "the run does not count: {}", self.said);
        self
    }

    /// Every answer is the one that an undisturbed run gives.
    pub(crate) fn answers_are_whole(&self) -> &Ended {
        for seen in &self.committed {
            let value: serde_json::Value = serde_json::from_str(&seen.value).unwrap();
            let prompt = format!("{} {}", seen.key, seen.number);
            let expected = mock::text(&mock::tokens(&prompt));
            assert_eq!(value["answer"], expected, "{prompt}: {}", self.said);
        }
        for call in &self.calls {
            let tokens = mock::tokens(&call.prompt);
            assert!(
                tokens.starts_with(&call.forced),
                "tokens of another answer: {call:?}: {}",
                self.said
            );
        }
        self
    }
}

/// A run that counts: where it is left to chance whether something is taken back, or done again, as often as it takes.
/// Whatever they count for, all must have kept what was promised.
pub(crate) fn that_counts(run: impl Fn() -> Ended) {
    let counts = |ended: Ended| ended.findings.aborted + ended.findings.repeats() > 0;
    let any = (0..4).any(|_| counts(run()));
    assert!(any, "no run counts: nothing was taken back, or done again");
}

/// The broker that a scene kills.
pub(crate) struct OwnBroker {
    xtask: std::process::Child,
    says: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    pub(crate) address: String,
}

impl OwnBroker {
    /// Started by xtask, as the one of the other tests is.
    pub(crate) fn start() -> OwnBroker {
        use std::io::BufRead as _;
        let xtask = tidegate_tests::target().join("release/xtask");
        assert!(xtask.exists(), "{} is missing", xtask.display());
        let mut xtask = Command::new(xtask)
            .arg("kafka")
            .env_remove("TIDEGATE_KAFKA")
            .current_dir(root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut broker = OwnBroker {
            says: std::io::BufReader::new(xtask.stdout.take().unwrap()).lines(),
            xtask,
            address: String::new(),
        };
        broker.address = broker.hears("TIDEGATE_KAFKA=");
        broker
    }

    fn hears(&mut self, words: &str) -> String {
        loop {
            let line = self.says.next().expect("xtask has ended").unwrap();
            if let Some(rest) = line.strip_prefix(words) {
                return rest.to_owned();
            }
        }
    }

    fn tell(&mut self, line: &str) {
        use std::io::Write as _;
        let stdin = self.xtask.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.tell("kill\n");
        self.hears("killed");
    }

    /// With the same address and data.
    pub(crate) fn start_again(&mut self) {
        self.tell("start\n");
        self.hears("started");
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        // It ends when it is told nothing more, and takes its broker with it.
        drop(self.xtask.stdin.take());
        let _ = self.xtask.wait();
    }
}
