//! A name that models are loaded under, one after another.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::model::Loaded;
use crate::request::Places;
use crate::stats::{Counters, ReplacedStats};

/// What stands under a name.
#[derive(Clone)]
pub(crate) enum NameState {
    /// Nothing, or nothing any more.
    Empty,
    /// A model.
    Loaded(Arc<Loaded>),
    /// A model that was given up.
    Ended,
}

/// See the module.
pub(crate) struct Slot {
    pub(crate) name: String,
    state: RwLock<NameState>,
    replaced: Mutex<Replaced>,
}

/// Those that stood there before.
#[derive(Default)]
struct Replaced {
    /// Those that still finish what they took; a few, as each holds its memory in the budget.
    left: Vec<Leaving>,
    /// Tokens that those which are gone made after another stood in their place.
    tokens: u64,
}

struct Leaving {
    /// Nobody has it any more once its last request has ended.
    loaded: Weak<Loaded>,
    counters: Arc<Counters>,
    places: Arc<Places>,
    /// Tokens that it had made when it was replaced.
    before: u64,
}

impl Leaving {
    fn tokens(&self) -> u64 {
        let made = self.counters.tokens.load(Ordering::Relaxed);
        made.saturating_sub(self.before)
    }
}

impl Replaced {
    /// Lets go of those that are gone.
    fn sweep(&mut self) {
        let tokens = &mut self.tokens;
        self.left.retain(|leaving| {
            let is_left = leaving.loaded.strong_count() > 0;
            if !is_left {
                *tokens += leaving.tokens();
            }
            is_left
        });
    }
}

impl Slot {
    pub(crate) fn new(name: &str) -> Slot {
        Slot {
            name: name.into(),
            state: RwLock::new(NameState::Empty),
            replaced: Mutex::default(),
        }
    }

    /// What stands there now.
    pub(crate) fn state(&self) -> NameState {
        self.state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        match self.state() {
            NameState::Loaded(loaded) => Some(loaded),
            NameState::Empty | NameState::Ended => None,
        }
    }

    /// Puts something else there; what stood there before.
    pub(crate) fn put(&self, state: NameState) -> NameState {
        let before = {
            let mut place = self.state.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, state)
        };
        if let NameState::Loaded(loaded) = &before {
            let mut replaced = self.replaced();
            replaced.sweep();
            replaced.left.push(Leaving {
                loaded: Arc::downgrade(loaded),
                counters: Arc::clone(&loaded.counters),
                places: Arc::clone(&loaded.places),
                before: loaded.counters.tokens.load(Ordering::Relaxed),
            });
        }
        before
    }

    /// What those that stood there before still do.
    pub(crate) fn replaced_stats(&self) -> ReplacedStats {
        let mut replaced = self.replaced();
        replaced.sweep();
        let mut stats = ReplacedStats {
            tokens: replaced.tokens,
            ..ReplacedStats::default()
        };
        for leaving in &replaced.left {
            stats.memory += leaving.counters.memory.load(Ordering::Relaxed);
            stats.running += leaving.counters.running.load(Ordering::Relaxed);
            stats.waiting += leaving.places.by_class().iter().sum::<usize>() as u64;
            stats.tokens += leaving.tokens();
        }
        stats
    }

    fn replaced(&self) -> MutexGuard<'_, Replaced> {
        // It is whole after any panic: nothing in between can fail.
        (self.replaced.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}
