//! From what was typed to what it means: names become indexes, and what only the whole file can say is said.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::disk::Directory;
use super::files::{Files, check_component, check_model, check_state, source_files};
use super::nearest::nearest;
use super::pipeline::{
    Decoding, Input, KafkaSource, Model, ModelStage, Node, OperatorStage, Pipeline, Sink, SinkKind,
    Source, SourceKind, Stage, StageKind, Truncated,
};
use super::reader::{Findings, Typed};
use super::text::Place;
use super::typed::{
    TypedAdmin, TypedFile, TypedModelStage, TypedSource, TypedSourceKind, TypedStage,
    TypedStageKind,
};

/// Default of `max-tokens`.
const MAX_TOKENS: usize = 256;

/// The meaning of a file. It may be used only if `found` has no mistake: what could not be read is left out.
pub(crate) fn resolve(
    found: &Findings,
    directory: &Directory,
    file: PathBuf,
    typed: TypedFile,
) -> Pipeline {
    let names = Names::gather(found, &typed);
    let mut files = Files::new(found, directory);
    let name = typed.name.map(|name| name.value).unwrap_or_default();
    let state = check_state(found, directory, typed.state.as_ref());

    let sources: Vec<Source> = typed
        .sources
        .into_iter()
        .filter_map(|source| resolve_source(source, &name, &mut files))
        .collect();
    check_stdin(found, &sources, &names);
    let mut used_models = vec![false; typed.models.len()];
    let model_places: Vec<Typed<String>> = typed
        .models
        .iter()
        .map(|model| model.name.clone())
        .collect();
    let models: Vec<Model> = typed
        .models
        .into_iter()
        .map(|model| Model {
            path: match &model.path {
                Some(path) => check_model(found, directory, path),
                None => PathBuf::new(),
            },
            name: model.name.value,
            adapter: model.adapter,
            sequences: model.sequences,
            context: model.context,
            queue: model.queue,
        })
        .collect();

    let stage_count = typed.stages.len();
    let mut stages = Vec::with_capacity(stage_count);
    for (index, stage) in typed.stages.into_iter().enumerate() {
        let inputs = match &stage.inputs {
            Some(inputs) => names.inputs(found, inputs, index),
            None => names.before(index, &stage.place),
        };
        stages.extend(resolve_stage(
            found,
            directory,
            stage,
            inputs,
            &models,
            &mut used_models,
        ));
    }

    let mut sinks = Vec::new();
    for sink in typed.sinks {
        let inputs = match &sink.inputs {
            Some(inputs) => names.inputs(found, inputs, stage_count),
            None => names.before(stage_count, &sink.name.place),
        };
        if let Some(kind) = sink.kind {
            sinks.push(Sink {
                kind: files.sink(kind),
                name: sink.name.value,
                inputs,
                encoding: sink.encoding,
            });
        }
    }
    let dead_letters = match typed.dead_letters.flatten() {
        Some(kind) => files.sink(kind),
        None => SinkKind::File {
            path: state.join("dead-letters.jsonl"),
        },
    };
    let summary = typed.summary.map(|path| files.written(&path));
    files.check_clashes();

    // Where inputs are wrong, what is not taken follows from that.
    if found.is_clean() {
        names.warn_unused(found, &stages, &sinks);
    }
    for (name, used) in model_places.iter().zip(used_models) {
        if !used {
            found.warning(
                &name.place,
                &name.key,
                "no stage asks this model; it is not loaded",
            );
        }
    }
    warn_workers(found, typed.workers.as_ref(), &sources);
    Pipeline {
        file,
        name,
        state,
        workers: typed
            .workers
            .map(|workers| usize::try_from(workers.value).unwrap_or(usize::MAX)),
        cut_interval: typed
            .cut_interval
            .unwrap_or(std::time::Duration::from_millis(200)),
        batch: typed.batch.unwrap_or(256),
        summary,
        sources,
        models,
        stages,
        sinks,
        dead_letters,
        admin: match typed.admin {
            TypedAdmin::Default => Some(([127, 0, 0, 1], 0).into()),
            TypedAdmin::Off => None,
            TypedAdmin::Address(address) => Some(address),
        },
        warnings: Vec::new(),
        text: found.text.clone(),
    }
}

