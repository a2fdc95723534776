//! What a step must be before anything runs: the same answer from every decoder.

use super::{
    BLOCK, DecodeError, DecoderShape, EncoderText, FedToken, MOST_LOGPROBS, Sampling, StepSequence,
};

impl DecoderShape {
    /// Whether a step is within the shape and consistent in itself.
    ///
    /// What cannot be seen from the step alone is not checked: that everything before a sequence's position has been
    /// written, and that no block is written which a sequence outside the step reads.
    ///
    /// # Errors
    /// [`DecodeError::Refused`] with the first thing that is out of range.
    pub fn check(&self, step: &[StepSequence]) -> Result<(), DecodeError> {
        let (mut rows, mut samples) = (0, 0);
        for (index, sequence) in step.iter().enumerate() {
            let refuse = |what, value: &dyn ToString, limit| refused(index, what, value, limit);
            self.check_tokens(sequence).map_err(|e| e.of(index))?;
            self.check_blocks(sequence).map_err(|e| e.of(index))?;
            if sequence.lora as usize > self.loras {
                let limit = format!("at most the adapters there are, {}", self.loras);
                return Err(refuse("low-rank adapter", &sequence.lora, limit));
            }
            rows += sequence.tokens.len();
            if rows > self.max_rows {
                let limit = format!("at most {}", self.max_rows);
                return Err(refuse("rows of the step up to here", &rows, limit));
            }
            let (count, tokens) = (sequence.samples.len(), sequence.tokens.len());
            if count > tokens {
                let limit = format!("at most its tokens, {tokens}");
                return Err(refuse("samples", &count, limit));
            }
            samples += count;
            if samples > self.max_samples {
                let limit = format!("at most {}", self.max_samples);
                return Err(refuse("samples of the step up to here", &samples, limit));
            }
            for sampling in &sequence.samples {
                self.check_sampling(sampling).map_err(|e| e.of(index))?;
            }
        }
        self.check_writers(step)
    }

    /// Whether a step can come after one that draws so many tokens, with these of its own from there.
    ///
    /// # Errors
    /// As [`DecoderShape::check`].
    pub fn check_after(
        &self,
        step: &[StepSequence],
        fed: &[FedToken],
        drawn: usize,
    ) -> Result<(), DecodeError> {
        self.check(step)?;
        let mut is_fed = vec![false; step.len()];
        for token in fed {
            let index = token.sequence;
            let refuse = |what, value, limit| Err(refused(index, what, value, limit));
            let Some(sequence) = step.get(index) else {
                let limit = format!("below the sequences of the step, {}", step.len());
                return refuse("the sequence of a fed token", &index, limit);
            };
            if sequence.tokens.len() != 1 {
                let limit = "1, as it is fed".to_owned();
                return refuse("tokens", &sequence.tokens.len(), limit);
            }
            if std::mem::replace(&mut is_fed[index], true) {
                let limit = "fed one token".to_owned();
                return refuse("the sequence of a fed token", &index, limit);
            }
            if token.sampling >= drawn {
                let limit = format!("below what the step before draws, {drawn}");
                return refuse("the sampling of a fed token", &token.sampling, limit);
            }
        }
        Ok(())
    }

    fn check_tokens(&self, sequence: &StepSequence) -> Result<(), Wrong> {
        if sequence.tokens.is_empty() {
            return Err(wrong("tokens", &0, "at least 1"));
        }
        below("token", &sequence.tokens, self.vocabulary, "the vocabulary")?;
        let end = sequence.position as usize + sequence.tokens.len();
        if end > self.context {
            let limit = format!("at most the context, {}", self.context);
            return Err(wrong("position and tokens together", &end, limit));
        }
        Ok(())
    }

    fn check_blocks(&self, sequence: &StepSequence) -> Result<(), Wrong> {
        let needed = needed_blocks(sequence);
        if sequence.blocks.len() < needed {
            let limit = format!("at least {needed}");
            return Err(wrong("blocks", &sequence.blocks.len(), limit));
        }
        below(
            "block",
            &sequence.blocks,
            self.blocks,
            "the blocks there are",
        )
    }

    /// A block that is written to stands once in the whole step.
    fn check_writers(&self, step: &[StepSequence]) -> Result<(), DecodeError> {
        let mut written = vec![false; self.blocks];
        let twice = |index, block: u32| {
            let limit = "used once in the step, as it is written to".to_owned();
            Err(refused(index, "block", &block, limit))
        };
        for (index, sequence) in step.iter().enumerate() {
            let first = sequence.position as usize / BLOCK;
            for &block in &sequence.blocks[first..needed_blocks(sequence)] {
                if std::mem::replace(&mut written[block as usize], true) {
                    return twice(index, block);
                }
            }
        }
        for (index, sequence) in step.iter().enumerate() {
            let first = sequence.position as usize / BLOCK;
            for &block in &sequence.blocks[..first] {
                if written[block as usize] {
                    return twice(index, block);
                }
            }
        }
        Ok(())
    }

