//! Parameters that several endpoints have.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_contract::{Parameters, Structure, Wishes};

use super::error::ApiError;
use super::fields::{Fields, number, text, wrong_type};

type Read<T> = Result<T, ApiError>;

/// Most answers to one prompt, as OpenAI's description has it.
const MOST_CHOICES: u32 = 128;
/// Highest temperature, as it has it.
const MOST_HEAT: f32 = 2.0;
/// Seeds are numbers that JSON holds exactly.
const SEED: u64 = (1 << 53) - 1;
/// Most bytes of a user: each record of a request has it.
const MOST_USER: usize = 512;
/// Most pairs of metadata, and most characters of a name and a value, as it has them.
const MOST_PAIRS: usize = 16;
const LONGEST_NAME: usize = 64;
const LONGEST_VALUE: usize = 512;
/// Most tokens that are biased, and most bytes of a stop string: each prompt of a request has them.
const MOST_BIASES: usize = 1024;
const MOST_STOP: usize = 1024;

/// Temperature, nucleus, penalties, bias, seed and stop strings.
pub(crate) fn sampling(body: &mut Fields) -> Read<Wishes> {
    let wishes = Wishes {
        temperature: temperature(body)?,
        top_p: top_p(body)?,
        presence_penalty: body.number("presence_penalty", &Parameters::PENALTIES)?,
        frequency_penalty: body.number("frequency_penalty", &Parameters::PENALTIES)?,
        logit_bias: bias(body)?,
        n: body
            .integer("n", 1, u64::from(MOST_CHOICES))?
            .map(|n| n as u32),
        stop: stop(body)?,
        seed: body.signed("seed")?.map(|seed| seed as u64 & SEED),
        ..Wishes::default()
    };
    let asked = wishes.over(&Parameters::default());
    match asked.check_ranges(MOST_CHOICES) {
        Ok(()) => Ok(wishes),
        Err(error) => Err(ApiError::model(&error, "messages")),
    }
}

/// How far from greedy the sampling is.
pub(crate) fn temperature(body: &mut Fields) -> Read<Option<f32>> {
    body.number("temperature", &(0.0..=MOST_HEAT))
}

/// The share of probability that is sampled from. None at all is as good as the likeliest alone.
pub(crate) fn top_p(body: &mut Fields) -> Read<Option<f32>> {
    let share = body.number("top_p", &(0.0..=1.0))?;
    Ok(share.map(|share| share.max(f32::MIN_POSITIVE)))
}

fn bias(body: &mut Fields) -> Read<Option<BTreeMap<u32, f32>>> {
    let path = body.at("logit_bias");
    let Some(value) = body.any("logit_bias") else {
        return Ok(None);
    };
    let Value::Object(members) = value else {
        return Err(wrong_type(&path, &value, "an object"));
    };
    if members.len() > MOST_BIASES {
        let why = format!(
            "has {} tokens, must have at most {MOST_BIASES}",
            members.len()
        );
        return Err(body.wrong("logit_bias", why));
    }
    let mut bias = BTreeMap::new();
    for (token, value) in members {
        let at = format!("{path}.{token}");
        let Ok(token) = token.parse::<u32>() else {
            let why = format!("{at} is named by {token:?}, must be by the number of a token");
            return Err(ApiError::invalid(&at, "invalid_value", why));
        };
        bias.insert(token, number(&at, &value, &Parameters::BIASES)?);
    }
    Ok(Some(bias))
}

fn stop(body: &mut Fields) -> Read<Option<Vec<String>>> {
    let list = match body.any("stop") {
        None => return Ok(None),
        Some(Value::String(stop)) => vec![stop],
        Some(Value::Array(list)) => {
            let texts = list.into_iter().enumerate();
            texts
                .map(|(index, value)| text(&format!("stop[{index}]"), value))
                .collect::<Read<_>>()?
        }
        Some(other) => {
            return Err(wrong_type(
                "stop",
                &other,
                "a string or an array of strings",
            ));
        }
    };
    if list.iter().any(String::is_empty) {
        return Err(body.wrong("stop", "has an empty string, must have none"));
    }
    if let Some(long) = list.iter().map(String::len).find(|long| *long > MOST_STOP) {
        let why = format!("has a string of {long} bytes, must have at most {MOST_STOP}");
        return Err(body.wrong("stop", why));
    }
    Ok(Some(list))
}

