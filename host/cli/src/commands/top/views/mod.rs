//! The views: what of a host is looked at.

mod ends;
mod models;
mod slots;
mod stages;

use tidegate_control::{PlaceKind, StatusReport, Tone};
use tidegate_telemetry::{decimal, milliseconds, plain};

use super::draw::Sort;
use super::figures::Figures;
use super::frame::{Line, Look, flow, wrapped};

/// Most bytes of a name that are shown.
const NAME: usize = 64;
/// Most bytes of a reason that are shown.
const REASON: usize = 400;
/// Most lines of a trouble.
const TROUBLE: usize = 3;

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    /// The most of everything that there is room for.
    #[default]
    Overview,
    Stages,
    Slots,
    Models,
    /// Sources, cuts, dead letters, the gateway and the audit.
    Ends,
}

impl View {
    pub(super) const ALL: [View; 5] = [
        View::Overview,
        View::Stages,
        View::Slots,
        View::Models,
        View::Ends,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            View::Overview => "Overview",
            View::Stages => "Stages",
            View::Slots => "Slots",
            View::Models => "Models",
            View::Ends => "Ends",
        }
    }

    /// The one so many behind it.
    pub(super) fn moved(self, by: usize) -> View {
        let at = View::ALL.iter().position(|view| *view == self);
        View::ALL[(at.unwrap_or_default() + by) % View::ALL.len()]
    }

    pub(super) fn lines(self, figures: &Figures, sort: Sort, columns: usize) -> Vec<Line> {
        let Some(report) = figures.report() else {
            return Vec::new();
        };
        let seen = Seen {
            figures,
            report,
            columns,
        };
        let mut lines = seen.troubles(self);
        lines.extend(match self {
            View::Overview => seen.overview(sort),
            View::Stages => seen.stages(sort),
            View::Slots => seen.slots(true),
            View::Models => seen.models(),
            View::Ends => seen.ends(),
        });
        lines
    }

    /// Whether what is wrong with such a part is of interest there.
    fn is_about(self, kind: PlaceKind) -> bool {
        match self {
            View::Overview => true,
            View::Stages | View::Slots => kind == PlaceKind::Stage,
            View::Models => kind == PlaceKind::Model,
            View::Ends => matches!(kind, PlaceKind::Source | PlaceKind::Cuts | PlaceKind::Host),
        }
    }
}

fn look(tone: Tone) -> Look {
    match tone {
        Tone::Bad => Look::Bad,
        Tone::Warn => Look::Warn,
    }
}

type Fact = (Look, String);

fn fact(text: String) -> Fact {
    (Look::Plain, text)
}

fn name(text: &str) -> String {
    plain(text, NAME).into_owned()
}

fn reason(text: &str) -> String {
    plain(text, REASON).into_owned()
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), decimal)
}

/// A time in seconds for people.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..10 => format!("{:.1} s", seconds.max(0.0)),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86400 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86400, whole / 3600 % 24),
    }
}

/// The beginning of a digest.
fn digits(digest: &str) -> String {
    let digits = digest.trim_start_matches("sha256:");
    name(digits.get(..12).unwrap_or(digits))
}

/// What is looked at, by whom.
struct Seen<'a> {
    figures: &'a Figures,
    report: &'a StatusReport,
    columns: usize,
}

impl Seen<'_> {
    fn overview(&self, sort: Sort) -> Vec<Line> {
        let report = self.report;
        let mut lines = self.works();
        lines.extend(self.records());
        lines.extend(self.times());
        lines.extend(self.cuts());
        lines.extend(self.sources());
        lines.extend(self.stages(sort));
        lines.extend(self.slots(false));
        lines.extend(self.models());
        lines.extend(self.gateway(false));
        lines.extend(self.audit());
        if let Some(last) = report.deployments.first() {
            lines.extend(self.deployment(last));
        }
        lines
    }

    /// What the host says is wrong, as far as a view is about it.
    fn troubles(&self, view: View) -> Vec<Line> {
        let troubles = self.report.troubles.iter();
        let troubles = troubles.filter(|trouble| view.is_about(trouble.place.kind));
        let lines = troubles.map(|trouble| {
            let text = reason(&trouble.text);
            wrapped(look(trouble.tone), &text, self.columns, TROUBLE)
        });
        lines.flatten().collect()
    }

    /// How a part looks of which the host says something, or nothing.
    fn look_of(&self, kind: PlaceKind, name: &str) -> Look {
        let mut troubles = self.report.troubles.iter();
        let about = troubles.find(|one| one.place.kind == kind && one.place.name == name);
        about.map_or(Look::Plain, |trouble| look(trouble.tone))
    }

    fn flow(&self, title: &str, facts: Vec<Fact>) -> Vec<Line> {
        flow(title, facts, self.columns)
    }

    /// What takes long.
    fn works(&self) -> Vec<Line> {
        let works = self.report.progress.iter();
        works
            .map(|work| Line::of(Look::Warn, &work.to_string()))
            .collect()
    }

    fn times(&self) -> Vec<Line> {
        let (report, times) = (self.report, &self.report.latency_ms);
        let mut facts = vec![
            fact(format!("p50 {}", milliseconds(times.p50))),
            fact(format!("p95 {}", milliseconds(times.p95))),
            fact(format!("p99 {}", milliseconds(times.p99))),
        ];
        if !report.models.is_empty() || report.tokens > 0 {
            let tokens = decimal(report.tokens_per_second);
            facts.push(fact(format!("{tokens} tokens/s")));
        }
        self.flow("latency", facts)
    }
}
