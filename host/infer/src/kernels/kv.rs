//! How keys and values are kept.

use tidegate_contract::BLOCK;

use super::source::shader;

/// Elements that a head is padded to in int8: four words, which attention on GPUs reads at once.
const INT8_PADDING: usize = 16;

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvPrecision {
    /// 32-bit floats.
    F32,
    /// 16-bit floats; what they cannot hold is kept as the largest they can.
    F16,
    /// 8-bit integers with a 32-bit scale for each head of each position, by which its greatest element is 127. A scale belongs to
    /// one position, so what is kept depends on nothing that comes before or after it.
    Int8,
}

impl KvPrecision {
    /// All there are.
    pub const ALL: [KvPrecision; 3] = [KvPrecision::F32, KvPrecision::F16, KvPrecision::Int8];

    /// What a pipeline file and a command line call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KvPrecision::F32 => "f32",
            KvPrecision::F16 => "f16",
            KvPrecision::Int8 => "int8",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<KvPrecision> {
        KvPrecision::ALL.into_iter().find(|kv| kv.name() == name)
    }

    /// Bytes of the key, or the value, that a head of `dim` elements has at one position, its padding and scale included.
    #[must_use]
    pub fn head_bytes(self, dim: usize) -> usize {
        match self {
            KvPrecision::F32 => dim.next_multiple_of(4) * 4,
            KvPrecision::F16 => dim.next_multiple_of(4) * 2,
            KvPrecision::Int8 => dim.next_multiple_of(INT8_PADDING) + 4,
        }
    }

    /// What loading says of keys and values that are too large.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            KvPrecision::F32 => "lower blocks, or keep them in f16 or int8",
            KvPrecision::F16 => "lower blocks, or keep them in int8",
            KvPrecision::Int8 => "lower blocks",
        }
    }

    /// Words of a key that GPUs read at once.
    pub(super) fn words_at_once(self) -> usize {
        match self {
            KvPrecision::F16 => 2,
            KvPrecision::F32 | KvPrecision::Int8 => 4,
        }
    }

    /// Scales that a head has at a position.
    pub(super) fn scales(self) -> usize {
        match self {
            KvPrecision::F32 | KvPrecision::F16 => 0,
            KvPrecision::Int8 => 1,
        }
    }

    pub(super) fn file(self) -> &'static str {
        match self {
            KvPrecision::F32 => shader!("attention/kv_f32.wgsl"),
            KvPrecision::F16 => shader!("attention/kv_f16.wgsl"),
            KvPrecision::Int8 => shader!("attention/kv_int8.wgsl"),
        }
    }

    /// Keys or values `[blocks, BLOCK, kv_heads, dim]` in the words that they are kept in, in that order, with the scales of a block
    /// after it, `[kv_heads, BLOCK]`: for tests, which lay them out by a [`Layout`](super::layout::Layout).
    pub(crate) fn kept(self, values: &[f32], kv_heads: usize, dim: usize) -> Vec<u32> {
        let heads = values.chunks_exact(dim);
        match self {
            KvPrecision::F32 => {
                let padded = heads.flat_map(|head| padded(head, 4));
                padded.map(f32::to_bits).collect()
            }
            KvPrecision::F16 => {
                let half = |x: f32| u32::from(half::f16::from_f32(x).to_bits());
                let padded: Vec<f32> = heads.flat_map(|head| padded(head, 4)).collect();
                let pairs = padded.as_chunks::<2>().0.iter();
                pairs.map(|[a, b]| half(*a) | half(*b) << 16).collect()
            }
            KvPrecision::Int8 => {
                let mut words = Vec::new();
                for block in values.chunks_exact(BLOCK * kv_heads * dim) {
                    let heads: Vec<(f32, Vec<i8>)> =
                        block.chunks_exact(dim).map(in_eight_bits).collect();
                    for (_, head) in &heads {
                        let bytes = padded(head, INT8_PADDING).map(|x| x as u8);
                        let bytes: Vec<u8> = bytes.collect();
                        let quads = bytes.as_chunks().0.iter();
                        words.extend(quads.map(|quad| u32::from_le_bytes(*quad)));
                    }
                    for head in 0..kv_heads {
                        let positions = heads.iter().skip(head).step_by(kv_heads);
                        words.extend(positions.map(|(scale, _)| scale.to_bits()));
                    }
                }
                words
            }
        }
    }

    /// The numbers that words in that order stand for, without padding.
    pub(crate) fn read(self, words: &[u32], kv_heads: usize, dim: usize) -> Vec<f32> {
        match self {
            KvPrecision::F32 => {
                let rows = words.chunks_exact(dim.next_multiple_of(4));
                rows.flat_map(|row| row[..dim].iter().map(|word| f32::from_bits(*word)))
                    .collect()
            }
            KvPrecision::F16 => {
                let rows = words.chunks_exact(dim.next_multiple_of(4) / 2);
                let halves = |word: &u32| [*word as u16, (word >> 16) as u16];
                let row = |row: &[u32]| {
                    let halves: Vec<u16> = row.iter().flat_map(halves).collect();
                    halves.into_iter().take(dim)
                };
                rows.flat_map(row)
                    .map(|bits| half::f16::from_bits(bits).to_f32())
                    .collect()
            }
            KvPrecision::Int8 => {
                let head = dim.next_multiple_of(INT8_PADDING) / 4;
                let mut read = Vec::new();
                for block in words.chunks_exact(BLOCK * kv_heads * (head + 1)) {
                    let (values, scales) = block.split_at(BLOCK * kv_heads * head);
                    for (index, words) in values.chunks_exact(head).enumerate() {
                        let (position, head) = (index / kv_heads, index % kv_heads);
                        let scale = f32::from_bits(scales[head * BLOCK + position]);
                        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                        let elements = bytes.take(dim).map(|byte| f32::from(byte as i8));
                        read.extend(elements.map(|x| x * scale));
                    }
                }
                read
            }
        }
    }
}

