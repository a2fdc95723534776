//! From the scores of tokens to the entities of a text, as transformers' token classification pipeline makes them.

use tidegate_contract::{Aggregation, Entity};
use tidegate_text::TokenPlace;

/// The label of what is in no entity.
const OUTSIDE: &str = "O";

/// A text in which entities are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recognizing {
    pub(crate) text: String,
    /// Of each token; none of those around the text.
    pub(crate) places: Vec<Option<TokenPlace>>,
    pub(crate) aggregation: Aggregation,
}

/// A token, a word or an entity: its label, how likely that is, and where it stands in bytes.
#[derive(Clone, Copy)]
struct Part {
    label: usize,
    score: f64,
    start: usize,
    end: usize,
}

/// What a label says: whether an entity begins with it, and of what kind it is.
fn split(label: &str) -> (bool, &str) {
    match (label.strip_prefix("B-"), label.strip_prefix("I-")) {
        (Some(kind), _) => (true, kind),
        (None, Some(kind)) => (false, kind),
        (None, None) => (false, label),
    }
}

impl Recognizing {
    /// The entities of the text. `scores` are those of its tokens before softmax, `[tokens, labels]`.
    pub(crate) fn entities(&self, labels: &[String], scores: &[f32]) -> Vec<Entity> {
        #[cfg(test)]
        assert!(!self.text.contains('\u{7}'), "it was told to panic");
        let rows = scores.chunks_exact(labels.len().max(1));
        let tokens = self.places.iter().zip(rows);
        let tokens: Vec<(TokenPlace, Vec<f64>)> = tokens
            .filter_map(|(place, row)| Some(((*place)?, shares(row))))
            .collect();
        let parts = match self.aggregation {
            Aggregation::None | Aggregation::Simple => tokens
                .iter()
                .map(|(place, shares)| part(shares, place.start, place.end))
                .collect(),
            Aggregation::First | Aggregation::Average | Aggregation::Max => self.words(&tokens),
        };
        let parts: Vec<(Part, &str)> = match self.aggregation {
            Aggregation::None => parts
                .into_iter()
                .filter_map(|part| Some((part, labels.get(part.label)?.as_str())))
                .collect(),
            _ => grouped(&parts, labels),
        };
        self.shown(parts)
    }

    /// Words with one label each.
    fn words(&self, tokens: &[(TokenPlace, Vec<f64>)]) -> Vec<Part> {
        let of_one_word = |_: &(TokenPlace, Vec<f64>), next: &(TokenPlace, Vec<f64>)| {
            // A word has all that follows it and begins none.
            !next.0.begins_word
        };
        let words = tokens.chunk_by(of_one_word).filter_map(|word| {
            let ((first, shares), (last, _)) = (word.first()?, word.last()?);
            let (start, end) = (first.start, last.end);
            Some(match self.aggregation {
                Aggregation::Average => {
                    let count = word.len() as f64;
                    let mean = (0..shares.len()).map(|label| {
                        let of_label = word.iter().map(|(_, shares)| shares[label]);
                        of_label.sum::<f64>() / count
                    });
                    part(&mean.collect::<Vec<f64>>(), start, end)
                }
                Aggregation::Max => {
                    let parts = word.iter().map(|(_, shares)| part(shares, start, end));
                    parts.reduce(|best, next| match next.score > best.score {
                        true => next,
                        false => best,
                    })?
                }
                _ => part(shares, start, end),
            })
        });
        words.collect()
    }

    /// Parts as they are told: in characters, without white space at their ends, and without those that are no entity or
    /// have no text.
    fn shown(&self, parts: Vec<(Part, &str)>) -> Vec<Entity> {
        let (mut bytes, mut characters) = (0, 0);
        // Parts stand in order, so that the text is counted once.
        let mut before = |at: usize| {
            if at < bytes {
                (bytes, characters) = (0, 0);
            }
            let more = self.text.get(bytes..at).unwrap_or_default();
            (bytes, characters) = (at, characters + more.chars().count() as u32);
            characters
        };
        let entities = parts.into_iter().filter_map(|(part, label)| {
            if label == OUTSIDE {
                return None;
            }
            let text = self.text.get(part.start..part.end)?;
            let begun = text.trim_start();
            let start = part.start + (text.len() - begun.len());
            let text = begun.trim_end();
            if text.is_empty() {
                return None;
            }
            Some(Entity {
                label: label.to_owned(),
                score: part.score as f32,
                start: before(start),
                end: before(start + text.len()),
                text: text.to_owned(),
            })
        });
        entities.collect()
    }
}

