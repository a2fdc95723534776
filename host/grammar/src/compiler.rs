//! Compiles structures, and keeps what was compiled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use llguidance::TokenParser;
use llguidance::api::StopReason;
use llguidance::panic_utils::catch_unwind;
use tidegate_contract::Structure;

use crate::compile::{bytes, grammar, kind};
use crate::error::reason;
use crate::vocabulary::MOST_LEXER_STATES;
use crate::{GrammarError, Matcher, Vocabulary};

/// Stack of the thread that compiles, in bytes of address space: a chain of definitions as long as the longest text
/// holds is followed by recursion in the library.
const STACK: usize = 256 << 20;
/// Structures that are compiled at once.
const MOST_AT_ONCE: usize = 4;

/// How much a structure may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a structure's text.
    pub bytes: usize,
    /// Longest time to compile one, the wait for others included.
    pub time: Duration,
    /// Compiled structures that are kept; the one that was asked for longest ago goes first.
    pub kept: usize,
}

impl Default for Limits {
    /// 256 KiB, 10 s, 64 structures.
    fn default() -> Self {
        Limits {
            bytes: 256 << 10,
            time: Duration::from_secs(10),
            kept: 64,
        }
    }
}

/// A structure at the beginning of a text.
pub(crate) struct Compiled {
    parser: Mutex<TokenParser>,
    /// A matcher made from it failed inside the library: what they share is not to be trusted.
    broken: AtomicBool,
}

impl Compiled {
    fn new(parser: TokenParser) -> Compiled {
        Compiled {
            parser: Mutex::new(parser),
            broken: AtomicBool::new(false),
        }
    }

    /// A parser of its own, at the beginning; the automaton of the terminals is shared with the others.
    pub(crate) fn parser(&self) -> TokenParser {
        lock(&self.parser).clone()
    }

    pub(crate) fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Whether further matchers may be made from it: the shared automaton only grows, and must not run into its limit
    /// with texts of its own.
    fn usable(&self) -> bool {
        if self.broken.load(Ordering::Relaxed) {
            return false;
        }
        let parser = lock(&self.parser);
        let states = catch_unwind(std::panic::AssertUnwindSafe(|| {
            Ok(parser.parser.lexer_stats().num_states)
        }));
        states.is_ok_and(|states| states < MOST_LEXER_STATES / 2)
    }
}

struct Kept {
    compiled: Arc<Compiled>,
    /// When it was last asked for, counted in requests.
    asked: u64,
}

#[derive(Default)]
struct Cache {
    structures: HashMap<Structure, Kept>,
    asked: u64,
}

