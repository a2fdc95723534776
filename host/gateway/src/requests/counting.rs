//! Counting what a model makes for a caller.

use std::sync::Arc;

use tidegate_contract::Tally;

use super::caller::Caller;

/// Counts one attempt of one stage.
pub(super) struct Counting {
    caller: Arc<Caller>,
    attempt: u64,
    /// Tokens that the first answer begins with. Whoever made them has counted them.
    before: u32,
}

impl Counting {
    pub(super) fn begin(caller: Arc<Caller>, before: u32) -> Counting {
        let attempt = caller.ways.spending.attempt();
        Counting {
            caller,
            attempt,
            before,
        }
    }
}

impl Tally for Counting {
    fn asked(&self) {
        self.caller.ways.spending.asked(self.caller.tag);
    }

    fn made(&self, choice: u32, tokens: u32) {
        let spending = &self.caller.ways.spending;
        let before = if choice == 0 { self.before } else { 0 };
        let made = u64::from(tokens.saturating_sub(before));
        spending.made(self.caller.tag, self.attempt, choice, made);
    }
}
