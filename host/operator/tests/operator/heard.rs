//! What a slot is given for a trial: who hears its lines, what is drawn from, a component that is compiled already.

use std::sync::{Arc, Mutex};

use tidegate_operator::{ComponentSlot, Level, Listener, SlotOptions};

use crate::support::*;

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(Level, String)>>);

impl Listener for Heard {
    fn line(&self, level: Level, line: &str) {
        self.0.lock().unwrap().push((level, line.to_owned()));
    }
}

#[test]
fn a_listener_hears_every_line_in_the_logs_place() {
    let heard = Arc::new(Heard::default());
    let options = SlotOptions {
        listener: Some(heard.clone()),
        ..options("flood")
    };
    let slot = ComponentSlot::new(&ENGINE, options, &guest("hostile"), "hostile").unwrap();
    run(&mut *instance(&slot), &batch_of(["v"]));
    let lines = heard.0.lock().unwrap();
    assert_eq!(lines.len(), 10_001);
    assert_eq!(lines[7], (Level::Info, "line 7".to_owned()));
    let (level, long) = &lines[10_000];
    assert!(*level == Level::Warn && long.len() < 5000 && long.ends_with("bytes in all)"));
    assert_eq!(
        (slot.stats().lines, slot.stats().lines_suppressed),
        (10_001, 0)
    );
}

#[test]
fn a_slot_of_a_compiled_component_draws_from_the_seed_that_it_is_given() {
    let component = ENGINE.compile(&guest("hostile"), "hostile").unwrap();
    let rendered = |seed: Option<[u8; 16]>| {
        let options = SlotOptions {
            seed,
            ..options("echo")
        };
        let slot = ComponentSlot::of(&component, options).unwrap();
        match run(&mut *instance(&slot), &batch_of(["v"])).remove(0) {
            Came::Outcome(outcome) => outcome,
            Came::Poison(cause) => panic!("{cause:?}"),
        }
    };
    let mut seed = [0; 16];
    (seed[0], seed[8]) = (3, 4);
    assert!(
        rendered(Some(seed)).ends_with("(3, 4)))"),
        "{}",
        rendered(Some(seed))
    );
    assert_ne!(rendered(None), rendered(Some(seed)));
}
