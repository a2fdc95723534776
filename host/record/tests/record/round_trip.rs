//! What is written into an arena is read from it again.

use crate::common::{Changes, Model, batch, changes, record, records, seeded};
use proptest::prelude::*;
use tidegate_record::{
    Batch, BatchBuilder, BatchView, Fields, Outcome, OutcomesBuilder, OutcomesView, Patch,
};

/// An outcome that owns its parts.
#[derive(Clone, Debug)]
enum Answer {
    Pass,
    Drop,
    Replace(Changes),
    Split(Vec<(u16, Changes)>),
    Route(u16, Changes),
    Retry(u32, String),
    DeadLetter(String),
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Pass),
        Just(Answer::Drop),
        changes().prop_map(Answer::Replace),
        prop::collection::vec((0u16..4, changes()), 0..4).prop_map(Answer::Split),
        (1u16..4, changes()).prop_map(|(output, changes)| Answer::Route(output, changes)),
        (any::<u32>(), any::<String>()).prop_map(|(delay, reason)| Answer::Retry(delay, reason)),
        any::<String>().prop_map(Answer::DeadLetter),
    ]
}

fn write(answers: &[Answer]) -> Vec<u8> {
    let mut builder = OutcomesBuilder::with_capacity(answers.len());
    for answer in answers {
        match answer {
            Answer::Pass => builder.pass(),
            Answer::Drop => builder.drop_record(),
            Answer::Replace(changes) => builder.replace(&changes.patch()),
            Answer::Split(pieces) => {
                let patches: Vec<_> = pieces
                    .iter()
                    .map(|(output, changes)| (*output, changes.patch()))
                    .collect();
                builder.split(patches.iter().map(|(output, patch)| (*output, patch)));
            }
            Answer::Route(output, changes) => builder.route(*output, &changes.patch()),
            Answer::Retry(delay, reason) => builder.retry(*delay, reason),
            Answer::DeadLetter(reason) => builder.dead_letter(reason),
        }
    }
    builder.finish()
}

/// A record with a patch applied in a batch.
fn patched(original: &Model, patch: &Patch<'_>, emit: u64) -> Model {
    let one = batch(std::slice::from_ref(original), 0);
    let mut builder = BatchBuilder::default();
    builder
        .push_patched(&one.view().get(0).unwrap(), patch, emit)
        .unwrap();
    let built = builder.finish(0);
    // The bytes are checked as if they came from elsewhere.
    Model::of(
        Batch::from_bytes(built.into_bytes())
            .unwrap()
            .view()
            .get(0)
            .unwrap(),
    )
}

proptest! {
    #![proptest_config(seeded(256))]

    #[test]
    fn a_batch_is_read_as_it_was_written(records in records(), clock in any::<i64>()) {
        let written = batch(&records, clock);
        let view = BatchView::parse(written.as_bytes()).unwrap();
        prop_assert_eq!(view.clock(), clock);
        prop_assert_eq!(view.len(), records.len());
        let read: Vec<Model> = view.records().map(Model::of).collect();
        prop_assert_eq!(&read, &records);
        prop_assert!(view.records().all(|record| record.fields() == Fields::ALL));
        prop_assert!(view.get(records.len()).is_none());
    }

    #[test]
    fn a_copied_record_is_the_same(records in records()) {
        let written = batch(&records, 0);
        let mut copy = BatchBuilder::new(vec![0xaa; 100]);
        for record in written.view().records() {
            copy.push_record(&record).unwrap();
        }
        let copied = Batch::from_bytes(copy.finish(0).into_bytes()).unwrap();
        prop_assert_eq!(copied.view().records().map(Model::of).collect::<Vec<_>>(), records);
    }

    #[test]
    fn a_public_record_shows_all_but_attributes(record in record()) {
        let written = batch(std::slice::from_ref(&record), 0);
        let public = written.view().get(0).unwrap().public();
        prop_assert_eq!(public.id(), record.id);
        prop_assert_eq!(public.event_time(), record.event_time);
        prop_assert_eq!(public.key(), record.key.as_deref());
        prop_assert_eq!(public.value(), record.value.as_deref());
        prop_assert_eq!(public.headers().count(), record.headers.len());
    }

    #[test]
    fn a_patch_changes_what_a_model_of_it_changes(record in record(), changes in changes(), emit in any::<u64>()) {
        let answer = write(&[Answer::Replace(changes.clone())]);
        let view = OutcomesView::parse(&answer, 1, 0).unwrap();
        let Some(Outcome::Replace(patch)) = view.iter().next() else { panic!("no patch") };
        prop_assert_eq!(patched(&record, &patch, emit), record.changed(&changes, emit));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(
        pairs in prop::collection::vec((record(), answer()), 0..6),
    ) {
        let (records, answers): (Vec<Model>, Vec<Answer>) = pairs.into_iter().unzip();
        let bytes = write(&answers);
        let view = OutcomesView::parse(&bytes, answers.len(), 3).unwrap();
        prop_assert_eq!(view.len(), answers.len());
        prop_assert_eq!(view.all_pass(), answers.iter().all(|answer| matches!(answer, Answer::Pass)));
        let mut read = view.iter();
        for (record, answer) in records.iter().zip(&answers) {
            let same = |patch: &Patch<'_>, changes: &Changes| patched(record, patch, 7) == record.clone().changed(changes, 7);
            match (read.next().unwrap(), answer) {
                (Outcome::Pass, Answer::Pass) | (Outcome::Drop, Answer::Drop) => {}
                (Outcome::Replace(patch), Answer::Replace(changes)) => prop_assert!(same(&patch, changes)),
                (Outcome::Split(read), Answer::Split(pieces)) => {
                    prop_assert_eq!(read.len(), pieces.len());
                    for (read, (output, changes)) in read.iter().zip(pieces) {
                        prop_assert_eq!(read.output, *output);
                        prop_assert!(same(&read.patch, changes));
                    }
                }
                (Outcome::Route(read), Answer::Route(output, changes)) => {
                    prop_assert_eq!(read.output, *output);
                    prop_assert!(same(&read.patch, changes));
                }
                (Outcome::Retry { delay_ms, reason }, Answer::Retry(delay, expected)) => {
                    prop_assert_eq!((delay_ms, reason), (*delay, expected.as_str()));
                }
                (Outcome::DeadLetter { reason }, Answer::DeadLetter(expected)) => {
                    prop_assert_eq!(reason, expected.as_str());
                }
                (read, written) => prop_assert!(false, "{:?} was read for {:?}", read, written),
            }
        }
        prop_assert!(read.next().is_none());
    }
}
