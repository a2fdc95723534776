//! Why a run ends before its input does.

use tidegate_contract::{CommitError, CommitLogError, SinkError, SourceError};

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
    /// A cut could not be taken.
    #[error(transparent)]
    Commit(CommitError),
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

impl From<CommitError> for FlowError {
    fn from(error: CommitError) -> FlowError {
        match error {
            CommitError::Sink { sink, error } => FlowError::Sink { name: sink, error },
            CommitError::State(why) => FlowError::State(why),
            error => FlowError::Commit(error),
        }
    }
}

impl From<CommitLogError> for FlowError {
    fn from(error: CommitLogError) -> FlowError {
        FlowError::Commit(CommitError::Log(error))
    }
}
