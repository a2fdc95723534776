//! Items of a response's output, as they grow.

use serde_json::{Value, json};
use tidegate_contract::Lane;

/// One item: a thought, a message, or a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) lane: Lane,
    pub(super) id: String,
    pub(super) text: String,
    /// Id and name of a call.
    pub(super) call: (String, String),
    pub(super) logprobs: Vec<Value>,
    pub(super) done: bool,
}

impl Item {
    /// What it is while it grows, and what it is then.
    pub(super) fn json(&self, finished: bool) -> Value {
        let status = if finished { "completed" } else { "in_progress" };
        match self.lane {
            Lane::Content => {
                let content = if finished {
                    vec![self.part()]
                } else {
                    Vec::new()
                };
                json!({
                    "id": self.id,
                    "type": "message",
                    "status": status,
                    "role": "assistant",
                    "content": content,
                })
            }
            Lane::Reasoning => {
                let content = if finished {
                    vec![self.part()]
                } else {
                    Vec::new()
                };
                json!({
                    "id": self.id,
                    "type": "reasoning",
                    "status": status,
                    "summary": [],
                    "content": content,
                })
            }
            Lane::Arguments(_) => json!({
                "id": self.id,
                "type": "function_call",
                "status": status,
                "call_id": self.call.0,
                "name": self.call.1,
                "arguments": if finished { self.text.as_str() } else { "" },
            }),
        }
    }

    /// Its one part, with what it has.
    pub(super) fn part(&self) -> Value {
        match self.lane {
            Lane::Reasoning => json!({"type": "reasoning_text", "text": self.text}),
            _ => json!({
                "type": "output_text",
                "text": self.text,
                "annotations": [],
                "logprobs": self.logprobs,
            }),
        }
    }

    /// Its part, before it has anything.
    pub(super) fn empty_part(&self) -> Value {
        match self.lane {
            Lane::Reasoning => json!({"type": "reasoning_text", "text": ""}),
            _ => json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
        }
    }
}
