//! Counting what a model makes for a caller.

use std::sync::Arc;

use tidegate_contract::Tally;

use super::caller::Caller;

/// Counts one attempt of one stage.
pub(super) struct Counting {
    caller: Arc<Caller>,
    attempt: u64,
}

impl Counting {
    pub(super) fn begin(caller: Arc<Caller>) -> Counting {
        let attempt = caller.ways.spending.attempt();
        Counting { caller, attempt }
    }
}

impl Tally for Counting {
    fn asked(&self) {
        self.caller.ways.spending.asked(self.caller.tag);
    }

    fn made(&self, choice: u32, tokens: u32) {
        let spending = &self.caller.ways.spending;
        spending.made(self.caller.tag, self.attempt, choice, u64::from(tokens));
    }
}
