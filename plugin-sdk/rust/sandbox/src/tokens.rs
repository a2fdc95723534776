//! Lanes of answers, given to a component as the host gives them.

use std::fmt;

use tidegate_contract::{AnswerEnd, AnswerLane, Lane, TokenHandler};
use tidegate_sdk::testing::TestLane;
use tidegate_sdk::{Ending, LaneKind, Through};

use crate::SandboxError;

/// A component's handler of tokens under test.
pub struct SandboxTokens {
    handler: Box<dyn TokenHandler>,
}

impl fmt::Debug for SandboxTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxTokens").finish_non_exhaustive()
    }
}

impl SandboxTokens {
    pub(crate) fn new(handler: Box<dyn TokenHandler>) -> SandboxTokens {
        SandboxTokens { handler }
    }

    /// Begins a lane; the number is free, and unique while it is open.
    pub fn open(&mut self, number: u64, lane: &TestLane) -> Result<(), SandboxError> {
        let lane = AnswerLane {
            record: &lane.identity,
            model: &lane.model,
            choice: lane.choice,
            lane: match lane.kind {
                LaneKind::Content => Lane::Content,
                LaneKind::Reasoning => Lane::Reasoning,
                LaneKind::Arguments(call) => Lane::Arguments(call),
            },
            attributes: &lane.attributes,
        };
        Ok(self.handler.open(number, &lane)?)
    }

    /// Gives the next text of a lane.
    pub fn step(&mut self, number: u64, text: &str, last: bool) -> Result<Through, SandboxError> {
        let through = self.handler.step(number, text, last)?;
        Ok(Through {
            text: through.text,
            end: through.end.map(|end| match end {
                AnswerEnd::Stop => Ending::Stop,
                AnswerEnd::Filtered => Ending::Filtered,
            }),
        })
    }

    /// Ends a lane.
    pub fn close(&mut self, number: u64) {
        self.handler.close(number);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{Options, Sandbox};

    /// A guest of the host's tests, built by `cargo xtask operators`.
    fn guest() -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target")),
            PathBuf::from,
        );
        target.join("operators/tokens.wasm")
    }

    #[test]
    fn a_component_sees_an_answer_as_by_the_host() {
        let options = |mode: &str| Options::config(format!("{{\"mode\": \"{mode}\"}}"));
        let sandbox = Sandbox::start(&guest(), options("filter")).unwrap();
        let mut tokens = sandbox.tokens().unwrap();
        tokens.open(1, &TestLane::content()).unwrap();
        assert_eq!(
            tokens.step(1, "good", false).unwrap(),
            Through::text("good")
        );
        let end = Through::end("", Ending::Filtered);
        assert_eq!(tokens.step(1, "bad", false).unwrap(), end);
        tokens.close(1);
        let unnamed = Sandbox::start(&guest(), options("unnamed")).unwrap();
        let error = unnamed.tokens().unwrap_err().to_string();
        assert!(error.contains("it handles no tokens"), "{error}");
    }
}
