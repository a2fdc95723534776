//! Rendering a prompt for a record.

use serde_json::Value;
use tidegate_contract::{ModelError, PromptPart};
use tidegate_record::RecordView;

use crate::asked::Refusal;
use crate::topology::{Chosen, ModelStage};

/// The user message for a record, cut to the stage's limit. `Err` is the reason for its dead letter.
pub(crate) fn render(stage: &ModelStage, record: &RecordView<'_>) -> Result<String, Refusal> {
    let raw = record.value().unwrap_or_default();
    let text = std::str::from_utf8(raw)
        .map_err(|error| format!("value is not UTF-8 at byte {}", error.valid_up_to()))?;
    let needs_json = stage
        .prompt
        .parts
        .iter()
        .any(|part| matches!(part, PromptPart::Field { .. }));
    let json = if needs_json {
        serde_json::from_str(text)
            .map_err(|error| format!("prompt needs fields, but the value is not JSON: {error}"))?
    } else {
        Value::Null
    };
    let mut parts = Vec::with_capacity(stage.prompt.parts.len());
    for part in &stage.prompt.parts {
        parts.push(match part {
            PromptPart::Text(text) => text.clone(),
            PromptPart::Key => lossy(record.key()),
            PromptPart::Value => text.to_owned(),
            PromptPart::Header(name) => lossy(record.headers().last(name).and_then(|p| p.value)),
            PromptPart::Field { path, optional } => field(&json, path, *optional)?,
        });
    }
    fit(stage, parts)
}

fn lossy(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

fn field(json: &Value, path: &[String], optional: bool) -> Result<String, String> {
    let mut at = Some(json);
    for name in path {
        at = at.and_then(|value| value.get(name));
    }
    match at {
        None | Some(Value::Null) if optional => Ok(String::new()),
        None | Some(Value::Null) => Err(format!("prompt needs the field {}", path.join("."))),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Ok(other.to_string()),
    }
}

/// Refuses a prompt that has more tokens than the stage takes.
pub(crate) fn fits(chosen: Chosen<'_>, text: &str) -> Result<(), Refusal> {
    // A token has at least one byte.
    if text.len() <= chosen.prompt_tokens {
        return Ok(());
    }
    let tokens = chosen.model.count_tokens(text)?;
    let limit = chosen.prompt_tokens;
    match tokens <= limit {
        true => Ok(()),
        false => Err(ModelError::PromptTooLong { tokens, limit }.into()),
    }
}

/// Joins the parts; if they have too many tokens, the part to be cut gives way.
fn fit(stage: &ModelStage, mut parts: Vec<String>) -> Result<String, Refusal> {
    let count = |text: &str| stage.model.count_tokens(text);
    let whole = parts.concat();
    // A token has at least one byte, so a short prompt needs no count.
    if whole.len() <= stage.prompt_tokens {
        return Ok(whole);
    }
    let tokens = count(&whole)?;
    if tokens <= stage.prompt_tokens {
        return Ok(whole);
    }
    let too_long = |tokens| ModelError::PromptTooLong {
        tokens,
        limit: stage.prompt_tokens,
    };
    let Some(cut) = stage.truncate else {
        return Err(too_long(tokens).into());
    };
    let long = std::mem::take(&mut parts[cut]);
    let rest = count(&parts.concat())?;
    let mut room = stage
        .prompt_tokens
        .checked_sub(rest)
        .filter(|room| *room > 0)
        .ok_or_else(|| too_long(rest))?;
    // Tokens merge differently at the seams, so the joined prompt can have a few more than its parts.
    loop {
        let kept = stage.model.truncate(&long, room)?;
        parts[cut] = kept.to_owned();
        let whole = parts.concat();
        let tokens = count(&whole)?;
        if tokens <= stage.prompt_tokens {
            return Ok(whole);
        }
        room = room
            .checked_sub((tokens - stage.prompt_tokens).max(1))
            .ok_or_else(|| too_long(tokens))?;
    }
}
