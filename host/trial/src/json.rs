//! JSON with places: what a value is, and where in its file it stands.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tidegate_telemetry::plain;

/// Bytes of a value or a name that an error shows.
const SHOWN: usize = 80;

/// A name in quotes, as it may be shown.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", plain(name, SHOWN))
}

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistake {
    /// Its line, counted from 1.
    pub line: usize,
    /// Its column there, in characters, counted from 1.
    pub column: usize,
    /// The name of the case that it is in.
    pub case: Option<String>,
    /// The member, as `records[1].value`, counted from 1; empty for the whole.
    pub member: String,
    /// What it is, and what would be right.
    pub why: String,
}

impl Mistake {
    /// One of the whole file, right after what stands before it.
    pub(crate) fn after(before: &str, why: impl Into<String>) -> Mistake {
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        Mistake {
            line: before.matches('\n').count() + 1,
            column: before[line..].chars().count() + 1,
            case: None,
            member: String::new(),
            why: why.into(),
        }
    }

    /// The same where the line is known otherwise.
    pub(crate) fn without_line(&self) -> String {
        match self.member.as_str() {
            "" => self.why.clone(),
            member => format!("{member}: {}", self.why),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}: ", self.line, self.column)?;
        if let Some(case) = &self.case {
            write!(f, "case {}: ", quoted(case))?;
        }
        f.write_str(&self.without_line())
    }
}

/// One value of a file.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    /// As it is written.
    raw: &'a str,
    /// The whole file.
    file: &'a str,
    case: Option<Rc<str>>,
    member: String,
}

impl<'a> Node<'a> {
    /// The whole of a file.
    pub(crate) fn parse(file: &'a str) -> Result<Node<'a>, Mistake> {
        let whole: Result<&RawValue, _> = serde_json::from_str(file);
        // What is skipped is not looked at closely: a text may have escapes that are none.
        let checked = serde_json::from_str::<IgnoredAny>(file);
        match (whole, checked) {
            (Ok(whole), Ok(_)) => Ok(Node {
                raw: whole.get(),
                file,
                case: None,
                member: String::new(),
            }),
            (Err(error), _) | (_, Err(error)) => Err(Mistake {
                line: error.line().max(1),
                column: characters(file, &error),
                case: None,
                member: String::new(),
                why: format!("it is not JSON: {}", without_place(&error)),
            }),
        }
    }

    /// The same, where it belongs to this case: members are named from here on.
    pub(crate) fn of_case(mut self, name: &str) -> Node<'a> {
        self.case = Some(name.into());
        self.member.clear();
        self
    }

    /// Where it stands in the file, bytes.
    pub(crate) fn span(&self) -> Range<usize> {
        let start = self.raw.as_ptr() as usize - self.file.as_ptr() as usize;
        start..start + self.raw.len()
    }

    /// Its line, counted from 1.
    fn line(&self) -> usize {
        self.line_from((0, 1))
    }

    /// The same, counted from a byte before it and that byte's line: who asks for many lines looks at each byte once.
    pub(crate) fn line_from(&self, (at, line): (usize, usize)) -> usize {
        let between = &self.file.as_bytes()[at..self.span().start];
        between.iter().filter(|byte| **byte == b'\n').count() + line
    }

    /// Its column in that line, in characters, counted from 1.
    fn column(&self) -> usize {
        let before = &self.file[..self.span().start];
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        before[line..].chars().count() + 1
    }

    /// What is wrong with it.
    pub(crate) fn mistake(&self, why: impl Into<String>) -> Mistake {
        Mistake {
            line: self.line(),
            column: self.column(),
            case: self.case.as_deref().map(str::to_owned),
            member: self.member.clone(),
            why: why.into(),
        }
    }

    /// It is something else than is wanted here.
    pub(crate) fn is_no(&self, wanted: &str) -> Mistake {
        self.mistake(format!("{} is not {wanted}", plain(self.raw, SHOWN)))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.raw == "null"
    }

    pub(crate) fn is_object(&self) -> bool {
        self.raw.starts_with('{')
    }

    pub(crate) fn is_list(&self) -> bool {
        self.raw.starts_with('[')
    }

    pub(crate) fn is_text(&self) -> bool {
        self.raw.starts_with('"')
    }

