//! The names that OpenTelemetry's semantic conventions give to what spans say. All that are used stand here: those of
//! GenAI are still in development there, and change.

/// What a model was asked for: `chat`, `text_completion`, `embeddings`.
pub const GEN_AI_OPERATION: &str = "gen_ai.operation.name";
/// Whose model it is.
pub const GEN_AI_PROVIDER: &str = "gen_ai.provider.name";
/// The model that was asked for.
pub const GEN_AI_REQUEST_MODEL: &str = "gen_ai.request.model";
/// Most tokens that were asked for.
pub const GEN_AI_REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// Seed of the sampling.
pub const GEN_AI_REQUEST_SEED: &str = "gen_ai.request.seed";
/// How many answers were asked for, where it is not one.
pub const GEN_AI_REQUEST_CHOICES: &str = "gen_ai.request.choice.count";
/// Whether the answer is read as it is made.
pub const GEN_AI_REQUEST_STREAM: &str = "gen_ai.request.stream";
/// The model that answered.
pub const GEN_AI_RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The id of the answer.
pub const GEN_AI_RESPONSE_ID: &str = "gen_ai.response.id";
/// Why each answer ended.
pub const GEN_AI_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Tokens of the prompt.
pub const GEN_AI_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens of the answers.
pub const GEN_AI_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";

/// The operation that makes an answer to a chat.
pub const CHAT: &str = "chat";
/// The operation that goes on with a text.
pub const TEXT_COMPLETION: &str = "text_completion";
/// The operation that makes a vector.
pub const EMBEDDINGS: &str = "embeddings";
/// The operations that find a label, find entities and order texts: names of this project, the conventions have none.
pub const CLASSIFY: &str = "classify";
/// See [`CLASSIFY`].
pub const RECOGNIZE: &str = "recognize";
/// See [`CLASSIFY`].
pub const RERANK: &str = "rerank";
/// The provider that a model of this process has.
pub const OWN_PROVIDER: &str = "tidegate";
/// The provider of a model that is asked by OpenAI's protocol, whosever it is.
pub const REMOTE_PROVIDER: &str = "openai";

/// What kind of system records came from or go to.
pub const MESSAGING_SYSTEM: &str = "messaging.system";
/// The topic.
pub const MESSAGING_DESTINATION: &str = "messaging.destination.name";
/// The partition of it.
pub const MESSAGING_PARTITION: &str = "messaging.destination.partition.id";
/// The place in the partition.
pub const MESSAGING_OFFSET: &str = "messaging.kafka.offset";
/// `receive`, `process` or `send`.
pub const MESSAGING_OPERATION: &str = "messaging.operation.type";
/// Records of a batch.
pub const MESSAGING_BATCH: &str = "messaging.batch.message_count";

/// Method of a request.
pub const HTTP_METHOD: &str = "http.request.method";
/// The route that it took.
pub const HTTP_ROUTE: &str = "http.route";
/// Status of its answer.
pub const HTTP_STATUS: &str = "http.response.status_code";
/// In which way something failed.
pub const ERROR_TYPE: &str = "error.type";

/// A source, stage or sink of the pipeline.
pub const SOURCE: &str = "tidegate.source";
/// Stage of the pipeline.
pub const STAGE: &str = "tidegate.stage";
/// Sink of the pipeline.
pub const SINK: &str = "tidegate.sink";
/// Digest of the component that ran.
pub const COMPONENT: &str = "tidegate.component";
/// Digest of the revision that ran: component, configuration, grants and limits.
pub const REVISION: &str = "tidegate.revision";
/// What an operator made of a record.
pub const OUTCOME: &str = "tidegate.outcome";
/// Records that an operator was given at once.
pub const BATCH_RECORDS: &str = "tidegate.batch.records";
/// Those of them that are traced.
pub const BATCH_TRACED: &str = "tidegate.batch.traced";
/// Which attempt it was, counted from 1.
pub const ATTEMPT: &str = "tidegate.attempt";
/// The record.
pub const RECORD: &str = "tidegate.record";
/// Number of a cut.
pub const CUT: &str = "tidegate.cut";
/// Records that a cut is the end of.
pub const CUT_RECORDS: &str = "tidegate.cut.records";
/// Records that wait in a cut.
pub const CUT_IN_FLIGHT: &str = "tidegate.cut.in_flight";
/// Number of a worker.
pub const WORKER: &str = "tidegate.worker";
