//! How long a group waits for a member, and a member for everything else. They hang together: a member that was killed
//! is replaced within 20 s, and one that works is never taken for dead.

use std::time::Duration;

use super::Properties;

/// After this time without a heartbeat others get a member's partitions. librdkafka's 45 s would be three quarters of a
/// minute of standstill; below 6 s brokers refuse it unless they are set up for it.
pub const SESSION: Duration = Duration::from_secs(10);
/// Three heartbeats a session, so that a lost one or two do no harm; they are sent by a thread of librdkafka's own,
/// whatever the worker does.
pub const HEARTBEAT: Duration = Duration::from_secs(3);
/// After this time without a poll a member is taken for stuck, and leaves. It lies above [`LONGEST_TURN`].
pub const POLL: Duration = Duration::from_secs(300);
/// The longest that a worker which is well may be away from its source: its sinks wait 2 minutes for brokers, its
/// last commit half a minute, and operators that start anew and a last cut take their time.
pub const LONGEST_TURN: Duration = Duration::from_secs(180);
/// After this time the brokers abort a transaction that a killed writer left open, unless the file says otherwise: four
/// fifths of [`SESSION`]. Whoever takes the partitions over waits for that, so it is not longer than the session.
pub const TRANSACTION: Duration = Duration::from_secs(8);
/// Nobody waits longer than this for a transaction that is over by itself, however long a session is, unless the file
/// says so: who reads committed records stands still meanwhile.
const LONGEST_TRANSACTION: Duration = Duration::from_secs(60);
/// The property by which a sink says how long.
pub(super) const TRANSACTION_TIMEOUT: &str = "transaction.timeout.ms";

/// What a member is told, unless the properties say otherwise.
pub(super) fn of_a_member() -> [(&'static str, String); 3] {
    let millis = |time: Duration| time.as_millis().to_string();
    [
        ("session.timeout.ms", millis(SESSION)),
        ("heartbeat.interval.ms", millis(HEARTBEAT)),
        ("max.poll.interval.ms", millis(POLL)),
    ]
}

/// Milliseconds, the user's or ours; none of what is no number, which librdkafka itself refuses.
fn millis_of(properties: &Properties, name: &str, ours: Duration) -> Option<u64> {
    match properties.get(name) {
        Some(text) => text.parse().ok(),
        None => Some(ours.as_millis() as u64),
    }
}

/// How long the transactions of a pipeline last before the brokers end them: as long as its sinks say with
/// `transaction.timeout.ms`, else four fifths of the shortest session of its sources, at most a minute. `sources` are those
/// that a group reads, each by its name. The error says why they cannot be as long as they are to be.
pub fn of_transactions<'p>(
    sources: impl IntoIterator<Item = (&'p str, &'p Properties)>,
    sink: &Properties,
) -> Result<Duration, String> {
    let sources: Vec<_> = sources.into_iter().collect();
    let sessions = sources.iter().filter_map(|(name, properties)| {
        let session = millis_of(properties, "session.timeout.ms", SESSION)?;
        Some((session, *name))
    });
    let shortest = sessions.min();
    let ours = match shortest {
        Some((session, _)) => Duration::from_millis(session / 5 * 4).min(LONGEST_TRANSACTION),
        None => TRANSACTION,
    };
    let Some(timeout) = millis_of(sink, TRANSACTION_TIMEOUT, ours) else {
        return Ok(ours);
    };
    if let Some((session, name)) = shortest.filter(|(session, _)| timeout > *session) {
        return Err(format!(
            "{timeout} is more than session.timeout.ms {session} of source {name}: whoever is given the partitions of a \
             killed member would wait for its transaction"
        ));
    }
    // Its messages are delivered and its commit is answered within that time each.
    let turn = 2 * timeout + 60_000;
    for (name, properties) in sources {
        let poll = millis_of(properties, "max.poll.interval.ms", POLL);
        if let Some(poll) = poll.filter(|poll| *poll < turn) {
            return Err(format!(
                "{timeout} needs max.poll.interval.ms {turn} of source {name}, which has {poll}: a worker that gives \
                 partitions back waits for its last transaction"
            ));
        }
    }
    Ok(Duration::from_millis(timeout))
}

