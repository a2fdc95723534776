//! Functions for models whose template has no word for them, and what templates want of calls.

use tidegate_contract::Function;

use crate::chat::json_text;
use crate::turn::{Turn, TurnCall, tool};

/// What a call is written between where a model has no form of its own.
pub(crate) const BEGINS_CALL: &str = "<tool_call>";
/// What ends it.
pub(crate) const ENDS_CALL: &str = "</tool_call>";

/// Puts functions, calls and their answers into the content of turns.
///
/// Functions are described before the first message: in it, or, without a template, as a message of the system. An
/// answer to a call is a turn of the role `tool` without a template, and with one a turn of the user, together with
/// those beside it.
pub(crate) fn describe(turns: &mut Vec<Turn>, functions: &[Function], template: bool) {
    for turn in turns.iter_mut() {
        for call in std::mem::take(&mut turn.calls) {
            if !turn.content.is_empty() {
                turn.content.push('\n');
            }
            turn.content.push_str(&written(&call));
        }
    }
    if template {
        let mut merged: Vec<Turn> = Vec::with_capacity(turns.len());
        let mut after_answer = false;
        for mut turn in turns.drain(..) {
            let answers = turn.role == "tool";
            if answers {
                turn.role = "user".into();
                turn.content = format!("<tool_response>\n{}\n</tool_response>", turn.content);
            }
            match merged.last_mut() {
                Some(last) if answers && after_answer => {
                    last.content.push('\n');
                    last.content.push_str(&turn.content);
                }
                _ => merged.push(turn),
            }
            after_answer = answers;
        }
        *turns = merged;
    }
    if functions.is_empty() {
        return;
    }
    let text = description(functions);
    match turns.first_mut() {
        Some(first) if template => first.content = format!("{text}\n\n{}", first.content),
        _ => {
            let turn = Turn {
                role: "system".into(),
                content: text,
                ..Turn::default()
            };
            turns.insert(0, turn);
        }
    }
}

fn description(functions: &[Function]) -> String {
    let mut text = String::from("You can call these functions:\n");
    for function in functions {
        let function = tool(function).get_attr("function").unwrap_or_default();
        text.push_str(&json_text(&function));
        text.push('\n');
    }
    text.push_str(
        "To call one, write its name and its arguments like this, and nothing after it:\n",
    );
    text.push_str(BEGINS_CALL);
    text.push_str(r#"{"name": "...", "arguments": {...}}"#);
    text.push_str(ENDS_CALL);
    text
}

fn written(call: &TurnCall) -> String {
    let name = json_text(&call.name.as_str().into());
    let arguments = call.arguments.text();
    format!(r#"{BEGINS_CALL}{{"name": {name}, "arguments": {arguments}}}{ENDS_CALL}"#)
}

/// Whether a template refuses ids of calls that have not nine characters, as Mistral's do.
pub(crate) fn wants_short_ids(source: &str) -> bool {
    source.contains("length != 9") || source.contains("length == 9")
}

/// Gives calls, and the turns that answer them, ids of nine letters and digits: the same for the same.
pub(crate) fn shorten_ids(turns: &mut [Turn]) {
    let shorten = |id: &mut String| {
        let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !fits {
            // FNV-1a.
            let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            *id = crate::lanes::characters(hash, 9);
        }
    };
    for turn in turns {
        turn.answers.iter_mut().for_each(shorten);
        turn.calls
            .iter_mut()
            .map(|call| &mut call.id)
            .for_each(shorten);
    }
}
