//! What an operator is given: the fields it reads in the layout it was built for, and arenas of other versions.

use crate::common::{Model, batch, records, seeded};
use proptest::prelude::*;
use tidegate_record::layout::{BATCH_HEADER, ENTRY};
use tidegate_record::{
    Batch, BatchView, Excerpt, Fields, Layout, NewRecord, OutcomesBuilder, OutcomesView, child_emit,
};

fn written(batch: &Batch, fields: Fields, layout: Layout) -> Vec<u8> {
    let excerpt = Excerpt::new(batch.view(), fields, layout, [7; 16]);
    let mut bytes = vec![0xaa; excerpt.len()];
    excerpt.write(&mut bytes);
    bytes
}

/// The record without the fields that are not read.
fn reduced(mut model: Model, fields: Fields) -> Model {
    if !fields.contains(Fields::KEY) {
        model.key = None;
    }
    if !fields.contains(Fields::VALUE) {
        model.value = None;
    }
    if !fields.contains(Fields::HEADERS) {
        model.headers.clear();
    }
    if !fields.contains(Fields::ATTRIBUTES) {
        model.attributes.clear();
    }
    model
}

proptest! {
    #![proptest_config(seeded(500))]

    #[test]
    fn an_excerpt_has_the_fields_that_are_read_and_nothing_else(records in records(), bits in 0u8..16) {
        let fields = Fields::from_bits(bits);
        let bytes = written(&batch(&records, 9), fields, Layout::Version2);
        let view = BatchView::parse(&bytes).unwrap();
        prop_assert_eq!((view.clock(), view.seed()), (9, [7; 16]));
        let expected: Vec<Model> = records.into_iter().map(|record| reduced(record, fields)).collect();
        let found: Vec<Model> = view.records().map(Model::of).collect();
        prop_assert_eq!(found, expected);
        for record in view.records() {
            prop_assert_eq!(record.fields(), fields);
        }
    }

    #[test]
    fn layout_1_carries_what_layout_2_does(records in records(), bits in 0u8..16) {
        let fields = Fields::from_bits(bits);
        let bytes = written(&batch(&records, -3), fields, Layout::Version1);
        prop_assert_eq!(&bytes[..4], b"TGB\x01");
        let read = Batch::from_bytes(bytes).unwrap();
        prop_assert_eq!(read.view().clock(), -3);
        let expected: Vec<Model> = records
            .into_iter()
            .map(|record| {
                let mut record = reduced(record, fields);
                // It has 32 bits for the emit, and no origin.
                record.id.emit = u64::from(record.id.emit as u32);
                record.id.origin = Default::default();
                record
            })
            .collect();
        let found: Vec<Model> = read.view().records().map(Model::of).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn bytes_of_a_field_that_is_not_read_are_not_in_the_excerpt() {
    let mut builder = tidegate_record::BatchBuilder::default();
    let secret: &[u8] = b"the private secret";
    builder
        .push(&NewRecord {
            key: Some(b"k"),
            value: Some(b"the value"),
            attributes: &[("map", Some(secret))],
            ..NewRecord::default()
        })
        .unwrap();
    let batch = builder.finish(0);
    let holds = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|found| found == part);
    for layout in [Layout::Version1, Layout::Version2] {
        let bytes = written(&batch, Fields::VALUE, layout);
        assert!(holds(&bytes, b"the value") && !holds(&bytes, secret));
        assert!(holds(&written(&batch, Fields::ALL, layout), secret));
    }
    let bytes = written(&batch, Fields::VALUE, Layout::Version2);
    let entry = &bytes[bytes.len() - ENTRY..];
    assert_eq!(entry[31], Fields::VALUE.bits());
    assert_eq!(
        &entry[40..48],
        &[0, 0, 0, 0, 255, 255, 255, 255],
        "the key is null, and nowhere"
    );
    assert_eq!(&entry[56..], &[0; 16], "nor of headers and attributes");
}

/// An arena as a later version may write it: a longer header, longer entries, a section and a flag that may be skipped.
#[test]
fn an_arena_that_has_grown_is_read_as_far_as_it_is_known() {
    let mut builder = tidegate_record::BatchBuilder::default();
    for value in ["one", "two"] {
        builder
            .push(&NewRecord {
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            })
            .unwrap();
    }
    let bytes = builder.finish(5).into_bytes();
    let table = bytes.len() - 2 * ENTRY;
    let mut grown = bytes[..BATCH_HEADER].to_vec();
    grown.extend_from_slice(&[0xee; 16]);
    grown.extend_from_slice(&bytes[BATCH_HEADER..table]);
    let new_table = grown.len();
    for entry in bytes[table..].chunks_exact(ENTRY) {
        let mut entry = entry.to_vec();
        let offset = u32::from_le_bytes(entry[48..52].try_into().unwrap()) + 16;
        entry[48..52].copy_from_slice(&offset.to_le_bytes());
        for pairs in [56, 64] {
            let offset = u32::from_le_bytes(entry[pairs..pairs + 4].try_into().unwrap()) + 16;
            entry[pairs..pairs + 4].copy_from_slice(&offset.to_le_bytes());
        }
        grown.extend_from_slice(&entry);
        grown.extend_from_slice(&[0xdd; 8]);
    }
    let sections = grown.len();
    for field in [77u32, 1, sections as u32 + 16, 8] {
        grown.extend_from_slice(&field.to_le_bytes());
    }
    grown.extend_from_slice(&[1; 8]);
    let total = grown.len() as u32;
    let fields = [
        (4, total),
        (8, BATCH_HEADER as u32 + 16),
        (12, 1),
        (20, ENTRY as u32 + 8),
        (24, new_table as u32),
        (28, 1),
        (32, sections as u32),
    ];
    for (at, value) in fields {
        grown[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let view = BatchView::parse(&grown).unwrap();
    let values: Vec<_> = view.records().map(|record| record.value()).collect();
    assert_eq!(values, [Some(&b"one"[..]), Some(&b"two"[..])]);
    assert_eq!(
        view.get(1).and_then(|record| record.value()),
        Some(&b"two"[..])
    );
    // A section that has to be known is not.
    grown[sections..sections + 4].copy_from_slice(&0x8000_0001_u32.to_le_bytes());
    let error = BatchView::parse(&grown).map(|view| view.len()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "batch has the section 0x80000001, which must be known and is not"
    );
}

#[test]
fn an_answer_of_layout_1_is_read() {
    let mut answer = b"TGO\x01".to_vec();
    answer.extend_from_slice(&[0; 4]);
    answer.extend_from_slice(&2u32.to_le_bytes());
    answer.extend_from_slice(&18u32.to_le_bytes());
    answer.extend_from_slice(&[1, 6]);
    answer.extend_from_slice(&3u32.to_le_bytes());
    answer.extend_from_slice(b"why");
    let total = answer.len() as u32;
    answer[4..8].copy_from_slice(&total.to_le_bytes());
    let view = OutcomesView::parse(&answer, 2, 0).unwrap();
    let outcomes: Vec<String> = view.iter().map(|outcome| format!("{outcome:?}")).collect();
    assert_eq!(outcomes, ["Drop", "DeadLetter { reason: \"why\" }"]);
    assert_eq!(view.samples().count(), 0);
}

#[test]
fn samples_come_back_with_their_records_and_labels() {
    let mut builder = OutcomesBuilder::default();
    builder.pass();
    builder.sample(0, 2, 41, &[]);
    builder.dead_letter("no");
    builder.sample(1, 0, 1.5f64.to_bits(), &["de", ""]);
    let answer = builder.finish();
    let view = OutcomesView::parse(&answer, 2, 0).unwrap();
    let samples: Vec<(u32, u16, u64, Vec<&str>)> = view
        .samples()
        .map(|sample| {
            (
                sample.record,
                sample.metric,
                sample.bits,
                sample.labels().collect(),
            )
        })
        .collect();
    assert_eq!(
        samples,
        [(0, 2, 41, vec![]), (1, 0, 1.5f64.to_bits(), vec!["de", ""])]
    );
    let mut builder = OutcomesBuilder::default();
    builder.pass();
    builder.sample(1, 0, 0, &[]);
    let error = OutcomesView::parse(&builder.finish(), 1, 0)
        .map(|view| view.len())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "sample 0 is of record 1, which is not in the batch"
    );
}

#[test]
fn pieces_of_pieces_have_ids_of_their_own_at_any_depth() {
    let mut seen = std::collections::HashSet::new();
    let mut parents = vec![0u64];
    for _ in 0..40 {
        let mut children = Vec::new();
        for parent in &parents {
            for piece in [0, 1, 4094] {
                let child = child_emit(*parent, piece);
                assert_eq!(
                    child,
                    child_emit(*parent, piece),
                    "the same after a restart"
                );
                assert!(child != 0 && seen.insert(child), "{child} is there twice");
                children.push(child);
            }
        }
        children.truncate(200);
        parents = children;
    }
    assert_eq!(child_emit(0, 6), 7, "as numbered before 1.0.0");
    assert_eq!(child_emit(7, 0), 7 * 4096 + 1);
    // What SplitMix64 adds for each step.
    let (parent, step) = (1u64 << 63, 0x9e37_79b9_7f4a_7c15);
    assert_ne!(
        child_emit(parent, 5),
        child_emit(parent.wrapping_add(step), 4)
    );
}
