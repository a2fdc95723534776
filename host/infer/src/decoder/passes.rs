//! A step as the device takes it: cut into passes of so many rows, each a list of words.

use tidegate_contract::{BLOCK, FedToken, Sampling, StepSequence};

use super::company::{Partition, Row};
use crate::kernels::{EmbedKernel, Together};
use crate::program::{Extent, RowContext};

/// Consecutive tokens of one sequence of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Index of the sequence in the step.
    pub(crate) sequence: usize,
    /// Its tokens from here.
    pub(crate) from: usize,
    /// To here, not included.
    pub(crate) to: usize,
}

/// Cuts a step into passes of at most `rows` rows, in order, so that a row always comes after those before it in its
/// sequence. Nothing is sampled from more than `samples` rows of a pass.
pub(crate) fn passes(step: &[StepSequence], rows: usize, samples: usize) -> Vec<Vec<Piece>> {
    let mut passes = Vec::new();
    let (mut pass, mut used, mut sampled) = (Vec::new(), 0, 0);
    for (sequence, of) in step.iter().enumerate() {
        let first_sampled = of.tokens.len() - of.samples.len().min(of.tokens.len());
        let mut from = 0;
        while from < of.tokens.len() {
            if used == rows || (sampled == samples && from >= first_sampled) {
                passes.push(std::mem::take(&mut pass));
                (used, sampled) = (0, 0);
            }
            let mut to = of.tokens.len().min(from + rows - used);
            to = to.min(first_sampled.max(from) + samples - sampled);
            sampled += to.saturating_sub(first_sampled.max(from));
            used += to - from;
            pass.push(Piece { sequence, from, to });
            from = to;
        }
    }
    if !pass.is_empty() {
        passes.push(pass);
    }
    passes
}

/// The words of a pass, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct StepWords {
    /// Layout as in `shaders/step.wgsl`.
    pub(crate) step: Vec<u32>,
    /// Block tables, one after another.
    pub(crate) tables: Vec<u32>,
    /// `[rows]` of (adapter of the row or 0, the i-th row that has one): `shaders/lora/slots.wgsl`.
    pub(crate) loras: Vec<[u32; 2]>,
    /// What each row sees.
    pub(crate) row_contexts: Vec<RowContext>,
    /// How attention takes rows together.
    together: Together,
    /// Which it takes together in this pass.
    pub(crate) partition: Partition,
}

impl StepWords {
    /// Words for kernels of attention that take rows together so ([`rows_together`](crate::kernels::rows_together)).
    pub(crate) fn new(together: Together) -> StepWords {
        StepWords {
            together,
            ..StepWords::default()
        }
    }

    /// How attention takes rows together.
    pub(crate) fn together(&self) -> Together {
        self.together
    }

    /// How many words of a step there are at most for so many rows.
    pub(crate) fn most(rows: usize) -> usize {
        4 + 4 * rows + Partition::most_words(rows)
    }

    /// Fills in a whole step as one pass.
    pub(crate) fn fill_whole(&mut self, step: &[StepSequence]) -> Extent {
        let piece = |(sequence, of): (usize, &StepSequence)| Piece {
            sequence,
            from: 0,
            to: of.tokens.len(),
        };
        let pass: Vec<Piece> = step.iter().enumerate().map(piece).collect();
        self.fill(step, &pass, &mut Vec::new())
    }

    /// Fills in a pass, and says what it comes to. `samples` is filled with how its tokens are drawn, in order, each
    /// with the index of its sequence in the step.
    pub(crate) fn fill<'a>(
        &mut self,
        step: &'a [StepSequence],
        pass: &[Piece],
        samples: &mut Vec<(usize, &'a Sampling)>,
    ) -> Extent {
        self.step.clear();
        self.tables.clear();
        self.row_contexts.clear();
        self.loras.clear();
        samples.clear();
        self.step.extend([0; 4]);
        let mut extent = Extent::default();
        let mut sources = Vec::new();
        for piece in pass {
            let sequence = &step[piece.sequence];
            let table = self.tables.len() as u32;
            let end = sequence.position as usize + piece.to;
            self.tables
                .extend_from_slice(&sequence.blocks[..end.div_ceil(BLOCK)]);
            let first_sampled = sequence.tokens.len() - sequence.samples.len();
            for at in piece.from..piece.to {
                let position = sequence.position + at as u32;
                self.step.extend([table, sequence.tokens[at], position, 0]);
                self.row_contexts.push(RowContext {
                    sequence: table,
                    positions: position + 1,
                    together: [0; 2],
                });
                if at >= first_sampled {
                    sources.push(extent.rows);
                    samples.push((piece.sequence, &sequence.samples[at - first_sampled]));
                }
                self.loras.push([sequence.lora, 0]);
                if sequence.lora > 0 {
                    self.loras[extent.adapted as usize][1] = extent.rows;
                    extent.adapted += 1;
                }
                extent.rows += 1;
                extent.positions = extent.positions.max(position + 1);
            }
        }
        extent.samples = sources.len() as u32;
        self.step[0] = extent.rows;
        self.step[1] = extent.samples;
        self.step[2] = extent.positions;
        for (index, source) in sources.into_iter().enumerate() {
            self.step[4 + 4 * index + 3] = source;
        }
        if self.together != Together::Unasked {
            self.take_together(&mut extent);
        }
        extent
    }

    /// Has tokens of a pass that was filled in fed on the device.
    pub(crate) fn feed(&mut self, pass: &[Piece], fed: &[FedToken]) {
        let mut row = 0;
        for piece in pass {
            let of_piece = |fed: &&FedToken| fed.sequence == piece.sequence;
            if let Some(fed) = fed.iter().find(of_piece) {
                self.step[4 + 4 * row + 1] = EmbedKernel::FED + fed.sampling as u32;
            }
            row += piece.to - piece.from;
        }
    }

