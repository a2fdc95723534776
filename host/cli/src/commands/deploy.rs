//! `tidegate deploy`.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tidegate_control::client::Client;
use tidegate_telemetry::plain;

use super::print;
use crate::HostArguments;
use crate::exit::{Failure, tell, with_causes};

/// The running host that is meant.
pub(super) fn client(host: &HostArguments) -> Result<Client, Failure> {
    if let Some(address) = host.address {
        return match std::env::var("TIDEGATE_TOKEN") {
            Ok(token) if !token.is_empty() => Ok(Client::at(address, &token)),
            _ => Err(Failure::usage(
                "--address needs the token of the host in the environment, as TIDEGATE_TOKEN",
            )),
        };
    }
    match host.pipeline.as_ref().or(host.state.as_ref()) {
        Some(place) => Ok(Client::find(place)?),
        None => Err(Failure::usage(
            "which host? give --pipeline FILE, --state DIRECTORY, or --address with TIDEGATE_TOKEN",
        )),
    }
}

/// After so long a person is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a label that are shown.
const LABEL_BYTES: usize = 256;

/// Does the work; says so if it takes long.
fn while_waiting<T>(say: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    let (done, waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                say();
            }
        });
        let worked = work();
        drop(done);
        worked
    })
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
    let client = client(host)?;
    let report = while_waiting(
        || {
            let shown = plain(&label, LABEL_BYTES);
            tell(format_args!(
                "waiting for the host: a component that it has not seen, as {shown} may be, is compiled first, beside the stream\n"
            ));
        },
        || client.deploy(slot, &bytes, &label),
    )?;
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
