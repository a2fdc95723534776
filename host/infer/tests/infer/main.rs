//! The model room, tested on the software adapter: each kernel and whole models against the float64 reference and the
//! transformers library, with every optional feature and with none, and everything that must fail as documented.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adapters;
mod ahead;
mod bench;
mod encoders;
mod experts;
mod experts_read;
mod faults;
mod goldens;
mod kernels;
mod matmul;
mod phases;
mod refusals;
mod shaders;
mod sheet;
mod support;
mod whole_model;