    fn check_sampling(&self, sampling: &Sampling) -> Result<(), Wrong> {
        // Written so that NaN is refused.
        let ranges = [
            (
                "temperature",
                sampling.temperature,
                sampling.temperature >= 0.0,
                "finite and not below 0",
            ),
            (
                "top_p",
                sampling.top_p,
                sampling.top_p > 0.0 && sampling.top_p <= 1.0,
                "above 0 and at most 1",
            ),
            (
                "min_p",
                sampling.min_p,
                sampling.min_p >= 0.0 && sampling.min_p < 1.0,
                "at least 0 and below 1",
            ),
            (
                "repetition penalty",
                sampling.repetition,
                sampling.repetition > 0.0,
                "finite and above 0",
            ),
            ("presence penalty", sampling.presence, true, "finite"),
            ("frequency penalty", sampling.frequency, true, "finite"),
        ];
        for (what, value, within, limit) in ranges {
            if !within || !value.is_finite() {
                return Err(wrong(what, &value, limit));
            }
        }
        if let Some(count) = sampling.logprobs.filter(|count| *count > MOST_LOGPROBS) {
            let limit = format!("at most {MOST_LOGPROBS}");
            return Err(wrong("log-probabilities asked for", &count, limit));
        }
        if let Some(allowed) = &sampling.allowed {
            let words = self.vocabulary.div_ceil(32);
            if allowed.len() != words {
                let limit = format!("{words}, a bit for each token");
                return Err(wrong("words of the mask", &allowed.len(), limit));
            }
        }
        let mut before = None;
        for adjustment in &sampling.adjustments {
            let token = adjustment.token;
            below(
                "adjusted token",
                &[token],
                self.vocabulary,
                "the vocabulary",
            )?;
            if let Some(before) = before.filter(|before| *before >= token) {
                let limit = format!("above the one before, {before}");
                return Err(wrong("adjusted token", &token, limit));
            }
            before = Some(token);
            if !adjustment.bias.is_finite() {
                return Err(wrong("logit bias", &adjustment.bias, "finite"));
            }
        }
        Ok(())
    }
}

/// Whether the texts of a call are within an encoder's limits: [`context`](super::Encoder::context) tokens each,
/// [`max_rows`](super::Encoder::max_rows) together, every token below `vocabulary`, and a type below `types` for each or for
/// none.
///
/// # Errors
/// [`DecodeError::Refused`] with the first thing that is out of range; the sequence is the text.
pub fn check_texts(
    texts: &[EncoderText<'_>],
    vocabulary: usize,
    types: usize,
    context: usize,
    max_rows: usize,
) -> Result<(), DecodeError> {
    let mut rows = 0;
    for (index, text) in texts.iter().enumerate() {
        let refuse = |what, value, limit| Err(refused(index, what, value, limit));
        let length = text.tokens.len();
        if length == 0 || length > context {
            let limit = format!("1 to {context}");
            return refuse("tokens", &length, limit);
        }
        below("token", text.tokens, vocabulary, "the vocabulary").map_err(|e| e.of(index))?;
        if !text.types.is_empty() && text.types.len() != length {
            let limit = format!("one for each of {length} tokens, or none");
            return refuse("token types", &text.types.len(), limit);
        }
        below("token type", text.types, types, "the model's types").map_err(|e| e.of(index))?;
        rows += length;
        if rows > max_rows {
            let limit = format!("at most {max_rows}");
            return refuse("rows of the call up to here", &rows, limit);
        }
    }
    Ok(())
}

/// Blocks that the positions of a sequence take, those of this step included.
fn needed_blocks(sequence: &StepSequence) -> usize {
    (sequence.position as usize + sequence.tokens.len()).div_ceil(BLOCK)
}

/// A refusal that does not know its sequence yet.
struct Wrong {
    what: &'static str,
    value: String,
    limit: String,
}

impl Wrong {
    fn of(self, sequence: usize) -> DecodeError {
        refused(sequence, self.what, &self.value, self.limit)
    }
}

fn wrong(what: &'static str, value: &dyn ToString, limit: impl Into<String>) -> Wrong {
    Wrong {
        what,
        value: value.to_string(),
        limit: limit.into(),
    }
}

fn refused(
    sequence: usize,
    what: &'static str,
    value: &dyn ToString,
    limit: String,
) -> DecodeError {
    DecodeError::Refused {
        sequence,
        what,
        value: value.to_string(),
        limit,
    }
}

fn below(what: &'static str, values: &[u32], count: usize, of: &str) -> Result<(), Wrong> {
    match values.iter().find(|value| **value as usize >= count) {
        Some(value) => Err(wrong(what, value, format!("below {of}, {count}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
