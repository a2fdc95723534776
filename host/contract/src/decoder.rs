//! The decoder port: one step of a language model over a batch of rows.
//!
//! `infer` implements it on a device and `reference` in float64 on the CPU; `serving` drives it. A decoder does not know
//! requests, text or time: it knows KV blocks, positions, token ids, and how a token is drawn from its logits.

mod check;

use std::sync::Arc;
use std::time::Duration;

pub use check::check_texts;

/// Positions of a KV block.
pub const BLOCK: usize = 16;

/// Why products in f16, other than by cooperative matrices, are not for a model that is to be reproducible.
pub const SUMS_BY_ROWS: &str = "sum in another order for many rows than for few, so a row's bits depend on what runs beside it";

/// Likeliest tokens that can be asked for beside a sampled one.
pub const MOST_LOGPROBS: u8 = 20;

/// The fixed sizes of a loaded decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecoderShape {
    /// Token ids the model knows.
    pub vocabulary: usize,
    /// Positions of a sequence.
    pub context: usize,
    /// KV blocks of [`BLOCK`] positions that all sequences share.
    pub blocks: usize,
    /// Rows (tokens to be written) in one step.
    pub max_rows: usize,
    /// Rows of a step from which something can be sampled.
    pub max_samples: usize,
    /// Low-rank adapters (LoRA) that it has.
    pub loras: usize,
}

/// Consecutive tokens of one sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSequence {
    /// Position of the first of `tokens`; everything before it has been written to `blocks`.
    pub position: u32,
    /// Token ids to write, at least one.
    pub tokens: Vec<u32>,
    /// The KV blocks of the sequence from position 0, as many as `position + tokens.len()` need or more. A block that
    /// is written to belongs to this sequence alone; blocks before may be shared with others.
    pub blocks: Vec<u32>,
    /// How the successor of each of the last `samples.len()` tokens is drawn; empty where only the cache is to be filled.
    pub samples: Vec<Sampling>,
    /// Which of the decoder's low-rank adapters its rows go through, counted from 1; 0 for none. Blocks that were written with
    /// another have other keys and values.
    pub lora: u32,
}

/// A token of a step that is yet to be drawn: the device takes it from the step before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FedToken {
    /// Index of the sequence in the step. It has this one token; the id that stands there instead is any of the vocabulary.
    pub sequence: usize,
    /// Which of the tokens it is that the step before draws, counted over all its sequences.
    pub sampling: usize,
}

/// What a sequence's earlier tokens and its request do to the logit of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustment {
    /// The token id; each at most once in a [`Sampling`].
    pub token: u32,
    /// How often it stands in the answer so far.
    pub count: u32,
    /// Whether it stands in the prompt or the answer.
    pub seen: bool,
    /// Added to its logit.
    pub bias: f32,
}

/// How a token is drawn from logits.
///
/// In this order: for a seen token the logit is divided by `repetition` if positive and multiplied otherwise (Keskar et
/// al. 2019); `frequency * count`, and `presence` where `count > 0`, are subtracted (OpenAI's definition); the bias is
/// added; what `allowed` leaves out becomes impossible. With `temperature` 0 the greatest logit wins, of equals the lowest
/// id. Otherwise logits are divided by it, and one token is drawn among those that are left by `top_k` (the k likeliest),
/// then `top_p` (the fewest likeliest whose probability, among those left, reaches p), then `min_p` (at least p times as
/// likely as the likeliest); equals at a border stay together.
///
/// The draw is the Gumbel-max trick over those that are left: the token with the greatest `logit / temperature - ln(-ln
/// u)`, of equals the lowest id. `u = ((w >> 9) + 0.5) / 2^23`, where `w` is word `token % 4` of Philox4x32-10 (Salmon et
/// al. 2011) with key `(seed, seed >> 32)` and counter `(token / 4, index, 0, 0)`. So it depends on `seed`, `index` and
/// the logits alone, and a token that was guessed right is the token that would have been drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 is greedy; finite and not negative.
    pub temperature: f32,
    /// 0 is all.
    pub top_k: u32,
    /// 1 is all; above 0.
    pub top_p: f32,
    /// 0 is all; below 1.
    pub min_p: f32,
    /// 1 is none; above 0.
    pub repetition: f32,
    /// 0 is none.
    pub presence: f32,
    /// 0 is none.
    pub frequency: f32,
    /// Seed of the draw.
    pub seed: u64,
    /// The token's place in its answer, counted from 0.
    pub index: u32,
    /// Tokens whose logits change; ascending by token.
    pub adjustments: Vec<Adjustment>,
    /// Bit `token % 32` of word `token / 32` says whether a token may come; `vocabulary` bits rounded up to words. In a
    /// step that was submitted it may still be to come, as all of this may: logits do not depend on it.
    pub allowed: Option<Arc<[u32]>>,
    /// `Some(n)`: the token's log-probability and those of the `n` likeliest, at most [`MOST_LOGPROBS`]. They are of the
    /// distribution after penalties, bias and mask, before temperature.
    pub logprobs: Option<u8>,
}

