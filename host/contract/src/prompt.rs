//! A prompt as it stands in the pipeline file, parsed once; rendering belongs to the flow, which has the record.
//!
//! `{name}` is a field of the record's JSON value and `{customer.name}` one inside it; the record must have it.
//! `{name?}` is empty where it is missing. `{$value}` is the whole value, `{$key}` the key, `{$header.x}` the header
//! `x`. `{{` and `}}` are braces.

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    /// Text that is the same for every record.
    Text(String),
    /// A field of the JSON value.
    Field {
        /// Names from the outermost object inwards; at least one.
        path: Vec<String>,
        /// Whether a record may lack it.
        optional: bool,
    },
    /// The record's key; empty if it has none.
    Key,
    /// The record's value as text.
    Value,
    /// A header of the record; empty if it has none of this name.
    Header(String),
}

/// A parsed prompt. No two texts follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptTemplate {
    /// Its parts, in order.
    pub parts: Vec<PromptPart>,
}

impl PromptTemplate {
    /// The same behind a text.
    #[must_use]
    pub fn behind(mut self, mut text: String) -> PromptTemplate {
        match self.parts.first_mut() {
            _ if text.is_empty() => {}
            Some(PromptPart::Text(first)) => {
                text.push_str(first);
                *first = text;
            }
            _ => self.parts.insert(0, PromptPart::Text(text)),
        }
        self
    }
}

/// A prompt that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct PromptError {
    /// Byte of the prompt at which it goes wrong.
    pub at: usize,
    /// What is wrong and what would be right.
    pub why: String,
}

impl PromptTemplate {
    /// Parses a prompt; reports its first mistake.
    pub fn parse(text: &str) -> Result<Self, PromptError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            let at = text.len() - rest.len() + brace;
            literal.push_str(&rest[..brace]);
            let from = &rest[brace..];
            if let Some(after) = from.strip_prefix("{{") {
                literal.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                literal.push('}');
                rest = after;
            } else if from.starts_with('}') {
                return Err(PromptError {
                    at,
                    why: "a closing brace without an opening one; write }} for a brace".into(),
                });
            } else {
                let inside = &from[1..];
                let Some(end) = inside
                    .find(['{', '}', '\n'])
                    .filter(|end| inside.as_bytes()[*end] == b'}')
                else {
                    return Err(PromptError {
                        at,
                        why: "the brace is not closed; write {field}, or {{ for a brace".into(),
                    });
                };
                if !literal.is_empty() {
                    parts.push(PromptPart::Text(std::mem::take(&mut literal)));
                }
                parts.push(place(&inside[..end], at + 1)?);
                rest = &inside[end + 1..];
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(PromptPart::Text(literal));
        }
        Ok(Self { parts })
    }
}

/// What stands between braces, `at` being the byte of the prompt where it begins.
fn place(inside: &str, at: usize) -> Result<PromptPart, PromptError> {
    let wrong = |at: usize, why: String| Err(PromptError { at, why });
    if let Some(special) = inside.strip_prefix('$') {
        return match special.split_once('.') {
            None if special == "key" => Ok(PromptPart::Key),
            None if special == "value" => Ok(PromptPart::Value),
            Some(("header", name)) if !name.is_empty() => Ok(PromptPart::Header(name.into())),
            _ => wrong(
                at,
                format!(
                    "{{{inside}}} is not known; write {{$key}}, {{$value}} or {{$header.NAME}}"
                ),
            ),
        };
    }
    let (names, optional) = match inside.strip_suffix('?') {
        Some(names) => (names, true),
        None => (inside, false),
    };
    if names.is_empty() {
        return wrong(
            at,
            "a field needs a name; write {field}, or {{}} for a pair of braces".into(),
        );
    }
    let mut path = Vec::new();
    let mut begin = at;
    for name in names.split('.') {
        if name.is_empty() {
            return wrong(begin, format!("the path {names:?} has an empty name"));
        }
        if let Some((byte, odd)) = name
            .char_indices()
            .find(|(_, c)| !(c.is_alphanumeric() || *c == '_' || *c == '-'))
        {
            return wrong(
                begin + byte,
                format!("{odd:?} cannot stand in the name of a field; write {{{{ for a brace"),
            );
        }
        path.push(name.to_owned());
        begin += name.len() + 1;
    }
    Ok(PromptPart::Field { path, optional })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(path: &[&str], optional: bool) -> PromptPart {
        PromptPart::Field {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            optional,
        }
    }

    #[test]
    fn a_text_before_a_prompt_is_part_of_its_first_text() {
        let parse = |text| PromptTemplate::parse(text).unwrap();
        for (prompt, behind) in [
            ("Hi {name}", "q: Hi {name}"),
            ("{name}", "q: {name}"),
            ("", "q: "),
        ] {
            assert_eq!(parse(prompt).behind("q: ".to_owned()), parse(behind));
            assert_eq!(parse(prompt).behind(String::new()), parse(prompt));
        }
    }

    #[test]
    fn fields_places_and_braces_are_told_apart() {
        let parsed = PromptTemplate::parse(
            "Hi {{{name?}}}, {customer.first-name}: {$value}{$key} {$header.trace.id}\n",
        );
        let text = |text: &str| PromptPart::Text(text.into());
        assert_eq!(
            parsed.map(|template| template.parts),
            Ok(vec![
                text("Hi {"),
                field(&["name"], true),
                text("}, "),
                field(&["customer", "first-name"], false),
                text(": "),
                PromptPart::Value,
                PromptPart::Key,
                text(" "),
                PromptPart::Header("trace.id".into()),
                text("\n"),
            ])
        );
        assert_eq!(PromptTemplate::parse(""), Ok(PromptTemplate::default()));
    }

    #[test]
    fn a_mistake_is_found_at_its_byte() {
        for (text, at, why) in [
            ("ab } c", 3, "a closing brace without an opening one"),
            ("ab {x", 3, "the brace is not closed"),
            ("ab {x\n}", 3, "the brace is not closed"),
            ("ab {x{y}", 3, "the brace is not closed"),
            ("é {}", 4, "a field needs a name"),
            ("{?}", 1, "a field needs a name"),
            ("{a..b}", 3, "has an empty name"),
            ("{a.b c}", 4, "' ' cannot stand in the name of a field"),
            ("{$kye}", 1, "{$kye} is not known; write {$key}"),
            ("{$header.}", 1, "{$header.} is not known"),
        ] {
            let error = PromptTemplate::parse(text).expect_err(text);
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.why.contains(why), "{text}: {error}");
        }
    }
}
