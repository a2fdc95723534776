//! How clients are set up, and how they find their topic.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

use super::deliveries::{Deliveries, ONLY_FAILURES};
use super::options::KafkaSourceOptions;
use super::target::{KafkaSinkOptions, PRODUCER};
use super::{Properties, Trouble, is_transient, properties, timeouts};

/// How long brokers are asked again that do not accept who asks, or how: less than those that are away.
pub(super) const REFUSED_PATIENCE: Duration = Duration::from_secs(10);

const WANTS_LOGIN: &str = "a broker that wants a login hangs up like this on a client without one: it might require SASL, \
                           with sasl_ssl or sasl_plaintext as security.protocol";
/// A question to brokers has at least so long.
const SHORTEST_WAIT: Duration = Duration::from_millis(200);

/// Other names that librdkafka has for a setting.
const ALIASES: [(&str, &str); 4] = [
    ("auto.commit.enable", "enable.auto.commit"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("request.required.acks", "acks"),
];

/// How long brokers may take, without being in trouble, to find a group's coordinator or to know a topic that was made.
pub(super) const SETTLING: Duration = Duration::from_secs(5);

/// The name that librdkafka gives a setting first.
fn canonical(name: &str) -> &str {
    let same = ALIASES.iter().find(|(alias, _)| *alias == name);
    same.map_or(name, |(_, name)| name)
}

const PARTITION_EOF: &str = "enable.partition.eof";

type Setting = (&'static str, String);

/// What a client is set up with beside the user's properties.
pub(super) struct Settings {
    /// Of which the properties may say otherwise.
    ours: Vec<Setting>,
    /// On which the guarantee rests.
    reserved: Vec<Setting>,
    /// What has no value and cannot be set either, and why.
    refused: Vec<Setting>,
}

/// librdkafka would send it to its own threads.
const SIGNAL: (&str, &str) = (
    "internal.termination.signal",
    "signals are the program's own",
);

impl Settings {
    /// Of a member of a group.
    pub(super) fn reader(options: &KafkaSourceOptions) -> Settings {
        let mut ours = always();
        ours.extend(own(&[
            // Prefetched messages beyond these would only wait in memory, each with 300 bytes of librdkafka's: it asks for
            // more when it has less than these of all partitions together, and gets up to so much of each at once,
            // which a topic may have compressed to a tenth.
            ("queued.max.messages.kbytes", "4096"),
            ("queued.min.messages", "2000"),
            ("fetch.message.max.bytes", "131072"),
            ("fetch.queue.backoff.ms", "5"),
            ("fetch.wait.max.ms", "100"),
        ]));
        // What is fetched at once of all partitions together: of five hundred it would be sixty times as much, and each
        // answer is held as long as one of its messages is. With messages of another size librdkafka wants to choose it.
        if !options.properties.contains_key("message.max.bytes") {
            ours.extend(own(&[("fetch.max.bytes", "1048576")]));
        }
        ours.extend(timeouts::of_a_member());
        let mut reserved = own(&[
            ("bootstrap.servers", options.brokers.as_str()),
            ("group.id", options.group.as_str()),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            (
                PARTITION_EOF,
                if options.until_end { "true" } else { "false" },
            ),
            ("group.protocol", "classic"),
            // Members that come and go should take no partitions from those that stay. Those with a name of their own do not
            // come and go: one that is killed between the two rounds of a cooperative rebalance, and comes again, would
            // leave a partition to nobody, since the brokers give it its place without another round.
            (
                "partition.assignment.strategy",
                match options.instance {
                    Some(_) => "range",
                    None => "cooperative-sticky",
                },
            ),
            // A position that is gone must be an error, not a silent jump over records.
            ("auto.offset.reset", "error"),
            // What a transaction that was aborted left behind never was.
            ("isolation.level", "read_committed"),
        ]);
        let mut refused = own(&[SIGNAL]);
        match &options.instance {
            Some(instance) => reserved.push(("group.instance.id", instance.clone())),
            None => refused.push(("group.instance.id", "instance says it".to_owned())),
        }
        Settings {
            ours,
            reserved,
            refused,
        }
    }

    /// Of one who writes.
    pub(super) fn writer(options: &KafkaSinkOptions) -> Settings {
        let mut ours = always();
        ours.extend(own(&PRODUCER));
        let timeout = options.patience.as_millis().max(1).to_string();
        Settings {
            ours,
            reserved: own(&[
                ("bootstrap.servers", options.brokers.as_str()),
                ("enable.idempotence", "true"),
                ("acks", "all"),
                ("message.timeout.ms", timeout.as_str()),
                ONLY_FAILURES,
            ]),
            refused: own(&[
                (
                    "message.timeout.ms",
                    "it follows from how long brokers are waited for",
                ),
                ("transactional.id", "transactions are the program's own"),
                SIGNAL,
            ]),
        }
    }

    /// Of what works for the program itself: its transactions, its changelogs, its questions.
    pub(super) fn internal(
        brokers: &str,
        ours: &[(&'static str, &str)],
        reserved: &[(&'static str, &str)],
    ) -> Settings {
        let mut all = always();
        all.extend(own(ours));
        let mut fixed = own(&[("bootstrap.servers", brokers)]);
        fixed.extend(own(reserved));
        Settings {
            ours: all,
            reserved: fixed,
            refused: Vec::new(),
        }
    }

    /// Why a property cannot be set to this, if it is none of the user's.
    pub(super) fn refusal(&self, name: &str, value: &str) -> Option<String> {
        let name = canonical(name);
        let of = |settings: &[Setting]| {
            let mut settings = settings.iter();
            settings.find_map(|(found, value)| (*found == name).then(|| value.clone()))
        };
        if let Some(why) = of(&self.refused) {
            return Some(format!("cannot be set: {why}"));
        }
        // Reading to where the topic ends now sets it by itself.
        let is_off = name == PARTITION_EOF && value == "false";
        of(&self.reserved)
            .filter(|needed| needed != value && !is_off)
            .map(|needed| format!("cannot be set: this needs it to be {needed}"))
    }

    /// Whether a property has a value that the guarantee rests on, whoever says it.
    pub(super) fn reserves(&self, name: &str) -> bool {
        let mut reserved = self.reserved.iter();
        reserved.any(|(found, _)| *found == canonical(name))
    }

    /// The client's configuration: ours, then the user's on top, except for what our guarantee rests on.
    pub(super) fn config(self, properties: &Properties) -> Result<ClientConfig, String> {
        for (name, value) in properties {
            if let Some(why) = self.refusal(name, value) {
                return Err(format!("property {name} {why}"));
            }
        }
        if let Some((name, why)) = timeouts::contradiction(properties) {
            return Err(format!("property {name} contradicts others: {why}"));
        }
        let mut config = ClientConfig::new();
        for (name, value) in self.ours {
            config.set(name, value);
        }
        for (name, value) in properties {
            config.set(canonical(name), value);
        }
        for (name, value) in self.reserved {
            config.set(name, value);
        }
        config.set_log_level(RDKafkaLogLevel::Info);
        Ok(config)
    }
}

fn always() -> Vec<Setting> {
    own(&[
        ("client.id", "tidegate"),
        ("socket.keepalive.enable", "true"),
        ("log.connection.close", "false"),
        ("reconnect.backoff.max.ms", "2000"),
        ("allow.auto.create.topics", "false"),
    ])
}

fn own(settings: &[(&'static str, &str)]) -> Vec<Setting> {
    let owned = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
    settings.iter().map(owned).collect()
}

/// Waits until the brokers answer for this topic, with what they say; the error says why it cannot be used.
pub(super) fn find(
    config: &ClientConfig,
    place: &str,
    topic: &str,
    patience: Duration,
) -> Result<Metadata, String> {
    let metadata = ask(config, place, topic, patience)?;
    topic_fault(&metadata, topic).map_or(Ok(metadata), Err)
}

/// The same of a topic that may be missing.
///
/// A client of its own asks, which is told of connections that are closed: for the others that is a matter of course,
/// but brokers hang up too on those who do not speak as they do.
pub(super) fn ask(
    config: &ClientConfig,
    place: &str,
    topic: &str,
    patience: Duration,
) -> Result<Metadata, String> {
    let mut config = config.clone();
    for name in properties::of_one_side() {
        config.remove(name);
    }
    config.set("log.connection.close", "true");
    let made: Result<BaseProducer<Deliveries>, _> =
        config.create_with_context(Deliveries::default());
    let producer = made.map_err(|error| text_of(&error))?;
    let protocol = config.get("security.protocol").unwrap_or_default();
    let has_login = protocol.to_ascii_lowercase().starts_with("sasl");
    let mut trouble = Trouble::new(patience);
    let began = Instant::now();
    // Since when what is told is that it is refused.
    let mut refused: Option<Instant> = None;
    loop {
        let asked = Instant::now();
        let limit = match refused {
            Some(since) => (since + REFUSED_PATIENCE).min(began + patience),
            None => began + patience,
        };
        let left = limit.saturating_duration_since(asked);
        let wait = Duration::from_secs(2).min(left).max(SHORTEST_WAIT);
        let error = match producer.client().fetch_metadata(Some(topic), wait) {
            Ok(metadata) => return Ok(metadata),
            Err(error) if !is_transient(&error) => return Err(error.to_string()),
            Err(error) => error,
        };
        // What librdkafka has to tell comes meanwhile.
        producer.poll(SHORTEST_WAIT);
        let (since, longest, why) = match producer.context().cause() {
            Some(cause) if cause.is_of_security() => {
                let since = *refused.get_or_insert(asked);
                (since, REFUSED_PATIENCE.min(patience), cause.text)
            }
            Some(cause) if !has_login && cause.is_hung_up_at_once() => {
                let since = *refused.get_or_insert(asked);
                let why = format!("{}; {WANTS_LOGIN}", cause.text);
                (since, REFUSED_PATIENCE.min(patience), why)
            }
            cause => {
                refused = None;
                let why = match cause {
                    Some(cause) => format!("{error}: {}", cause.text),
                    None => error.to_string(),
                };
                (began, patience, why)
            }
        };
        let lasted = since.elapsed();
        if lasted >= longest || began.elapsed() >= patience {
            return Err(format!("{why}, for {} s now", lasted.as_secs()));
        }
        trouble.note(place, &why)?;
    }
}

/// librdkafka's own words, which say more than the error's and never have a password in them.
pub(super) fn text_of(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, text, _, _) | KafkaError::ClientCreation(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Tries again what time can mend, for as long as this.
pub(super) fn patiently<T>(
    place: &str,
    patience: Duration,
    mut attempt: impl FnMut() -> Result<T, KafkaError>,
) -> Result<T, String> {
    let mut trouble = Trouble::new(patience.saturating_sub(SETTLING));
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            // A group whose coordinator is being found is in no trouble.
            Err(error) if is_transient(&error) && began.elapsed() < SETTLING.min(patience) => {}
            Err(error) if is_transient(&error) => trouble.note(place, &error.to_string())?,
            Err(error) => return Err(error.to_string()),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Why a topic cannot be used, if the metadata says so.
fn topic_fault(metadata: &Metadata, topic: &str) -> Option<String> {
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    match found.map(|found| (found.error(), found.partitions().len())) {
        Some((None, 1..)) => None,
        Some((Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE), _)) => None,
        Some((Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART), _))
        | Some((None, 0))
        | None => Some("the topic does not exist".into()),
        Some((Some(error), _)) => Some(RDKafkaErrorCode::from(error).to_string()),
    }
}
