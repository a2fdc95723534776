//! What an operator should not do.

use std::hint::black_box;

pub(crate) fn spin() -> ! {
    let mut turns = 0u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Takes memory until there is no more.
pub(crate) fn grow() -> ! {
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        held.push(black_box(vec![1; 1 << 20]));
    }
}

/// Never ends, and needs more of the stack with each turn.
pub(crate) fn deep(depth: u64) -> u64 {
    let mut room = [depth; 64];
    match black_box(&mut room)[0] {
        0 => 0,
        depth => deep(depth + 1) + black_box(room)[1],
    }
}
