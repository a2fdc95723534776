//! What a step computes.

/// What a step computes, as far as its time depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepSize {
    /// Rows of prompts, or of texts.
    pub(crate) prefill: usize,
    /// Rows of answers, guesses included: a token is drawn of each.
    pub(crate) decode: usize,
    /// Positions that the rows see, all of them together.
    pub(crate) positions: u64,
}

impl StepSize {
    /// So many rows of one prompt, from a position on.
    pub(crate) fn prompt(rows: usize, position: usize) -> StepSize {
        StepSize::default().with_prompt(rows, position)
    }

    /// So many rows of answers, of which nothing is known of what they see.
    pub(crate) fn answers(decode: usize) -> StepSize {
        StepSize {
            decode,
            ..StepSize::default()
        }
    }

    /// With a piece of a prompt of so many rows, from a position on.
    pub(crate) fn with_prompt(self, rows: usize, position: usize) -> StepSize {
        StepSize {
            prefill: self.prefill + rows,
            positions: self.positions + seen(rows, position),
            ..self
        }
    }

    /// With so many consecutive rows of an answer, from a position on.
    pub(crate) fn with_answer(self, rows: usize, position: usize) -> StepSize {
        StepSize {
            decode: self.decode + rows,
            positions: self.positions + seen(rows, position),
            ..self
        }
    }

    /// Rows of both kinds: products with weights make no difference between them.
    pub(crate) fn rows(self) -> usize {
        self.prefill + self.decode
    }
}

/// Positions that consecutive rows see: the first all up to its own.
fn seen(rows: usize, position: usize) -> u64 {
    let (rows, position) = (rows as u64, position as u64);
    rows * position + rows * (rows + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_see_what_is_before_them_and_themselves() {
        let size = StepSize::answers(2)
            .with_prompt(3, 0)
            .with_answer(1, 99)
            .with_answer(2, 10);
        assert_eq!((size.prefill, size.decode, size.rows()), (3, 5, 8));
        assert_eq!(size.positions, (1 + 2 + 3) + 100 + (11 + 12));
        assert_eq!(StepSize::prompt(3, 0).positions, 6);
    }
}
