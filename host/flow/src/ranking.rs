//! What a stage that puts documents in order asks, and what of the scores its record gets.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_contract::{MOST_DOCUMENTS, ModelTask};
use tidegate_record::RecordView;
use tidegate_telemetry::plain;

use crate::asked::Refusal;

/// The member of a document that is an object, in which its text is.
const TEXT: &str = "text";
/// Most bytes of a value that a refusal shows.
const SHOWN_BYTES: usize = 200;

/// What is asked, as the entry keeps it: JSON text, in this order.
#[derive(Deserialize, Serialize)]
struct Question {
    query: String,
    documents: Vec<String>,
}

/// The question for a record whose query is known, with the documents that stand at a path in its value.
pub(crate) fn question(
    query: String,
    path: &[String],
    record: &RecordView<'_>,
) -> Result<String, Refusal> {
    let name = path.join(".");
    let value: Value = serde_json::from_slice(record.value().unwrap_or_default())
        .map_err(|error| format!("{name} cannot be read: the value is not JSON: {error}"))?;
    let mut at = Some(&value);
    for name in path {
        at = at.and_then(|value| value.get(name));
    }
    let list = match at {
        Some(Value::Array(list)) => list,
        None | Some(Value::Null) => return Err(format!("value has no {name}").into()),
        Some(other) => {
            let found = shown(other);
            return Err(format!("{name} is {found}, must be a list of documents").into());
        }
    };
    if !(1..=MOST_DOCUMENTS).contains(&list.len()) {
        let found = list.len();
        return Err(
            format!("{name} has {found} documents, must have 1 to {MOST_DOCUMENTS}").into(),
        );
    }
    let text = |(index, document): (usize, &Value)| {
        let text = match document {
            Value::Object(members) => members.get(TEXT).and_then(Value::as_str),
            other => other.as_str(),
        };
        text.map(str::to_owned).ok_or_else(|| {
            let found = shown(document);
            format!("{name}[{index}] is {found}, must be a text or an object with a text {TEXT:?}")
        })
    };
    let documents = list.iter().enumerate().map(text);
    let question = Question {
        query,
        documents: documents.collect::<Result<_, _>>()?,
    };
    serde_json::to_string(&question).map_err(|error| error.to_string().into())
}

fn shown(value: &Value) -> String {
    plain(&value.to_string(), SHOWN_BYTES).into_owned()
}

/// What the model is asked by a [`question`]. One that was kept by a stage of the same name which asked something else is
/// none.
pub(crate) fn task(question: &str) -> Result<ModelTask, Refusal> {
    let Question { query, documents } = serde_json::from_str(question)
        .map_err(|_| "what this record asked before the stage changed is no ranking".to_owned())?;
    Ok(ModelTask::Rank { query, documents })
}

/// Documents by their scores, best first, equals in their own order; at most `top`.
pub(crate) fn ranking(scores: &[f32], top: Option<usize>) -> Value {
    let mut order: Vec<(usize, f32)> = scores.iter().copied().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    order.truncate(top.unwrap_or(usize::MAX));
    let ranked = order.into_iter();
    ranked
        .map(|(index, score)| json!({"index": index, "score": score}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_equals_stay_in_order() {
        let scores = [0.25, -3.0, 0.5, 0.25];
        let all = json!([{"index": 2, "score": 0.5}, {"index": 0, "score": 0.25},
            {"index": 3, "score": 0.25}, {"index": 1, "score": -3.0}]);
        assert_eq!(ranking(&scores, None), all);
        assert_eq!(ranking(&scores, Some(9)), all);
        assert_eq!(
            ranking(&scores, Some(1)),
            json!([{"index": 2, "score": 0.5}])
        );
    }

    #[test]
    fn what_was_asked_otherwise_is_no_question() {
        let text = r#"{"query":"q","documents":["a","b"]}"#;
        let task = task(text).unwrap();
        assert!(matches!(task, ModelTask::Rank { documents, .. } if documents.len() == 2));
        let refusal = super::task("a text").unwrap_err();
        assert!(refusal.reason.contains("no ranking"), "{}", refusal.reason);
    }
}
