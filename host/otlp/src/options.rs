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

/// Where a collector is told one kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint<'a> {
    /// The URL of a whole collector: the path of the kind of message is appended to its own.
    Base {
        /// The URL.
        url: &'a str,
        /// The path, as in `/v1/traces`.
        path: &'a str,
    },
    /// This URL and no other.
    Exact(&'a str),
}

impl Endpoint<'_> {
    /// The URL that messages are sent to, in full.
    fn whole(&self) -> String {
        match self {
            Endpoint::Base { url, path } => format!("{}{path}", url.trim_end_matches('/')),
            Endpoint::Exact(url) => (*url).to_owned(),
        }
    }
}

impl Collector {
    /// At this endpoint. `headers` are as `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value,name=value`, values
    /// percent-encoded. A user, a query or a fragment may be secrets, and are refused.
    pub fn new(
        endpoint: Endpoint<'_>,
        headers: &str,
        timeout: Duration,
    ) -> Result<Collector, OtlpError> {
        let url = match endpoint {
            Endpoint::Base { url, .. } | Endpoint::Exact(url) => url,
        };
        let wrong = |why: &str| OtlpError::Url {
            url: without_secrets(url),
            why: why.to_owned(),
        };
        if url.contains(['@', '?', '#']) {
            return Err(wrong("it has a user, a query or a fragment"));
        }
        let uri = endpoint.whole().parse::<Uri>();
        let uri = uri.map_err(|error| wrong(&error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(wrong("it has another scheme, or no host"));
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

    /// Whether headers go there that everybody on the way can read.
    pub fn tells_headers(&self) -> bool {
        self.uri.scheme_str() != Some("https") && !self.headers.is_empty()
    }
}

/// A URL as it may be shown, whatever it is: without what stands before an `@`, and after a `?` or a `#`.
pub fn without_secrets(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        (None, Some((_, rest))) => rest.to_owned(),
        (_, None) => shown.to_owned(),
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
        Collector::new(Endpoint::Exact(url), headers, Duration::from_secs(1))
    }

    #[test]
    fn the_url_of_a_whole_collector_keeps_its_path_and_an_exact_one_is_taken_as_it_is() {
        let base = |url| {
            let path = "/v1/traces";
            let endpoint = Endpoint::Base { url, path };
            let collector = Collector::new(endpoint, "", Duration::from_secs(1));
            collector.unwrap().url()
        };
        assert_eq!(base("http://a:4318"), "http://a:4318/v1/traces");
        assert_eq!(base("http://a:4318/"), "http://a:4318/v1/traces");
        assert_eq!(base("https://a/otlp"), "https://a/otlp/v1/traces");
        assert_eq!(base("https://a/otlp/"), "https://a/otlp/v1/traces");
        let exact = |url| collector(url, "").unwrap().url();
        assert_eq!(exact("https://a/own/place"), "https://a/own/place");
        assert_eq!(exact("https://a"), "https://a/");
        for wrong in ["", "4318", "ftp://a.example", "/v1/traces", "http://"] {
            assert!(collector(wrong, "").is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_may_be_a_secret_in_a_url_is_refused_and_never_told() {
        for secret in [
            "http://user:secret@a.example",
            "https://a.example/v1?key=secret",
            "https://a.example/#secret",
            "secret@a.example",
            "ftp://u:secret@a@b?secret",
        ] {
            let error = collector(secret, "").unwrap_err().to_string();
            assert!(
                !error.contains("secret@") && !error.contains("=secret"),
                "{error}"
            );
            assert!(!without_secrets(secret).contains("secret"), "{secret}");
        }
        let plain = "https://a.example/otlp";
        assert_eq!(without_secrets(plain), plain);
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
