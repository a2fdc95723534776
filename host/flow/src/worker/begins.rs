//! Telling a caller that a model has begun to answer it.

use std::sync::Arc;

use tidegate_contract::{CallerId, Callers};
use tidegate_record::RecordId;

use crate::topology::Topology;

/// Whom to tell, until it is told.
pub(super) struct Begins(Option<Telling>);

struct Telling {
    callers: Arc<dyn Callers>,
    caller: CallerId,
    model: String,
}

impl Begins {
    /// Of a record that somebody waits for, or not.
    pub(super) fn new(
        topology: &Topology,
        id: RecordId,
        is_waited_for: bool,
        model: &str,
    ) -> Begins {
        let called = topology.callers.as_ref().filter(|_| is_waited_for);
        Begins(called.map(|called| Telling {
            callers: called.callers.clone(),
            caller: id.into(),
            model: model.to_owned(),
        }))
    }

    /// A token is there.
    pub(super) fn tell(&mut self) {
        if let Some(telling) = self.0.take() {
            telling.callers.begun(telling.caller, &telling.model);
        }
    }
}
