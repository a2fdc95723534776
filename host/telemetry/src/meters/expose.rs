//! What the meters count, as samples.

use std::sync::atomic::Ordering;

use super::{Counter, Meters, StageMeters};
use crate::metrics::{Exposition, Family, table};
use crate::trace::SpanCounts;

impl Meters {
    /// Hands in all that is counted here.
    pub fn expose(&self, exposition: &mut Exposition) {
        for (family, counter) in self.totals() {
            exposition.add(family, &[], counter.get());
        }
        let spans = self.tracer.counts();
        let spans = |of: fn(&SpanCounts) -> u64| spans.map_or(0, of);
        let dropped = spans(|spans| spans.full.get() + spans.failed.get());
        exposition.add(&table::SPANS_MADE, &[], spans(|spans| spans.made.get()));
        let exported = spans(|spans| spans.exported.get());
        exposition.add(&table::SPANS_EXPORTED, &[], exported);
        exposition.add(&table::SPANS_DROPPED, &[], dropped);
        let unforced = spans(|spans| spans.unforced.get());
        exposition.add(&table::TRACES_UNFORCED, &[], unforced);
        let points = &self.points;
        exposition.add(&table::POINTS_EXPORTED, &[], points.exported.get());
        exposition.add(&table::POINTS_DROPPED, &[], points.failed.get());
        let in_flight = u64::try_from(self.in_flight.load(Ordering::Relaxed)).unwrap_or(0);
        exposition.add(&table::RECORDS_IN_FLIGHT, &[], in_flight);
        exposition.add(&table::CUT_SECONDS, &[], self.cut_seconds.spread());
        exposition.add(&table::UNCOMMITTED, &[], self.uncommitted());
        let last = self.last_cut.load(Ordering::Relaxed);
        if last > 0 {
            exposition.add(&table::LAST_CUT, &[], last as f64 / 1000.0);
        }
        for source in &self.sources {
            source.expose(exposition);
        }
        for sink in &self.sinks {
            sink.expose(exposition);
        }
        type Counts = (&'static Family, fn(&StageMeters) -> u64);
        let counts: [Counts; 12] = [
            (&table::STAGE_RECORDS_IN, |s| s.records_in.get()),
            (&table::STAGE_RECORDS_OUT, |s| s.records_out.get()),
            (&table::STAGE_RECORDS_DROPPED, |s| s.records_dropped.get()),
            (&table::STAGE_RECORDS_DEAD, |s| s.records_dead.get()),
            (&table::STAGE_RECORDS_RETRIED, |s| s.records_retried.get()),
            (&table::STAGE_BATCHES, |s| s.batches.get()),
            (&table::STAGE_INSTANCES_LOST, |s| s.instances_lost.get()),
            (&table::STAGE_REVISIONS_TRIPPED, |s| {
                s.revisions_tripped.get()
            }),
            (&table::STAGE_UNAVAILABLE, |s| {
                s.unavailable().map_or(0, |now| now.tasks as u64)
            }),
            (&table::STAGE_INBOX, |s| s.inbox.get()),
            (&table::STAGE_WAITING, |s| s.waiting.get()),
            (&table::STAGE_LIMIT, |s| s.limit.get()),
        ];
        for stage in &self.stages {
            let name = [stage.name.as_str()];
            for (family, count) in counts {
                exposition.add(family, &name, count(stage));
            }
            exposition.add(&table::STAGE_FULL, &name, stage.full.get());
            exposition.add(&table::STAGE_SECONDS, &name, stage.time.spread());
        }
    }

    /// The counters of the pipeline.
    fn totals(&self) -> [(&'static Family, &Counter); 17] {
        [
            (&table::RECORDS_IN, &self.records_in),
            (&table::RECORDS_OUT, &self.records_out),
            (&table::RECORDS_DROPPED, &self.records_dropped),
            (&table::RECORDS_UNANSWERED, &self.unanswered_elsewhere),
            (&table::RECORDS_DEAD, &self.records_dead),
            (&table::RECORDS_SPLIT, &self.records_split),
            (&table::RECORDS_RETRIED, &self.records_retried),
            (&table::RECORDS_ABANDONED, &self.records_abandoned),
            (&table::SPLITS_ABANDONED, &self.splits_abandoned),
            (&table::BATCHES, &self.batches),
            (&table::CUTS, &self.cuts),
            (&table::CUTS_ABORTED, &self.cuts_aborted),
            (&table::SWAPS, &self.swaps),
            (&table::MODEL_REQUESTS, &self.model_requests),
            (&table::MODEL_REQUESTS_FAILED, &self.model_failures),
            (&table::PROMPT_TOKENS, &self.prompt_tokens),
            (&table::GENERATED_TOKENS, &self.generated_tokens),
        ]
    }
}
