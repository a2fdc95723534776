//! Every family that the program has, once; those that operators name are beside them.
//!
//! Names are `tidegate_<noun>_<unit>`, counters end in `_total`, and units are seconds, bytes, ratios from 0 to 1, or the
//! things that are counted. A name never changes its meaning.

use super::{Family, Kind, Label, Since, Unit};

const RECORDS: Unit = Unit::Of("records");

const fn label(name: &'static str, bound: &'static str) -> Label {
    Label { name, bound }
}

const SOURCE: &[Label] = &[label(
    "source",
    "sources of the file, and of letters of each that are sent again (`SOURCE.again`)",
)];
const SINK: &[Label] = &[label("sink", "sinks of the file")];
const SLOT: Label = label("slot", "stages with an operator");
const REVISION: Label = label("revision", "8 of a slot, 16 digits each");
const VERSION: Label = label("version", "one of a revision");
const MODEL: Label = label("model", "models of the file");
const REPLICA: Label = label("replica", "16 of a model with several adapters");
const LORA: Label = label(
    "lora",
    "low-rank adapters of the file, by the model's name there",
);
const ON_ADAPTER: Label = label("adapter", "adapters of this machine");
const ENDPOINT: Label = label("endpoint", "the gateway's endpoints, and `none`");
const REQUESTS: Unit = Unit::Of("requests");
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
    ACCOUNT = Counter "tidegate_account_records_total", RECORDS, &[label("fate", "in, out, dropped, dead, split")], State,
        "What became of all records, as the cuts have it: in + split = out + dropped + dead + those that wait";
    BATCHES = Counter "tidegate_batches_total", Unit::Of("batches"), &[], Process,
        "Batches that operators answered";
    CUTS = Counter "tidegate_cuts_total", Unit::Of("cuts"), &[], Process,
        "Cuts that hold";
    CUTS_ABORTED = Counter "tidegate_cuts_aborted_total", Unit::Of("cuts"), &[], Process,
        "Cuts that came to nothing; their records were read or answered again";
    CUT_SECONDS = Histogram "tidegate_cut_seconds", Unit::Seconds, &[], Process,
        "Time from the beginning of a cut until it held";
    LAST_CUT = Gauge "tidegate_last_cut_timestamp_seconds", Unit::Timestamp, &[], Now,
        "When the last cut held";
    UNCOMMITTED = Gauge "tidegate_uncommitted_seconds", Unit::Seconds, &[], Now,
        "Age of the oldest work of any worker that no cut may have; about 0 while there is nothing to commit";
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
    TRACES_UNFORCED = Counter "tidegate_unforced_traces_total", Unit::Of("traces"), &[], Process,
        "Records and requests that came with a trace that is recorded, and are not: there were more of them than may be";
    POINTS_EXPORTED = Counter "tidegate_points_exported_total", Unit::Of("points"), &[], Process,
        "Points of metrics that a collector has taken";
    POINTS_DROPPED = Counter "tidegate_points_dropped_total", Unit::Of("points"), &[], Process,
        "Points of metrics that a collector has refused or not taken; the next message says all that they said";

    SOURCE_RECORDS = Counter "tidegate_source_records_total", RECORDS, SOURCE, Process,
        "Records read from the source";
    SOURCE_REJECTED = Counter "tidegate_source_rejected_records_total", RECORDS, SOURCE, Process,
        "Input of the source that could not become a record";
    SOURCE_BYTES = Counter "tidegate_source_read_bytes_total", Unit::Bytes, SOURCE, Process,
        "Bytes of the records read, as they are in memory";
    SOURCE_LAG_RECORDS = Gauge "tidegate_source_lag_records", RECORDS, SOURCE, Now,
        "Records that lie unread in the partitions read here; of topics as the brokers said lately, and none where they have not for half a minute, in offsets: the end of the last transaction counts as one, and what was aborted behind the last record as well";
    SOURCE_LAG_BYTES = Gauge "tidegate_source_lag_bytes", Unit::Bytes, SOURCE, Now,
        "Bytes that lie unread in the files read here";
    SOURCE_LAG_SECONDS = Gauge "tidegate_source_lag_seconds", Unit::Seconds, SOURCE, Now,
        "Age by its event time of the record read last, of the partition that is most behind; 0 where nothing lies unread, none where records have no event time";
    SINK_RECORDS = Counter "tidegate_sink_records_total", RECORDS, SINK, Process,
        "Records written to the sink";
    SINK_BYTES = Counter "tidegate_sink_written_bytes_total", Unit::Bytes, SINK, Process,
        "Bytes of them, as they are written";
    SINK_FAILED = Counter "tidegate_sink_failed_records_total", RECORDS, SINK, Process,
        "Records that the sink refused; they are dead letters";

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
        "Time in which a worker had records for the stage that it or one after it did not take, of the worker with most of it: back-pressure";
    STAGE_SECONDS = Histogram "tidegate_stage_seconds", Unit::Seconds, STAGE, Process,
        "Time of a call of its operator with a batch, or of a request from its submission to the end of the answer";

    SLOT_MEMORY = Gauge "tidegate_slot_memory_bytes", Unit::Bytes, &[SLOT], Now,
        "Bytes of all memories and tables of the slot's instances";
    REVISION_RECORDS = Counter "tidegate_revision_records_total", RECORDS, &[SLOT, REVISION, VERSION], Revision,
        "Records the revision was given; one that came again counts again";
    REVISION_FAILED = Counter "tidegate_revision_failed_records_total", RECORDS, &[SLOT, REVISION, VERSION], Revision,
        "Records it could not answer for";
    REVISION_OUTCOMES = Counter "tidegate_revision_outcomes_total", Unit::Of("outcomes"),
        &[SLOT, REVISION, VERSION, label("outcome", "7 kinds")], Revision,
        "What it said of records";
    REVISION_LOST_INSTANCES = Counter "tidegate_revision_lost_instances_total", Unit::Of("instances"), &[SLOT, REVISION, VERSION], Revision,
        "Instances it lost to a trap, a deadline, a refused allocation or a bad answer";
    REVISION_SECONDS = Counter "tidegate_revision_guest_seconds_total", Unit::Seconds, &[SLOT, REVISION, VERSION], Revision,
        "Time in its instances";
    REVISION_MEMORY = Gauge "tidegate_revision_memory_bytes", Unit::Bytes, &[SLOT, REVISION, VERSION], Now,
        "Bytes of the memories of its instances";
    REVISION_INSTANCES = Gauge "tidegate_revision_instances", Unit::Of("instances"), &[SLOT, REVISION, VERSION], Now,
        "Its instances, spares included";
    REVISION_TRIPPED = Gauge "tidegate_revision_tripped", Unit::Truth, &[SLOT, REVISION, VERSION], Now,
        "Whether it is run no more because it failed more often than the file allows";
    OPERATOR_SERIES_REFUSED = Counter "tidegate_operator_series_refused_total", Unit::Of("measurements"), &[SLOT, REVISION], Revision,
        "Measurements of the operator that were left out: it had too many combinations of labels, or another has the name for something else";

    MODEL_LOADED = Gauge "tidegate_model_loaded", Unit::Truth, &[MODEL], Now,
        "Whether the model takes requests";
    MODEL_MEMORY = Gauge "tidegate_model_memory_bytes", Unit::Bytes, &[MODEL], Now,
        "Bytes it holds on its adapter, its draft model included";
    MODEL_WAITING = Gauge "tidegate_model_waiting_requests", REQUESTS, &[MODEL, label("class", "0 to 9, and 10 of the playground")], Now,
        "Requests that wait for their first step, by priority";
    MODEL_RUNNING = Gauge "tidegate_model_running_sequences", Unit::Of("sequences"), &[MODEL], Now,
        "Answers or texts in the making";
    MODEL_KV_BLOCKS = Gauge "tidegate_model_kv_blocks", Unit::Of("blocks"), &[MODEL], Now,
        "KV blocks there are";
    MODEL_KV_USED = Gauge "tidegate_model_used_kv_blocks", Unit::Of("blocks"), &[MODEL], Now,
        "KV blocks that answers in the making hold";
    MODEL_KV_CACHED = Gauge "tidegate_model_cached_kv_blocks", Unit::Of("blocks"), &[MODEL], Now,
        "KV blocks kept for prompts that begin alike, held by none";
    MODEL_KV_PINNED = Gauge "tidegate_model_pinned_kv_blocks", Unit::Of("blocks"), &[MODEL], Now,
        "KV blocks with what the prompts of a stage with pin-prefix begin with, in use or not";
    MODEL_REPLACED_MEMORY = Gauge "tidegate_model_replaced_memory_bytes", Unit::Bytes, &[MODEL], Now,
        "Bytes that models which were replaced or unloaded hold until their last request has ended";
    MODEL_REPLACED_WAITING = Gauge "tidegate_model_replaced_waiting_requests", REQUESTS, &[MODEL], Now,
        "Requests of those that wait for their first step";
    MODEL_REPLACED_RUNNING = Gauge "tidegate_model_replaced_running_sequences", Unit::Of("sequences"), &[MODEL], Now,
        "Answers or texts that those are making";
    MODEL_REPLACED_TOKENS = Counter "tidegate_model_replaced_tokens_total", Unit::Of("tokens"), &[MODEL], Process,
        "Tokens that they made after they were replaced or unloaded";
    MODEL_ANSWERED = Counter "tidegate_model_answered_requests_total", REQUESTS, &[MODEL], Load,
        "Requests that ended with an answer";
    MODEL_FAILED = Counter "tidegate_model_failed_requests_total", REQUESTS, &[MODEL, label("reason", "expired, hopeless, failed")], Load,
        "Requests of the stream that ended with an error: their deadline passed or could not be met, or something else";
    MODEL_LEFT = Counter "tidegate_model_left_requests_total", REQUESTS, &[MODEL], Load,
        "Requests that whoever asked has left before their end";
    MODEL_REFUSED = Counter "tidegate_model_refused_requests_total", REQUESTS, &[MODEL], Load,
        "Requests given back because the queue was full";
    MODEL_RETRIED = Counter "tidegate_model_retried_requests_total", REQUESTS, &[MODEL], Load,
        "Requests that went on after a fault of the device";
    MODEL_MOVED = Counter "tidegate_model_moved_requests_total", REQUESTS, &[MODEL], Load,
        "Requests that went to another replica: their own could do no more, or another was back";
    MODEL_TOKENS = Counter "tidegate_model_tokens_total", Unit::Of("tokens"), &[MODEL, label("kind", "prompt, cached, generated")], Load,
        "Tokens of prompts taken in, of prompts found in kept KV blocks, and of answers";
    MODEL_REASONING = Counter "tidegate_model_reasoning_tokens_total", Unit::Of("tokens"), &[MODEL], Load,
        "Tokens of answers that were reasoning with a lane of its own; they are of kind generated, too";
    MODEL_FORCED = Counter "tidegate_model_forced_tokens_total", Unit::Of("tokens"), &[MODEL], Load,
        "Tokens of answers that were not drawn, as a structure allowed no other; they are of kind generated, too";
    MODEL_PREFIX_QUERIED = Counter "tidegate_model_prefix_queried_tokens_total", Unit::Of("tokens"), &[MODEL], Load,
        "Tokens that were looked for in kept KV blocks; those found are of kind cached";
    MODEL_DRAFTED = Counter "tidegate_model_drafted_tokens_total", Unit::Of("tokens"), &[MODEL, label("outcome", "accepted, rejected")], Load,
        "Tokens guessed ahead";
    MODEL_ROWS = Counter "tidegate_model_rows_total", Unit::Of("rows"), &[MODEL, label("kind", "prompt, answer")], Load,
        "Rows of all steps";
    MODEL_PREEMPTIONS = Counter "tidegate_model_preemptions_total", Unit::Of("sequences"), &[MODEL], Load,
        "Answers in the making that lost their KV blocks to others and were computed again";
    MODEL_FAILED_STEPS = Counter "tidegate_model_failed_steps_total", Unit::Of("steps"), &[MODEL], Load,
        "Steps that failed";
    MODEL_RELOADS = Counter "tidegate_model_reloads_total", Unit::Of("loads"), &[MODEL], Load,
        "Times it was loaded again after a fault of its device";
    MODEL_DRAFT_FAILURES = Counter "tidegate_model_draft_failures_total", Unit::Of("failures"), &[MODEL], Load,
        "Times its draft model failed a step or could not be loaded again";
    MODEL_STEP_SECONDS = Histogram "tidegate_model_step_seconds", Unit::Seconds, &[MODEL], Load,
        "Time of its steps";
    MODEL_QUEUE_SECONDS = Histogram "tidegate_model_queue_seconds", Unit::Seconds, &[MODEL], Load,
        "Time from a request to its first step, of those of the stream";
    MODEL_FIRST_TOKEN_SECONDS = Histogram "tidegate_model_first_token_seconds", Unit::Seconds, &[MODEL], Load,
        "Time from a request to its first token, of those of the stream";
    MODEL_BETWEEN_TOKENS_SECONDS = Histogram "tidegate_model_between_tokens_seconds", Unit::Seconds, &[MODEL], Load,
        "Time from one token of an answer to the next, of those of the stream";
    REPLICA_SERVES = Gauge "tidegate_replica_serves", Unit::Truth, &[MODEL, REPLICA, ON_ADAPTER], Now,
        "Whether the replica takes requests: it is neither loaded again, stalled nor left out";
    REPLICA_RUNNING = Gauge "tidegate_replica_running_sequences", Unit::Of("sequences"), &[MODEL, REPLICA, ON_ADAPTER], Now,
        "Answers or texts in its making";
    REPLICA_KV_USED = Gauge "tidegate_replica_used_kv_blocks", Unit::Of("blocks"), &[MODEL, REPLICA, ON_ADAPTER], Now,
        "Its KV blocks that answers in the making hold";
    REPLICA_ANSWERED = Counter "tidegate_replica_answered_requests_total", REQUESTS, &[MODEL, REPLICA, ON_ADAPTER], Load,
        "Requests that ended with an answer of it";
    REPLICA_TOKENS = Counter "tidegate_replica_generated_tokens_total", Unit::Of("tokens"), &[MODEL, REPLICA, ON_ADAPTER], Load,
        "Tokens of answers that it made";
    REPLICA_STEPS = Counter "tidegate_replica_steps_total", Unit::Of("steps"), &[MODEL, REPLICA, ON_ADAPTER], Load,
        "Its steps";
    REPLICA_RELOADS = Counter "tidegate_replica_reloads_total", Unit::Of("loads"), &[MODEL, REPLICA, ON_ADAPTER], Load,
        "Times it was loaded again after a fault of its device";
    LORA_ANSWERED = Counter "tidegate_lora_answered_requests_total", REQUESTS, &[MODEL, LORA], Load,
        "Requests through a low-rank adapter that ended with an answer; the base has them among its own, too";
    LORA_FAILED = Counter "tidegate_lora_failed_requests_total", REQUESTS, &[MODEL, LORA], Load,
        "Those of the stream that failed";
    LORA_LEFT = Counter "tidegate_lora_left_requests_total", REQUESTS, &[MODEL, LORA], Load,
        "Those that whoever asked has left before their end";
    LORA_TOKENS = Counter "tidegate_lora_tokens_total", Unit::Of("tokens"), &[MODEL, LORA, label("kind", "prompt, cached, generated")], Load,
        "Their tokens: of prompts taken in, of prompts found in kept KV blocks, and of answers; the base has them among its own, too";
    ADAPTER_BUDGET = Gauge "tidegate_adapter_budget_bytes", Unit::Bytes, &[label("adapter", "adapters of this machine")], Now,
        "Bytes that models may hold together on the adapter";
    ADAPTER_USED = Gauge "tidegate_adapter_used_bytes", Unit::Bytes, &[label("adapter", "adapters of this machine")], Now,
        "Bytes that they hold, or are about to";

    REMOTE_ASKED = Counter "tidegate_remote_asked_requests_total", REQUESTS, &[MODEL], Process,
        "Requests that a model of another server was asked";
    REMOTE_ANSWERED = Counter "tidegate_remote_answered_requests_total", REQUESTS, &[MODEL], Process,
        "Those with an answer";
    REMOTE_FAILED = Counter "tidegate_remote_failed_requests_total", REQUESTS, &[MODEL, label("reason", "expired, failed")], Process,
        "Those of the stream that failed";
    REMOTE_LEFT = Counter "tidegate_remote_left_requests_total", REQUESTS, &[MODEL], Process,
        "Those that whoever asked has left before their end";
    REMOTE_REFUSED = Counter "tidegate_remote_refused_requests_total", REQUESTS, &[MODEL], Process,
        "Requests given back because the queue was full or the server is left alone";
    REMOTE_RETRIED = Counter "tidegate_remote_retried_tries_total", Unit::Of("tries"), &[MODEL], Process,
        "Tries after a first one";
    REMOTE_HEDGED = Counter "tidegate_remote_hedged_tries_total", Unit::Of("tries"), &[MODEL], Process,
        "Tries beside one that was slow";
    REMOTE_HEDGE_WINS = Counter "tidegate_remote_hedge_wins_total", Unit::Of("tries"), &[MODEL], Process,
        "Those of them that answered first";
    REMOTE_BREAKER_OPENED = Counter "tidegate_remote_breaker_opened_total", Unit::Of("times"), &[MODEL], Process,
        "Times the server was left alone because it failed";
    REMOTE_BREAKER_OPEN = Gauge "tidegate_remote_breaker_open", Unit::Truth, &[MODEL], Now,
        "Whether the server has failed and is not known to be well since";
    REMOTE_UNDER_WAY = Gauge "tidegate_remote_running_requests", REQUESTS, &[MODEL], Now,
        "Requests under way, those that wait for their turn included";
    REMOTE_WAITING = Gauge "tidegate_remote_waiting_requests", REQUESTS, &[MODEL], Now,
        "Requests that wait for their turn";
    REMOTE_TOKENS = Counter "tidegate_remote_tokens_total", Unit::Of("tokens"), &[MODEL, label("kind", "prompt, generated")], Process,
        "Tokens of prompts that were answered and of answers, by the server's count";
    REMOTE_REASONING = Counter "tidegate_remote_reasoning_tokens_total", Unit::Of("tokens"), &[MODEL], Process,
        "Tokens of answers that were reasoning, by the server's count; they are of kind generated, too";

    GATEWAY_REQUESTS = Counter "tidegate_gateway_requests_total", REQUESTS, &[ENDPOINT, label("status", "statuses of HTTP the gateway gives, 499 for a client that went")], Process,
        "Requests that came to an endpoint, by the status they were answered with";
    GATEWAY_RUNNING = Gauge "tidegate_gateway_running_requests", REQUESTS, &[ENDPOINT], Now,
        "Requests under way, the bodies of their answers included";
    GATEWAY_WAITING = Gauge "tidegate_gateway_waiting_requests", REQUESTS, &[], Now,
        "Requests that wait for what becomes of their record";
    GATEWAY_SECONDS = Histogram "tidegate_gateway_request_seconds", Unit::Seconds, &[ENDPOINT], Process,
        "Time from the head of a request to the end of its answer";
    GATEWAY_FIRST_BYTE = Histogram "tidegate_gateway_first_byte_seconds", Unit::Seconds, &[ENDPOINT], Process,
        "Time from the head of a request to the first byte of its answer";
    GATEWAY_BROKEN = Counter "tidegate_gateway_broken_streams_total", Unit::Of("streams"), &[ENDPOINT], Process,
        "Answers that were streams and broke";
    GATEWAY_REFUSED = Counter "tidegate_gateway_refused_requests_total", REQUESTS, &[label("reason", "19 reasons")], Process,
        "Requests and connections refused before an endpoint saw them";
    GATEWAY_SHED = Counter "tidegate_gateway_shed_requests_total", REQUESTS,
        &[label("source", "sources with load steps"), label("step", "steps of the source")], Process,
        "Requests with which load has done something";

    PLAYGROUND_ENDED = Counter "tidegate_playground_tries_total", Unit::Of("tries"),
        &[label("kind", "model, record"), label("outcome", "answered, failed, left")], Process,
        "Questions and records that were tried on the page and have ended, or were left: by who asked, or after their time; the figures of stages and of records leave them out";
    PLAYGROUND_TOKENS = Counter "tidegate_playground_tokens_total", Unit::Of("tokens"), &[label("kind", "prompt, generated")], Process,
        "Tokens of those, also of what a model had made when it was left: the prompt from its first token on; the figures of the models they asked have them too";

    READY = Gauge "tidegate_ready", Unit::Truth, &[], Now,
        "Whether the pipeline does its work: what `tidegate health --ready` says";
    BUILD = Gauge "tidegate_build_info", Unit::Truth, &[label("version", "one"), label("pipeline", "one")], Now,
        "1, with the program's version and the pipeline's name";
    PROCESS_CPU = Counter "process_cpu_seconds_total", Unit::Seconds, &[], Process,
        "CPU time of the process, user and system";
    PROCESS_START = Gauge "process_start_time_seconds", Unit::Timestamp, &[], Now,
        "When the process began";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes", Unit::Bytes, &[], Now,
        "Bytes of it that are in memory";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes", Unit::Bytes, &[], Now,
        "Bytes of its address space";
    PROCESS_FILES = Gauge "process_open_fds", Unit::Of("files"), &[], Now,
        "Files and connections it has open";
    PROCESS_FILES_MAX = Gauge "process_max_fds", Unit::Of("files"), &[], Now,
        "Most it may have open";
}
