//! `tidegate health`.

use super::deploy::client;
use super::print;
use crate::HostArguments;
use crate::exit::Failure;

/// Says whether a running host is well.
pub(crate) fn health(host: &HostArguments, ready: bool, as_json: bool) -> Result<(), Failure> {
    let report = client(host)?.health()?;
    if as_json {
        print(&format!("{}\n", serde_json::to_string(&report)?))?;
    }
    let well = if ready { report.ready } else { report.live };
    if well {
        return match as_json {
            true => Ok(()),
            false => print("ok\n"),
        };
    }
    let what = if ready { "ready" } else { "live" };
    let reasons = report.reasons.join("; ");
    Err(Failure::Run(anyhow::anyhow!("not {what}: {reasons}")))
}
