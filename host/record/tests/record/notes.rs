//! What the host notes with a record: it goes with all that is made of it, and nobody else is given it.

use tidegate_record::{
    Batch, BatchBuilder, BatchError, BatchView, Change, Excerpt, Fields, Layout, NewRecord, Patch,
    PatchBuilder, RecordId,
};

const SECRET: &[u8] = b"a note of the host";

fn batch(records: u64) -> Batch {
    let mut builder = BatchBuilder::default();
    for offset in 0..records {
        let record = NewRecord {
            id: RecordId {
                offset,
                ..RecordId::default()
            },
            value: Some(b"value"),
            headers: &[("header", Some(b"of it"))],
            attributes: &[("attribute", None)],
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    builder.finish(7)
}

fn notes(batch: &Batch) -> Vec<Option<&[u8]>> {
    batch.view().records().map(|record| record.note()).collect()
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|found| found == what)
}

#[test]
fn a_note_goes_with_its_record_and_with_all_that_is_made_of_it() {
    let noted = batch(3).noted([(0, &b""[..]), (2, SECRET), (9, SECRET)]);
    assert_eq!(notes(&noted), [Some(&b""[..]), None, Some(SECRET)]);
    // As it lies on the disk.
    let read = Batch::from_bytes(noted.as_bytes().to_vec()).unwrap();
    assert_eq!(notes(&read), notes(&noted));
    // Copies, pieces and what is changed.
    let mut patch = PatchBuilder::default();
    patch.set_value(None);
    for change in [
        Change::Remove { name: "header" },
        Change::Remove { name: "attribute" },
    ] {
        patch.header(change);
        patch.attribute(change);
    }
    let mut bytes = Vec::new();
    patch.write(&mut bytes);
    let patch = Patch::parse(&bytes).unwrap();
    let mut builder = BatchBuilder::default();
    for record in read.view().records() {
        builder.push_record(&record).unwrap();
        builder.push_patched(&record, &patch, 5).unwrap();
    }
    let made = builder.finish(0);
    let expected = [Some(&b""[..]), None, Some(SECRET)];
    let twice: Vec<_> = expected.into_iter().flat_map(|note| [note, note]).collect();
    assert_eq!(notes(&made), twice);
    assert_eq!(notes(&Batch::from_bytes(made.into_bytes()).unwrap()), twice);
    // Another one in its place.
    let again = read.noted([(2, &b"another"[..])]);
    assert_eq!(notes(&again), [Some(&b""[..]), None, Some(&b"another"[..])]);
    // One that is too long is none.
    assert_eq!(notes(&batch(1).noted([(0, vec![0; 70_000])])), [None]);
}

#[test]
fn no_operator_is_given_a_note_or_a_sign_of_one() {
    let (plain, noted) = (batch(3), batch(3).noted([(0, SECRET), (2, SECRET)]));
    for layout in [Layout::Version1, Layout::Version2] {
        for fields in (0..16).map(Fields::from_bits) {
            let given = |batch: &Batch| {
                let excerpt = Excerpt::new(batch.view(), fields, layout, [9; 16]);
                let mut bytes = vec![0xff; excerpt.len()];
                excerpt.write(&mut bytes);
                bytes
            };
            assert_eq!(given(&noted), given(&plain), "{layout:?} {fields:?}");
            assert!(!contains(&given(&noted), SECRET));
        }
    }
    assert!(!format!("{noted:?}").contains("note"));
}

#[test]
fn a_place_that_has_no_note_is_no_batch() {
    let noted = batch(1).noted([(0, SECRET)]);
    let bytes = noted.as_bytes();
    let table = bytes.len() - SECRET.len() - 2 - 72;
    for place in [2u32, 20, 21, 1 << 31, u32::MAX] {
        let mut bytes = bytes.to_vec();
        bytes[table + 36..table + 40].copy_from_slice(&place.to_le_bytes());
        let refused = BatchView::parse(&bytes).err();
        let field = Some(BatchError::Field {
            record: 0,
            field: "note",
        });
        assert_eq!(refused, field, "{place}");
        let view = BatchView::parse_frame(&bytes).unwrap();
        assert_eq!(view.get(0).unwrap().note(), None);
    }
}
