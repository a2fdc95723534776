//! The object of a call, as far as it has come.

use serde_json::Value;

/// What the beginning of a call's object says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Object {
    /// Not enough yet.
    Open,
    /// It is no call.
    Other,
    /// The arguments begin at this place; they are an object.
    Arguments { name: String, at: usize },
    /// It has ended at this place.
    Whole {
        name: String,
        arguments: String,
        end: usize,
    },
}

/// Reads an object that begins with the text.
pub(super) fn read(text: &str) -> Object {
    let mut at = space(text, 0);
    match text.as_bytes().get(at) {
        None => return Object::Open,
        Some(b'{') => at += 1,
        Some(_) => return Object::Other,
    }
    let mut name: Option<String> = None;
    let mut arguments: Option<&str> = None;
    loop {
        at = space(text, at);
        match text.as_bytes().get(at) {
            None => return Object::Open,
            Some(b'}') => break,
            Some(b',') => {
                at += 1;
                continue;
            }
            Some(b'"') => {}
            Some(_) => return Object::Other,
        }
        let Some(key_end) = value_end(text, at) else {
            return Object::Open;
        };
        let key = string(&text[at..key_end]);
        at = space(text, key_end);
        match text.as_bytes().get(at) {
            None => return Object::Open,
            Some(b':') => at = space(text, at + 1),
            Some(_) => return Object::Other,
        }
        let is_arguments = matches!(key.as_deref(), Some("arguments" | "parameters"));
        match (text.as_bytes().get(at), &name) {
            (None, _) => return Object::Open,
            (Some(b'{'), Some(name)) if is_arguments => {
                return Object::Arguments {
                    name: name.clone(),
                    at,
                };
            }
            _ => {}
        }
        let Some(end) = value_end(text, at) else {
            return Object::Open;
        };
        if end == at {
            return Object::Other;
        }
        let value = &text[at..end];
        match key.as_deref() {
            Some("name") => match string(value) {
                Some(value) => name = Some(value),
                None => return Object::Other,
            },
            _ if is_arguments => arguments = Some(value),
            _ => {}
        }
        at = end;
    }
    match name {
        None => Object::Other,
        Some(name) => Object::Whole {
            name,
            arguments: arguments.map_or_else(|| "{}".into(), normal),
            end: at + 1,
        },
    }
}

/// Arguments that are no object: one in a string is taken out of it, none is an empty one.
fn normal(arguments: &str) -> String {
    match serde_json::from_str(arguments) {
        Ok(Value::Null) => "{}".into(),
        Ok(Value::String(text)) if serde_json::from_str::<Value>(&text).is_ok() => text,
        _ => arguments.to_owned(),
    }
}

fn string(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Behind white space.
pub(super) fn space(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    at + rest.len() - rest.trim_start().len()
}

/// Where a value that begins at a place ends, if it has.
fn value_end(text: &str, at: usize) -> Option<usize> {
    let bytes = &text.as_bytes()[at..];
    if matches!(bytes.first(), Some(b'{' | b'[' | b'"')) {
        let mut depth = Depth::default();
        return depth.end(bytes).map(|end| at + end);
    }
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':') || byte.is_ascii_whitespace();
    bytes.iter().position(ends).map(|end| at + end)
}

/// How deep in objects, lists and strings a text is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Depth {
    open: usize,
    in_string: bool,
    escaped: bool,
}

impl Depth {
    /// Inside an object.
    pub(super) fn inside() -> Depth {
        Depth {
            open: 1,
            ..Depth::default()
        }
    }

    /// Takes bytes up to the end of the value; where that is, if it came.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.open += 1,
                    b'}' | b']' => self.open = self.open.saturating_sub(1),
                    _ => {}
                }
            }
            if self.open == 0 && !self.in_string && matches!(byte, b'}' | b']' | b'"') {
                return Some(at + 1);
            }
        }
        None
    }
}
