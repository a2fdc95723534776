//! `tidegate deploy`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use clap::Args;
use tidegate_control::DeployRequest;
use tidegate_control::admin::MAX_CONFIG;
use tidegate_operator::check_json;
use tidegate_telemetry::plain;

use super::host::{HostArguments, client, is_starting, once_it_runs};
use super::{print, print_json};
use crate::exit::{Failure, tell, with_causes};

/// Put a component or a configuration into a slot of a running pipeline.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate deploy --pipeline pipeline.toml --slot redact redact-pii-2.wasm\n  \
    tidegate deploy --pipeline pipeline.toml --slot redact --config redact.json\n  \
    TIDEGATE_TOKEN=... tidegate deploy --address 127.0.0.1:4100 --slot redact redact-pii-2.wasm\n\n\
    The component is compiled and warmed beside the running one; then every task switches at a batch boundary.\n\
    A component that cannot run leaves the running one as it is.")]
pub(crate) struct Arguments {
    /// The slot: the name of the stage.
    #[arg(long)]
    slot: String,
    /// The component, or a core module that carries its component type; the one that runs stays if there is none.
    #[arg(required_unless_present = "config")]
    component: Option<PathBuf>,
    /// A new configuration: a file with a JSON object; the one that runs stays if there is none.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A word for the log and the status; default the file's name.
    #[arg(long)]
    label: Option<String>,
    #[command(flatten)]
    host: HostArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
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

/// Puts a component, a configuration or both into a slot of a running host.
pub(crate) fn deploy(arguments: &Arguments) -> Result<(), Failure> {
    let (component, config) = (arguments.component.as_deref(), arguments.config.as_deref());
    let file = component.or(config).and_then(Path::file_name);
    let name = file.map(|name| name.to_string_lossy().into_owned());
    let component = component.map(crate::component::read).transpose();
    let component = component.map_err(|error| Failure::usage(with_causes(&error)))?;
    let config = config.map(read_config).transpose()?;
    let deployment = DeployRequest {
        component,
        config,
        label: arguments.label.clone().or(name).unwrap_or_default(),
    };
    let client = client(&arguments.host)?;
    let report = while_waiting(
        || {
            // Nothing is compiled yet, and what is waited for is told.
            if is_starting(&client) {
                return;
            }
            let shown = plain(&deployment.label, LABEL_BYTES);
            tell(format_args!(
                "waiting for the host: a component that it has not seen, as {shown} may be, is compiled first, beside the stream\n"
            ));
        },
        || once_it_runs(&client, || client.deploy(&arguments.slot, &deployment)),
    )?;
    if arguments.json {
        return print_json(&serde_json::to_string_pretty(&report)?);
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