    /// Says which rows attention takes together.
    fn take_together(&mut self, extent: &mut Extent) {
        let row = |row: &RowContext| Row {
            table: row.sequence,
            position: row.positions - 1,
        };
        let rows: Vec<Row> = self.row_contexts.iter().map(row).collect();
        let partition = Partition::of(self.together, &rows, &self.tables);
        let together = partition.together(&rows);
        for (row, together) in self.row_contexts.iter_mut().zip(together) {
            row.together = together;
        }
        extent.company = partition.company(&rows);
        self.step[3] = extent.company.alone;
        partition.write(&mut self.step);
        self.partition = partition;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(position: u32, tokens: usize, samples: usize) -> StepSequence {
        let blocks = (position as usize + tokens).div_ceil(BLOCK) as u32;
        StepSequence {
            lora: 0,
            position,
            tokens: (0..tokens as u32).collect(),
            blocks: (100..100 + blocks).collect(),
            samples: vec![Sampling::default(); samples],
        }
    }

    fn pieces(step: &[StepSequence], rows: usize, samples: usize) -> Vec<Vec<[usize; 3]>> {
        let pieces = |pass: Vec<Piece>| {
            pass.into_iter()
                .map(|piece| [piece.sequence, piece.from, piece.to])
                .collect()
        };
        passes(step, rows, samples)
            .into_iter()
            .map(pieces)
            .collect()
    }

    #[test]
    fn a_step_is_cut_where_a_pass_has_no_room() {
        let step = [sequence(0, 3, 1), sequence(7, 5, 2)];
        assert_eq!(pieces(&step, 8, 8), [vec![[0, 0, 3], [1, 0, 5]]]);
        assert_eq!(
            pieces(&step, 4, 4),
            [vec![[0, 0, 3], [1, 0, 1]], vec![[1, 1, 5]]]
        );
        assert_eq!(
            pieces(&step, 8, 1),
            [vec![[0, 0, 3], [1, 0, 3]], vec![[1, 3, 4]], vec![[1, 4, 5]]]
        );
        assert_eq!(pieces(&step, 1, 1).len(), 8);
        assert_eq!(pieces(&[], 8, 8), Vec::<Vec<[usize; 3]>>::new());
    }

    #[test]
    fn every_row_is_in_one_pass_and_every_sample_too() {
        for (rows, samples) in [(1, 1), (2, 1), (3, 2), (5, 5), (16, 3)] {
            let step = [
                sequence(0, 9, 9),
                sequence(3, 1, 1),
                sequence(20, 14, 0),
                sequence(1, 6, 4),
            ];
            let mut words = StepWords::default();
            let (mut all, mut drawn) = (0, 0);
            for pass in passes(&step, rows, samples) {
                let mut samplings = Vec::new();
                let extent = words.fill(&step, &pass, &mut samplings);
                assert!(extent.rows as usize <= rows && extent.samples as usize <= samples);
                assert_eq!(samplings.len(), extent.samples as usize);
                all += extent.rows;
                drawn += extent.samples;
            }
            assert_eq!((all, drawn), (30, 14));
        }
    }

    #[test]
    fn words_say_table_token_position_and_where_samples_come_from() {
        let step = [sequence(15, 2, 0), sequence(0, 2, 1)];
        let mut words = StepWords::default();
        let mut samples = Vec::new();
        let pass = &passes(&step, 8, 8)[0];
        let extent = words.fill(&step, pass, &mut samples);
        let expected = Extent {
            rows: 4,
            samples: 1,
            positions: 17,
            ..Extent::default()
        };
        assert_eq!(extent, expected);
        assert_eq!(words.tables, [100, 101, 100]);
        let row_contexts: Vec<_> = words
            .row_contexts
            .iter()
            .map(|s| [s.sequence, s.positions])
            .collect();
        assert_eq!(row_contexts, [[0, 16], [0, 17], [2, 1], [2, 2]]);
        assert_eq!(
            words.step,
            [
                [4, 1, 17, 0],
                [0, 0, 15, 3],
                [0, 1, 16, 0],
                [2, 0, 0, 0],
                [2, 1, 1, 0]
            ]
            .concat()
        );
        // A token that is fed, in the row of its sequence alone.
        let step = [sequence(0, 2, 1), sequence(9, 1, 1), sequence(3, 1, 1)];
        let fed = [(2, 5), (1, 0)].map(|(sequence, sampling)| FedToken { sequence, sampling });
        let pass_of_fed = &passes(&step, 8, 8)[0];
        let mut words_of_fed = StepWords::default();
        words_of_fed.fill(&step, pass_of_fed, &mut Vec::new());
        words_of_fed.feed(pass_of_fed, &fed);
        let tokens = words_of_fed.step[4..].chunks(4).map(|entry| entry[1]);
        let fed_from = |sampling| EmbedKernel::FED + sampling;
        assert!(tokens.eq([0, 1, fed_from(0), fed_from(5)]));
        let step = [sequence(15, 2, 0), sequence(0, 2, 1)];
        // Where attention asks which rows go together: none do, so few are they.
        let mut asked = StepWords::new(Together::Sharing(8));
        let extent = asked.fill(&step, pass, &mut samples);
        assert_eq!(extent.company.alone, 4);
        assert_eq!(asked.step[..4], [4, 1, 17, 4]);
        assert_eq!(asked.step[4..20], words.step[4..]);
        let alone = [[0, 0, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0], [3, 0, 0, 0]];
        assert_eq!(asked.step[20..], alone.concat());
    }
}
