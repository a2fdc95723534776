//! Operators that others' toolchains have made, of `tests/toolchains`: each starts, answers, and takes another's place.

use tidegate_contract::{Operator, OperatorError};
use tidegate_operator::{ComponentSlot, Grants, SlotOptions, Ungranted};
use tidegate_record::{Batch, BatchBuilder, NewRecord};

use crate::support::*;

/// What is committed: the toolchain and the contract that it made a component for.
const ALWAYS: [&str; 10] = [
    "c-0.1.0",
    "c-stdio-0.1.0",
    "go-0.1.0",
    "quickjs-0.1.0",
    "quickjs-stub-0.1.0",
    "c-1.0.0",
    "c-stdio-1.0.0",
    "go-1.0.0",
    "quickjs-1.0.0",
    "quickjs-plain-1.0.0",
];

/// What the long tests add.
const LARGE: [&str; 8] = [
    "python-0.1.0",
    "python-stub-0.1.0",
    "spidermonkey-0.1.0",
    "spidermonkey-bare-0.1.0",
    "python-1.0.0",
    "python-plain-1.0.0",
    "spidermonkey-1.0.0",
    "spidermonkey-plain-1.0.0",
];

/// The components that are here: large ones are made by `cargo xtask test --full`.
fn made() -> Vec<&'static str> {
    let more = std::env::var_os("TIDEGATE_TEST_FULL").map_or(&[][..], |_| &LARGE[..]);
    ALWAYS.iter().chain(more).copied().collect()
}

/// Those of these toolchains, whatever the contract.
fn made_by(toolchains: &[&str]) -> Vec<&'static str> {
    let is_one = |name: &&str| {
        let toolchain = name.rsplit_once('-').map(|(toolchain, _)| toolchain);
        toolchain.is_some_and(|toolchain| toolchains.contains(&toolchain))
    };
    made().into_iter().filter(is_one).collect()
}

fn component(name: &str) -> Vec<u8> {
    guest(&format!("uppercase-{name}"))
}

/// All that there is to grant, and what there is not is a trap: SpiderMonkey's component imports HTTP.
const LENIENT: Grants = Grants {
    ungranted: Ungranted::Trap,
    ..Grants::ALL
};

fn slot_of(language: &str, grants: Grants, tasks: usize) -> Result<ComponentSlot, OperatorError> {
    let options = SlotOptions {
        grants,
        limits: patient(),
        tasks,
        ..SlotOptions::new(language)
    };
    ComponentSlot::new(&KEEPING, options, &component(language), language)
}

fn started(language: &str) -> ComponentSlot {
    slot_of(language, LENIENT, 1).unwrap()
}

