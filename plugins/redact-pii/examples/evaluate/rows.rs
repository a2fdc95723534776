//! Reading the sentences and splitting them by template.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

/// A sentence as it stands in the file.
#[derive(Deserialize)]
struct Sentence {
    full_text: String,
    spans: Vec<Span>,
    template_id: Option<i64>,
}

/// A labelled span; positions count code points.
#[derive(Deserialize)]
struct Span {
    entity_type: String,
    start_position: usize,
    end_position: usize,
}

/// A sentence with its labels in bytes.
pub(crate) struct Row {
    /// The text.
    pub(crate) text: String,
    /// Type, first byte, byte after the last.
    pub(crate) labels: Vec<(String, usize, usize)>,
    /// Hash of its template.
    pub(crate) template: u64,
}

/// Which half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    HeldOut,
    Development,
    All,
}

impl Split {
    pub(crate) fn named(name: &str) -> Option<Split> {
        [Split::HeldOut, Split::Development, Split::All]
            .into_iter()
            .find(|split| split.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Split::HeldOut => "held-out",
            Split::Development => "development",
            Split::All => "all",
        }
    }

    pub(crate) fn has(self, row: &Row) -> bool {
        let held_out = row.template >> 32 & 1 == 1;
        match self {
            Split::HeldOut => held_out,
            Split::Development => !held_out,
            Split::All => true,
        }
    }
}

/// Reads the file and finds out which rows share a template.
pub(crate) fn read(path: &Path) -> Result<Vec<Row>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let sentences: Vec<Sentence> =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    let mut masks = Vec::new();
    for sentence in &sentences {
        let bytes: Vec<usize> = sentence
            .full_text
            .char_indices()
            .map(|(at, _)| at)
            .chain([sentence.full_text.len()])
            .collect();
        let mut labels = Vec::new();
        for span in &sentence.spans {
            let (Some(&start), Some(&end)) =
                (bytes.get(span.start_position), bytes.get(span.end_position))
            else {
                return Err(format!("a span lies outside {:?}", sentence.full_text));
            };
            labels.push((span.entity_type.clone(), start, end));
        }
        labels.sort_by_key(|label| label.1);
        masks.push(masked(&sentence.full_text, &labels));
        rows.push(Row {
            text: sentence.full_text.clone(),
            labels,
            template: 0,
        });
    }
    let groups = groups(&sentences, &masks);
    // The template of a group is its first mask in the order of bytes.
    let mut names: HashMap<usize, &str> = HashMap::new();
    for (mask, group) in masks.iter().zip(&groups) {
        let name = names.entry(*group).or_insert(mask);
        if mask.as_str() < *name {
            *name = mask;
        }
    }
    for (row, group) in rows.iter_mut().zip(&groups) {
        row.template = fnv(names[group]);
    }
    Ok(rows)
}

fn masked(text: &str, labels: &[(String, usize, usize)]) -> String {
    let mut masked = String::new();
    let mut at = 0;
    for (label, start, end) in labels {
        masked.push_str(text.get(at..*start).unwrap_or_default());
        masked.push_str(&format!("{{{label}}}"));
        at = *end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    masked
}

/// The group of each row: rows with the same mask or the same `template_id`, directly or over others.
fn groups(sentences: &[Sentence], masks: &[String]) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..masks.len()).collect();
    let mut by_mask: HashMap<&str, usize> = HashMap::new();
    let mut by_id: HashMap<i64, usize> = HashMap::new();
    for row in 0..masks.len() {
        let same_mask = *by_mask.entry(&masks[row]).or_insert(row);
        let same_id = sentences[row]
            .template_id
            .map_or(row, |id| *by_id.entry(id).or_insert(row));
        for other in [same_mask, same_id] {
            let (from, to) = (groups[row], groups[other]);
            groups
                .iter_mut()
                .filter(|group| **group == from)
                .for_each(|group| *group = to);
        }
    }
    groups
}

/// The 64-bit FNV-1a sum.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
