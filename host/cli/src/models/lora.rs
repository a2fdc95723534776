//! A model of the pipeline that is another through a low-rank adapter.

use std::sync::Arc;

use tidegate_contract::{Makes, Model, ModelError, ModelFacts, Prompt, Request, RequestId};
use tidegate_serving::ModelHandle;

use super::HostedModel;

/// Requests go to the base, through its adapter of this number. Everything else is the base's, also while none is loaded.
pub(crate) struct LoraModel {
    base: Arc<HostedModel>,
    handle: ModelHandle,
    /// Its place among the pipeline's models.
    index: usize,
}

impl LoraModel {
    /// The pipeline's model of this index, whose base is loaded with its adapters: `number` is counted from 1.
    pub(crate) fn new(base: &Arc<HostedModel>, index: usize, number: u32) -> LoraModel {
        LoraModel {
            handle: base.through(number),
            base: base.clone(),
            index,
        }
    }

    /// What it adapts.
    pub(crate) fn base(&self) -> &HostedModel {
        &self.base
    }

    /// What the biases of a stage mean, by the stage's index in the pipeline.
    pub(crate) fn biases(&self, stage: usize) -> Vec<(u32, f32)> {
        self.base.biases(self.index, stage)
    }
}

impl Model for LoraModel {
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        self.handle.submit(request)
    }

    fn cancel(&self, id: RequestId) {
        self.handle.cancel(id);
    }

    fn end(&self, id: RequestId) {
        self.handle.end(id);
    }

    fn prompt_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        match self.handle.prompt_tokens(prompt) {
            // As of its base, while nothing is loaded.
            Err(ModelError::Unknown(_)) => self.text_tokens(prompt),
            counted => counted,
        }
    }

    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        self.base.count_tokens(text)
    }

    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        self.base.truncate(text, tokens)
    }

    fn token_text(&self, token: u32) -> Option<String> {
        self.handle.token_text(token)
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        self.handle.token_id(text)
    }

    fn makes(&self) -> Makes {
        self.base.makes()
    }

    /// Of the base, with a name and a digest of its own: what one adapter has made is never ascribed to another. Base and
    /// adapter are those of one load, also while another takes their place.
    fn facts(&self) -> ModelFacts {
        let now = self.handle.facts();
        match now.digest.is_empty() {
            true => self.base.last_through(self.index),
            false => now,
        }
    }

    fn loads(&self) -> u64 {
        self.base.loads()
    }
}
