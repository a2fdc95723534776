//! The GPU half of the model room, tested on the software adapter: each kernel and the whole model against the float64
//! reference, the whole model against the transformers library, and everything that must be refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod goldens;
mod kernels;
mod refusals;
mod shaders;
mod support;
mod whole_model;
