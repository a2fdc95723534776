//! Answers of any bytes to a batch of as many records as the first byte says: what is read has an outcome for each, and
//! its patches make records that can be read.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use tidegate_record::{BatchBuilder, BatchView, NewRecord, Outcome, OutcomesView, Patch};

const GOLDEN: [&str; 3] = [
    include_str!("../../../../wit/golden/answer-every.hex"),
    include_str!("../../../../wit/golden/answer-layout-1.hex"),
    include_str!("../../../../wit/golden/answer-samples.hex"),
];
const OUTPUTS: u16 = 2;

fn apply(patch: &Patch<'_>) {
    let mut builder = BatchBuilder::default();
    let record = NewRecord {
        value: Some(b"value"),
        headers: &[("h", Some(b"1")), ("h", None)],
        ..NewRecord::default()
    };
    builder.push(&record).expect("a small record");
    let batch = builder.finish(0);
    let mut changed = BatchBuilder::default();
    for record in batch.view().records() {
        if changed.push_patched(&record, patch, 1).is_err() {
            return;
        }
    }
    let changed = changed.finish(0);
    assert!(BatchView::parse(changed.as_bytes()).is_ok());
}

fuzz_target!(init: common::seed(&[12], &GOLDEN), |data: &[u8]| {
    let Some((records, answer)) = data.split_first() else {
        return;
    };
    let records = usize::from(*records);
    let view = match OutcomesView::parse(answer, records, OUTPUTS) {
        Ok(view) => view,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(view.iter().count(), records);
    for outcome in view.iter() {
        match outcome {
            Outcome::Replace(patch) => apply(&patch),
            Outcome::Route(emission) => apply(&emission.patch),
            Outcome::Split(pieces) => {
                assert!(pieces.iter().all(|piece| piece.output <= OUTPUTS));
                pieces.iter().take(16).for_each(|piece| apply(&piece.patch));
            }
            _ => {}
        }
    }
    for sample in view.samples() {
        assert!((sample.record as usize) < records);
        assert!(sample.labels().all(|label| label.len() <= answer.len()));
    }
});
