//! The topics that Tidegate has for itself: what waits of each source, and dead letters that go where nobody said.

use std::collections::BTreeMap;

use tidegate_contract::{CommitPoint, Wanted};

use super::feeds::{Feed, FeedKind};
use super::findings::{Findings, Typed};
use super::pipeline::{KafkaSink, Pipeline, Sink, SinkKind, Source, SourceKind, cluster_of};
use super::read_topic::is_topic;
use super::topics::same_topic;
use super::typed::TypedChangelog;

/// How a topic is made if it is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Copies of each partition; the cluster's own number if none is given.
    pub replication: Option<u16>,
    /// Most bytes of a message; the cluster's own number if none is given.
    pub max_message: Option<usize>,
    /// Further settings of the topic.
    pub properties: BTreeMap<String, String>,
}

/// The topic that keeps what waits of a source, where cuts are transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changelog {
    /// Its name.
    pub topic: String,
    /// How it is made if it is missing.
    pub made: NewTopic,
}

/// Where the names of a source's own topics come from, for what is wrong with them.
pub(crate) struct Origin {
    name: Typed<String>,
    group: Option<Typed<String>>,
    typed: Option<TypedChangelog>,
}

impl Origin {
    /// The changelog of a source, and where that is said. What waits of a topic belongs to the positions of its group.
    pub(crate) fn changelog(
        name: Typed<String>,
        group: Option<Typed<String>>,
        typed: Option<TypedChangelog>,
        pipeline: &str,
    ) -> (Changelog, Origin) {
        let told = typed.as_ref().and_then(|typed| typed.topic.as_ref());
        let topic = match (told, &group) {
            (Some(topic), _) => topic.value.clone(),
            (None, Some(group)) => format!("{}-changelog", group.value),
            (None, None) => format!("{pipeline}-{}-changelog", name.value),
        };
        let made = typed.as_ref().map(|typed| typed.made.clone());
        let changelog = Changelog {
            topic,
            made: made.unwrap_or_default(),
        };
        (changelog, Origin { name, group, typed })
    }

    /// The value that a mistake about its topic is told at.
    fn at(&self) -> &Typed<String> {
        let told = self.typed.as_ref().and_then(|typed| typed.topic.as_ref());
        told.or(self.group.as_ref()).unwrap_or(&self.name)
    }
}

/// Where dead letters go that nobody has said a place for. From topics to topics, to a topic as well: so they are part of
/// every transaction, and whichever process of the group makes them, they are in one place. None for a file: where a file
/// is written the commit log decides, which a topic could not be part of, and nothing is made on brokers that are only
/// read.
pub(crate) fn default_letters(sources: &[Source], sinks: &[Sink]) -> Option<KafkaSink> {
    let file = |sink: &Sink| matches!(sink.kind, SinkKind::File { .. });
    let topic = |sink: &Sink| matches!(sink.kind, SinkKind::Kafka(_));
    if sinks.iter().any(file) || !sinks.iter().any(topic) {
        return None;
    }
    // Where cuts are transactions, every source that a group reads is on their cluster.
    let (source, read) = sources.iter().find_map(|source| match &source.kind {
        SourceKind::Kafka(read) => Some((source, read)),
        _ => None,
    })?;
    Some(KafkaSink {
        brokers: read.brokers.clone(),
        topic: format!("{}-dead-letters", read.group),
        properties: connection(&cluster_of(&read.brokers), sources, sinks),
        made: Some(source.changelog.made.clone()),
        places: Box::default(),
    })
}

