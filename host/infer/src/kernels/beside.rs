//! Self-tests with a second device beside the one that they are for.
//!
//! llvmpipe compiles a kernel when it is first dispatched, on one core, and keeps what it has compiled in Mesa's cache on disk. So
//! where that is cold, another device of the same adapter runs tests meanwhile, from the last on, for nothing but what they leave in
//! the cache. What is found out is found out on the device itself.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

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
}

impl Left {
    fn of(tests: impl Iterator<Item = Tested>) -> Left {
        let tests = Tests {
            left: tests.collect(),
            begun: 0,
        };
        Left {
            tests: Mutex::new(tests),
            changed: Condvar::new(),
        }
    }

    fn all(&self) -> MutexGuard<'_, Tests> {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<Tested> {
        let mut tests = self.all();
        tests.begun += 1;
        self.changed.notify_one();
        tests.left.pop_front()
    }

    fn last(&self) -> Option<Tested> {
        self.all().left.pop_back()
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
/// `compiles`, another device helps with those after it.
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
        while let Some(tested) = left.first() {
            if test(gpu, set, tested)? {
                return Ok(true);
            }
        }
        Ok(false)
    })?;
    if is_wrong {
        return Ok(());
    }
    // What was compiled beside is in the cache now.
    for tested in tested.iter().filter(is_untested) {
        if test(gpu, set, *tested)? {
            break;
        }
    }
    Ok(())
}

/// Tests one, and keeps what comes of it; whether something is wrong.
fn test(gpu: &Gpu, set: KernelSet, tested: Tested) -> Result<bool, LoadError> {
    let found = self_test(gpu, set, tested)?;
    let is_wrong = found.is_some();
    gpu.keep_verdict(set, tested, found);
    Ok(is_wrong)
}

fn can_help(gpu: &Gpu) -> bool {
    gpu.has_others_beside() && thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Has the driver compile what is left, from the last on, once a test of the device takes so long.
fn compile(gpu: &Gpu, set: KernelSet, left: &Left, compiles: Duration) {
    if !left.wait(compiles) {
        return;
    }
    // Whatever fails here fails on the device itself, where it is told.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let Ok(beside) = gpu.beside() else {
            return;
        };
        while let Some(tested) = left.last() {
            if self_test(&beside, set, tested).is_err() {
                return;
            }
        }
    }));
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
    fn help_comes_where_a_test_goes_on_while_others_are_left() {
        let left = || Left::of(TESTED.into_iter());
        assert!(left().wait(Duration::ZERO));
        let one_after_the_other = left();
        thread::scope(|scope| {
            let helps = scope.spawn(|| one_after_the_other.wait(Duration::MAX));
            while one_after_the_other.first().is_some() {}
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
