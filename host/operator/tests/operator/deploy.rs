//! Versions come and go while instances run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_contract::{KeptRevision, OperatorError, OperatorVersion, Slot};
use tidegate_operator::{Change, ComponentSlot, Limits, SlotOptions};

use crate::support::*;

/// The smallest operator under another name.
fn named(name: &str) -> Vec<u8> {
    assert_eq!(name.len(), 4);
    let text = include_str!("../fixtures/released/0.1.0/pass.wat")
        .replace("\"pass\"", &format!("{name:?}"));
    wat::parse_str(text).unwrap()
}

#[test]
fn a_deployment_switches_at_the_next_batch_and_the_generation_grows() {
    let slot = slot("s", PASS);
    let (generation, mut old) = slot.instance().unwrap();
    assert_eq!((generation, slot.generation()), (1, 1));
    let deployment = slot.deploy(&named("next"), "next.wasm").unwrap();
    assert_eq!(
        (deployment.old.name.as_str(), deployment.new.name.as_str()),
        ("pass", "next")
    );
    assert_eq!((deployment.generation, slot.generation()), (2, 2));
    let (generation, new) = slot.instance().unwrap();
    assert_eq!((generation, new.version().name.as_str()), (2, "next"));
    // Who has not changed over yet still answers.
    assert_eq!(run(&mut *old, &batch_of(["v"])).len(), 1);
    assert_eq!(old.version().name, "pass");
    assert_eq!(slot.version().name, "next");
}

#[test]
fn a_deployment_that_fails_leaves_the_old_version_running() {
    let slot = hostile("pass");
    let digest = slot.version().digest.clone();
    let bad = [
        (b"nothing".to_vec(), "is not an operator"),
        (
            wat::parse_str("(component)").unwrap(),
            "exports no operator",
        ),
        (PASS[..PASS.len() / 2].to_vec(), "does not compile"),
    ];
    for (bytes, why) in bad {
        let error = slot.deploy(&bytes, "bad.wasm").unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = slot.deploy_with(&guest("hostile"), "bad.wasm", "{\"mode\": \"init-trap\"}");
    assert!(
        matches!(error, Err(OperatorError::Start { .. })),
        "{error:?}"
    );
    assert_eq!((slot.generation(), &slot.version().digest), (1, &digest));
    assert_eq!(&*slot.config(), "{\"mode\": \"pass\"}");
    assert!(poisoned(&run(&mut *instance(&slot), &batch_of(["v"]))).is_empty());
}

#[test]
fn a_version_without_an_output_that_is_used_does_not_fit() {
    let options = SlotOptions {
        required_outputs: vec!["side".into()],
        ..options("pass")
    };
    let slot = ComponentSlot::new(&ENGINE, options, &guest("hostile"), "hostile").unwrap();
    let error = slot.deploy(PASS, "pass.wasm").unwrap_err();
    assert_eq!(
        error.to_string(),
        "pass.wasm does not fit the slot: the pipeline uses its output \"side\", which it does not have"
    );
    assert_eq!(slot.generation(), 1);
}

#[test]
fn a_version_that_fails_on_recorded_records_is_not_deployed() {
    let slot = hostile("pass");
    // The running version takes the bad record, and it is kept as a sample.
    run(&mut *instance(&slot), &batch_with_bad(8, &[3]));
    let error = slot
        .deploy_with(&guest("hostile"), "new.wasm", "{\"mode\": \"trap\"}")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("does not answer 8 recorded records: trap: "),
        "{error}"
    );
    assert_eq!((slot.generation(), slot.stats().poisoned), (1, 0));
    let deployed = slot.deploy_with(&guest("hostile"), "new.wasm", "{\"mode\": \"count\"}");
    assert!(deployed.is_err(), "it fails on the same record");
    assert!(
        counted(&slot).values().all(|sum| *sum == 0),
        "samples do not count"
    );
}

