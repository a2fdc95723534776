//! Hostile operators for every function that a component of 1.0.0 exports, in both worlds: each is refused with the
//! reason, or loses its instance, and the host goes on.

use std::time::Duration;

use tidegate_contract::Slot;
use tidegate_operator::{ComponentSlot, Limits, SlotOptions};

use crate::made::{Made, SCHEMA_AT, WORLDS, World, ZEROS_AT};
use crate::support::*;

const LOOP: &str = "(loop $again (br $again))";
const GROW: &str =
    "(if (i32.eq (memory.grow (i32.const 20000)) (i32.const -1)) (then (unreachable)))";

fn open(made: &Made) -> Result<ComponentSlot, String> {
    let limits = Limits {
        deadline: Duration::from_millis(300),
        init_deadline: Duration::from_millis(300),
        ..patient()
    };
    open_within(made, limits)
}

fn open_within(made: &Made, limits: Limits) -> Result<ComponentSlot, String> {
    let options = SlotOptions {
        limits,
        ..SlotOptions::new("made")
    };
    ComponentSlot::new(&ENGINE, options, &made.bytes(), "made.wasm").map_err(|error| {
        let text = error.to_string();
        assert!(text.len() < 6000 && !text.contains('\x1b'), "{text:?}");
        text
    })
}

/// It does not start, for this reason.
#[track_caller]
fn refused(made: &Made, why: &str) {
    let text = open(made).map(|slot| slot.version()).unwrap_err();
    assert!(text.contains(why), "{:?}: {text}", made.world);
}

/// It starts, and a record ends as poison for this reason; the slot gives out instances as before.
#[track_caller]
fn poisons(made: &Made, why: &str) {
    let slot = open(made).unwrap();
    for _ in 0..2 {
        let came = run(&mut *instance(&slot), &batch_of(["v"]));
        let reason = &came[0]
            .poison()
            .unwrap_or_else(|| panic!("{why}: {came:?}"))
            .reason;
        assert!(reason.contains(why), "{:?}: {reason}", made.world);
    }
}

#[test]
fn what_is_not_hostile_answers_in_both_worlds() {
    for world in WORLDS {
        let slot = open_within(&Made::new(world), patient()).unwrap();
        let batch = batch_of(["v"; 100]);
        assert!(
            poisoned(&run(&mut *instance(&slot), &batch)).is_empty(),
            "{world:?}"
        );
        assert_eq!(slot.version().version, "1.0.0");
    }
}

/// A core module's start function runs with the first call: that is how a component is made of it.
#[test]
fn a_start_function_that_traps_loops_or_grows_is_the_components_end() {
    for world in WORLDS {
        let start =
            |code: &str| Made::new(world).fields(&format!("(func $start {code}) (start $start)"));
        refused(&start("(unreachable)"), "does not start: describe: trap: ");
        refused(&start(LOOP), "describe: deadline: no answer within 300ms");
        refused(&start(GROW), "describe: memory: needed ");
    }
}

#[test]
fn describe_and_init_that_trap_loop_grow_or_point_nowhere_do_not_start() {
    for world in WORLDS {
        for function in ["describe", "init"] {
            let with = |code: &str| Made::new(world).code(function, code);
            let why = |why: &str| format!("{function}: {why}");
            refused(&with("(unreachable)"), &why("trap: "));
            refused(&with(LOOP), &why("deadline: no answer within 300ms"));
            refused(&with(GROW), &why("memory: needed "));
            refused(&with("(return (i32.const -8))"), &why("bad answer: "));
            refused(&with("(return (i32.const 129))"), &why("bad answer: "));
            // A result that is neither.
            let neither = "(i32.store8 (i32.const 128) (i32.const 7)) (i32.store8 (i32.const 512) (i32.const 7))";
            refused(&with(neither), &why("bad answer: "));
        }
        for (function, step) in [("post-describe", "describe"), ("post-init", "init")] {
            let with = |code: &str| Made::new(world).code(function, code);
            refused(&with("(unreachable)"), &format!("{step}: trap: "));
            refused(&with(LOOP), &format!("{step}: deadline: "));
        }
    }
}

