//! The Python methods that chat templates call on strings, dictionaries and lists.

use minijinja::value::{Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};

/// The unknown-method callback of the template environment.
pub(crate) fn call_method(
    _: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => match value.as_str() {
            Some(text) => string_method(text, method, args),
            None => Err(unknown()),
        },
        ValueKind::Map => map_method(value, method, args),
        ValueKind::Seq | ValueKind::Iterable => list_method(value, method, args),
        _ => Err(unknown()),
    }
}

fn unknown() -> Error {
    Error::from(ErrorKind::UnknownMethod)
}

fn wrong(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.into())
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "startswith" => Value::from(any_of(args, |part| text.starts_with(part))?),
        "endswith" => Value::from(any_of(args, |part| text.ends_with(part))?),
        "strip" => Value::from(strip(text, args, true, true)?),
        "lstrip" => Value::from(strip(text, args, true, false)?),
        "rstrip" => Value::from(strip(text, args, false, true)?),
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "split" => split(text, args, false)?,
        "rsplit" => split(text, args, true)?,
        "splitlines" => {
            let () = from_args(args)?;
            text.lines().map(Value::from).collect()
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            match text.split_once(non_empty(separator)?) {
                Some((before, after)) => [before, separator, after]
                    .into_iter()
                    .map(Value::from)
                    .collect(),
                None => [text, "", ""].into_iter().map(Value::from).collect(),
            }
        }
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
            match count.and_then(|count| usize::try_from(count).ok()) {
                Some(count) => Value::from(text.replacen(old, new, count)),
                None => Value::from(text.replace(old, new)),
            }
        }
        "join" => {
            let (parts,): (Value,) = from_args(args)?;
            let mut joined = String::new();
            for (index, part) in parts.try_iter()?.enumerate() {
                if index > 0 {
                    joined.push_str(text);
                }
                joined.push_str(part.as_str().ok_or_else(|| wrong("join needs strings"))?);
            }
            Value::from(joined)
        }
        "find" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.find(part).map_or(-1, |at| characters(text, at)))
        }
        "rfind" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.rfind(part).map_or(-1, |at| characters(text, at)))
        }
        "count" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.matches(part).count())
        }
        "lower" => Value::from(text.to_lowercase()),
        "upper" => Value::from(text.to_uppercase()),
        "capitalize" => Value::from(capitalize(text)),
        "title" => Value::from(title(text)),
        "isdigit" => Value::from(!text.is_empty() && text.chars().all(char::is_numeric)),
        "isalpha" => Value::from(!text.is_empty() && text.chars().all(char::is_alphabetic)),
        "isalnum" => Value::from(!text.is_empty() && text.chars().all(char::is_alphanumeric)),
        "isspace" => Value::from(!text.is_empty() && text.chars().all(char::is_whitespace)),
        "isupper" => Value::from(cased(text, char::is_uppercase, char::is_lowercase)),
        "islower" => Value::from(cased(text, char::is_lowercase, char::is_uppercase)),
        _ => return Err(unknown()),
    })
}

fn map_method(map: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "keys" => map.try_iter()?.collect(),
        "values" => {
            let values: Result<Vec<Value>, Error> =
                map.try_iter()?.map(|key| map.get_item(&key)).collect();
            Value::from(values?)
        }
        "items" => {
            let mut items = Vec::new();
            for key in map.try_iter()? {
                let value = map.get_item(&key)?;
                items.push(Value::from(vec![key, value]));
            }
            Value::from(items)
        }
        "get" => {
            let (key, default): (Value, Option<Value>) = from_args(args)?;
            let value = map.get_item(&key)?;
            if value.is_undefined() {
                default.unwrap_or(Value::from(()))
            } else {
                value
            }
        }
        _ => return Err(unknown()),
    })
}

fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (wanted,): (Value,) = match method {
        "count" | "index" => from_args(args)?,
        _ => return Err(unknown()),
    };
    match method {
        "count" => Ok(Value::from(
            list.try_iter()?.filter(|item| *item == wanted).count(),
        )),
        _ => match list.try_iter()?.position(|item| item == wanted) {
            Some(at) => Ok(Value::from(at)),
            None => Err(wrong("index: the list has no such item")),
        },
    }
}

/// `startswith` and `endswith` take a string or a tuple of strings.
fn any_of(args: &[Value], holds: impl Fn(&str) -> bool) -> Result<bool, Error> {
    let (part,): (Value,) = from_args(args)?;
    if let Some(part) = part.as_str() {
        return Ok(holds(part));
    }
    for one in part.try_iter()? {
        if holds(
            one.as_str()
                .ok_or_else(|| wrong("expected a string or a tuple of strings"))?,
        ) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn strip<'a>(text: &'a str, args: &[Value], left: bool, right: bool) -> Result<&'a str, Error> {
    let (set,): (Option<&str>,) = from_args(args)?;
    let drops = |c: char| set.map_or(c.is_whitespace(), |set| set.contains(c));
    let text = if left {
        text.trim_start_matches(drops)
    } else {
        text
    };
    Ok(if right {
        text.trim_end_matches(drops)
    } else {
        text
    })
}

fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let most = most.and_then(|most| usize::try_from(most).ok());
    let parts: Vec<&str> = match (separator, most) {
        (Some(separator), None) => text.split(non_empty(separator)?).collect(),
        (Some(separator), Some(most)) if from_right => {
            let mut parts: Vec<&str> = text
                .rsplitn(most.saturating_add(1), non_empty(separator)?)
                .collect();
            parts.reverse();
            parts
        }
        (Some(separator), Some(most)) => text
            .splitn(most.saturating_add(1), non_empty(separator)?)
            .collect(),
        (None, None) => text.split_whitespace().collect(),
        (None, Some(_)) => return Err(wrong("split with a count needs a separator")),
    };
    Ok(parts.into_iter().map(Value::from).collect())
}

fn non_empty(separator: &str) -> Result<&str, Error> {
    if separator.is_empty() {
        Err(wrong("empty separator"))
    } else {
        Ok(separator)
    }
}

/// Python counts characters, not bytes.
fn characters(text: &str, bytes: usize) -> i64 {
    text[..bytes].chars().count() as i64
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first
            .to_uppercase()
            .chain(chars.as_str().to_lowercase().chars())
            .collect(),
        None => String::new(),
    }
}

fn title(text: &str) -> String {
    let mut in_word = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        in_word = c.is_alphabetic();
    }
    out
}

fn cased(text: &str, wanted: fn(char) -> bool, forbidden: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(forbidden)
}
