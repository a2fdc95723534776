//! What the page and `tidegate top` show beside the rest of the status.

use serde::{Deserialize, Serialize};

use crate::api::{ComponentVersion, SlotCounters};

/// A stage and what it did since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: StageRole,
    /// The model it asks, if it asks one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Records in, out, dropped, dead and retried.
    #[serde(flatten)]
    pub counters: SlotCounters,
    /// Batches it answered, or requests to its model.
    pub batches: u64,
}

/// What a stage does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageRole {
    /// It runs a component.
    #[default]
    Operator,
    /// It asks a model.
    Model,
}

/// A deployment, as the status tells it: of those since the start, the last [`DEPLOYMENTS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentReport {
    /// When it ended, milliseconds since 1970.
    pub at: u64,
    /// The slot.
    pub slot: String,
    /// What was said when it was deployed.
    pub label: String,
    /// What the slot ran before.
    pub old: ComponentVersion,
    /// What it was to run, and runs if nothing went wrong; none of a component that could not be understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ComponentVersion>,
    /// Why it changed nothing, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether the host did it by itself, because a breaker had opened.
    pub fell_back: bool,
}

/// Most deployments that are told.
pub const DEPLOYMENTS: usize = 20;
