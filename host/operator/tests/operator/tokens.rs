//! Handlers of tokens: what they see and let through, and how hostile ones end.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{AnswerEnd, AnswerLane, Lane, OperatorError, Slot, Through, TokenHandler};
use tidegate_operator::{Breaker, ComponentSlot, Limits, RevisionStats, SlotOptions};

use crate::support::*;

const ATTRIBUTES: &[(String, Vec<u8>)] = &[];

fn lane(lane: Lane) -> AnswerLane<'static> {
    AnswerLane {
        record: "source 0 partition 2 offset 7",
        model: "m",
        choice: 1,
        lane,
        attributes: ATTRIBUTES,
    }
}

fn content() -> AnswerLane<'static> {
    lane(Lane::Content)
}

fn slot_with(mode: &str, change: impl FnOnce(&mut SlotOptions)) -> ComponentSlot {
    let mut options = options(mode);
    change(&mut options);
    ComponentSlot::new(&ENGINE, options, &guest("tokens"), "tokens.wasm").unwrap()
}

fn slot_of(mode: &str) -> ComponentSlot {
    slot_with(mode, |_| {})
}

fn within(mode: &str, limits: Limits) -> ComponentSlot {
    slot_with(mode, |options| options.limits = limits)
}

fn handler(slot: &ComponentSlot) -> Box<dyn TokenHandler> {
    assert!(slot.handles_tokens());
    slot.tokens().unwrap().handler
}

fn text(text: &str) -> Result<Through, String> {
    Ok(Through {
        text: text.into(),
        end: None,
    })
}

fn step(handler: &mut dyn TokenHandler, number: u64, text: &str) -> Result<Through, String> {
    handler
        .step(number, text, false)
        .map_err(|error| error.to_string())
}

fn stats(slot: &ComponentSlot) -> RevisionStats {
    slot.revisions().remove(0).stats
}

/// A handler that has lane 1 and, of another answer, lane 2.
fn with_two_lanes(slot: &ComponentSlot) -> Box<dyn TokenHandler> {
    let mut handler = handler(slot);
    handler.open(1, &content()).unwrap();
    handler.open(2, &content()).unwrap();
    assert_eq!(step(&mut *handler, 1, "good"), text("good"));
    handler
}

fn is_lost<T: std::fmt::Debug>(came: Result<T, OperatorError>) -> bool {
    matches!(came, Err(OperatorError::Lost { .. }))
}

/// Why a lane has failed by itself.
#[track_caller]
fn verdict<T: std::fmt::Debug>(came: Result<T, OperatorError>) -> String {
    match came {
        Err(OperatorError::Poison { why, .. }) => why,
        other => panic!("no verdict: {other:?}"),
    }
}

/// That a bad piece costs the instance, which is nobody's fault while several lanes are open, and a verdict with this
/// reason on the lane that costs the next one by itself. The other goes on.
#[track_caller]
fn is_lost_by_a_bad_piece(slot: &ComponentSlot, why: &str) {
    let mut handler = with_two_lanes(slot);
    let error = handler.step(1, "bad", false).unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("an instance of tokens.wasm was lost: ") && said.contains(why),
        "{said}"
    );
    assert!(is_lost(handler.step(2, "good", false)), "its lane is gone");
    assert_eq!(stats(slot).failed, 0);
    handler.open(3, &content()).unwrap();
    assert_eq!(step(&mut *handler, 3, "good"), text("good"));
    let said = verdict(handler.step(3, "bad", false));
    assert!(said.contains(why), "{said}");
    handler.open(4, &content()).unwrap();
    assert_eq!(step(&mut *handler, 4, "good"), text("good"));
    let stats = stats(slot);
    assert_eq!((stats.lost_instances, stats.failed), (2, 1));
    // What answers records has an instance of its own.
    assert_eq!(run(&mut *instance(slot), &batch_of(["v"])).len(), 1);
}

