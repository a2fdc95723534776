//! The stages: rates, back-pressure and times.

use tidegate_control::{StageReport, StatusReport};
use tidegate_telemetry::{count, milliseconds};

use super::super::draw::Sort;
use super::super::frame::{Line, Look, Row, table};
use super::{Seen, fact, name, rate};

impl Seen<'_> {
    pub(super) fn stages(&self, sort: Sort) -> Vec<Line> {
        const TITLES: [(&str, usize); 12] = [
            ("in/s", 9),
            ("out/s", 9),
            ("waiting", 14),
            ("p50", 9),
            ("p99", 9),
            ("dead", 7),
            ("full", 6),
            ("inbox", 8),
            ("retried", 9),
            ("dropped", 9),
            ("in", 14),
            ("out", 14),
        ];
        let mut stages: Vec<(usize, &StageReport)> =
            self.report.stages.iter().enumerate().collect();
        let input = |at: usize| self.stage_rate(at, |stage| stage.counters.input);
        match sort {
            Sort::File => {}
            Sort::Input => stages.sort_by(|a, b| {
                let [a, b] = [a, b].map(|(at, _)| input(*at).unwrap_or_default());
                b.total_cmp(&a)
            }),
            Sort::Waiting => stages.sort_by(|a, b| {
                let [a, b] =
                    [a, b].map(|(_, stage)| stage.waiting as f64 / stage.limit.max(1) as f64);
                b.total_cmp(&a)
            }),
            Sort::Dead => stages.sort_by_key(|(_, stage)| std::cmp::Reverse(stage.counters.dead)),
        }
        let rows = stages
            .into_iter()
            .map(|(at, stage)| self.stage(at, stage, input(at)));
        table("stage", &TITLES, rows.collect(), self.columns)
    }

    fn stage(&self, at: usize, stage: &StageReport, input: Option<f64>) -> Row {
        let counters = stage.counters;
        let output = self.stage_rate(at, |stage| stage.counters.output);
        let seconds = |report: &StatusReport| Some(report.stages.get(at)?.full_seconds);
        let full = self.figures.growth(seconds);
        let is_full = stage.limit > 0 && stage.waiting >= stage.limit;
        let pressed = |is_pressed: bool| match is_pressed {
            true => Look::Warn,
            false => Look::Plain,
        };
        let waiting = match stage.limit {
            0 => count(stage.waiting),
            limit => format!("{}/{}", count(stage.waiting), count(limit)),
        };
        let share = full.map_or("-".to_owned(), |share| {
            format!("{:.0}%", share.min(1.0) * 100.0)
        });
        let time = |time: f64| match stage.batches {
            0 => "-".to_owned(),
            _ => milliseconds(time),
        };
        Row {
            name: name(&stage.name),
            look: Look::Plain,
            cells: vec![
                fact(rate(input)),
                fact(rate(output)),
                (pressed(is_full), waiting),
                fact(time(stage.time_ms.p50)),
                fact(time(stage.time_ms.p99)),
                fact(count(counters.dead)),
                (pressed(full.is_some_and(|share| share > 0.5)), share),
                fact(count(stage.inbox)),
                fact(count(counters.retried)),
                fact(count(counters.dropped)),
                fact(count(counters.input)),
                fact(count(counters.output)),
            ],
        }
    }

    fn stage_rate(&self, at: usize, of: fn(&StageReport) -> u64) -> Option<f64> {
        self.figures
            .rate(move |report| report.stages.get(at).map(of))
    }
}
