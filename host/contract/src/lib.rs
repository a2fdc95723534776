//! The ports: the traits and plain types by which the rooms of the host meet.
//!
//! `flow` drives these traits and knows none of their implementations; `operator`, `serving`, `infer`, `connect` and
//! `state` implement them and know nothing of each other. This crate knows no wasm, no GPU, no network and no disk.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod audit;
mod callers;
mod commit;
mod decoder;
mod entity;
mod feed;
mod files;
mod guarantee;
mod ingest;
mod keyed;
mod letters;
mod mark;
mod model;
mod model_error;
mod operator;
mod parameters;
mod prompt;
mod sink;
mod source;
mod template_arguments;
mod tokens;
mod vocabulary;
mod wishes;

pub use audit::{AuditContent, AuditDoor, AuditLog, Audited, DoorShut, Shown};
pub use callers::{Became, CallerId, Callers, Listener, Tally, Terms};
pub use commit::{
    Assignment, CommitError, CommitLog, CommitLogError, Committer, Cut, Entry, EntryCipher,
    EntryKey, EntryPart, KeptPosition, MoveState, Moved, Participants, Recovered, Settled,
    SinkPosition, SlotVersion, TaskCut, TaskId, TaskImage,
};
pub use decoder::{
    Adjustment, BLOCK, DecodeError, Decoder, DecoderShape, Encoder, EncoderOutput, EncoderText,
    FedToken, MOST_LOGPROBS, Ran, SUMS_BY_ROWS, Sampled, Sampling, ScoreScale, StepSequence,
    check_texts,
};
pub use entity::{Aggregation, Entity};
pub use feed::{ChoiceEnd, TokenEvent, TokenFeed, TokenWhat};
pub use files::{AppendFile, FileLayer, InUse, write_in_pieces};
pub use guarantee::{CommitPoint, Level, SinkClass, SourceClass, Wanted};
pub use ingest::{
    IdempotencyKey, IngestBatch, IngestError, IngestLog, IngestRecord, Ingested, LoggedRecord,
};
pub use keyed::{KeyedChange, KeyedLog, KeyedLogError, KeyedLoss, KeyedValue};
pub use letters::{
    LETTER_PRIVATE, LetterError, LetterSeal, LetterStore, PrivateAttributes, SealedFor,
    WrittenLetter,
};
pub use mark::{CutWitness, Keeper, LARGEST_MARK, Mark, Store, UnknownMark};
pub use model::{
    Answer, CLASS_BESIDE, Call, Choice, Conversation, Finish, Function, FunctionChoice, Lane,
    MOST_CALLS, MOST_DOCUMENTS, MOST_STOPS, Made, Makes, Message, Model, ModelFacts, ModelTask,
    Parameters, Piece, Prompt, Reply, Request, RequestId, Role, Speculation, Structure, Timings,
    TokenLogprob, share_beside,
};
pub use model_error::{Blame, ModelError};
pub use operator::{
    DeadLetterCause, Effects, Handling, KeptRevision, Loss, Operator, OperatorError,
    OperatorVersion, Processed, Slot,
};
pub use prompt::{PromptError, PromptPart, PromptTemplate};
pub use sink::{
    DeadLetter, HostHeaders, LETTER_HEADERS, LetterForm, LetterHeader, RefusedRecord, Sink,
    SinkError,
};
pub use source::{
    Assigned, Done, Lag, Partition, Rejected, Source, SourceError, SourceEvent, Unread,
};
pub use template_arguments::{ArgumentError, TemplateArguments};
pub use tokens::{AnswerEnd, AnswerLane, Through, TokenHandler};
pub use vocabulary::GgufVocabulary;
pub use wishes::{AskingRecord, Wishes};
