//! What an answer does to its record.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_contract::{Answer, ModelFacts};
use tidegate_record::{Change, PatchBuilder, RecordId};

use crate::entry::Entry;
use crate::plan::{AnswerInto, ModelStage};

/// The private attribute with the answer's text.
const ANSWER: &str = "answer";
/// The private attribute with where the answer comes from, as JSON.
const MODEL: &str = "model";

/// The changes to an answered record: the attributes `answer` and `model`, and the value if the stage says so.
pub(crate) fn patch(
    stage: &ModelStage,
    facts: &ModelFacts,
    entry: &Entry,
    answer: &Answer,
    id: RecordId,
) -> PatchBuilder {
    let ms = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    let operators: Value =
        serde_json::from_str(&entry.versions).unwrap_or(Value::Array(Vec::new()));
    let model = json!({
        "name": stage.name,
        "digest": facts.digest,
        "finish": answer.finish.name(),
        "prompt_tokens": answer.prompt_tokens,
        "tokens": answer.tokens.len(),
        "attempt": entry.attempt,
        "seed": record_seed(stage.seed, id),
        "timings_ms": {
            "queued": ms(answer.timings.queued),
            "prefill": ms(answer.timings.prefill),
            "decode": ms(answer.timings.decode),
        },
        "operators": operators,
    });
    let mut patch = PatchBuilder::default();
    match stage.into {
        AnswerInto::Attributes => {}
        AnswerInto::Value => patch.set_value(Some(answer.text.clone().into_bytes())),
        AnswerInto::Member => {
            let value = entry.view().and_then(|record| record.value());
            let value = value.and_then(|value| with_member(value, &answer.text));
            patch.set_value(Some(
                value.unwrap_or_else(|| answer.text.clone()).into_bytes(),
            ));
        }
    }
    patch.attribute(Change::Set {
        name: ANSWER,
        value: Some(answer.text.as_bytes()),
    });
    patch.attribute(Change::Set {
        name: MODEL,
        value: Some(model.to_string().as_bytes()),
    });
    patch
}

/// The JSON object with one more member at its end, everything else as it stands; none if it is not an object.
fn with_member(value: &[u8], answer: &str) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?.trim();
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let members = text.strip_prefix('{')?.strip_suffix('}')?.trim_end();
    let comma = if members.trim().is_empty() { "" } else { "," };
    Some(format!(
        "{{{members}{comma}\"{ANSWER}\":{}}}",
        Value::from(answer)
    ))
}

/// A record's own seed: SplitMix64 over the stage's seed and the record's id, so that it does not depend on the order
/// of arrival (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(crate) fn record_seed(seed: u64, id: RecordId) -> u64 {
    let mut state = seed;
    for part in [
        u64::from(id.source),
        u64::from(id.partition),
        id.offset,
        u64::from(id.emit),
    ] {
        state = state.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    // Within what a JSON number holds exactly.
    state >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_a_member_and_the_rest_stays() {
        let with = |value: &str| with_member(value.as_bytes(), "it \"works\"");
        assert_eq!(
            with(r#"{"b": 1,"a":[2] }"#).unwrap(),
            r#"{"b": 1,"a":[2],"answer":"it \"works\""}"#
        );
        assert_eq!(with(" {} ").unwrap(), r#"{"answer":"it \"works\""}"#);
        for other in ["[1]", "text", "\"{}\"", "{\"a\":}", ""] {
            assert_eq!(with(other), None, "{other}");
        }
    }

    #[test]
    fn seeds_differ_between_records_and_fit_a_json_number() {
        let id = RecordId {
            offset: 7,
            ..RecordId::default()
        };
        let other = RecordId { offset: 8, ..id };
        assert_eq!(record_seed(1, id), record_seed(1, id));
        assert_ne!(record_seed(1, id), record_seed(1, other));
        assert_ne!(record_seed(1, id), record_seed(2, id));
        assert!(record_seed(u64::MAX, other) < 1 << 53);
    }
}
