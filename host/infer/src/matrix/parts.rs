//! The order of a sum over the width, which every tiling keeps.

/// Parts at most.
const MOST_PARTS: u32 = 64;

/// To how many parts so many groups of the width are dealt out in turn, a power of two. Products are summed in order within a part,
/// and the parts in order: so the bits of a product depend on the width alone, whoever sums which part. That many lanes can work on
/// one column of a matrix, however few columns it has.
pub(crate) fn parts(groups: u32) -> u32 {
    1 << groups.clamp(1, MOST_PARTS).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_empty() {
        assert!((1..2_000).all(|groups| parts(groups) <= groups.min(MOST_PARTS)));
        assert_eq!([1, 3, 24, 64, 448].map(parts), [1, 2, 16, 64, 64]);
    }
}
