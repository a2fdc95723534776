//! From the pipeline's names to the topology's indexes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tidegate_contract::{CommitPoint, Parameters, SourceClass, TokenFeed};
use tidegate_control::config::{self, Input, Into, Node, Pipeline, SourceKind, StageKind};
use tidegate_flow::{
    Alternative, AnswerInto, Ask, ModelStage, OperatorStage, Order, Positions, PromptTurn, Source,
    Stage, Target, Topology,
};
use tidegate_operator::ComponentSlot;

use super::Models;
use super::again::{Again, Way};
use super::gateway::Gateway;
use crate::models::Served;

/// Most bytes of a batch.
const BATCH_BYTES: usize = 4 << 20;
/// How long a stopping run waits for answers that it could not take up again.
const DRAIN: Duration = Duration::from_secs(20);
/// How long answers to clients have when a run is told to stop.
pub(crate) const PARTING: Duration = Duration::from_secs(10);

/// The sources of a pipeline, and after them those of letters that are sent again. `instance` is the name of the state
/// directory.
pub(crate) fn sources(
    pipeline: &Pipeline,
    gateway: Option<&Gateway>,
    again: &[Again],
    instance: &str,
) -> Vec<Source> {
    let in_log = pipeline.commit_point() == CommitPoint::Log;
    let source = |(index, source): (usize, &config::Source)| {
        let identities = match &source.kind {
            SourceKind::File { paths } => paths
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            SourceKind::Stdin => vec!["standard input".to_owned()],
            SourceKind::Gateway(_) => vec!["requests of the gateway".to_owned()],
            SourceKind::Ingest(_) => {
                let identity = gateway.and_then(|gateway| gateway.identity(index));
                identity.into_iter().collect()
            }
            SourceKind::Kafka(kafka) => vec![format!("kafka topic {}", kafka.topic)],
        };
        Source {
            name: source.name.clone(),
            targets: targets(pipeline, Node::Source(index), None),
            fixed: matches!(source.kind, SourceKind::File { .. }),
            positions: match source.kind.class() {
                SourceClass::Once | SourceClass::Caller => Positions::Nobody,
                SourceClass::Group { .. } if in_log => Positions::CutsAndSource,
                SourceClass::Ingest => Positions::CutsAndSource,
                SourceClass::Group { .. } | SourceClass::Replayable => Positions::Cuts,
            },
            called: matches!(source.kind.class(), SourceClass::Caller),
            beside: false,
            identities,
            apart: match &source.kind {
                // Whichever process of the group reads it. Its identity has the topic's id.
                SourceKind::Kafka(kafka) => kafka.group.clone(),
                // Its identity is random.
                SourceKind::Ingest(_) => String::new(),
                // Another machine may have a file of that name.
                SourceKind::File { .. } | SourceKind::Stdin | SourceKind::Gateway(_) => {
                    instance.to_owned()
                }
            },
        }
    };
    let mut sources: Vec<Source> = pipeline.sources.iter().enumerate().map(source).collect();
    sources.extend(again.iter().map(|letters| Source {
        name: letters.name.clone(),
        targets: targets(pipeline, Node::Source(letters.of), None),
        fixed: false,
        positions: match &letters.way {
            // What a cut is done with is let go of.
            Way::Log(_) => Positions::CutsAndSource,
            Way::Topic(_) => Positions::Cuts,
        },
        called: false,
        beside: true,
        identities: vec![letters.identity(pipeline)],
        // The identity of a log is random; a topic is read by whichever process of the group.
        apart: String::new(),
    }));
    sources
}

