//! A name that models are loaded under, one after another.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::engine::Shared;
use crate::model::Loaded;
use crate::replicas::{LeftOut, Replica, Replicas};
use crate::request::Places;
use crate::stats::{Counters, ReplacedStats};
use crate::worker::Command;

/// What stands under a name.
#[derive(Clone)]
pub(crate) enum NameState {
    /// Nothing, or nothing any more.
    Empty,
    /// A model, on one engine or several.
    Loaded(Arc<Replicas>),
    /// A model all of whose replicas were given up.
    Ended,
}

/// See the module.
pub(crate) struct Slot {
    pub(crate) name: String,
    state: RwLock<NameState>,
    replaced: Mutex<Replaced>,
    /// The engines of all models that have stood there, each once.
    engines: Mutex<Vec<Arc<Shared>>>,
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
    /// Of all replicas together.
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
            engines: Mutex::default(),
        }
    }

    /// The engines that may have a request that was submitted here.
    pub(crate) fn engines(&self) -> Vec<Arc<Shared>> {
        let engines = self.engines.lock();
        engines.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has them look at what has changed here.
    pub(crate) fn wake(&self) {
        for engine in self.engines() {
            let _ = engine.commands.send(Command::Wake);
        }
    }

    /// Takes a replica out, for good or until it is back; what stood there before has ended with the last one. Whether it may
    /// come back: it stood there, and others still do.
    pub(crate) fn leave_out(&self, number: u64, reason: &str, for_good: bool) -> bool {
        let mut place = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let NameState::Loaded(before) = &*place else {
            return false;
        };
        let mut replicas = Replicas::clone(before);
        let is_it = |one: &Replica| one.loaded.number == number;
        let mut left_out = replicas.left_out.iter_mut();
        if let Some(gone) = left_out.find(|one| one.tried_again.as_ref().is_some_and(is_it)) {
            // It was tried again, and has failed.
            gone.reason = reason.to_owned();
            if for_good {
                gone.tried_again = None;
            }
            *place = NameState::Loaded(Arc::new(replicas));
            return !for_good;
        }
        let Some(at) = replicas.serving.iter().position(is_it) else {
            return false;
        };
        let gone = replicas.serving.remove(at);
        if replicas.serving.is_empty() {
            let ended = std::mem::replace(&mut *place, NameState::Ended);
            drop(place);
            self.keep_replaced(&ended);
            // Those that were to be tried again are not.
            self.wake();
            return false;
        }
        replicas.left_out.push(LeftOut {
            place: gone.loaded.place,
            adapter: gone.loaded.facts.adapter.clone(),
            reason: reason.to_owned(),
            counters: Some(Arc::clone(&gone.loaded.counters)),
            tried_again: (!for_good).then_some(gone),
        });
        *place = NameState::Loaded(Arc::new(replicas));
        !for_good
    }

    /// Puts a replica back that was left out and can be asked again; false if the model has gone meanwhile.
    pub(crate) fn bring_back(&self, number: u64) -> bool {
        let mut place = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let NameState::Loaded(before) = &*place else {
            return false;
        };
        let mut replicas = Replicas::clone(before);
        let is_it = |one: &Replica| one.loaded.number == number;
        let mut left_out = replicas.left_out.iter();
        let at = left_out.position(|one| one.tried_again.as_ref().is_some_and(is_it));
        let Some(back) = at.and_then(|at| replicas.left_out.remove(at).tried_again) else {
            return false;
        };
        replicas.serving.push(back);
        replicas
            .serving
            .sort_unstable_by_key(|one| one.loaded.place);
        *place = NameState::Loaded(Arc::new(replicas));
        true
    }

    /// What stands there now.
    pub(crate) fn state(&self) -> NameState {
        self.state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn replicas(&self) -> Option<Arc<Replicas>> {
        match self.state() {
            NameState::Loaded(replicas) => Some(replicas),
            NameState::Empty | NameState::Ended => None,
        }
    }

    /// The first replica of what stands there, which says what all of them are.
    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        let replicas = self.replicas()?;
        Some(Arc::clone(&replicas.serving.first()?.loaded))
    }

    /// Puts something else there; what stood there before.
    pub(crate) fn put(&self, state: NameState) -> NameState {
        if let NameState::Loaded(replicas) = &state {
            let mut engines = (self.engines.lock()).unwrap_or_else(PoisonError::into_inner);
            for replica in &replicas.serving {
                if !engines
                    .iter()
                    .any(|known| Arc::ptr_eq(known, &replica.engine))
                {
                    engines.push(Arc::clone(&replica.engine));
                }
            }
        }
        let before = {
            let mut place = self.state.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, state)
        };
        self.keep_replaced(&before);
        before
    }

    /// Keeps count of what stands there no more.
    fn keep_replaced(&self, before: &NameState) {
        let NameState::Loaded(replicas) = before else {
            return;
        };
        let mut replaced = self.replaced();
        replaced.sweep();
        for replica in &replicas.serving {
            let loaded = &replica.loaded;
            replaced.left.push(Leaving {
                loaded: Arc::downgrade(loaded),
                counters: Arc::clone(&loaded.counters),
                places: Arc::clone(&loaded.places),
                before: loaded.counters.tokens.load(Ordering::Relaxed),
            });
        }
    }

    /// What those that stood there before still do.
    pub(crate) fn replaced_stats(&self) -> ReplacedStats {
        let mut replaced = self.replaced();
        replaced.sweep();
        let mut stats = ReplacedStats {
            tokens: replaced.tokens,
            ..ReplacedStats::default()
        };
        // Replicas have their places together: those of all are counted while one is left, and once.
        let mut counted: Vec<&Arc<Places>> = Vec::new();
        for leaving in &replaced.left {
            stats.memory += leaving.counters.memory.load(Ordering::Relaxed);
            stats.running += leaving.counters.running.load(Ordering::Relaxed);
            if !counted.iter().any(|one| Arc::ptr_eq(one, &leaving.places)) {
                counted.push(&leaving.places);
                stats.waiting += leaving.places.by_class().iter().sum::<usize>() as u64;
            }
            stats.tokens += leaving.tokens();
        }
        stats
    }

    fn replaced(&self) -> MutexGuard<'_, Replaced> {
        // It is whole after any panic: nothing in between can fail.
        (self.replaced.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}
