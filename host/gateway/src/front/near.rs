//! Where nobody needs a key, who asks must be a program of this machine: a page in its browser is not.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::{StatusCode, Uri};

use super::refusal::Refusal;
use super::refused::Reason;

/// Refuses what a page of another site has a browser send, also one whose name was made to lead to this machine. Pages of
/// `allowed` origins may ask, and those that this server's own address has.
pub(super) fn check(headers: &HeaderMap, allowed: bool) -> Result<(), Refusal> {
    // Browsers name a host in any case; HTTP/1.0 need not.
    let host = headers.get(HOST);
    let host = host.map(|host| host.to_str().unwrap_or_default());
    if host.is_some_and(|host| !is_near(host)) {
        return Err(Refusal::fixed(
            StatusCode::FORBIDDEN,
            Reason::HostNotAllowed,
            "without keys only this machine may ask: the Host must be localhost or a loopback address",
        ));
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let own = |origin: &[u8]| {
        let origin = std::str::from_utf8(origin).unwrap_or_default();
        let rest = origin.strip_prefix("http://");
        let rest = rest.or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| host.is_some_and(|host| rest.eq_ignore_ascii_case(host)))
    };
    if allowed || origins.all(|origin| own(origin.as_bytes())) {
        return Ok(());
    }
    Err(Refusal::fixed(
        StatusCode::FORBIDDEN,
        Reason::OriginNotAllowed,
        "without keys only pages of the origins in the pipeline file may ask",
    ))
}

/// Whether a host, with or without a port, is this machine by its own name.
fn is_near(host: &str) -> bool {
    let Ok(uri) = host.parse::<Uri>() else {
        return false;
    };
    let name = uri.host().unwrap_or_default();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => {
            name.eq_ignore_ascii_case("localhost")
                || name.to_ascii_lowercase().ends_with(".localhost")
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn checked(host: &'static str, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        check(&headers, false).is_ok()
    }

    #[test]
    fn programs_of_this_machine_may_ask_and_pages_of_others_may_not() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]:8080",
            "a.localhost:1",
        ] {
            assert!(checked(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1:80",
            "[::2]",
            "",
        ] {
            assert!(!checked(host, None), "{host}");
        }
        assert!(checked("127.0.0.1:8080", Some("http://127.0.0.1:8080")));
        assert!(!checked("127.0.0.1:8080", Some("http://127.0.0.1:9090")));
        assert!(!checked("127.0.0.1:8080", Some("https://evil.example")));
        assert!(!checked("127.0.0.1:8080", Some("null")));
    }
}
