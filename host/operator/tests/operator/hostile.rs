//! Operators that loop, grow, trap and lie: each costs its instance and its poison record, and the stream goes on.

use std::time::{Duration, Instant};

use tidegate_contract::{OperatorError, Slot};
use tidegate_operator::{ComponentSlot, Limits};

use crate::support::*;

/// One bad record among many ends with this reason, the others pass, and so does the next batch.
#[track_caller]
fn ends_with(slot: &ComponentSlot, reason: &str) {
    let mut operator = instance(slot);
    let came = run(&mut *operator, &batch_with_bad(32, &[19]));
    assert_eq!(poisoned(&came), [19], "{came:?}");
    let cause = came[19].poison().unwrap();
    assert!(cause.reason.contains(reason), "{:?}", cause.reason);
    assert!(slot.stats().instances_lost >= 6, "{:?}", slot.stats());
    assert_eq!(slot.stats().poisoned, 1);
    assert!(poisoned(&run(&mut *operator, &batch_with_bad(32, &[]))).is_empty());
    // A batch of nothing but the poison is not bisected.
    let alone = run(&mut *operator, &batch_with_bad(1, &[0]));
    assert!(alone[0].poison().unwrap().reason.contains(reason));
    assert!(poisoned(&run(&mut *operator, &batch_with_bad(1, &[]))).is_empty());
}

#[test]
fn an_endless_loop_ends_at_its_deadline() {
    let slot = hostile_within("loop", hasty());
    ends_with(&slot, "deadline: no answer within ");
}

#[test]
fn one_loop_in_a_batch_costs_bounded_time() {
    let limits = Limits {
        deadline: Duration::from_millis(200),
        bisect: Duration::from_millis(1500),
        ..Limits::default()
    };
    let slot = hostile_within("loop", limits);
    let began = Instant::now();
    let came = run(&mut *instance(&slot), &batch_with_bad(256, &[100]));
    // Deadline, cap and one share; the rest is room for a busy machine.
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert!(poisoned(&came).contains(&100));
}

#[test]
fn the_time_to_find_poison_buries_nobody_else() {
    let limits = Limits {
        bisect: Duration::from_millis(1),
        ..patient()
    };
    let slot = hostile_within("trap", limits);
    let came = run(&mut *instance(&slot), &batch_with_bad(256, &[0, 77, 255]));
    assert_eq!(poisoned(&came), [0, 77, 255]);
    assert_eq!(slot.stats().poisoned, 3);
}

#[test]
fn records_that_never_return_are_poison_and_no_others() {
    for bad in [vec![0], vec![31], vec![0, 31], (0..8).collect::<Vec<_>>()] {
        let slot = hostile_within("loop", hasty());
        let mut operator = instance(&slot);
        let came = run(&mut *operator, &batch_with_bad(32, &bad));
        assert_eq!(poisoned(&came), bad);
        for record in bad {
            assert_eq!(
                came[record].poison().unwrap().reason,
                "deadline: no answer within limits.deadline = \"200ms\""
            );
        }
        assert!(poisoned(&run(&mut *operator, &batch_with_bad(32, &[]))).is_empty());
    }
}

#[test]
fn losses_are_reported_one_by_one_with_what_they_were() {
    let mut operator = instance(&hostile("trap"));
    run(&mut *operator, &batch_with_bad(4, &[3]));
    let losses = operator.take_losses();
    let records: Vec<usize> = losses.iter().map(|loss| loss.records).collect();
    // The last is by an instance that has answered nothing before.
    assert_eq!(records, [4, 2, 1, 1]);
    assert!(losses.iter().all(|loss| loss.reason.contains("trap: ")));
    assert!(operator.take_losses().is_empty());
}

/// Whether a text can be shown as it is.
#[track_caller]
fn is_shown_safely(text: &str) {
    let hostile = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!text.contains(hostile), "{text:?}");
    assert!(text.len() < 5000, "{} bytes", text.len());
    assert!(text.contains("\\u{1b}[2J"), "{text}");
}

#[test]
fn what_an_operator_says_of_its_failure_is_one_short_line() {
    let came = run(
        &mut *instance(&hostile("rude-error")),
        &batch_with_bad(1, &[0]),
    );
    let reason = &came[0].poison().unwrap().reason;
    is_shown_safely(reason);
    assert!(
        reason.starts_with("operator error hostile: ") && reason.ends_with(" bytes in all)"),
        "{reason}"
    );
    let error = ComponentSlot::new(&ENGINE, options("init-rude"), &guest("hostile"), "a.wasm");
    is_shown_safely(&error.unwrap_err().to_string());
}

