//! A response, whole or as a stream of named events.

use serde_json::{Map, Value, json};
use tidegate_contract::{Finish, Lane};

use super::super::answer::{Final, Usage, all_pieces, marked};
use super::super::error::ApiError;
use super::super::framing::{Framing, Head};
use super::super::logprobs;
use super::Echo;
use super::items::Item;
use crate::requests::OwnedPiece;

/// The form of responses.
pub(crate) struct ResponseFraming {
    head: Head,
    echo: Echo,
    /// Number of the next event.
    next: u64,
    items: Vec<Item>,
}

impl ResponseFraming {
    pub(crate) fn new(head: Head, echo: Echo) -> ResponseFraming {
        ResponseFraming {
            head,
            echo,
            next: 0,
            items: Vec::new(),
        }
    }

    fn response(&self, status: &str, error: Value, incomplete: Value, usage: Value) -> Value {
        let done = self.items.iter().filter(|item| item.done);
        let mut response = Map::new();
        let mut set = |name: &str, value: Value| {
            response.insert(name.to_owned(), value);
        };
        set("id", format!("resp_{}", self.head.id).into());
        set("object", "response".into());
        set("created_at", self.head.created.into());
        set("status", status.into());
        set("background", false.into());
        set("error", error);
        set("incomplete_details", incomplete);
        set("model", self.head.model.as_str().into());
        set("output", done.map(|item| item.json(true)).collect());
        for (name, value) in &self.echo.0 {
            set(name, value.clone());
        }
        set("previous_response_id", Value::Null);
        set("reasoning", json!({"effort": null, "summary": null}));
        set("service_tier", "default".into());
        set("store", false.into());
        set("truncation", "disabled".into());
        set("usage", usage);
        Value::Object(response)
    }

    fn in_progress(&self) -> Value {
        self.response("in_progress", Value::Null, Value::Null, Value::Null)
    }

    /// The response as it ended, and the name of its end.
    fn ended(&self, answers: &[Final], usage: Usage) -> (&'static str, Value) {
        let finish = answers.first().and_then(|answer| answer.choices.first());
        let cut = match finish.map(|choice| choice.finish) {
            Some(Finish::Length) => Some("max_output_tokens"),
            Some(Finish::Filtered) => Some("content_filter"),
            _ => None,
        };
        let status = if cut.is_some() {
            "incomplete"
        } else {
            "completed"
        };
        let cut = cut.map_or(Value::Null, |reason| json!({"reason": reason}));
        let usage = json!({
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.answer,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.prompt + usage.answer,
        });
        let response = self.response(status, Value::Null, cut, usage);
        let response = match finish {
            Some(choice) => marked(choice, response),
            None => response,
        };
        (status, response)
    }

    fn event(&mut self, name: &str, more: Value, out: &mut Vec<u8>) {
        let mut event = Map::new();
        event.insert("type".to_owned(), name.into());
        event.insert("sequence_number".to_owned(), self.next.into());
        self.next += 1;
        if let Value::Object(more) = more {
            event.extend(more);
        }
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(Value::Object(event).to_string().as_bytes());
        out.extend_from_slice(b"\n\n");
    }

    /// The item that a piece belongs to. A lane that is gone back to is an item anew.
    fn item(&mut self, piece: &OwnedPiece, out: &mut Vec<u8>) -> usize {
        let last = self.items.len().wrapping_sub(1);
        let goes_on = self
            .items
            .last()
            .is_some_and(|item| item.lane == piece.lane && !item.done && piece.begins.is_none());
        if goes_on {
            return last;
        }
        self.close(out);
        let index = self.items.len();
        let prefix = match piece.lane {
            Lane::Content => "msg",
            Lane::Reasoning => "rs",
            Lane::Arguments(_) => "fc",
        };
        let item = Item {
            lane: piece.lane,
            id: format!("{prefix}_{}_{index}", self.head.id),
            text: String::new(),
            call: piece.begins.clone().unwrap_or_default(),
            logprobs: Vec::new(),
            done: false,
        };
        let added = json!({"output_index": index, "item": item.json(false)});
        self.event("response.output_item.added", added, out);
        if !matches!(piece.lane, Lane::Arguments(_)) {
            let added = json!({
                "item_id": item.id,
                "output_index": index,
                "content_index": 0,
                "part": item.empty_part(),
            });
            self.event("response.content_part.added", added, out);
        }
        self.items.push(item);
        index
    }