/// How a cluster is reached, as its first sink or source says.
fn connection(cluster: &str, sources: &[Source], sinks: &[Sink]) -> BTreeMap<String, String> {
    let sinks = sinks.iter().filter_map(|sink| match &sink.kind {
        SinkKind::Kafka(topic) => Some((&topic.brokers, &topic.properties)),
        _ => None,
    });
    let sources = sources.iter().filter_map(|source| match &source.kind {
        SourceKind::Kafka(topic) => Some((&topic.brokers, &topic.properties)),
        _ => None,
    });
    let mut of_it = sinks
        .chain(sources)
        .filter(|(brokers, _)| cluster_of(brokers) == cluster);
    let reaches = |name: &str| {
        let kinds = [
            "security.",
            "sasl.",
            "ssl.",
            "socket.",
            "broker.",
            "client.",
        ];
        kinds.iter().any(|kind| name.starts_with(kind))
    };
    let (_, properties) = of_it.next().unzip();
    let properties = properties.into_iter().flatten();
    properties
        .filter(|(name, _)| reaches(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

impl Source {
    /// The topic by which dead letters of it are sent again where cuts are transactions, and the group that reads it: it has
    /// the name of the source's group.
    pub fn again_topic(&self, pipeline: &str) -> String {
        match &self.kind {
            SourceKind::Kafka(read) => format!("{}-again", read.group),
            _ => format!("{pipeline}-{}-again", self.name),
        }
    }
}

impl Pipeline {
    /// How a cluster is reached, as its first sink or source says.
    pub fn connection(&self, cluster: &str) -> BTreeMap<String, String> {
        connection(cluster, &self.sources, &self.sinks)
    }

    /// The changelogs that a run has, each with its source; none where the commit log decides.
    pub fn changelogs(&self) -> impl Iterator<Item = &Source> {
        let any = matches!(self.commit_point(), CommitPoint::Transaction { .. });
        self.sources.iter().filter(move |_| any)
    }
}

/// Whatever a pipeline writes.
#[derive(Clone, Copy)]
pub(crate) struct Written<'p> {
    pub(crate) sinks: &'p [Sink],
    pub(crate) letters: &'p SinkKind,
    pub(crate) feeds: &'p [Feed],
}

/// The names of topics of its own fit, and nobody else reads or writes them.
pub(crate) fn check_internal(
    found: &Findings,
    (pipeline, delivery): (&str, Wanted),
    (sources, origins): (&[Source], &[Origin]),
    written_by: Written<'_>,
) {
    let Written { sinks, letters, .. } = written_by;
    if let SinkKind::Kafka(topic) = letters
        && topic.made.is_some()
    {
        check_letters(found, topic, sources, origins);
    }
    let classes: Vec<_> = sources.iter().map(|one| one.kind.class()).collect();
    let written: Vec<_> = sinks.iter().map(|one| one.kind.class()).collect();
    let CommitPoint::Transaction { cluster } = CommitPoint::of(delivery, &classes, &written) else {
        let made = |kind: &SinkKind| matches!(kind, SinkKind::Kafka(topic) if topic.made.is_some());
        let topic = |source: &Source| matches!(source.kind, SourceKind::Kafka(_));
        // Dead letters are made as the changelog of this one is told.
        let used = sources.iter().position(topic).filter(|_| made(letters));
        for (number, origin) in origins.iter().enumerate() {
            let Some(typed) = origin.typed.as_ref().filter(|_| used != Some(number)) else {
                continue;
            };
            found.warning(
                &typed.place,
                &typed.key,
                "has no effect: the cuts of this pipeline are entries of the commit log, which has what waits",
            );
        }
        return;
    };
    let brokers: Vec<String> = cluster.split(',').map(str::to_owned).collect();
    let mut before: Vec<(&str, &str)> = Vec::new();
    for (source, origin) in sources.iter().zip(origins) {
        let topic = source.changelog.topic.as_str();
        let fault = |why: String| {
            let what = format!("the changelog of source {} is topic {topic:?}", source.name);
            found.about(origin.at(), format!("{what}, {why}"));
        };
        if !is_topic(topic) {
            fault(
                "which is none: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'; name another with \
                 changelog = { topic = \"...\" }"
                    .into(),
            );
        }
        if let Some((_, other)) = before.iter().find(|(known, _)| *known == topic) {
            fault(format!(
                "which is that of source {other} too; give each its own"
            ));
        }
        before.push((topic, &source.name));
        for who in users(topic, &brokers, sources, written_by) {
            fault(format!("which {who}; name another"));
        }
        let again = source.again_topic(pipeline);
        let own = sources.iter().map(|source| &source.changelog.topic);
        let kept = own
            .filter(|own| **own == again)
            .map(|_| "is a changelog".to_owned());
        for who in users(&again, &brokers, sources, written_by)
            .into_iter()
            .chain(kept)
        {
            let why = format!(
                "dead letters of source {} are sent again through topic {again:?}, which {who}; use another one there",
                source.name
            );
            found.about(origin.at(), why);
        }
    }
}

/// Who of the pipeline reads or writes this topic, which is to be Tidegate's own.
fn users(
    topic: &str,
    brokers: &[String],
    sources: &[Source],
    Written {
        sinks,
        letters,
        feeds,
    }: Written<'_>,
) -> Vec<String> {
    let is = |other: &str, at: &[String]| same_topic((topic, brokers), (other, at));
    let mut users = Vec::new();
    for reader in sources {
        if let SourceKind::Kafka(read) = &reader.kind
            && is(&read.topic, &read.brokers)
        {
            users.push(format!("source {} reads", reader.name));
        }
    }
    let named = sinks
        .iter()
        .map(|sink| (format!("sink {}", sink.name), &sink.kind));
    for (name, kind) in named.chain([("[dead-letters]".to_owned(), letters)]) {
        if let SinkKind::Kafka(written) = kind
            && is(&written.topic, &written.brokers)
        {
            users.push(format!("{name} writes"));
        }
    }
    for feed in feeds {
        if let FeedKind::Kafka { topic: written, .. } = &feed.kind
            && is(&written.topic, &written.brokers)
        {
            users.push(format!("feed {} writes", feed.name));
        }
    }
    users
}

/// The topic of dead letters that nobody has named.
fn check_letters(found: &Findings, letters: &KafkaSink, sources: &[Source], origins: &[Origin]) {
    let topic = letters.topic.as_str();
    let mut all = sources.iter().zip(origins);
    let whose = all.find(|(source, _)| matches!(source.kind, SourceKind::Kafka(_)));
    if let Some((_, origin)) = whose.filter(|_| !is_topic(topic)) {
        let at = origin.group.as_ref().unwrap_or(&origin.name);
        found.about(
            at,
            format!(
                "dead letters go to topic {topic:?}, which is none: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'; name \
                 another in [dead-letters]"
            ),
        );
    }
    for (source, origin) in sources.iter().zip(origins) {
        if let SourceKind::Kafka(read) = &source.kind
            && same_topic((topic, &letters.brokers), (&read.topic, &read.brokers))
        {
            found.about(
                &origin.name,
                format!(
                    "reads {topic:?}, where the dead letters of this pipeline go, and would make more letters of these; name \
                     another topic in [dead-letters]"
                ),
            );
        }
    }
}

/// What a client was told is kept is in a log of this process, which no transaction has a part in.
pub(crate) fn check_ingest(found: &Findings, delivery: Wanted, sources: &[Source], sinks: &[Sink]) {
    let ingest = |source: &&Source| matches!(source.kind, SourceKind::Ingest(_));
    let others = sources.iter().filter(|source| !ingest(source));
    let classes: Vec<_> = others.map(|one| one.kind.class()).collect();
    let written: Vec<_> = sinks.iter().map(|one| one.kind.class()).collect();
    let CommitPoint::Transaction { cluster } = CommitPoint::of(delivery, &classes, &written) else {
        return;
    };
    for source in sources {
        if let SourceKind::Ingest(ingest) = &source.kind {
            found.about(
                &ingest.name,
                format!(
                    "is a log of this process, which has no part in the transactions of the Kafka cluster {cluster} that \
                     the sinks would be written in; write delivery = \"at-least-once\" in [pipeline], or a sink of type \
                     \"file\" beside them"
                ),
            );
        }
    }
}
