//! What an earlier run left of callers' records, and callers that wait longer than they said.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_contract::{
    Entry, EntryPart, FileLayer, Lane, ModelError, ModelTask, Parameters, Terms,
};
use tidegate_flow::{Alternative, Order, Stage, Target};
use tidegate_state::{FileCommitLog, MemoryDisk, StateKey};
use tidegate_tests::until;

use crate::native::{Held, Native, Says, answer, piece};
use crate::setting::*;
use crate::table::{End, Table};

fn forced(task: &ModelTask) -> Vec<u32> {
    match task {
        ModelTask::Generate { forced_prefix, .. } => forced_prefix.clone(),
        ModelTask::Encode { .. } | ModelTask::Recognize { .. } | ModelTask::Rank { .. } => {
            Vec::new()
        }
    }
}

/// A run over the disk of an earlier one.
fn again(disk: &MemoryDisk, mut setting: Setting, wanted: &[u64]) -> (Running, Table) {
    setting.disk = disk.clone();
    setting.table.wants(wanted, 100);
    let table = setting.table.clone();
    let running = setting.start();
    until("it has begun", PATIENCE, || table.was_left().is_some());
    (running, table)
}

/// A run that does not wait for what is in flight when it is told to end, and its disk.
fn first(stages: Vec<Stage>) -> (MemoryDisk, Running) {
    let mut setting = Setting::new(stages);
    setting.drain = Duration::ZERO;
    (setting.disk.clone(), setting.start())
}

/// Waits until the log has the tokens of an answer that is being made, up to this one.
fn has_tokens(disk: &MemoryDisk, last: u32) {
    until("the log has the tokens", PATIENCE, || {
        let key = StateKey::from_hex(&"55".repeat(32)).unwrap();
        let layer: Arc<dyn FileLayer> = Arc::new(disk.restart(0));
        let (_, state) = FileCommitLog::open(layer, Path::new("/state/log"), key).unwrap();
        let progress = |entry: &Entry| entry.key.part == EntryPart::Progress;
        let mut payloads = state.entries().filter(progress).map(|entry| entry.payload);
        payloads.any(|payload| String::from_utf8_lossy(&payload).contains(&format!(",{last}]")))
    });
}

/// Ends a run with what is in flight.
fn leave(running: Running) {
    running.run.controls().stop();
    let ended = running.run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
}

#[test]
fn what_is_wanted_of_an_earlier_run_goes_on_from_its_tokens_and_the_rest_ends() {
    let model = Held::new();
    let (disk, running) = first(vec![asking("ask", model.clone(), vec![ANSWERS])]);
    let (wanted, other) = (
        running.table.ask(chat("wanted")),
        running.table.ask(chat("other")),
    );
    let (mut first, _second) = (model.next(), model.next());
    first.reply.piece(&piece(15, "Grüß"));
    // As many as a cut takes for themselves.
    let tokens: Vec<u32> = (0..16).collect();
    for token in &tokens {
        first.reply.token(*token, *token, "");
    }
    has_tokens(&disk, 15);
    leave(running);

    let model = Held::new();
    let setting = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]);
    let (running, table) = again(&disk, setting, &[wanted]);
    let mut request = model.next();
    assert_eq!((request.class, forced(&request.task)), (3, tokens));
    request.reply.piece(&piece(15, "Grüß"));
    request.reply.piece(&piece(16, " Gott"));
    request.reply.done(Ok(answer("Grüß Gott")));
    running.end();
    assert!(!model.is_asked(), "nobody wants the other one");
    assert_eq!(table.was_left(), Some(vec![(wanted, 1), (other, 1)]));
    assert_eq!(table.ends(other), [End::Dropped("ask".into())]);
    // From its beginning: this life has shown nothing of it.
    let attempt = table.attempts(wanted)[0];
    assert_eq!(table.text(wanted, attempt, Lane::Content), "Grüß Gott");
    assert_eq!(table.answer(wanted).unwrap()["answer"], "Grüß Gott");
}

