//! Originals put back while an answer is made.
//!
//! What could still become a placeholder of this answer is held back, and nothing else: the longest end of the text that
//! is the beginning of a placeholder of the map, and not all of it. A placeholder ends with its bracket, so it is known as
//! soon as it is whole.

use tidegate_sdk::json::Nesting;
use tidegate_sdk::{LaneKind, Through};

use crate::map::{Map, Original, Place};

/// What is kept for a lane.
#[derive(Debug)]
pub struct Restoring {
    /// None where nothing was redacted.
    map: Option<Map>,
    /// The beginning of a placeholder.
    held: String,
    /// In which strings of JSON the text stands that was let through.
    nesting: Nesting,
}

impl Restoring {
    pub(crate) fn new(map: Option<Map>, kind: LaneKind) -> Restoring {
        Restoring {
            map,
            held: String::new(),
            nesting: Nesting::of(kind),
        }
    }

    /// The next text, with originals in it.
    pub(crate) fn step(&mut self, text: &str, last: bool) -> Through {
        let Some(map) = &self.map else {
            return Through::text(text);
        };
        let joined;
        let text = match self.held.is_empty() {
            true => text,
            false => {
                joined = std::mem::take(&mut self.held) + text;
                &joined
            }
        };
        let mut through = String::with_capacity(text.len());
        let (mut copied, mut at) = (0, 0);
        while let Some(open) = text[at..].find('[').map(|found| at + found) {
            at = open + 1;
            match map.at(text, open) {
                Place::None => {}
                Place::Beginning if last => {}
                Place::Beginning => {
                    self.held.push_str(&text[open..]);
                    self.copy(&text[copied..open], &mut through);
                    return Through::text(through);
                }
                Place::Whole(end, original) => {
                    self.nesting.saw(&text[copied..open]);
                    through.push_str(&text[copied..open]);
                    match original {
                        Original::Text(text) => through.push_str(&self.nesting.put(text)),
                        Original::Number(_) => {
                            self.nesting.put_number();
                            through.push_str(&original.shown());
                        }
                    }
                    (copied, at) = (end, end);
                }
            }
        }
        self.copy(&text[copied..], &mut through);
        Through::text(through)
    }

    fn copy(&mut self, text: &str, through: &mut String) {
        self.nesting.saw(text);
        through.push_str(text);
    }
}