    /// The last item is done.
    fn close(&mut self, out: &mut Vec<u8>) {
        let index = self.items.len().wrapping_sub(1);
        let Some(item) = self.items.last_mut().filter(|item| !item.done) else {
            return;
        };
        item.done = true;
        let item = item.clone();
        let mut place = json!({"item_id": item.id, "output_index": index});
        match item.lane {
            Lane::Arguments(_) => {
                place["name"] = item.call.1.as_str().into();
                place["arguments"] = item.text.as_str().into();
                self.event("response.function_call_arguments.done", place, out);
            }
            lane => {
                place["content_index"] = 0.into();
                let mut part = place.clone();
                place["text"] = item.text.as_str().into();
                if lane == Lane::Content {
                    place["logprobs"] = item.logprobs.clone().into();
                    self.event("response.output_text.done", place, out);
                } else {
                    self.event("response.reasoning_text.done", place, out);
                }
                part["part"] = item.part();
                self.event("response.content_part.done", part, out);
            }
        }
        let done = json!({"output_index": index, "item": item.json(true)});
        self.event("response.output_item.done", done, out);
    }
}

impl Framing for ResponseFraming {
    fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    fn whole(&mut self, answers: &[Final], usage: Usage) -> Result<Value, ApiError> {
        // The items are those of a stream.
        let mut unread = Vec::new();
        for piece in answers.iter().flat_map(all_pieces) {
            self.piece(0, &piece, &mut unread);
        }
        self.close(&mut unread);
        Ok(self.ended(answers, usage).1)
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        for name in ["response.created", "response.in_progress"] {
            let response = json!({"response": self.in_progress()});
            self.event(name, response, out);
        }
    }

    fn piece(&mut self, _: usize, piece: &OwnedPiece, out: &mut Vec<u8>) {
        if piece.choice != 0 {
            return;
        }
        let index = self.item(piece, out);
        if piece.text.is_empty() && piece.logprobs.is_empty() {
            return;
        }
        let logprobs = logprobs::items(&piece.logprobs, self.head.token_text.as_ref());
        let Some(item) = self.items.get_mut(index) else {
            return;
        };
        item.text.push_str(&piece.text);
        item.logprobs.extend_from_slice(&logprobs);
        let mut delta = json!({"item_id": item.id, "output_index": index});
        let name = match piece.lane {
            Lane::Arguments(_) => "response.function_call_arguments.delta",
            Lane::Content => {
                delta["content_index"] = 0.into();
                delta["logprobs"] = logprobs.into();
                "response.output_text.delta"
            }
            Lane::Reasoning => {
                delta["content_index"] = 0.into();
                "response.reasoning_text.delta"
            }
        };
        delta["delta"] = piece.text.as_str().into();
        self.event(name, delta, out);
    }

    fn end(&mut self, answers: &[Final], usage: Usage, out: &mut Vec<u8>) {
        self.close(out);
        let (status, response) = self.ended(answers, usage);
        let name = format!("response.{status}");
        self.event(&name, json!({"response": response}), out);
    }

    fn broken(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        let said = json!({"code": "server_error", "message": error.message});
        let failed = self.response("failed", said, Value::Null, Value::Null);
        self.event("response.failed", json!({"response": failed}), out);
        // Clients take an event with `error` for one.
        let mut flat = error.body();
        flat["code"] = error.code.into();
        flat["message"] = error.message.as_str().into();
        flat["param"] = json!(error.param);
        self.event("error", flat, out);
    }
}
