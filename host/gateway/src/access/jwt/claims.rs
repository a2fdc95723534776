//! What a signed token says.

use serde_json::{Map, Value};

use super::json;
use super::token::Bad;
use crate::access::options::{Issuer, Permissions, Scope};

/// Latest instant that is believed to be one: what a double holds without loss, in seconds.
const LATEST: f64 = 9_007_199_254_740_992.0;

/// Longest name of a subject.
const SUBJECT: usize = 256;

/// Words of a `scope` claim that are ours begin so.
const OURS: &str = "tidegate:";

/// Who a token is of, and what may be done with it.
#[derive(Debug, PartialEq)]
pub(super) struct Subject {
    /// `sub`, if there is one.
    pub(super) name: Option<String>,
    /// Kinds of requests, if the token takes some away.
    pub(super) scopes: Option<Vec<Scope>>,
}

/// Checks the claims of a token at this second of the world.
pub(super) fn check(payload: &[u8], issuer: &Issuer, now: f64) -> Result<Subject, Bad> {
    let claims = json::object(payload).ok_or(Bad::Claims(
        "the token's claims are no JSON object, or have a name twice",
    ))?;
    let leeway = issuer.leeway.as_secs_f64();
    let until = instant(&claims, "exp", "the token's `exp` is not a time")?;
    let until = until.ok_or(Bad::Claims("the token has no `exp`"))?;
    if now >= until + leeway {
        return Err(Bad::Claims("the token has expired"));
    }
    let from = instant(&claims, "nbf", "the token's `nbf` is not a time")?;
    if from.is_some_and(|from| now + leeway < from) {
        return Err(Bad::Claims("the token is not valid yet"));
    }
    let made = instant(&claims, "iat", "the token's `iat` is not a time")?;
    if made.is_some_and(|made| now + leeway < made) {
        return Err(Bad::Claims("the token is of the future"));
    }
    if let Some(expected) = &issuer.issuer
        && claims.get("iss").and_then(Value::as_str) != Some(expected)
    {
        return Err(Bad::Claims("the token is of another issuer"));
    }
    if !is_for(claims.get("aud"), issuer.audience.as_deref()) {
        return Err(Bad::Claims("the token is for another audience"));
    }
    let name = match claims.get("sub") {
        None => None,
        Some(Value::String(name))
            if name.len() <= SUBJECT && !name.chars().any(char::is_control) =>
        {
            Some(name.clone())
        }
        Some(_) => {
            return Err(Bad::Claims(
                "the token's `sub` is not a text of at most 256 bytes",
            ));
        }
    };
    Ok(Subject {
        name,
        scopes: scopes(&claims, &issuer.permissions)?,
    })
}

fn instant(
    claims: &Map<String, Value>,
    name: &str,
    wrong: &'static str,
) -> Result<Option<f64>, Bad> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let value = value
        .as_f64()
        .filter(|value| (0.0..=LATEST).contains(value));
    value.map(Some).ok_or(Bad::Claims(wrong))
}

/// Whether the audience is ours. One who has no name is never meant (RFC 7519, 4.1.3).
fn is_for(audience: Option<&Value>, us: Option<&str>) -> bool {
    match (audience, us) {
        (None, None) => true,
        (Some(Value::String(one)), Some(us)) => one == us,
        (Some(Value::Array(all)), Some(us)) => {
            all.iter().all(Value::is_string) && all.iter().any(|one| one == us)
        }
        _ => false,
    }
}

/// What the token leaves of the issuer's scopes. Words that are not ours are for others.
fn scopes(
    claims: &Map<String, Value>,
    permissions: &Permissions,
) -> Result<Option<Vec<Scope>>, Bad> {
    let Some(scope) = claims.get("scope") else {
        return Ok(None);
    };
    let words = scope
        .as_str()
        .ok_or(Bad::Claims("the token's `scope` is not a text"))?;
    let ours: Vec<_> = words
        .split(' ')
        .filter_map(|word| word.strip_prefix(OURS))
        .collect();
    if ours.is_empty() {
        return Ok(None);
    }
    Ok(Some(
        ours.into_iter()
            .filter_map(Scope::named)
            .filter(|scope| permissions.allow(*scope))
            .collect(),
    ))
}
