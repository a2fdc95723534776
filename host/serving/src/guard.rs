//! Decoders and encoders belong to others: a panic of theirs is a fault of the device, and ends here. So does one in what is one
//! request's alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidegate_contract::{
    DecodeError, Decoder, Encoder, EncoderText, FedToken, ModelError, Sampled, StepSequence,
};

/// Does what concerns one request alone and touches nothing that others have a part of: its text, its structure, its answer.
///
/// # Errors
/// It panicked, and the request is to end: what of it was being done is half done.
pub(crate) fn guarded_request<T>(part: impl FnOnce() -> T) -> Result<T, ModelError> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|_| {
        tracing::error!("what is made of an answer panicked; its request fails");
        ModelError::Device("what is made of the answer panicked".to_owned())
    })
}

/// Submits a step; as [`guarded_step`].
pub(crate) fn guarded_submit(
    decoder: &mut dyn Decoder,
    step: &[StepSequence],
) -> Result<(), DecodeError> {
    guarded_decoder(|| decoder.submit(step))
}

/// Submits the step after the one that runs; as [`guarded_step`].
pub(crate) fn guarded_submit_after(
    decoder: &mut dyn Decoder,
    step: &[StepSequence],
    fed: &[FedToken],
) -> Result<(), DecodeError> {
    guarded_decoder(|| decoder.submit_after(step, fed))
}

/// Has tokens drawn in the step that was submitted; as [`guarded_step`].
pub(crate) fn guarded_draw(
    decoder: &mut dyn Decoder,
    step: &[StepSequence],
) -> Result<(), DecodeError> {
    guarded_decoder(|| decoder.draw(step))
}

/// Collects the step that was submitted; as [`guarded_step`].
pub(crate) fn guarded_collect(
    decoder: &mut dyn Decoder,
    step: &[StepSequence],
    sampled: &mut Vec<Sampled>,
) -> Result<(), DecodeError> {
    guarded_decoder(|| decoder.collect(step, sampled))
}

/// Runs a step.
///
/// # Errors
/// The decoder's, and a fatal one if it panicked: its state is unknown.
pub(crate) fn guarded_step(
    decoder: &mut dyn Decoder,
    step: &[StepSequence],
    sampled: &mut Vec<Sampled>,
) -> Result<(), DecodeError> {
    guarded_decoder(|| decoder.step(step, sampled))
}

fn guarded_decoder(phase: impl FnOnce() -> Result<(), DecodeError>) -> Result<(), DecodeError> {
    catch_unwind(AssertUnwindSafe(phase)).unwrap_or_else(|_| {
        Err(DecodeError::DeviceLost {
            reason: "the decoder panicked".into(),
        })
    })
}

/// Gives a step's logits; as [`guarded_step`].
pub(crate) fn guarded_logits(
    decoder: &mut dyn Decoder,
    step: &[StepSequence],
    logits: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    guarded_decoder(|| decoder.logits(step, logits))
}

/// Runs an encoder; as [`guarded_step`].
pub(crate) fn guarded_encode(
    encoder: &mut dyn Encoder,
    texts: &[EncoderText<'_>],
    vectors: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    catch_unwind(AssertUnwindSafe(|| encoder.encode(texts, vectors))).unwrap_or_else(|_| {
        Err(DecodeError::DeviceLost {
            reason: "the encoder panicked".into(),
        })
    })
}

/// Loads something.
pub(crate) fn guarded_load<T>(load: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|_| Err("loading panicked".into()))
}
