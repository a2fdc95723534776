//! Models: from their files onto adapters, and what can be said of them before.

mod fit;
mod gpu;
mod hosted;
mod loss;
mod memory;
mod open;
mod remote;
mod served;
mod sizes;
mod source;

#[cfg(test)]
mod tests;

pub(crate) use fit::check;
pub(crate) use gpu::{Adapters, selector};
pub(crate) use hosted::HostedModel;
pub(crate) use loss::{HELD_OUT, Loss, held_out_loss};
pub(crate) use memory::{available_memory, whole_memory};
pub(crate) use open::{ModelFile, open_checkpoint, open_tokenizer};
pub(crate) use remote::open as open_remote;
pub(crate) use served::Served;
pub(crate) use sizes::{DEFAULT_CONTEXT, Fits, encoder_options, what_fits};