#[test]
fn memory_beyond_the_limit_is_refused_by_value_and_limit() {
    ends_with(&hostile("grow"), "memory: needed ");
    let limits = Limits {
        memory: 8 << 20,
        ..patient()
    };
    ends_with(&hostile_within("grow", limits), ", limit 8 MiB");
}

#[test]
fn a_trap_comes_with_the_wasm_backtrace() {
    let slot = hostile("trap");
    ends_with(&slot, "trap: ");
    let came = run(&mut *instance(&slot), &batch_with_bad(1, &[0]));
    let cause = came[0].poison().unwrap();
    assert!(cause.reason.contains("unreachable"), "{}", cause.reason);
    let backtrace = cause.backtrace.as_deref().unwrap();
    assert!(backtrace.contains("wasm"), "{backtrace}");
}

#[test]
fn what_an_operator_logged_in_the_call_that_fails_is_in_the_dead_letter() {
    let slot = hostile("last-words");
    let mut operator = instance(&slot);
    run(&mut *operator, &batch_with_bad(8, &[]));
    let came = run(&mut *operator, &batch_with_bad(8, &[5]));
    assert_eq!(poisoned(&came), [5]);
    let backtrace = came[5].poison().unwrap().backtrace.as_deref().unwrap();
    // Of a fresh instance, which failed in its first call: nothing of the calls before it.
    let said = "log:\ninfo call 1\nerror panicked at src/lib.rs:1:2:\nboom \\u{1b}[2J\nerror while executing at ";
    assert!(backtrace.starts_with(said), "{backtrace}");
    let error = ComponentSlot::new(&ENGINE, options("init-trap"), &guest("hostile"), "h");
    let text = error.unwrap_err().to_string();
    assert!(text.contains("\nlog:\nerror no start today\n"), "{text}");
}

#[test]
fn a_flood_of_lines_before_a_failure_leaves_4_kib_of_it_in_the_dead_letter() {
    let slot = hostile("last-words-flood");
    let came = run(&mut *instance(&slot), &batch_with_bad(1, &[0]));
    let backtrace = came[0].poison().unwrap().backtrace.as_deref().unwrap();
    assert!(backtrace.starts_with("log:\n(after "), "{backtrace}");
    assert!(backtrace.contains("\ninfo line 9999\n"), "{backtrace}");
    assert!(backtrace.len() < 3 * 4096, "{} bytes", backtrace.len());
}

/// What a trap in a function of this name says where it was.
fn backtrace_of(name: &str) -> String {
    let text = include_str!("../fixtures/released/0.1.0/pass.wat")
        .replace(
            "(local.set $count (i32.load offset=8 (local.get $batch)))",
            "(call $named) (unreachable)",
        )
        .replacen(
            "(func (export \"describe\")",
            &format!("(func $named (@name {name:?}) (unreachable)) (func (export \"describe\")"),
            1,
        );
    let slot = slot("named", &wat::parse_str(text).unwrap());
    let came = run(&mut *instance(&slot), &batch_of(["v"]));
    let cause = came[0].poison().unwrap();
    cause.backtrace.clone().unwrap()
}

#[test]
fn a_short_name_of_a_function_stays_short_in_a_backtrace_and_hides_nothing() {
    // Written out, each of the arguments is as long as all before it together.
    let mut doubling = "_Z1f1aIiiiiES_IS0_S0_S0_S0_E".to_owned();
    for n in 1..12 {
        let before = char::from_digit(n, 36).unwrap().to_ascii_uppercase();
        let again = format!("S{before}_").repeat(4);
        doubling += &format!("S_I{again}E");
    }
    let shown = backtrace_of(&doubling);
    assert!(shown.contains(&doubling), "{shown}");
    assert!(shown.len() < 1000, "{} bytes", shown.len());

    let shown = backtrace_of("_ZN4evil13$u202e$$u1b$x17h0123456789abcdefE");
    assert!(shown.contains("evil::\\u{202e}"), "{shown}");
    let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!shown.contains(hidden), "{shown:?}");

    let shown = backtrace_of("_ZN8operator7process17h0123456789abcdefE");
    assert!(
        shown.ends_with("!operator::process") || shown.contains("!operator::process\n"),
        "{shown}"
    );
}

#[test]
fn exactly_the_bad_records_of_a_thousand_are_found() {
    let slot = hostile("trap");
    let mut operator = instance(&slot);
    assert_eq!(
        poisoned(&run(&mut *operator, &batch_with_bad(1000, &[657]))),
        [657]
    );
    let bad = [0, 1, 250, 499, 500, 777, 998, 999];
    let came = run(&mut *operator, &batch_with_bad(1000, &bad));
    assert_eq!(poisoned(&came), bad);
    assert_eq!(slot.stats().poisoned, 9);
}

