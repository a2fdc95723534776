//! Self-tests with a second device beside the one that they are for.
//!
//! llvmpipe compiles a kernel when it is first dispatched, on one core, and keeps what it has compiled in Mesa's cache on disk. So
//! where that is cold, another device of the same adapter runs tests meanwhile, from the last on, for nothing but what they leave in
//! the cache. What is found out is found out on the device itself, which also sees by the first of them whether there is such a cache.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::debug;

use super::KernelSet;
use super::self_test::{Tested, self_test};
use crate::device::Gpu;
use crate::load_error::LoadError;

/// A test takes some 5 to 140 ms where its kernels are in the driver's cache; those that are long where they are compiled take
/// from half a second to three.
pub(super) const COMPILES: Duration = Duration::from_millis(200);

/// What nobody has begun to test.
struct Left {
    tests: Mutex<Tests>,
    changed: Condvar,
}

struct Tests {
    left: VecDeque<Tested>,
    /// How many the device has begun.
    begun: usize,
    /// What the other device has tested first, and how long that took: the device's next.
    shown: Option<(Tested, Duration)>,
    /// Whether the other device is to go on.
    helps: bool,
}

impl Left {
    fn of(tests: impl Iterator<Item = Tested>) -> Left {
        let tests = Tests {
            left: tests.collect(),
            begun: 0,
            shown: None,
            helps: true,
        };
        Left {
            tests: Mutex::new(tests),
            changed: Condvar::new(),
        }
    }

    fn all(&self) -> MutexGuard<'_, Tests> {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's next, and how long it took the other one, where that was its first.
    fn next(&self) -> Option<(Tested, Option<Duration>)> {
        let mut tests = self.all();
        tests.begun += 1;
        self.changed.notify_one();
        if let Some((tested, took)) = tests.shown.take() {
            return Some((tested, Some(took)));
        }
        Some((tests.left.pop_front()?, None))
    }

    /// The other device's next.
    fn last(&self) -> Option<Tested> {
        let mut tests = self.all();
        match tests.helps {
            true => tests.left.pop_back(),
            false => None,
        }
    }

    /// Waits until one test has gone on for so long; whether there are others then.
    fn wait(&self, compiles: Duration) -> bool {
        let mut tests = self.all();
        loop {
            let begun = tests.begun;
            let goes_on = |tests: &mut Tests| tests.begun == begun && !tests.left.is_empty();
            let waited = self.changed.wait_timeout_while(tests, compiles, goes_on);
            let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() || after.left.is_empty() {
                return !after.left.is_empty();
            }
            tests = after;
        }
    }

    /// Nobody helps any more. What the other device is at, it ends.
    fn alone(&self) {
        self.all().helps = false;
    }
}

/// Nothing is left when this goes, however that comes about.
struct Ending<'a>(&'a Left);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.all().left.clear();
        self.0.changed.notify_one();
    }
}

/// Tests what is not tested yet, until something is wrong; the device keeps what comes of it. Where a test takes so long that it
/// `compiles`, another device helps with those after it, as long as it is seen to help.
///
/// # Errors
/// The device failed altogether.
pub(super) fn test_until_wrong(
    gpu: &Gpu,
    set: KernelSet,
    tested: &[Tested],
    compiles: Duration,
) -> Result<(), LoadError> {
    let is_untested = |tested: &&Tested| gpu.verdict(set, **tested).is_none();
    let left = Left::of(tested.iter().filter(is_untested).copied());
    let is_wrong = thread::scope(|scope| -> Result<bool, LoadError> {
        let _ending = Ending(&left);
        if can_help(gpu) && left.all().left.len() > 1 {
            let name = thread::Builder::new().name("tidegate-kernels".to_owned());
            // Where the system has no thread to give, it takes longer.
            let _ = name.spawn_scoped(scope, || compile(gpu, set, &left, compiles));
        }
        while let Some((tested, other)) = left.next() {
            let began = Instant::now();
            if test(gpu, set, tested)? {
                return Ok(true);
            }
            // What is in a cache takes a tenth of what it took to compile.
            if other.is_some_and(|took| began.elapsed() > took / 2) {
                left.alone();
            }
        }
        Ok(false)
    })?;
    if is_wrong {
        return Ok(());
    }
    // What was compiled beside is in the cache now.
    for tested in tested {
        if test(gpu, set, *tested)? {
            break;
        }
    }
    Ok(())
}

/// Tests one, unless that is done, and keeps what comes of it; whether something is wrong.
fn test(gpu: &Gpu, set: KernelSet, tested: Tested) -> Result<bool, LoadError> {
    if let Some(found) = gpu.verdict(set, tested) {
        return Ok(found.is_some());
    }
    let found = self_test(gpu, set, tested)?;
    let is_wrong = found.is_some();
    gpu.keep_verdict(set, tested, found);
    Ok(is_wrong)
}

