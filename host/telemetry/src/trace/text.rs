//! Texts in spans: of bounded length, and without anything that moves what is around them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::plain::{is_plain, plain};

/// Most bytes of a text in a span.
pub(super) const LONGEST_TEXT: usize = 256;

/// A text of a span. Names that many spans have are made once: another copy costs next to nothing.
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    /// The program's own word.
    Word(&'static str),
    /// Bounded when it was made.
    Name(Arc<str>),
    Own(String),
}

impl Text {
    /// A name that many spans will have.
    pub fn name(text: &str) -> Text {
        Text(Form::Name(plain(text, LONGEST_TEXT).into()))
    }

    /// No longer than a span may hold.
    pub(super) fn bounded(self) -> Text {
        match self.0 {
            Form::Own(text) if text.len() > LONGEST_TEXT || !is_plain(&text) => {
                Text(Form::Own(plain(&text, LONGEST_TEXT).into_owned()))
            }
            form => Text(form),
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Form::Word(text) => text,
            Form::Name(text) => text,
            Form::Own(text) => text,
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text(Form::Word(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Form::Own(text))
    }
}

impl From<Cow<'static, str>> for Text {
    fn from(text: Cow<'static, str>) -> Text {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_others_gave_is_short_and_on_one_line_and_the_same_in_either_form() {
        let hostile = "x\n".repeat(5000);
        let (name, own) = (Text::name(&hostile), Text::from(hostile.clone()).bounded());
        assert_eq!(name, own);
        assert!(
            name.len() <= 2 * LONGEST_TEXT && is_plain(&name),
            "{name:?}"
        );
        assert_eq!(&*Text::from("word").bounded(), "word");
        assert_eq!(Text::name("small"), Text::from("small".to_owned()));
    }
}
