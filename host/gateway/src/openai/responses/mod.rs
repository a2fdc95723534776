//! `/v1/responses`.

mod framing;
mod input;
mod items;

use serde_json::{Map, Value, json};
use tidegate_contract::{Message, Role, Structure, Wishes};

use super::asking::Asking;
use super::error::ApiError;
use super::fields::{Fields, Known};
use super::route::Endpoint;
use super::{conversation, parameters, tools};

pub(crate) use framing::ResponseFraming;

const KNOWN: Known = Known {
    idle: &[
        "max_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        // Nothing is stored, whatever is asked: the API's default would have every request refused.
        "store",
    ],
    refused: &[
        ("background", "nothing is kept to be fetched later"),
        ("context_management", "a conversation is sent whole"),
        (
            "conversation",
            "nothing is kept: send the conversation as input",
        ),
        ("moderation", "a stage of the pipeline does that"),
        (
            "previous_response_id",
            "nothing is kept: send the conversation as input",
        ),
        ("prompt", "there are no stored prompts"),
    ],
};

/// Members of a request that its response repeats.
const REPEATED: [&str; 9] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
];

/// What a response says of its request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Echo(pub(crate) Map<String, Value>);

/// Reads a request.
pub(crate) fn read(bytes: &[u8]) -> Result<(Asking, Echo), ApiError> {
    let mut body = Fields::body(bytes)?;
    let echo = echo(&body);
    let model = body.needed_text("model")?;
    let input = body.any("input").ok_or_else(|| body.missing("input"))?;
    let mut messages = input::messages(input)?;
    if let Some(instructions) = body.text("instructions")? {
        messages.insert(0, Message::new(Role::System, instructions));
    }
    let tools = tools::tools(&mut body, tools::Form::Flat)?;
    let most = body.integer("max_output_tokens", 1, u64::from(u32::MAX))?;
    let wishes = Wishes {
        max_tokens: most.map(|most| most as u32),
        temperature: parameters::temperature(&mut body)?,
        top_p: parameters::top_p(&mut body)?,
        structure: form(&mut body)?,
        logprobs: logprobs_wanted(&mut body)?,
        ..Wishes::default()
    };
    truncation(&mut body)?;
    let (asking, _) = conversation::asking(
        &mut body,
        Endpoint::Responses,
        model,
        messages,
        tools,
        wishes,
    )?;
    body.end(&KNOWN)?;
    Ok((asking, echo))
}

fn echo(body: &Fields) -> Echo {
    let mut echo = Map::new();
    for name in REPEATED {
        let default = match name {
            "metadata" => json!({}),
            "parallel_tool_calls" => json!(true),
            "text" => json!({"format": {"type": "text"}}),
            "tool_choice" => json!("auto"),
            "tools" => json!([]),
            _ => Value::Null,
        };
        let said = body.peek(name).filter(|value| !value.is_null());
        echo.insert(name.to_owned(), said.cloned().unwrap_or(default));
    }
    Echo(echo)
}

fn form(body: &mut Fields) -> Result<Option<Structure>, ApiError> {
    let Some(mut text) = body.inner("text")? else {
        return Ok(None);
    };
    let structure = match text.inner("format")? {
        None => None,
        Some(mut format) => match format.needed_text("type")?.as_str() {
            "json_schema" => Some(parameters::schema_form(&mut format)?),
            other => parameters::plain_form(&format, other)?,
        },
    };
    text.end(&Known {
        idle: &["verbosity"],
        refused: &[],
    })?;
    Ok(structure)
}

/// Log-probabilities are included on request, with as many rivals as are asked for.
fn logprobs_wanted(body: &mut Fields) -> Result<Option<u8>, ApiError> {
    let mut wanted = false;
    for (index, value) in body.list("include")?.unwrap_or_default().iter().enumerate() {
        match value.as_str() {
            Some("message.output_text.logprobs") => wanted = true,
            // There is no such content: none is left out.
            Some("reasoning.encrypted_content") => {}
            _ => {
                let at = format!("include[{index}]");
                let why = format!("{at} is {value}, which no response here has");
                return Err(ApiError::invalid(&at, "unsupported_parameter", why));
            }
        }
    }
    let most = body.integer("top_logprobs", 0, 20)?;
    Ok(most.map(|most| most as u8).or(wanted.then_some(0)))
}

fn truncation(body: &mut Fields) -> Result<(), ApiError> {
    match body.text("truncation")?.as_deref() {
        None | Some("disabled") => Ok(()),
        Some(other) => {
            let why = format!("is {other:?}, must be \"disabled\"");
            Err(body.wrong("truncation", why))
        }
    }
}