#[test]
fn realloc_that_lies_traps_or_never_returns_costs_the_instance() {
    for world in WORLDS {
        // At the start it is asked for the configuration, then for batches.
        let at_once = |code: &str| Made::new(world).code("realloc", code);
        refused(
            &at_once("(return (i32.const -65536))"),
            "describe: bad answer: ",
        );
        refused(&at_once("(unreachable)"), "describe: trap: ");
        refused(&at_once(LOOP), "describe: deadline: ");
        let later = |code: &str| {
            let code = format!("(if (global.get $calls) (then {code}))");
            Made::new(world).code("realloc", code)
        };
        poisons(&later("(return (i32.const -65536))"), "bad answer: ");
        poisons(&later("(return (i32.const 4194303))"), "bad answer: ");
        poisons(&later("(unreachable)"), "trap: ");
        poisons(&later(LOOP), "deadline: no answer within ");
        poisons(&later(GROW), "memory: needed ");
    }
    let unaligned = "(if (global.get $calls) (then (return (i32.const 2097153))))";
    poisons(
        &Made::new(World::Plain).code("realloc", unaligned),
        "bad answer: ",
    );
    // Everything in one place, over the code that reads it: the guest's own loss, and a good answer.
    let same = Made::new(World::Plain).code(
        "realloc",
        "(if (global.get $calls) (then (return (i32.const 2097152))))",
    );
    let slot = open_within(&same, patient()).unwrap();
    assert!(poisoned(&run(&mut *instance(&slot), &batch_of(["a", "b"]))).is_empty());
}

#[test]
fn process_and_what_comes_after_it_may_do_no_harm() {
    for world in WORLDS {
        let with = |code: &str| Made::new(world).code("process", code);
        poisons(&with("(unreachable)"), "trap: ");
        poisons(&with(LOOP), "deadline: no answer within ");
        poisons(&with(GROW), "memory: needed ");
        poisons(&with("(return (i32.const -8))"), "bad answer: ");
        poisons(&with("(return (i32.const 513))"), "bad answer: ");
        poisons(
            &with("(i32.store8 (i32.const 512) (i32.const 2))"),
            "bad answer: ",
        );
        let answer_at = |at: i32, length: i32| {
            with(&format!(
                "(i32.store (i32.const 516) (i32.const {at})) (i32.store (i32.const 520) (i32.const {length}))"
            ))
        };
        poisons(&answer_at(-16, 1), "bad answer: ");
        poisons(&answer_at(1 << 20, -1), "");
        poisons(&answer_at(0, 0), "bad answer: ");
        let post = |code: &str| Made::new(world).code("post-process", code);
        poisons(&post("(unreachable)"), "trap: ");
        poisons(&post(LOOP), "deadline: no answer within ");
        // A failure with a code that is none and a message of 900 KB.
        let failure = "(i32.store8 (i32.const 512) (i32.const 1)) (i32.store8 (i32.const 516) (i32.const 1))
            (i32.store (i32.const 520) (i32.const 3145728)) (i32.store (i32.const 524) (i32.const 100))
            (i32.store (i32.const 528) (i32.const 3145728)) (i32.store (i32.const 532) (i32.const 900000))";
        poisons(&with(failure), "operator error unnamed: \\u{0}");
        poisons(
            &with(&failure.replace(
                "(i32.const 516) (i32.const 1)",
                "(i32.const 516) (i32.const 9)",
            )),
            "bad answer: ",
        );
    }
}

#[test]
fn plain_answers_that_lie_about_lists_and_kinds_are_refused() {
    let with = |code: &str| Made::new(World::Plain).code("process", code);
    let outcomes = |count: u32| with(&format!("(i32.store (i32.const 520) (i32.const {count}))"));
    poisons(&outcomes(0), "answer has 0 outcomes for 1 records");
    poisons(&outcomes(10_000), "answer has 10000 outcomes for 1 records");
    poisons(&outcomes(1_000_000), "bad answer: ");
    poisons(
        &with("(i32.store (i32.const 516) (i32.const 1048577))"),
        "bad answer: ",
    );
    // Of an unknown kind.
    poisons(
        &with("(i32.store8 (i32.const 1048576) (i32.const 7))"),
        "bad answer: ",
    );
    // A dead letter whose reason is not UTF-8.
    let reason = "(i32.store8 (i32.const 1048576) (i32.const 6)) (i32.store (i32.const 1048584) (i32.const 48))
        (i32.store (i32.const 1048588) (i32.const 2)) (i32.store16 (i32.const 48) (i32.const -1))";
    poisons(&with(reason), "bad answer: ");
    // A million samples in 4 MiB that lie elsewhere.
    let samples = "(i32.store (i32.const 524) (i32.const 1048576)) (i32.store (i32.const 528) (i32.const 1000000))";
    poisons(&with(samples), "bad answer: ");
}