#[test]
fn samples_leave_no_trace_in_the_counters_of_a_version_that_is_deployed() {
    let slot = hostile("pass");
    run(&mut *instance(&slot), &batch_with_bad(8, &[]));
    slot.deploy_with(&guest("hostile"), "new.wasm", "{\"mode\": \"count\"}")
        .unwrap();
    assert_eq!(counted(&slot)["seen"], 0);
    run(&mut *instance(&slot), &batch_with_bad(8, &[]));
    // Each second record comes again, and what it counted does not count.
    assert_eq!(counted(&slot)["seen"], 4);
}

#[test]
fn a_rollback_brings_back_the_version_before_with_its_configuration() {
    let slot = hostile("config");
    assert!(slot.rollback().is_err());
    slot.deploy_with(&guest("hostile"), "h", "{\"mode\": \"clock\"}")
        .unwrap();
    let back = slot.rollback().unwrap();
    assert_eq!(back.generation, 3);
    let came = run(&mut *instance(&slot), &batch_of(["v"]));
    assert_eq!(came, [Came::Outcome("dead {\"mode\": \"config\"}".into())]);
    slot.rollback().unwrap();
    assert_eq!(&*slot.config(), "{\"mode\": \"clock\"}");
}

#[test]
fn tasks_that_follow_the_generation_see_every_record_once_while_versions_change() {
    let slot = slot("s", PASS);
    let done = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let (slot, done) = (Arc::clone(&slot), Arc::clone(&done));
            std::thread::spawn(move || {
                let (mut generation, mut operator) = slot.instance().unwrap();
                let mut batches = 0;
                while !done.load(Ordering::Relaxed) || generation != slot.generation() {
                    if slot.generation() != generation {
                        let next = slot.instance().unwrap();
                        assert!(next.0 > generation);
                        (generation, operator) = next;
                    }
                    assert_eq!(run(&mut *operator, &batch_of(["v"; 16])).len(), 16);
                    batches += 1;
                }
                (generation, operator.version().name.clone(), batches)
            })
        })
        .collect();
    for name in ["aaaa", "bbbb", "cccc"] {
        slot.deploy(&named(name), name).unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        let (generation, name, batches) = task.join().unwrap();
        assert_eq!((generation, name.as_str()), (4, "cccc"));
        assert!(batches > 0);
    }
}

