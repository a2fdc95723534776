//! Of the stream, or beside it: what a person tries while it runs costs the stream nothing but time of the server.

use tidegate_contract::CLASS_BESIDE;

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The stream's.
    Stream,
    /// It has places of its own, is sent only to a server that is well, once, and says nothing of how the server is.
    Beside,
}

impl Side {
    /// That of a class.
    pub(crate) fn of(class: u8) -> Side {
        match class < CLASS_BESIDE {
            true => Side::Stream,
            false => Side::Beside,
        }
    }
}
