//! JSON objects written member by member, so that schemas and arguments, which are JSON texts, keep their order.

use serde::Serialize;

/// An object in the making.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Object {
        Object("{".to_owned())
    }

    /// A member whose value is JSON text already.
    pub(crate) fn raw(&mut self, name: &str, json: &str) -> &mut Object {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&text(name));
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    /// A member.
    pub(crate) fn member(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> &mut Object {
        let json = text(value);
        self.raw(name, &json)
    }

    pub(crate) fn end(&mut self) -> String {
        let mut json = std::mem::take(&mut self.0);
        json.push('}');
        json
    }
}

/// An array of JSON texts.
pub(crate) fn array(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

/// Strings, numbers and lists of them always have a JSON text.
fn text(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Whether a text is JSON.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
