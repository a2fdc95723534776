//! Where a pipeline's dead letters are read again.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_connect::file::FileLetters;
use tidegate_connect::kafka::KafkaLetters;
use tidegate_contract::{LetterSeal, LetterStore, Recovered};
use tidegate_control::config::{Pipeline, SinkKind};
use tidegate_state::StateDirectory;

use super::again::Again;
use super::committed::DEAD_LETTERS;
use crate::letters::{Letters, Sender};

/// How far the file of dead letters is committed, as the commit log has it.
pub(crate) fn committed(pipeline: &Pipeline, recovered: &Recovered) -> Arc<AtomicU64> {
    let known = recovered.sink(DEAD_LETTERS);
    let length = match &pipeline.dead_letters {
        SinkKind::File { path } => known
            .filter(|known| known.identity == path.display().to_string())
            .map_or(0, |known| known.length),
        _ => 0,
    };
    Arc::new(AtomicU64::new(length))
}

/// With what letters keep private attributes.
pub(crate) fn seal(state: &StateDirectory) -> LetterSeal {
    LetterSeal::new(Arc::new(state.key().clone()))
}

/// The letters of a pipeline. To send them, `seal` opens their private attributes.
pub(crate) fn open(
    pipeline: &Pipeline,
    committed: Arc<AtomicU64>,
    again: Vec<Again>,
    seal: Option<LetterSeal>,
) -> Letters {
    let store: Result<Arc<dyn LetterStore>, String> = match &pipeline.dead_letters {
        SinkKind::File { path } => Ok(Arc::new(FileLetters::new(path.clone(), committed))),
        SinkKind::Kafka(topic) => Ok(Arc::new(KafkaLetters::new(
            topic.brokers.join(","),
            &topic.topic,
            topic.properties.clone(),
        ))),
        SinkKind::Stdout | SinkKind::Gateway { .. } | SinkKind::Output { .. } => Err(
            "dead letters go where they cannot be read again; send them to a file or a topic with [dead-letters]".into(),
        ),
    };
    Letters::new(store, Sender::new(pipeline, again, seal))
}
