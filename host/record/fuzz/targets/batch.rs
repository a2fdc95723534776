//! Batches of any bytes: what is read can be written again, in whole and in excerpts of either layout.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use tidegate_record::{Batch, BatchBuilder, Excerpt, Fields, Layout};

const GOLDEN: [&str; 5] = [
    include_str!("../../../../wit/golden/batch-all.hex"),
    include_str!("../../../../wit/golden/batch-key.hex"),
    include_str!("../../../../wit/golden/batch-none.hex"),
    include_str!("../../../../wit/golden/batch-grown.hex"),
    include_str!("../../../../wit/golden/batch-layout-1.hex"),
];

fuzz_target!(init: common::seed(&[], &GOLDEN), |data: &[u8]| {
    let batch = match Batch::from_bytes(data.to_vec()) {
        Ok(batch) => batch,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let view = batch.view();
    let mut copy = BatchBuilder::default();
    for record in view.records() {
        assert!(!format!("{record:?}").is_empty());
        // Blocks may lie over one another: written apart they can take more than an arena has.
        if copy.bytes() > 1 << 24 || copy.push_record(&record).is_err() {
            return;
        }
    }
    let copy = copy.finish(view.clock());
    assert_eq!(copy.len(), batch.len());
    for layout in [Layout::Version1, Layout::Version2] {
        for bits in 0..16 {
            let fields = Fields::from_bits(bits);
            let excerpt = Excerpt::new(copy.view(), fields, layout, [7; 16]);
            let mut bytes = vec![0xaa; excerpt.len()];
            excerpt.write(&mut bytes);
            let read = Batch::from_bytes(bytes).expect("what is written can be read");
            for (one, other) in read.view().records().zip(copy.view().records()) {
                if fields.contains(Fields::VALUE) {
                    assert_eq!(one.value(), other.value());
                }
                assert_eq!(one.id().offset, other.id().offset);
            }
        }
    }
});
