//! What the operator does with the text of an answer: the name of its model says it.

use tidegate_sdk::prelude::*;
use tidegate_sdk::{Ending, LaneKind};

use crate::Conformance;

/// What is kept for a lane.
pub enum Answer {
    Pass,
    Upper,
    /// Holds back so many characters at the end of the text.
    Hold(usize, String),
    Silent,
    Until(Ending, String),
    Told(String),
    Logged,
    Throw,
}

const WORD: &str = "END";

impl Tokens for Conformance {
    type Answer = Answer;

    fn open(&self, lane: &Lane<'_>) -> Result<Answer, Failure> {
        Ok(match lane.model {
            "upper" => Answer::Upper,
            "hold" => Answer::Hold(usize::MAX, String::new()),
            "tail" => Answer::Hold(1, String::new()),
            "silent" => Answer::Silent,
            "stop" => Answer::Until(Ending::Stop, String::new()),
            "filter" => Answer::Until(Ending::Filtered, String::new()),
            "lane" => Answer::Told(told(lane)),
            "log" => {
                log!(Level::Info, "a lane opens");
                Answer::Logged
            }
            "refuse" => return Err(Failure::permanent("no-lane", "the lane asks for it")),
            "refuse-transient" => {
                return Err(Failure::transient("no-lane", "the lane asks for it"));
            }
            "throw" => Answer::Throw,
            _ => Answer::Pass,
        })
    }

    fn step(&self, answer: &mut Answer, text: &str, last: bool) -> Through {
        match answer {
            Answer::Pass => Through::text(text),
            Answer::Upper => Through::text(text.to_ascii_uppercase()),
            Answer::Hold(most, held) => {
                held.push_str(text);
                let most = if last { 0 } else { *most };
                let kept = held.chars().rev().take(most).map(char::len_utf8).sum();
                Through::text(let_go(held, kept))
            }
            Answer::Silent => Through::text(""),
            Answer::Until(end, held) => until(*end, held, text, last),
            Answer::Told(told) if last => Through::text(std::mem::take(told)),
            Answer::Told(_) => Through::text(""),
            Answer::Logged => {
                if last {
                    log!(Level::Debug, "its text ends");
                }
                Through::text(text)
            }
            Answer::Throw => panic!("boom"),
        }
    }
}

/// Takes out all but so many bytes at the end.
fn let_go(held: &mut String, kept: usize) -> String {
    let tail = held.split_off(held.len() - kept);
    std::mem::replace(held, tail)
}

/// Ends the answer at the word, and holds back what may become it.
fn until(end: Ending, held: &mut String, text: &str, last: bool) -> Through {
    held.push_str(text);
    if let Some(at) = held.find(WORD) {
        return Through::end(&held[..at], end);
    }
    let begun = (1..WORD.len()).rev();
    let kept = begun.filter(|kept| !last && held.ends_with(&WORD[..*kept]));
    let kept = kept.max().unwrap_or(0);
    Through::text(let_go(held, kept))
}

fn told(lane: &Lane<'_>) -> String {
    let kind = match lane.kind {
        LaneKind::Content => "content".to_owned(),
        LaneKind::Reasoning => "reasoning".to_owned(),
        LaneKind::Arguments(call) => format!("arguments {call}"),
    };
    let shown = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut told = format!("{}|{}|{}|{kind}", lane.identity, lane.model, lane.choice);
    for (name, value) in lane.attributes() {
        told += &format!("|{name}={}", shown(value));
    }
    told + &format!("|last a={}", shown(lane.attribute("a").unwrap_or_default()))
}
