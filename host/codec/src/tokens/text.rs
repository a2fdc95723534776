//! A text of which parts come, in whatever order and however often.

use std::collections::BTreeMap;

/// See the module. Places are counted in characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// Parts by where they begin; no two overlap or touch.
    parts: BTreeMap<u64, Part>,
}

#[derive(Clone, Debug)]
struct Part {
    text: String,
    characters: u64,
}

impl Part {
    fn of(text: &str) -> Part {
        Part {
            text: text.to_owned(),
            characters: text.chars().count() as u64,
        }
    }

    /// The text between two of its characters.
    fn slice(&self, from: u64, to: u64) -> &str {
        let byte = |character: u64| {
            if character >= self.characters {
                return self.text.len();
            }
            let mut places = self.text.char_indices();
            let place = places.nth(usize::try_from(character).unwrap_or(usize::MAX));
            place.map_or(self.text.len(), |(byte, _)| byte)
        };
        self.text.get(byte(from)..byte(to)).unwrap_or_default()
    }
}

impl Parts {
    /// Adds what is not there yet. Returns how many bytes it has grown by.
    pub(super) fn add(&mut self, at: u64, text: &str) -> usize {
        let new = Part::of(text);
        let end = at.saturating_add(new.characters);
        let (mut from, mut grown) = (at, 0);
        while from < end {
            let before = self.parts.range(..=from).next_back();
            let covered = before.map(|(begin, part)| begin + part.characters);
            if let Some(covered) = covered.filter(|covered| *covered > from) {
                from = covered;
                continue;
            }
            let next = self.parts.range(from..).next().map(|(begin, _)| *begin);
            let to = next.map_or(end, |next| next.min(end));
            let missing = new.slice(from - at, to - at);
            grown += missing.len();
            self.insert(from, missing, to - from);
            from = to;
        }
        grown
    }

    /// Puts a part into a hole, and joins it with those that it touches.
    fn insert(&mut self, at: u64, text: &str, characters: u64) {
        let end = at + characters;
        let after = self.parts.remove(&end);
        let before = self.parts.range_mut(..at).next_back();
        let joined = match before {
            Some((begin, part)) if begin + part.characters == at => {
                part.text.push_str(text);
                part.characters += characters;
                part
            }
            _ => {
                let text = text.to_owned();
                self.parts.entry(at).or_insert(Part { text, characters })
            }
        };
        if let Some(after) = after {
            joined.text.push_str(&after.text);
            joined.characters += after.characters;
        }
    }

    /// Where the first part begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.parts.keys().next().copied()
    }

    /// Whether there is anything from here on.
    pub(super) fn reaches_beyond(&self, place: u64) -> bool {
        let last = self.parts.last_key_value();
        last.is_some_and(|(begin, part)| begin + part.characters > place)
    }

    /// What there is without a hole from a place on, up to a limit.
    pub(super) fn from(&self, place: u64, limit: u64) -> &str {
        let part = self.parts.range(..=place).next_back();
        match part {
            Some((begin, part)) if begin + part.characters > place && limit > place => {
                part.slice(place - begin, limit - begin)
            }
            _ => "",
        }
    }

    /// Bytes of all parts.
    pub(super) fn bytes(&self) -> usize {
        self.parts.values().map(|part| part.text.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_join_however_they_come() {
        let mut parts = Parts::default();
        assert_eq!(parts.add(4, "é"), 2);
        assert_eq!(parts.from(0, 9), "");
        assert!(parts.reaches_beyond(0));
        assert_eq!(parts.add(0, "ab"), 2);
        assert_eq!(parts.from(0, 9), "ab");
        assert_eq!(parts.add(1, "bcdéf"), 3, "c, d and f are new");
        assert_eq!(parts.from(0, 9), "abcdéf");
        assert_eq!(parts.from(2, 5), "cdé");
        assert_eq!(parts.from(6, 9), "");
        assert_eq!(parts.add(2, "cd"), 0);
        assert!(!parts.reaches_beyond(6));
        assert_eq!((parts.first(), parts.bytes()), (Some(0), 7));
    }
}
