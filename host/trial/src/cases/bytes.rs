//! Bytes, pairs and changes as cases write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::MAX_BYTES;
use crate::json::{Mistake, Node, quoted};
use crate::outcome::{Change, Pairs};

/// Most bytes that `times` makes of one text.
const MAX_REPEATED: usize = 64 << 20;
/// Most pairs that `times` makes of one: one more than a record may have.
const MAX_PAIRS: usize = tidegate_record::MAX_PAIRS + 1;

/// Counts the bytes of a file that it makes, so that a short file does not become a large one.
#[derive(Debug, Default)]
pub(super) struct Made(usize);

impl Made {
    fn add(&mut self, node: &Node<'_>, bytes: usize) -> Result<(), Mistake> {
        self.0 = self.0.saturating_add(bytes);
        match self.0 <= MAX_BYTES {
            true => Ok(()),
            false => Err(node.mistake(format!(
                "with it the file's fields have more than {MAX_BYTES} bytes, which is the limit"
            ))),
        }
    }

    /// Bytes: a text, null, or an object that stands for others.
    pub(super) fn bytes(&mut self, node: &Node<'_>) -> Result<Option<Vec<u8>>, Mistake> {
        let bytes = read(node)?;
        self.add(node, bytes.as_ref().map_or(0, Vec::len))?;
        Ok(bytes)
    }

    /// Headers or attributes: a list of name and value, an object, or one pair many times.
    pub(super) fn pairs(&mut self, node: &Node<'_>) -> Result<Pairs, Mistake> {
        if node.is_list() {
            return node.items()?.iter().map(|item| self.pair(item)).collect();
        }
        if !node.is_object() {
            return Err(node.is_no("a list of [name, value], or an object"));
        }
        let members = node.members()?;
        let repeated = members
            .iter()
            .find(|(name, value)| name == "repeat" && value.is_list());
        if let Some((_, pair)) = repeated {
            let [_, times] = node.fields(["repeat", "times"])?;
            let times = times_of(node, times.as_ref(), MAX_PAIRS)?;
            let pair = self.pair(pair)?;
            let length = pair.0.len() + pair.1.as_ref().map_or(0, Vec::len);
            self.add(node, length.saturating_mul(times))?;
            return Ok(vec![pair; times]);
        }
        let pair = |(name, value): (String, Node<'_>)| Ok((name, self.bytes(&value)?));
        members.into_iter().map(pair).collect()
    }

    fn pair(&mut self, node: &Node<'_>) -> Result<(String, Option<Vec<u8>>), Mistake> {
        match node.items()?.as_slice() {
            [name, value] => Ok((name.text()?, self.bytes(value)?)),
            _ => Err(node.is_no("[name, value]")),
        }
    }

    /// Changes of headers or attributes, in order.
    pub(super) fn changes(&mut self, node: &Node<'_>) -> Result<Vec<Change>, Mistake> {
        node.items()?.iter().map(|item| self.change(item)).collect()
    }

    fn change(&mut self, node: &Node<'_>) -> Result<Change, Mistake> {
        let items = node.items()?;
        let operation = items.first().map(Node::text).transpose()?;
        match (operation.as_deref(), items.as_slice()) {
            (Some("set"), [_, name, value]) => Ok(Change::Set(name.text()?, self.bytes(value)?)),
            (Some("add"), [_, name, value]) => Ok(Change::Add(name.text()?, self.bytes(value)?)),
            (Some("remove"), [_, name]) => Ok(Change::Remove(name.text()?)),
            _ => {
                Err(node
                    .is_no("[\"set\", name, bytes], [\"add\", name, bytes] or [\"remove\", name]"))
            }
        }
    }
}

fn read(node: &Node<'_>) -> Result<Option<Vec<u8>>, Mistake> {
    const WANTED: &str = "a text, null, {\"base64\": text}, {\"repeat\": text, \"times\": number} or {\"json\": value}";
    if node.is_null() {
        return Ok(None);
    }
    if node.is_text() {
        return Ok(Some(node.text()?.into_bytes()));
    }
    if !node.is_object() {
        return Err(node.is_no(WANTED));
    }
    let members = node.members()?;
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    match (names.as_slice(), members.as_slice()) {
        (["base64"], [(_, text)]) => {
            let bytes = STANDARD.decode(text.text()?);
            let bytes = bytes.map_err(|error| {
                let why = error.to_string();
                text.mistake(format!("it is not base64: {}", why.trim_end_matches('.')))
            })?;
            Ok(Some(bytes))
        }
        (["json"], [(_, value)]) => Ok(Some(value.compact()?.into_bytes())),
        (["repeat", "times"] | ["times", "repeat"], _) => {
            let [text, times] = node.fields(["repeat", "times"])?;
            let text = text
                .as_ref()
                .map(Node::text)
                .transpose()?
                .unwrap_or_default();
            let most = MAX_REPEATED / text.len().max(1);
            let times = times_of(node, times.as_ref(), most)?;
            Ok(Some(text.repeat(times).into_bytes()))
        }
        _ => Err(node.is_no(WANTED)),
    }
}

/// A number of times up to the most.
pub(super) fn times_of(
    node: &Node<'_>,
    times: Option<&Node<'_>>,
    most: usize,
) -> Result<usize, Mistake> {
    let times = times.ok_or_else(|| node.mistake(format!("it has no {}", quoted("times"))))?;
    let wanted = format!("a whole number from 0 to {most}");
    let number: usize = times.whole(&wanted)?;
    match number <= most {
        true => Ok(number),
        false => Err(times.is_no(&wanted)),
    }
}
