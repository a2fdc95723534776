//! From a validated pipeline to the parts that run it.

mod models;
mod ports;
mod slots;
mod stages;

pub(crate) use models::{Models, load as load_models};
pub(crate) use ports::worker_parts;
pub(crate) use slots::{Tasks, restore, slots, sweep};
pub(crate) use stages::{topology, volatile};
