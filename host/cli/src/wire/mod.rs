//! From a validated pipeline to the parts that run it.

pub(crate) mod again;
mod audit;
pub(crate) mod committed;
mod committers;
mod compiler;
pub(crate) mod feeds;
pub(crate) mod gateway;
pub(crate) mod kafka;
pub(crate) mod letters;
pub(crate) mod memory;
mod models;
mod ports;
mod slots;
mod stages;

pub(crate) use audit::{audit, begin as begin_audit};
pub(crate) use compiler::{CACHE_BYTES, COMPILER, compiler, user_cache};
pub(crate) use models::{Models, load as load_models};
pub(crate) use ports::{Ground, decoder, encoder, worker_parts};
pub(crate) use slots::{Compiled, Tasks, slots, sweep};
use stages::max_tokens;
pub(crate) use stages::{PARTING, sources, topology};
