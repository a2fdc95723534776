//! How answers become bytes: one form for each endpoint.

use serde::Serialize;
use serde_json::Value;

use super::answer::{Final, Usage};
use super::error::ApiError;
use super::route::TokenText;
use crate::requests::OwnedPiece;

/// What all answers of a request say of themselves.
#[derive(Clone)]
pub(crate) struct Head {
    /// The request's id, without the prefix of its endpoint.
    pub(crate) id: String,
    /// Seconds since the Unix epoch.
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) token_text: Option<TokenText>,
}

/// The form of an endpoint's answers. Records are known by their number in the request.
pub(crate) trait Framing: Send {
    /// What its answers say of themselves.
    fn head(&mut self) -> &mut Head;

    /// The whole of it.
    fn whole(&mut self, answers: &[Final], usage: Usage) -> Result<Value, ApiError>;

    /// Before the first piece.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// One piece.
    fn piece(&mut self, record: usize, piece: &OwnedPiece, out: &mut Vec<u8>);

    /// What follows the last piece, to the end of the body.
    fn end(&mut self, answers: &[Final], usage: Usage, out: &mut Vec<u8>);

    /// The answer breaks here.
    fn broken(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        data(out, &error.body());
    }
}

/// An event that is data alone.
pub(crate) fn data(out: &mut Vec<u8>, value: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    // Texts, numbers and lists of them, into memory: this cannot fail.
    let _ = serde_json::to_writer(&mut *out, value);
    out.extend_from_slice(b"\n\n");
}

/// The end of a stream for one who waits no longer while others do. All clients take data with `error` for one.
pub(crate) fn late() -> Vec<u8> {
    let mut out = Vec::new();
    data(&mut out, &ApiError::deadline().body());
    out
}

/// The end of a stream.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";
