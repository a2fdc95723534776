//! `tidegate check`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tidegate_contract::Slot as _;
use tidegate_control::config::{Mistake, Pipeline, StageKind, guarantee};
use tidegate_operator::ComponentSlot;
use tidegate_state::StateDirectory;

use super::try_out::failed_samples;
use super::{check_state, none_is_wrong, print, print_json, read_pipeline, warnings};
use crate::exit::Failure;
use crate::printing::warn;
use crate::wire::kafka::{self, Probed};
use crate::{collectors, models, opening, wire};

/// How long brokers have to answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Read a pipeline file, report every mistake in it, and say what it guarantees.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  tidegate check pipeline.toml\n  tidegate check --connect pipeline.toml"
)]
pub(crate) struct Arguments {
    /// The pipeline file.
    pipeline: PathBuf,
    /// Ask the brokers about every topic too, for about 10 s.
    #[arg(long)]
    connect: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a pipeline, compiles its operators, checks their configurations and has them answer their samples; says what it
/// guarantees. If it is to connect, it asks the brokers about every topic too.
pub(crate) fn check(arguments: &Arguments) -> Result<(), Failure> {
    let pipeline = read_pipeline(&arguments.pipeline)?;
    check_state(&pipeline)?;
    let models::Fit {
        mut mistakes,
        warnings: of_models,
    } = models::check(&pipeline);
    let seen = opening::look(&pipeline);
    mistakes.extend(seen.mistakes);
    // A state directory is not made for a question.
    let compiled = pipeline.state.join("compiled");
    let compiled = match compiled.is_dir() {
        true => wire::Compiled::State(compiled),
        false => wire::Compiled::User,
    };
    let one = wire::Tasks { warm: 1, most: 1 };
    let (slots, _) = wire::slots(&pipeline, compiled, one, &[], None, &mut mistakes)?;
    check_samples(&pipeline, &slots, &mut mistakes)?;
    none_is_wrong(mistakes)?;
    let mut warnings = warnings(&pipeline, &slots)?;
    warnings.extend(of_models.iter().map(ToString::to_string));
    warnings.extend(seen.lacks.iter().map(ToString::to_string));
    // Another machine may have them: a check may be made elsewhere.
    let missing = models::missing_adapters(&pipeline);
    warnings.extend(missing.iter().map(ToString::to_string));
    // Another process may be using them: what cannot be read now is a matter of the start.
    let tasks = StateDirectory::tasks(&pipeline.state);
    if let Ok(tasks) = tasks
        && let Ok(refusal) = wire::gateway::unread::refusal(&pipeline, &tasks)
    {
        warnings.extend(refusal);
    }
    let guarantee = guarantee(&pipeline);
    let topics = arguments
        .connect
        .then(|| kafka::probe(&pipeline, CONNECT_PATIENCE));
    if arguments.json {
        let parts: Vec<_> = guarantee
            .parts
            .iter()
            .map(|part| json!({"name": part.name, "level": part.level.name(), "reason": part.reason}))
            .collect();
        let slots: Vec<_> = slots
            .iter()
            .map(|slot| {
                let version = slot.version();
                json!({"slot": slot.name(), "name": version.name, "version": version.version,
                    "digest": version.digest, "imports": slot.imports()})
            })
            .collect();
        let mut report = json!({"pipeline": pipeline.name, "guarantee": guarantee.level.name(), "parts": parts,
            "slots": slots, "warnings": warnings});
        report["internal_topics"] = kafka::internal_topics(&pipeline)
            .into_iter()
            .map(|(end, topic, brokers)| json!({"end": end, "topic": topic, "brokers": brokers}))
            .collect();
        if let Some(gateway) = &pipeline.gateway {
            report["gateway"] = json!({"address": gateway.address.to_string(),
                "serves": wire::gateway::described(&pipeline)});
        }
        report["telemetry"] = collectors::described(&pipeline).into();
        report["feeds"] = wire::feeds::topics(&pipeline)
            .map(|(feed, topic, stages)| {
                json!({"feed": feed, "topic": topic.topic, "brokers": topic.brokers.join(","), "stages": stages})
            })
            .collect();
        if let Some(topics) = &topics {
            report["topics"] = topics.iter().map(topic_json).collect();
        }
        print_json(&format!("{report:#}"))?;
        return all_answered(&topics);
    }
    for warning in &warnings {
        warn(warning);
    }
    let mut text = format!("{}: no mistakes\n{guarantee}\n", pipeline.name);
    if let Some(gateway) = &pipeline.gateway {
        text += &format!("gateway at {}\n", gateway.address);
        for line in wire::gateway::described(&pipeline) {
            text += &format!("  {line}\n");
        }
    }
    for line in collectors::described(&pipeline) {
        text += &format!("{line}\n");
    }
    for (feed, topic, stages) in wire::feeds::topics(&pipeline) {
        text += &format!(
            "feed {feed}: {} to topic {} at {}\n",
            wire::feeds::of_stages(&stages),
            topic.topic,
            topic.brokers.join(",")
        );
    }
    for slot in &slots {
        let version = slot.version();
        let imports = slot.imports();
        let imports = if imports.is_empty() {
            "nothing".to_owned()
        } else {
            imports.join(", ")
        };
        text += &format!(
            "slot {}: {} {}, imports {imports}\n",
            slot.name(),
            version.name,
            version.version
        );
    }
    if topics.is_none() {
        for (end, topic, brokers) in kafka::internal_topics(&pipeline) {
            text += &format!("{end}: topic {topic} at {brokers}, made if it is missing\n");
        }
    }
    for topic in topics.iter().flatten() {
        text += &topic_line(topic);
    }
    print(&text)?;
    all_answered(&topics)
}

fn topic_json(probed: &Probed) -> Value {
    let mut of = json!({"end": probed.end, "topic": probed.topic, "brokers": probed.brokers});
    match &probed.report {
        Ok(report) => {
            of["partitions"] = report.partitions.into();
            of["without_leader"] = report.without_leader.as_slice().into();
            of["positions"] = report.positions.into();
            of["to_be_made"] = report.to_be_made.into();
            of["differences"] = report.differences.as_slice().into();
        }
        Err(why) => of["missing"] = why.as_str().into(),
    }
    of
}

/// `source tickets: topic tickets at localhost:9092: 6 partitions, the group has a position in 2`.
fn topic_line(probed: &Probed) -> String {
    let said = match &probed.report {
        Err(why) => why.clone(),
        Ok(report) if report.to_be_made => "it is missing, and the first run makes it".to_owned(),
        Ok(report) => {
            let plural = if report.partitions == 1 { "" } else { "s" };
            let mut said = format!("{} partition{plural}", report.partitions);
            if let Some(positions) = report.positions {
                said += &format!(", the group has a position in {positions}");
            }
            if !report.without_leader.is_empty() {
                let numbers: Vec<String> =
                    report.without_leader.iter().map(i32::to_string).collect();
                said += &format!(", without a leader: {}", numbers.join(", "));
            }
            if !report.differences.is_empty() {
                said += &format!(", used as it is: {}", report.differences.join(", "));
            }
            said
        }
    };
    let Probed {
        end,
        topic,
        brokers,
        ..
    } = probed;
    format!("{end}: topic {topic} at {brokers}: {said}\n")
}

/// A failure if a topic cannot be used.
fn all_answered(topics: &Option<Vec<Probed>>) -> Result<(), Failure> {
    let unusable = |probed: &&Probed| {
        let report = probed.report.as_ref();
        !report.is_ok_and(|report| report.without_leader.is_empty())
    };
    let missing: Vec<String> = topics
        .iter()
        .flatten()
        .filter(unusable)
        .map(|probed| format!("{} of {}", probed.topic, probed.end))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(anyhow::anyhow!(
            "topics that cannot be used now: {}",
            missing.join(", ")
        ))),
    }
}

/// Has the operators of stages with samples answer them; what one cannot answer is a mistake of configuration.
fn check_samples(
    pipeline: &Pipeline,
    slots: &[Arc<ComponentSlot>],
    mistakes: &mut Vec<Mistake>,
) -> Result<(), Failure> {
    for slot in slots {
        let mut stages = pipeline.stages.iter();
        let Some(stage) = stages.find(|stage| stage.name == slot.name()) else {
            continue;
        };
        let StageKind::Operator(operator) = &stage.kind else {
            continue;
        };
        let Some(samples) = &operator.samples else {
            continue;
        };
        let failed = failed_samples(slot, samples)?;
        mistakes.extend(
            failed
                .iter()
                .map(|why| pipeline.mistake_of_stage(stage, why)),
        );
    }
    Ok(())
}
