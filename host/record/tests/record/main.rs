//! Arenas: what is written is read again, and bytes from elsewhere do no harm.

#![allow(clippy::unwrap_used)]

mod common;
mod golden;
mod hostile;
mod notes;
mod round_trip;
mod versions;
