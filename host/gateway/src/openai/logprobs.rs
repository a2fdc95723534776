//! Log-probabilities as clients read them.

use serde_json::{Map, Value, json};
use tidegate_contract::TokenLogprob;

use super::route::TokenText;

/// The least that is told: JSON has no infinity.
const LEAST: f32 = -9999.0;

pub(super) fn text(shown: Option<&TokenText>, token: u32) -> String {
    shown
        .and_then(|shown| shown(token))
        .unwrap_or_else(|| format!("<{token}>"))
}

fn token(shown: Option<&TokenText>, token: u32, logprob: f32) -> Map<String, Value> {
    let text = text(shown, token);
    // What is no whole character by itself has bytes that nobody knows here.
    let bytes = (!text.contains('\u{fffd}')).then(|| text.as_bytes().to_vec());
    let mut object = Map::new();
    object.insert("token".into(), text.into());
    object.insert("logprob".into(), json!(logprob.max(LEAST)));
    object.insert("bytes".into(), json!(bytes));
    object
}

/// The items of a chat or a response.
pub(crate) fn items(logprobs: &[TokenLogprob], shown: Option<&TokenText>) -> Vec<Value> {
    let items = logprobs.iter().map(|each| {
        let mut item = token(shown, each.token, each.logprob);
        let top = each.top.iter();
        let top = top.map(|(id, logprob)| Value::Object(token(shown, *id, *logprob)));
        item.insert("top_logprobs".into(), Value::Array(top.collect()));
        Value::Object(item)
    });
    items.collect()
}

/// `logprobs` of a chat's choice.
pub(crate) fn chat(logprobs: &[TokenLogprob], shown: Option<&TokenText>) -> Value {
    if logprobs.is_empty() {
        return Value::Null;
    }
    json!({"content": items(logprobs, shown), "refusal": null})
}

/// `logprobs` of a completion's choice, whose text begins at this place among the texts before it.
pub(crate) fn completion(
    logprobs: &[TokenLogprob],
    shown: Option<&TokenText>,
    from: usize,
) -> Value {
    if logprobs.is_empty() {
        return Value::Null;
    }
    let mut offset = from;
    let (mut tokens, mut values, mut tops, mut offsets) = (vec![], vec![], vec![], vec![]);
    for each in logprobs {
        let text = text(shown, each.token);
        offsets.push(offset);
        offset += text.chars().count();
        tokens.push(text);
        values.push(each.logprob.max(LEAST));
        let top = each.top.iter();
        let top = top.map(|(id, logprob)| (self::text(shown, *id), json!(logprob.max(LEAST))));
        tops.push(Value::Object(top.collect()));
    }
    json!({"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets})
}
