//! What rows cost, in steps: the times of the row counts that were measured, and what lies between them.
//!
//! A product with one row takes as long as one with as many rows as its tile has, then comes the next tile; where the
//! edges are is the device's affair. So no shape is laid over the times. They are taken at the row counts at which they were
//! measured, and only made to rise with the rows: of two that do not, the newer is right. Between two of them the time is on
//! the line from one to the other, which is exact where rows cost alike, and elsewhere tells where to look next.

use super::StepSize;
use super::trend::Trend;

/// Row counts that are remembered.
const POINTS: usize = 64;
/// Share of the newest time of a row count.
const NEWEST: f64 = 0.125;
/// Times that differ by less are the same.
const SAME: f64 = 1.0 / 256.0;
/// Steps after which a row count that was measured once is open again, so that one slow step does not keep others from it
/// for ever; each further time doubles them.
const TRUSTED: u64 = 32;
/// But no more often than this.
const DOUBLED: u32 = 8;

/// The steps of one row count.
#[derive(Clone, Copy, Debug)]
struct Point {
    rows: usize,
    times: u32,
    /// The step that was the last of them.
    newest: u64,
    /// Averages.
    decode: f64,
    positions: f64,
    seconds: f64,
}

impl Point {
    fn is_trusted(&self, steps: u64) -> bool {
        steps - self.newest < TRUSTED << self.times.saturating_sub(1).min(DOUBLED)
    }
}

/// Seconds by rows.
#[derive(Debug, Default)]
pub(super) struct Curve {
    steps: u64,
    /// Ascending by rows.
    points: Vec<Point>,
    /// Rows of each point that is trusted, ascending, and its seconds without what is no matter of rows; they rise.
    known: Vec<(usize, f64)>,
    /// Seconds of a row where nothing was measured on one side.
    slope: f64,
    /// Of a step without rows.
    least: f64,
}

impl Curve {
    pub(super) fn learn(&mut self, size: StepSize, seconds: f64, trend: &Trend) {
        self.steps += 1;
        let steps = self.steps;
        let (decode, positions) = (size.decode as f64, size.positions as f64);
        match (self.points).binary_search_by_key(&size.rows(), |point| point.rows) {
            Ok(place) => {
                let point = &mut self.points[place];
                let share = match point.is_trusted(steps) {
                    true => NEWEST.max(1.0 / f64::from(point.times + 1)),
                    false => 1.0,
                };
                point.times = point.times.saturating_add(1);
                point.newest = steps;
                point.decode += share * (decode - point.decode);
                point.positions += share * (positions - point.positions);
                point.seconds += share * (seconds - point.seconds);
            }
            Err(place) => {
                let point = Point {
                    rows: size.rows(),
                    times: 1,
                    newest: steps,
                    decode,
                    positions,
                    seconds,
                };
                self.points.insert(place, point);
            }
        }
        if self.points.len() > POINTS
            && let Some(oldest) = (0..self.points.len()).min_by_key(|at| self.points[*at].newest)
        {
            self.points.remove(oldest);
        }
        self.follow(trend);
    }

    /// Takes from the trend what no step was measured for, and what is no matter of rows.
    pub(super) fn follow(&mut self, trend: &Trend) {
        (self.slope, self.least) = (trend.of_row(), trend.of_step());
        self.make_rise(trend);
    }

    /// The newest as it was measured, each older one within what the newer ones leave it.
    fn make_rise(&mut self, trend: &Trend) {
        let trusted = self
            .points
            .iter()
            .filter(|point| point.is_trusted(self.steps));
        let points: Vec<&Point> = trusted.collect();
        let mut newest_first: Vec<usize> = (0..points.len()).collect();
        newest_first.sort_unstable_by_key(|at| std::cmp::Reverse(points[*at].newest));
        let mut seconds: Vec<Option<f64>> = vec![None; points.len()];
        for at in newest_first {
            let own =
                points[at].seconds - trend.beside_rows(points[at].decode, points[at].positions);
            let below = seconds[..at].iter().rev().find_map(|seconds| *seconds);
            let above = seconds[at..].iter().find_map(|seconds| *seconds);
            let own = own.max(below.unwrap_or(0.0));
            seconds[at] = Some(own.min(above.unwrap_or(f64::INFINITY)));
        }
        let rows = points.iter().map(|point| point.rows);
        self.known = rows.zip(seconds.into_iter().flatten()).collect();
    }

    /// Seconds of so many rows.
    pub(super) fn seconds(&self, rows: usize) -> f64 {
        let above = self.known.partition_point(|(at, _)| *at <= rows);
        let beyond = |from: usize, to: usize| (to - from) as f64;
        let below = above.checked_sub(1).map(|at| self.known[at]);
        match (below, self.known.get(above)) {
            (Some((fewer, low)), Some((more, high))) => {
                low + (high - low) * beyond(fewer, rows) / beyond(fewer, *more)
            }
            (Some((fewer, low)), None) => low + self.slope * beyond(fewer, rows),
            (None, Some((more, high))) => {
                (high - self.slope * beyond(rows, *more)).max(self.least.min(*high))
            }
            (None, None) => self.least + self.slope * rows as f64,
        }
    }

    /// Where so many rows were not measured: the next fewer that were, if that is half as many at least, and their seconds.
    pub(super) fn next_fewer(&self, rows: usize) -> Option<(usize, f64)> {
        let above = self.known.partition_point(|(at, _)| *at <= rows);
        let (fewer, seconds) = self.known[above.checked_sub(1)?];
        (fewer < rows && rows <= 2 * fewer).then_some((fewer, seconds))
    }

    /// Where it is worth finding out more, if up to `rows` rows a step is known to take as long as is wanted: how many
    /// rows more might take no longer, and the seconds if they do not.
    ///
    /// That is where the curve has been flat: on for as much again, and half way at most to where it is known to be
    /// higher. So the edge of a tile is found by halving, and given up when it is as near as a sixteenth.
    pub(super) fn flat_beyond(&self, rows: usize) -> Option<(usize, f64)> {
        let above = self.known.partition_point(|(at, _)| *at <= rows);
        let (most, seconds) = self.known[above.checked_sub(1)?];
        let begin = (self.known).partition_point(|(_, low)| low * (1.0 + SAME) < seconds);
        let stretch = most - self.known[begin].0;
        let room = match self.known.get(above) {
            Some((next, _)) if next - most > most / 16 => (next - most) / 2,
            Some(_) => 0,
            None => most,
        };
        Some((most + stretch.min(room), seconds))
    }
}
