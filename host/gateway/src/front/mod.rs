//! Connections, and what every request must be before an endpoint sees it.
//!
//! A connection's bytes pass the wire, which gives hyper one checked request at a time; the service lets the request in,
//! reads its body and asks the endpoints. Everything has a bound and a deadline: connections, heads, bodies, writes.

mod bodies;
mod body;
mod collecting;
mod connection;
mod cors;
mod endpoints;
mod head;
mod listening;
mod near;
mod options;
mod refusal;
mod refused;
mod service;
mod timing;
mod tls;
mod wire;

pub use endpoints::{Endpoints, Limits};
pub use listening::{Bound, Front, FrontError};
pub use options::{Cors, FrontBounds, FrontOptions, TlsFiles};
pub use refused::{Reason, Refused};
pub use timing::{Times, Timing};
