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
/// commit half a minute, and operators that start anew and a last cut take their time.
pub const LONGEST_TURN: Duration = Duration::from_secs(180);
/// After this time the brokers abort a transaction that a killed writer left open. Not longer than the session: the
/// positions in it, which whoever takes the partitions over waits for, are pending until then.
pub const TRANSACTION: Duration = Duration::from_secs(10);

/// What a member is told, unless the properties say otherwise.
pub(super) fn of_a_member() -> [(&'static str, String); 3] {
    let millis = |time: Duration| time.as_millis().to_string();
    [
        ("session.timeout.ms", millis(SESSION)),
        ("heartbeat.interval.ms", millis(HEARTBEAT)),
        ("max.poll.interval.ms", millis(POLL)),
    ]
}

/// The property that contradicts the others, and why; the others are the user's or ours.
pub(super) fn contradiction(properties: &Properties) -> Option<(&'static str, String)> {
    let of = |name: &str, ours: Duration| match properties.get(name).map(|text| text.parse()) {
        Some(Ok(millis)) => Some(millis),
        // What is no number is refused by librdkafka itself.
        Some(Err(_)) => None,
        None => Some(ours.as_millis() as u64),
    };
    let session = of("session.timeout.ms", SESSION)?;
    let heartbeat = of("heartbeat.interval.ms", HEARTBEAT)?;
    let poll = of("max.poll.interval.ms", POLL)?;
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

    fn against(properties: &[(&str, &str)]) -> Option<(&'static str, String)> {
        let properties = properties.iter();
        let owned = properties.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        contradiction(&owned.collect())
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
