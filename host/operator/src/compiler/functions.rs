//! Functions that were compiled before, so that a component which differs from the last one in little, or in its data
//! alone, is not compiled as a whole: an engine for a language within a component is the same in all that are made with it.
//!
//! Known functions are entries one behind the other, those used last in front: `key, length, function`. The key is a hash
//! of all that a function's machine code is made of; Cranelift makes it, and writes and reads the function. The compiler
//! gets them from its parent, and reports which of them it used and which functions are new. The parent makes of both what
//! is known the next time.
//!
//! Cranelift 0.135 does not clear exception tables between two functions: a key has those in it that its thread had before.
//! So a function that is known may be compiled once more, and is then known by either key; machine code is the same.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::CompileLimits;
use crate::shared::lock;

type Key = [u8; 32];

/// Bytes in front of a function: its key and its length.
const HEAD: usize = size_of::<Key>() + size_of::<u32>();
/// Most functions that are known; one of Python's components has about thirteen thousand different ones.
const COUNT: usize = 1 << 17;
/// Most bytes of known functions with their keys.
const BYTES: usize = 64 << 20;
/// Which part of the compiler's memory they may take: once for those that are known, and once for new ones.
const PART: u64 = 16;

/// Most bytes of known functions where a compiler has these limits.
pub(crate) fn most(limits: CompileLimits) -> usize {
    usize::try_from(limits.memory / PART).map_or(BYTES, |part| part.min(BYTES))
}

/// The keys of entries and where their functions are; none if they are not as they should be.
fn entries(bytes: &[u8]) -> Option<Vec<(Key, Range<usize>)>> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (key, length) = bytes.get(at..at + HEAD)?.split_first_chunk::<32>()?;
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let function = at + HEAD..(at + HEAD).checked_add(length)?;
        bytes.get(function.clone())?;
        at = function.end;
        if entries.len() == COUNT {
            return None;
        }
        entries.push((*key, function));
    }
    Some(entries)
}

/// Appends an entry.
fn push(to: &mut Vec<u8>, key: &Key, function: &[u8]) {
    to.extend_from_slice(key);
    to.extend_from_slice(&(function.len() as u32).to_le_bytes());
    to.extend_from_slice(function);
}

/// What is known after a compilation that was given `known` and reports this, in at most so many bytes; none where nothing
/// is new. What the compiler says is believed as far as it has the right form: a function that does not fit its key is the
/// harm that it can do.
pub(crate) fn renewed(known: &[u8], report: &[u8], most: usize) -> Option<Vec<u8>> {
    let (count, rest) = report.split_first_chunk::<4>()?;
    let used = rest.get(..(u32::from_le_bytes(*count) as usize).checked_mul(4)?)?;
    let fresh = rest.get(used.len()..)?;
    let (old, new) = (entries(known).unwrap_or_default(), entries(fresh)?);
    if new.is_empty() {
        return None;
    }
    let used: HashSet<usize> = used
        .chunks_exact(4)
        .map(|index| index.iter().rev().fold(0, |n, &b| (n << 8) | b as usize))
        .collect();
    let (first, last): (Vec<_>, Vec<_>) = old
        .into_iter()
        .enumerate()
        .partition(|(index, _)| used.contains(index));
    let old = first.into_iter().chain(last).map(|(_, entry)| entry);
    let of = |bytes, entries| std::iter::repeat(bytes).zip(entries);
    let new = of(fresh, new).collect::<Vec<_>>();
    let old = of(known, old.collect::<Vec<_>>());
    let (mut seen, mut next) = (HashSet::new(), Vec::new());
    for (bytes, (key, function)) in new.into_iter().chain(old) {
        let fits = next.len() + HEAD + function.len() <= most && seen.len() < COUNT;
        if fits && seen.insert(key) {
            push(&mut next, &key, bytes.get(function)?);
        }
    }
    Some(next)
}

