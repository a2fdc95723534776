//! `tidegate deploy`.

use std::path::Path;

use tidegate_control::client::Client;

use super::print;
use crate::HostArguments;
use crate::exit::{Failure, with_causes};

/// The running host that is meant.
pub(super) fn client(host: &HostArguments) -> Result<Client, Failure> {
    if let (Some(address), Some(token)) = (host.address, &host.token) {
        return Ok(Client::at(address, token));
    }
    match host.pipeline.as_ref().or(host.state.as_ref()) {
        Some(place) => Ok(Client::find(place)?),
        None => Err(Failure::usage(
            "which host? give --pipeline FILE, --state DIRECTORY, or --address and --token",
        )),
    }
}

/// Puts a component into a slot of a running host.
pub(crate) fn deploy(
    slot: &str,
    component: &Path,
    label: Option<&str>,
    host: &HostArguments,
    as_json: bool,
) -> Result<(), Failure> {
    let bytes =
        crate::component::read(component).map_err(|error| Failure::usage(with_causes(&error)))?;
    let name = component
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let label = label.map(str::to_owned).or(name).unwrap_or_default();
    let report = client(host)?.deploy(slot, &bytes, &label)?;
    if as_json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    }
    print(&format!(
        "{}: {} {} {} -> {} {} {}\n{} tasks switched after {:.1} ms; longest wait of a batch {:.2} ms\n",
        report.slot,
        report.old.name,
        report.old.version,
        report.old.digest,
        report.new.name,
        report.new.version,
        report.new.digest,
        report.tasks,
        report.switched_ms,
        report.max_wait_ms,
    ))
}
