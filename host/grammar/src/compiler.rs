//! Compiles structures, and keeps what became of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use llguidance::TokenParser;
use llguidance::api::StopReason;
use llguidance::panic_utils::catch_unwind;
use tidegate_contract::Structure;

use crate::compile::{bytes, grammar, kind};
use crate::error::reason;
use crate::recent::Recent;
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
    /// Longest time to compile one; and before that, longest wait for others to be compiled.
    pub time: Duration,
    /// Compiled structures that are kept, and as many that were refused; the one that was asked for longest ago goes
    /// first.
    pub kept: usize,
    /// How long a structure that was not compiled in time is refused without another try: the machine may have been
    /// busy with something else.
    pub slow_for: Duration,
}

impl Default for Limits {
    /// 256 KiB, 10 s, 64 structures, a minute.
    fn default() -> Self {
        Limits {
            bytes: 256 << 10,
            time: Duration::from_secs(10),
            kept: 64,
            slow_for: Duration::from_secs(60),
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

/// A structure that is not to be compiled.
#[derive(Clone)]
struct Refusal {
    error: GrammarError,
    /// When it may be tried again; what is wrong with its text stays wrong.
    until: Option<Instant>,
}

/// What became of structures; those that were refused push out none that were compiled.
struct Cache {
    compiled: Recent<Arc<Compiled>>,
    refused: Recent<Refusal>,
}

/// Compiles structures for one vocabulary. A structure is compiled once; asked for again, it is ready, or refused at once
/// with the same error.
pub struct Compiler {
    vocabulary: Vocabulary,
    limits: Limits,
    cache: Mutex<Cache>,
    permits: Arc<CompilePermits>,
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
            cache: Mutex::new(Cache {
                compiled: Recent::new(limits.kept),
                refused: Recent::new(limits.kept),
            }),
            limits,
            permits: Arc::default(),
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
    /// [`GrammarError::Structure`] with what is wrong, [`GrammarError::TooLong`], [`GrammarError::TooSlow`],
    /// [`GrammarError::Busy`] and [`GrammarError::NoThread`] at the limits.
    pub fn matcher(&self, structure: &Structure) -> Result<Matcher, GrammarError> {
        if let Some(known) = self.known(structure) {
            return known.map(|compiled| Matcher::new(compiled, self.vocabulary.clone()));
        }
        match self.compile(structure) {
            Ok(parser) => {
                let compiled = Arc::new(Compiled::new(parser));
                let matcher = Matcher::new(Arc::clone(&compiled), self.vocabulary.clone());
                lock(&self.cache).compiled.put(structure.clone(), compiled);
                Ok(matcher)
            }
            Err(error) => {
                self.refuse(structure, &error);
                Err(error)
            }
        }
    }

    /// What became of the structure, where that still holds.
    fn known(&self, structure: &Structure) -> Option<Result<Arc<Compiled>, GrammarError>> {
        let mut cache = lock(&self.cache);
        if let Some(compiled) = cache.compiled.get(structure) {
            if compiled.usable() {
                return Some(Ok(Arc::clone(compiled)));
            }
            cache.compiled.remove(structure);
            return None;
        }
        let refusal = cache.refused.get(structure)?;
        if refusal.until.is_none_or(|until| Instant::now() < until) {
            return Some(Err(refusal.error.clone()));
        }
        cache.refused.remove(structure);
        None
    }

    /// Keeps a refusal that would be the same the next time, or cost as much.
    fn refuse(&self, structure: &Structure, error: &GrammarError) {
        let until = match error {
            GrammarError::Structure { .. } => None,
            GrammarError::TooSlow { .. } => Instant::now().checked_add(self.limits.slow_for),
            // Found at once, or nothing that the structure can help.
            _ => return,
        };
        let refusal = Refusal {
            error: error.clone(),
            until,
        };
        lock(&self.cache).refused.put(structure.clone(), refusal);
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
        let permit = CompilePermit::take(&self.permits, self.limits.time)?;
        let (sender, receiver) = mpsc::channel();
        let vocabulary = self.vocabulary.clone();
        let structure = structure.clone();
        std::thread::Builder::new()
            .name("tidegate-grammar".into())
            .stack_size(STACK)
            .spawn(move || {
                let parser = begun(&structure, &vocabulary);
                drop(permit);
                // Nobody may be waiting any more.
                let _ = sender.send(parser);
            })
            .map_err(|error| GrammarError::NoThread(error.to_string()))?;
        // From here on: what it waited for a place is no fault of the structure, and would be held against it.
        match receiver.recv_timeout(self.limits.time) {
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
struct CompilePermits {
    taken: Mutex<usize>,
    given_back: Condvar,
}

/// One of the places to compile in, given back when dropped.
struct CompilePermit(Arc<CompilePermits>);

impl CompilePermit {
    /// Waits for a place; threads that were left behind hold theirs until they end.
    fn take(permits: &Arc<CompilePermits>, limit: Duration) -> Result<CompilePermit, GrammarError> {
        let (mut taken, _) = permits
            .given_back
            .wait_timeout_while(lock(&permits.taken), limit, |taken| *taken >= MOST_AT_ONCE)
            .unwrap_or_else(PoisonError::into_inner);
        if *taken >= MOST_AT_ONCE {
            return Err(GrammarError::Busy {
                limit: MOST_AT_ONCE,
            });
        }
        *taken += 1;
        Ok(CompilePermit(Arc::clone(permits)))
    }
}

impl Drop for CompilePermit {
    fn drop(&mut self) {
        *lock(&self.0.taken) -= 1;
        self.0.given_back.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler(limits: Limits) -> Compiler {
        let mut tokens = vec![None];
        tokens.extend((0..=255u8).map(|byte| Some(vec![byte])));
        Compiler::with_limits(Vocabulary::new(tokens, &[0]).unwrap(), limits)
    }

    /// From here on nothing can be compiled: who tries waits for the limit, and is told that others are.
    fn close(compiler: &Compiler) -> Vec<CompilePermit> {
        let take = |_| CompilePermit::take(&compiler.permits, Duration::ZERO).unwrap();
        (0..MOST_AT_ONCE).map(take).collect()
    }

    fn regex(text: &str) -> Structure {
        Structure::Regex(text.into())
    }

    fn error(compiler: &Compiler, structure: &Structure) -> GrammarError {
        compiler.matcher(structure).unwrap_err()
    }

    #[test]
    fn a_structure_that_was_refused_is_not_compiled_again() {
        let compiler = compiler(Limits {
            time: Duration::from_secs(5),
            ..Limits::default()
        });
        let wrong = [
            regex("a("),
            Structure::JsonSchema(r#"{"type": "text"}"#.into()),
            Structure::Grammar("start: none".into()),
            Structure::Choice(Vec::new()),
        ];
        let errors = wrong.each_ref().map(|wrong| error(&compiler, wrong));
        let _closed = close(&compiler);
        for (wrong, first) in wrong.iter().zip(errors) {
            assert_eq!(error(&compiler, wrong), first);
            assert!(matches!(first, GrammarError::Structure { .. }));
        }
    }

    #[test]
    fn refusals_are_as_many_as_are_kept_and_push_out_nothing_that_was_compiled() {
        let compiler = compiler(Limits {
            kept: 2,
            time: Duration::from_secs(5),
            ..Limits::default()
        });
        let sound = regex("a+");
        compiler.matcher(&sound).unwrap();
        for n in 0..5 {
            error(&compiler, &regex(&format!("{n}(")));
        }
        let closed = close(&compiler);
        assert!(compiler.matcher(&sound).is_ok());
        assert!(compiler.known(&regex("2(")).is_none());
        for n in [3, 4] {
            let wrong = error(&compiler, &regex(&format!("{n}(")));
            assert!(matches!(wrong, GrammarError::Structure { .. }), "{wrong}");
        }
        // Forgotten, it is compiled again.
        drop(closed);
        let wrong = error(&compiler, &regex("0("));
        assert!(matches!(wrong, GrammarError::Structure { .. }), "{wrong}");
    }

    #[test]
    fn who_took_too_long_is_refused_for_a_while_and_then_tried_again() {
        let slow = regex("a{1,3}");
        let too_slow = GrammarError::TooSlow {
            kind: kind(&slow),
            limit: Duration::ZERO,
        };
        let refusing = |slow_for| {
            let compiler = compiler(Limits {
                slow_for,
                ..Limits::default()
            });
            compiler.refuse(&slow, &too_slow);
            compiler
        };
        let compiler = refusing(Duration::from_secs(3600));
        assert_eq!(error(&compiler, &slow), too_slow);
        let compiler = refusing(Duration::ZERO);
        assert!(compiler.matcher(&slow).is_ok());
    }

    #[test]
    fn that_others_are_compiled_is_not_held_against_a_structure() {
        let compiler = compiler(Limits {
            time: Duration::from_millis(1),
            ..Limits::default()
        });
        let sound = regex("a+");
        let closed = close(&compiler);
        let busy = GrammarError::Busy {
            limit: MOST_AT_ONCE,
        };
        assert_eq!(error(&compiler, &sound), busy);
        drop(closed);
        assert!(compiler.known(&sound).is_none());
    }
}
