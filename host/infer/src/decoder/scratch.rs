//! Room for what attention writes on its way: laid out in each step by what its rows see.

use tidegate_contract::{BLOCK, StepSequence};

use super::passes::{Piece, passes};
use crate::kernels::{Base, Heads, scratch};
use crate::program::Extent;

/// Bytes that it takes at most, unless a single row needs more: a step whose rows need more runs in several passes.
const MOST: usize = 64 << 20;

/// The scratch of attention that a decoder has.
#[derive(Clone, Debug)]
pub(crate) struct AttentionScratch {
    base: Base,
    /// Layers that see the same need the same: one of each.
    layers: Vec<Heads>,
    /// f32 elements that there are.
    pub(super) elements: usize,
}

impl AttentionScratch {
    /// For passes of up to `max_rows` rows, in sequences of up to `context` positions.
    pub(super) fn new(
        base: Base,
        of_layers: impl Iterator<Item = Heads>,
        context: usize,
        max_rows: usize,
    ) -> AttentionScratch {
        let mut layers: Vec<Heads> = Vec::new();
        for heads in of_layers {
            if layers.iter().all(|known| known.window != heads.window) {
                layers.push(heads);
            }
        }
        let mut of = AttentionScratch {
            base,
            layers,
            elements: 0,
        };
        let row = of.row(context);
        of.elements = (max_rows * row).min(MOST / 4).max(row);
        of
    }

    /// Elements for a row of a step whose rows see up to so many positions, in the layer that takes most.
    fn row(&self, positions: usize) -> usize {
        let row = |heads| scratch(self.base, heads, positions).0;
        self.layers.iter().map(row).max().unwrap_or(0)
    }

    /// Whether there is room for a pass.
    pub(super) fn fits(&self, extent: Extent) -> bool {
        extent.rows as usize * self.row(extent.positions as usize) <= self.elements
    }

    /// Rows of a pass at most, if they see up to so many positions.
    pub(super) fn rows(&self, positions: usize) -> usize {
        (self.elements / self.row(positions).max(1)).max(1)
    }

    /// The passes of a step, of at most so many rows and samples, for which there is room.
    pub(crate) fn passes(
        &self,
        step: &[StepSequence],
        [rows, samples]: [usize; 2],
    ) -> Vec<Vec<Piece>> {
        let end = |sequence: &StepSequence| sequence.position as usize + sequence.tokens.len();
        let positions = step.iter().map(end).max().unwrap_or(0);
        passes(step, rows.min(self.rows(positions)), samples)
    }

    /// Positions that so many rows of a pass may see, in whole KV blocks; `context` where that is no limit.
    pub(super) fn positions(&self, rows: usize, context: usize) -> usize {
        if self.rows(context) >= rows {
            return context;
        }
        let blocks: Vec<usize> = (1..=context / BLOCK).collect();
        BLOCK * blocks.partition_point(|blocks| self.rows(blocks * BLOCK) >= rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::KvPrecision;

    /// 32 heads of 128 elements.
    fn of(base: Base, context: usize, windows: &[u32], max_rows: usize) -> AttentionScratch {
        let layer = |window: &u32| Heads {
            heads: 32,
            kv_heads: 8,
            dim: 128,
            kv: KvPrecision::F16,
            half: 64,
            window: *window,
            norm_epsilon: None,
            bias: false,
            scale: 1.0,
            softcap: None,
        };
        AttentionScratch::new(base, windows.iter().map(layer), context, max_rows)
    }

    fn extent(rows: usize, positions: usize) -> Extent {
        Extent {
            rows: rows as u32,
            samples: 0,
            positions: positions as u32,
            ..Extent::default()
        }
    }

    #[test]
    fn rows_take_what_they_see_and_not_what_they_may_come_to_see() {
        for base in Base::ALL {
            let long = of(base, 1 << 17, &[u32::MAX, 512], 256);
            assert_eq!(long.elements, MOST / 4, "{base:?}");
            assert!(long.fits(extent(256, 512)), "{base:?}");
            assert!(!long.fits(extent(256, 1 << 17)), "{base:?}");
            let most = long.positions(256, 1 << 17);
            assert!(long.fits(extent(256, most)) && !long.fits(extent(256, most + 256)));
            assert!((512..1 << 17).contains(&most) && most.is_multiple_of(BLOCK));
            let rows = long.rows(1 << 17);
            assert!(long.fits(extent(rows, 1 << 17)) && !long.fits(extent(rows + 1, 1 << 17)));

            let short = of(base, 512, &[u32::MAX], 256);
            assert!(short.elements < MOST / 4 && short.fits(extent(256, 512)));
            assert_eq!(short.positions(256, 512), 512);
        }
    }

    #[test]
    fn a_window_is_all_that_its_layers_need_room_for() {
        for base in Base::ALL {
            let windowed = of(base, 1 << 17, &[512], 256);
            assert!(windowed.fits(extent(256, 1 << 17)), "{base:?}");
            assert_eq!(windowed.positions(256, 1 << 17), 1 << 17);
        }
    }

    #[test]
    fn one_row_always_has_room() {
        let huge = of(Base::Software, 1 << 20, &[u32::MAX], 4);
        assert!(huge.elements > MOST / 4 && huge.fits(extent(1, 1 << 20)));
        assert_eq!(huge.rows(1 << 20), 1);
    }
}
