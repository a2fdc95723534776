//! What becomes of a batch when an instance fails for no fault of its records.

use super::*;
use crate::engine::{Engine, EngineOptions};
use crate::grants::Grants;
use crate::limits::Limits;
use crate::revision::SlotContext;
use crate::shared::Shared;

/// A version made of the component that lets everything pass, changed.
fn version(changes: &[(&str, &str)], config: &str) -> Arc<Revision> {
    let mut text = include_str!("../../tests/fixtures/released/0.1.0/pass.wat").to_owned();
    for (piece, by) in changes {
        assert!(text.contains(piece), "{piece}");
        text = text.replace(piece, by);
    }
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let component = engine
        .compile(&wat::parse_str(text).unwrap(), "op")
        .unwrap();
    let context = SlotContext {
        grants: Grants::ALL,
        limits: Limits::default(),
        shared: Arc::new(Shared::new("s".into())),
        samples: Arc::default(),
    };
    Arc::new(Revision::new(component, context, config.into()).unwrap())
}

const COUNT: &str = "(local.set $count (i32.load offset=8 (local.get $batch)))";

/// Traps on more than one record, and does not start with a configuration.
fn revision(config: &str) -> Arc<Revision> {
    let single = "(local.set $count (i32.load offset=8 (local.get $batch)))
         (if (i32.gt_u (local.get $count) (i32.const 1)) (then (unreachable)))";
    let init = "(func (export \"init\") (param i32 i32) (result i32)";
    let picky = "(func (export \"init\") (param i32 i32) (result i32)
         (if (i32.ne (local.get 1) (i32.const 2)) (then (unreachable)))";
    version(&[(COUNT, single), (init, picky)], config)
}

fn batch(records: usize) -> Batch {
    let mut builder = BatchBuilder::default();
    for _ in 0..records {
        builder
            .push(&tidegate_record::NewRecord::default())
            .unwrap();
    }
    builder.finish(0)
}

/// Runs, and will not start again.
fn starts_once() -> Instance {
    let mut instance = Instance::start(revision("{}")).unwrap();
    instance.revision = revision("{\"no\": 1}");
    instance
}

#[test]
fn records_are_unanswered_and_not_poison_while_no_instance_can_be_started() {
    let mut instance = starts_once();
    assert_eq!(instance.process(&batch(1)).unwrap().len(), 1);
    // The instance is lost to this batch, and none can be started for its halves.
    let error = instance.process(&batch(4)).unwrap_err();
    assert!(
        error.to_string().contains("does not start: init: trap"),
        "{error}"
    );
    let error = instance.process(&batch(1)).unwrap_err();
    assert!(
        error.to_string().contains("does not start: init: trap"),
        "{error}"
    );
    let poisoned = &instance.revision.context.shared.poisoned;
    assert_eq!(poisoned.load(Ordering::Relaxed), 0);
    // When it starts again, so do its answers.
    instance.revision = revision("{}");
    assert_eq!(instance.process(&batch(1)).unwrap().len(), 1);
}

#[test]
fn a_record_is_not_poison_for_what_an_instance_remembers() {
    let free = "(global $free (mut i32) (i32.const 4096))";
    let calls = "(global $free (mut i32) (i32.const 4096)) (global $calls (mut i32) (i32.const 0))";
    let second = "(local.set $count (i32.load offset=8 (local.get $batch)))
         (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
         (if (i32.gt_u (global.get $calls) (i32.const 1)) (then (unreachable)))";
    let revision = version(&[(free, calls), (COUNT, second)], "{}");
    let mut instance = Instance::start(revision).unwrap();
    for records in [4, 4, 1, 1, 7] {
        let done = instance.process(&batch(records)).unwrap();
        let answered: usize = done
            .iter()
            .map(|done| match done {
                Processed::Answer { count, .. } => *count,
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(answered, records);
    }
}