#[test]
fn a_batch_of_nothing_but_poison_is_named_record_by_record() {
    let bad: Vec<usize> = (0..300).collect();
    let came = run(&mut *instance(&hostile("trap")), &batch_with_bad(300, &bad));
    assert_eq!(poisoned(&came), bad);
}

#[test]
fn a_stack_overflow_is_a_trap() {
    ends_with(&hostile("recurse"), "trap: ");
}

#[test]
fn an_error_of_the_operator_names_it_in_its_own_words() {
    let slot = hostile("error");
    let came = run(&mut *instance(&slot), &batch_with_bad(16, &[5]));
    assert_eq!(poisoned(&came), [5]);
    let reason = &came[5].poison().unwrap().reason;
    assert_eq!(reason, "operator error hostile: I refuse");
    assert_eq!(slot.stats().instances_lost, 0, "words cost no instance");
}

#[test]
fn bad_answers_are_refused_by_what_is_wrong_with_them() {
    ends_with(
        &hostile("empty"),
        "bad answer: answer begins with [00, 00, 00, 00]",
    );
    ends_with(&hostile("fewer"), "bad answer: answer has ");
    ends_with(&hostile("action"), "unknown action code 99");
    ends_with(
        &hostile("offsets"),
        "is malformed at byte 46: a length that reaches beyond the end",
    );
    ends_with(
        &hostile("output"),
        "names output 7, the operator describes 2",
    );
}

#[test]
fn an_answer_over_the_cap_is_refused() {
    ends_with(
        &hostile("long"),
        "output: the answer exceeds the limit of 16 MiB",
    );
    let limits = Limits {
        output: 1 << 20,
        ..patient()
    };
    ends_with(
        &hostile_within("long", limits),
        "exceeds the limit of 1 MiB",
    );
}

#[test]
fn an_answer_of_a_gigabyte_is_refused_before_it_exists() {
    ends_with(&hostile("huge"), "memory: needed ");
    ends_with(&hostile("huge-lie"), "bad answer: ");
}

#[test]
fn a_failure_that_no_record_causes_poisons_none() {
    let slot = hostile("forgetful");
    let mut operator = instance(&slot);
    for _ in 0..7 {
        assert!(poisoned(&run(&mut *operator, &batch_with_bad(10, &[]))).is_empty());
    }
    assert!(slot.stats().instances_lost >= 1);
    assert_eq!(slot.stats().poisoned, 0);
}

#[test]
fn a_leak_costs_instances_and_no_records() {
    let slot = hostile("leak");
    let mut operator = instance(&slot);
    for _ in 0..60 {
        assert!(poisoned(&run(&mut *operator, &batch_with_bad(4, &[]))).is_empty());
    }
    assert!(slot.stats().instances_lost >= 2, "{:?}", slot.stats());
}

#[test]
fn a_flood_of_log_lines_is_bounded() {
    let slot = hostile("flood");
    run(&mut *instance(&slot), &batch_of(["v"]));
    let stats = slot.stats();
    assert_eq!(stats.lines + stats.lines_suppressed, 10_001);
    assert!(stats.lines_suppressed >= 9_000, "{stats:?}");
}

#[test]
fn an_operator_that_cannot_start_says_why() {
    for (mode, why) in [
        ("init-trap", "init: trap: "),
        (
            "init-error",
            "init: operator error hostile: the configuration does not please me",
        ),
        ("init-grow", "init: memory: needed "),
        ("init-loop", "init: deadline: no answer within 200ms"),
    ] {
        let options = tidegate_operator::SlotOptions {
            limits: hasty(),
            ..options(mode)
        };
        let error =
            ComponentSlot::new(&ENGINE, options, &guest("hostile"), "a/b.wasm").unwrap_err();
        assert!(matches!(error, OperatorError::Start { .. }));
        let text = error.to_string();
        assert!(
            text.starts_with("a/b.wasm does not start: ") && text.contains(why),
            "{text}"
        );
    }
}

#[test]
fn an_instance_whose_successor_cannot_start_is_an_error_and_no_answer() {
    // The component holds more memory at the start than its slot allows.
    let limits = Limits {
        memory: 64 << 10,
        ..Limits::default()
    };
    let options = tidegate_operator::SlotOptions {
        limits,
        ..options("pass")
    };
    let error = ComponentSlot::new(&ENGINE, options, &guest("hostile"), "h").unwrap_err();
    assert!(error.to_string().contains("memory: needed "), "{error}");
}

#[test]
fn an_instance_goes_on_after_its_slot_is_gone() {
    let slot = hostile("trap");
    let mut operator = slot.instance().unwrap().1;
    drop(slot);
    assert_eq!(
        poisoned(&run(&mut *operator, &batch_with_bad(9, &[8]))),
        [8]
    );
}
