//! The audit log: lines of JSON that are chained by hashes, and closed by marks that only whoever has the key can make.
//! `docs/src/reference/audit.md` has the format.
//!
//! What this does not know: records, models, answers. A line is a JSON object that somebody else made, with a number, the
//! hash of the line before and its own around it, and a content that is sealed.

mod chain;
mod committed;
mod door;
mod files;
mod gap;
mod leave;
mod line;
mod log;
mod mark;
mod recover;
mod verify;

pub use chain::{AUDIT_START, AuditHead};
pub use committed::{Committed, ONE_APPEND, is_written};
pub use files::{FilesFlaw, files};
pub use gap::{gap, left, told};
pub use leave::{cut_short, settle};
pub use line::{NotOpened, opened};
pub use log::{AuditFile, AuditLimits};
pub use verify::{Against, AuditFlaw, CommittedLine, OpenEnd, Verified, closed, taken_by, verify};
