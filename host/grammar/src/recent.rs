//! What became of the structures that were asked for lately.

use std::collections::HashMap;

use tidegate_contract::Structure;

/// So many structures at most, with what became of each; the one that was asked for longest ago goes first.
pub(crate) struct Recent<V> {
    entries: HashMap<Structure, Entry<V>>,
    most: usize,
    asked: u64,
}

struct Entry<V> {
    value: V,
    /// When it was last asked for, counted in requests.
    asked: u64,
}

impl<V> Recent<V> {
    pub(crate) fn new(most: usize) -> Recent<V> {
        Recent {
            entries: HashMap::new(),
            most,
            asked: 0,
        }
    }

    pub(crate) fn get(&mut self, structure: &Structure) -> Option<&V> {
        self.asked += 1;
        let entry = self.entries.get_mut(structure)?;
        entry.asked = self.asked;
        Some(&entry.value)
    }

    pub(crate) fn put(&mut self, structure: Structure, value: V) {
        self.asked += 1;
        let asked = self.asked;
        self.entries.insert(structure, Entry { value, asked });
        while self.entries.len() > self.most {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.asked);
            let Some(oldest) = oldest.map(|(structure, _)| structure.clone()) else {
                return;
            };
            self.entries.remove(&oldest);
        }
    }

    pub(crate) fn remove(&mut self, structure: &Structure) {
        self.entries.remove(structure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_for_longest_ago_goes_first() {
        let name = |name: &str| Structure::Regex(name.into());
        let mut recent = Recent::new(2);
        recent.put(name("a"), 1);
        recent.put(name("b"), 2);
        assert_eq!(recent.get(&name("a")), Some(&1));
        recent.put(name("c"), 3);
        assert_eq!(recent.get(&name("b")), None);
        assert_eq!(recent.get(&name("a")), Some(&1));
        assert_eq!(recent.get(&name("c")), Some(&3));
        recent.remove(&name("a"));
        assert_eq!(recent.get(&name("a")), None);
    }
}
