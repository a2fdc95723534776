//! From moments to figures.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::load::Window;

/// Pieces that come within this time came together: those of a step that made several tokens, whether they are told one by
/// one or in one event.
const TOGETHER: Duration = Duration::from_micros(200);

/// An answer as its reader saw it.
pub(crate) struct Seen {
    /// When it was asked for.
    pub(crate) asked: Instant,
    /// When each piece of text came, in order.
    pub(crate) pieces: Vec<Instant>,
    /// Tokens it has, by what the model says.
    pub(crate) tokens: u64,
}

impl Seen {
    /// Nothing yet, of a request that is sent now.
    pub(crate) fn asked_now() -> Seen {
        Seen {
            asked: Instant::now(),
            pieces: Vec::new(),
            tokens: 0,
        }
    }
}

/// The figures of a load.
///
/// A piece may have several tokens, and a token may have no text: an answer's tokens are spread evenly over its pieces, and
/// those of the pieces in the window are counted.
pub(crate) fn of_answers(answers: &[Seen], window: &Window) -> Value {
    let (mut tokens, mut pieces, mut whole, mut empty) = (0.0, 0, 0, 0);
    let (mut first, mut between) = (Vec::new(), Vec::new());
    for answer in answers {
        let (Some(begun), Some(ended)) = (answer.pieces.first(), answer.pieces.last()) else {
            empty += 1;
            continue;
        };
        let counted = answer.pieces.iter().filter(|at| window.has(**at)).count();
        pieces += counted;
        tokens += answer.tokens as f64 * counted as f64 / answer.pieces.len() as f64;
        whole += usize::from(window.has(*ended));
        if window.has(*begun) {
            first.push(*begun - answer.asked);
        }
        let mut before = *begun;
        for at in &answer.pieces {
            let passed = *at - before;
            if passed < TOGETHER {
                continue;
            }
            if window.has(*at) {
                between.push(passed);
            }
            before = *at;
        }
    }
    json!({
        "seconds": window.seconds(),
        "requests": whole,
        "tokens_in_all": answers.iter().map(|answer| answer.tokens).sum::<u64>(),
        "tokens_per_s": tokens / window.seconds(),
        "pieces_per_s": pieces as f64 / window.seconds(),
        "first_ms": percentiles(first),
        "between_ms": percentiles(between),
        "answers_without_text": empty,
    })
}

/// The 50th and 99th percentile and the longest, in milliseconds; null of nothing.
pub(crate) fn percentiles(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let at = |share: f64| {
        let rank = (times.len() as f64 * share).ceil() as usize;
        let time = times.get(rank.saturating_sub(1))?;
        Some(time.as_secs_f64() * 1e3)
    };
    json!({ "p50": at(0.5), "p99": at(0.99), "most": at(1.0), "count": times.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_in_the_window_counts() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let window = Window {
            begin: at(1000),
            end: at(2000),
        };
        let answers = [
            // Half of its four pieces, of which each stands for two tokens.
            Seen {
                asked: at(0),
                pieces: vec![at(800), at(900), at(1000), at(1300)],
                tokens: 8,
            },
            // One piece; the last comes too late.
            Seen {
                asked: at(1900),
                pieces: vec![at(1950), at(2000)],
                tokens: 2,
            },
            Seen {
                asked: at(1000),
                pieces: Vec::new(),
                tokens: 1,
            },
        ];
        let found = of_answers(&answers, &window);
        assert_eq!(found["tokens_per_s"], 5.0);
        assert_eq!(found["pieces_per_s"], 3.0);
        assert_eq!(
            (&found["requests"], &found["answers_without_text"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(found["first_ms"]["p99"], 50.0);
        assert_eq!(found["first_ms"]["count"], 1);
        assert_eq!(
            found["between_ms"],
            json!({"p50": 100.0, "p99": 300.0, "most": 300.0, "count": 2})
        );
    }

    #[test]
    fn pieces_that_come_together_are_one_moment() {
        let begin = Instant::now();
        let at = |us: u64| begin + Duration::from_micros(us);
        let window = Window {
            begin,
            end: at(10_000),
        };
        let answer = Seen {
            asked: begin,
            pieces: vec![at(1000), at(1050), at(3000), at(3100), at(3150), at(6000)],
            tokens: 6,
        };
        let found = of_answers(&[answer], &window);
        assert_eq!(
            found["between_ms"],
            json!({"p50": 2.0, "p99": 3.0, "most": 3.0, "count": 2})
        );
        assert_eq!(found["tokens_per_s"], 600.0);
    }

    #[test]
    fn percentiles_are_of_the_times_that_there_are() {
        let times = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(
            percentiles(times),
            json!({"p50": 100.0, "p99": 198.0, "most": 200.0, "count": 200})
        );
        assert_eq!(percentiles(Vec::new())["p99"], Value::Null);
    }
}
