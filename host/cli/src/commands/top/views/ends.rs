//! What comes in, what becomes of it, and what is kept of that.

use tidegate_control::StatusReport;
use tidegate_telemetry::{count, decimal, milliseconds, plain, size};

use super::super::frame::{Line, Look, Row, table};
use super::{NAME, Seen, digits, fact, name, rate, span};

impl Seen<'_> {
    pub(super) fn ends(&self) -> Vec<Line> {
        let mut lines = self.works();
        lines.extend(self.sources());
        lines.extend(self.records());
        lines.extend(self.cuts());
        lines.extend(self.gateway(true));
        lines.extend(self.audit());
        lines
    }

    pub(super) fn records(&self) -> Vec<Line> {
        let (records, rates) = (&self.report.records, self.figures);
        let dead = rates.rate(|report| Some(report.records.dead));
        let growing = match dead.filter(|rate| *rate > 0.0) {
            Some(rate) => format!(" (+{}/s)", decimal(rate)),
            None => String::new(),
        };
        let input = rates.rate(|report| Some(report.records.input));
        let output = rates.rate(|report| Some(report.records.output));
        self.flow(
            "records",
            vec![
                fact(format!("{} in/s", rate(input))),
                fact(format!("{} out/s", rate(output))),
                fact(format!("in flight {}", count(records.in_flight))),
                fact(format!("dropped {}", count(records.dropped))),
                fact(format!("dead {}{growing}", count(records.dead))),
            ],
        )
    }

    pub(super) fn cuts(&self) -> Vec<Line> {
        let cuts = &self.report.cuts;
        self.flow(
            "cuts",
            vec![
                fact(format!("{} hold", count(cuts.held))),
                fact(format!("aborted {}", count(cuts.aborted))),
                fact(format!("oldest uncut {}", span(cuts.uncommitted_seconds))),
                fact(format!("p50 {}", milliseconds(cuts.time_ms.p50))),
                fact(format!("p99 {}", milliseconds(cuts.time_ms.p99))),
            ],
        )
    }

    pub(super) fn sources(&self) -> Vec<Line> {
        const TITLES: [(&str, usize); 5] = [
            ("in/s", 9),
            ("unread", 12),
            ("behind", 13),
            ("rejected", 10),
            ("records", 14),
        ];
        let sources = self.report.sources.iter().enumerate();
        let rows = sources.map(|(at, source)| {
            let records = |report: &StatusReport| Some(report.sources.get(at)?.records);
            let unread = match (source.unread_records, source.unread_bytes) {
                (Some(records), _) => count(records),
                (None, Some(bytes)) => size(bytes),
                (None, None) => "-".to_owned(),
            };
            Row {
                name: name(&source.name),
                look: Look::Plain,
                cells: vec![
                    fact(rate(self.figures.rate(records))),
                    fact(unread),
                    fact(source.behind_seconds.map_or("-".to_owned(), span)),
                    fact(count(source.rejected)),
                    fact(count(source.records)),
                ],
            }
        });
        table("source", &TITLES, rows.collect(), self.columns)
    }

    pub(super) fn gateway(&self, all: bool) -> Vec<Line> {
        let Some(gateway) = &self.report.gateway else {
            return Vec::new();
        };
        let answered = |report: &StatusReport| Some(report.gateway.as_ref()?.answered);
        let mut facts = vec![
            fact(plain(&gateway.url, NAME).into_owned()),
            fact(format!("{} answers/s", rate(self.figures.rate(answered)))),
            fact(format!("waiting {}", count(gateway.waiting))),
            fact(format!("answered {}", count(gateway.answered))),
        ];
        for shed in gateway.shed.iter().filter(|shed| all && shed.requests > 0) {
            let (source, step) = (name(&shed.source), name(&shed.step));
            let text = format!("under load {source} step {step}: {}", count(shed.requests));
            facts.push((Look::Warn, text));
        }
        self.flow("gateway", facts)
    }

    pub(super) fn audit(&self) -> Vec<Line> {
        let Some(audit) = &self.report.audit else {
            return Vec::new();
        };
        let lines = format!("{} lines", count(audit.lines));
        let head = format!("head {}", digits(&audit.head));
        self.flow("audit", vec![fact(lines), fact(head)])
    }
}
