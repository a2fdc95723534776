//! Every family that the program has, once; those that operators name are beside them.
//!
//! Names are `tidegate_<noun>_<unit>`, counters end in `_total`, and units are seconds, bytes, ratios from 0 to 1, or the
//! things that are counted. A name never changes its meaning.

use super::{Family, Kind, Label, Since, Unit};

const RECORDS: Unit = Unit::Of("records");

const fn label(name: &'static str, bound: &'static str) -> Label {
    Label { name, bound }
}

const STAGE: &[Label] = &[label("stage", "stages of the file")];

macro_rules! families {
    ($($ident:ident = $kind:ident $name:literal, $unit:expr, $labels:expr, $since:ident, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $ident: Family = Family {
                name: $name,
                kind: Kind::$kind,
                unit: $unit,
                labels: $labels,
                since: Since::$since,
                help: $help,
            };
        )*

        /// All of them, in the order of the reference.
        pub static ALL: &[&Family] = &[$(&$ident),*];
    };
}

families! {
    RECORDS_IN = Counter "tidegate_in_records_total", RECORDS, &[], Process,
        "Records read from the sources, those that could not be decoded included";
    RECORDS_OUT = Counter "tidegate_out_records_total", RECORDS, &[], Process,
        "Records written to the sinks";
    RECORDS_DROPPED = Counter "tidegate_dropped_records_total", RECORDS, &[], Process,
        "Records that ended without a sink: dropped by operators, taken by nobody, gone with their caller, or told to have no answer";
    RECORDS_UNANSWERED = Counter "tidegate_unanswered_elsewhere_records_total", RECORDS, &[], Process,
        "Dropped records that another server has not answered";
    RECORDS_DEAD = Counter "tidegate_dead_records_total", RECORDS, &[], Process,
        "Records that ended as dead letters";
    RECORDS_SPLIT = Counter "tidegate_split_records_total", RECORDS, &[], Process,
        "Records that came of others: of a split or a fan-out into n, n - 1";
    RECORDS_RETRIED = Counter "tidegate_retried_records_total", RECORDS, &[], Process,
        "Times a record was sent to its operator or model once more";
    RECORDS_ABANDONED = Counter "tidegate_abandoned_records_total", RECORDS, &[], Process,
        "Records in flight when their partition was taken away; whoever reads them counts them again";
    SPLITS_ABANDONED = Counter "tidegate_abandoned_split_records_total", RECORDS, &[], Process,
        "The same of records that came of others";
    RECORDS_IN_FLIGHT = Gauge "tidegate_in_flight_records", RECORDS, &[], Now,
        "Records that wait in a stage or before one";
    BATCHES = Counter "tidegate_batches_total", Unit::Of("batches"), &[], Process,
        "Batches that operators answered";
    CUTS = Counter "tidegate_cuts_total", Unit::Of("cuts"), &[], Process,
        "Cuts that hold";
    SWAPS = Counter "tidegate_swaps_total", Unit::Of("deployments"), &[], Process,
        "Deployments that switched";
    MODEL_REQUESTS = Counter "tidegate_model_requests_total", Unit::Of("requests"), &[], Process,
        "Requests of stages to models that ended";
    MODEL_REQUESTS_FAILED = Counter "tidegate_model_requests_failed_total", Unit::Of("requests"), &[], Process,
        "Of those, the ones that ended without an answer";
    PROMPT_TOKENS = Counter "tidegate_prompt_tokens_total", Unit::Of("tokens"), &[], Process,
        "Tokens of prompts whose answers left their stage";
    GENERATED_TOKENS = Counter "tidegate_generated_tokens_total", Unit::Of("tokens"), &[], Process,
        "Tokens of answers, as they are made";
    SPANS_MADE = Counter "tidegate_spans_made_total", Unit::Of("spans"), &[], Process,
        "Spans that were made of what is traced";
    SPANS_EXPORTED = Counter "tidegate_spans_exported_total", Unit::Of("spans"), &[], Process,
        "Spans that a collector has taken";
    SPANS_DROPPED = Counter "tidegate_spans_dropped_total", Unit::Of("spans"), &[], Process,
        "Spans of traces that were not exported";

    STAGE_RECORDS_IN = Counter "tidegate_stage_in_records_total", RECORDS, STAGE, Process,
        "Records that came to the stage";
    STAGE_RECORDS_OUT = Counter "tidegate_stage_out_records_total", RECORDS, STAGE, Process,
        "Records that left it";
    STAGE_RECORDS_DROPPED = Counter "tidegate_stage_dropped_records_total", RECORDS, STAGE, Process,
        "Records it dropped";
    STAGE_RECORDS_DEAD = Counter "tidegate_stage_dead_records_total", RECORDS, STAGE, Process,
        "Records that ended here as dead letters";
    STAGE_RECORDS_RETRIED = Counter "tidegate_stage_retried_records_total", RECORDS, STAGE, Process,
        "Times a record was sent to it once more";
    STAGE_BATCHES = Counter "tidegate_stage_batches_total", Unit::Of("batches"), STAGE, Process,
        "Batches its operator answered, or requests to its model that ended";
    STAGE_INSTANCES_LOST = Counter "tidegate_stage_lost_instances_total", Unit::Of("instances"), STAGE, Process,
        "Instances of its operator lost to a trap, a deadline or a bad answer";
    STAGE_REVISIONS_TRIPPED = Counter "tidegate_stage_tripped_revisions_total", Unit::Of("revisions"), STAGE, Process,
        "Revisions that failed more often than the pipeline file allows";
    STAGE_UNAVAILABLE = Gauge "tidegate_stage_unavailable_tasks", Unit::Of("tasks"), STAGE, Now,
        "Tasks in which no instance of its operator can be started; their records wait";
    STAGE_INBOX = Gauge "tidegate_stage_inbox_records", RECORDS, STAGE, Now,
        "Records that have come to the stage and that it has not taken, in all tasks";
    STAGE_WAITING = Gauge "tidegate_stage_waiting_records", RECORDS, STAGE, Now,
        "Records that wait in it for an answer, a retry or others of their key, in all tasks";
    STAGE_LIMIT = Gauge "tidegate_stage_limit_records", RECORDS, STAGE, Now,
        "Most records that may wait in it, in all tasks";
    STAGE_FULL = Counter "tidegate_stage_full_seconds_total", Unit::Seconds, STAGE, Process,
        "Time in which a task had records for the stage that it or one after it did not take: back-pressure";
    STAGE_SECONDS = Histogram "tidegate_stage_seconds", Unit::Seconds, STAGE, Process,
        "Time of a call of its operator with a batch, or of a request from its submission to the end of the answer";
}
