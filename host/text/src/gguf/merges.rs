//! The merges of a vocabulary: as the file lists them, or from the scores that SentencePiece has instead.

use std::collections::HashMap;

use super::{NORMAL, Tables, wrong};
use crate::LoadError;

impl Tables<'_> {
    /// The listed merges as pairs.
    pub(super) fn pairs(&self) -> Result<Vec<[&str; 2]>, LoadError> {
        let mut pairs = Vec::with_capacity(self.merges.len());
        for (index, merge) in self.merges.iter().enumerate() {
            match merge.split_once(' ') {
                Some((left, right))
                    if !left.is_empty() && !right.is_empty() && !right.contains(' ') =>
                {
                    pairs.push([left, right]);
                }
                _ => {
                    let reason = format!("entry {index}, {merge:?}, is no pair of tokens");
                    return Err(wrong("merges", reason));
                }
            }
        }
        Ok(pairs)
    }

    /// Each way to make a token of two others; the higher its score, the earlier.
    ///
    /// SentencePiece always merges the neighbours whose joint token has the highest score. Source of the order among
    /// equals: `generate_merges` of transformers (the longer left part, then the longer right part first; else as the
    /// ids of the whole, the left and the right come). Files that give every token the same score say nothing by it:
    /// there the order of the tokens is that of the merges.
    pub(super) fn merges_of_scores(&self) -> Vec<[&str; 2]> {
        let normal = self
            .tokens
            .iter()
            .enumerate()
            .filter(|(id, token)| self.kind(*id) == NORMAL && !token.is_empty());
        let ids: HashMap<&str, usize> = normal.map(|(id, token)| (token.as_str(), id)).collect();
        let mut pieces: Vec<(&str, usize)> = ids.iter().map(|(token, id)| (*token, *id)).collect();
        pieces.sort_unstable_by_key(|(_, id)| *id);
        let score_of = |id: usize| self.scores.get(id).copied().unwrap_or(f32::MIN);
        let alike = pieces
            .windows(2)
            .all(|pair| score_of(pair[0].1) == score_of(pair[1].1));
        let mut merges = Vec::new();
        for (place, (token, id)) in pieces.into_iter().enumerate() {
            let score = if alike { -(place as f32) } else { score_of(id) };
            let begin = merges.len();
            for (at, _) in token.char_indices().skip(1) {
                let (left, right) = token.split_at(at);
                if let (Some(left_id), Some(right_id)) = (ids.get(left), ids.get(right)) {
                    merges.push(Merge {
                        parts: [left, right],
                        ids: [*left_id, *right_id],
                        score,
                        characters: [left.chars().count(), right.chars().count()],
                    });
                }
            }
            merges[begin..].sort_by_key(|merge| merge.ids);
        }
        merges.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(b.characters.cmp(&a.characters))
        });
        merges.into_iter().map(|merge| merge.parts).collect()
    }
}

struct Merge<'a> {
    parts: [&'a str; 2],
    ids: [usize; 2],
    score: f32,
    characters: [usize; 2],
}
