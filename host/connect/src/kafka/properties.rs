//! The names of librdkafka's properties. librdkafka tells whether it knows a name, but not which it knows; what is here
//! is for those who mistype one, and is held against librdkafka's own list by a test.

/// Who uses a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Reader,
    Writer,
}

impl Side {
    /// The properties of such a client.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let (own, _) = self.own_and_other();
        BOTH.iter().chain(own).copied()
    }

    /// Whether a property is of no use to such a client.
    pub(super) fn ignores(self, name: &str) -> bool {
        self.own_and_other().1.contains(&name)
    }

    fn own_and_other(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Side::Reader => (&READER, &WRITER),
            Side::Writer => (&WRITER, &READER),
        }
    }
}

/// The properties that only readers have, or only writers.
pub(super) fn of_one_side() -> impl Iterator<Item = &'static str> {
    READER.iter().chain(&WRITER).copied()
}

/// Of every client.
const BOTH: [&str; 106] = [
    "allow.auto.create.topics",
    "api.version.fallback.ms",
    "api.version.request",
    "api.version.request.timeout.ms",
    "bootstrap.servers",
    "broker.address.family",
    "broker.address.ttl",
    "broker.version.fallback",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "debug",
    "enable.metrics.push",
    "enable.random.seed",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "enable.ssl.certificate.verification",
    "enabled_events",
    "https.ca.location",
    "https.ca.pem",
    "internal.termination.signal",
    "log.connection.close",
    "log.queue",
    "log.thread.name",
    "log_level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.copy.max.bytes",
    "message.max.bytes",
    "metadata.broker.list",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "plugin.library.paths",
    "receive.message.max.bytes",
    "reconnect.backoff.jitter.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.metadata.authentication.type",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.blocking.max.ms",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "ssl.ca.certificate.stores",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.id",
    "ssl.engine.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.providers",
    "ssl.sigalgs.list",
    "statistics.interval.ms",
    "topic.blacklist",
    "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.cnt",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.interval.ms",
    "topic.metadata.refresh.sparse",
];

/// Of consumers: sources.
const READER: [&str; 31] = [
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "consume.callback.max.messages",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
];

/// Of producers: sinks.
const WRITER: [&str; 26] = [
    "acks",
    "batch.num.messages",
    "batch.size",
    "compression.codec",
    "compression.level",
    "compression.type",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "linger.ms",
    "message.send.max.retries",
    "message.timeout.ms",
    "partitioner",
    "produce.offset.report",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queuing.strategy",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "sticky.partitioning.linger.ms",
    "transaction.timeout.ms",
    "transactional.id",
];

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use rdkafka::ClientConfig;
    use rdkafka::error::KafkaError;
    use rdkafka::types::RDKafkaConfRes;

    use super::*;

    /// The rows of librdkafka's own table: name, and C, P or * for who uses it.
    fn documented() -> Vec<(String, String)> {
        let told = Command::new("rustc").arg("-vV").output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        let host = told.lines().find_map(|line| line.strip_prefix("host: "));
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--offline"])
            // What other platforms need may never have been fetched.
            .args(["--filter-platform", host.unwrap()])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut packages = metadata["packages"].as_array().unwrap().iter();
        let package = packages
            .find(|package| package["name"] == "rdkafka-sys")
            .unwrap();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let table = manifest.with_file_name("librdkafka/CONFIGURATION.md");
        let table = std::fs::read_to_string(table).unwrap();
        let rows = table.lines().filter_map(|line| {
            let mut cells = line.split('|').map(str::trim);
            let (name, side) = (cells.next()?, cells.next()?);
            let row = matches!(side, "C" | "P" | "*") && !line.contains("see dedicated API");
            row.then(|| (name.to_owned(), side.to_owned()))
        });
        rows.collect()
    }

    #[test]
    fn every_property_of_librdkafka_is_here_with_its_side() {
        let rows = documented();
        assert!(rows.len() > 100, "{rows:?}");
        for (name, side) in rows {
            // Not set as text.
            if ["builtin.features", "interceptors", "opaque"].contains(&name.as_str()) {
                continue;
            }
            let (read, write) = (Side::Reader, Side::Writer);
            let known = |side: Side| side.names().any(|known| known == name);
            match side.as_str() {
                "C" => assert!(known(read), "{name}"),
                "P" => assert!(known(write), "{name}"),
                _ => assert!(known(read) && known(write), "{name}"),
            }
        }
    }

    #[test]
    fn librdkafka_knows_every_name() {
        for name in BOTH.iter().chain(&READER).chain(&WRITER) {
            let set = ClientConfig::new().set(*name, "").create_native_config();
            let unknown = RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN;
            let said = set.err();
            assert!(
                !matches!(&said, Some(KafkaError::ClientConfig(why, ..)) if *why == unknown),
                "{name}: {said:?}"
            );
        }
    }
}
