//! What OpenAI-compatible servers answer, as they write it: what is missing, null or unknown is left out.

use serde::Deserialize;
use serde_json::Value;

/// An event of a stream, or a whole answer.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Chunk {
    pub choices: Option<Vec<ChunkChoice>>,
    pub usage: Option<Usage>,
    pub error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ChunkChoice {
    pub index: Option<u32>,
    pub delta: Option<Delta>,
    /// In the place of a delta, where it is no stream.
    pub message: Option<Delta>,
    /// In the place of both, where it is no chat.
    pub text: Option<String>,
    pub finish_reason: Option<String>,
    /// vLLM's: the stop string that came.
    pub stop_reason: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Delta {
    pub content: Option<String>,
    pub reasoning_content: Option<String>,
    /// As vLLM and OpenRouter name it.
    pub reasoning: Option<String>,
    pub refusal: Option<String>,
    pub tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct CallDelta {
    pub index: Option<u32>,
    pub id: Option<String>,
    pub function: Option<FunctionDelta>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct FunctionDelta {
    pub name: Option<String>,
    pub arguments: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub completion_tokens_details: Option<UsageDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct UsageDetails {
    pub reasoning_tokens: Option<u64>,
}

impl Chunk {
    /// Whether it holds something of an answer; the first chunk of a chat only says who speaks.
    pub(crate) fn says_something(&self) -> bool {
        self.choices.iter().flatten().any(|choice| {
            let says = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
            let delta = choice.delta.iter().chain(&choice.message).any(|delta| {
                says(&delta.content)
                    || says(&delta.reasoning_content)
                    || says(&delta.reasoning)
                    || says(&delta.refusal)
                    || delta
                        .tool_calls
                        .as_ref()
                        .is_some_and(|calls| !calls.is_empty())
            });
            delta || says(&choice.text) || choice.finish_reason.is_some()
        })
    }
}
