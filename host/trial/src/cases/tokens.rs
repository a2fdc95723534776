//! A text that a model makes, in pieces, and what is to go on of it.

use std::ops::Range;

use tidegate_contract::{AnswerEnd, Lane};

use super::bytes::Made;
use crate::json::{Mistake, Node};

/// Most pieces of a text.
const MAX_PIECES: usize = 10_000;
/// Where a case says nothing.
const RECORD: &str = "source 0 partition 0 offset 0";
const MODEL: &str = "model";

/// A lane, its text, and what is to go on of it.
#[derive(Clone, Debug)]
pub(crate) struct TokensCase {
    pub(crate) lane: Lane,
    pub(crate) model: String,
    pub(crate) choice: u32,
    /// The record that the answer is for, as it stands in logs.
    pub(crate) record: String,
    pub(crate) attributes: Vec<(String, Vec<u8>)>,
    /// At least one.
    pub(crate) pieces: Vec<String>,
    /// None where the case does not say.
    pub(crate) through: Option<ExpectedThrough>,
    pub(crate) end: Option<AnswerEnd>,
    pub(crate) places: TokensPlaces,
}

/// What is to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedThrough {
    /// Of the whole text.
    Sum(String),
    /// Of each piece, as far as the answer goes.
    Each(Vec<String>),
}

/// Where the file has what can be written anew.
#[derive(Clone, Debug)]
pub(crate) struct TokensPlaces {
    /// All of it.
    pub(crate) tokens: Range<usize>,
    /// The last of its members.
    pub(crate) last: Range<usize>,
    pub(crate) through: Option<Range<usize>>,
    pub(crate) end: Option<Range<usize>>,
}

/// How an answer ends, as cases have it.
pub(crate) fn word(end: AnswerEnd) -> &'static str {
    match end {
        AnswerEnd::Stop => "stop",
        AnswerEnd::Filtered => "filtered",
    }
}

pub(super) fn tokens(node: &Node<'_>, made: &mut Made) -> Result<TokensCase, Mistake> {
    const MEMBERS: [&str; 8] = [
        "lane",
        "model",
        "choice",
        "record",
        "attributes",
        "pieces",
        "through",
        "end",
    ];
    let [
        lane,
        model,
        choice,
        record,
        attributes,
        pieces,
        through,
        end,
    ] = node.fields(MEMBERS)?;
    let text = |node: Option<Node<'_>>, usual: &str| {
        node.as_ref().map_or(Ok(usual.to_owned()), Node::text)
    };
    let given = pieces.ok_or_else(|| node.mistake("it has no \"pieces\""))?;
    let items = given.items()?;
    if !(1..=MAX_PIECES).contains(&items.len()) {
        let found = items.len();
        return Err(given.mistake(format!("{found} pieces, from 1 to {MAX_PIECES} can be")));
    }
    let last = node.members()?.pop();
    Ok(TokensCase {
        places: TokensPlaces {
            tokens: node.span(),
            last: last.map_or(node.span(), |(_, last)| last.span()),
            through: through.as_ref().map(Node::span),
            end: end.as_ref().map(Node::span),
        },
        lane: lane.as_ref().map_or(Ok(Lane::Content), read_lane)?,
        model: text(model, MODEL)?,
        choice: choice.map_or(Ok(0), |node| node.whole("a whole number from 0"))?,
        record: text(record, RECORD)?,
        attributes: match &attributes {
            Some(node) => read_attributes(node, made)?,
            None => Vec::new(),
        },
        pieces: items.iter().map(Node::text).collect::<Result<_, _>>()?,
        through: through.as_ref().map(read_through).transpose()?,
        end: end.as_ref().map_or(Ok(None), read_end)?,
    })
}

fn read_lane(node: &Node<'_>) -> Result<Lane, Mistake> {
    const LANES: &str = "\"content\", \"reasoning\" or {\"arguments\": 0}";
    if node.is_text() {
        return match node.text()?.as_str() {
            "content" => Ok(Lane::Content),
            "reasoning" => Ok(Lane::Reasoning),
            _ => Err(node.is_no(LANES)),
        };
    }
    if !node.is_object() {
        return Err(node.is_no(LANES));
    }
    let [call] = node.fields(["arguments"])?;
    let call = call.ok_or_else(|| node.is_no(LANES))?;
    Ok(Lane::Arguments(call.whole("the index of a call")?))
}

fn read_attributes(node: &Node<'_>, made: &mut Made) -> Result<Vec<(String, Vec<u8>)>, Mistake> {
    let pairs = made.pairs(node)?.into_iter();
    pairs
        .map(|(name, value)| match value {
            Some(value) => Ok((name, value)),
            None => Err(node.mistake("an attribute of a lane is not null")),
        })
        .collect()
}

fn read_through(node: &Node<'_>) -> Result<ExpectedThrough, Mistake> {
    if node.is_text() {
        return Ok(ExpectedThrough::Sum(node.text()?));
    }
    if !node.is_list() {
        return Err(node.is_no("a text, or a list of one for each piece"));
    }
    let each: Result<_, _> = node.items()?.iter().map(Node::text).collect();
    Ok(ExpectedThrough::Each(each?))
}

fn read_end(node: &Node<'_>) -> Result<Option<AnswerEnd>, Mistake> {
    if node.is_null() {
        return Ok(None);
    }
    let said = node.text()?;
    let ends = [AnswerEnd::Stop, AnswerEnd::Filtered];
    let found = ends.into_iter().find(|end| word(*end) == said);
    match found {
        None => Err(node.is_no("\"stop\", \"filtered\" or null")),
        found => Ok(found),
    }
}