/// The topology of a pipeline.
pub(crate) fn topology(
    pipeline: &Pipeline,
    sources: Vec<Source>,
    slots: &[Arc<ComponentSlot>],
    configured: &[String],
    models: &Models,
    feeds: &[Arc<dyn TokenFeed>],
    gateway: Option<&Gateway>,
) -> anyhow::Result<Topology> {
    let mut operators = slots.iter().zip(configured);
    let mut stages = Vec::new();
    for (index, stage) in pipeline.stages.iter().enumerate() {
        let kind = match &stage.kind {
            StageKind::Operator(operator) => {
                // One slot was made for each operator stage, in this order.
                operators.next().map(|(slot, configured)| {
                    tidegate_flow::StageKind::Operator(OperatorStage {
                        slot: slot.clone(),
                        configured: configured.clone(),
                        named: named(pipeline, index),
                        retries: operator.retries,
                    })
                })
            }
            StageKind::Model(stage) => {
                let served = models.get(stage.model).and_then(Option::as_ref);
                let stage = served
                    .map(|served| model_stage(pipeline, index, stage, feeds, (served, models)));
                stage
                    .transpose()?
                    .map(|stage| tidegate_flow::StageKind::Model(Box::new(stage)))
            }
        };
        stages.push(Stage {
            name: stage.name.clone(),
            targets: targets(pipeline, Node::Stage(index), None),
            kind: kind.with_context(|| format!("stage {} has no slot or model", stage.name))?,
        });
    }
    Ok(Topology {
        stages,
        sources,
        commit_point: pipeline.commit_point(),
        sinks: pipeline
            .sinks
            .iter()
            .map(|sink| sink.name.clone())
            .collect(),
        batch: pipeline.batch,
        batch_bytes: BATCH_BYTES,
        cut_interval: pipeline.cut_interval,
        callers: gateway.and_then(|gateway| gateway.callers(pipeline)),
        // What clients were waited for is taken from it.
        drain: match gateway {
            Some(_) => DRAIN.saturating_sub(PARTING),
            None => DRAIN,
        },
    })
}

fn model_stage(
    pipeline: &Pipeline,
    index: usize,
    stage: &config::ModelStage,
    feeds: &[Arc<dyn TokenFeed>],
    (served, models): (&Served, &Models),
) -> anyhow::Result<ModelStage> {
    let context = served.facts().context as usize;
    let mut alternatives = Vec::new();
    let (room, ask) = match &stage.ask {
        config::Ask::Generate(generate) => {
            let most = max_tokens(stage, models);
            for other in &stage.alternatives {
                let served = models.get(*other).and_then(Option::as_ref);
                let name = &pipeline.models[*other].name;
                let served = served.with_context(|| format!("model {name} is not loaded"))?;
                alternatives.push(Alternative {
                    name: name.clone(),
                    model: served.model(),
                    prompt_tokens: room(served, generate, most)?,
                    parameters: Box::new(parameters(served, index, generate, most)),
                });
            }
            let ask = Ask::Generate {
                raw: generate.raw,
                system: generate.system.clone(),
                from_record: stage.messages,
                turns: (generate.turns.iter())
                    .map(|turn| PromptTurn {
                        role: turn.role,
                        content: turn.content.clone(),
                    })
                    .collect(),
                template_arguments: generate.template_arguments.clone(),
                reasoning: generate.reasoning.clone(),
                parameters: Box::new(parameters(served, index, generate, most)),
            };
            (room(served, generate, most)?, ask)
        }
        config::Ask::Embed => (context.saturating_sub(served.special_tokens()), Ask::Embed),
        config::Ask::Classify { threshold } => {
            let ask = Ask::Classify {
                threshold: *threshold,
                routes: named(pipeline, index),
            };
            (context.saturating_sub(served.special_tokens()), ask)
        }
        config::Ask::Recognize {
            aggregation,
            threshold,
        } => {
            let ask = Ask::Recognize {
                aggregation: *aggregation,
                threshold: *threshold,
            };
            (context.saturating_sub(served.special_tokens()), ask)
        }
        config::Ask::Rerank { documents, top } => {
            let ask = Ask::Rerank {
                documents: documents.clone(),
                top: *top,
            };
            (context.saturating_sub(served.special_tokens()), ask)
        }
    };
    let mut prompt = stage.prompt.clone();
    if let config::Ask::Embed = stage.ask {
        prompt = prompt.behind(served.text_prompt(stage));
    }
    let truncate = stage.truncate.as_ref();
    let turns = match &stage.ask {
        config::Ask::Generate(generate) => generate.turns.as_slice(),
        config::Ask::Embed
        | config::Ask::Classify { .. }
        | config::Ask::Recognize { .. }
        | config::Ask::Rerank { .. } => &[],
    };
    let parts = (turns.iter())
        .flat_map(|turn| &turn.content.parts)
        .chain(&prompt.parts)
        .enumerate();
    let cut = parts.filter(|(_, part)| truncate.is_some_and(|cut| cut.matches(part)));
    Ok(ModelStage {
        name: pipeline.models[stage.model].name.clone(),
        alternatives,
        ask,
        truncate: cut.map(|(index, _)| index).collect(),
        prompt,
        prompt_tokens: stage.prompt_tokens.unwrap_or(usize::MAX).min(room),
        seed: stage.seed,
        class: stage.priority,
        order: match stage.order {
            config::Order::Key => Order::Key,
            config::Order::Partition => Order::Partition,
            config::Order::None => Order::None,
        },
        max_in_flight: stage.max_in_flight,
        max_in_flight_per_key: stage.max_in_flight_per_key,
        deadline: stage.deadline,
        tokens: stage.tokens.clone(),
        token_feeds: (stage.tokens_to.iter())
            .filter_map(|feed| feeds.get(*feed).cloned())
            .collect(),
        attempts: stage.attempts,
        into: match stage.into {
            Into::Member => AnswerInto::Member,
            Into::Value => AnswerInto::Value,
            Into::Attributes => AnswerInto::Attributes,
        },
        field: stage.field.clone(),
        model: served.model(),
    })
}

