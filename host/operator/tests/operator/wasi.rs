//! A guest that uses its standard library finds an inert world.

use tidegate_operator::{ComponentSlot, SlotOptions};
use tidegate_record::Batch;

use crate::support::*;

const INERT: &[u8] = include_bytes!("../fixtures/inert.wasm");

fn look(slot: &ComponentSlot, batch: &Batch) -> serde_json::Value {
    let came = run(&mut *instance(slot), batch);
    let Came::Outcome(text) = &came[0] else {
        panic!("{came:?}");
    };
    serde_json::from_str(text.strip_prefix("dead ").unwrap()).unwrap()
}

fn inert(name: &str) -> ComponentSlot {
    ComponentSlot::new(&ENGINE, SlotOptions::new(name), INERT, "inert.wasm").unwrap()
}

#[test]
fn a_guest_that_looks_around_sees_nothing() {
    let slot = inert("looks-around");
    assert!(
        slot.imports()
            .iter()
            .any(|import| import.starts_with("wasi:sockets/"))
    );
    let mut seen = look(&slot, &batch_of(["v"]));
    let random = seen["random"].take();
    assert!(random.is_u64());
    assert_eq!(
        seen,
        serde_json::json!({
            "environment": {},
            "arguments": [],
            // It has slept an hour, which took no time.
            "clock": 1_700_003_600_123_456u64,
            "slept": 3600,
            "random": null,
            "stdin": {"Ok": 0},
            "root": false,
            "file": false,
            "written": false,
            "connected": false,
            "bound": false,
        })
    );
    assert_eq!(slot.stats().instances_lost, 0);
}

#[test]
fn its_lines_go_to_the_log() {
    let slot = inert("prints");
    let mut operator = instance(&slot);
    run(&mut *operator, &batch_of(["v"; 3]));
    drop(operator);
    let stats = slot.stats();
    // Three whole lines, and what stderr began, once it is done.
    assert_eq!((stats.lines, stats.lines_suppressed), (4, 0));
}

#[test]
fn randomness_is_that_of_the_batch() {
    let slot = inert("draws");
    let random = |slot: &ComponentSlot| look(slot, &batch_of(["v"]))["random"].clone();
    assert_eq!(
        random(&slot),
        random(&slot),
        "the same in every fresh instance"
    );
    assert_ne!(
        random(&slot),
        random(&inert("draws-otherwise")),
        "another in another slot"
    );
}

#[test]
fn an_exit_costs_the_instance_like_a_trap() {
    let slot = inert("exits");
    let mut operator = instance(&slot);
    let came = run(&mut *operator, &batch_of(["a", "b", "exit", "c"]));
    assert_eq!(poisoned(&came), [2]);
    let reason = &came[2].poison().unwrap().reason;
    assert!(
        reason.contains("exit: the operator ended itself with code "),
        "{reason}"
    );
    assert_eq!(run(&mut *operator, &batch_of(["v"])).len(), 1);
}

/// An operator that writes a traceback to stderr and fails, where its `process` or `init` begins with this.
fn last_words(begin: &str, fails: &str) -> Vec<u8> {
    let world = r#"(component
      (import "wasi:io/error@0.2.3" (instance $io (export "error" (type (sub resource)))))
      (alias export $io "error" (type $error))
      (import "wasi:io/streams@0.2.3" (instance $streams
        (export "output-stream" (type $stream (sub resource)))
        (alias outer 1 $error (type $outer))
        (export "error" (type $error (eq $outer)))
        (type $own (own $error))
        (type $failure (variant (case "last-operation-failed" $own) (case "closed")))
        (export "stream-error" (type $exported (eq $failure)))
        (export "[method]output-stream.blocking-write-and-flush" (func
          (param "self" (borrow $stream)) (param "contents" (list u8)) (result (result (error $exported)))))))
      (alias export $streams "output-stream" (type $stream))
      (import "wasi:cli/stderr@0.2.3" (instance $stderr
        (alias outer 1 $stream (type $outer))
        (export "output-stream" (type $stream (eq $outer)))
        (export "get-stderr" (func (result (own $stream))))))
      (core module $libc (memory (export "memory") 1)
        (data (i32.const 16) "Traceback:\n  line 7\nValueError: \1b[2J\n"))
      (core instance $libc (instantiate $libc))
      (core func $get (canon lower (func $stderr "get-stderr")))
      (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
        (memory (core memory $libc "memory"))))"#;
    let module = r#"(core module $code
      (import "host" "get" (func $get (result i32)))
      (import "host" "write" (func $write (param i32 i32 i32 i32)))"#;
    let writes = format!(
        "{begin} (call $write (call $get) (i32.const 16) (i32.const 37) (i32.const 512)) {fails}"
    );
    let text = include_str!("../fixtures/released/0.1.0/pass.wat")
        .replacen("(component", world, 1)
        .replacen("(core module $code", module, 1)
        .replacen(
            "(core instance $code (instantiate $code))",
            r#"(core instance $code (instantiate $code
              (with "host" (instance (export "get" (func $get)) (export "write" (func $write))))))"#,
            1,
        )
        .replacen(begin, &writes, 1);
    wat::parse_str(text).unwrap()
}

#[test]
fn what_a_guest_says_on_stderr_before_it_fails_is_in_the_dead_letter() {
    let begin = "(local $count i32) (local $at i32) (local $total i32)";
    let slot = slot("tracebacks", &last_words(begin, "(unreachable)"));
    let came = run(&mut *instance(&slot), &batch_of(["a"]));
    let cause = came[0].poison().unwrap();
    assert!(cause.reason.starts_with("trap: "), "{}", cause.reason);
    let backtrace = cause.backtrace.as_deref().unwrap();
    let said =
        "standard error:\nTraceback:\n  line 7\nValueError: \\u{1b}[2J\nerror while executing";
    assert!(backtrace.starts_with(said), "{backtrace}");
    // Its lines are in the log as well.
    assert_eq!(slot.stats().lines, 3);
}

#[test]
fn what_a_guest_says_on_stderr_before_it_does_not_start_is_in_the_error() {
    let begin = "(func (export \"init\") (param i32 i32) (result i32)";
    let bytes = last_words(begin, "(unreachable)");
    let error = ComponentSlot::new(&ENGINE, SlotOptions::new("s"), &bytes, "op.wasm").unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("op.wasm does not start: init: trap: "),
        "{text}"
    );
    assert!(
        text.contains("\nstandard error:\nTraceback:\n  line 7\n"),
        "{text}"
    );
}
