//! The engine on a decoder whose logits are a function of what stands in the blocks it is given: a block, position or
//! prefix that is mixed up shows as another token.

mod encoders;
mod failures;
mod golden;
mod lanes;
mod models;
mod order;
mod parts;
mod phases;
mod pins;
mod replicas;
mod returning;
mod same;
pub(crate) mod support;
mod text;
mod thinking;