#[test]
fn packed_answers_that_lie_about_samples_are_refused() {
    let counter = |made: Made| {
        made.data(
            8192,
            b"\x40\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00".to_vec(),
        )
        .data(8204, vec![0; 24])
        .span("metrics", 8192, 1)
    };
    // A section of so many samples in so many bytes, 64 bytes into the answer.
    let with = |count: u32, length: u32| {
        let fields = [
            (32, 1),
            (36, 48),
            (48, 1),
            (52, count),
            (56, 64),
            (60, length),
            (4, 64 + length),
        ];
        let stores: String = fields
            .iter()
            .map(|(at, value)| {
                format!("(i32.store offset={at} (local.get $at) (i32.const {value}))")
            })
            .collect();
        let code = format!(
            "{stores} (i32.store (i32.const 520) (i32.const {}))",
            64 + length
        );
        counter(Made::new(World::Packed)).code("process", code)
    };
    let slot = open_within(&with(3, 48), patient()).unwrap();
    assert!(poisoned(&run(&mut *instance(&slot), &batch_of(["v"]))).is_empty());
    poisons(
        &with(1_000_000, 48),
        "malformed at byte 112: it ends in the middle of a number",
    );
    poisons(
        &with(60_000, 960_000),
        "sample 256 is one too many of its record, limit 256 (record 0/0/0)",
    );
    poisons(&with(2, 47), "malformed at byte ");
    // A label of 64 KiB, which the metric does not have.
    let long = with(1, 16 + 2 + 65_535).code(
        "process",
        "(i32.store16 offset=70 (local.get $at) (i32.const 1)) (i32.store16 offset=80 (local.get $at) (i32.const 65535))",
    );
    poisons(&long, "sample 0 has 1 labels, pass has 0 (record 0/0/0)");
}

/// One metric: name, kind, help, labels and bounds as places and lengths.
fn metric(labels: (u32, u32), bounds: (u32, u32), kind: u8) -> Vec<u8> {
    let span = |(at, length): (u32, u32)| [at.to_le_bytes(), length.to_le_bytes()].concat();
    [
        span((64, 4)),
        vec![kind, 0, 0, 0],
        span((0, 0)),
        span(labels),
        span(bounds),
    ]
    .concat()
}

#[test]
fn what_describe_declares_is_bounded_and_known() {
    for world in WORLDS {
        let made = || Made::new(world);
        let described = |metric: Vec<u8>| made().data(8192, metric).span("metrics", 8192, 1);
        refused(&made().span("metrics", ZEROS_AT, 1_000_000), "describe: ");
        refused(
            &made().span("metrics", ZEROS_AT, 5000),
            "it has 5000 metrics, limit 64",
        );
        refused(&made().span("outputs", ZEROS_AT, 1_000_000), "describe: ");
        refused(
            &described(metric((ZEROS_AT, 64), (0, 0), 0)),
            "its metric \"pass\" has 64 labels, limit 8",
        );
        refused(
            &described(metric((ZEROS_AT, 1), (0, 0), 0)),
            "its metric \"pass\" has the label \"\", which no label may be",
        );
        refused(
            &described(metric((0, 0), (16384, 1), 2)).data(16384, f64::NAN.to_le_bytes()),
            "its metric \"pass\" has bounds that are not finite and ascending",
        );
        refused(
            &described(metric((0, 0), (ZEROS_AT, 2), 2)),
            "its metric \"pass\" has bounds that are not finite and ascending",
        );
        let bounds: Vec<u8> = (0..33).flat_map(|n| f64::from(n).to_le_bytes()).collect();
        refused(
            &described(metric((0, 0), (16384, 33), 2)).data(16384, bounds),
            "its metric \"pass\" has 33 bounds, limit 32",
        );
        refused(
            &described(metric((0, 0), (ZEROS_AT, 1), 0)),
            "its metric \"pass\" has bounds and is no histogram",
        );
        refused(
            &described(metric((0, 0), (0, 0), 3)),
            "describe: bad answer: ",
        );
        // A name and an extension's JSON: "pass" and the schema.
        let named = [64u32.to_le_bytes(), 4u32.to_le_bytes()].concat();
        refused(
            &made().data(8192, named.clone()).span("handlers", 8192, 1),
            "it has the handler \"pass\", which this host does not know",
        );
        let json = [SCHEMA_AT.to_le_bytes(), 2u32.to_le_bytes()].concat();
        refused(
            &made()
                .data(8192, [named, json].concat())
                .span("extensions", 8192, 1),
            "it declares \"pass\" (2 bytes), which this host does not know",
        );
        refused(&made().span("name", 1 << 30, 4), "describe: bad answer: ");
        refused(
            &made().span("version", 64, 4),
            "its version \"pass\" is not semver",
        );
    }
}