impl Default for Sampling {
    /// Greedy, from unchanged logits.
    fn default() -> Self {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition: 1.0,
            presence: 0.0,
            frequency: 0.0,
            seed: 0,
            index: 0,
            adjustments: Vec::new(),
            allowed: None,
            logprobs: None,
        }
    }
}

/// A drawn token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Its id; `None` where no logit is a number above minus infinity.
    pub token: Option<u32>,
    /// Its natural log-probability, where asked for.
    pub logprob: f32,
    /// The likeliest tokens with theirs, likeliest first, where asked for.
    pub top: Vec<(u32, f32)>,
}

/// When a step ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// While it was collected.
    WhileCollected,
    /// From when it was submitted until it had been waited for; if the step before it was collected after that, from then.
    SinceSubmitted,
    /// It ended before anybody waited for it, nobody knows when.
    Unknown,
}

/// A model that takes tokens and draws their successors, a step at a time.
///
/// A step is asked for as a whole by [`Decoder::step`], or in phases, so that whoever drives the decoder has its own work
/// done while the device does the step's: [`Decoder::submit`] begins it, [`Decoder::draw`] follows when it is known how its
/// tokens are drawn, and [`Decoder::collect`] waits for them. A decoder that cannot do anything by itself keeps the phases as
/// they are given here: then all of a step happens when it is collected.
///
/// One step more can be begun by [`Decoder::submit_after`] while a step runs, so that the device has something to do when that
/// ends: from when the first was drawn from, until it is collected. Steps happen one after another, in the order in which they
/// were begun: a block may be given to another sequence by a later step, whatever an earlier one that still runs writes to it.
pub trait Decoder: Send {
    /// The sizes a step must stay within.
    fn shape(&self) -> &DecoderShape;

    /// Bytes it holds on its device.
    fn memory(&self) -> u64;

    /// Runs one step: decode rows and pieces of prompts mixed. `sampled` is cleared and filled with one entry for each
    /// `Sampling`, in order.
    ///
    /// # Errors
    /// A step outside the shape is refused before anything runs. After an error that [is fatal](DecodeError::is_fatal)
    /// the decoder is of no more use and must be loaded again.
    fn step(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError>;

    /// Begins a step: its logits are made from now on. Does not wait for it. Of its samplings only their number counts yet.
    /// Steps that were begun before and not collected are given up; what they wrote to their blocks is as good as anything.
    ///
    /// # Errors
    /// As [`Decoder::step`]. Nothing is to be collected then.
    fn submit(&mut self, _step: &[StepSequence]) -> Result<(), DecodeError> {
        Ok(())
    }

    /// Whether [`Decoder::submit_after`] is of use: whether the device would have nothing to do from the end of a step until
    /// the next one is submitted, and does not share the host's cores.
    fn runs_ahead(&self) -> bool {
        false
    }

    /// Begins the step that comes after the one that was submitted and drawn from, and is not collected yet. `fed` are those of
    /// its tokens which that one draws. Then the first is collected, and after it [`Decoder::draw`] and [`Decoder::collect`] are
    /// for this one; its tokens are all there by then. Where nothing was drawn (no logit is a number) what stands in the token's
    /// place counts for nothing, and nor does what is drawn after it; other sequences are as ever.
    ///
    /// # Errors
    /// As [`Decoder::step`]. The first step goes on and is to be collected, this one is not.
    fn submit_after(
        &mut self,
        _step: &[StepSequence],
        _fed: &[FedToken],
    ) -> Result<(), DecodeError> {
        Ok(())
    }

    /// Goes on with the step that was submitted, of two with the first: how its tokens are drawn is known now, and it is
    /// otherwise the same. Does not wait either.
    ///
    /// # Errors
    /// As [`Decoder::submit`].
    fn draw(&mut self, _step: &[StepSequence]) -> Result<(), DecodeError> {
        Ok(())
    }

    /// Waits for the step that was submitted, and drawn from, of two for the first; the result is that of [`Decoder::step`].
    ///
    /// # Errors
    /// As [`Decoder::step`].
    fn collect(
        &mut self,
        step: &[StepSequence],
        sampled: &mut Vec<Sampled>,
    ) -> Result<(), DecodeError> {
        self.step(step, sampled)
    }

    /// When the step ran that was collected last, as far as the decoder can tell.
    fn ran(&self) -> Ran {
        Ran::WhileCollected
    }

    /// As [`Decoder::step`], but `logits` is filled with the unchanged logits `[samplings, vocabulary]` f32.
    ///
    /// # Errors
    /// As [`Decoder::step`].
    fn logits(&mut self, step: &[StepSequence], logits: &mut Vec<f32>) -> Result<(), DecodeError>;
}

/// What an encoder makes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncoderOutput {
    /// A vector of unit length.
    Embedding,
    /// A score for each label, before softmax or sigmoid.
    Scores,
    /// The same for each token of a text.
    TokenScores,
    /// How well the second text of a pair answers the first: one number, before this scale.
    Relevance(ScoreScale),
}

