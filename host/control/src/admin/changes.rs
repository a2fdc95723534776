//! What differs between two reports, as the page puts it into the one that it has.
//!
//! An object says which members are others now, each by what differs in it; of a list of the same length it says so by
//! index. Everything else stands in the place of what was there, and null in that of what is gone.

use serde_json::{Map, Value};

/// What makes the new one of the old; none if they are the same.
pub(super) fn changes(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        _ if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let mut changed = Map::new();
            for (name, value) in new {
                let change = match old.get(name) {
                    Some(before) => changes(before, value),
                    None => Some(value.clone()),
                };
                changed.extend(change.map(|change| (name.clone(), change)));
            }
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            changed.extend(gone.map(|name| (name.clone(), Value::Null)));
            Some(Value::Object(changed))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() && parts(old, new) => {
            let pairs = old.iter().zip(new).enumerate();
            let changed = pairs.filter_map(|(index, (before, value))| {
                Some((index.to_string(), changes(before, value)?))
            });
            Some(Value::Object(changed.collect()))
        }
        _ => Some(new.clone()),
    }
}

/// Whether two lists have objects only, so that a change of one of them is worth saying by itself.
fn parts(old: &[Value], new: &[Value]) -> bool {
    old.iter().chain(new).all(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What the page does.
    fn put(into: &mut Value, change: &Value) {
        match (into, change) {
            (Value::Object(into), Value::Object(change)) => {
                for (name, change) in change {
                    put(into.entry(name).or_insert(Value::Null), change);
                }
            }
            (Value::Array(into), Value::Object(change)) => {
                for (index, change) in change {
                    put(&mut into[index.parse::<usize>().unwrap()], change);
                }
            }
            (into, change) => *into = change.clone(),
        }
    }

    #[test]
    fn a_report_with_its_changes_is_the_next_report() {
        let reports = [
            json!({"a": 1, "b": {"c": [1, 2]}, "list": [{"x": 1, "y": 2}, {"x": 3}]}),
            json!({"a": 1, "b": {"c": [1, 2, 3]}, "list": [{"x": 1, "y": 5}, {"x": 3}]}),
            json!({"a": null, "b": {"c": []}, "list": [{"x": 1, "y": 5}]}),
            json!({"a": {"n": 1}, "b": 7, "list": [{"x": 1, "y": {"z": [4]}}], "new": []}),
        ];
        let mut page = reports[0].clone();
        for pair in reports.windows(2) {
            put(&mut page, &changes(&pair[0], &pair[1]).unwrap());
            assert_eq!(page, pair[1]);
            assert_eq!(changes(&pair[1], &pair[1]), None);
        }
        let one = changes(&reports[0], &reports[1]).unwrap();
        assert_eq!(one, json!({"b": {"c": [1, 2, 3]}, "list": {"0": {"y": 5}}}));
    }
}