/// Compiles structures for one vocabulary. A structure is compiled once; asked for again, it is ready.
pub struct Compiler {
    vocabulary: Vocabulary,
    limits: Limits,
    cache: Mutex<Cache>,
    places: Arc<Places>,
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiler")
            .field("vocabulary", &self.vocabulary)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Compiler {
    /// With the limits of [`Limits::default`].
    pub fn new(vocabulary: Vocabulary) -> Compiler {
        Compiler::with_limits(vocabulary, Limits::default())
    }

    /// With limits of one's own.
    pub fn with_limits(vocabulary: Vocabulary, limits: Limits) -> Compiler {
        Compiler {
            vocabulary,
            limits,
            cache: Mutex::default(),
            places: Arc::default(),
        }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// A matcher at the beginning of a text that must become what the structure says.
    ///
    /// JSON Schema is read as llguidance does (draft 2020-12 if none is named, references only within the schema), and
    /// JSON's white space is at most 32 characters in a place, unless the schema's own `x-guidance` says otherwise; a
    /// number without bounds may be larger than an f64. A regular expression has the syntax of the `regex` crate without
    /// look-around and matches from the beginning to the end, with or without anchors.
    ///
    /// # Errors
    /// [`GrammarError::Structure`] with what is wrong, [`GrammarError::TooLong`], [`GrammarError::TooSlow`] and
    /// [`GrammarError::Busy`] at the limits.
    pub fn matcher(&self, structure: &Structure) -> Result<Matcher, GrammarError> {
        if let Some(compiled) = self.kept(structure) {
            return Ok(Matcher::new(compiled, self.vocabulary.clone()));
        }
        let compiled = Arc::new(Compiled::new(self.compile(structure)?));
        let matcher = Matcher::new(Arc::clone(&compiled), self.vocabulary.clone());
        self.keep(structure.clone(), compiled);
        Ok(matcher)
    }

    fn kept(&self, structure: &Structure) -> Option<Arc<Compiled>> {
        let mut cache = lock(&self.cache);
        cache.asked += 1;
        let asked = cache.asked;
        let kept = cache.structures.get_mut(structure)?;
        if kept.compiled.usable() {
            kept.asked = asked;
            return Some(Arc::clone(&kept.compiled));
        }
        cache.structures.remove(structure);
        None
    }

    fn keep(&self, structure: Structure, compiled: Arc<Compiled>) {
        let mut cache = lock(&self.cache);
        let asked = cache.asked;
        cache.structures.insert(structure, Kept { compiled, asked });
        while cache.structures.len() > self.limits.kept {
            let oldest = cache.structures.iter().min_by_key(|(_, kept)| kept.asked);
            let Some(oldest) = oldest.map(|(structure, _)| structure.clone()) else {
                return;
            };
            cache.structures.remove(&oldest);
        }
    }

    /// Compiles on a thread of its own, which has the stack for it and can be left behind: the library's own limits
    /// end it a little later.
    fn compile(&self, structure: &Structure) -> Result<TokenParser, GrammarError> {
        let kind = kind(structure);
        let bytes = bytes(structure);
        if bytes > self.limits.bytes {
            return Err(GrammarError::TooLong {
                kind,
                bytes,
                limit: self.limits.bytes,
            });
        }
        let begin = Instant::now();
        let place = Place::take(&self.places, self.limits.time)?;
        let (sender, receiver) = mpsc::channel();
        let vocabulary = self.vocabulary.clone();
        let structure = structure.clone();
        std::thread::Builder::new()
            .name("tidegate-grammar".into())
            .stack_size(STACK)
            .spawn(move || {
                let parser = begun(&structure, &vocabulary);
                drop(place);
                // Nobody may be waiting any more.
                let _ = sender.send(parser);
            })
            .map_err(|e| GrammarError::Structure {
                kind,
                reason: format!("no thread to compile it: {e}"),
            })?;
        match receiver.recv_timeout(self.limits.time.saturating_sub(begin.elapsed())) {
            Ok(parser) => parser,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(GrammarError::TooSlow {
                kind,
                limit: self.limits.time,
            }),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(GrammarError::Structure {
                kind,
                reason: "the library failed on it".into(),
            }),
        }
    }
}

/// A parser at the beginning of a text. Its first mask is made too: what no text can be is found now.
fn begun(structure: &Structure, vocabulary: &Vocabulary) -> Result<TokenParser, GrammarError> {
    let wrong = |reason: String| GrammarError::Structure {
        kind: kind(structure),
        reason,
    };
    let grammar = grammar(structure)?;
    catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut parser = vocabulary.factory().create_parser(grammar)?;
        parser.start_without_prompt();
        if parser.check_stop()? {
            return Ok(Ok(parser));
        }
        let mut first = parser.clone();
        match first.compute_mask() {
            Ok(_) => Ok(Ok(parser)),
            Err(_) if first.stop_reason() == StopReason::NoExtensionBias => {
                Ok(Err("no text can be that"))
            }
            Err(error) => Err(error),
        }
    }))
    .map_err(|e| wrong(reason(&e.to_string())))?
    .map_err(|e| wrong(e.into()))
}

/// How many places to compile in are taken.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// One of the places to compile in, given back when dropped.
struct Place(Arc<Places>);

impl Place {
    /// Waits for a place; threads that were left behind hold theirs until they end.
    fn take(places: &Arc<Places>, limit: Duration) -> Result<Place, GrammarError> {
        let (mut taken, _) = places
            .given_back
            .wait_timeout_while(lock(&places.taken), limit, |taken| *taken >= MOST_AT_ONCE)
            .unwrap_or_else(PoisonError::into_inner);
        if *taken >= MOST_AT_ONCE {
            return Err(GrammarError::Busy {
                limit: MOST_AT_ONCE,
            });
        }
        *taken += 1;
        Ok(Place(Arc::clone(places)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *lock(&self.0.taken) -= 1;
        self.0.given_back.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
