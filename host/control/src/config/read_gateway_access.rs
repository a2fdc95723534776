//! Reads who may ask the gateway: `[gateway.key.NAME]` and `[gateway.tokens]`.

use std::time::Duration;

use super::findings::Typed;
use super::gateway::{Endpoint, KeySecret, Quota, TokenAlgorithm};
use super::read::check_name;
use super::reader::{Table, not_one_of};
use super::typed::{TypedKey, TypedScope, TypedTokenKeys, TypedTokens};

/// Most requests or tokens a minute that can be written.
const MOST: u64 = 1_000_000_000;

pub(crate) fn read_keys(table: &Table<'_>) -> Vec<TypedKey> {
    let Some(keys) = table.table("key") else {
        return Vec::new();
    };
    let all = keys.all();
    if all.is_empty() {
        keys.missing("NAME", "[gateway.key.NAME] with its digest or variable");
    }
    let read = |(name, value): (Typed<String>, super::reader::Value<'_>)| {
        check_name(table.found, &name);
        value.table(table.found).map(|table| read_key(name, table))
    };
    all.into_iter().filter_map(read).collect()
}

fn read_key(name: Typed<String>, table: Table<'_>) -> TypedKey {
    let digest = table.string("digest");
    let variable = read_variable(&table, "variable");
    let secret = match (table.get("digest"), table.get("variable")) {
        (None, None) => {
            table.missing(
                "digest",
                "digest = \"sha256:...\", of the secret, or variable = \"NAME\", which has the secret",
            );
            None
        }
        (Some(_), Some(second)) => {
            table.found.mistake(
                &second.place,
                &second.key,
                "a key has one secret: leave one of digest and variable",
            );
            None
        }
        _ => digest
            .as_ref()
            .and_then(|typed| read_digest(&table, typed))
            .map(KeySecret::Digest)
            .or(variable.map(|typed| KeySecret::Variable(typed.value))),
    };
    let key = TypedKey {
        name,
        secret,
        scope: read_scope(&table),
        quota: read_quota(&table),
    };
    table.finish();
    key
}

fn read_digest(table: &Table<'_>, typed: &Typed<String>) -> Option<[u8; 32]> {
    let bytes = typed.value.strip_prefix("sha256:").and_then(|hex| {
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
        }
        Some(bytes)
    });
    if bytes.is_none() {
        table.found.about(
            typed,
            "is not a digest: \"sha256:\" and 64 of 0-9 and a-f, as printf %s \"$SECRET\" | sha256sum prints them",
        );
    }
    bytes
}

pub(crate) fn read_variable(table: &Table<'_>, name: &'static str) -> Option<Typed<String>> {
    let typed = table.string(name)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let text = &typed.value;
    if text.is_empty() || !text.chars().all(fits) || text.starts_with(|c: char| c.is_ascii_digit())
    {
        table.found.about(
            &typed,
            "is not the name of a variable of the environment; write for example \"SUPPORT_KEY\"",
        );
        return None;
    }
    Some(typed)
}

fn read_scope(table: &Table<'_>) -> TypedScope {
    TypedScope {
        endpoints: read_endpoints(table, &Endpoint::ALL)
            .map(|all| all.into_iter().map(|typed| typed.value).collect()),
        models: read_names(table, "models"),
    }
}

