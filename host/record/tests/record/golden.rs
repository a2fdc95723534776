//! The arenas of `wit/golden`, written by an encoder in another language from `wit/README.md` alone: they are decoded as
//! they say, and what this crate writes is the same to the byte.

use std::path::Path;

use tidegate_record::{
    Batch, BatchBuilder, BatchView, Change, Excerpt, Fields, Layout, NewRecord, Origin,
    OutcomesBuilder, OutcomesView, PatchBuilder, RecordId,
};

use crate::common::Model;

const CLOCK: i64 = 1_700_000_000_123_456;
const SEED: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// The bytes of a golden file. Every line says at which offset it begins.
fn golden(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/golden");
    let text = std::fs::read_to_string(directory.join(name)).unwrap();
    let mut bytes = Vec::new();
    for line in text.lines() {
        let data = line.split_once('#').map_or(line, |(data, _)| data);
        let mut words = data.split_whitespace();
        let Some(offset) = words.next() else { continue };
        let offset = usize::from_str_radix(offset, 16).unwrap();
        assert_eq!(offset, bytes.len(), "{name}: {line}");
        bytes.extend(words.map(|word| u8::from_str_radix(word, 16).unwrap()));
    }
    bytes
}

/// Says where two arenas differ.
#[track_caller]
fn same(made: &[u8], golden: &[u8]) {
    let differs = made.iter().zip(golden).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");
    assert_eq!(made.len(), golden.len());
}

fn batch(records: usize) -> Batch {
    let mut builder = BatchBuilder::default();
    let first = NewRecord {
        id: RecordId {
            source: 1,
            partition: 2,
            offset: 42,
            ..RecordId::default()
        },
        event_time: Some(1_700_000_000_000_000),
        key: Some(b"k"),
        value: Some("värde".as_bytes()),
        headers: &[("h", Some(b"1")), ("h", None), ("", Some(b""))],
        attributes: &[("pii", Some(b"\x00\xff"))],
    };
    let second = NewRecord {
        id: RecordId {
            offset: 43,
            ..first.id
        },
        key: Some(b""),
        ..NewRecord::default()
    };
    let third = NewRecord {
        id: RecordId {
            origin: Origin::Timer,
            partition: 7,
            offset: 44,
            emit: 4097,
            ..RecordId::default()
        },
        event_time: Some(-1),
        value: Some(b""),
        ..NewRecord::default()
    };
    for record in [first, second, third].iter().take(records) {
        builder.push(record).unwrap();
    }
    builder.finish(CLOCK)
}

fn excerpt(batch: &Batch, reads: Fields, layout: Layout) -> Vec<u8> {
    let excerpt = Excerpt::new(batch.view(), reads, layout, SEED);
    let mut bytes = vec![0xaa; excerpt.len()];
    excerpt.write(&mut bytes);
    bytes
}

fn models(view: BatchView<'_>) -> Vec<Model> {
    view.records().map(Model::of).collect()
}

#[test]
fn batches_are_those_of_the_documentation() {
    for (name, records, reads) in [
        ("batch-all.hex", 3, Fields::ALL),
        ("batch-key.hex", 3, Fields::KEY),
        ("batch-none.hex", 0, Fields::ALL),
    ] {
        let bytes = golden(name);
        let batch = batch(records);
        same(&excerpt(&batch, reads, Layout::Version2), &bytes);
        let view = BatchView::parse(&bytes).unwrap();
        assert_eq!(
            (view.clock(), view.seed(), view.len()),
            (CLOCK, SEED, records)
        );
        assert!(view.records().all(|record| record.fields() == reads));
        if reads == Fields::ALL {
            assert_eq!(models(view), models(batch.view()));
        }
    }
    let bytes = golden("batch-key.hex");
    let keys: Vec<_> = models(BatchView::parse(&bytes).unwrap())
        .into_iter()
        .map(|model| (model.key, model.value, model.headers.len()))
        .collect();
    let expected = [Some(b"k".to_vec()), Some(Vec::new()), None];
    assert_eq!(keys, expected.map(|key| (key, None, 0)));
}

#[test]
fn a_batch_that_has_grown_has_the_same_records() {
    let bytes = golden("batch-grown.hex");
    let view = BatchView::parse(&bytes).unwrap();
    assert_eq!((view.clock(), view.seed()), (CLOCK, SEED));
    assert_eq!(models(view), models(batch(3).view()));
    // What has to be understood is not.
    let mut unknown = bytes.clone();
    unknown[14] = 1;
    let error = BatchView::parse(&unknown)
        .map(|view| view.len())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "batch has the flag 0x00010001, which must be known and is not"
    );
}

