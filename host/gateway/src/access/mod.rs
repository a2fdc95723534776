//! Who may do what, and how much of it.
//!
//! A client is known by a static key, or by a JSON Web Token of an issuer that is trusted. What it may do is a
//! [`Scope`] and a model; how much of it is a quota, taken before the work, and tokens settled after. Keys are compared in
//! constant time, wrong ones cost the same work as right ones, and an address that guesses is sent away for a while.

mod admission;
mod clock;
mod guesses;
mod jwt;
mod keys;
mod options;
mod quota;
mod who;

pub use admission::{Access, Denied, faults};
pub use clock::{Clock, SystemClock};
pub(crate) use guesses::network;
pub use jwt::FetchKeys;
pub use options::{
    AccessError, AccessOptions, Algorithm, Issuer, Key, KeySource, Permissions, Quota, Scope,
    Secret,
};
pub use quota::{Exceeded, Limit, Reservation, UnderWay};
pub use who::Who;