/// Compiles a component with functions that are known; returns the artifact and a report for [`renewed`].
pub(super) fn compile(
    guarded: bool,
    known: Vec<u8>,
    component: &[u8],
    most: usize,
) -> wasmtime::Result<(Vec<u8>, Vec<u8>)> {
    let learning = Arc::new(Learning::new(known, most));
    let wasm = crate::engine::wasm_with(guarded, Arc::clone(&learning))?;
    let artifact = wasm.precompile_component(component)?;
    Ok((artifact, learning.report()))
}

/// One compilation's known functions and new ones.
pub(crate) struct Learning {
    known: Vec<u8>,
    places: HashMap<Key, (usize, Range<usize>)>,
    used: Vec<AtomicBool>,
    fresh: Mutex<Fresh>,
    most: usize,
}

#[derive(Default)]
struct Fresh {
    functions: HashMap<Key, Vec<u8>>,
    bytes: usize,
}

impl Learning {
    fn new(known: Vec<u8>, most: usize) -> Learning {
        let entries = entries(&known).unwrap_or_default();
        Learning {
            used: entries.iter().map(|_| AtomicBool::new(false)).collect(),
            places: entries
                .into_iter()
                .enumerate()
                .map(|(index, (key, place))| (key, (index, place)))
                .collect(),
            known,
            fresh: Mutex::default(),
            most,
        }
    }

    /// Which known functions were used, by their places in the row, and the new ones.
    fn report(&self) -> Vec<u8> {
        let used: Vec<u32> = (0..)
            .zip(&self.used)
            .filter(|(_, used)| used.load(Ordering::Relaxed))
            .map(|(index, _)| index)
            .collect();
        let fresh = lock(&self.fresh);
        let mut report = Vec::with_capacity(4 + 4 * used.len() + fresh.bytes);
        report.extend_from_slice(&(used.len() as u32).to_le_bytes());
        report.extend(used.iter().flat_map(|index| index.to_le_bytes()));
        for (key, function) in &fresh.functions {
            push(&mut report, key, function);
        }
        report
    }
}

impl wasmtime::CacheStore for Learning {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let key = Key::try_from(key).ok()?;
        if let Some((index, place)) = self.places.get(&key) {
            self.used.get(*index)?.store(true, Ordering::Relaxed);
            return self.known.get(place.clone()).map(Cow::Borrowed);
        }
        // A component has many functions twice.
        lock(&self.fresh)
            .functions
            .get(&key)
            .cloned()
            .map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], function: Vec<u8>) -> bool {
        let Ok(key) = Key::try_from(key) else {
            return false;
        };
        let mut fresh = lock(&self.fresh);
        let bytes = fresh.bytes + HEAD + function.len();
        if bytes > self.most || fresh.functions.len() == COUNT {
            return false;
        }
        if fresh.functions.insert(key, function).is_none() {
            fresh.bytes = bytes;
        }
        true
    }
}

