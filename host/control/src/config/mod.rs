//! The pipeline file: what was typed, and what it means.

mod guarantee;
mod mistake;
mod pipeline;
mod text;

pub use guarantee::{Guarantee, GuaranteePart, Level, guarantee};
pub use mistake::{Mistake, Mistakes};
pub use pipeline::{
    AdapterChoice, Decoding, Format, Grant, Input, Into, KafkaSink, KafkaSource, Limits, Model,
    ModelStage, Node, OperatorStage, Order, Pipeline, Sink, SinkKind, Source, SourceKind, Stage,
    StageKind, Start, Truncated,
};
pub use text::Position;
