//! Addresses as URLs and browsers write them: the server of a URL, and the origin of a page.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The server of a URL: its host without brackets, and its port. None if it is no URL of HTTP.
pub(crate) fn server(url: &str) -> Option<(&str, u16)> {
    let (rest, usual) = scheme(url)?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.rsplit_once(':') {
        // A colon within brackets is one of the address.
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, usual),
    };
    let host = host
        .strip_prefix('[')
        .map_or(host, |host| host.strip_suffix(']').unwrap_or(host));
    (!host.is_empty()).then_some((host, port))
}

/// Whether who asks this URL asks whoever listens on this address of the same machine. Only what is certain without a
/// network is said: a name other than `localhost` may be anybody's.
pub(crate) fn is_asked_by(url: &str, listens: SocketAddr) -> bool {
    let Some((host, port)) = server(url) else {
        return false;
    };
    if port != listens.port() {
        return false;
    }
    let own = listens.ip();
    if host.eq_ignore_ascii_case("localhost") {
        return own.is_loopback() || own.is_unspecified();
    }
    let Ok(asked) = host.parse::<IpAddr>() else {
        return false;
    };
    // Who connects to no address in particular gets to this machine.
    let here = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    let is_everything = own.is_unspecified() || asked.is_unspecified();
    asked.to_canonical() == own.to_canonical() || (is_everything && here(asked) && here(own))
}

/// What keeps a text from being the origin of a page as browsers send it, or `*`.
pub(crate) fn wrong_origin(text: &str) -> Option<String> {
    if text == "*" {
        return None;
    }
    let none = || {
        Some(format!(
            "{text:?} is not an origin; write for example \"https://app.example\", as browsers send it"
        ))
    };
    let Some((rest, usual)) = scheme(text) else {
        return none();
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (rest, None),
    };
    if host.contains('*') {
        return Some(format!(
            "{text:?} has a \"*\", which stands for no part of a host; write every origin, or \"*\" alone for all"
        ));
    }
    if !is_host(host) {
        return none();
    }
    // Without one there is nothing more that could be wrong.
    let port = port?;
    match port.parse::<u16>() {
        Ok(number) if number == usual => Some(format!(
            "{text:?} is never sent: browsers leave :{usual} out; write {:?}",
            text.trim_end_matches(&format!(":{port}"))
        )),
        Ok(number) if number > 0 && number.to_string() == port => None,
        _ => none(),
    }
}

/// What comes after the scheme, and the port that it has where none is written.
fn scheme(url: &str) -> Option<(&str, u16)> {
    let https = url.strip_prefix("https://").map(|rest| (rest, 443));
    https.or_else(|| Some((url.strip_prefix("http://")?, 80)))
}

/// A host in the one form that browsers write: an address, or a name in small letters.
fn is_host(host: &str) -> bool {
    if let Some(inside) = host.strip_prefix('[') {
        let address = inside.strip_suffix(']').unwrap_or_default();
        let parsed = address.parse::<Ipv6Addr>();
        return parsed.is_ok_and(|parsed| parsed.to_string() == address);
    }
    let letter = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'
    };
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(letter);
    host.len() <= 253 && host.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_sends_and_nothing_else() {
        for origin in [
            "*",
            "https://app.example",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "https://a.example:80",
            "https://xn--bcher-kva.example",
        ] {
            assert_eq!(wrong_origin(origin), None, "{origin}");
        }
        for (origin, why) in [
            ("https://*.example", "stands for no part of a host"),
            ("https://a.example,https://b.example", "is not an origin"),
            ("https://a.example:443", "write \"https://a.example\""),
            ("http://a.example:80", "write \"http://a.example\""),
            ("https://a.example:0443", "browsers leave :443 out"),
            ("https://a.example:08443", "is not an origin"),
            ("https://a.example:", "is not an origin"),
            ("https://a.example:99999", "is not an origin"),
            ("https://A.example", "is not an origin"),
            ("https://a.example/", "is not an origin"),
            ("https://me@a.example", "is not an origin"),
            ("https://a..example", "is not an origin"),
            ("https://[0:0:0:0:0:0:0:1]", "is not an origin"),
            ("https://[::1", "is not an origin"),
            ("https://", "is not an origin"),
            ("app.example", "is not an origin"),
            ("null", "is not an origin"),
        ] {
            let said = wrong_origin(origin).unwrap_or_default();
            assert!(said.contains(why), "{origin}: {said:?}");
        }
    }

    #[test]
    fn a_url_is_known_to_be_that_of_an_address_of_this_machine() {
        for (url, listens, own) in [
            ("http://127.0.0.1:8080/v1", "127.0.0.1:8080", true),
            ("http://localhost:8080/v1", "127.0.0.1:8080", true),
            ("http://LOCALHOST:8080", "[::1]:8080", true),
            ("https://localhost:8443/v1", "0.0.0.0:8443", true),
            ("http://127.0.0.1:8080/v1", "0.0.0.0:8080", true),
            ("http://[::1]:8080/v1", "[::]:8080", true),
            ("http://0.0.0.0:8080/v1", "127.0.0.1:8080", true),
            ("http://10.0.0.7:8080/v1", "10.0.0.7:8080", true),
            ("https://10.0.0.7/v1", "10.0.0.7:443", true),
            ("http://127.0.0.1:8081/v1", "127.0.0.1:8080", false),
            ("http://127.0.0.2:8080/v1", "127.0.0.1:8080", false),
            ("http://10.0.0.7:8080/v1", "0.0.0.0:8080", false),
            ("https://models.example:8080/v1", "0.0.0.0:8080", false),
            ("http://localhost:8080/v1", "10.0.0.7:8080", false),
            ("models:8080", "127.0.0.1:8080", false),
        ] {
            let listens = listens.parse().unwrap();
            assert_eq!(is_asked_by(url, listens), own, "{url} {listens}");
        }
    }
}