impl fmt::Debug for Learning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Learning")
            .field("known", &self.used.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with a function that is as it is everywhere, one with this number in it, and this data.
    fn component(number: i32, data: &str) -> Vec<u8> {
        let text = format!(
            r#"(component (core module
                (memory (export "memory") 1) (data (i32.const 64) "{data}")
                (func (export "same") (param i32) (result i32)
                    local.get 0 i32.const 7 i32.mul i32.load8_u offset=64)
                (func (export "own") (result i32) i32.const {number})))"#
        );
        wat::parse_str(text).unwrap()
    }

    const MOST: usize = 1 << 20;

    /// Compiles it; how many known functions were used, and what is known then.
    fn learn(known: &[u8], component: &[u8]) -> (u32, Vec<u8>) {
        let (artifact, report) = compile(true, known.to_vec(), component, MOST).unwrap();
        let alone = crate::engine::wasm(true).unwrap();
        let alone = alone.precompile_component(component).unwrap();
        assert!(artifact == alone, "it is what is compiled without");
        let used = u32::from_le_bytes(*report.first_chunk().unwrap());
        let renewed = renewed(known, &report, MOST);
        (used, renewed.unwrap_or_else(|| known.to_vec()))
    }

    fn keys(known: &[u8]) -> Vec<Key> {
        let entries = entries(known).unwrap();
        entries.into_iter().map(|(key, _)| key).collect()
    }

    fn entry(key: u8, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, &[key; 32], &vec![key; length]);
        bytes
    }

    fn report(used: &[u32], fresh: &[Vec<u8>]) -> Vec<u8> {
        let mut report = (used.len() as u32).to_le_bytes().to_vec();
        report.extend(used.iter().flat_map(|index| index.to_le_bytes()));
        report.extend(fresh.concat());
        report
    }

    #[test]
    fn a_component_that_differs_in_its_data_is_made_of_known_functions() {
        let (used, known) = learn(b"", &component(1, "one"));
        assert_eq!(used, 0);
        let (used, renewed) = learn(&known, &component(1, "two"));
        assert!(used > 0);
        assert!(keys(&known).iter().all(|key| keys(&renewed).contains(key)));
    }

    #[test]
    fn a_function_that_differs_is_compiled_and_known_from_then_on() {
        let (_, known) = learn(b"", &component(1, "one"));
        let (_, renewed) = learn(&known, &component(2, "one"));
        assert!(keys(&renewed).len() > keys(&known).len());
        assert!(keys(&known).iter().all(|key| keys(&renewed).contains(key)));
        for number in [1, 2] {
            assert!(learn(&renewed, &component(number, "three")).0 > 0);
        }
    }

    #[test]
    fn functions_that_cannot_be_read_are_compiled_anew() {
        let (_, known) = learn(b"", &component(1, "one"));
        // Each function is something else, under its key.
        let mut hostile = Vec::new();
        for (at, key) in keys(&known).iter().enumerate() {
            push(&mut hostile, key, &vec![0xff; at * 7]);
        }
        let (_, renewed) = learn(&hostile, &component(1, "one"));
        assert_ne!(renewed, hostile);
        learn(&renewed, &component(1, "one"));
        // A row that ends within an entry has none.
        let (used, _) = learn(&known[..known.len() - 1], &component(1, "one"));
        assert_eq!(used, 0);
    }

    #[test]
    fn known_functions_have_a_limit_and_the_unused_go_first() {
        let known = [entry(1, 100), entry(2, 100), entry(3, 100)].concat();
        let three = 3 * (HEAD + 100);
        let next = renewed(&known, &report(&[1], &[entry(4, 100)]), three).unwrap();
        assert_eq!(keys(&next), [[4; 32], [2; 32], [1; 32]]);
        // One that is larger than all that may be known takes no other's place.
        let next = renewed(&known, &report(&[1], &[entry(4, 4000)]), three).unwrap();
        assert_eq!(keys(&next), [[2; 32], [1; 32], [3; 32]]);
        // A new one takes the place of what its key stood for.
        let next = renewed(&known, &report(&[1], &[entry(2, 7)]), three).unwrap();
        assert_eq!(entries(&next).unwrap()[0], ([2; 32], HEAD..HEAD + 7));
        assert_eq!(keys(&next).len(), 3);
    }

    #[test]
    fn a_compilation_keeps_no_more_new_functions_than_it_may() {
        let (_, report) = compile(true, Vec::new(), &component(1, "one"), HEAD + 10).unwrap();
        assert_eq!(renewed(b"", &report, MOST), None);
        let memory = |memory| CompileLimits {
            memory,
            ..CompileLimits::default()
        };
        assert_eq!(most(memory(64 << 20)), 4 << 20);
        assert_eq!(most(memory(1 << 40)), BYTES);
    }

    #[test]
    fn a_report_that_is_none_changes_nothing() {
        let known = entry(1, 100);
        let of_others = report(&[7, u32::MAX], &[entry(2, 1)]);
        assert_eq!(
            keys(&renewed(&known, &of_others, MOST).unwrap()),
            [[2; 32], [1; 32]]
        );
        for wrong in [
            &b""[..],
            &[1, 0],
            &[1, 0, 0, 0],
            &[255; 64],
            &of_others[..of_others.len() - 1],
        ] {
            assert_eq!(renewed(&known, wrong, MOST), None, "{wrong:?}");
        }
        let many = vec![entry(0, 0); COUNT + 1];
        assert_eq!(renewed(&known, &report(&[], &many), MOST), None);
    }
}
