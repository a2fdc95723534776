//! Where keys and values lie in the buffer of a layer: as attention reads them.

use tidegate_contract::BLOCK;

use super::kv::KvPrecision;
use super::source::shader;
use super::variant::Base;

/// The file that says it for a base.
pub(super) fn layout_file(base: Base) -> &'static str {
    match base {
        Base::Software => shader!("attention/kv_by_head.wgsl"),
        Base::Portable | Base::Subgroup => shader!("attention/kv_in_blocks.wgsl"),
    }
}

/// What of a layer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    Keys,
    Values,
}

/// How it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[blocks, BLOCK, kv_heads, width]`, the scales of a block after it: values on GPUs.
    Positions,
    /// `[blocks, kv_heads, width, BLOCK]`, the scales of a block after it: keys on GPUs.
    Columns,
    /// `[kv_heads, blocks, BLOCK, width]`, the scales of a head after what it has of a block: both on software adapters.
    Heads,
}

/// Heads of keys and values, and their width in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvShape {
    pub(crate) kv: KvPrecision,
    pub(crate) kv_heads: usize,
    pub(crate) dim: usize,
}

impl KvShape {
    /// Words of a head at one position, without its scale.
    fn width(self) -> usize {
        self.kv.head_bytes(self.dim) / 4 - self.kv.scales()
    }

    /// Words of a block of all heads.
    fn block(self) -> usize {
        BLOCK * self.kv_heads * self.kv.head_bytes(self.dim) / 4
    }
}

impl Layout {
    pub(crate) fn of(base: Base, cache: Cache) -> Layout {
        match (base, cache) {
            (Base::Software, _) => Layout::Heads,
            (Base::Portable | Base::Subgroup, Cache::Keys) => Layout::Columns,
            (Base::Portable | Base::Subgroup, Cache::Values) => Layout::Positions,
        }
    }

    /// Where word `word` of a head at a place lies, of `blocks` blocks; past the head's last word comes its scale.
    fn word_at(self, shape: KvShape, blocks: usize, [place, head, word]: [usize; 3]) -> usize {
        let (width, scales) = (shape.width(), shape.kv.scales());
        let (block, position) = (place / BLOCK, place % BLOCK);
        let all = shape.kv_heads * width;
        let of_block = block * shape.block();
        let of_head = (head * blocks + block) * BLOCK * (width + scales);
        let at = head * width + word;
        let together = shape.kv.words_at_once();
        match (self, word == width) {
            (Layout::Heads, false) => of_head + position * width + word,
            (Layout::Heads, true) => of_head + BLOCK * width + position,
            (Layout::Positions, false) => of_block + position * all + at,
            (Layout::Columns, false) => {
                of_block + (at / together * BLOCK + position) * together + at % together
            }
            (Layout::Positions | Layout::Columns, true) => {
                of_block + BLOCK * all + head * BLOCK + position
            }
        }
    }

    /// Where each word of [`Layout::Positions`] lies.
    fn places(self, shape: KvShape, words: usize) -> impl Iterator<Item = [usize; 2]> {
        let blocks = words / shape.block();
        let each = shape.width() + shape.kv.scales();
        let places = (0..blocks * BLOCK).flat_map(move |place| {
            (0..shape.kv_heads).flat_map(move |head| (0..each).map(move |word| [place, head, word]))
        });
        places.map(move |word| {
            [Layout::Positions, self].map(|layout| layout.word_at(shape, blocks, word))
        })
    }

    /// Words of [`KvPrecision::kept`] so laid out.
    pub(crate) fn laid_out(self, words: &[u32], shape: KvShape) -> Vec<u32> {
        let mut laid_out = words.to_vec();
        for [from, to] in self.places(shape, words.len()) {
            laid_out[to] = words[from];
        }
        laid_out
    }

    /// The other way round.
    pub(crate) fn read_back(self, words: &[u32], shape: KvShape) -> Vec<u32> {
        let mut read = words.to_vec();
        for [to, from] in self.places(shape, words.len()) {
            read[to] = words[from];
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Layout; 3] = [Layout::Positions, Layout::Columns, Layout::Heads];

    #[test]
    fn what_is_laid_out_is_read_back() {
        for (kv, kv_heads) in KvPrecision::ALL
            .into_iter()
            .flat_map(|kv| [(kv, 1), (kv, 3)])
        {
            let shape = KvShape {
                kv,
                kv_heads,
                dim: 10,
            };
            let words: Vec<u32> = (0..2 * shape.block() as u32).collect();
            for layout in ALL {
                let laid_out = layout.laid_out(&words, shape);
                let mut sorted = laid_out.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, words, "{kv:?}, {layout:?}");
                assert_eq!(layout.read_back(&laid_out, shape), words, "{layout:?}");
            }
        }
    }

    /// By hand: two heads of six words each at a position, in units of two; the third unit of the first head at position 3.
    #[test]
    fn columns_have_positions_beside_each_other_and_heads_their_own_place() {
        let shape = KvShape {
            kv: KvPrecision::F16,
            kv_heads: 2,
            dim: 10,
        };
        let words: Vec<u32> = (0..2 * BLOCK as u32 * 12).collect();
        assert_eq!(Layout::Positions.laid_out(&words, shape), words);
        let columns = Layout::Columns.laid_out(&words, shape);
        assert_eq!(
            columns[2 * (2 * BLOCK + 3)..][..2],
            [12 * 3 + 4, 12 * 3 + 5]
        );
        // Behind the first head of both blocks, the second head of the second position of the second block.
        let heads = Layout::Heads.laid_out(&words, shape);
        let second = 12 * (BLOCK as u32 + 1) + 6;
        let at = (2 * BLOCK + BLOCK + 1) * 6;
        assert_eq!(
            heads[at..at + 6],
            [0, 1, 2, 3, 4, 5].map(|word| second + word)
        );
    }

    /// By hand: a block of two heads in int8, four words each; scales by head after all heads, and after each head's own.
    #[test]
    fn scales_come_after_the_block_or_after_the_head() {
        let shape = KvShape {
            kv: KvPrecision::Int8,
            kv_heads: 2,
            dim: 16,
        };
        let words: Vec<u32> = (0..2 * shape.block() as u32).collect();
        let heads = Layout::Heads.laid_out(&words, shape);
        // The first head has the second block behind the first one and its scales.
        let head = BLOCK * 5;
        let scales = BLOCK as u32 * 8;
        assert_eq!(heads[BLOCK * 4..][..2], [scales, scales + 1]);
        assert_eq!(heads[head], shape.block() as u32);
        assert_eq!(heads[2 * head + BLOCK * 4], scales + BLOCK as u32);
    }
}
