//! Checks the addresses of other servers.

use super::findings::Typed;
use super::reader::Table;

/// What is expected of an address.
pub(crate) struct Expected {
    /// Whose it is, as in "a server".
    pub whose: &'static str,
    pub example: &'static str,
    /// What goes there and is to stay secret, as in "the key of key-variable is".
    pub secret: Option<&'static str>,
}

/// An address of HTTP without user, query and fragment; a warning where a secret goes there in the open.
pub(crate) fn check_url(table: &Table<'_>, typed: &Typed<String>, expected: &Expected) {
    let url = typed.value.as_str();
    let rest = (url.strip_prefix("https://")).or(url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    let fits = |host: &str| !host.is_empty() && !host.contains('@');
    let plain = !url.contains(['?', '#']) && url.chars().all(|c| c.is_ascii_graphic());
    if !(host.is_some_and(fits) && plain) {
        let Expected { whose, example, .. } = expected;
        table.found.about(
            typed,
            format!("{url:?} is not the address of {whose}; write for example \"{example}\""),
        );
    } else if let Some(secret) = expected.secret
        && url.starts_with("http://")
    {
        let what = format!("is not https: {secret} sent in the open");
        table.found.warning(&typed.place, &typed.key, what);
    }
}