fn padded<T: Copy + Default>(head: &[T], to: usize) -> impl Iterator<Item = T> {
    let padding = head.len().next_multiple_of(to) - head.len();
    let padding = std::iter::repeat_n(T::default(), padding);
    head.iter().copied().chain(padding)
}

/// A head in int8, and its scale: none that is a number if one of its elements is not.
fn in_eight_bits(head: &[f32]) -> (f32, Vec<i8>) {
    if head.iter().any(|x| x.is_nan()) {
        return (f32::NAN, vec![0; head.len()]);
    }
    let greatest = head.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let inverse = if greatest > 0.0 {
        127.0 / greatest
    } else {
        0.0
    };
    let rounded = head.iter().map(|x| (x * inverse).round_ties_even() as i8);
    (greatest / 127.0, rounded.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_others_are_not() {
        for kv in KvPrecision::ALL {
            assert_eq!(KvPrecision::named(kv.name()), Some(kv));
        }
        assert_eq!(KvPrecision::named("int4"), None);
    }

    #[test]
    fn a_head_takes_the_words_that_are_counted_for_it() {
        for dim in [1, 4, 6, 16, 20, 64, 100, 256] {
            for kv_heads in [1, 3] {
                let values = vec![0.5; 2 * BLOCK * kv_heads * dim];
                for kv in KvPrecision::ALL {
                    let words = kv.kept(&values, kv_heads, dim).len();
                    let counted = 2 * BLOCK * kv_heads * kv.head_bytes(dim);
                    assert_eq!(words * 4, counted, "{kv:?}, {dim}");
                }
            }
        }
        assert_eq!(KvPrecision::F16.head_bytes(64), 128);
        assert_eq!(KvPrecision::Int8.head_bytes(64), 68);
    }

    /// By hand: the second head of the first position, its scale behind those of the sixteen positions of the first head.
    #[test]
    fn int8_rounds_to_the_nearest_step_of_the_heads_own_scale() {
        let (kv, kv_heads, dim) = (KvPrecision::Int8, 2, 5);
        let mut values = vec![0.0; BLOCK * kv_heads * dim];
        values[dim..2 * dim].copy_from_slice(&[-254.0, 1.0, 3.0, 254.0, 0.9]);
        let words = kv.kept(&values, kv_heads, dim);
        assert_eq!(words.len(), BLOCK * kv_heads * 5);
        // -127, half a step and one and a half to the even ones, 127.
        assert_eq!(words[4].to_le_bytes(), [0x81, 0, 2, 127]);
        assert_eq!(words[5..8], [0, 0, 0]);
        assert_eq!(f32::from_bits(words[BLOCK * kv_heads * 4 + BLOCK]), 2.0);
        let read = kv.read(&words, kv_heads, dim);
        assert_eq!(read[dim..2 * dim], [-254.0, 0.0, 4.0, 254.0, 0.0]);
        assert!(
            read[..dim]
                .iter()
                .chain(&read[2 * dim..])
                .all(|x| *x == 0.0)
        );
    }
}