/// What an answer must be: `response_format` of chats, whose schema stands in a member of its own.
pub(crate) fn response_format(body: &mut Fields) -> Read<Option<Structure>> {
    let Some(mut format) = body.inner("response_format")? else {
        return Ok(None);
    };
    match format.needed_text("type")?.as_str() {
        "json_schema" => {
            let mut schema = format
                .inner("json_schema")?
                .ok_or_else(|| format.missing("json_schema"))?;
            schema_form(&mut schema).map(Some)
        }
        other => plain_form(&format, other),
    }
}

/// `text` and `json_object`.
pub(crate) fn plain_form(format: &Fields, kind: &str) -> Read<Option<Structure>> {
    match kind {
        "text" => Ok(None),
        "json_object" => Ok(Some(Structure::JsonSchema(
            json!({"type": "object"}).to_string(),
        ))),
        other => {
            let why = format!("is {other:?}, must be \"text\", \"json_object\" or \"json_schema\"");
            Err(format.wrong("type", why))
        }
    }
}

/// A named schema.
pub(crate) fn schema_form(form: &mut Fields) -> Read<Structure> {
    form.needed_text("name")?;
    form.text("description")?;
    form.flag("strict")?;
    let schema = form.any("schema").ok_or_else(|| form.missing("schema"))?;
    if !schema.is_object() {
        return Err(wrong_type(&form.at("schema"), &schema, "an object"));
    }
    Ok(Structure::JsonSchema(schema.to_string()))
}

/// Who asks, as the client tells them apart.
pub(crate) fn user(body: &mut Fields) -> Read<Option<String>> {
    let user = body.text("user")?;
    match user.as_ref().map(String::len) {
        Some(long) if long > MOST_USER => {
            let why = format!("has {long} bytes, must have at most {MOST_USER}");
            Err(body.wrong("user", why))
        }
        _ => Ok(user),
    }
}

/// Pairs of texts that are the client's own.
pub(crate) fn metadata(body: &mut Fields) -> Read<Option<Value>> {
    let Some(value) = body.any("metadata") else {
        return Ok(None);
    };
    let Value::Object(members) = &value else {
        return Err(wrong_type("metadata", &value, "an object"));
    };
    if members.len() > MOST_PAIRS {
        let why = format!(
            "has {} members, must have at most {MOST_PAIRS}",
            members.len()
        );
        return Err(body.wrong("metadata", why));
    }
    for (name, value) in members {
        let long = name.chars().count();
        if long > LONGEST_NAME {
            let why = format!("has a name of {long} characters, must have at most {LONGEST_NAME}");
            return Err(body.wrong("metadata", why));
        }
        let at = format!("metadata.{name}");
        let Value::String(text) = value else {
            return Err(wrong_type(&at, value, "a string"));
        };
        let long = text.chars().count();
        if long > LONGEST_VALUE {
            let why = format!("has {long} characters, must have at most {LONGEST_VALUE}");
            return Err(body.wrong(&at, why));
        }
    }
    Ok(Some(value))
}

/// Whether the answer comes in parts, and whether its usage does.
pub(crate) fn stream(body: &mut Fields) -> Read<(bool, bool)> {
    let stream = body.flag("stream")?.unwrap_or(false);
    let Some(mut options) = body.inner("stream_options")? else {
        return Ok((stream, false));
    };
    if !stream {
        return Err(body.wrong("stream_options", "is only allowed with stream"));
    }
    let usage = options.flag("include_usage")?.unwrap_or(false);
    options.end(&super::fields::Known {
        idle: &[],
        refused: &[("include_obfuscation", "streams are not padded")],
    })?;
    Ok((stream, usage))
}

/// The tier of service: there is one.
pub(crate) fn service_tier(body: &mut Fields) -> Read<()> {
    match body.text("service_tier")?.as_deref() {
        None | Some("auto" | "default") => Ok(()),
        Some(other) => {
            let why = format!("is {other:?}, must be \"auto\" or \"default\"");
            Err(body.wrong("service_tier", why))
        }
    }
}
