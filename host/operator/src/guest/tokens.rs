//! Calls of a guest's handler of tokens. Each has the deadline of a batch.

use tidegate_contract::{AnswerLane, Through};
use wasmtime::Store;
use wasmtime::component::{Func, Instance};

use super::Guest;
use crate::failure::Failure;
use crate::host::{Allowed, Host};
use crate::revision::Revision;
use crate::world::tokens::{
    OpenParams, Opened, StepParams, Stepped, TokenExports, WitLane, WitPiece,
};

/// The functions of a handler, of the types that they should have.
#[derive(Clone, Copy)]
pub(super) struct TokenFunctions {
    open: Func,
    step: Func,
    close: Func,
}

impl TokenFunctions {
    pub(super) fn of(
        store: &mut Store<Host>,
        instance: &Instance,
        exports: TokenExports,
    ) -> wasmtime::Result<TokenFunctions> {
        let mut function = |index, name: &str| {
            instance
                .get_func(&mut *store, index)
                .ok_or_else(|| wasmtime::format_err!("`{name}` of `tokens` is no function"))
        };
        let functions = TokenFunctions {
            open: function(exports.open, "open")?,
            step: function(exports.step, "step")?,
            close: function(exports.close, "close")?,
        };
        functions.open.typed::<OpenParams<'_>, Opened>(&*store)?;
        functions.step.typed::<StepParams<'_>, Stepped>(&*store)?;
        functions.close.typed::<(u64,), ()>(&*store)?;
        Ok(functions)
    }
}

impl Guest {
    /// Begins a lane.
    pub(crate) fn open_lane(
        &mut self,
        revision: &Revision,
        number: u64,
        lane: &AnswerLane<'_>,
    ) -> Result<(), Failure> {
        let lane = WitLane::of(lane, revision.description.version.reads);
        let open = self.token_functions()?.open;
        let (opened,): Opened = self.call(revision, of_piece(revision), open, (number, lane))?;
        opened.map_err(|failure| self.said(failure.failure()))
    }

    /// Gives a piece of a lane.
    pub(crate) fn step_lane(
        &mut self,
        revision: &Revision,
        piece: WitPiece<'_>,
    ) -> Result<Through, Failure> {
        let step = self.token_functions()?.step;
        let pieces = (&[piece][..],);
        let (answer,): Stepped = self.call(revision, of_piece(revision), step, pieces)?;
        let verdicts = answer.map_err(|failure| self.said(failure.failure()))?;
        let found = verdicts.len();
        match <[_; 1]>::try_from(verdicts) {
            Ok([verdict]) => Ok(verdict.into()),
            Err(_) => Err(Failure::answer(&format!(
                "bad answer: {found} verdicts for 1 piece"
            ))),
        }
    }

    /// Ends a lane.
    pub(crate) fn close_lane(&mut self, revision: &Revision, number: u64) -> Result<(), Failure> {
        let close = self.token_functions()?.close;
        self.call(revision, of_piece(revision), close, (number,))
    }

    fn token_functions(&self) -> Result<TokenFunctions, Failure> {
        self.tokens
            .ok_or_else(|| Failure::answer("it exports no handler of tokens"))
    }
}

fn of_piece(revision: &Revision) -> Allowed {
    Allowed::Batch(revision.context.limits.deadline)
}
