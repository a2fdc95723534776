//! What an engine is started with.

/// How an engine queues and batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Most requests that wait for a slot; one more is refused.
    pub queue: usize,
    /// Most rows of a step; the decoder's own limit applies as well. With no more rows than slots, prompts wait while
    /// every row is taken by a sequence that generates.
    pub step_rows: usize,
    /// Most rows of a step that prompts may take while answers are being generated, at least 1: what a long prompt
    /// may cost the next token of the others. Without others a prompt takes all rows.
    pub prefill_rows: usize,
    /// Tokens that end an answer, beside the tokenizer's own end of sequence.
    pub end_tokens: Vec<u32>,
}

impl Default for EngineOptions {
    /// 1024 waiting requests, steps as large as the decoder takes.
    fn default() -> Self {
        EngineOptions {
            queue: 1024,
            step_rows: usize::MAX,
            prefill_rows: usize::MAX,
            end_tokens: Vec::new(),
        }
    }
}
