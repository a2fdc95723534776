//! Hostile operators: each ends in the documented way, and the stream goes on.

use tidegate_tests::Place;

fn pipeline(mode: &str, deadline: &str) -> String {
    format!(
        r#"
[pipeline]
name = "hostile"
batch = 256
[source.in]
type = "file"
paths = ["in.txt"]
format = "raw"
[[stage]]
name = "hostile"
operator = "{{operators}}/hostile.wasm"
config = {{ mode = "{mode}" }}
limits = {{ memory = "32MiB", deadline = "{deadline}", output = "8MiB", bisect = "10s" }}
[sink.out]
type = "file"
path = "out.txt"
format = "raw"
[dead-letters]
type = "file"
path = "dead.jsonl"
"#
    )
}

/// A thousand records with one that is bad.
fn input() -> String {
    (0..1000)
        .map(|n| {
            if n == 700 {
                "bad\n".to_owned()
            } else {
                format!("record {n}\n")
            }
        })
        .collect()
}

/// Runs a mode; the bad record alone must be dead, with this word in the reason.
fn ends_with(mode: &str, deadline: &str, word: &str) -> serde_json::Value {
    let place = Place::new(&pipeline(mode, deadline));
    place.write("in.txt", input());
    place.run_pipeline();
    let expected: String = input().replace("bad\n", "");
    assert!(
        place.read("out.txt") == expected.as_bytes(),
        "{mode}: the other 999 records go on, in order"
    );
    let dead = place.json_lines("dead.jsonl");
    assert_eq!(dead.len(), 1, "{mode}: {dead:?}");
    let letter = dead[0].clone();
    assert_eq!(letter["value"], "bad", "{mode}");
    assert_eq!(letter["stage"], "hostile", "{mode}");
    assert!(
        letter["component"].as_str().unwrap().starts_with("sha256:"),
        "{mode}: {letter}"
    );
    let reason = letter["reason"].as_str().unwrap();
    assert!(
        reason.contains(word),
        "{mode}: {reason:?} should say {word}"
    );
    letter
}

#[test]
fn a_trap_on_one_record_in_a_thousand_costs_that_record() {
    let letter = ends_with("trap", "1s", "trap");
    let backtrace = letter["backtrace"].as_str().unwrap();
    assert!(backtrace.contains("wasm"), "{backtrace}");
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    ends_with("loop", "200ms", "deadline");
}

#[test]
fn unbounded_memory_is_refused_at_the_limit() {
    ends_with("grow", "1s", "32 MiB");
}

#[test]
fn an_answer_of_a_gibibyte_is_refused() {
    // Made in the guest, claimed without being there, and of a length that memory allows but the limit does not.
    ends_with("huge", "1s", "memory: needed 1.0 GiB, limit 32 MiB");
    ends_with(
        "huge-lie",
        "1s",
        "bad answer: list pointer/length out of bounds of memory",
    );
    ends_with("long", "1s", "exceeds the limit of 8 MiB");
}

#[test]
fn wrong_offsets_in_an_answer_are_found() {
    ends_with("offsets", "1s", "malformed");
}

#[test]
fn a_wrong_number_of_outcomes_is_found() {
    ends_with("fewer", "1s", "outcomes for");
}

#[test]
fn an_operator_that_refuses_says_why() {
    ends_with("error", "1s", "I refuse");
}
