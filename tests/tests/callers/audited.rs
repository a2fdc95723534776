//! What the audit says of who made an answer: it is what its record went through, whatever runs by then.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tidegate_contract::{
    AuditLog, Audited, EntryPart, FileLayer, Lane, OperatorVersion, SinkError, SinkPosition,
};
use tidegate_flow::{Order, Stage, StageKind, Target};
use tidegate_state::{FileCommitLog, MemoryDisk, StateKey};
use tidegate_tests::until;

use crate::native::{Held, Native, Says, answer, piece};
use crate::setting::*;
use crate::tokens::{Open, handled, names};

/// The facts of each line, as they are written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Value>>>);

impl AuditLog for Lines {
    fn write(&mut self, audited: &Audited<'_>) -> Result<(), SinkError> {
        let mut line: Value = serde_json::from_str(audited.facts).unwrap();
        line["record"] = audited.record.into();
        self.0.lock().unwrap().push(line);
        Ok(())
    }
    fn pending(&self) -> usize {
        0
    }
    fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn settled(&mut self, _: bool) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn logged(&mut self) {}
    fn discard(&mut self) {}
    fn position(&self) -> Option<SinkPosition> {
        None
    }
    fn end(&mut self) -> Result<Option<SinkPosition>, SinkError> {
        Ok(None)
    }
    fn sibling(&self) -> Box<dyn AuditLog> {
        Box::new(self.clone())
    }
}

impl Lines {
    /// The digests of those with a part in the answer of each record, in the order of the records.
    fn named(&self, part: &str) -> Vec<Vec<String>> {
        let mut lines = self.0.lock().unwrap().clone();
        lines.sort_by_key(|line| line["record"].as_str().map(str::to_owned));
        let digests = |line: &Value| {
            let all = line[part].as_array().unwrap().iter();
            all.map(|one| one["digest"].as_str().unwrap().to_owned())
                .collect()
        };
        lines.iter().map(digests).collect()
    }
}

/// What runs of a slot, and its generation.
type Runs = (Arc<Mutex<Arc<OperatorVersion>>>, Arc<AtomicU64>);

fn runs(slot: &Native) -> Runs {
    (slot.version.clone(), slot.generation.clone())
}

fn deploy((version, generation): &Runs, digest: &str) {
    let mut version = version.lock().unwrap();
    *version = Arc::new(OperatorVersion {
        digest: digest.into(),
        ..OperatorVersion::clone(&version)
    });
    generation.fetch_add(1, Ordering::SeqCst);
}

/// Two operators before a model that is asked one question at a time: what runs of the first, which makes two of each
/// record, and how many of these the second has seen.
fn stages(model: Arc<Held>) -> (Vec<Stage>, Runs, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let sees = seen.clone();
    let before = Native::new(|_| Says::Split(vec![0; 2]));
    let next = Native::new(move |record| {
        sees.fetch_add(1, Ordering::SeqCst);
        let text = String::from_utf8_lossy(record.value().unwrap_or_default());
        Says::Replace(text.into_owned())
    });
    deploy(&runs(&next), "sha256:next");
    let mut stage = stage_of(model);
    stage.max_in_flight = 1;
    let runs = runs(&before);
    let stages = vec![
        operator("before", before, vec![Target::Stage(1)], Vec::new()),
        operator("next", next, vec![Target::Stage(2)], Vec::new()),
        model_stage("ask", stage, vec![ANSWERS]),
    ];
    (stages, runs, seen)
}

/// The run has ended with what is in flight.
fn leave(running: Running) {
    running.run.controls().stop();
    let ended = running.run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
}

fn with_audit(stages: Vec<Stage>) -> (Setting, Lines) {
    let lines = Lines::default();
    let mut setting = Setting::new(stages);
    setting.audit = Some(Box::new(lines.clone()));
    (setting, lines)
}

#[test]
fn after_a_swap_the_audit_names_those_that_records_in_a_full_inbox_went_through() {
    let model = Held::new();
    let (stages, runs, seen) = stages(model.clone());
    let (setting, lines) = with_audit(stages);
    let running = setting.start();
    let table = running.table.clone();
    table.ask(chat("a"));
    let first = model.next();
    until("the other piece waits for its turn", PATIENCE, || {
        seen.load(Ordering::SeqCst) == 2
    });
    deploy(&runs, "sha256:new");
    running.run.controls().switch("before", PATIENCE).unwrap();
    first.reply.done(Ok(answer("one")));
    model.next().reply.done(Ok(answer("two")));
    table.ask(chat("b"));
    for text in ["three", "four"] {
        model.next().reply.done(Ok(answer(text)));
    }
    running.end();
    let old = ["sha256:0", "sha256:next"].map(str::to_owned).to_vec();
    let new = ["sha256:new", "sha256:next"].map(str::to_owned).to_vec();
    let expected = [old.clone(), old, new.clone(), new];
    assert_eq!(lines.named("operators"), expected);
    assert_eq!(lines.named("handlers"), [[""; 0]; 4]);
}

