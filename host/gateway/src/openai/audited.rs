//! Answers that are given again, in the audit: no model is asked for them, so that no worker writes their line.

use std::sync::Arc;

use serde_json::json;
use tidegate_contract::Audited;

use super::OpenAi;
use super::error::ApiError;
use crate::exchange::Asked;
use crate::idempotency::Given;

/// What stands in the place of the stage.
const GATEWAY: &str = "gateway";

impl OpenAi {
    /// What is told before this one is given an answer that was made for another question; `by` says what kept it. None
    /// without an audit.
    pub(super) fn given(&self, asked: &Asked, by: &'static str) -> Option<Given> {
        let door = Arc::clone(self.0.audit.as_ref()?);
        let name = asked.who.name.clone();
        let trace = (asked.trace.as_ref()).and_then(|trace| Some(trace.id()?.to_string()));
        Some(Box::new(move |records: &[String]| {
            let caller = (!name.is_empty()).then_some(&*name);
            let facts = json!({
                "caller": caller, "trace": trace, "outcome": "repeated", "by": by, "of": records,
            });
            let audited = Audited {
                record: records.first().map_or("", String::as_str),
                stage: GATEWAY,
                attempt: 0,
                facts: &facts.to_string(),
                content: None,
                told: true,
            };
            let taken = door.take(&audited);
            taken.map_err(|shut| ApiError::unaudited(&shut).answered())
        }))
    }
}