/// Softmax.
fn shares(scores: &[f32]) -> Vec<f64> {
    let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = (scores.iter())
        .map(|score| f64::from(score - greatest).exp())
        .collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// What is likeliest, of equals the first.
fn part(shares: &[f64], start: usize, end: usize) -> Part {
    let mut best = Part {
        label: 0,
        score: f64::NEG_INFINITY,
        start,
        end,
    };
    for (label, score) in shares.iter().copied().enumerate() {
        if score > best.score {
            best = Part {
                label,
                score,
                ..best
            };
        }
    }
    best
}

/// Parts one after another of one kind as one, but that `B-` begins another.
fn grouped<'a>(parts: &[Part], labels: &'a [String]) -> Vec<(Part, &'a str)> {
    let of = |part: &Part| labels.get(part.label).map_or((false, ""), |l| split(l));
    let belongs = |before: &Part, next: &Part| {
        let (begins, kind) = of(next);
        !begins && kind == of(before).1
    };
    let groups = parts.chunk_by(belongs).filter_map(|group| {
        let (first, last) = (group.first()?, group.last()?);
        let score = group.iter().map(|part| part.score).sum::<f64>() / group.len() as f64;
        let (_, kind) = of(first);
        let whole = Part {
            score,
            end: last.end,
            ..*first
        };
        Some((whole, kind))
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 5] = ["O", "B-PER", "I-PER", "I-LOC", "MIX-ED"];

    /// A text whose words, or pieces of words after a `+`, have these labels for sure; in pieces of so many bytes.
    fn found(
        aggregation: Aggregation,
        text: &str,
        tokens: &[(usize, usize, bool, [f32; 5])],
    ) -> Vec<(String, u32, u32, String)> {
        let labels = LABELS.map(str::to_owned);
        let place = |(start, end, begins_word, _): &(usize, usize, bool, [f32; 5])| {
            Some(TokenPlace {
                start: *start,
                end: *end,
                begins_word: *begins_word,
            })
        };
        let recognizing = Recognizing {
            text: text.to_owned(),
            places: tokens.iter().map(place).collect(),
            aggregation,
        };
        let scores: Vec<f32> = tokens.iter().flat_map(|token| token.3).collect();
        let entities = recognizing.entities(&labels, &scores).into_iter();
        entities
            .map(|e| (e.label, e.start, e.end, e.text))
            .collect()
    }

    /// Scores in which one label is sure.
    fn sure(label: usize) -> [f32; 5] {
        std::array::from_fn(|at| if at == label { 9.0 } else { 0.0 })
    }

    #[test]
    fn entities_that_touch_are_apart_where_one_begins() {
        let text = "Ann Bo É漢 x";
        let tokens = [
            (0, 3, true, sure(1)),
            (3, 6, true, sure(1)),
            (7, 9, true, sure(2)),
            (9, 12, false, sure(3)),
            (13, 14, true, sure(4)),
        ];
        let said =
            |label: &str, start, end, text: &str| (label.to_owned(), start, end, text.to_owned());
        assert_eq!(
            found(Aggregation::Simple, text, &tokens),
            [
                said("PER", 0, 3, "Ann"),
                said("PER", 4, 8, "Bo É"),
                said("LOC", 8, 9, "漢"),
                said("MIX-ED", 10, 11, "x"),
            ]
        );
        let labels = found(Aggregation::None, text, &tokens);
        let labels: Vec<&str> = labels.iter().map(|found| found.0.as_str()).collect();
        assert_eq!(labels, ["B-PER", "B-PER", "I-PER", "I-LOC", "MIX-ED"]);
        let words = found(Aggregation::First, text, &tokens);
        assert_eq!(words[1], said("PER", 4, 9, "Bo É漢"));
    }

    #[test]
    fn words_have_the_label_that_their_tokens_agree_on() {
        // One is surest of its own, two together are of another.
        let word = [
            (0, 1, true, [0.0, 0.0, 0.0, 0.4, 0.0]),
            (1, 2, false, [0.0, 0.0, 3.0, 2.9, 0.0]),
            (2, 3, false, [0.0, 0.0, 0.0, 2.0, 0.0]),
        ];
        let label = |aggregation| found(aggregation, "abc", &word)[0].0.clone();
        assert_eq!(label(Aggregation::First), "LOC");
        assert_eq!(label(Aggregation::Average), "LOC");
        let surer = [
            word[0],
            (1, 2, false, [0.0, 0.0, 6.0, 0.0, 0.0]),
            word[2],
            word[2],
            word[2],
        ];
        assert_eq!(found(Aggregation::Max, "abc", &surer)[0].0, "PER");
        assert_eq!(found(Aggregation::Average, "abc", &surer)[0].0, "LOC");
    }

    #[test]
    fn what_is_outside_or_has_no_text_is_told_of_nobody() {
        let tokens = [
            (0, 1, true, sure(0)),
            (1, 2, true, sure(2)),
            (2, 2, true, sure(3)),
            (2, 4, true, sure(0)),
        ];
        for aggregation in Aggregation::ALL {
            let found = found(aggregation.1, "a  b", &tokens);
            assert_eq!(found, [], "{}", aggregation.0);
        }
    }
}