#[test]
fn text_goes_through_a_handler_lane_by_lane() {
    let slot = slot_of("hold");
    let mut handler = handler(&slot);
    handler.open(7, &content()).unwrap();
    handler.open(8, &lane(Lane::Arguments(0))).unwrap();
    assert_eq!(step(&mut *handler, 7, "one "), text(""));
    assert_eq!(step(&mut *handler, 8, "{}"), text(""));
    assert_eq!(step(&mut *handler, 7, "two"), text(""));
    assert_eq!(handler.step(7, "", true).unwrap().text, "one two");
    assert_eq!(handler.step(8, "!", true).unwrap().text, "{}!");
    handler.close(7);
    handler.close(8);
    handler.close(9);
    let stats = stats(&slot);
    assert_eq!((stats.token_steps, stats.lost_instances), (5, 0));
    assert!(stats.guest_time > Duration::ZERO && stats.memory > 0);
    // A number that was closed is free.
    handler.open(7, &content()).unwrap();
    assert_eq!(handler.step(7, "new", true).unwrap().text, "new");
}

#[test]
fn a_handler_is_told_of_its_lane_what_it_reads() {
    let attributes = [("pii.map".to_owned(), b"{}".to_vec())];
    for (mode, kind, told) in [
        ("told", Lane::Content, r#"Content ["pii.map={}"]"#),
        ("told", Lane::Reasoning, r#"Reasoning ["pii.map={}"]"#),
        ("told", Lane::Arguments(3), r#"Arguments(3) ["pii.map={}"]"#),
        ("blind", Lane::Content, "Content []"),
    ] {
        let lane = AnswerLane {
            attributes: &attributes,
            ..lane(kind)
        };
        let mut handler = handler(&slot_of(mode));
        handler.open(1, &lane).unwrap();
        let expected = format!("source 0 partition 2 offset 7 m 1 LaneKind::{told}");
        assert_eq!(step(&mut *handler, 1, "x"), text(&expected));
    }
}

#[test]
fn an_answer_ends_where_its_handler_says() {
    for (mode, through, end) in [
        ("stop", "until here", AnswerEnd::Stop),
        ("filter", "", AnswerEnd::Filtered),
    ] {
        let mut handler = handler(&slot_of(mode));
        handler.open(1, &content()).unwrap();
        assert_eq!(step(&mut *handler, 1, "good"), text("good"));
        let expected = Through {
            text: through.into(),
            end: Some(end),
        };
        assert_eq!(step(&mut *handler, 1, "bad"), Ok(expected));
        let error = step(&mut *handler, 1, "more").unwrap_err();
        assert!(error.contains("lane 1 has ended"), "{error}");
        handler.close(1);
    }
}

#[test]
fn what_is_not_open_gets_no_text() {
    let slot = slot_of("upper");
    let mut handler = handler(&slot);
    handler.open(1, &content()).unwrap();
    let twice = handler.open(1, &content()).unwrap_err().to_string();
    assert!(twice.contains("lane 1 is open already"), "{twice}");
    assert!(is_lost(handler.step(2, "x", false)), "or never was");
    let unknown = step(&mut *handler, 2, "x").unwrap_err();
    assert!(unknown.contains("lane 2 is not open"), "{unknown}");
    assert_eq!(handler.step(1, "x", true).unwrap().text, "X");
    let over = step(&mut *handler, 1, "x").unwrap_err();
    assert!(over.contains("lane 1 has ended"), "{over}");
    assert_eq!(stats(&slot).lost_instances, 0);
}

#[test]
fn lanes_that_are_open_are_bounded() {
    let mut handler = handler(&slot_of("upper"));
    for number in 0..4096 {
        handler.open(number, &content()).unwrap();
    }
    let error = handler.open(4096, &content()).unwrap_err().to_string();
    assert!(error.contains("4096 lanes are open, limit 4096"), "{error}");
    handler.close(0);
    handler.open(4096, &content()).unwrap();
}

#[test]
fn a_trap_costs_the_instance_and_is_a_verdict_on_a_lane_that_was_alone_in_it() {
    is_lost_by_a_bad_piece(&slot_of("trap"), "trap: ");
}

#[test]
fn a_handler_that_never_returns_is_ended_by_the_deadline() {
    let hasty = Limits {
        deadline: Duration::from_millis(300),
        ..patient()
    };
    is_lost_by_a_bad_piece(&within("loop", hasty), "no answer within limits.deadline");
}

#[test]
fn a_handler_that_grows_without_end_meets_its_memory() {
    let limits = Limits {
        memory: 8 << 20,
        ..patient()
    };
    is_lost_by_a_bad_piece(&within("memory", limits), "memory: needed");
}

#[test]
fn a_handler_that_answers_too_much_is_refused() {
    let limits = Limits {
        output: 1 << 20,
        ..patient()
    };
    let slot = within("much", limits.clone());
    is_lost_by_a_bad_piece(&slot, "output: the answer exceeds the limit of 1 MiB");
    let slot = within("swell", limits);
    let mut handler = handler(&slot);
    handler.open(1, &content()).unwrap();
    step(&mut *handler, 1, "x").unwrap();
    let error = step(&mut *handler, 1, "x").unwrap_err();
    assert!(
        error.contains("it lets 1.2 MiB of a lane through, limit 1 MiB"),
        "{error}"
    );
}

#[test]
fn a_wrong_number_of_verdicts_is_a_bad_answer() {
    is_lost_by_a_bad_piece(&slot_of("none"), "bad answer: 0 verdicts for 1 piece");
    is_lost_by_a_bad_piece(&slot_of("two"), "bad answer: 2 verdicts for 1 piece");
}

#[test]
fn what_is_held_back_at_the_end_of_a_lane_is_gone() {
    let mut handler = handler(&slot_of("forgetful"));
    handler.open(1, &content()).unwrap();
    assert_eq!(step(&mut *handler, 1, "one"), text(""));
    assert_eq!(handler.step(1, "two", true).unwrap().text, "");
}

#[test]
fn a_failure_in_words_ends_its_own_lane_and_counts_as_a_failed_record_and_no_loss() {
    let slot = slot_of("fail");
    let mut handler = with_two_lanes(&slot);
    let why = verdict(handler.step(1, "bad", false));
    assert_eq!(why, "operator error not-so: I refuse");
    assert_eq!(step(&mut *handler, 2, "good"), text("good"));
    let stats = stats(&slot);
    assert_eq!((stats.lost_instances, stats.failed), (0, 1));
    handler.open(1, &content()).unwrap();
    assert_eq!(step(&mut *handler, 1, "good"), text("good"));
}

#[test]
fn a_failure_that_may_pass_is_no_verdict() {
    let slot = slot_of("busy");
    let mut handler = with_two_lanes(&slot);
    let error = handler.step(1, "bad", false).unwrap_err();
    assert!(matches!(error, OperatorError::Failed { .. }), "{error:?}");
    assert_eq!(step(&mut *handler, 2, "good"), text("good"));
    let stats = stats(&slot);
    assert_eq!((stats.lost_instances, stats.failed), (0, 0));
}

#[test]
fn a_lane_that_is_refused_leaves_the_others_open() {
    let bad = AnswerLane {
        model: "bad",
        ..content()
    };
    let slot = slot_of("refuse");
    let mut handler = with_two_lanes(&slot);
    let why = verdict(handler.open(3, &bad));
    assert!(why.ends_with("not-so: no such answer"), "{why}");
    assert!(step(&mut *handler, 3, "x").is_err());
    assert_eq!(step(&mut *handler, 2, "good"), text("good"));
    assert_eq!(stats(&slot).failed, 1);
    // One of which the handler dies by itself is refused as well.
    let slot = slot_of("trap-open");
    let mut handler = with_two_lanes(&slot);
    assert!(is_lost(handler.open(3, &bad)));
    assert!(is_lost(handler.step(2, "good", false)));
    assert!(verdict(handler.open(4, &bad)).contains("trap: "));
    handler.open(5, &content()).unwrap();
    assert_eq!(step(&mut *handler, 5, "good"), text("good"));
}

#[test]
fn what_an_instance_remembers_is_no_lanes_fault() {
    let slot = slot_of("spoil");
    let mut handler = handler(&slot);
    handler.open(1, &content()).unwrap();
    step(&mut *handler, 1, "spoil").unwrap();
    handler.close(1);
    handler.open(2, &content()).unwrap();
    assert!(is_lost(handler.step(2, "good", false)));
    handler.open(3, &content()).unwrap();
    assert_eq!(step(&mut *handler, 3, "good"), text("good"));
    assert_eq!(stats(&slot).failed, 0);
}

#[test]
fn a_handler_that_is_lost_at_the_end_of_a_lane_costs_the_others_their_lanes_and_nobody_the_answer()
{
    let slot = slot_of("trap-close");
    let mut handler = with_two_lanes(&slot);
    handler.close(1);
    let error = handler.step(2, "good", false).unwrap_err();
    assert!(is_lost::<()>(Err(error.clone())));
    assert!(error.to_string().contains("was lost: trap"), "{error}");
    let stats = stats(&slot);
    assert_eq!((stats.lost_instances, stats.failed), (1, 0));
    handler.open(3, &content()).unwrap();
    assert_eq!(step(&mut *handler, 3, "good"), text("good"));
}

fn breaker(lost_instances: Option<u64>, failed_records: Option<u64>) -> Breaker {
    Breaker {
        lost_instances,
        failed_records,
        window: Duration::from_secs(3600),
    }
}

#[test]
fn losses_of_handlers_count_for_the_breaker_once_for_each_search() {
    let slot = slot_with("trap", |options| options.breaker = breaker(Some(2), None));
    let mut handler = handler(&slot);
    let mut number = 0;
    let mut search = || -> Result<_, OperatorError> {
        number += 3;
        handler.open(number, &content()).unwrap();
        handler.open(number + 1, &content()).unwrap();
        let shared = handler.step(number, "bad", false).unwrap_err();
        handler.open(number + 2, &content())?;
        Ok((shared, handler.step(number + 2, "bad", false).unwrap_err()))
    };
    for _ in 0..2 {
        let (shared, alone) = search().unwrap();
        assert!(matches!(shared, OperatorError::Lost { .. }), "{shared:?}");
        assert!(matches!(alone, OperatorError::Poison { .. }), "{alone:?}");
        assert_eq!(slot.tripped(), None);
    }
    // The third trips it, and what it was in waits for another version.
    let tripped = search().unwrap_err();
    assert!(
        matches!(tripped, OperatorError::Tripped { .. }),
        "{tripped:?}"
    );
    assert!(slot.tripped().is_some());
    assert!(slot.tokens().is_err());
}

#[test]
fn answers_that_a_handler_ends_count_as_failed_records_for_the_breaker() {
    let slot = slot_with("fail", |options| options.breaker = breaker(None, Some(2)));
    let mut handler = handler(&slot);
    handler.open(9, &content()).unwrap();
    for number in 0..3 {
        assert_eq!(slot.tripped(), None);
        handler.open(number, &content()).unwrap();
        verdict(handler.step(number, "bad", false));
    }
    let why = slot.tripped().unwrap();
    assert!(why.starts_with("3 records failed within "), "{why}");
    // It answers nothing more, and that is no verdict.
    for error in [
        handler.step(9, "good", false).map(drop).unwrap_err(),
        handler.open(10, &content()).unwrap_err(),
    ] {
        assert!(matches!(error, OperatorError::Tripped { .. }), "{error:?}");
    }
    assert_eq!(stats(&slot).failed, 3);
}

#[test]
fn the_same_text_to_a_fresh_instance_lets_the_same_through() {
    let slot = slot_of("upper");
    let through = |pieces: &[&str]| {
        let mut handler = handler(&slot);
        handler.open(1, &content()).unwrap();
        let pieces = pieces.iter().map(|piece| handler.step(1, piece, false));
        pieces
            .map(|through| through.unwrap().text)
            .collect::<String>()
    };
    assert_eq!(through(&["one", " two"]), "ONE TWO");
    assert_eq!(through(&["o", "ne t", "wo"]), "ONE TWO");
}

#[test]
fn a_handler_that_is_exported_and_not_named_is_not_called() {
    let slot = slot_of("unnamed");
    assert!(!slot.handles_tokens());
    let error = slot.tokens().err().unwrap().to_string();
    assert!(error.contains("it handles no tokens"), "{error}");
    assert_eq!(run(&mut *instance(&slot), &batch_of(["v"])).len(), 1);
}

#[test]
fn a_handler_that_is_named_and_not_exported_is_refused() {
    let why = |component: &[u8], mode: &str| {
        ComponentSlot::new(&ENGINE, options(mode), component, "x.wasm")
            .unwrap_err()
            .to_string()
    };
    let said = why(&guest("hostile"), "handles-tokens");
    let expected =
        "it has the handler \"tokens\" and does not export tidegate:operator/tokens@1.0.0";
    assert!(said.contains(expected), "{said}");
    let said = why(&guest("tokens"), "twice");
    assert!(
        said.contains("it names the handler \"tokens\" 2 times"),
        "{said}"
    );
}

#[test]
fn operators_of_before_handle_no_tokens() {
    let slot = slot("pass", PASS);
    assert!(!slot.handles_tokens());
    assert!(matches!(slot.tokens(), Err(OperatorError::Unfit { .. })));
    assert!(!hostile("outcomes").handles_tokens());
}

#[test]
fn a_deployment_changes_whether_tokens_are_handled() {
    let slot = Arc::new(slot_of("upper"));
    let handling = slot.tokens().unwrap();
    let (generation, mut handler) = (handling.generation, handling.handler);
    assert_eq!(generation, slot.generation());
    handler.open(1, &content()).unwrap();
    slot.deploy_with(&guest("tokens"), "tokens.wasm", "{\"mode\": \"unnamed\"}")
        .unwrap();
    assert!(!slot.handles_tokens() && slot.generation() > generation);
    // What was begun is done by the version that began it.
    assert_eq!(step(&mut *handler, 1, "x"), text("X"));
}

#[test]
fn a_version_that_handles_no_tokens_is_refused_where_the_pipeline_has_them_handled() {
    let slot = slot_with("upper", |options| options.requires_tokens = true);
    let generation = slot.generation();
    let refused = |mode: &str| {
        let config = format!("{{\"mode\": {mode:?}}}");
        let refused = slot.deploy_with(&guest("tokens"), "tokens.wasm", &config);
        let error = refused.unwrap_err();
        assert!(matches!(error, OperatorError::Unfit { .. }), "{error:?}");
        error.to_string()
    };
    let said = refused("unnamed");
    assert!(
        said.contains("the pipeline has tokens of answers handled here, and it handles no tokens"),
        "{said}"
    );
    // And one that does not get through a text at all.
    let said = refused("trap-empty");
    assert!(
        said.contains("it does not handle a text without tokens: trap: "),
        "{said}"
    );
    assert!(slot.handles_tokens() && slot.generation() == generation);
    // Whatever else it does, it may be deployed.
    slot.deploy_with(&guest("tokens"), "tokens.wasm", "{\"mode\": \"fail\"}")
        .unwrap();
    let error = ComponentSlot::new(
        &ENGINE,
        SlotOptions {
            requires_tokens: true,
            ..options("unnamed")
        },
        &guest("tokens"),
        "tokens.wasm",
    )
    .unwrap_err();
    assert!(matches!(error, OperatorError::Unfit { .. }), "{error:?}");
}

#[test]
fn what_a_revision_handles_is_remembered() {
    let ran = slot_of("upper").version().revision.clone();
    let said: serde_json::Value = serde_json::from_str(&ran.description).unwrap();
    assert_eq!(said["handles_tokens"], true);
    let given = guest("tokens");
    let slot =
        ComponentSlot::resume(&ENGINE, options("upper"), &given, "tokens.wasm", &ran).unwrap();
    assert!(slot.handles_tokens());
}

#[test]
fn shipped_operators_change_an_answer_as_it_is_made() {
    let attributes = [(
        "pii.map".to_owned(),
        br#"{"[NAME_1]": "Al \"A\" Bo"}"#.to_vec(),
    )];
    let pieces = ["{\"to\": \"[NA", "ME_1]\"", "}"];
    let through = |component: &str, config: &str| {
        let options = SlotOptions {
            config: config.into(),
            limits: patient(),
            ..SlotOptions::new(component)
        };
        let slot = ComponentSlot::new(&ENGINE, options, &guest(component), component).unwrap();
        let mut handler = handler(&slot);
        let lane = AnswerLane {
            attributes: &attributes,
            ..lane(Lane::Arguments(0))
        };
        handler.open(1, &lane).unwrap();
        let mut came = Vec::new();
        for piece in pieces {
            came.push(handler.step(1, piece, piece == "}").unwrap());
            if came.iter().any(|through| through.end.is_some()) {
                break;
            }
        }
        came
    };
    let texts: Vec<String> = through("restore-pii", "{}")
        .into_iter()
        .map(|through| through.text)
        .collect();
    assert_eq!(texts, ["{\"to\": \"", "Al \\\"A\\\" Bo\"", "}"]);
    let ended = through("guard-answer", r#"{"filter": ["to"]}"#);
    assert_eq!(ended[0].text, "{\"");
    assert_eq!(ended[0].end, Some(AnswerEnd::Filtered));
}