#[test]
fn after_a_kill_the_audit_names_those_that_records_in_a_full_inbox_went_through() {
    let model = Held::new();
    let (first, _, _) = stages(model.clone());
    let (mut setting, _) = with_audit(first);
    setting.drain = Duration::ZERO;
    let disk = setting.disk.clone();
    let running = setting.start();
    let wanted = [running.table.ask(chat("a"))];
    let _first = model.next();
    let mut left = disk.clone();
    until(
        "the log has the one that waits for its turn",
        PATIENCE,
        || {
            left = disk.restart(0);
            let key = StateKey::from_hex(&"55".repeat(32)).unwrap();
            let layer: Arc<dyn FileLayer> = Arc::new(left.clone());
            let (_, state) = FileCommitLog::open(layer, Path::new("/state/log"), key).unwrap();
            let parts: Vec<EntryPart> = state.entries().map(|entry| entry.key.part).collect();
            parts.contains(&EntryPart::Record) && parts.contains(&EntryPart::Batch)
        },
    );
    leave(running);
    let model = Held::new();
    let (stages, runs, _) = stages(model.clone());
    deploy(&runs, "sha256:new");
    let lines = goes_on(stages, left, &wanted, || {
        for text in ["one", "two"] {
            model.next().reply.done(Ok(answer(text)));
        }
    });
    let old = ["sha256:0", "sha256:next"].map(str::to_owned).to_vec();
    assert_eq!(lines.named("operators"), [old.clone(), old]);
}

/// A run over what an earlier one left, to its end.
fn goes_on(stages: Vec<Stage>, disk: MemoryDisk, wanted: &[u64], answers: impl FnOnce()) -> Lines {
    let (mut setting, lines) = with_audit(stages);
    setting.disk = disk;
    setting.table.wants(wanted, 100);
    let running = setting.start();
    answers();
    running.end();
    lines
}

#[test]
fn after_a_swap_within_an_answer_the_audit_names_the_handlers_that_its_text_went_through() {
    let (model, open) = (Held::new(), Open::default());
    let slot = names(&open);
    let runs = runs(&slot);
    let (setting, lines) = with_audit(handled(model.clone(), slot));
    let running = setting.start();
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let mut request = model.next();
    request.reply.piece(&piece(0, "Dear <1>, "));
    until("the beginning is seen", PATIENCE, || {
        table.text(offset, 1, Lane::Content) == "Dear Anna, "
    });
    deploy(&runs, "sha256:new");
    running.run.controls().switch("names", PATIENCE).unwrap();
    request.reply.done(Ok(answer("Dear <1>, hello")));
    until("it is answered", PATIENCE, || {
        table.answer(offset).is_some()
    });
    table.ask(chat("b"));
    model.next().reply.done(Ok(answer("Dear <1>")));
    running.end();
    assert_eq!(lines.named("handlers"), [["sha256:0"], ["sha256:new"]]);
    assert_eq!(lines.named("operators"), [[""; 0]; 2]);
}

#[test]
fn after_a_kill_the_audit_names_the_handlers_and_the_adapter_of_an_answer_that_waited_behind_its_lane()
 {
    let stages = |model: Arc<Held>, digest: &str| {
        let slot = names(&Open::default());
        deploy(&runs(&slot), digest);
        let mut stages = handled(model, slot);
        if let StageKind::Model(ask) = &mut stages[0].kind {
            ask.order = Order::Partition;
        }
        stages
    };
    let model = Held::new();
    let (mut setting, _) = with_audit(stages(model.clone(), "sha256:old"));
    setting.drain = Duration::ZERO;
    let disk = setting.disk.clone();
    let running = setting.start();
    let wanted = [running.table.ask(chat("a")), running.table.ask(chat("b"))];
    let (_first, mut behind) = (model.next(), model.next());
    for (index, byte) in (0u32..).zip("second".bytes()) {
        behind.reply.token(index, u32::from(byte), "");
    }
    behind.reply.done(Ok(answer("second")));
    until("the log has its answer", PATIENCE, || {
        running.run.controls().committed().requests == 1
    });
    let left = disk.restart(0);
    leave(running);
    let model = Held::new();
    let lines = goes_on(stages(model.clone(), "sha256:new"), left, &wanted, || {
        model.next().reply.done(Ok(answer("first")));
    });
    assert_eq!(lines.named("handlers"), [["sha256:new"], ["sha256:old"]]);
    let lines = lines.0.lock().unwrap();
    assert!(lines.iter().all(|line| line["model"]["adapter"] == "none"));
}
