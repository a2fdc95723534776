//! Names that spans have, made once: a span of a record has no text of its own but the record's place.

use std::fmt::Write as _;

use tidegate_record::RecordId;
use tidegate_telemetry::trace::Text;

use crate::topology::Topology;

/// Of sources, stages and sinks, in the order of the topology.
pub(super) struct Named {
    pub sources: Vec<SourceNames>,
    pub stages: Vec<StageNames>,
    pub sinks: Vec<SinkNames>,
}

pub(super) struct SourceNames {
    pub name: Text,
    pub topic: Option<Text>,
    /// What its spans are called.
    pub receive: Text,
}

pub(super) struct StageNames {
    pub name: Text,
    pub process: Text,
}

pub(super) struct SinkNames {
    pub name: Text,
    pub send: Text,
    pub answer: Text,
}

impl Named {
    pub(super) fn new(topology: &Topology) -> Named {
        let text = |text: String| Text::name(&text);
        Named {
            sources: (topology.sources.iter())
                .map(|source| {
                    let identity = source.identities.first();
                    let topic = identity.and_then(|identity| identity.strip_prefix("kafka topic "));
                    SourceNames {
                        name: Text::name(&source.name),
                        topic: topic.map(Text::name),
                        receive: text(format!("receive {}", topic.unwrap_or(&source.name))),
                    }
                })
                .collect(),
            stages: (topology.stages.iter())
                .map(|stage| StageNames {
                    name: Text::name(&stage.name),
                    process: text(format!("process {}", stage.name)),
                })
                .collect(),
            sinks: (topology.sinks.iter())
                .map(|sink| SinkNames {
                    name: Text::name(sink),
                    send: text(format!("send {sink}")),
                    answer: text(format!("answer {sink}")),
                })
                .collect(),
        }
    }
}

/// A record's place, as spans have it.
pub(super) fn place(id: RecordId) -> String {
    let mut place = String::with_capacity(48);
    // Writing to a string cannot fail.
    let _ = write!(place, "{id}");
    place
}