#[test]
fn a_deployment_that_is_not_ready_in_time_is_refused_and_leaves_the_running_version() {
    let slot = slot("s", PASS);
    let next = named("next");
    let change = Change {
        component: Some(&next),
        label: "next.wasm",
        config: None,
    };
    let error = slot.deploy_within(&change, Duration::ZERO).unwrap_err();
    assert!(matches!(error, OperatorError::Late { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "next.wasm is not ready in time: 0 of 1 instances within 0ns"
    );
    assert_eq!(
        (slot.generation(), slot.version().name.as_str()),
        (1, "pass")
    );
    let time = Duration::from_secs(120);
    slot.deploy_within(&change, time).unwrap();
    assert_eq!(slot.version().name, "next");
}

/// What the log would have of a version that has run, changed: as if this had run.
fn as_if_it_ran(options: &SlotOptions, bytes: &[u8], version: &OperatorVersion) -> KeptRevision {
    KeptRevision {
        digest: options.revision(bytes),
        ..version.revision.clone()
    }
}

#[test]
fn a_slot_that_goes_on_is_made_without_instances_where_none_can_be_started() {
    let bytes = guest("hostile");
    let error = ComponentSlot::new(&ENGINE, options("init-trap"), &bytes, "h").unwrap_err();
    assert!(matches!(error, OperatorError::Start { .. }), "{error}");
    let ran = hostile("pass").version();
    let options = options("init-trap");
    // The same component with the configuration that ran, which was another one, is a new revision: it must start.
    let resume =
        |ran: &KeptRevision| ComponentSlot::resume(&ENGINE, options.clone(), &bytes, "h", ran);
    let error = resume(&ran.revision).unwrap_err();
    assert!(matches!(error, OperatorError::Start { .. }), "{error}");
    let slot = resume(&as_if_it_ran(&options, &bytes, &ran)).unwrap();
    let error = slot.instance().map(|_| ()).unwrap_err();
    assert!(matches!(error, OperatorError::Start { .. }), "{error}");
    assert_eq!(slot.version().name, "misbehave");
    // What is no operator is refused whatever it was before.
    let error = ComponentSlot::resume(&ENGINE, options.clone(), b"nothing", "h", &ran.revision);
    assert!(
        matches!(error, Err(OperatorError::NotAnOperator { .. })),
        "{error:?}"
    );
}

#[test]
fn a_revision_that_ran_is_made_again_where_it_cannot_be_asked_what_it_is() {
    let text = include_str!("../fixtures/released/0.1.0/pass.wat");
    let asked = "(func (export \"describe\") (result i32) (i32.const 128))";
    let silent = "(func (export \"describe\") (result i32) unreachable)";
    let silent = wat::parse_str(text.replace(asked, silent)).unwrap();
    let options = SlotOptions::new("s");
    let error = ComponentSlot::new(&ENGINE, options.clone(), &silent, "op").unwrap_err();
    assert!(error.to_string().contains("describe: trap"), "{error}");
    let ran = as_if_it_ran(&options, &silent, &slot("s", PASS).version());
    let slot = ComponentSlot::resume(&ENGINE, options, &silent, "op", &ran).unwrap();
    assert_eq!(
        (&*slot.version().name, slot.version().outputs.len()),
        ("pass", 0)
    );
    assert_eq!(run(&mut *instance(&slot), &batch_of(["a"])).len(), 1);
}

#[test]
fn a_deployment_brings_a_new_configuration_and_a_restart_keeps_it_while_the_files_stays() {
    let slot = hostile("pass");
    let change = Change {
        config: Some("{\"mode\": \"config\"}"),
        ..Change::default()
    };
    let deployed = slot.deploy_within(&change, patient().deadline).unwrap();
    assert_eq!(deployed.old.digest, deployed.new.digest);
    assert_ne!(deployed.old.revision.digest, deployed.new.revision.digest);
    let says = |slot: &ComponentSlot| run(&mut *instance(slot), &batch_of(["v"])).remove(0);
    let own = Came::Outcome("dead {\"mode\": \"config\"}".into());
    assert_eq!(says(&slot), own);
    let bytes = guest("hostile");
    let resume = |mode: &str| {
        let ran = &deployed.new.revision;
        ComponentSlot::resume(&ENGINE, options(mode), &bytes, "h", ran).unwrap()
    };
    assert_eq!(says(&resume("pass")), own);
    assert_eq!(resume("pass").version().revision, deployed.new.revision);
    assert_eq!(
        says(&resume("clock")),
        Came::Outcome("dead 1700000000123456".into())
    );
}

#[test]
fn an_operator_too_slow_for_the_records_at_once_is_deployed_and_one_that_fails_on_a_record_is_not()
{
    let limits = Limits {
        deadline: Duration::from_secs(4),
        ..patient()
    };
    let slot = hostile_within("pass", limits);
    // Of sixteen together; one alone takes a fraction of the deadline.
    run(&mut *instance(&slot), &batch_of(["v"; 16]));
    let slow = |turns: u64| format!("{{\"mode\": \"slow\", \"turns\": {turns}}}");
    let turns = turns_of(Duration::from_millis(300));
    slot.deploy_with(&guest("hostile"), "slow.wasm", &slow(turns))
        .unwrap();
    assert_eq!(slot.stats().instances_lost, 0, "a trial leaves no trace");
    let error = slot
        .deploy_with(&guest("hostile"), "h.wasm", &slow(turns * 1000))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("does not answer 16 recorded records: deadline"),
        "{error}"
    );
}

/// Turns of the guest's loop that take so long on this machine now.
fn turns_of(time: Duration) -> u64 {
    const SOME: u64 = 20_000_000;
    let config = format!("{{\"mode\": \"slow\", \"turns\": {SOME}}}");
    let options = SlotOptions {
        config,
        ..options("slow")
    };
    let slot = ComponentSlot::new(&ENGINE, options, &guest("hostile"), "h").unwrap();
    let mut operator = instance(&slot);
    let times = (0..5).map(|_| {
        let began = Instant::now();
        run(&mut *operator, &batch_of(["v"]));
        began.elapsed()
    });
    let fastest = times.min().unwrap();
    (SOME as f64 * time.as_secs_f64() / fastest.as_secs_f64()) as u64
}