/// `endpoints`, each of them one of these and named once.
pub(crate) fn read_endpoints(
    table: &Table<'_>,
    known: &[(&'static str, Endpoint)],
) -> Option<Vec<Typed<Endpoint>>> {
    let mut endpoints: Vec<Typed<Endpoint>> = Vec::new();
    for name in read_names(table, "endpoints")? {
        match known.iter().find(|(known, _)| *known == name.value) {
            Some((_, endpoint)) => endpoints.push(name.map(|_| *endpoint)),
            None => {
                let known = known.iter().map(|(name, _)| *name);
                table.found.about(&name, not_one_of(&name.value, known));
            }
        }
    }
    Some(endpoints)
}

/// A list of names, not empty, each named once.
pub(crate) fn read_names(table: &Table<'_>, name: &'static str) -> Option<Vec<Typed<String>>> {
    let names = table.strings(name)?;
    if let Some(value) = table.get(name).filter(|_| names.is_empty()) {
        table.found.mistake(
            &value.place,
            &value.key,
            "is empty; name at least one, or leave it out",
        );
    }
    for (index, each) in names.iter().enumerate() {
        if names[..index].iter().any(|other| other.value == each.value) {
            table
                .found
                .about(each, format!("{:?} stands here twice", each.value));
        } else if each.value.is_empty() || each.value.len() > 256 {
            table.found.about(
                each,
                format!("{:?} is not a name: 1 to 256 bytes", each.value),
            );
        }
    }
    Some(names)
}

fn read_quota(table: &Table<'_>) -> Quota {
    let number = |name, most| table.number(name, 1..=most).map(|typed| typed.value);
    Quota {
        requests: number("requests-per-minute", MOST),
        tokens: number("tokens-per-minute", MOST),
        concurrent: number("concurrent-requests", 1_000_000),
    }
}

pub(crate) fn read_tokens(table: Table<'_>) -> TypedTokens {
    let algorithms = [
        ("HS256", TokenAlgorithm::Hs256),
        ("RS256", TokenAlgorithm::Rs256),
        ("ES256", TokenAlgorithm::Es256),
    ];
    if table.get("algorithm").is_none() {
        table.missing("algorithm", "algorithm = \"HS256\", \"RS256\" or \"ES256\"");
    }
    let algorithm = table.word("algorithm", &algorithms);
    let keys = read_token_keys(&table, algorithm.as_ref());
    let value = |name| table.string(name).map(|typed| typed.value);
    let tokens = TypedTokens {
        place: table.place.clone(),
        algorithm: algorithm.map(|typed| typed.value),
        keys,
        issuer: value("issuer"),
        audience: value("audience"),
        leeway: table
            .duration("leeway", "s", Duration::ZERO..=Duration::from_secs(600))
            .map_or(Duration::from_secs(30), |typed| typed.value),
        scope: read_scope(&table),
        quota: read_quota(&table),
    };
    table.finish();
    tokens
}

/// The one place that keys come from, and one that fits the algorithm: what is public must never be a secret.
fn read_token_keys(
    table: &Table<'_>,
    algorithm: Option<&Typed<TokenAlgorithm>>,
) -> Option<TypedTokenKeys> {
    let secret = read_variable(table, "secret-variable").map(TypedTokenKeys::Variable);
    let file = table.string("keys-file").map(TypedTokenKeys::File);
    let times = Duration::from_secs(10)..=Duration::from_secs(24 * 3600);
    let refresh = table.duration("keys-refresh", "m", times);
    if let Some(refresh) = &refresh
        && table.get("keys-url").is_none()
    {
        table.found.about(refresh, "belongs to keys-url");
    }
    let refresh = refresh.map_or(Duration::from_secs(600), |typed| typed.value);
    let url = table.string("keys-url").map(|typed| {
        check_url(table, &typed);
        let url = typed.value;
        TypedTokenKeys::Url { url, refresh }
    });
    let names = ["secret-variable", "keys-file", "keys-url"];
    let given: Vec<_> = names
        .into_iter()
        .filter_map(|name| Some((name, table.get(name)?)))
        .collect();
    match (given.as_slice(), algorithm.map(|typed| typed.value)) {
        ([], Some(TokenAlgorithm::Hs256)) => table.missing(
            "secret-variable",
            "secret-variable = \"NAME\", which has the secret",
        ),
        ([], _) => table.missing("keys-file", "keys-file = \"jwks.json\", or keys-url"),
        ([_, .., (_, second)], _) => table.found.mistake(
            &second.place,
            &second.key,
            "keys come from one place: leave one of secret-variable, keys-file and keys-url",
        ),
        ([(name, value)], Some(algorithm)) => {
            let secret = *name == "secret-variable";
            if secret != (algorithm == TokenAlgorithm::Hs256) {
                let why = if secret {
                    "belongs to algorithm = \"HS256\"; write keys-file or keys-url"
                } else {
                    "belongs to RS256 and ES256; with HS256 write secret-variable"
                };
                table.found.mistake(&value.place, &value.key, why);
            }
        }
        _ => {}
    }
    secret.or(file).or(url)
}

/// What is fetched in the open can be changed on its way: only from this machine.
pub(crate) fn check_url(table: &Table<'_>, typed: &Typed<String>) {
    let url = typed.value.as_str();
    let host = |rest: &str| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        host.to_owned()
    };
    let loopback = |authority: &str| {
        let name = match authority.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => authority,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let address = name.parse::<std::net::IpAddr>();
        name == "localhost" || address.is_ok_and(|address| address.is_loopback())
    };
    let right = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => !host(rest).is_empty() && !host(rest).contains('@'),
        (None, Some(rest)) => loopback(&host(rest)),
        (None, None) => false,
    };
    if !right || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        table.found.about(
            typed,
            format!("{url:?} is not https://HOST/..., or http:// of this machine"),
        );
    }
}