/// How the number that a model makes of a pair of texts is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreScale {
    /// As it is: any number.
    Raw,
    /// By the logistic function: 0 to 1.
    Sigmoid,
}

impl ScoreScale {
    /// The score of a number that the model made.
    #[must_use]
    pub fn of(self, number: f32) -> f32 {
        match self {
            ScoreScale::Raw => number,
            ScoreScale::Sigmoid => (1.0 / (1.0 + (-f64::from(number)).exp())) as f32,
        }
    }
}

/// A text, or a pair of texts, as an encoder takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderText<'a> {
    /// Token ids, special ones included; at least one.
    pub tokens: &'a [u32],
    /// The type of each token, below [`Encoder::types`]; empty where all are of the first.
    pub types: &'a [u32],
}

impl<'a> EncoderText<'a> {
    /// A text that is no pair: all its tokens are of the first type.
    #[must_use]
    pub fn single(tokens: &'a [u32]) -> EncoderText<'a> {
        EncoderText { tokens, types: &[] }
    }

    /// Texts that are no pairs.
    #[must_use]
    pub fn singles(texts: &[&'a [u32]]) -> Vec<EncoderText<'a>> {
        texts.iter().copied().map(EncoderText::single).collect()
    }

    /// The type of the token at a place.
    #[must_use]
    pub fn kind(&self, place: usize) -> u32 {
        self.types.get(place).copied().unwrap_or_default()
    }
}

/// A model that turns whole texts into vectors.
pub trait Encoder: Send {
    /// What it makes.
    fn output(&self) -> EncoderOutput;

    /// Length of the vector.
    fn width(&self) -> usize;

    /// Most tokens of a text.
    fn context(&self) -> usize;

    /// Types of tokens that it tells apart, at least one: a model with one takes both texts of a pair alike.
    fn types(&self) -> usize {
        1
    }

    /// Most tokens of all texts of a call together.
    fn max_rows(&self) -> usize;

    /// Bytes it holds on its device.
    fn memory(&self) -> u64;

    /// One vector for each text, `[texts, width]` f32, into `vectors`, which is cleared; for each token of all texts,
    /// `[tokens, width]`, where it makes [`EncoderOutput::TokenScores`].
    ///
    /// # Errors
    /// As [`Decoder::step`].
    fn encode(
        &mut self,
        texts: &[EncoderText<'_>],
        vectors: &mut Vec<f32>,
    ) -> Result<(), DecodeError>;
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A step is outside the decoder's shape.
    #[error("sequence {sequence} of the step: {what} is {value}, must be {limit}")]
    Refused {
        /// Index of the sequence in the step.
        sequence: usize,
        /// What is out of range.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        limit: String,
    },
    /// The device was lost; load the model again.
    #[error("device lost: {reason}")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },
    /// The device has no more memory; load the model again, smaller.
    #[error("device out of memory: {reason}")]
    OutOfMemory {
        /// What the driver said.
        reason: String,
    },
    /// The device did not finish in time.
    #[error("device did not finish a step within {limit:?}")]
    DeadlineExceeded {
        /// The limit that ran out.
        limit: Duration,
    },
    /// A kernel did not compile on the device's driver.
    #[error("kernel {kernel} does not compile on this device: {reason}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// What the driver said.
        reason: String,
    },
    /// The device refused the work: a bug of the decoder or of the driver.
    #[error("device refused the step: {reason}")]
    Device {
        /// What it said.
        reason: String,
    },
}

impl DecodeError {
    /// Whether the decoder is of no more use.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        !matches!(
            self,
            DecodeError::Refused { .. } | DecodeError::Device { .. }
        )
    }
}
