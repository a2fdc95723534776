//! From a structure as it is asked for to what the library compiles.

use llguidance::api::TopLevelGrammar;
use regex_syntax::hir::{Capture, Hir, HirKind, Repetition};
use serde_json::{Value, json};
use tidegate_contract::Structure;

use crate::GrammarError;

/// White space between the parts of a JSON text: enough for a deeply indented line, not so much that a model that has
/// lost its way writes nothing else.
const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,32}";

/// What a structure is called in messages.
pub(crate) fn kind(structure: &Structure) -> &'static str {
    match structure {
        Structure::JsonSchema(_) => "JSON Schema",
        Structure::Regex(_) => "regular expression",
        Structure::Choice(_) => "choices",
        Structure::Grammar(_) => "grammar",
    }
}

/// Bytes of a structure's text.
pub(crate) fn bytes(structure: &Structure) -> usize {
    match structure {
        Structure::JsonSchema(text) | Structure::Regex(text) | Structure::Grammar(text) => {
            text.len()
        }
        Structure::Choice(choices) => choices.iter().map(|choice| choice.len() + 1).sum(),
    }
}

/// What the library is given for a structure. The error is the reason alone.
pub(crate) fn grammar(structure: &Structure) -> Result<TopLevelGrammar, GrammarError> {
    let wrong = |reason: String| GrammarError::Structure {
        kind: kind(structure),
        reason,
    };
    match structure {
        Structure::JsonSchema(text) => json_schema(text).map_err(wrong),
        Structure::Regex(pattern) => {
            let hir = regex_syntax::parse(pattern).map_err(|e| wrong(e.to_string()))?;
            Ok(regex(&hir))
        }
        Structure::Choice(choices) => {
            if choices.is_empty() {
                return Err(wrong("the list is empty".into()));
            }
            let choices = choices
                .iter()
                .map(|choice| Hir::literal(choice.as_bytes().to_vec()));
            Ok(regex(&Hir::alternation(choices.collect())))
        }
        Structure::Grammar(text) => {
            if text.trim().is_empty() {
                return Err(wrong("the text is empty".into()));
            }
            Ok(TopLevelGrammar::from_lark(text.clone()))
        }
    }
}

fn json_schema(text: &str) -> Result<TopLevelGrammar, String> {
    let mut schema: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    match &mut schema {
        Value::Bool(_) => {}
        Value::Object(fields) => {
            let options = fields.entry("x-guidance").or_insert_with(|| json!({}));
            let Value::Object(options) = options else {
                return Err("x-guidance: must be an object".into());
            };
            if !options.contains_key("whitespace_pattern")
                && options.get("whitespace_flexible") != Some(&Value::Bool(false))
            {
                options.insert("whitespace_pattern".into(), WHITE_SPACE.into());
            }
        }
        _ => return Err("must be an object or a boolean".into()),
    }
    Ok(TopLevelGrammar::from_json_schema(schema))
}

/// A grammar of a single terminal. The expression is written anew from its parsed form, so that what is odd in its
/// text (comments, flags, an escape at the end) cannot change the grammar around it.
fn regex(hir: &Hir) -> TopLevelGrammar {
    let hir = without_captures(hir);
    let text = hir.to_string();
    if matches!(hir.kind(), HirKind::Empty) || text.is_empty() {
        return TopLevelGrammar::from_lark("start: \"\"".into());
    }
    TopLevelGrammar::from_regex(&text)
}

/// The same language without capture groups: the library gives the name `stop` a meaning of its own.
fn without_captures(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Capture(Capture { sub, .. }) => without_captures(sub),
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(without_captures(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(without_captures).collect()),
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.iter().map(without_captures).collect())
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}
