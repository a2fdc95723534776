//! Kafka topics as sources and sinks, at least once, through librdkafka.
//!
//! The classic group protocol, one polling thread (the worker's), no automatic commit: a position is committed when
//! `flow` says that everything before it is done.
//!
//! Security: `properties` goes to librdkafka as it is (`security.protocol`, `sasl.*`, `ssl.*`). This build has neither
//! TLS nor SASL, since both need libraries of the system; to have them, build with rdkafka's features `ssl` (or
//! `ssl-vendored`) and `gssapi`. Without them librdkafka refuses such a property by name when the source or sink is opened.
//!
//! Compression: gzip, snappy and lz4 are read and written. A topic with zstd needs rdkafka's feature `zstd`; without it
//! the source ends with an error at the first such record, rather than going past it.

mod assignment;
mod begin;
mod deliveries;
mod letter;
mod native;
mod options;
mod reading;
mod rebalance;
mod settle;
mod sink;
mod source;
mod target;
mod topic;
mod transaction;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::metadata::Metadata;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use tracing::{debug, warn};

pub use options::{KafkaSourceOptions, KafkaStart};
pub use sink::KafkaSink;
pub use source::KafkaSource;
pub use target::KafkaSinkOptions;
pub use transaction::{ChangelogOptions, ChangelogPartitions, KafkaCommitter, TransactionOptions};

/// How often trouble that goes on is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// librdkafka settings as given in the pipeline file.
pub type Properties = BTreeMap<String, String>;

/// The client's configuration: ours, then the user's on top, except for what our guarantee rests on.
fn client_config(
    brokers: &str,
    ours: &[(&str, &str)],
    reserved: &[(&str, &str)],
    properties: &Properties,
) -> Result<ClientConfig, String> {
    let mut config = ClientConfig::new();
    let always = [
        ("bootstrap.servers", brokers),
        ("client.id", "tidegate"),
        ("socket.keepalive.enable", "true"),
        ("log.connection.close", "false"),
        ("reconnect.backoff.max.ms", "2000"),
    ];
    for (name, value) in always.iter().chain(ours) {
        config.set(*name, *value);
    }
    for (name, value) in properties {
        let fixed = reserved.iter().find(|(reserved, _)| reserved == name);
        if let Some((_, value)) = fixed {
            return Err(format!(
                "property {name} cannot be set: this needs it to be {value}"
            ));
        }
        config.set(name, value);
    }
    for (name, value) in reserved {
        config.set(*name, *value);
    }
    config.set_log_level(RDKafkaLogLevel::Info);
    Ok(config)
}

/// What librdkafka logs. Lost connections are logged by [`Trouble`], at intervals.
fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            warn!(facility, "kafka client: {message}");
        }
        _ => debug!(facility, "kafka client: {message}"),
    }
}

/// The librdkafka code of an error, if it has one.
fn code_of(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    error.rdkafka_error_code()
}

/// Whether time can mend this: a broker that is away, a leader or coordinator that moves.
fn is_transient(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    !matches!(
        code_of(error),
        None | Some(
            Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::SaslAuthenticationFailed
                | Code::Authentication
                | Code::UnsupportedFeature
                | Code::UnsupportedVersion
                | Code::UnsupportedSASLMechanism
                | Code::InvalidArgument
                | Code::FencedInstanceId
                | Code::InvalidGroupId
                | Code::InconsistentGroupProtocol
                | Code::Fatal
                // Records that cannot be read: asking again gives the same bytes, going on would lose them.
                | Code::BadMessage
                | Code::BadCompression
                | Code::InvalidMessage
                | Code::NotImplemented
                | Code::UnsupportedCompressionType
        )
    )
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

/// Waits until the brokers answer for this topic; the error says why they do not.
fn wait_for_topic(
    place: &str,
    topic: &str,
    wait: Duration,
    mut fetch: impl FnMut(Duration) -> KafkaResult<Metadata>,
) -> Result<(), String> {
    let mut trouble = Trouble::new(wait);
    loop {
        match fetch(Duration::from_secs(2).min(wait)) {
            Ok(metadata) => return topic_fault(&metadata, topic).map_or(Ok(()), Err),
            Err(error) if !is_transient(&error) => return Err(error.to_string()),
            Err(error) => trouble.note(place, &error.to_string())?,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Trouble that may pass: logged at intervals, final after a while.
#[derive(Debug)]
struct Trouble {
    patience: Duration,
    since: Option<Instant>,
    logged: Option<Instant>,
}

impl Trouble {
    fn new(patience: Duration) -> Trouble {
        Trouble {
            patience,
            since: None,
            logged: None,
        }
    }

    fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// It is there (again, still); an error once it has lasted too long.
    fn note(&mut self, place: &str, why: &str) -> Result<(), String> {
        let now = Instant::now();
        let lasted = now - *self.since.get_or_insert(now);
        if lasted > self.patience {
            return Err(format!("{why}, for {} s now", lasted.as_secs()));
        }
        if self
            .logged
            .is_none_or(|logged| now - logged >= LOG_INTERVAL)
        {
            self.logged = Some(now);
            warn!(place, lasted_s = lasted.as_secs(), "{why}; trying again");
        }
        Ok(())
    }

    /// It has passed.
    fn clear(&mut self, place: &str) {
        if self.since.take().is_some() && self.logged.take().is_some() {
            warn!(place, "works again");
        }
    }
}
