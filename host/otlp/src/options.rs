//! Where things are sent, and what they say of who sends them.

use std::fmt;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};

/// Most headers that are sent beside those of every request, and most bytes of all of them.
const MOST_HEADERS: usize = 32;
const MOST_HEADER_BYTES: usize = 8 << 10;

/// A collector for one kind of message.
#[derive(Clone)]
pub struct Collector {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector")
            .field("uri", &self.uri)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The address is no URL.
    #[error("{url:?} is not a URL of http or https: {why}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The headers cannot be sent. Values are not told: they may be secrets.
    #[error("headers for the collector: {0}")]
    Headers(String),
    /// TLS cannot be spoken.
    #[error("TLS to the collector: {0}")]
    Tls(String),
    /// Its thread does not start.
    #[error("the exporter does not start: {0}")]
    Thread(#[from] std::io::Error),
}

impl Collector {
    /// At this URL. One without a path is that of a whole collector, whose place for these messages is `path`; one with a
    /// path is taken as it is. `headers` are as `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value,name=value`, values
    /// percent-encoded.
    pub fn new(
        url: &str,
        path: &str,
        headers: &str,
        timeout: Duration,
    ) -> Result<Collector, OtlpError> {
        let wrong = |why: String| OtlpError::Url {
            url: url.to_owned(),
            why,
        };
        let whole = |url: &str| url.parse::<Uri>().map_err(|error| wrong(error.to_string()));
        let mut uri = whole(url)?;
        if uri.path().is_empty() || uri.path() == "/" {
            uri = whole(&format!("{}{path}", url.trim_end_matches('/')))?;
        }
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(wrong("it has another scheme, or no host".to_owned()));
        }
        Ok(Collector {
            uri,
            headers: read_headers(headers)?,
            timeout,
        })
    }

    /// Where it is, to be shown.
    pub fn url(&self) -> String {
        self.uri.to_string()
    }
}

fn read_headers(text: &str) -> Result<HeaderMap, OtlpError> {
    let mut headers = HeaderMap::new();
    if text.len() > MOST_HEADER_BYTES {
        let bytes = text.len();
        let why = format!("{bytes} bytes exceed {MOST_HEADER_BYTES}");
        return Err(OtlpError::Headers(why));
    }
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    for (number, pair) in (1..).zip(pairs) {
        let wrong = |what: &str| OtlpError::Headers(format!("pair {number} {what}"));
        if number > MOST_HEADERS {
            return Err(wrong(&format!("is one more than {MOST_HEADERS}")));
        }
        let (name, value) = pair.split_once('=').ok_or_else(|| wrong("has no ="))?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| wrong("has no header's name"))?;
        if [
            "host",
            "content-length",
            "content-type",
            "transfer-encoding",
            "connection",
        ]
        .contains(&name.as_str())
        {
            return Err(wrong("has a name that belongs to the connection"));
        }
        let value = decoded(value.trim()).ok_or_else(|| wrong("is not percent-encoded"))?;
        let mut value = HeaderValue::from_bytes(&value)
            .map_err(|_| wrong("has a value with control characters"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        if digits.starts_with('+') {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(bytes)
}

/// Who sends: attributes of everything that is sent.
#[derive(Clone, Debug, Default)]
pub struct Resource(Vec<(&'static str, String)>);

impl Resource {
    /// A pipeline in a process.
    pub fn of(pipeline: &str, instance: &str) -> Resource {
        Resource(vec![
            ("service.name", pipeline.to_owned()),
            ("service.namespace", "tidegate".to_owned()),
            ("service.instance.id", instance.to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ])
    }

    pub(crate) fn message(&self) -> opentelemetry_proto::tonic::resource::v1::Resource {
        let attributes = self.0.iter().map(|(name, value)| text(name, value));
        opentelemetry_proto::tonic::resource::v1::Resource {
            attributes: attributes.collect(),
            ..Default::default()
        }
    }
}

/// What made it.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "tidegate".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// An attribute that is a text.
pub(crate) fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, any_value::Value::StringValue(value.to_owned()))
}

/// An attribute.
pub(crate) fn attribute(name: &str, value: any_value::Value) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(url: &str, headers: &str) -> Result<Collector, OtlpError> {
        Collector::new(url, "/v1/traces", headers, Duration::from_secs(1))
    }

    #[test]
    fn a_url_without_a_path_is_that_of_a_whole_collector() {
        let url = |url: &str| collector(url, "").unwrap().url();
        assert_eq!(
            url("http://127.0.0.1:4318"),
            "http://127.0.0.1:4318/v1/traces"
        );
        assert_eq!(
            url("http://127.0.0.1:4318/"),
            "http://127.0.0.1:4318/v1/traces"
        );
        assert_eq!(
            url("https://a.example/own/place"),
            "https://a.example/own/place"
        );
        for wrong in ["", "4318", "ftp://a.example", "/v1/traces", "http://"] {
            assert!(collector(wrong, "").is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_read_as_opentelemetry_has_them_and_their_values_are_never_told() {
        let read = collector("http://a", "api-key=s%20ecret%3D, x-scope = 7").unwrap();
        assert_eq!(read.headers["api-key"], "s ecret=");
        assert_eq!(read.headers["x-scope"], "7");
        assert!(!format!("{read:?}").contains("ecret"));
        let many = "a=1,".repeat(33);
        let long = format!("a={}", "s".repeat(9000));
        for wrong in [
            "secret",
            "s ecret=1",
            "a=secret%zz",
            "a=secret%",
            "host=secret",
            "a=secret%0a",
            "a=%+1",
            &many,
            &long,
        ] {
            let error = collector("http://a", wrong).unwrap_err().to_string();
            assert!(error.starts_with("headers for the collector: "), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
