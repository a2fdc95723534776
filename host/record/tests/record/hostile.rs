//! Bytes from elsewhere: whatever they are, reading them ends in an error or in views that hold.

use crate::common::{Model, batch, changes, records, seeded};
use proptest::prelude::*;
use tidegate_record::layout::{BATCH_HEADER, BATCH_MAGIC, ENTRY, MAX_PIECES, OUTCOMES_MAGIC};
use tidegate_record::{
    Batch, BatchBuilder, BatchError, BatchView, Emission, Excerpt, Fields, Layout, Outcome,
    OutcomesBuilder, OutcomesError, OutcomesView, Patch, PatchBuilder,
};

/// Reads everything there is in what parses.
fn read_batch(bytes: &[u8]) {
    let Ok(view) = BatchView::parse(bytes) else {
        return;
    };
    let mut copy = BatchBuilder::default();
    for record in view.records() {
        let model = Model::of(record);
        assert!(model.headers.len() == record.headers().count());
        copy.push_record(&record).unwrap();
        copy.push_patched(&record, &Patch::NOTHING, 1).unwrap();
        assert!(!format!("{record:?}").is_empty());
    }
    let copied = copy.finish(view.clock());
    assert_eq!(
        BatchView::parse(copied.as_bytes()).unwrap().len(),
        2 * view.len()
    );
}

fn read_answer(bytes: &[u8], records: usize) {
    let Ok(view) = OutcomesView::parse(bytes, records, 2) else {
        return;
    };
    assert_eq!(
        view.iter().count(),
        records,
        "an answer that parses has an outcome for each record"
    );
    for sample in view.samples() {
        assert!((sample.record as usize) < records);
        assert!(sample.labels().all(|label| label.len() <= bytes.len()));
    }
    for outcome in view.iter() {
        let patches: Vec<Patch<'_>> = match outcome {
            Outcome::Replace(patch) => vec![patch],
            Outcome::Split(pieces) => pieces.iter().map(|piece| piece.patch).collect(),
            Outcome::Route(Emission { output, patch }) => {
                assert!(output <= 2, "an output that was not described");
                vec![patch]
            }
            _ => Vec::new(),
        };
        for patch in patches {
            let _ = (patch.key(), patch.value(), patch.event_time());
            let _ = (patch.headers().count(), patch.attributes().count());
        }
    }
}

/// A place in an arena, and what is done to it.
#[derive(Clone, Debug)]
enum Damage {
    Byte(prop::sample::Index, u8),
    Word(prop::sample::Index, u32),
    Cut(prop::sample::Index),
    Repeat(prop::sample::Index, u8),
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let word = prop_oneof![
        any::<u32>(),
        Just(u32::MAX),
        Just(u32::MAX - 1),
        Just(0),
        0u32..200,
        Just(1 << 31),
    ];
    let one = prop_oneof![
        3 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        4 => (any::<prop::sample::Index>(), word).prop_map(|(at, word)| Damage::Word(at, word)),
        1 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        1 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ];
    prop::collection::vec(one, 1..5)
}

