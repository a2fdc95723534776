//! Two rows of one block or more of any bytes, in the format that the first byte names: whatever they hold, what is handed on is
//! as long as the row and finite, or the row is refused.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use tidegate_weights::{Format, RowParts, StoredFormat, Tensor};

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, stored) in StoredFormat::ALL.into_iter().enumerate() {
        let blocks = 2 * stored.block_bytes() * (256 / stored.block());
        for step in [29usize, 113] {
            let bytes = (0..blocks).map(|i| (i * step) as u8);
            seeds.push([index as u8].into_iter().chain(bytes).collect());
        }
        seeds.push([&[index as u8][..], &[0x01; 4], &vec![0x20; blocks - 4]].concat());
    }
    seeds
}

fuzz_target!(init: common::seed(&seeds()), |data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let stored = StoredFormat::ALL[usize::from(*first) % StoredFormat::ALL.len()];
    let width = bytes.len() / 2 / stored.block_bytes() * stored.block();
    if width == 0 {
        return;
    }
    let bytes = &bytes[..2 * stored.row_bytes(width)];
    let tensor = Tensor::stored_in_memory("t", stored, 2, width, bytes).expect("the length is right");
    let (mut floats, mut parts) = (Vec::new(), RowParts::default());
    for row in 0..2 {
        let whole = tensor.read_row(row, &mut floats);
        let apart = tensor.row_parts(row, &mut parts);
        assert_eq!(whole.is_err(), apart.is_err());
        if whole.is_err() {
            continue;
        }
        assert_eq!(floats.len(), width);
        assert!(floats.iter().all(|value| value.is_finite()));
        if tensor.format() == Format::Int8 {
            assert_eq!((parts.values.len(), parts.scales.len()), (width, width / 16));
        }
    }
    assert!(tensor.read_row(2, &mut floats).is_err());
});
