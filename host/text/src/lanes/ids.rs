//! Ids of calls: the same for the same seed.

/// What the id of a call comes from.
pub(super) fn of_call(seed: u64, index: u32) -> u64 {
    seed ^ u64::from(index)
        .wrapping_add(1)
        .wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// So many letters and digits that come from a number (SplitMix64, Steele, Lea and Flood 2014).
pub(crate) fn characters(seed: u64, count: usize) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..count)
        .map(|_| char::from(ALPHABET[(next() % ALPHABET.len() as u64) as usize]))
        .collect()
}
