//! What is left of a request.

/// What a request still needs when it is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// Tokens to be written before the next one can be drawn; those of kept blocks are among them, as such blocks come
    /// and go while it waits.
    pub(crate) rows: usize,
    /// Tokens to be drawn at the most: where an answer ends before its limit is not known.
    pub(crate) tokens: usize,
}