/// Everything that has a name and takes or gives records.
struct Names {
    nodes: BTreeMap<String, (Named, Place)>,
    /// Sources and stages in the order of the file, for defaults and warnings.
    sources: Vec<(String, Place)>,
    stages: Vec<Option<(String, Place)>>,
    models: Vec<bool>,
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
    fn gather(found: &Findings, typed: &TypedFile) -> Self {
        let mut names = Names {
            nodes: BTreeMap::new(),
            sources: Vec::new(),
            stages: Vec::new(),
            models: Vec::new(),
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
            let asks = matches!(stage.kind, Some(TypedStageKind::Model(_)));
            names.models.push(asks);
        }
        for sink in &typed.sinks {
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
    fn before(&self, index: usize, place: &Place) -> Vec<Input> {
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
    fn inputs(&self, found: &Findings, typed: &[Typed<String>], index: usize) -> Vec<Input> {
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
                (Some(output), Node::Stage(stage)) if self.models.get(*stage) == Some(&true) => {
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
    fn warn_unused(&self, found: &Findings, stages: &[Stage], sinks: &[Sink]) {
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

fn resolve_source(typed: TypedSource, pipeline: &str, files: &mut Files<'_>) -> Option<Source> {
    let kind = match typed.kind? {
        TypedSourceKind::File(paths) => SourceKind::File {
            paths: source_files(files, &paths),
        },
        TypedSourceKind::Stdin => SourceKind::Stdin,
        TypedSourceKind::Kafka {
            topic,
            group,
            instance,
            start,
        } => SourceKind::Kafka(KafkaSource {
            brokers: topic.brokers,
            topic: topic.topic,
            group: group.unwrap_or_else(|| pipeline.to_owned()),
            instance,
            start,
            properties: topic.properties,
        }),
    };
    Some(Source {
        name: typed.name.value,
        kind,
        decoding: Decoding {
            format: typed.format,
            key: typed.key,
            event_time: typed.event_time,
            required: typed.required,
            max_record: typed.max_record,
            delimiter: typed.delimiter,
        },
    })
}

fn check_stdin(found: &Findings, sources: &[Source], names: &Names) {
    let mut readers = sources
        .iter()
        .filter(|source| matches!(source.kind, SourceKind::Stdin));
    let Some(first) = readers.next() else { return };
    for second in readers {
        if let Some((_, place)) = names.sources.iter().find(|(name, _)| *name == second.name) {
            found.mistake(
                place,
                &format!("source.{}.type", second.name),
                format!("standard input is read by source {:?} already", first.name),
            );
        }
    }
}

fn resolve_stage(
    found: &Findings,
    directory: &Directory,
    typed: TypedStage,
    inputs: Vec<Input>,
    models: &[Model],
    used_models: &mut [bool],
) -> Option<Stage> {
    let kind = match typed.kind? {
        TypedStageKind::Operator(operator) => StageKind::Operator(OperatorStage {
            component: check_component(found, directory, &operator.component),
            config: operator.config,
            grants: operator.grants,
            limits: operator.limits,
            retries: operator.retries,
        }),
        TypedStageKind::Model(stage) => {
            let name = &stage.model.value;
            let Some(model) = models.iter().position(|model| model.name == *name) else {
                let known = models.iter().map(|model| model.name.as_str());
                found.about(
                    &stage.model,
                    match nearest(name, known) {
                        Some(near) => format!("there is no model {name:?}; did you mean {near:?}?"),
                        None => {
                            format!(
                                "there is no model {name:?}; write [model.{name}] with its path"
                            )
                        }
                    },
                );
                return None;
            };
            if let Some(used) = used_models.get_mut(model) {
                *used = true;
            }
            StageKind::Model(Box::new(resolve_model_stage(
                found,
                *stage,
                model,
                models.get(model)?,
            )))
        }
    };
    Some(Stage {
        name: typed.name?.value,
        inputs,
        kind,
        place: typed.place,
    })
}

fn resolve_model_stage(
    found: &Findings,
    typed: TypedModelStage,
    index: usize,
    model: &Model,
) -> ModelStage {
    let prompt = typed.prompt.unwrap_or_default();
    let truncate = typed.truncate.as_ref().map(|name| {
        let truncated = match name.value.trim_end_matches('?') {
            "$value" => Truncated::Value,
            path => Truncated::Field(path.split('.').map(str::to_owned).collect()),
        };
        let stands = prompt.parts.iter().any(|part| truncated.matches(part));
        if !stands && !prompt.parts.is_empty() {
            found.about(
                name,
                format!(
                    "{:?} is not a field of the prompt; name one that stands there in braces",
                    name.value
                ),
            );
        }
        truncated
    });
    let max_tokens = match (&typed.max_tokens, model.context) {
        (Some(typed), _) => typed.value,
        (None, Some(context)) => MAX_TOKENS.min(context / 2),
        (None, None) => MAX_TOKENS,
    };
    let prompt_tokens = typed.prompt_tokens.as_ref();
    if let (Some(context), Some(last)) =
        (model.context, prompt_tokens.or(typed.max_tokens.as_ref()))
    {
        let wanted = prompt_tokens.map_or(1, |typed| typed.value) + max_tokens;
        if wanted > context {
            found.about(
                last,
                format!(
                    "prompt and answer may take {wanted} tokens, and model {:?} has a context of {context}",
                    model.name
                ),
            );
        }
    }
    ModelStage {
        model: index,
        system: typed.system,
        prompt,
        truncate,
        prompt_tokens: typed.prompt_tokens.map(|typed| typed.value),
        max_tokens,
        temperature: typed.temperature,
        top_p: typed.top_p,
        stop: typed.stop,
        seed: typed.seed,
        order: typed.order,
        max_in_flight: typed.max_in_flight,
        max_in_flight_per_key: typed.max_in_flight_per_key,
        deadline: typed.deadline,
        attempts: typed.attempts,
        into: typed.into,
    }
}

fn warn_workers(found: &Findings, workers: Option<&Typed<u64>>, sources: &[Source]) {
    let partitions: Option<usize> = sources
        .iter()
        .map(|source| match &source.kind {
            SourceKind::File { paths } => Some(paths.len()),
            SourceKind::Stdin => Some(1),
            SourceKind::Kafka(_) => None,
        })
        .sum();
    if let (Some(workers), Some(partitions)) = (workers, partitions)
        && workers.value > partitions as u64
        && partitions > 0
    {
        found.warning(
            &workers.place,
            &workers.key,
            format!(
                "{} workers share {partitions} partition{}; the others have nothing to do",
                workers.value,
                if partitions == 1 { "" } else { "s" }
            ),
        );
    }
}
