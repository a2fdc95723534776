//! What the rooms count, as samples: of those that do not know metrics by themselves, and of the process.

mod gateway;
mod models;
mod operators;
mod playground;
mod process;
mod revisions;

pub(crate) use self::gateway::{GatewayNow, gateway};
pub(crate) use self::models::{ModelNow, models, remote};
pub(crate) use self::operators::operators;
pub(crate) use self::playground::{PlaygroundNow, playground};
pub(crate) use self::process::{BEGAN, process};
pub(crate) use self::revisions::revisions;

use tidegate_contract::OperatorVersion;

/// Digits of a revision's digest that are its name in metrics.
const DIGITS: usize = 16;

/// What a revision is called in metrics, in those that the host counts of it and in those that it measures itself.
fn short(version: &OperatorVersion) -> &str {
    let digits = version.revision.digest.trim_start_matches("sha256:");
    digits.get(..DIGITS).unwrap_or(digits)
}
