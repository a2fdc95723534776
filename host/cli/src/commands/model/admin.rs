//! `tidegate model load`, `unload` and `list`: models of a running host.

use std::path::Path;

use tidegate_control::ModelReport;

use super::size;
use crate::HostArguments;
use crate::commands::deploy::client;
use crate::commands::print;
use crate::exit::Failure;

/// Loads a model of a running host again, or another in its place.
pub(crate) fn load(
    name: &str,
    path: Option<&Path>,
    host: &HostArguments,
    as_json: bool,
) -> Result<(), Failure> {
    let path = path.map(std::path::absolute).transpose()?;
    let report = client(host)?.load_model(name, path.as_deref())?;
    shown(&[report], as_json)
}

/// Takes a model of a running host off its adapter.
pub(crate) fn unload(name: &str, host: &HostArguments, as_json: bool) -> Result<(), Failure> {
    let report = client(host)?.unload_model(name)?;
    shown(&[report], as_json)
}

/// Shows the models of a running host.
pub(crate) fn list(host: &HostArguments, as_json: bool) -> Result<(), Failure> {
    let reports = client(host)?.models()?;
    shown(&reports, as_json)
}

fn shown(reports: &[ModelReport], as_json: bool) -> Result<(), Failure> {
    if as_json {
        return print(&format!("{}\n", serde_json::to_string_pretty(reports)?));
    }
    print(&reports.iter().map(line).collect::<String>())
}

/// A model in two lines.
pub(crate) fn line(model: &ModelReport) -> String {
    let state = if model.loaded { "" } else { ", not loaded" };
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
    }
    text += &format!(
        "; waiting {}, running {}, answered {}, failed {}, tokens {}\n",
        model.waiting, model.running, model.answered, model.failed, model.tokens,
    );
    text
}
