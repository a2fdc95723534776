//! The audit log: lines of JSON that are chained by hashes. `docs/src/reference/audit.md` has the format.
//!
//! What this does not know: records, models, answers. A line is a JSON object that somebody else made, with a number, the
//! hash of the line before and its own around it, and a content that is sealed.

mod chain;
mod files;
mod log;
mod verify;

pub use chain::{AUDIT_START, AuditHead, opened};
pub use files::{FilesFlaw, files};
pub use log::{AuditFile, AuditLimits};
pub use verify::{AuditFlaw, Verified, verify};
