//! Tokens as they go out beside the cuts: their events as JSON, and the reader that puts answers together from them.
//!
//! One event is one JSON object without line ends:
//!
//! ```text
//! {"request":"ask/0/3/125","key":"k7","attempt":1763863200000123,"reset":0}
//! {"request":"ask/0/3/125","key":"k7","attempt":1763863200000123,"choice":0,"lane":"content","at":0,"index":3,"text":"It is"}
//! {"request":"ask/0/3/125","key":"k7","attempt":1763863200000123,"end":[{"choice":0,"finish":"end","lanes":{"content":5}}]}
//! {"request":"ask/0/3/125","key":"k7","attempt":1763863200000123,"lost":true}
//! ```
//!
//! Lanes are `content`, `reasoning`, and `arguments/0` with the number of the call, whose first event has its `call`, an
//! object of `id` and `name`. Places and lengths are counted in characters (Unicode scalar values).

mod event;
mod reader;
mod state;
mod text;

pub use event::{OwnedChoiceEnd, OwnedEvent, OwnedWhat, encode_token_event, parse_token_event};
pub use reader::{ReaderLimits, TokenReader};
pub use state::{Change, Choice, Joined, State};
