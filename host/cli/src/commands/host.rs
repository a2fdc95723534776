//! Which running host a command is for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_control::RunState;
use tidegate_control::client::{Client, ClientError};

use crate::exit::{Failure, tell};

/// How long what only a running host does is asked of one that starts.
const START: Duration = Duration::from_mins(15);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(500);

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

/// Asks for what only a running host does. One that is starting is asked again until it runs: what it reads, loads and
/// compiles first may take longer than it keeps a question.
pub(super) fn once_it_runs<T>(
    client: &Client,
    ask: impl FnMut() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let is_starting =
        || matches!(client.status(), Ok(status) if status.state == RunState::Starting);
    asked_again(is_starting, ask, START, PAUSE)
}

fn asked_again<T>(
    is_starting: impl Fn() -> bool,
    mut ask: impl FnMut() -> Result<T, ClientError>,
    patience: Duration,
    pause: Duration,
) -> Result<T, ClientError> {
    let by = Instant::now() + patience;
    let mut is_said = false;
    loop {
        // Before the question: a host that was starting then may run by the time its refusal is here.
        let starts = is_starting();
        match ask() {
            Err(ClientError::Refused { status: 503, .. }) if starts && Instant::now() < by => {}
            answer => return answer,
        }
        if !std::mem::replace(&mut is_said, true) {
            tell(format_args!(
                "the pipeline is still starting; it is asked again until it runs\n"
            ));
        }
        thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const NONE: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_mins(10);

    fn refused(status: u16) -> Result<&'static str, ClientError> {
        let error = "not now".to_owned();
        Err(ClientError::Refused { status, error })
    }

    /// How often a host is asked that starts until it was looked at so often, and refuses with this until then; and its
    /// last answer.
    fn asked(starts: u32, status: u16, patience: Duration) -> (u32, Option<&'static str>) {
        let (looks, questions) = (Cell::new(0), Cell::new(0));
        let is_starting = || looks.replace(looks.get() + 1) < starts;
        let ask = || {
            questions.set(questions.get() + 1);
            if questions.get() <= starts {
                refused(status)
            } else {
                Ok("done")
            }
        };
        let answer = asked_again(is_starting, ask, patience, NONE);
        (questions.get(), answer.ok())
    }

    #[test]
    fn a_host_that_starts_is_asked_again_until_it_runs() {
        assert_eq!(asked(0, 503, LONG), (1, Some("done")));
        assert_eq!(asked(3, 503, LONG), (4, Some("done")));
    }

    #[test]
    fn what_a_starting_host_refuses_for_good_and_what_takes_too_long_is_not_asked_again() {
        assert_eq!(asked(3, 422, LONG), (1, None));
        assert_eq!(asked(3, 503, NONE), (1, None));
    }

    #[test]
    fn a_running_host_that_refuses_is_not_asked_again() {
        let answer = asked_again(|| false, || refused(503), LONG, NONE);
        assert!(matches!(
            answer,
            Err(ClientError::Refused { status: 503, .. })
        ));
    }
}
