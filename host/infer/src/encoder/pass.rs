//! Texts as the device takes them: cut into passes, each a list of words.

use std::ops::Range;

use tidegate_contract::EncoderText;

use crate::program::{Extent, RowContext};

/// Score vectors of four keys that a head needs for a text of so many rows: its tiles have four rows each.
pub(super) fn quads_of(rows: usize) -> usize {
    let fours = rows.div_ceil(4);
    fours * 4 * fours
}

/// Cuts texts into passes of at most `rows` rows and `quads` score vectors for a head, in order; a text is never cut.
pub(super) fn passes(texts: &[EncoderText<'_>], rows: usize, quads: usize) -> Vec<Range<usize>> {
    let mut passes = Vec::new();
    let (mut start, mut used, mut scores) = (0, 0, 0);
    for (index, text) in texts.iter().enumerate() {
        let (more, vectors) = (text.tokens.len(), quads_of(text.tokens.len()));
        if index > start && (used + more > rows || scores + vectors > quads) {
            passes.push(start..index);
            (start, used, scores) = (index, 0, 0);
        }
        used += more;
        scores += vectors;
    }
    if start < texts.len() {
        passes.push(start..texts.len());
    }
    passes
}

/// What the words of a pass depend on beside its texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassSizes {
    /// Heads of attention.
    pub(crate) heads: usize,
    /// Rows of the table of places for each token type: one for each position, or one where positions are not in it.
    pub(crate) places: usize,
}

/// The words of a pass, kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct PassWords {
    /// `Step` in `shaders/step.wgsl`: of each row its position in its text, its token, and where in the table of places that is
    /// what its position and its token type add to it.
    pub(crate) step: Vec<u32>,
    /// `Tile` in `shaders/encoder/encoder.wgsl`.
    pub(crate) tiles: Vec<u32>,
    /// First row and rows of each text.
    pub(crate) texts: Vec<u32>,
    /// What each tile sees: its whole text.
    pub(crate) row_contexts: Vec<RowContext>,
}

impl PassWords {
    /// Fills in a pass and says what it comes to: rows, texts as samples, tiles as positions.
    pub(crate) fn fill(&mut self, texts: &[EncoderText<'_>], sizes: PassSizes) -> Extent {
        let PassSizes { heads, places } = sizes;
        self.step.clear();
        self.tiles.clear();
        self.texts.clear();
        self.row_contexts.clear();
        self.step.extend([0; 4]);
        let (mut first, mut scores, mut tiles) = (0, 0, 0);
        for text in texts {
            let length = text.tokens.len() as u32;
            for (position, token) in text.tokens.iter().enumerate() {
                let last = places.saturating_sub(1);
                let place = text.kind(position) as usize * places + position.min(last);
                (self.step).extend([position as u32, *token, place as u32, 0]);
            }
            for row in (0..length).step_by(4) {
                self.tiles.extend([first + row, first, length, scores]);
                self.row_contexts.push(RowContext {
                    sequence: first,
                    positions: length,
                    together: [0; 2],
                });
                scores += heads as u32 * 4 * length.div_ceil(4);
                tiles += 1;
            }
            self.texts.extend([first, length]);
            first += length;
        }
        let extent = Extent {
            rows: first,
            samples: texts.len() as u32,
            positions: tiles,
            ..Extent::default()
        };
        if let [rows, samples, ..] = self.step.as_mut_slice() {
            (*rows, *samples) = (extent.rows, extent.samples);
        }
        extent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_together_as_far_as_there_is_room() {
        let texts = [3, 5, 4, 1, 8].map(|length| vec![7u32; length]);
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let pass_buffers = |texts: &[&[u32]], rows, quads| -> Vec<[usize; 2]> {
            let passes = passes(&EncoderText::singles(texts), rows, quads).into_iter();
            passes.map(|pass| [pass.start, pass.end]).collect()
        };
        assert_eq!(pass_buffers(&texts, 100, 1000), [[0, 5]]);
        assert_eq!(pass_buffers(&texts, 8, 1000), [[0, 2], [2, 4], [4, 5]]);
        assert_eq!(pass_buffers(&texts, 1, 1000).len(), 5);
        // 4, 16, 4, 4 and 16 vectors.
        assert_eq!(pass_buffers(&texts, 100, 24), [[0, 3], [3, 5]]);
        assert_eq!(pass_buffers(&[], 8, 8), [[0; 2]; 0]);
    }

    #[test]
    fn words_say_where_texts_lie_and_where_their_scores_go() {
        let mut words = PassWords::default();
        let pair = EncoderText {
            tokens: &[9, 8, 7, 6, 5],
            types: &[0, 0, 0, 1, 1],
        };
        let sizes = PassSizes {
            heads: 2,
            places: 7,
        };
        let extent = words.fill(&[pair, EncoderText::single(&[4])], sizes);
        let expected = Extent {
            rows: 6,
            samples: 2,
            positions: 3,
            ..Extent::default()
        };
        assert_eq!(extent, expected);
        assert_eq!(words.step[..8], [6, 2, 0, 0, 0, 9, 0, 0]);
        assert_eq!(words.step[12..20], [2, 7, 2, 0, 3, 6, 10, 0]);
        assert_eq!(words.step[20..], [4, 5, 11, 0, 0, 4, 0, 0]);
        assert_eq!(
            words.tiles,
            [[0, 0, 5, 0], [4, 0, 5, 16], [5, 5, 1, 32]].concat()
        );
        assert_eq!(words.texts, [0, 5, 5, 1]);
        assert_eq!(quads_of(5) + quads_of(1), 16 + 4);
        // Where positions are not in the table, there is a place for each type.
        words.fill(
            &[pair],
            PassSizes {
                heads: 2,
                places: 1,
            },
        );
        assert_eq!(words.step[12..20], [2, 7, 0, 0, 3, 6, 1, 0]);
    }
}
