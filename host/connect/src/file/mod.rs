//! Files of lines: a source whose offsets are byte positions, a sink that can be cut back.

mod letters;
mod sink;
mod source;

pub use letters::FileLetters;
pub use sink::FileSink;
pub use source::{FileSource, FileSourceOptions};
