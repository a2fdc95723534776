//! The pipeline as a graph, with a place for each of its parts: the same for `tidegate top` and the page.
//!
//! Its ways lead from the first layer to the last. Whoever draws it chooses how far layers stand from each other, and
//! whether they stand side by side or below each other.

mod layout;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use tidegate_telemetry::{Sender, Taker};

use crate::config::{Input, Node, Pipeline, SinkKind, SourceKind, StageKind};

/// The name of the node of dead letters. No part of a pipeline has a name with a space.
pub const DEAD_LETTERS: &str = "dead letters";

/// The parts of a pipeline, and the ways between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Sources, stages and sinks, each in the order of the file, then dead letters.
    pub nodes: Vec<GraphNode>,
    /// Ways that records go; those to the dead letters are not among them.
    pub edges: Vec<GraphEdge>,
}

/// A part of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Its name, which no other has.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// What it reads, writes or asks, in a few words.
    pub what: String,
    /// Its layer, from 0.
    pub layer: u32,
    /// Where it stands in its layer, in widths of a node. No two of a layer are nearer than 1.
    pub place: f32,
}

/// What a part of a pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Records come from it.
    Source,
    /// A stage that runs a component.
    Operator,
    /// A stage that asks a model.
    Model,
    /// Records go to it.
    Sink,
    /// Records that have failed go to it.
    DeadLetters,
}

/// A way from one part of a pipeline to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphEdge {
    /// The name of the sender.
    pub from: String,
    /// The name of the taker.
    pub to: String,
    /// The outputs that go this way: the name of each, of the main one an empty text.
    pub outputs: Vec<String>,
    /// Records that went this way since the start.
    pub records: u64,
    /// Where it passes the layers between its ends, one place for each.
    pub through: Vec<f32>,
}

/// The ends of an edge as the meters know them, in the order of [`Graph::edges`].
pub type Way = (Sender, Taker);

impl Graph {
    /// The graph of a pipeline, with every way at zero.
    pub fn of(pipeline: &Pipeline) -> (Graph, Vec<Way>) {
        let (sources, stages) = (pipeline.sources.len(), pipeline.stages.len());
        let mut ways: Vec<(Way, Vec<String>)> = Vec::new();
        let mut take = |inputs: &[Input], taker: Taker| {
            for input in inputs {
                let sender = match input.from {
                    Node::Source(source) => Sender::Source(source),
                    Node::Stage(stage) => Sender::Stage(stage),
                };
                let output = input.output.clone().unwrap_or_default();
                match ways.iter_mut().find(|way| way.0 == (sender, taker)) {
                    Some((_, outputs)) => outputs.push(output),
                    None => ways.push(((sender, taker), vec![output])),
                }
            }
        };
        for (index, stage) in pipeline.stages.iter().enumerate() {
            take(&stage.inputs, Taker::Stage(index));
        }
        for (index, sink) in pipeline.sinks.iter().enumerate() {
            take(&sink.inputs, Taker::Sink(index));
        }
        let sender = |sender| match sender {
            Sender::Source(source) => source,
            Sender::Stage(stage) => sources + stage,
        };
        let taker = |taker| match taker {
            Taker::Stage(stage) => sources + stage,
            Taker::Sink(sink) => sources + stages + sink,
        };
        let mut nodes = parts(pipeline);
        let ends: Vec<_> = ways
            .iter()
            .map(|((from, to), _)| (sender(*from), taker(*to)))
            .collect();
        let last = (sources + stages..nodes.len()).collect::<Vec<_>>();
        let laid = layout::layout(nodes.len(), &ends, &last);
        for (node, (layer, place)) in nodes.iter_mut().zip(&laid.nodes) {
            (node.layer, node.place) = (*layer, *place);
        }
        let through = laid.edges.into_iter();
        let edges = ways.iter().zip(ends).zip(through);
        let edges = edges.map(|(((_, outputs), (from, to)), through)| GraphEdge {
            from: nodes[from].name.clone(),
            to: nodes[to].name.clone(),
            outputs: outputs.clone(),
            records: 0,
            through,
        });
        let edges = edges.collect();
        let ways = ways.into_iter().map(|(way, _)| way).collect();
        (Graph { nodes, edges }, ways)
    }
}

/// The parts of a pipeline, not yet at their places.
fn parts(pipeline: &Pipeline) -> Vec<GraphNode> {
    let node = |name: &str, kind, what| GraphNode {
        name: name.to_owned(),
        kind,
        what,
        layer: 0,
        place: 0.0,
    };
    let sources = pipeline.sources.iter();
    let sources = sources.map(|source| node(&source.name, NodeKind::Source, read(&source.kind)));
    let stages = pipeline.stages.iter().map(|stage| match &stage.kind {
        StageKind::Operator(operator) => {
            let file = operator.component.file_name();
            let file = file.map(|name| name.to_string_lossy().into_owned());
            node(&stage.name, NodeKind::Operator, file.unwrap_or_default())
        }
        StageKind::Model(asks) => {
            let model = pipeline.models.get(asks.model);
            let model = model.map_or("", |model| &model.name);
            node(&stage.name, NodeKind::Model, format!("model {model}"))
        }
    });
    let sinks = pipeline.sinks.iter();
    let sinks = sinks.map(|sink| node(&sink.name, NodeKind::Sink, written(&sink.kind)));
    let letters = node(
        DEAD_LETTERS,
        NodeKind::DeadLetters,
        written(&pipeline.dead_letters),
    );
    sources
        .chain(stages)
        .chain(sinks)
        .chain([letters])
        .collect()
}

fn read(kind: &SourceKind) -> String {
    match kind {
        SourceKind::File { paths } if paths.len() == 1 => "file".to_owned(),
        SourceKind::File { paths } => format!("{} files", paths.len()),
        SourceKind::Stdin => "standard input".to_owned(),
        SourceKind::Kafka(kafka) => format!("topic {}", kafka.topic),
        SourceKind::Gateway(_) => "requests over HTTP".to_owned(),
        SourceKind::Ingest(_) => "records over HTTP".to_owned(),
    }
}

fn written(kind: &SinkKind) -> String {
    match kind {
        SinkKind::File { path } => {
            let file = path.file_name().map(|name| name.to_string_lossy());
            format!("file {}", file.unwrap_or_default())
        }
        SinkKind::Stdout => "standard output".to_owned(),
        SinkKind::Kafka(kafka) => format!("topic {}", kafka.topic),
        SinkKind::Gateway { .. } => "answers over HTTP".to_owned(),
        SinkKind::Output { .. } => "events over HTTP".to_owned(),
    }
}
