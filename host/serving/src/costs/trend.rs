//! What each part of a step costs on the whole: a step, a row of a prompt, a row of an answer, a position.

use super::StepSize;

/// Share of the newest step in the averages.
const NEWEST: f64 = 1.0 / 32.0;
/// Rows of prompts of a unit, so that the numbers of the equations are alike in size.
const ROWS: f64 = 16.0;
/// Positions of a unit.
const POSITIONS: f64 = 4096.0;
/// Added to the equations' diagonal: what was never varied is shared out, never blown up. Of what rows see so much that it
/// has to have varied by hundreds of positions to be a reason: it always grows while answers are made, and so does time now
/// and then.
const RIDGE: [f64; PARTS] = [1e-6, 1e-6, 1e-6, 1e-2];
/// A step, units of prompt rows, answer rows, units of positions.
const PARTS: usize = 4;

/// Least squares over exponentially averaged moments; no part is negative.
#[derive(Debug, Default)]
pub(super) struct Trend {
    steps: u32,
    /// Averages of the products of the four counts with each other.
    moments: [[f64; PARTS]; PARTS],
    /// And with the seconds of the step.
    products: [f64; PARTS],
    /// Seconds for each of the four.
    seconds: [f64; PARTS],
}

impl Trend {
    pub(super) fn learn(&mut self, size: StepSize, seconds: f64) {
        self.steps = self.steps.saturating_add(1);
        // The first steps are averaged evenly.
        let share = NEWEST.max(1.0 / f64::from(self.steps));
        let counts = [
            1.0,
            size.prefill as f64 / ROWS,
            size.decode as f64,
            size.positions as f64 / POSITIONS,
        ];
        for (row, count) in counts.iter().enumerate() {
            for (column, other) in counts.iter().enumerate() {
                self.moments[row][column] += share * (count * other - self.moments[row][column]);
            }
            self.products[row] += share * (count * seconds - self.products[row]);
        }
        self.solve();
    }

    /// Seconds of a step without any row.
    pub(super) fn of_step(&self) -> f64 {
        self.seconds[0]
    }

    /// Seconds of a row of a prompt, beside what it sees.
    pub(super) fn of_row(&self) -> f64 {
        self.seconds[1] / ROWS
    }

    /// Seconds of a row of an answer, beside what it sees.
    pub(super) fn of_answer(&self) -> f64 {
        self.seconds[2]
    }

    /// Seconds of what is no matter of rows: that tokens are drawn, and what rows see.
    pub(super) fn beside_rows(&self, decode: f64, positions: f64) -> f64 {
        (self.of_answer() - self.of_row()) * decode + self.seconds[3] * positions / POSITIONS
    }

    /// Solves for the parts; one that would be negative is none, and the others are solved without it.
    fn solve(&mut self) {
        let mut used = [true; PARTS];
        for _ in 0..PARTS {
            let solution = self.least_squares(used);
            match (0..PARTS).find(|part| solution[*part] < 0.0) {
                Some(part) => used[part] = false,
                None => {
                    self.seconds = solution;
                    return;
                }
            }
        }
    }

    /// Gauss-Jordan on the used rows and columns; the ridge keeps the matrix positive definite.
    fn least_squares(&self, used: [bool; PARTS]) -> [f64; PARTS] {
        let mut rows = [[0.0; PARTS + 1]; PARTS];
        for (row, moments) in self.moments.iter().enumerate() {
            if !used[row] {
                rows[row][row] = 1.0;
                continue;
            }
            for column in 0..PARTS {
                if used[column] {
                    rows[row][column] = moments[column];
                }
            }
            rows[row][row] += RIDGE[row] + RIDGE[0] * moments[row];
            rows[row][PARTS] = self.products[row];
        }
        for pivot in 0..PARTS {
            let scale = rows[pivot][pivot];
            for value in &mut rows[pivot] {
                *value /= scale;
            }
            let pivot_row = rows[pivot];
            for (row, values) in rows.iter_mut().enumerate() {
                if row != pivot {
                    let factor = values[pivot];
                    for (value, other) in values.iter_mut().zip(pivot_row) {
                        *value -= factor * other;
                    }
                }
            }
        }
        rows.map(|row| row[PARTS])
    }
}
