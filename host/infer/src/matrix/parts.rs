//! The order of a sum over the width, which every tiling keeps.

use super::format::StorageFormat;

/// Parts at most.
pub(crate) const MOST_PARTS: u32 = 64;

/// To how many parts the units of so many groups of the width are dealt out in turn, a power of two. Products are summed in order
/// within a part, then eights of parts in order, and these in order: so the bits of a product depend on the width and the format alone,
/// whoever sums which part.
/// That many lanes can work on one column of a matrix, however few columns it has.
pub(crate) fn parts(stored: StorageFormat, groups: u32) -> u32 {
    1 << (groups * stored.description().columns.units)
        .clamp(1, MOST_PARTS)
        .ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_empty() {
        for stored in StorageFormat::ALL {
            let units = |groups| groups * stored.description().columns.units;
            let fits = |groups| parts(stored, groups) <= units(groups).min(MOST_PARTS);
            assert!((1..2_000).all(fits), "{stored:?}");
        }
        let of = |stored| [1, 3, 24, 64, 448].map(|groups| parts(stored, groups));
        assert_eq!(of(StorageFormat::Int8), [1, 2, 16, 64, 64]);
        assert_eq!(of(StorageFormat::F16), [4, 8, 64, 64, 64]);
    }
}
