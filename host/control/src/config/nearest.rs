//! Did you mean: the known word nearest to one that was typed.

/// The nearest of the known words, if one is near enough to be meant.
pub(crate) fn nearest<'k>(typed: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if typed.chars().count() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let typed = plain(typed);
    let allowed = (typed.chars().count() / 3).max(1);
    known
        .map(|word| (distance(&typed, &plain(word)), word))
        .filter(|(distance, word)| *distance <= allowed && *distance < word.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Insertions, deletions, substitutions and swaps of neighbours that make one word of the other (optimal string
/// alignment).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let width = other.len() + 1;
    let mut table = vec![0; (one.len() + 1) * width];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            table[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let same = usize::from(one[i - 1] != other[j - 1]);
                let mut best = (table[(i - 1) * width + j - 1] + same)
                    .min(table[(i - 1) * width + j] + 1)
                    .min(table[i * width + j - 1] + 1);
                if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                    best = best.min(table[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    table[table.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_word_is_not() {
        let known = ["max-tokens", "prompt", "prompt-tokens", "top-p", "model"];
        let near = |typed| nearest(typed, known.into_iter());
        assert_eq!(near("max_tokens"), Some("max-tokens"));
        assert_eq!(near("promtp"), Some("prompt"));
        assert_eq!(near("Model"), Some("model"));
        assert_eq!(near("top-k"), Some("top-p"));
        assert_eq!(near("frequency-penalty"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"x".repeat(100_000)), None);
    }
}
