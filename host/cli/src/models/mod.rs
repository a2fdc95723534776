//! Models: from their files onto adapters, and what can be said of them before.

mod biased;
mod fit;
mod gpu;
mod hosted;
mod lora;
mod loss;
mod memory;
mod open;
mod pinned;
mod remote;
mod remote_report;
mod served;
mod sizes;
mod source;

#[cfg(test)]
mod tests;

pub(crate) use fit::{Fit, adapting, asking, check, is_loaded};
pub(crate) use gpu::{Adapters, missing_adapters, selector};
pub(crate) use hosted::HostedModel;
pub(crate) use lora::LoraModel;
pub(crate) use loss::{HELD_OUT, Loss, held_out_loss};
pub(crate) use memory::{available_memory, whole_memory};
pub(crate) use open::{
    MARK, ModelFile, Splits, open_checkpoint, open_converted, open_tokenizer, with_loras,
};
pub(crate) use remote::{look as look_at_remote, open as open_remote};
pub(crate) use remote_report::{line as remote_line, report as remote_report};
pub(crate) use served::Served;
pub(crate) use sizes::{Fits, encoder_options, what_fits};
pub(crate) use source::loading;
