//! Which running host a command is for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tidegate_control::client::{Client, ClientError};
use tidegate_control::{DeployRefused, RunState};

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

/// Whether a host says that it is starting.
pub(super) fn is_starting(client: &Client) -> bool {
    matches!(client.status(), Ok(status) if status.state == RunState::Starting)
}

/// Asks for what only a running host does. One that is starting is asked again until it runs, which is told: what it reads, loads
/// and compiles first may take longer than it keeps a question.
pub(super) fn once_it_runs<T>(
    client: &Client,
    ask: impl FnMut() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    if is_starting(client) {
        tell(format_args!(
            "the pipeline is still starting, and waited for until it runs\n"
        ));
    }
    asked_again(|| is_starting(client), ask, START, PAUSE)
}

fn asked_again<T>(
    is_starting: impl Fn() -> bool,
    mut ask: impl FnMut() -> Result<T, ClientError>,
    patience: Duration,
    pause: Duration,
) -> Result<T, ClientError> {
    let by = Instant::now() + patience;
    loop {
        match ask() {
            Err(error) if Instant::now() < by && may_run_later(&error, &is_starting) => {}
            answer => return answer,
        }
        thread::sleep(pause);
    }
}

/// Whether the host refused since it is starting. What it says itself counts: it may run by now, or be too busy to say how it
/// stands. Another who waits for it has the one place of deployments, and is what a further one is refused with.
fn may_run_later(error: &ClientError, is_starting: impl Fn() -> bool) -> bool {
    match error {
        ClientError::Refused { status: 503, error } => {
            *error == DeployRefused::Starting.to_string()
        }
        ClientError::Refused { status: 409, .. } => is_starting(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::ModelRefused;

    use super::*;

    const NONE: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_mins(10);

    fn refused(status: u16, error: &str) -> ClientError {
        let error = error.to_owned();
        ClientError::Refused { status, error }
    }

    /// How often a host is asked that refuses so many times with this, and its last answer.
    fn asked(times: u32, refusal: (u16, &str), starts: bool, patience: Duration) -> (u32, bool) {
        let mut questions = 0;
        let ask = || {
            questions += 1;
            if questions <= times {
                return Err(refused(refusal.0, refusal.1));
            }
            Ok(())
        };
        let answer = asked_again(|| starts, ask, patience, NONE);
        (questions, answer.is_ok())
    }

    #[test]
    fn a_host_that_starts_is_asked_again_until_it_runs() {
        let starting = DeployRefused::Starting.to_string();
        assert_eq!(asked(0, (503, &starting), true, LONG), (1, true));
        // Whatever it says of itself: it may run by then.
        for starts in [true, false] {
            assert_eq!(asked(3, (503, &starting), starts, LONG), (4, true));
        }
        // Somebody else waits for it, too.
        let other = "another deployment is under way";
        assert_eq!(asked(3, (409, other), true, LONG), (4, true));
        assert_eq!(ModelRefused::Starting.to_string(), starting);
    }

    #[test]
    fn what_is_refused_otherwise_and_what_takes_too_long_is_not_asked_again() {
        let starting = DeployRefused::Starting.to_string();
        assert_eq!(asked(3, (503, &starting), true, NONE), (1, false));
        for (status, error) in [
            (422, "it imports wasi:http"),
            (503, "the pipeline is ending"),
        ] {
            assert_eq!(asked(3, (status, error), true, LONG), (1, false));
        }
        let other = "another deployment is under way";
        assert_eq!(asked(3, (409, other), false, LONG), (1, false));
    }
}
