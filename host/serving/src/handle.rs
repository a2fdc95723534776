//! A model by its name.

use std::sync::Arc;

use tidegate_contract::{
    Makes, Model, ModelError, ModelFacts, ModelTask, Prompt, Request, RequestId,
};

use crate::documents::Ranking;
use crate::engine::Shared;
use crate::model::Loaded;
use crate::replicas::Replicas;
use crate::reply::GuardedReply;
use crate::request::Placed;
use crate::slot::{NameState, Slot};
use crate::stats::{Counters, ModelStats};

/// The model that stands under a name, whichever it is at the moment: a request goes to the one that is there when it
/// is submitted, and stays with it.
#[derive(Clone)]
pub struct ModelHandle {
    /// The engine that has the name.
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    /// Which of the model's low-rank adapters requests go through; 0 for none.
    lora: u32,
}

impl std::fmt::Debug for ModelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelHandle")
            .field("name", &self.slot.name)
            .finish_non_exhaustive()
    }
}

impl ModelHandle {
    pub(crate) fn new(shared: Arc<Shared>, slot: Arc<Slot>) -> ModelHandle {
        ModelHandle {
            shared,
            slot,
            lora: 0,
        }
    }

    /// The same name, whose model is asked through its low-rank adapter of this number, counted from 1. Everything but what
    /// answers are made with is the model's own.
    #[must_use]
    pub fn through(&self, lora: u32) -> ModelHandle {
        ModelHandle {
            lora,
            ..self.clone()
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// For how long the engine's thread has been in one round: it sleeps for a second at most, and else takes steps; or that for
    /// documents at one piece of them. Of several replicas the longest.
    #[must_use]
    pub fn silent(&self) -> std::time::Duration {
        let engines = self.engines();
        let silent = engines.iter();
        let silent = silent.map(|engine| engine.silent().max(engine.silent_encoding()));
        silent.max().unwrap_or_default()
    }

    /// Those that may have a request of this name.
    fn engines(&self) -> Vec<Arc<Shared>> {
        let engines = self.slot.engines();
        match engines.is_empty() {
            true => vec![Arc::clone(&self.shared)],
            false => engines,
        }
    }

    /// What the model has done and is doing, only zeros if none is loaded; and what those before it still do.
    #[must_use]
    pub fn stats(&self) -> ModelStats {
        let mut stats = match self.slot.state() {
            NameState::Loaded(replicas) => replicas.stats(&self.slot.name),
            state => ModelStats {
                name: self.slot.name.clone(),
                closed: matches!(state, NameState::Ended),
                ..ModelStats::default()
            },
        };
        stats.replaced = self.slot.replaced_stats();
        stats
    }

    fn replicas(&self) -> Result<Arc<Replicas>, ModelError> {
        match self.slot.state() {
            NameState::Loaded(replicas) => Ok(replicas),
            NameState::Empty if self.shared.is_closed() => Err(ModelError::Closed),
            NameState::Empty => Err(ModelError::Unknown(self.slot.name.clone())),
            NameState::Ended => Err(ModelError::Closed),
        }
    }

    #[cfg(test)]
    pub(crate) fn replicas_for_tests(&self) -> Vec<Arc<Loaded>> {
        let replicas = self.slot.replicas();
        let serving = replicas.iter().flat_map(|replicas| &replicas.serving);
        serving.map(|replica| Arc::clone(&replica.loaded)).collect()
    }

    /// One of the replicas whose engines have not ended: what is asked is rendered and checked by it.
    fn loaded(&self) -> Result<Arc<Loaded>, ModelError> {
        let replicas = self.replicas()?;
        let first = replicas.first().ok_or(ModelError::Closed)?;
        Ok(Arc::clone(&first.loaded))
    }
}

impl Model for ModelHandle {
    /// Renders, encodes and checks on the caller's thread; documents that are to be ranked, of which there may be very many, on
    /// one of the engine's. What is wrong with the request itself is told to its reply;
    /// [`ModelError::Full`], [`ModelError::Closed`] and [`ModelError::Unknown`] give it back.
    fn submit(&self, request: Request) -> Result<(), (Request, ModelError)> {
        let replicas = match self.replicas() {
            Ok(replicas) => replicas,
            Err(error) => return Err((request, error)),
        };
        let Some(first) = replicas.first() else {
            return Err((request, ModelError::Closed));
        };
        let loaded = &first.loaded;
        let full = ModelError::Full {
            limit: loaded.places.limit(request.class),
        };
        let Some(permit) = loaded.places.take(request.class) else {
            Counters::add(&loaded.counters.refused, 1);
            return Err((request, full));
        };
        let placed = Placed {
            id: request.id,
            class: request.class,
            deadline: request
                .deadline
                .map(|deadline| self.shared.moment(deadline)),
            reply: GuardedReply::new(request.reply),
            submitted: self.shared.now(),
            lora: self.lora,
            permit,
        };
        match (request.task, loaded.makes) {
            (ModelTask::Rank { query, documents }, Makes::Relevance) => {
                let both = (Arc::clone(&replicas), Arc::clone(loaded));
                let ranking = Ranking::new(both, placed, query, documents);
                replicas
                    .least_ranking()
                    .unwrap_or(first)
                    .engine
                    .rank(ranking);
            }
            (task, _) => {
                let work = loaded.work(request.seed, task);
                placed.submit(&replicas, work);
            }
        }
        Ok(())
    }

    /// With very many cancellations before it one is dropped, and the request goes on to its end.
    fn cancel(&self, id: RequestId) {
        let engines = self.engines();
        // In this order: one that has no documents to be encoded any more was submitted before, and so before it is cancelled.
        let sent = engines.iter().fold(true, |sent, engine| {
            engine.cancel_ranking(id, &engines) & sent
        });
        let sent = engines
            .iter()
            .fold(sent, |sent, engine| engine.cancel(id) & sent);
        if !sent {
            tracing::warn!(
                request = id.0,
                "a cancellation is dropped: too many are waiting"
            );
        }
    }

    /// All its answers end. With very many before it one is dropped, and the request goes on to its end.
    fn end(&self, id: RequestId) {
        let engines = self.engines();
        let sent = engines
            .iter()
            .fold(true, |sent, engine| engine.end(id) & sent);
        if !sent {
            tracing::warn!(
                request = id.0,
                "an early end is dropped: too many are waiting"
            );
        }
    }

    fn prompt_tokens(&self, prompt: &Prompt) -> Result<usize, ModelError> {
        self.loaded()?.prompt_tokens(prompt)
    }

    fn count_tokens(&self, text: &str) -> Result<usize, ModelError> {
        let count = self.loaded()?.tokenizer.count(text);
        count.map_err(|error| ModelError::Prompt(error.to_string()))
    }

    fn makes(&self) -> Makes {
        self.slot
            .loaded()
            .map_or(Makes::Text, |loaded| loaded.makes)
    }

    fn truncate<'a>(&self, text: &'a str, tokens: usize) -> Result<&'a str, ModelError> {
        let cut = self.loaded()?.tokenizer.truncate(text, tokens);
        cut.map_err(|error| ModelError::Prompt(error.to_string()))
    }

    fn token_text(&self, token: u32) -> Option<String> {
        let tokenizer = &self.slot.loaded()?.tokenizer;
        match tokenizer.token_bytes(token) {
            Some(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            None => tokenizer
                .decode(&[token])
                .ok()
                .filter(|text| !text.is_empty()),
        }
    }

    fn token_id(&self, text: &str) -> Option<u32> {
        let tokenizer = &self.slot.loaded()?.tokenizer;
        match tokenizer.encode_literal(text).ok()?[..] {
            [token] => Some(token),
            _ => None,
        }
    }

    /// Of an empty name: only the name. Through an adapter its name and digest, which are of what is loaded, as the base's are.
    fn facts(&self) -> ModelFacts {
        match self.slot.replicas() {
            Some(replicas) => replicas.facts(self.lora),
            None => ModelFacts {
                name: self.slot.name.clone(),
                digest: String::new(),
                adapter: String::new(),
                context: 0,
                sequences: 0,
            },
        }
    }
}