/// A batch with a null among its values, and one value that is longer than the first memories of most.
fn mixed() -> (Batch, Vec<Came>) {
    let long = "x".repeat(300_000);
    let values = [
        Some("Hello, wOrld"),
        None,
        Some("drop me"),
        Some("dead as it is"),
        Some(""),
        Some("z\u{e9}ro"),
        Some(long.as_str()),
    ];
    let mut builder = BatchBuilder::default();
    for value in values {
        let record = NewRecord {
            value: value.map(str::as_bytes),
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    let came = [
        "replace HELLO, WORLD",
        "pass",
        "drop",
        "dead the record asks for it",
        "replace ",
        "replace Z\u{e9}RO",
    ];
    let came = came.map(str::to_owned).into_iter();
    let came = came.chain([format!("replace {}", long.to_uppercase())]);
    let came = came.map(Came::Outcome).collect();
    (builder.finish(1_700_000_000_123_456), came)
}

fn only(operator: &mut dyn Operator, value: &str) -> Came {
    run(operator, &batch_of([value])).remove(0)
}

#[test]
fn every_toolchains_operator_starts_and_answers_alike() {
    let (batch, expected) = mixed();
    for name in made() {
        let slot = started(name);
        let mut operator = instance(&slot);
        for _ in 0..3 {
            assert_eq!(run(&mut *operator, &batch), expected, "{name}");
        }
        assert_eq!(slot.stats().instances_lost, 0, "{name}");
    }
}

#[test]
fn operators_of_all_languages_take_each_others_place() {
    let (batch, expected) = mixed();
    let slot = started("c-0.1.0");
    let mut old: Vec<Box<dyn Operator>> = vec![instance(&slot)];
    for name in made().into_iter().rev() {
        slot.deploy(&component(name), name).unwrap();
        assert_eq!(run(&mut *instance(&slot), &batch), expected, "{name}");
        for operator in &mut old {
            assert_eq!(run(&mut **operator, &batch), expected, "beside {name}");
        }
        old.push(instance(&slot));
    }
}

/// Stock Go does not start where a clock stands at zero, and sleeps in a loop until its clock says that it is over.
#[test]
fn a_sleep_ends_at_once_and_by_the_guests_own_clock_after_as_long_as_it_should() {
    for name in made_by(&["c-stdio", "go", "python", "python-plain"]) {
        let slot = started(name);
        let mut operator = instance(&slot);
        for _ in 0..2 {
            let slept = Came::Outcome("replace SLEPT 3600".into());
            assert_eq!(only(&mut *operator, "sleep"), slept, "{name}");
        }
    }
}

#[test]
fn what_a_language_prints_is_logged() {
    for name in made_by(&["c-stdio", "go", "python", "python-plain", "spidermonkey"]) {
        let slot = started(name);
        let printed = Came::Outcome("replace PRINT".into());
        assert_eq!(only(&mut *instance(&slot), "print"), printed, "{name}");
        assert_eq!(slot.stats().lines, 1, "{name}");
    }
}

/// In the contract 0.1.0 a call cannot fail without costing the instance.
#[test]
fn what_a_language_says_of_a_failure_costs_no_instance() {
    for name in made().into_iter().filter(|name| name.ends_with("-1.0.0")) {
        let slot = started(name);
        let mut operator = instance(&slot);
        let came = run(&mut *operator, &batch_of(["a", "fail", "b"]));
        assert_eq!(poisoned(&came), [1], "{name}");
        let reason = &came[1].poison().unwrap().reason;
        assert!(
            reason.contains("asked-for") && reason.contains("the record asks for it"),
            "{name}: {reason}"
        );
        assert_eq!(slot.stats().instances_lost, 0, "{name}");
    }
}

#[test]
fn a_module_for_wasi_preview_1_becomes_a_component_with_an_inert_world() {
    for name in made_by(&["c-stdio", "go"]) {
        let made = KEEPING.compile(&component(name), name).unwrap();
        let imports = made.imports();
        assert!(
            imports.iter().all(|import| import.starts_with("wasi:")),
            "{imports:?}"
        );
        assert!(
            imports
                .iter()
                .any(|i| i.starts_with("wasi:io/streams@0.2.")),
            "{imports:?}"
        );
    }
}

#[test]
fn an_import_that_is_not_granted_and_never_called_keeps_nobody_from_starting_where_the_slot_says_so()
 {
    let none = Grants {
        ungranted: Ungranted::Trap,
        ..Grants::default()
    };
    let (batch, expected) = mixed();
    for name in made() {
        let slot = slot_of(name, none, 1).unwrap();
        assert_eq!(run(&mut *instance(&slot), &batch), expected, "{name}");
    }
    let refused = slot_of("quickjs-1.0.0", Grants::default(), 1).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "quickjs-1.0.0 imports tidegate:operator/log@1.0.0, which the pipeline does not grant to this slot; with \
         ungranted = \"trap\" it starts, and a call of that is a trap"
    );
}

#[test]
fn a_call_of_what_is_not_granted_costs_the_instance_and_names_it() {
    let none = Grants {
        ungranted: Ungranted::Trap,
        ..Grants::default()
    };
    for (name, contract) in [("quickjs-0.1.0", "0.1.0"), ("quickjs-plain-1.0.0", "1.0.0")] {
        let slot = slot_of(name, none, 1).unwrap();
        let mut operator = instance(&slot);
        let came = run(&mut *operator, &batch_of(["a", "log", "b"]));
        assert_eq!(poisoned(&came), [1]);
        assert_eq!(
            came[1].poison().unwrap().reason,
            format!(
                "host call: tidegate:operator/log@{contract}#write is not granted to this slot"
            )
        );
        assert_eq!(slot.stats().lines, 0);
        let granted = started(name);
        let logged = Came::Outcome("replace LOG".into());
        assert_eq!(only(&mut *instance(&granted), "log"), logged);
        assert_eq!(granted.stats().lines, 1);
    }
}

#[test]
fn forty_tasks_of_a_large_component_change_over_to_another() {
    const TASKS: usize = 40;
    let (first, next) = match made().contains(&"python-0.1.0") {
        true => ("python-0.1.0", "python-1.0.0"),
        false => ("quickjs-0.1.0", "quickjs-1.0.0"),
    };
    let (batch, expected) = mixed();
    let slot = slot_of(first, LENIENT, TASKS).unwrap();
    let mut running: Vec<_> = (0..TASKS).map(|_| instance(&slot)).collect();
    slot.deploy(&component(next), next).unwrap();
    for operator in &mut running {
        assert_eq!(run(&mut **operator, &batch), expected);
        *operator = instance(&slot);
        assert_eq!(run(&mut **operator, &batch), expected);
    }
    assert_eq!(slot.stats().instances_lost, 0);
}