fn damaged(mut bytes: Vec<u8>, damage: &[Damage]) -> Vec<u8> {
    for one in damage {
        if bytes.is_empty() {
            return bytes;
        }
        match one {
            Damage::Byte(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Damage::Word(at, word) => {
                let at = at.index(bytes.len()) & !3;
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Damage::Repeat(at, count) => {
                let at = at.index(bytes.len());
                let byte = bytes[at];
                bytes.extend(std::iter::repeat_n(byte, usize::from(*count)));
            }
        }
    }
    bytes
}

/// Puts the right magic and length in front, so that damage gets past the first checks.
fn headed(mut bytes: Vec<u8>, magic: [u8; 4]) -> Vec<u8> {
    if bytes.len() >= 8 {
        bytes[..4].copy_from_slice(&magic);
        let length = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
    }
    bytes
}

proptest! {
    #![proptest_config(seeded(2000))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), records in 0usize..8) {
        read_batch(&bytes);
        read_answer(&bytes, records);
        read_batch(&headed(bytes.clone(), BATCH_MAGIC));
        read_answer(&headed(bytes, OUTCOMES_MAGIC), records);
    }

    #[test]
    fn a_damaged_batch_never_panics(records in records(), damage in damage()) {
        let bytes = damaged(batch(&records, 5).into_bytes(), &damage);
        read_batch(&bytes);
        read_batch(&headed(bytes, BATCH_MAGIC));
    }

    #[test]
    fn a_damaged_answer_never_panics(all in prop::collection::vec(changes(), 1..5), damage in damage()) {
        let mut builder = OutcomesBuilder::default();
        for (index, changes) in all.iter().enumerate() {
            let patch = changes.patch();
            match index % 4 {
                0 => builder.replace(&patch),
                1 => builder.route(1, &patch),
                2 => builder.split([(0, &patch), (2, &patch)].into_iter()),
                _ => builder.retry(10, "later"),
            }
            builder.sample(index as u32, 3, 7, &["a", "label"]);
        }
        let bytes = damaged(builder.finish(), &damage);
        read_answer(&bytes, all.len());
        read_answer(&headed(bytes, OUTCOMES_MAGIC), all.len());
    }

    #[test]
    fn a_damaged_batch_or_answer_of_layout_1_never_panics(records in records(), damage in damage()) {
        let source = batch(&records, 5);
        let excerpt = Excerpt::new(source.view(), Fields::ALL, Layout::Version1, [0; 16]);
        let mut bytes = vec![0; excerpt.len()];
        excerpt.write(&mut bytes);
        let bytes = damaged(bytes, &damage);
        let read = |bytes: Vec<u8>| {
            if let Ok(batch) = Batch::from_bytes(bytes) {
                read_batch(batch.as_bytes());
            }
        };
        read(bytes.clone());
        read(headed(bytes.clone(), *b"TGB\x01"));
        read_answer(&headed(bytes, *b"TGO\x01"), records.len());
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let good = batch(&[], 0).into_bytes();
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        BatchView::parse(&bytes).map(|view| view.len()).unwrap_err()
    };
    assert_eq!(changed(0, b"TGX\x01"), BatchError::Magic(*b"TGX\x01"));
    assert_eq!(changed(3, &[3]), BatchError::Magic(*b"TGB\x03"));
    assert_eq!(
        changed(4, &99u32.to_le_bytes()),
        BatchError::Length {
            stated: 99,
            found: BATCH_HEADER
        }
    );
    assert_eq!(
        changed(16, &u32::MAX.to_le_bytes()),
        BatchError::Table {
            offset: BATCH_HEADER,
            records: u32::MAX as usize
        }
    );
    assert_eq!(
        changed(24, &65u32.to_le_bytes()),
        BatchError::Table {
            offset: 65,
            records: 0
        }
    );
    // A header or an entry shorter than that of this version.
    for (at, short) in [(8, 56u32), (20, 64)] {
        let error = changed(at, &short.to_le_bytes());
        assert!(matches!(error, BatchError::Table { .. }), "{error}");
    }
    assert_eq!(
        changed(12, &0x0001_0000_u32.to_le_bytes()),
        BatchError::Unknown {
            what: "flag",
            bits: 0x0001_0000
        }
    );
    let error = changed(28, &10u32.to_le_bytes());
    assert!(matches!(error, BatchError::Section { .. }), "{error}");
    assert!(BatchView::parse(&good[..BATCH_HEADER - 1]).is_err());
    assert_eq!(
        OutcomesView::parse(b"TGO", 0, 0).unwrap_err(),
        OutcomesError::Header { found: *b"TGO\0" }
    );
}

#[test]
fn a_field_outside_the_heap_is_refused() {
    let mut builder = BatchBuilder::default();
    builder
        .push(&tidegate_record::NewRecord {
            value: Some(b"12345678"),
            ..Default::default()
        })
        .unwrap();
    let bytes = builder.finish(0).into_bytes();
    let table = bytes.len() - ENTRY;
    for (at, field) in [
        (40, "key"),
        (48, "value"),
        (56, "headers"),
        (64, "attributes"),
    ] {
        let mut bytes = bytes.clone();
        bytes[table + at..table + at + 4].copy_from_slice(&(table as u32 - 1).to_le_bytes());
        bytes[table + at + 4..table + at + 8].copy_from_slice(&2u32.to_le_bytes());
        let error = BatchView::parse(&bytes).map(|view| view.len()).unwrap_err();
        assert_eq!(error, BatchError::Field { record: 0, field });
    }
}

#[test]
fn an_answer_to_another_batch_is_refused() {
    let mut builder = OutcomesBuilder::default();
    builder.pass();
    builder.route(3, &Default::default());
    let bytes = builder.finish();
    let refused = |records, outputs| {
        OutcomesView::parse(&bytes, records, outputs)
            .map(|view| view.len())
            .unwrap_err()
    };
    assert_eq!(
        refused(3, 3),
        OutcomesError::Count {
            records: 3,
            outcomes: 2
        }
    );
    assert_eq!(
        refused(2, 2),
        OutcomesError::Output {
            record: 1,
            output: 3,
            outputs: 2
        }
    );
    assert!(OutcomesView::parse(&bytes, 2, 3).is_ok());
}

/// A record with these headers after an answer that sets these: the headers it has then.
fn patched(headers: &[String], changed: &[String]) -> usize {
    let headers: Vec<(&str, Option<&[u8]>)> =
        headers.iter().map(|name| (name.as_str(), None)).collect();
    let mut builder = BatchBuilder::default();
    let record = tidegate_record::NewRecord {
        headers: &headers,
        ..Default::default()
    };
    builder.push(&record).unwrap();
    let batch = builder.finish(0);
    let mut patch = PatchBuilder::default();
    for name in changed {
        patch.header(tidegate_record::Change::Set {
            name,
            value: Some(b"new"),
        });
    }
    let mut answer = OutcomesBuilder::default();
    answer.replace(&patch);
    let answer = answer.finish();
    let view = OutcomesView::parse(&answer, 1, 0).unwrap();
    let Some(Outcome::Replace(patch)) = view.iter().next() else {
        panic!("no patch");
    };
    let started = std::time::Instant::now();
    let mut patched = BatchBuilder::default();
    patched
        .push_patched(&batch.view().get(0).unwrap(), &patch, 0)
        .unwrap();
    // What takes the square of it, or reads the changes for each header, takes a minute.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    let patched = patched.finish(0);
    patched.view().get(0).unwrap().headers().count()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("n{index}")).collect()
}

