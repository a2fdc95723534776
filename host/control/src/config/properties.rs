//! Settings of Kafka clients are known to those who have the client; what they say is brought to its line here.

use super::feeds::FeedKind;
use super::findings::Findings;
use super::mistake::Mistakes;
use super::nearest::nearest;
use super::pipeline::{KafkaSink, KafkaSource, Pipeline, PropertyPlaces, SinkKind, SourceKind};
use super::text::Span;

/// An end of the pipeline that is a topic.
#[derive(Clone, Copy, Debug)]
pub enum KafkaEnd<'p> {
    /// It is read.
    Source(&'p KafkaSource),
    /// It is written.
    Sink(&'p KafkaSink),
}

impl KafkaEnd<'_> {
    fn places(&self) -> &PropertyPlaces {
        match self {
            KafkaEnd::Source(source) => &source.places,
            KafkaEnd::Sink(sink) => &sink.places,
        }
    }
}

/// What is wrong with a property of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyMistake {
    /// Which; none if it is all of them together.
    pub name: Option<String>,
    /// Why, to stand behind the name; no final period.
    pub why: String,
    /// If there is no such property: those there are.
    pub known: Vec<&'static str>,
}

impl Pipeline {
    /// The topics that are read and written, each with the name of its end as in the guarantee: `source tickets`.
    pub fn kafka_ends(&self) -> Vec<(String, KafkaEnd<'_>)> {
        let mut ends = Vec::new();
        for source in &self.sources {
            if let SourceKind::Kafka(topic) = &source.kind {
                ends.push((format!("source {}", source.name), KafkaEnd::Source(topic)));
            }
        }
        let sinks = self.sinks.iter();
        let sinks = sinks.map(|sink| (format!("sink {}", sink.name), &sink.kind));
        for (name, kind) in sinks.chain([("dead letters".to_owned(), &self.dead_letters)]) {
            if let SinkKind::Kafka(topic) = kind {
                ends.push((name, KafkaEnd::Sink(topic)));
            }
        }
        for feed in &self.feeds {
            if let FeedKind::Kafka { topic, .. } = &feed.kind {
                ends.push((format!("feed {}", feed.name), KafkaEnd::Sink(topic)));
            }
        }
        ends
    }

    /// Has the properties of every topic checked; what is wrong is a mistake at its line.
    pub fn check_properties(
        &self,
        check: impl Fn(KafkaEnd<'_>) -> Vec<PropertyMistake>,
    ) -> Result<(), Mistakes> {
        let found = Findings::new(self.text.clone());
        for (_, end) in self.kafka_ends() {
            // What nobody has typed is typed elsewhere, and told there.
            if matches!(end, KafkaEnd::Sink(sink) if sink.made.is_some()) {
                continue;
            }
            let places = end.places();
            for mistake in check(end) {
                let unknown = !mistake.known.is_empty();
                let (place, key) = place_of(places, mistake.name.as_deref(), unknown);
                let near = mistake.name.as_deref();
                let near = near.and_then(|name| nearest(name, mistake.known.iter().copied()));
                let why = match near {
                    Some(near) => format!("{}; did you mean {near:?}?", mistake.why),
                    None => mistake.why,
                };
                found.mistake(&place, &key, why);
            }
        }
        match found.into_parts() {
            (mistakes, _) if mistakes.is_empty() => Ok(()),
            (mistakes, warnings) => Err(Mistakes { mistakes, warnings }),
        }
    }
}

/// A name that is unknown is shown itself, else its value.
fn place_of(places: &PropertyPlaces, name: Option<&str>, unknown: bool) -> (Span, String) {
    let found = name.and_then(|name| Some((name, places.names.get(name)?)));
    match found {
        Some((name, (of_name, of_value))) => {
            let place = if unknown { of_name } else { of_value };
            (place.clone(), format!("{}.{name}", places.key))
        }
        None => (places.table.clone(), places.key.clone()),
    }
}
