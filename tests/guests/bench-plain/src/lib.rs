//! What `bench-operator` does, in the plain world: made with nothing but a WIT generator, whose bindings are those of the
//! guest `plain`.

#![cfg(target_family = "wasm")]
#![allow(
    unsafe_code,
    unreachable_pub,
    reason = "the exports of a component have the C calling convention, and the generator makes them public"
)]

#[allow(missing_docs, reason = "generated")]
#[path = "../../plain/src/bindings.rs"]
mod bindings;

use std::cell::Cell;

use bindings::exports::tidegate::operator::plain::{
    Answer, Batch, Description, Failure, FieldChange, Guest, Message, Outcome, Patch, TimeChange,
};
use bindings::tidegate::operator::types::Fields;

thread_local! {
    static IS_ECHO: Cell<bool> = const { Cell::new(false) };
}

struct Plain;

impl Guest for Plain {
    fn describe(_: String) -> Result<Description, Failure> {
        Ok(Description {
            name: "measure-boundary".into(),
            version: "1.0.0".into(),
            config_schema: "{}".into(),
            reads: Fields::VALUE,
            outputs: Vec::new(),
            metrics: Vec::new(),
            handlers: Vec::new(),
            extensions: Vec::new(),
        })
    }

    fn init(config: String) -> Result<(), Failure> {
        IS_ECHO.set(config.contains("\"echo\""));
        Ok(())
    }

    fn process(batch: Batch) -> Result<Answer, Failure> {
        let each = if IS_ECHO.get() { echo } else { filter };
        Ok(Answer {
            outcomes: batch.messages.into_iter().map(each).collect(),
            samples: Vec::new(),
        })
    }
}

fn filter(message: Message) -> Outcome {
    match message.value {
        Some(value) if value.get(10).is_some_and(|byte| byte % 2 == 1) => Outcome::Drop,
        _ => Outcome::Pass,
    }
}

fn echo(message: Message) -> Outcome {
    match message.value {
        Some(value) => Outcome::Replace(Patch {
            key: FieldChange::Keep,
            value: FieldChange::Set(value),
            event_time: TimeChange::Keep,
            headers: Vec::new(),
            attributes: Vec::new(),
        }),
        None => Outcome::Pass,
    }
}

bindings::export_component!(Plain with_types_in bindings);