#[test]
fn a_run_with_nothing_left_says_so_and_pieces_are_counted() {
    let split = || {
        let slot = Native::new(|_| Says::Split(vec![0; 3]));
        operator("split", slot, vec![Target::Stage(1)], Vec::new())
    };
    let model = Held::new();
    let (disk, running) = first(vec![split(), asking("ask", model.clone(), vec![ANSWERS])]);
    let table = running.table.clone();
    let offset = table.ask(chat("a"));
    let requests: Vec<_> = (0..3).map(|_| model.next()).collect();
    assert_eq!(table.was_left(), Some(Vec::new()));
    let mut requests = requests.into_iter();
    requests.next().unwrap().reply.done(Ok(answer("one")));
    until("one is out", PATIENCE, || table.left(offset) == 2);
    leave(running);

    let model = Held::new();
    let setting = Setting::new(vec![split(), asking("ask", model.clone(), vec![ANSWERS])]);
    let (running, table) = again(&disk, setting, &[offset]);
    for _ in 0..2 {
        model.next().reply.done(Ok(answer("more")));
    }
    running.end();
    assert_eq!(table.was_left(), Some(vec![(offset, 2)]));
}

#[test]
fn an_answer_that_waited_behind_its_lane_is_told_of_after_a_restart() {
    waited_behind_its_lane(true);
    waited_behind_its_lane(false);
}

fn waited_behind_its_lane(first_is_wanted: bool) {
    let stage = |model| {
        let mut stage = stage_of(model);
        stage.order = Order::Partition;
        vec![model_stage("ask", stage, vec![ANSWERS])]
    };
    let model = Held::new();
    let (disk, running) = first(stage(model.clone()));
    let (first, second) = (running.table.ask(chat("a")), running.table.ask(chat("b")));
    let (_first, mut behind) = (model.next(), model.next());
    // The log has the tokens as the model told them.
    for (index, byte) in (0u32..).zip("second".bytes()) {
        behind.reply.token(index, u32::from(byte), "");
    }
    behind.reply.done(Ok(answer("second")));
    until("the log has its answer", PATIENCE, || {
        running.run.controls().committed().requests == 1
    });
    leave(running);

    let model = Held::new();
    let wanted: &[u64] = if first_is_wanted {
        &[first, second]
    } else {
        &[second]
    };
    let (running, table) = again(&disk, Setting::new(stage(model.clone())), wanted);
    if first_is_wanted {
        model.next().reply.done(Ok(answer("first")));
    }
    running.end();
    assert!(!model.is_asked(), "the second was answered before");
    assert_eq!(table.brought(second), [Some(answer("second").into())]);
    assert_eq!(table.answer(second).unwrap()["answer"], "second");
}

#[test]
fn a_request_whose_caller_waits_longer_by_now_goes_on_from_its_tokens() {
    let model = Held::new();
    let running = Setting::new(vec![asking("ask", model.clone(), vec![ANSWERS])]).start();
    let table = running.table.clone();
    let said = Instant::now() + Duration::from_secs(600);
    let terms = Terms {
        deadline: Some(said),
        class: 1,
    };
    let (longer, same) = (
        table.ask_with(chat("longer"), Some(terms)),
        table.ask_with(chat("same"), Some(terms)),
    );
    let (mut first, second) = (model.next(), model.next());
    assert_eq!(first.deadline, Some(said));
    first.reply.token(0, 1, "One");
    let later = said + Duration::from_secs(60);
    table.waits_until(longer, later);
    let expired = || Err(ModelError::Expired { made: 1 });
    first.reply.done(expired());
    second.reply.done(expired());
    let request = model.next();
    assert_eq!(
        (request.attempt, request.deadline, forced(&request.task)),
        (1, Some(later), vec![1])
    );
    request.reply.done(Ok(answer("One two")));
    running.end();
    assert_eq!(table.answer(longer).unwrap()["answer"], "One two");
    assert!(matches!(table.ends(same)[..], [End::Dead(..)]));
}

