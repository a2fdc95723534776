//! Why a run ends before its input does.

use tidegate_contract::{CommitLogError, SinkError, SourceError};

/// A run that cannot go on. What the last cut holds stays; a restart goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// A source failed.
    #[error("source {name}: {error}")]
    Source {
        /// Its name.
        name: String,
        /// What it said.
        error: SourceError,
    },
    /// A sink failed.
    #[error("sink {name}: {error}")]
    Sink {
        /// Its name.
        name: String,
        /// What it said.
        error: SinkError,
    },
    /// A model has ended.
    #[error("stage {name}: {why}")]
    Model {
        /// Name of the stage.
        name: String,
        /// Why.
        why: String,
    },
    /// An earlier commit of this run failed, of this worker or another: what the sinks hold now belongs to no cut.
    #[error("nothing is committed after a commit that failed")]
    AfterFailure,
    /// The commit log failed.
    #[error(transparent)]
    Commit(#[from] CommitLogError),
    /// The commit log does not fit the pipeline or its input.
    #[error("the state does not fit the pipeline: {0}")]
    State(String),
    /// A worker's thread could not be started or panicked; a defect of Tidegate.
    #[error("worker {worker} failed: {why}")]
    Worker {
        /// Its number.
        worker: usize,
        /// The panic's message.
        why: String,
    },
}
