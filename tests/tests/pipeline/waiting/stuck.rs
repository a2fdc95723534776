//! A worker that does not come back from an operator is seen from outside, by whichever way it got there.

use std::sync::atomic::AtomicBool;

use super::*;

/// Passes records on once it is opened.
fn gated(gate: &Arc<AtomicBool>) -> Native {
    let gate = gate.clone();
    Native::new(move |batch| {
        while !gate.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let same = PatchBuilder::default();
        let mut outcomes = OutcomesBuilder::default();
        for _ in 0..batch.len() {
            outcomes.split([(0, &same)].into_iter());
        }
        outcomes.finish()
    })
}

#[test]
fn a_worker_that_hangs_in_an_operator_is_silent_be_it_of_a_record_that_was_read_or_answered() {
    let disk = MemoryDisk::default();
    let (read, answered) = (Arc::default(), Arc::default());
    let stages = vec![
        gated(&read).stage("first", Target::Stage(1)),
        {
            let mut stage = Progress::echoes().stage(4, 1);
            stage.targets = vec![Target::Stage(2)];
            stage
        },
        gated(&answered).stage("last", Target::Sink(0)),
    ];
    let input = Input::of("{\"n\":1,\"p\":1}\n".to_owned());
    let (run, _) = input.start(&disk, stages).unwrap();
    let controls = run.controls();
    let silent = || controls.health()[0].silent;
    for gate in [&read, &answered] {
        until("it is silent", PATIENCE, || {
            silent() >= Duration::from_millis(200)
        });
        gate.store(true, Ordering::SeqCst);
    }
    let ended = run.join();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(ended.counts.output, 1);
    assert_eq!(controls.health()[0].silent, Duration::ZERO);
}
