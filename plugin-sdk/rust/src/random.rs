//! Random numbers that a record always draws alike.

use tidegate_record::RecordId;

/// Random numbers of one record, drawn from the seed of its slot and its id: a record that comes again, after a retry, in
/// smaller batches, or when the host is started again, draws the same. Two records, and two slots, draw differently.
///
/// Not for secrets: who knows the slot's name and the record's id knows what is drawn.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    pub(crate) fn new(seed: [u8; 16], id: RecordId) -> Random {
        let [low, high] = [0, 8].map(|at| {
            let mut half = [0; 8];
            half.copy_from_slice(&seed[at..at + 8]);
            u64::from_le_bytes(half)
        });
        let place = u64::from(id.partition) << 32 | u64::from(id.source) << 8 | id.origin as u64;
        let mut hash = 0;
        for part in [low, high, place, id.offset, id.emit] {
            hash = mix(hash ^ part);
        }
        let mut counter = hash;
        let state = [(); 4].map(|()| {
            counter = counter.wrapping_add(GOLDEN);
            mix(counter)
        });
        Random { state }
    }

    /// 64 random bits: xoshiro256++ (Blackman, Vigna: Scrambled linear pseudorandom number generators, 2021).
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let drawn = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        drawn
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below this; 0 below 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // Lemire: Fast random integer generation in an interval, 2019. What would favour some numbers is drawn again.
        let mut wide = u128::from(self.bits()) * u128::from(end);
        if (wide as u64) < end {
            let favoured = end.wrapping_neg() % end;
            while (wide as u64) < favoured {
                wide = u128::from(self.bits()) * u128::from(end);
            }
        }
        (wide >> 64) as u64
    }

    /// Whether something happens that has this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(GOLDEN);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_xoshiro256_plus_plus() {
        let mut random = Random {
            state: [1, 2, 3, 4],
        };
        // The first outputs of the reference implementation for this state.
        let drawn = [(); 3].map(|()| random.bits());
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn numbers_below_an_end_come_alike_often() {
        let mut random = Random::new([7; 16], RecordId::default());
        let mut found = [0u32; 6];
        for _ in 0..60_000 {
            found[random.below(6) as usize] += 1;
        }
        assert!(
            found.iter().all(|&count| (9_600..10_400).contains(&count)),
            "{found:?}"
        );
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        let share = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2_200..2_800).contains(&share), "{share}");
    }

    #[test]
    fn other_records_and_slots_draw_differently() {
        let id = |offset, emit| RecordId {
            offset,
            emit,
            ..RecordId::default()
        };
        let first = |seed, id| Random::new([seed; 16], id).bits();
        let drawn = [
            first(1, id(0, 0)),
            first(1, id(1, 0)),
            first(1, id(0, 1)),
            first(2, id(0, 0)),
        ];
        for (index, one) in drawn.iter().enumerate() {
            assert!(!drawn[index + 1..].contains(one), "{drawn:?}");
        }
    }
}
