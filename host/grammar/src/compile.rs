//! From a structure as it is asked for to what the library compiles.

use llguidance::api::TopLevelGrammar;
use regex_syntax::hir::{Capture, Hir, HirKind, Look, Repetition};
use serde_json::{Value, json};
use tidegate_contract::Structure;

use crate::GrammarError;

/// White space between the parts of a JSON text: enough for a deeply indented line, not so much that a model that has
/// lost its way writes nothing else.
pub(crate) const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,32}";

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
            regex(&hir).map_err(wrong)
        }
        Structure::Choice(choices) => {
            if choices.is_empty() {
                return Err(wrong("the list is empty".into()));
            }
            let choices = choices
                .iter()
                .map(|choice| Hir::literal(choice.as_bytes().to_vec()));
            regex(&Hir::alternation(choices.collect())).map_err(wrong)
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
    with_white_space(text, WHITE_SPACE).map(TopLevelGrammar::from_json_schema)
}

/// A schema with this pattern of white space, where it does not say it itself.
pub(crate) fn with_white_space(text: &str, pattern: &str) -> Result<Value, String> {
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
                options.insert("whitespace_pattern".into(), pattern.into());
            }
        }
        _ => return Err("must be an object or a boolean".into()),
    }
    Ok(schema)
}

/// A grammar of a single terminal. The expression is written anew from its parsed form, so that what is odd in its
/// text (comments, flags, an escape at the end) cannot change the grammar around it.
fn regex(hir: &Hir) -> Result<TopLevelGrammar, String> {
    let text = plain(hir, Edges::WHOLE)?.to_string();
    Ok(if text.is_empty() {
        TopLevelGrammar::from_lark("start: \"\"".into())
    } else {
        TopLevelGrammar::from_regex(&text)
    })
}

/// Whether a part of an expression stands at the beginning or the end of the whole.
#[derive(Clone, Copy)]
struct Edges {
    begin: bool,
    end: bool,
}

impl Edges {
    const WHOLE: Edges = Edges {
        begin: true,
        end: true,
    };
    const NONE: Edges = Edges {
        begin: false,
        end: false,
    };
}

/// The same language without capture groups (the library gives the name `stop` a meaning of its own) and without the
/// anchors at the edges, where a match is anchored anyway. Recursion is bounded by the parser's nesting limit.
fn plain(hir: &Hir, edges: Edges) -> Result<Hir, String> {
    Ok(match hir.kind() {
        HirKind::Capture(Capture { sub, .. }) => plain(sub, edges)?,
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(plain(&repetition.sub, Edges::NONE)?),
            ..repetition.clone()
        }),
        HirKind::Concat(parts) => {
            let empty = |part: &Hir| part.properties().maximum_len() == Some(0);
            let first = parts.iter().position(|part| !empty(part));
            let last = parts.iter().rposition(|part| !empty(part));
            let mut concat = Vec::with_capacity(parts.len());
            for (index, part) in parts.iter().enumerate() {
                let edges = Edges {
                    begin: edges.begin && first.is_none_or(|first| index <= first),
                    end: edges.end && last.is_none_or(|last| index >= last),
                };
                concat.push(plain(part, edges)?);
            }
            Hir::concat(concat)
        }
        HirKind::Alternation(parts) => {
            let parts: Result<Vec<Hir>, String> =
                parts.iter().map(|part| plain(part, edges)).collect();
            Hir::alternation(parts?)
        }
        HirKind::Look(Look::Start) if edges.begin => Hir::empty(),
        HirKind::Look(Look::End) if edges.end => Hir::empty(),
        HirKind::Look(_) => {
            return Err(
                "anchors may stand at the beginning and the end only, word boundaries nowhere"
                    .into(),
            );
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
    })
}
