//! What is wrong with the properties of a source or a sink, as far as it shows without a broker.

use rdkafka::ClientConfig;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::producer::BaseProducer;
use rdkafka::types::RDKafkaConfRes;

use super::client::{Settings, text_of};
use super::deliveries::Deliveries;
use super::options::KafkaSourceOptions;
use super::properties::Side;
use super::rebalance::Context;
use super::target::KafkaSinkOptions;
use super::{Properties, timeouts};

/// A property that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyFault {
    /// Which; none if the client cannot be set up with all of them together.
    pub name: Option<String>,
    /// Why, to stand behind the name; no final period.
    pub why: String,
    /// If there is no such property: those there are.
    pub known: Vec<&'static str>,
}

/// What is wrong with a source's properties.
pub fn check_reader(options: &KafkaSourceOptions) -> Vec<PropertyFault> {
    let settings = Settings::reader(options);
    check(settings, &options.properties, Side::Reader, |config| {
        // Without a group it is nobody, and has nothing to leave.
        config.remove("group.id").remove("group.instance.id");
        let made: Result<BaseConsumer<Context>, _> = config.create_with_context(Context::default());
        made.map(drop)
    })
}

/// What is wrong with a sink's properties.
pub fn check_writer(options: &KafkaSinkOptions) -> Vec<PropertyFault> {
    let settings = Settings::writer(options);
    check(settings, &options.properties, Side::Writer, |config| {
        let made: Result<BaseProducer<Deliveries>, _> =
            config.create_with_context(Deliveries::default());
        made.map(drop)
    })
}

fn check(
    settings: Settings,
    properties: &Properties,
    side: Side,
    make: impl FnOnce(&mut ClientConfig) -> Result<(), KafkaError>,
) -> Vec<PropertyFault> {
    let mut faults: Vec<PropertyFault> = properties
        .iter()
        .filter_map(|(name, value)| fault(&settings, side, name, value))
        .collect();
    let known = |name: &str| {
        faults
            .iter()
            .all(|fault| fault.name.as_deref() != Some(name))
    };
    if side == Side::Reader
        && let Some((name, why)) = timeouts::contradiction(properties)
        && known(name)
    {
        faults.push(PropertyFault {
            name: Some(name.to_owned()),
            why: format!("contradicts others: {why}"),
            known: Vec::new(),
        });
    }
    if !faults.is_empty() {
        return faults;
    }
    let made = settings.config(properties).and_then(|mut config| {
        // It is to look at its files, not to connect.
        config.remove("bootstrap.servers");
        make(&mut config).map_err(|error| text_of(&error))
    });
    let Err(why) = made else { return faults };
    // librdkafka names the property in its text, if it names one.
    let named = properties.keys().filter(|name| why.contains(*name));
    vec![PropertyFault {
        name: named.max_by_key(|name| name.len()).cloned(),
        why,
        known: Vec::new(),
    }]
}

/// What is wrong with one property by itself.
fn fault(settings: &Settings, side: Side, name: &str, value: &str) -> Option<PropertyFault> {
    let fault = |why: String| {
        Some(PropertyFault {
            name: Some(name.to_owned()),
            why,
            known: Vec::new(),
        })
    };
    if let Some(why) = settings.refusal(name, value) {
        return fault(why);
    }
    match ClientConfig::new().set(name, value).create_native_config() {
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
            Some(PropertyFault {
                name: Some(name.to_owned()),
                why: "is not a setting of librdkafka".to_owned(),
                known: side.names().collect(),
            })
        }
        Err(error) => fault(text_of(&error)),
        Ok(_) if is_file(name) && value != "probe" => {
            // librdkafka gives a number for it.
            let opened = std::fs::File::open(value);
            opened
                .err()
                .and_then(|error| fault(format!("{value} cannot be read: {error}")))
        }
        Ok(_) if side.ignores(name) => fault(match side {
            Side::Reader => "is a setting of those who write: it belongs to a sink".to_owned(),
            Side::Writer => "is a setting of those who read: it belongs to a source".to_owned(),
        }),
        Ok(_) => None,
    }
}

/// Whether the property is the path of a file, or of a directory, that is read.
fn is_file(name: &str) -> bool {
    let path = name.strip_suffix(".location");
    path.is_some_and(|of| of.starts_with("ssl.") && of != "ssl.engine" || of == "https.ca")
}
