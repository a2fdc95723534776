//! Tokens as an output.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_codec::tokens::encode_token_event;
use tidegate_contract::{TokenEvent, TokenFeed};

use super::log::OutputLog;

/// Shows the tokens of answers in an output's log, as they are made and not at cuts. It has room for everything: a reader
/// that is too slow for the log is told of the gap, as of any output.
#[derive(Clone, Debug)]
pub struct OutputFeed {
    log: Arc<OutputLog>,
}

impl OutputFeed {
    /// Events go to this log.
    pub fn new(log: Arc<OutputLog>) -> OutputFeed {
        OutputFeed { log }
    }
}

impl TokenFeed for OutputFeed {
    fn send(&self, event: &TokenEvent<'_>) -> bool {
        let json = encode_token_event(event);
        self.log.publish([Bytes::from(json)]);
        true
    }
}