/// Most tokens of an answer that a stage asks its models for.
pub(super) fn max_tokens(stage: &config::ModelStage, models: &Models) -> u32 {
    let served = stage
        .models()
        .filter_map(|index| models.get(index)?.as_ref());
    let most = stage.max_tokens(served.map(Served::holds));
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Positions that an answer leaves to what is asked. That there are some was looked at before the models were loaded.
fn room(served: &Served, generate: &config::Generate, most: u32) -> anyhow::Result<usize> {
    let around = served.around_prompt(generate)?;
    let facts = served.facts();
    let room = (facts.context as usize).saturating_sub(most as usize + around);
    ensure!(
        room > 0,
        "model {} has {} positions: an answer of {most} tokens leaves none for what is asked",
        facts.name,
        facts.context
    );
    Ok(room)
}

/// How a model generates for the stage with this index.
fn parameters(served: &Served, stage: usize, generate: &config::Generate, most: u32) -> Parameters {
    Parameters {
        max_tokens: most,
        logit_bias: served.biases(stage, generate),
        ..generate.parameters.clone()
    }
}

/// Who takes an output.
fn targets(pipeline: &Pipeline, from: Node, output: Option<&str>) -> Vec<Target> {
    let takes = |inputs: &[Input]| {
        inputs
            .iter()
            .any(|input| input.from == from && input.output.as_deref() == output)
    };
    let stages = pipeline.stages.iter().enumerate();
    let sinks = pipeline.sinks.iter().enumerate();
    stages
        .filter(|(_, stage)| takes(&stage.inputs))
        .map(|(index, _)| Target::Stage(index))
        .chain(
            sinks
                .filter(|(_, sink)| takes(&sink.inputs))
                .map(|(index, _)| Target::Sink(index)),
        )
        .collect()
}

/// Who takes each named output of a stage.
fn named(pipeline: &Pipeline, stage: usize) -> BTreeMap<String, Vec<Target>> {
    let inputs = pipeline
        .stages
        .iter()
        .flat_map(|stage| &stage.inputs)
        .chain(pipeline.sinks.iter().flat_map(|sink| &sink.inputs));
    inputs
        .filter(|input| input.from == Node::Stage(stage))
        .filter_map(|input| input.output.clone())
        .map(|output| {
            let targets = targets(pipeline, Node::Stage(stage), Some(&output));
            (output, targets)
        })
        .collect()
}
