//! Which running host a command is for.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tidegate_control::client::Client;

use crate::exit::Failure;

/// Which running host is meant.
#[derive(Clone, Args)]
pub(crate) struct HostArguments {
    /// The pipeline file of the running host; its state directory says where it listens.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["state", "address"])]
    pub(super) pipeline: Option<PathBuf>,
    /// The state directory of the running host.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "address")]
    pub(super) state: Option<PathBuf>,
    /// Address of its admin API; its token is in the environment, as TIDEGATE_TOKEN: every user of a machine can read the
    /// command lines of all.
    #[arg(long)]
    pub(super) address: Option<SocketAddr>,
}

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
