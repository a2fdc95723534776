//! `tidegate model load`, `unload` and `list`: models of a running host.

use std::path::PathBuf;

use clap::Args;
use tidegate_control::{LoraReport, ModelReport, ReplicaReport, ReplicaState};

use super::size;
use crate::commands::host::{HostArguments, client, once_it_runs};
use crate::commands::{print, print_json};
use crate::exit::Failure;
use crate::health::tried_again;

/// Load a model of a running pipeline again, or put another in its place; old requests finish on the old one.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    tidegate model load support models/new --pipeline pipeline.toml\n\n\
    It holds until the run ends: the next one begins with what the pipeline file says.")]
pub(crate) struct Load {
    /// Its name in the pipeline file.
    name: String,
    /// A directory or a .gguf file on the host's machine. Default: what the pipeline file says.
    path: Option<PathBuf>,
    #[command(flatten)]
    host: HostArguments,
    /// Print JSON: a list of the one model.
    #[arg(long)]
    json: bool,
}

/// Take a model of a running pipeline off its adapter; records for it wait until it is loaded again.
#[derive(Args)]
#[command(after_help = "Example:\n  tidegate model unload support --pipeline pipeline.toml")]
pub(crate) struct Unload {
    /// Its name in the pipeline file.
    name: String,
    #[command(flatten)]
    host: HostArguments,
    /// Print JSON: a list of the one model.
    #[arg(long)]
    json: bool,
}

/// Show the models of a running pipeline.
#[derive(Args)]
#[command(after_help = "Example:\n  tidegate model list --pipeline pipeline.toml")]
pub(crate) struct List {
    #[command(flatten)]
    host: HostArguments,
    /// Print JSON: a list of the models.
    #[arg(long)]
    json: bool,
}

/// Loads a model of a running host again, or another in its place.
pub(crate) fn load(arguments: &Load) -> Result<(), Failure> {
    let path = arguments.path.as_deref().map(std::path::absolute);
    let client = client(&arguments.host)?;
    let path = path.transpose()?;
    let report = once_it_runs(&client, || {
        client.load_model(&arguments.name, path.as_deref())
    })?;
    shown(&[report], arguments.json)
}

/// Takes a model of a running host off its adapter.
pub(crate) fn unload(arguments: &Unload) -> Result<(), Failure> {
    let client = client(&arguments.host)?;
    let report = once_it_runs(&client, || client.unload_model(&arguments.name))?;
    shown(&[report], arguments.json)
}

/// Shows the models of a running host.
pub(crate) fn list(arguments: &List) -> Result<(), Failure> {
    let reports = client(&arguments.host)?.models()?;
    shown(&reports, arguments.json)
}

fn shown(reports: &[ModelReport], as_json: bool) -> Result<(), Failure> {
    if as_json {
        return print_json(&serde_json::to_string_pretty(reports)?);
    }
    print(&reports.iter().map(line).collect::<String>())
}

/// A replica in one.
fn replica_line(number: usize, replica: &ReplicaReport) -> String {
    let mut text = format!("  replica {number} on {}", replica.adapter);
    text += &match replica.standing {
        ReplicaState::Serves => String::new(),
        ReplicaState::Away => ", away: it is loaded again".to_owned(),
        ReplicaState::Stalled => ", stalled: what it was asked goes to the others".to_owned(),
        ReplicaState::LeftOut => format!(", left out: {}{}", replica.reason, tried_again(replica)),
    };
    if replica.blocks > 0 {
        text += &format!(", KV blocks {} of {}", replica.blocks_used, replica.blocks);
    }
    text += &format!(
        "; running {}, answered {}, moved here {}, tokens {}\n",
        replica.running, replica.answered, replica.moved, replica.tokens
    );
    text
}

/// A low-rank adapter in one.
fn lora_line(lora: &LoraReport) -> String {
    format!(
        "  lora {}: {}, rank {}; answered {}, failed {}, left {}, tokens {}\n",
        lora.name, lora.digest, lora.rank, lora.answered, lora.failed, lora.left, lora.tokens
    )
}

/// A model in two lines, and one for each of its low-rank adapters, and of its replicas if it has several.
pub(crate) fn line(model: &ModelReport) -> String {
    let state = match (model.loaded, model.away) {
        (false, _) => ", not loaded",
        (true, true) => ", away: requests wait",
        (true, false) => "",
    };
    let mut text = format!(
        "model {}: {} {}{state}\n  {} on {}, context {}",
        model.name,
        model.path.display(),
        model.digest,
        size(model.memory),
        model.adapter,
        model.context,
    );
    if model.blocks > 0 {
        text += &format!(
            ", {} sequences, KV blocks {} of {}",
            model.sequences, model.blocks_used, model.blocks
        );
        if model.blocks_pinned > 0 {
            text += &format!(", {} pinned", model.blocks_pinned);
        }
    }
    text += &format!(
        "; waiting {}, running {}, answered {}, failed {}, left {}, tokens {}\n",
        model.waiting, model.running, model.answered, model.failed, model.left, model.tokens,
    );
    for lora in &model.loras {
        text += &lora_line(lora);
    }
    for (number, replica) in model.replicas.iter().enumerate() {
        text += &replica_line(number, replica);
    }
    text
}
