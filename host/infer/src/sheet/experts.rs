//! Which experts the rows of a step are taken to go through: which they will is not known before they do. In turn, so that as many
//! experts as there can be are read.

/// How pairs of rows and experts are brought together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    chosen: u64,
    experts: u64,
    each: u64,
}

impl Groups {
    /// Tiles of `each` pairs, of rows that go through `chosen` of `experts`.
    pub(super) fn new(chosen: u32, experts: u32, each: u32) -> Groups {
        Groups {
            chosen: u64::from(chosen),
            experts: u64::from(experts).max(1),
            each: u64::from(each).max(1),
        }
    }

    /// The expert of tile `tile` of so many rows, and its pairs; none if there is no such tile.
    pub(super) fn tile(
        self,
        rows: u64,
        tile: u64,
    ) -> Option<(u64, impl Iterator<Item = u64> + use<>)> {
        let Groups {
            chosen,
            experts,
            each,
        } = self;
        let pairs = rows * chosen;
        // The first experts have one pair more than the others.
        let (fewer, with_more) = (pairs / experts, pairs % experts);
        let [tiles_of_more, tiles] = [fewer + 1, fewer].map(|pairs| pairs.div_ceil(each));
        let before = with_more * tiles_of_more;
        let (expert, within, own) = if tile < before {
            (tile / tiles_of_more, tile % tiles_of_more, fewer + 1)
        } else {
            let tile = tile - before;
            (with_more + tile.checked_div(tiles)?, tile % tiles, fewer)
        };
        let places = within * each..own.min((within + 1) * each);
        (expert < experts).then(|| (expert, places.map(move |place| expert + place * experts)))
    }
}

/// How many of `count` experts from `first` on so many pairs go through, of `experts` that there are.
pub(super) fn overlap(pairs: u64, experts: u32, (first, count): (u32, u32)) -> u64 {
    let begun = pairs.min(u64::from(experts));
    let end = u64::from(first) + u64::from(count);
    begun.min(end).saturating_sub(u64::from(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_in_one_tile_of_its_expert() {
        for (rows, chosen, experts, each) in
            [(1, 8, 128, 1), (3, 2, 5, 4), (40, 3, 7, 8), (9, 1, 1, 4)]
        {
            let groups = Groups::new(chosen, experts, each);
            let pairs = rows * u64::from(chosen);
            let begun = pairs.min(u64::from(experts));
            let most = begun + (pairs - begun) / u64::from(each);
            let mut seen = Vec::new();
            for tile in 0..most {
                if let Some((expert, own)) = groups.tile(rows, tile) {
                    let own: Vec<u64> = own.collect();
                    assert!(own.len() <= each as usize && !own.is_empty());
                    assert!(own.iter().all(|pair| pair % u64::from(experts) == expert));
                    seen.extend(own);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..pairs).collect::<Vec<_>>(), "{rows} {experts}");
        }
    }

    #[test]
    fn a_shard_has_its_own_experts_only() {
        assert_eq!(overlap(8, 128, (0, 128)), 8);
        assert_eq!(overlap(8, 128, (4, 64)), 4);
        assert_eq!(overlap(8, 128, (64, 64)), 0);
        assert_eq!(overlap(800, 128, (64, 64)), 64);
    }
}
