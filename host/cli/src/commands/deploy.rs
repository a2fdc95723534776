//! `tidegate deploy`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tidegate_control::DeployRequest;
use tidegate_control::admin::MAX_CONFIG;
use tidegate_control::client::Client;
use tidegate_operator::check_json;
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

/// What is put into a slot, as it is typed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct What<'a> {
    pub(crate) component: Option<&'a Path>,
    pub(crate) config: Option<&'a Path>,
    pub(crate) label: Option<&'a str>,
}

/// Puts a component, a configuration or both into a slot of a running host.
pub(crate) fn deploy(
    slot: &str,
    what: What<'_>,
    host: &HostArguments,
    as_json: bool,
) -> Result<(), Failure> {
    let component = what.component.map(crate::component::read).transpose();
    let component = component.map_err(|error| Failure::usage(with_causes(&error)))?;
    let config = what.config.map(read_config).transpose()?;
    let file = what.component.or(what.config).and_then(Path::file_name);
    let name = file.map(|name| name.to_string_lossy().into_owned());
    let deployment = DeployRequest {
        component,
        config,
        label: what.label.map(str::to_owned).or(name).unwrap_or_default(),
    };
    let client = client(host)?;
    let report = while_waiting(
        || {
            let shown = plain(&deployment.label, LABEL_BYTES);
            tell(format_args!(
                "waiting for the host: a component that it has not seen, as {shown} may be, is compiled first, beside the stream\n"
            ));
        },
        || client.deploy(slot, &deployment),
    )?;
    if as_json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    }
    print(&format!(
        "{}: {} {} {} -> {} {} {}\nrevision {}\n{} tasks switched after {:.1} ms; longest wait of a batch {:.2} ms\n",
        report.slot,
        report.old.name,
        report.old.version,
        report.old.digest,
        report.new.name,
        report.new.version,
        report.new.digest,
        report.new.revision,
        report.tasks,
        report.switched_ms,
        report.max_wait_ms,
    ))
}

/// A configuration as a host takes it: what is no JSON is told here, with the file's name.
fn read_config(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let length = File::open(path)
        .and_then(|file| file.take(MAX_CONFIG as u64 + 1).read_to_string(&mut text))
        .map_err(|error| Failure::usage(format_args!("cannot read {shown}: {error}")))?;
    if length > MAX_CONFIG {
        return Err(Failure::usage(format_args!(
            "{shown} has more bytes than a configuration may have, limit {MAX_CONFIG}"
        )));
    }
    // Of two keys of one name the reader below would take the last, and nobody would hear of the first.
    check_json(&text)
        .map_err(|why| Failure::usage(format_args!("{shown} is not a JSON object: {why}")))?;
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format_args!("{shown} is not a JSON object: {error}")))?;
    // What tells an editor how to check the file, and nothing of the operator.
    object.remove("$schema");
    Ok(serde_json::Value::Object(object).to_string())
}
