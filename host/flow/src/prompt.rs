//! Rendering a prompt for a record, or the turns of a chat.
//!
//! What was rendered is kept beside the record as one text. Of turns it is JSON behind a mark: so an answer goes on behind the
//! messages that it was begun to, also where the pipeline file has others, or a prompt, by the time of a restart.

use serde_json::Value;
use tidegate_contract::{Message, ModelError, PromptPart};
use tidegate_record::RecordView;

use crate::asked::Refusal;
use crate::topology::{Ask, Chosen, ModelStage, PromptTurn};

/// What stands before turns that were rendered: a character for use inside programs.
const TURNS: char = '\u{fdd1}';

/// The turns of a stage; none of one that has a prompt.
fn turns(stage: &ModelStage) -> &[PromptTurn] {
    match &stage.ask {
        Ask::Generate { turns, .. } => turns,
        Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => &[],
    }
}

/// What a kept text says.
pub(crate) enum Kept<'a> {
    /// A prompt.
    Text(&'a str),
    /// Turns.
    Messages(Vec<Message>),
}

impl Kept<'_> {
    /// A text that begins like turns is kept with another mark before it: no record makes turns of its own.
    pub(crate) fn of(text: &str) -> Kept<'_> {
        let Some(behind) = text.strip_prefix(TURNS) else {
            return Kept::Text(text);
        };
        match serde_json::from_str(behind) {
            Ok(messages) if !behind.starts_with(TURNS) => Kept::Messages(messages),
            _ => Kept::Text(behind),
        }
    }
}

/// A kept text as a person reads it.
pub(crate) fn readable(text: &str) -> &str {
    text.strip_prefix(TURNS).unwrap_or(text)
}

/// What is asked for a record, cut to the stage's limit: the prompt's text, or its turns. `Err` is the reason for its dead
/// letter.
pub(crate) fn render(stage: &ModelStage, record: &RecordView<'_>) -> Result<String, Refusal> {
    let raw = record.value().unwrap_or_default();
    let text = std::str::from_utf8(raw)
        .map_err(|error| format!("value is not UTF-8 at byte {}", error.valid_up_to()))?;
    let templates = stage.templates();
    let all = || templates.iter().flat_map(|template| &template.parts);
    let needs_json = all().any(|part| matches!(part, PromptPart::Field { .. }));
    let json = if needs_json {
        serde_json::from_str(text)
            .map_err(|error| format!("prompt needs fields, but the value is not JSON: {error}"))?
    } else {
        Value::Null
    };
    let mut parts = Vec::with_capacity(all().count());
    for part in all() {
        parts.push(match part {
            PromptPart::Text(text) => text.clone(),
            PromptPart::Key => lossy(record.key()),
            PromptPart::Value => text.to_owned(),
            PromptPart::Header(name) => lossy(record.headers().last(name).and_then(|p| p.value)),
            PromptPart::Field { path, optional } => field(&json, path, *optional)?,
        });
    }
    let mut parts = fit(stage, parts)?.into_iter();
    let turns = turns(stage);
    if turns.is_empty() {
        let text: String = parts.collect();
        return Ok(match text.starts_with(TURNS) {
            true => format!("{TURNS}{text}"),
            false => text,
        });
    }
    let messages: Vec<Message> = (turns.iter())
        .map(|turn| {
            let content: String = parts.by_ref().take(turn.content.parts.len()).collect();
            Message::new(turn.role, content)
        })
        .collect();
    // Texts only: this cannot fail.
    let json = serde_json::to_string(&messages).unwrap_or_default();
    Ok(format!("{TURNS}{json}"))
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

/// If the parts have too many tokens together, those to be cut give way.
fn fit(stage: &ModelStage, mut parts: Vec<String>) -> Result<Vec<String>, Refusal> {
    let count = |text: &str| stage.model.count_tokens(text);
    let whole = parts.concat();
    // A token has at least one byte, so a short prompt needs no count.
    if whole.len() <= stage.prompt_tokens {
        return Ok(parts);
    }
    let tokens = count(&whole)?;
    if tokens <= stage.prompt_tokens {
        return Ok(parts);
    }
    let too_long = |tokens| ModelError::PromptTooLong {
        tokens,
        limit: stage.prompt_tokens,
    };
    let cuts = stage.truncate.as_slice();
    let mut long = String::new();
    for cut in cuts {
        long = std::mem::take(&mut parts[*cut]);
    }
    if cuts.is_empty() {
        return Err(too_long(tokens).into());
    }
    let rest = count(&parts.concat())?;
    let mut room = stage
        .prompt_tokens
        .checked_sub(rest)
        .map(|room| room / cuts.len())
        .filter(|room| *room > 0)
        .ok_or_else(|| too_long(rest))?;
    // Tokens merge differently at the seams, so the joined prompt can have a few more than its parts.
    loop {
        let kept = stage.model.truncate(&long, room)?;
        for cut in cuts {
            kept.clone_into(&mut parts[*cut]);
        }
        let whole = parts.concat();
        let tokens = count(&whole)?;
        if tokens <= stage.prompt_tokens {
            return Ok(parts);
        }
        room = room
            .checked_sub((tokens - stage.prompt_tokens).div_ceil(cuts.len()))
            .ok_or_else(|| too_long(tokens))?;
    }
}
