//! What becomes of a batch when an instance fails for no fault of its records.

use tidegate_record::Origin;

use super::*;
use crate::breaker::Breaker;
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
        configured: "{}".into(),
        breaker: Breaker::default(),
        seed: None,
        shared: Arc::new(Shared::new("s".into())),
        samples: Arc::default(),
    };
    Arc::new(Revision::new(component, context, config.into()).unwrap())
}

/// Lets everything pass.
pub(crate) fn pass() -> Arc<Revision> {
    version(&[], "{}")
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
    let mut instance = Instance::new(revision("{}")).unwrap();
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
    assert_eq!(instance.revision.meters.stats().failed, 0);
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
    let mut instance = Instance::new(revision).unwrap();
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

/// Traps on a batch with `XXXX` in it, and starts for longer than a turn.
fn slow_to_start() -> Arc<Revision> {
    let finds = "(local.set $count (i32.load offset=8 (local.get $batch)))
         (local.set $at (local.get $batch))
         (loop $next
           (if (i32.eq (i32.load align=1 (local.get $at)) (i32.const 0x58585858)) (then (unreachable)))
           (local.set $at (i32.add (local.get $at) (i32.const 1)))
           (br_if $next
             (i32.lt_u
               (i32.add (local.get $at) (i32.const 3))
               (i32.add (local.get $batch) (local.get $length)))))";
    let init = "(func (export \"init\") (param i32 i32) (result i32)";
    let slow = "(func (export \"init\") (param i32 i32) (result i32) (local $turn i32)
         (loop $more
           (local.set $turn (i32.add (local.get $turn) (i32.const 1)))
           (br_if $more (i32.lt_u (local.get $turn) (i32.const 500000000))))";
    version(&[(COUNT, finds), (init, slow)], "{}")
}

fn numbered(first: u64, values: &[&str]) -> Batch {
    let mut builder = BatchBuilder::default();
    for (offset, value) in (first..).zip(values) {
        let record = tidegate_record::NewRecord {
            id: RecordId {
                offset,
                ..RecordId::default()
            },
            value: Some(value.as_bytes()),
            ..tidegate_record::NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    builder.finish(0)
}

#[test]
fn a_search_for_poison_goes_on_where_it_was_also_with_records_that_come_again_in_between() {
    let mut instance = Instance::new(slow_to_start()).unwrap();
    // The first is found last: as long as it is not, nothing is answered, and all come again.
    let mut values = vec!["good"; 64];
    values[0] = "XXXX";
    let batch = numbered(0, &values);
    let again = numbered(1000, &["good"]);
    let (mut turns, mut left) = (0, batch.clone());
    while !left.is_empty() {
        turns += 1;
        let lost = instance.revision.meters.stats().lost_instances;
        assert!(
            lost <= 9,
            "{lost} lost in {turns} turns, seven are needed and one more"
        );
        let done = instance.process(&left).unwrap();
        let untried = done.iter().find_map(|done| match done {
            Processed::Untried { first, .. } => Some(*first),
            _ => None,
        });
        left = match untried {
            Some(first) => part(&left, first, left.len() - first).unwrap(),
            None => numbered(0, &[]),
        };
        let done = instance.process(&again).unwrap();
        assert!(matches!(done[..], [Processed::Answer { count: 1, .. }]));
    }
    assert!(turns > 2, "its starts take longer than a turn");
    assert_eq!(instance.revision.meters.stats().failed, 1);
}

#[test]
fn who_gives_the_rest_of_a_batch_is_told_first_that_no_instance_could_be_started() {
    let mut instance = starts_once();
    instance.no_start = None;
    assert_eq!(instance.process(&batch(1)).unwrap().len(), 1);
    assert!(instance.process(&batch(2)).is_err());
    // A start that failed behind the records that were answered.
    instance.no_start = Some(OperatorError::Engine("no room".into()));
    assert!(!instance.is_started());
    instance.revision = revision("{}");
    let error = Operator::start(&mut instance).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    assert!(Operator::start(&mut instance).is_ok() && instance.is_started());
}

#[test]
fn every_part_of_a_first_record_s_identity_makes_another_mark() {
    let id = RecordId {
        offset: 1 << 20,
        ..RecordId::default()
    };
    let others = [
        RecordId { source: 1, ..id },
        RecordId { partition: 1, ..id },
        RecordId {
            offset: (1 << 20) + 1,
            ..id
        },
        RecordId {
            offset: 0,
            emit: 1,
            ..id
        },
        RecordId {
            origin: Origin::Timer,
            ..id
        },
    ];
    let mut marks: Vec<u64> = others.into_iter().chain([id]).map(mark_of).collect();
    assert_eq!(mark_of(id), mark_of(id));
    marks.sort_unstable();
    marks.dedup();
    assert_eq!(marks.len(), 6);
}