#[test]
fn what_nobody_wants_ends_in_every_stage_before_anything_goes_on() {
    // Of the second operator: what waits before it in the first run, and what it has seen in the other.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stages = |model, starts: bool| {
        let mut ask = stage_of(model);
        ask.order = Order::Partition;
        let sees = seen.clone();
        let mut last = Native::new(move |record| {
            sees.lock().unwrap().push(record.id().offset);
            Says::Pass
        });
        last.starts = Arc::new(starts.into());
        vec![
            model_stage("ask", ask, vec![Target::Stage(1)]),
            operator(
                "pass",
                Native::new(|_| Says::Pass),
                vec![Target::Stage(2)],
                Vec::new(),
            ),
            operator("last", last, vec![ANSWERS], Vec::new()),
        ]
    };
    let model = Held::new();
    let (disk, running) = first(stages(model.clone(), false));
    let [before, first, behind] = ["a", "b", "c"].map(|text| running.table.ask(chat(text)));
    let (answered, _first, mut waits) = (model.next(), model.next(), model.next());
    answered.reply.done(Ok(answer("before")));
    for (index, byte) in (0u32..).zip("behind".bytes()) {
        waits.reply.token(index, u32::from(byte), "");
    }
    waits.reply.done(Ok(answer("behind")));
    until("the log has both answers", PATIENCE, || {
        running.run.controls().committed().requests == 2
    });
    leave(running);

    let model = Held::new();
    let setting = Setting::new(stages(model.clone(), true));
    let (running, table) = again(&disk, setting, &[behind]);
    running.end();
    assert!(!model.is_asked());
    assert_eq!(table.ends(before), [End::Dropped("last".into())]);
    assert_eq!(table.ends(first), [End::Dropped("ask".into())]);
    assert_eq!(table.answer(behind).unwrap()["answer"], "behind");
    assert_eq!(*seen.lock().unwrap(), [behind]);
}

#[test]
fn an_answer_is_told_as_it_was_asked_for_where_its_alternative_is_there_no_more() {
    let stage = |own, small: Option<Arc<Held>>| {
        let mut stage = stage_of(own);
        stage.order = Order::Partition;
        let alternatives = small.into_iter().map(|small| Alternative {
            name: "small".into(),
            model: small,
            prompt_tokens: 100,
            parameters: Box::new(Parameters {
                max_tokens: 16,
                ..Parameters::default()
            }),
        });
        stage.alternatives = alternatives.collect();
        vec![model_stage("ask", stage, vec![ANSWERS])]
    };
    let (own, small) = (Held::new(), Held::new());
    let (disk, running) = first(stage(own.clone(), Some(small.clone())));
    let _first = running.table.ask(chat("a"));
    let ask = |text: &str| {
        let messages = serde_json::json!([{"role": "user", "content": text}]);
        let asked = serde_json::json!({
            "messages": messages, "alternative": "small", "parameters": {"n": 2},
        });
        running.table.ask(asked.to_string())
    };
    let (answered, unasked) = (ask("b"), ask("c"));
    let (mut request, _unasked) = (small.next(), small.next());
    for (index, byte) in (0u32..).zip("little".bytes()) {
        request.reply.token(index, u32::from(byte), "");
    }
    request.reply.done(Ok(answer("little")));
    until("the log has its answer", PATIENCE, || {
        running.run.controls().committed().requests == 1
    });
    leave(running);

    let setting = Setting::new(stage(Held::new(), None));
    let (running, table) = again(&disk, setting, &[answered, unasked]);
    running.end();
    let told = table.answer(answered).unwrap();
    assert_eq!(told["answer"], "little");
    // Of several, as it was asked for.
    assert_eq!(told["answer_choices"][0]["text"], "little");
    match table.ends(unasked).as_slice() {
        [End::Dead(_, why, _)] => assert!(why.contains("alternative is"), "{why}"),
        other => panic!("{other:?}"),
    }
}
