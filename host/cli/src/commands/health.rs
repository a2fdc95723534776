//! `tidegate health`.

use clap::Args;

use super::host::{HostArguments, client};
use super::{print, print_json};
use crate::exit::Failure;

/// Say whether a running pipeline is well: exit code 0, or 1 with the reasons. For probes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate health --state /var/lib/tidegate\n  \
    tidegate health --state /var/lib/tidegate --ready")]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// Whether it does its work, and not only whether it goes on.
    #[arg(long)]
    ready: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Says whether a running host is well.
pub(crate) fn health(arguments: &Arguments) -> Result<(), Failure> {
    let report = client(&arguments.host)?.health()?;
    if arguments.json {
        print_json(&serde_json::to_string(&report)?)?;
    }
    let well = if arguments.ready {
        report.ready
    } else {
        report.live
    };
    if well {
        return match arguments.json {
            true => Ok(()),
            false => print("ok\n"),
        };
    }
    let what = if arguments.ready { "ready" } else { "live" };
    let reasons = report.reasons.join("; ");
    Err(Failure::Run(anyhow::anyhow!("not {what}: {reasons}")))
}
