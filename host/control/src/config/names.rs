//! The names of a pipeline: who takes from whom.

use std::collections::BTreeMap;

use super::findings::{Findings, Typed};
use super::nearest::nearest;
use super::pipeline::{Input, Node, Sink, Stage};
use super::text::Span;
use super::typed::{TypedAsk, TypedFile, TypedStageKind};

/// Names under which something else has its place: the position of the dead letters in the commit log, and the stage of
/// letters about input that cannot be decoded, where a sink that refuses a record would stand too.
const RESERVED_FOR_SINKS: [(&str, &str); 2] = [
    (
        "dead-letters",
        "of the dead letters, which [dead-letters] describes",
    ),
    (
        "decode",
        "under which undecodable input becomes a dead letter",
    ),
];

/// Everything that has a name and takes or gives records.
pub(crate) struct Names {
    nodes: BTreeMap<String, (Named, Span)>,
    /// Sources and stages in the order of the file, for defaults and warnings.
    pub(crate) sources: Vec<(String, Span)>,
    stages: Vec<Option<(String, Span)>>,
    /// Stages whose records all go one way.
    without_outputs: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Node(Node),
    Sink,
}

impl Named {
    fn word(self) -> &'static str {
        match self {
            Named::Node(Node::Source(_)) => "source",
            Named::Node(Node::Stage(_)) => "stage",
            Named::Sink => "sink",
        }
    }
}

impl Names {
    pub(crate) fn gather(found: &Findings, typed: &TypedFile) -> Self {
        let mut names = Names {
            nodes: BTreeMap::new(),
            sources: Vec::new(),
            stages: Vec::new(),
            without_outputs: Vec::new(),
        };
        for (index, source) in typed.sources.iter().enumerate() {
            names.add(found, &source.name, Named::Node(Node::Source(index)));
            let shown = (source.name.value.clone(), source.name.place.clone());
            names.sources.push(shown);
        }
        for (index, stage) in typed.stages.iter().enumerate() {
            if let Some(name) = &stage.name {
                names.add(found, name, Named::Node(Node::Stage(index)));
            }
            let shown = stage.name.as_ref();
            names
                .stages
                .push(shown.map(|name| (name.value.clone(), name.place.clone())));
            let without_outputs = match &stage.kind {
                Some(TypedStageKind::Model(asks)) => !matches!(asks.ask, TypedAsk::Classify { .. }),
                _ => false,
            };
            names.without_outputs.push(without_outputs);
        }
        for sink in &typed.sinks {
            let reserved = RESERVED_FOR_SINKS
                .iter()
                .find(|(name, _)| *name == sink.name.value);
            if let Some((name, whose)) = reserved {
                found.about(
                    &sink.name,
                    format!("{name:?} is the name {whose}; choose another"),
                );
            }
            names.add(found, &sink.name, Named::Sink);
        }
        names
    }

    fn add(&mut self, found: &Findings, name: &Typed<String>, named: Named) {
        if let Some((other, place)) = self.nodes.get(&name.value) {
            let line = found.text.position(place).line;
            found.about(
                name,
                format!(
                    "{:?} is the name of a {} already (line {line}); names are unique over sources, stages and sinks",
                    name.value,
                    other.word()
                ),
            );
            return;
        }
        self.nodes
            .insert(name.value.clone(), (named, name.place.clone()));
    }

    /// What a stage takes if it does not say: the stage before, or every source.
    pub(crate) fn before(&self, index: usize, place: &Span) -> Vec<Input> {
        let input = |from| Input {
            from,
            output: None,
            place: place.clone(),
        };
        match index.checked_sub(1) {
            Some(before) => vec![input(Node::Stage(before))],
            None => (0..self.sources.len())
                .map(|source| input(Node::Source(source)))
                .collect(),
        }
    }

    /// The inputs of stage `index`; a sink has the index after the last.
    pub(crate) fn inputs(
        &self,
        found: &Findings,
        typed: &[Typed<String>],
        index: usize,
    ) -> Vec<Input> {
        let mut inputs: Vec<Input> = Vec::new();
        for input in typed {
            let Some((from, output)) = self.input(found, input, index) else {
                continue;
            };
            if inputs
                .iter()
                .any(|other| other.from == from && other.output == output)
            {
                found.about(input, format!("{:?} stands here twice", input.value));
                continue;
            }
            inputs.push(Input {
                from,
                output,
                place: input.place.clone(),
            });
        }
        inputs
    }

    fn input(
        &self,
        found: &Findings,
        input: &Typed<String>,
        index: usize,
    ) -> Option<(Node, Option<String>)> {
        let (name, output) = match input.value.split_once('.') {
            Some((name, output)) => (name, Some(output.to_owned())),
            None => (input.value.as_str(), None),
        };
        let what = match self.nodes.get(name) {
            None => {
                let earlier = self.nodes.iter().filter(|(_, (named, _))| match named {
                    Named::Node(Node::Stage(stage)) => *stage < index,
                    Named::Node(Node::Source(_)) => true,
                    Named::Sink => false,
                });
                let known: Vec<&str> = earlier.map(|(name, _)| name.as_str()).collect();
                match nearest(name, known.iter().copied()) {
                    Some(near) => {
                        format!("there is no source or stage {name:?}; did you mean {near:?}?")
                    }
                    None => format!(
                        "there is no source or stage {name:?}; to be had here: {}",
                        known.join(", ")
                    ),
                }
            }
            Some((Named::Sink, _)) => format!("{name:?} is a sink: nothing comes out of it"),
            Some((Named::Node(Node::Stage(stage)), _)) if *stage == index => {
                format!("{name:?} is this stage itself; take a source or an earlier stage")
            }
            Some((Named::Node(Node::Stage(stage)), place)) if *stage > index => format!(
                "stage {name:?} comes later (line {}); a stage takes from sources and earlier stages",
                found.text.position(place).line
            ),
            Some((Named::Node(node), _)) => match (&output, node) {
                (Some(output), Node::Source(_)) => {
                    format!("{name:?} is a source and has no output {output:?}; write {name:?}")
                }
                (Some(output), Node::Stage(stage))
                    if self.without_outputs.get(*stage) == Some(&true) =>
                {
                    format!("{name:?} asks a model and has no output {output:?}; write {name:?}")
                }
                (Some(output), _) if output.is_empty() => {
                    format!(
                        "the output of {name:?} has no name; write {name:?} for its main output"
                    )
                }
                _ => return Some((*node, output)),
            },
        };
        found.about(input, what);
        None
    }

    /// Whatever gives records should have a taker.
    pub(crate) fn warn_unused(&self, found: &Findings, stages: &[Stage], sinks: &[Sink]) {
        let taken: Vec<&Input> = stages
            .iter()
            .flat_map(|stage| &stage.inputs)
            .chain(sinks.iter().flat_map(|sink| &sink.inputs))
            .collect();
        for (index, (name, place)) in self.sources.iter().enumerate() {
            if !taken.iter().any(|input| input.from == Node::Source(index)) {
                found.warning(
                    place,
                    &format!("source.{name}"),
                    "no stage or sink takes from this source",
                );
            }
        }
        for (index, named) in self.stages.iter().enumerate() {
            let Some((name, place)) = named else { continue };
            let mut takers = taken
                .iter()
                .filter(|input| input.from == Node::Stage(index))
                .peekable();
            let key = format!("stage.{name}");
            if takers.peek().is_none() {
                found.warning(place, &key, "no stage or sink takes from this stage");
            } else if takers.all(|input| input.output.is_some()) {
                found.warning(place, &key, "nothing takes the main output of this stage");
            }
        }
    }
}
