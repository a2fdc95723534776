//! Kafka topics as sources and sinks, at least once, through librdkafka.
//!
//! The classic group protocol, one polling thread (the worker's), no automatic commit: a position is committed when
//! `flow` says that everything before it is done.
//!
//! Security: `properties` goes to librdkafka as it is (`security.protocol`, `sasl.*`, `ssl.*`). TLS is the system's
//! OpenSSL; SASL is PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, which need no further library. Kerberos (GSSAPI) does, and is
//! not in this build: librdkafka refuses it by name when the pipeline file is checked.
//!
//! Compression: gzip, snappy, lz4 and zstd are read and written. A source ends with an error at a record that is
//! compressed in another way, rather than going past it.

mod again;
mod assignment;
mod begin;
mod check;
mod client;
mod deliveries;
mod feed;
mod internal;
mod lag;
mod leaving;
mod letter;
mod letters;
mod member;
mod native;
mod options;
mod probe;
mod properties;
mod reading;
mod rebalance;
mod settle;
mod sink;
mod source;
mod target;
pub mod timeouts;
mod told;
mod topic;
mod transaction;
mod troubles;
mod until;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use tracing::{debug, warn};

pub use again::{
    KafkaAgain, KafkaAgainOptions, KafkaLetterSource, KafkaSending, LetterFate, LetterToSend,
    SentAgain,
};
pub use check::{PropertyFault, check_reader, check_writer};
pub use feed::{FeedFailure, KafkaFeed, KafkaFeedOptions};
pub use internal::InternalTopic;
pub use letters::KafkaLetters;
pub use options::{KafkaSourceOptions, KafkaStart};
pub use probe::{TopicReport, probe_changelog, probe_read, probe_write};
pub use sink::KafkaSink;
pub use source::KafkaSource;
pub use target::KafkaSinkOptions;
pub use transaction::{ChangelogOptions, ChangelogPartitions, KafkaCommitter, TransactionOptions};

/// How often trouble that goes on is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// librdkafka settings as given in the pipeline file.
pub type Properties = BTreeMap<String, String>;

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
                | Code::InvalidTransactionTimeout
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

/// Trouble that may pass: logged at intervals, final after a while.
#[derive(Debug)]
struct Trouble {
    patience: Duration,
    /// Shorter trouble is not worth a word.
    quiet: Duration,
    since: Option<Instant>,
    logged: Option<Instant>,
}

impl Trouble {
    fn new(patience: Duration) -> Trouble {
        Trouble {
            patience,
            quiet: Duration::ZERO,
            since: None,
            logged: None,
        }
    }

    /// Of a question that often has no answer at first: that is not logged before it has lasted so long.
    fn quiet_for(self, quiet: Duration) -> Trouble {
        Trouble { quiet, ..self }
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
        let is_due = |logged| now - logged >= LOG_INTERVAL;
        if lasted >= self.quiet && self.logged.is_none_or(is_due) {
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
