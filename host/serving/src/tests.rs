//! The engine on a decoder whose logits are a function of everything its slot was given: a slot, position or prefix
//! that is mixed up shows as another token.

mod failures;
mod golden;
mod order;
mod same;
mod support;
mod text;
