//! `/v1/models`.

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::route::ModelEntry;
use crate::exchange::{Answered, Content};

fn model(entry: &ModelEntry) -> Value {
    json!({
        "id": entry.name,
        "object": "model",
        "created": entry.made,
        "owned_by": "tidegate",
    })
}

/// All of them.
pub(super) fn list(entries: &[&ModelEntry]) -> Answered {
    let models = entries.iter().map(|entry| model(entry));
    json_answer(&json!({"object": "list", "data": models.collect::<Vec<_>>()}))
}

/// One.
pub(super) fn one(entry: &ModelEntry) -> Answered {
    json_answer(&model(entry))
}

fn json_answer(value: &Value) -> Answered {
    Answered {
        status: StatusCode::OK,
        headers: Vec::new(),
        content: Content::Whole {
            media_type: "application/json",
            bytes: Bytes::from(value.to_string()),
        },
    }
}