/// The property that contradicts the others, and why; the others are the user's or ours.
pub(super) fn contradiction(properties: &Properties) -> Option<(&'static str, String)> {
    let session = millis_of(properties, "session.timeout.ms", SESSION)?;
    let heartbeat = millis_of(properties, "heartbeat.interval.ms", HEARTBEAT)?;
    let poll = millis_of(properties, "max.poll.interval.ms", POLL)?;
    // The one that was set is at fault; where both were, the first.
    let set = |names: [&'static str; 2]| {
        let mut names = names.into_iter();
        names.find(|name| properties.contains_key(*name))
    };
    if heartbeat.saturating_mul(3) > session {
        let name = set(["heartbeat.interval.ms", "session.timeout.ms"])?;
        return Some((
            name,
            format!(
                "heartbeat.interval.ms {heartbeat} is more than a third of session.timeout.ms {session}: two lost \
                 heartbeats would cost a member its partitions"
            ),
        ));
    }
    if poll < LONGEST_TURN.as_millis() as u64 {
        return Some((
            "max.poll.interval.ms",
            format!(
                "max.poll.interval.ms {poll} is less than {}: a worker whose sinks and commits wait for brokers is away \
                 from its source that long, and would lose its partitions",
                LONGEST_TURN.as_millis()
            ),
        ));
    }
    if session > poll {
        let name = set(["session.timeout.ms", "max.poll.interval.ms"])?;
        return Some((
            name,
            format!("session.timeout.ms {session} is more than max.poll.interval.ms {poll}"),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(properties: &[(&str, &str)]) -> Properties {
        let properties = properties.iter();
        let owned = properties.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn against(properties: &[(&str, &str)]) -> Option<(&'static str, String)> {
        contradiction(&owned(properties))
    }

    #[test]
    fn a_transaction_is_over_before_its_partitions_are_anothers() {
        let of = |sources: &[&[(&str, &str)]], sink: &[(&str, &str)]| {
            let sources: Vec<Properties> = sources.iter().map(|source| owned(source)).collect();
            let named = sources.iter().map(|source| ("in", source));
            of_transactions(named, &owned(sink))
        };
        let seconds = |seconds: u64| Ok(Duration::from_secs(seconds));
        assert_eq!(of(&[], &[]), seconds(8));
        assert_eq!(of(&[&[]], &[]), seconds(8));
        let session = |millis| [("session.timeout.ms", millis)];
        assert_eq!(
            of(&[&session("45000"), &session("20000")], &[]),
            seconds(16)
        );
        assert_eq!(of(&[&session("240000")], &[]), seconds(60));
        let timeout = |millis| [("transaction.timeout.ms", millis)];
        assert_eq!(of(&[&session("240000")], &timeout("120000")), seconds(120));
        assert_eq!(of(&[], &timeout("900000")), seconds(900));
        for (sources, sink, named) in [
            (
                &[&session("10000")[..]][..],
                &timeout("20000")[..],
                "session.timeout.ms 10000 of source in",
            ),
            (
                &[&session("200000")],
                &timeout("180000"),
                "max.poll.interval.ms 420000 of source in",
            ),
        ] {
            let said = of(sources, sink).unwrap_err();
            assert!(said.contains(named), "{said}");
        }
    }

    #[test]
    fn timeouts_that_contradict_each_other_are_named() {
        assert_eq!(against(&[]), None);
        assert_eq!(against(&[("heartbeat.interval.ms", "300")]), None);
        assert_eq!(against(&[("session.timeout.ms", "45000")]), None);
        let name = |properties| against(properties).map(|(name, _)| name);
        assert_eq!(
            name(&[("session.timeout.ms", "6000")]),
            Some("session.timeout.ms")
        );
        assert_eq!(
            name(&[("heartbeat.interval.ms", "4000")]),
            Some("heartbeat.interval.ms")
        );
        assert_eq!(
            name(&[("max.poll.interval.ms", "60000")]),
            Some("max.poll.interval.ms")
        );
        assert_eq!(
            name(&[("session.timeout.ms", "400000")]),
            Some("session.timeout.ms")
        );
        let slow = [
            ("session.timeout.ms", "6000"),
            ("heartbeat.interval.ms", "2000"),
        ];
        assert_eq!(against(&slow), None);
        // librdkafka says what is wrong with it.
        assert_eq!(against(&[("session.timeout.ms", "long")]), None);
    }
}
