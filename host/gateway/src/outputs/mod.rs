//! Outputs: what the pipeline wrote, to be followed by whoever connects.
//!
//! An output is a sink ([`OutputSink`]) before a bounded log in memory ([`OutputLog`]), and `GET /v1/outputs/NAME` reads
//! that log as server-sent events or over a WebSocket. Records are seen once they are flushed at a cut, before it is known
//! to hold, so that the sink is `SinkClass::AtLeastOnce`: a cut that comes to nothing, or a crash, shows them again. Each
//! process has an epoch of its own, and an id names epoch and offset.
//!
//! Nothing is left out in silence: a reader that falls out of the log, or comes with an id that is too old or of another
//! epoch, is told of the gap before it goes on.

mod endpoint;
mod events;
mod feed;
mod log;
mod meter;
mod origin;
mod reader;
mod sink;
mod websocket;

pub use endpoint::{OutputOptions, Outputs};
pub use feed::OutputFeed;
pub use log::{OutputLimits, OutputLog};
pub use sink::OutputSink;