    fn read<T: Deserialize<'a>>(&self, wanted: &str) -> Result<T, Mistake> {
        serde_json::from_str(self.raw).map_err(|error| match error.is_data() {
            true => self.is_no(wanted),
            false => self.mistake(format!("it is not JSON: {}", without_place(&error))),
        })
    }

    fn child(&self, raw: &'a str, member: String) -> Node<'a> {
        Node {
            raw,
            file: self.file,
            case: self.case.clone(),
            member,
        }
    }

    /// The members of an object in their order; none is there twice.
    pub(crate) fn members(&self) -> Result<Vec<(String, Node<'a>)>, Mistake> {
        let members: Members<'a> = self.read("an object")?;
        let mut nodes: Vec<(String, Node<'a>)> = Vec::with_capacity(members.0.len());
        for (name, raw) in members.0 {
            let member = match self.member.as_str() {
                "" => plain(&name, SHOWN).into_owned(),
                before => format!("{before}.{}", plain(&name, SHOWN)),
            };
            nodes.push((name, self.child(raw.get(), member)));
        }
        let mut names: Vec<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.mistake(format!("it has {} twice", quoted(twice[0]))));
        }
        Ok(nodes)
    }

    /// The members of an object that has no others than these.
    pub(crate) fn fields<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Option<Node<'a>>; N], Mistake> {
        let mut fields = [const { None }; N];
        for (name, node) in self.members()? {
            match names.iter().position(|known| *known == name) {
                Some(at) => fields[at] = Some(node),
                None => {
                    let (name, known) = (quoted(&name), names.join(", "));
                    return Err(self.mistake(format!("it has {name}; there are {known}")));
                }
            }
        }
        Ok(fields)
    }

    /// The items of a list, counted from 1.
    pub(crate) fn items(&self) -> Result<Vec<Node<'a>>, Mistake> {
        let items: Vec<&'a RawValue> = self.read("a list")?;
        let item = |(at, raw): (usize, &&'a RawValue)| {
            self.child(raw.get(), format!("{}[{}]", self.member, at + 1))
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// A text.
    pub(crate) fn text(&self) -> Result<String, Mistake> {
        self.read("a text")
    }

    /// A boolean.
    pub(crate) fn boolean(&self) -> Result<bool, Mistake> {
        self.read("true or false")
    }

    /// A whole number of this type; `wanted` says which there are.
    pub(crate) fn whole<T: Deserialize<'a>>(&self, wanted: &str) -> Result<T, Mistake> {
        self.read(wanted)
    }

    /// A finite number.
    pub(crate) fn number(&self) -> Result<f64, Mistake> {
        self.read("a number")
    }

    /// Itself as compact JSON, its members in their order.
    pub(crate) fn compact(&self) -> Result<String, Mistake> {
        let value: serde_json::Value = self.read("a value")?;
        Ok(value.to_string())
    }
}

/// The column of an error of JSON, which counts bytes, in characters.
fn characters(file: &str, error: &serde_json::Error) -> usize {
    let line = file
        .lines()
        .nth(error.line().max(1) - 1)
        .unwrap_or_default();
    let before = line.floor_char_boundary(error.column().max(1) - 1);
    line[..before].chars().count() + 1
}

/// An error of JSON without the place that it adds: it counts from the beginning of a value.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(place) => text[..place].to_owned(),
        None => text,
    }
}

/// The members of an object in their order, also those that are there twice.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct InOrder<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for InOrder<'a> {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'a>, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_knows_its_place() {
        let file = "{\n \"a\": [1,\n  {\"b\": \"x\"}]}";
        let whole = Node::parse(file).unwrap();
        let (_, list) = whole.members().unwrap().remove(0);
        let items = list.items().unwrap();
        let (_, text) = items[1].members().unwrap().remove(0);
        assert_eq!(&file[text.span()], "\"x\"");
        let wrong = text.clone().of_case("a case").is_no("a number");
        assert_eq!(
            wrong.to_string(),
            "line 3 column 9: case \"a case\": \"x\" is not a number"
        );
        assert_eq!(
            text.is_no("a number").to_string(),
            "line 3 column 9: a[2].b: \"x\" is not a number"
        );
    }

    #[test]
    fn what_is_no_json_or_there_twice_is_said_with_its_line() {
        for (file, why) in [
            (
                "{\n\"a\": }",
                "line 2 column 6: it is not JSON: expected value",
            ),
            (
                "{\"a\": 1, \"a\": 2}",
                "line 1 column 1: it has \"a\" twice",
            ),
            ("[]", "line 1 column 1: [] is not an object"),
        ] {
            let read = Node::parse(file).and_then(|node| node.members().map(drop));
            assert_eq!(read.unwrap_err().to_string(), why);
        }
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        let refused = Node::parse(&deep).and_then(|node| node.compact());
        assert!(refused.unwrap_err().why.contains("recursion limit"));
    }

    #[test]
    fn compact_json_keeps_its_order() {
        let node = Node::parse("{ \"b\": 1, \"a\": [ 2.5, null ] }").unwrap();
        assert_eq!(node.compact().unwrap(), r#"{"b":1,"a":[2.5,null]}"#);
    }
}
