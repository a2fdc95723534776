//! The models: sequences, memory and tokens of those here, and how servers of others are.

use tidegate_control::{
    BreakerState, LoraReport, ModelReport, PlaceKind, RemoteReport, StatusReport,
};
use tidegate_telemetry::{count, milliseconds, size};

use super::super::frame::{Line, Look};
use super::{Seen, fact, name, rate, span};

/// Columns of a bar.
const BAR: usize = 10;

impl Seen<'_> {
    pub(super) fn models(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (at, model) in self.report.models.iter().enumerate() {
            lines.extend(self.model(at, model));
        }
        for model in &self.report.remote {
            lines.extend(self.remote(model));
        }
        lines
    }

    fn model(&self, at: usize, model: &ModelReport) -> Vec<Line> {
        let mut facts = vec![fact(name(&model.name))];
        if !model.loaded {
            let look = self.look_of(PlaceKind::Model, &model.name);
            facts.push((look, "not loaded".to_owned()));
            return self.flow("model", facts);
        }
        let tokens = |report: &StatusReport| Some(report.models.get(at)?.tokens);
        let is_full = model.blocks > 0 && model.blocks_used >= model.blocks;
        let sequences = bar(model.running as u64, model.sequences.into());
        facts.push(fact(format!("sequences {sequences}")));
        facts.push(fact(format!("waiting {}", count(model.waiting as u64))));
        if model.blocks > 0 {
            let look = if is_full { Look::Warn } else { Look::Plain };
            let blocks = bar(model.blocks_used as u64, model.blocks as u64);
            facts.push((look, format!("KV {blocks}")));
            let tokens = rate(self.figures.rate(tokens));
            facts.push(fact(format!("{tokens} tokens/s")));
            let first = &model.first_token_ms;
            facts.push(fact(format!(
                "first token p50 {} p99 {}",
                milliseconds(first.p50),
                milliseconds(first.p99)
            )));
        }
        facts.push(fact(size(model.memory)));
        facts.push(fact(format!("failed {}", count(model.failed))));
        let mut lines = self.flow("model", facts);
        for (number, lora) in model.loras.iter().enumerate() {
            lines.extend(self.lora((at, number), model, lora));
        }
        lines
    }

    /// A low-rank adapter, below its base.
    fn lora(
        &self,
        (at, number): (usize, usize),
        base: &ModelReport,
        lora: &LoraReport,
    ) -> Vec<Line> {
        let tokens = |report: &StatusReport| Some(report.models.get(at)?.loras.get(number)?.tokens);
        let facts = vec![
            fact(name(&lora.name)),
            fact(format!("of {}", name(&base.name))),
            fact(format!("rank {}", lora.rank)),
            fact(format!("{} tokens/s", rate(self.figures.rate(tokens)))),
            fact(format!("answered {}", count(lora.answered))),
            fact(format!("failed {}", count(lora.failed))),
        ];
        self.flow("adapter", facts)
    }

    fn remote(&self, model: &RemoteReport) -> Vec<Line> {
        let wrong = self.look_of(PlaceKind::Model, &model.name);
        let (look, breaker) = match model.breaker {
            BreakerState::Closed => (Look::Plain, "closed"),
            BreakerState::Resting => (Look::Warn, "resting"),
            BreakerState::Open => (wrong, "open"),
            BreakerState::HalfOpen => (wrong, "half open"),
        };
        let since = model.open_seconds.map(|seconds| span(seconds as f64));
        let since = since.map_or(String::new(), |since| format!(" since {since}"));
        self.flow(
            "model",
            vec![
                fact(name(&model.name)),
                fact(format!("at {}", name(&model.server))),
                (look, format!("breaker {breaker}{since}")),
                fact(format!("in flight {}", count(model.in_flight as u64))),
                fact(format!("waiting {}", count(model.waiting as u64))),
                fact(format!("failed {}", count(model.failed))),
            ],
        )
    }
}

/// So much of so much, as a bar and in numbers.
fn bar(used: u64, of: u64) -> String {
    let filled = (u128::from(used) * BAR as u128).checked_div(u128::from(of));
    let filled = (filled.unwrap_or_default() as usize).min(BAR);
    // What is not nothing is seen.
    let filled = filled.max(usize::from(used > 0));
    let (full, empty) = ("#".repeat(filled), ".".repeat(BAR - filled));
    format!("[{full}{empty}] {}/{}", count(used), count(of))
}