fn can_help(gpu: &Gpu) -> bool {
    gpu.has_others_beside() && thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Has the driver compile what is left, from the last on, once a test of the device takes so long; how many tests that were.
fn compile(gpu: &Gpu, set: KernelSet, left: &Left, compiles: Duration) -> usize {
    if !left.wait(compiles) {
        return 0;
    }
    // Whatever fails here fails on the device itself, where it is told.
    let why = match catch_unwind(AssertUnwindSafe(|| gpu.beside())) {
        Ok(Ok(beside)) => return compile_on(&beside, set, left),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked".to_owned(),
    };
    debug!("no second device compiles beside the first: {why}");
    0
}

fn compile_on(beside: &Gpu, set: KernelSet, left: &Left) -> usize {
    let mut compiled = 0;
    while let Some(tested) = left.last() {
        let began = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| self_test(beside, set, tested))) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                debug!("the second device compiles no more: {error}");
                break;
            }
            Err(_) => break,
        }
        compiled += 1;
        if compiled == 1 {
            left.all().shown = Some((tested, began.elapsed()));
        }
    }
    compiled
}

#[cfg(test)]
mod tests {
    use super::super::{KernelVariant, NormStore};
    use super::*;
    use crate::device::{Adapter, DeviceOptions, Sabotage};

    const TESTED: [Tested; 4] = [
        Tested::Softcap,
        Tested::Norm(NormStore::Plain),
        Tested::Bias(NormStore::Plain),
        Tested::Tanh,
    ];

    fn opened() -> (Gpu, KernelSet) {
        let adapter = Adapter::choose(Some("cpu")).unwrap();
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).unwrap();
        (gpu, KernelSet::of(KernelVariant::Software, true, false))
    }

    #[test]
    fn whoever_compiles_a_device_tests_all_of_its_kernels_itself() {
        for compiles in [Duration::ZERO, Duration::MAX] {
            let (gpu, set) = opened();
            test_until_wrong(&gpu, set, &TESTED, compiles).unwrap();
            for tested in TESTED {
                assert_eq!(gpu.verdict(set, tested), Some(None), "{tested:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_on_the_device_is_found_whatever_the_other_computes() {
        for compiles in [Duration::ZERO, Duration::MAX] {
            let (gpu, set) = opened();
            gpu.sabotage("encoder_tanh", Sabotage::DoesNothing);
            test_until_wrong(&gpu, set, &TESTED, compiles).unwrap();
            let found = gpu.verdict(set, Tested::Tanh).unwrap();
            assert!(found.is_some(), "{found:?}");
        }
    }

    #[test]
    fn another_device_tests_from_the_last_on_and_keeps_nothing_on_the_first() {
        let (gpu, set) = opened();
        let left = Left::of(TESTED.into_iter());
        // Where there is one at all.
        let is_llvmpipe = Adapter::choose(Some("cpu")).unwrap().info().is_llvmpipe();
        assert_eq!(gpu.has_others_beside(), is_llvmpipe);
        let tests = if is_llvmpipe { TESTED.len() } else { 0 };
        assert_eq!(compile(&gpu, set, &left, Duration::ZERO), tests);
        assert!(
            TESTED
                .iter()
                .all(|tested| gpu.verdict(set, *tested).is_none())
        );
        if is_llvmpipe {
            let (next, took) = left.next().unwrap();
            assert_eq!((next, took.is_some()), (Tested::Tanh, true));
            assert!(left.next().is_none());
        }
    }

    #[test]
    fn whoever_is_seen_not_to_help_is_given_nothing_more() {
        let left = Left::of(TESTED.into_iter());
        assert_eq!(left.last(), Some(Tested::Tanh));
        left.alone();
        assert_eq!(left.last(), None);
        assert_eq!(left.next(), Some((Tested::Softcap, None)));
    }

    #[test]
    fn help_comes_where_a_test_goes_on_while_others_are_left() {
        let left = || Left::of(TESTED.into_iter());
        assert!(left().wait(Duration::ZERO));
        let one_after_the_other = left();
        thread::scope(|scope| {
            let helps = scope.spawn(|| one_after_the_other.wait(Duration::MAX));
            while one_after_the_other.next().is_some() {}
            assert!(!helps.join().unwrap());
        });
        let ended = left();
        drop(Ending(&ended));
        assert!(!ended.wait(Duration::ZERO));
    }

    #[test]
    fn a_device_that_is_lost_says_so_whoever_helps_it() {
        let (gpu, set) = opened();
        gpu.lose();
        assert!(test_until_wrong(&gpu, set, &TESTED, Duration::ZERO).is_err());
    }
}
