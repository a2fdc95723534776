//! How a model of another server stands, as `tidegate status` shows it.

use tidegate_connect::remote::{RemoteModel, Standing};
use tidegate_contract::Model as _;
use tidegate_control::{BreakerState, RemoteReport};

pub(crate) fn report(model: &RemoteModel) -> RemoteReport {
    let stats = model.stats();
    let (breaker, since) = match stats.standing {
        Standing::Closed => (BreakerState::Closed, None),
        Standing::Resting => (BreakerState::Resting, None),
        Standing::Open { since } => (BreakerState::Open, Some(since)),
        Standing::HalfOpen { since, .. } => (BreakerState::HalfOpen, Some(since)),
    };
    RemoteReport {
        name: stats.name,
        // Addresses have no secrets: the pipeline file takes none that does.
        server: model.facts().adapter,
        in_flight: stats.running,
        waiting: stats.waiting,
        answered: stats.answered,
        failed: stats.failed + stats.expired,
        left: stats.cancelled,
        breaker,
        open_seconds: since.map(|since| since.as_secs()),
    }
}

/// A model on one line.
pub(crate) fn line(report: &RemoteReport) -> String {
    let seconds = report.open_seconds.unwrap_or_default();
    let breaker = match report.breaker {
        BreakerState::Closed => "closed".to_owned(),
        BreakerState::Resting => "closed, the server asked to be left alone for a while".to_owned(),
        BreakerState::Open => format!("open, the server does not answer since {seconds} s"),
        BreakerState::HalfOpen => {
            format!("half-open, the server is tried again after {seconds} s")
        }
    };
    format!(
        "model {}: {}\n  in flight {}, waiting {}, answered {}, failed {}, left {}; breaker {breaker}\n",
        report.name,
        report.server,
        report.in_flight,
        report.waiting,
        report.answered,
        report.failed,
        report.left,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_said_with_its_time() {
        let report = |breaker, open_seconds| RemoteReport {
            name: "big".into(),
            server: "https://models.example/v1".into(),
            in_flight: 3,
            waiting: 1,
            answered: 7,
            failed: 2,
            left: 5,
            breaker,
            open_seconds,
        };
        let said = line(&report(BreakerState::Closed, None));
        assert_eq!(
            said,
            "model big: https://models.example/v1\n  in flight 3, waiting 1, answered 7, failed 2, left 5; breaker closed\n"
        );
        let said = line(&report(BreakerState::Open, Some(12)));
        assert!(
            said.contains("breaker open, the server does not answer since 12 s"),
            "{said}"
        );
        let said = line(&report(BreakerState::HalfOpen, Some(20)));
        assert!(
            said.contains("half-open, the server is tried again after 20 s"),
            "{said}"
        );
    }
}