#[test]
fn a_batch_of_layout_1_is_that_of_the_documentation() {
    let bytes = golden("batch-layout-1.hex");
    let batch = batch(2);
    same(&excerpt(&batch, Fields::ALL, Layout::Version1), &bytes);
    let read = Batch::from_bytes(bytes).unwrap();
    assert_eq!(models(read.view()), models(batch.view()));
}

fn everything() -> PatchBuilder {
    let mut patch = PatchBuilder::default();
    patch.set_key(Some(vec![0, 255]));
    patch.set_value(None);
    patch.set_event_time(Some(-7));
    let value: Option<&[u8]> = Some(b"new");
    patch.header(Change::Set { name: "h", value });
    patch.header(Change::Add {
        name: "h",
        value: None,
    });
    patch.header(Change::Remove { name: "gone" });
    let value: Option<&[u8]> = Some(b"");
    patch.attribute(Change::Set { name: "ä", value });
    patch
}

fn value(value: &str) -> PatchBuilder {
    let mut patch = PatchBuilder::default();
    patch.set_value(Some(value.into()));
    patch
}

fn every() -> Vec<u8> {
    let (same, all) = (PatchBuilder::default(), everything());
    let mut nulls = value("");
    nulls.set_key(None);
    nulls.set_event_time(None);
    let mut answer = OutcomesBuilder::default();
    answer.pass();
    answer.drop_record();
    answer.replace(&same);
    answer.replace(&nulls);
    answer.replace(&all);
    answer.split([].into_iter());
    answer.split([(0, &same), (2, &value("two")), (1, &all)].into_iter());
    answer.route(1, &value("routed"));
    answer.route(0, &same);
    answer.retry(250, "later");
    answer.retry(u32::MAX, "");
    answer.dead_letter("nicht für mich");
    answer.finish()
}

#[test]
fn answers_are_those_of_the_documentation() {
    let bytes = golden("answer-every.hex");
    same(&every(), &bytes);
    same(
        &OutcomesBuilder::default().finish(),
        &golden("answer-none.hex"),
    );
    OutcomesView::parse(&golden("answer-none.hex"), 0, 0).unwrap();
    let shown = |bytes: &[u8]| -> Vec<String> {
        let view = OutcomesView::parse(bytes, 12, 2).unwrap();
        view.iter().map(|outcome| format!("{outcome:?}")).collect()
    };
    let outcomes = shown(&bytes);
    let kinds: Vec<&str> = outcomes
        .iter()
        .filter_map(|shown| shown.split([' ', '(']).next())
        .collect();
    assert_eq!(
        kinds,
        [
            "Pass",
            "Drop",
            "Replace",
            "Replace",
            "Replace",
            "Split",
            "Split",
            "Route",
            "Route",
            "Retry",
            "Retry",
            "DeadLetter"
        ]
    );
    // The two layouts differ in their frame alone.
    assert_eq!(outcomes, shown(&golden("answer-layout-1.hex")));
}

#[test]
fn samples_are_those_of_the_documentation() {
    let mut answer = OutcomesBuilder::default();
    answer.pass();
    answer.pass();
    answer.sample(0, 0, 2, &[]);
    answer.sample(1, 1, (-1.5f64).to_bits(), &["dé"]);
    answer.sample(1, 2, 0.75f64.to_bits(), &["a", ""]);
    let bytes = golden("answer-samples.hex");
    same(&answer.finish(), &bytes);
    let view = OutcomesView::parse(&bytes, 2, 0).unwrap();
    let labels: Vec<(u32, Vec<&str>)> = view
        .samples()
        .map(|sample| (sample.record, sample.labels().collect()))
        .collect();
    assert_eq!(labels, [(0, vec![]), (1, vec!["dé"]), (1, vec!["a", ""])]);
}

/// Every byte of a golden answer, changed: what is refused is refused with a place, and nothing else comes of it.
#[test]
fn a_golden_answer_with_one_byte_changed_is_refused_with_its_place_or_read() {
    let bytes = golden("answer-samples.hex");
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            if let Err(error) = OutcomesView::parse(&changed, 2, 0) {
                assert!(error.to_string().contains(char::is_numeric), "{error}");
            }
        }
    }
    let refused = |at: usize, byte: u8| {
        let mut changed = bytes.clone();
        changed[at] = byte;
        OutcomesView::parse(&changed, 2, 0).unwrap_err().to_string()
    };
    assert_eq!(
        refused(36, 39),
        "answer is malformed at byte 36: a section table that lies within the header"
    );
}