#[test]
fn many_changes_to_many_headers_take_linear_time() {
    let names = names(60_000);
    assert_eq!(patched(&names, &names), names.len());
}

#[test]
fn a_few_changes_of_long_names_are_read_once_and_not_for_each_header() {
    let changed: Vec<String> = (0..16)
        .map(|index| format!("{index:02}{}", "\u{e9}".repeat(32_766)))
        .collect();
    assert_eq!(patched(&names(60_000), &changed), 60_016);
}

#[test]
fn headers_that_cannot_be_written_are_refused_and_not_left_out() {
    let names = names(65_536);
    let mut headers: Vec<(&str, Option<&[u8]>)> =
        names.iter().map(|name| (name.as_str(), None)).collect();
    let mut builder = BatchBuilder::default();
    let push = |builder: &mut BatchBuilder, headers: &[(&str, Option<&[u8]>)]| {
        builder.push(&tidegate_record::NewRecord {
            headers,
            ..Default::default()
        })
    };
    assert_eq!(
        push(&mut builder, &headers).unwrap_err().to_string(),
        "record with 65536 headers exceeds the limit of 65535"
    );
    let long = "n".repeat(65_536);
    assert_eq!(
        push(&mut builder, &[(&long, None)])
            .unwrap_err()
            .to_string(),
        "name of 65536 bytes among the headers of a record exceeds the limit of 65535 bytes"
    );
    headers.pop();
    push(&mut builder, &headers).unwrap();
    let batch = builder.finish(0);

    let mut patch = PatchBuilder::default();
    let add = |patch: &mut PatchBuilder, name: &str| {
        patch.header(tidegate_record::Change::Add { name, value: None });
    };
    add(&mut patch, "one more");
    let mut bytes = Vec::new();
    patch.write(&mut bytes);
    let mut full = BatchBuilder::default();
    let before = full.bytes();
    let refused = full.push_patched(
        &batch.view().get(0).unwrap(),
        &Patch::parse(&bytes).unwrap(),
        0,
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "record with 65536 headers exceeds the limit of 65535"
    );
    assert_eq!(full.bytes(), before, "nothing of it is written");

    assert!(patch.refused().is_none());
    let mut cut = patch.clone();
    add(&mut cut, &long);
    assert!(cut.refused().unwrap().to_string().contains("65536 bytes"));
    for _ in 0..65_535 {
        add(&mut patch, "h");
    }
    assert!(
        patch
            .refused()
            .unwrap()
            .to_string()
            .contains("65536 headers")
    );
}

#[test]
fn a_split_into_more_pieces_than_a_record_may_have_is_refused() {
    let answer = |pieces: u32| {
        let mut builder = OutcomesBuilder::default();
        let patch = PatchBuilder::default();
        builder.split((0..pieces as usize).map(|_| (0, &patch)));
        builder.finish()
    };
    assert!(OutcomesView::parse(&answer(MAX_PIECES), 1, 0).is_ok());
    // Whole and well-formed but for the number: 16 MiB of such an answer would take gigabytes to read.
    for pieces in [MAX_PIECES + 1, 1 << 20] {
        assert_eq!(
            OutcomesView::parse(&answer(pieces), 1, 0)
                .unwrap_err()
                .to_string(),
            "outcome of record 0 is malformed at byte 41: a split into more than 4095 pieces",
            "{pieces} pieces"
        );
    }
}
