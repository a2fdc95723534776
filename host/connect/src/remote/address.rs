//! Addresses of servers.

use hyper::Uri;

use super::options::RemoteError;

/// A base to which paths are added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Without a slash at its end.
    base: String,
}

impl Address {
    /// Reads a base URL; where it has no path, this one is meant.
    pub(crate) fn new(url: &str, usual_path: &str) -> Result<Address, RemoteError> {
        let wrong = |limit| RemoteError::Url {
            url: without_user(url),
            limit,
        };
        let uri: Uri = url
            .parse()
            .map_err(|_| wrong("an http:// or https:// address"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong("an http:// or https:// address"));
        }
        if uri
            .authority()
            .is_none_or(|authority| authority.as_str().contains('@'))
        {
            return Err(wrong("without a user; a key is an option of its own"));
        }
        if uri.query().is_some() || url.contains('#') {
            return Err(wrong("without a query"));
        }
        let base = url.trim_end_matches('/');
        let path = if matches!(uri.path(), "" | "/") {
            usual_path
        } else {
            ""
        };
        Ok(Address {
            base: format!("{base}{path}"),
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.base
    }

    pub(crate) fn is_https(&self) -> bool {
        self.base
            .get(..6)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
    }

    /// The address of a path under it.
    pub(crate) fn path(&self, path: &str) -> Result<Uri, RemoteError> {
        let url = format!("{}{path}", self.base);
        url.parse().map_err(|_| RemoteError::Url {
            url,
            limit: "an http:// or https:// address",
        })
    }
}

/// What stands before an `@` may be a password.
fn without_user(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}***{}", &url[..scheme + 3], &url[at..])
        }
        _ => url.to_owned(),
    }
}

/// A part of a path: what is no letter, digit, `-`, `.`, `_` or `~` is written by its bytes.
pub(crate) fn escaped(text: &str) -> String {
    use std::fmt::Write;
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_taken_as_clients_take_it() {
        for (url, expected) in [
            ("http://localhost:8000", "http://localhost:8000/v1"),
            ("https://host/", "https://host/v1"),
            ("https://host/v1/", "https://host/v1"),
            ("https://host/a/b", "https://host/a/b"),
        ] {
            let address = Address::new(url, "/v1").unwrap();
            assert_eq!(address.as_str(), expected);
            assert_eq!(address.is_https(), url.starts_with("https"));
        }
        let model = escaped("a/b c");
        let address = Address::new("http://h", "").unwrap();
        let uri = address.path(&format!("/v2/models/{model}/infer")).unwrap();
        assert_eq!(uri.path(), "/v2/models/a%2Fb%20c/infer");
    }

    #[test]
    fn other_addresses_are_refused_and_a_password_is_not_repeated() {
        for url in [
            "",
            "host",
            "ftp://host",
            "http://host?a=b",
            "http://host/#a",
            "http://",
        ] {
            assert!(Address::new(url, "/v1").is_err(), "{url}");
        }
        let error = Address::new("http://me:pass@host", "/v1").unwrap_err();
        assert!(!error.to_string().contains("pass"), "{error}");
    }
}
