//! A handler of tokens that behaves, or misbehaves, as its configuration says: `{"mode": "upper"}`. Modes that misbehave do
//! so at a piece that has the text `bad`; every other piece goes on as it is. Its exports are written by hand, since the SDK
//! would keep it from lying. Records pass.

#![cfg(target_family = "wasm")]
#![allow(
    unsafe_code,
    reason = "the exports of a component have the C calling convention"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use tidegate_record::{BatchView, OutcomesBuilder};
use tidegate_sdk::bindings::exports::tidegate::operator::packed;
use tidegate_sdk::bindings::tidegate::operator::types::Fields;
use tidegate_sdk::tokens::bindings::exports::tidegate::operator::tokens::{
    Ending, Failure, Guest, Lane, Piece, Verdict,
};
use tidegate_sdk::tokens::bindings::tidegate::operator::types::FailureClass;

thread_local! {
    static MODE: RefCell<String> = const { RefCell::new(String::new()) };
    static LANES: RefCell<BTreeMap<u64, Open>> = const { RefCell::new(BTreeMap::new()) };
    /// Whether a lane has spoilt this instance for all.
    static SPOILT: Cell<bool> = const { Cell::new(false) };
}

/// A lane that is open.
struct Open {
    /// What was said of it.
    told: String,
    held: String,
    steps: u64,
}

struct Tokens;

impl packed::Guest for Tokens {
    fn describe(config: String) -> Result<packed::Description, packed::Failure> {
        let is = |mode: &str| config.contains(&format!("\"{mode}\""));
        Ok(packed::Description {
            name: "see-tokens".into(),
            version: "1.0.0".into(),
            config_schema: "{}".into(),
            reads: match is("blind") {
                true => Fields::VALUE,
                false => Fields::all(),
            },
            outputs: Vec::new(),
            metrics: Vec::new(),
            handlers: match () {
                () if is("unnamed") => Vec::new(),
                () if is("twice") => vec!["tokens".into(), "tokens".into()],
                () => vec!["tokens".into()],
            },
            extensions: Vec::new(),
        })
    }

    fn init(config: String) -> Result<(), packed::Failure> {
        let mode = config.split('"').nth(3).unwrap_or_default();
        MODE.set(mode.to_owned());
        Ok(())
    }

    fn process(batch: Vec<u8>) -> Result<Vec<u8>, packed::Failure> {
        let records = BatchView::parse_frame(&batch).map_or(0, |batch| batch.len());
        let mut answer = OutcomesBuilder::with_capacity(records);
        for _ in 0..records {
            answer.pass();
        }
        Ok(answer.finish())
    }
}

impl Guest for Tokens {
    fn open(number: u64, lane: Lane) -> Result<(), Failure> {
        match mode().as_str() {
            "refuse" if lane.model == "bad" => return Err(failure("no such answer")),
            "trap-open" if lane.model == "bad" => panic!("at a lane"),
            _ => {}
        }
        let attributes: Vec<String> = lane
            .attributes
            .iter()
            .map(|pair| format!("{}={}", pair.name, String::from_utf8_lossy(&pair.value)))
            .collect();
        let Lane {
            identity,
            model,
            choice,
            kind,
            ..
        } = lane;
        let told = format!("{identity} {model} {choice} {kind:?} {attributes:?}");
        let open = Open {
            told,
            held: String::new(),
            steps: 0,
        };
        LANES.with_borrow_mut(|lanes| lanes.insert(number, open));
        Ok(())
    }

    fn step(pieces: Vec<Piece>) -> Result<Vec<Verdict>, Failure> {
        let mut verdicts = Vec::new();
        for piece in &pieces {
            let verdict = LANES.with_borrow_mut(|lanes| match lanes.get_mut(&piece.lane) {
                Some(open) => verdict(open, piece),
                None => Err(failure("no such lane")),
            })?;
            verdicts.extend(verdict);
        }
        Ok(verdicts)
    }

    fn close(number: u64) {
        if mode() == "trap-close" {
            panic!("at the end of a lane");
        }
        LANES.with_borrow_mut(|lanes| lanes.remove(&number));
    }
}

/// What becomes of a piece: usually one verdict.
fn verdict(open: &mut Open, piece: &Piece) -> Result<Vec<Verdict>, Failure> {
    let (mode, is_bad) = (mode(), piece.text == "bad");
    open.steps += 1;
    let text = piece.text.clone();
    let through = match mode.as_str() {
        "upper" => text.to_uppercase(),
        // Once, however the text is cut.
        "told" | "blind" => std::mem::take(&mut open.told),
        "steps" => open.steps.to_string(),
        // Holds everything back to the end; `forgetful` even then, and `hasty` unless the end has a text.
        "hold" | "forgetful" | "hasty" => {
            open.held += &text;
            let is_said = mode == "hold" || mode == "hasty" && !text.is_empty();
            match piece.last && is_said {
                true => std::mem::take(&mut open.held),
                false => String::new(),
            }
        }
        "stop" if is_bad => return Ok(ended("until here", Ending::Stop)),
        "filter" if is_bad => return Ok(ended("", Ending::Filtered)),
        "trap" if is_bad => panic!("at a piece"),
        "trap-empty" if text.is_empty() => panic!("at an empty piece"),
        "spoil" if text == "spoil" => {
            SPOILT.set(true);
            text
        }
        "spoil" if SPOILT.get() => panic!("at whatever comes"),
        "loop" if is_bad => loop {
            std::hint::black_box(&text);
        },
        "memory" if is_bad => loop {
            open.held += &"x".repeat(1 << 20);
        },
        "much" if is_bad => "x".repeat(2 << 20),
        // Each of them is within the limit, all of them are not.
        "swell" => "x".repeat(600 << 10),
        "none" if is_bad => return Ok(Vec::new()),
        "two" if is_bad => {
            let verdict = || Verdict {
                text: text.clone(),
                end: None,
            };
            return Ok(vec![verdict(), verdict()]);
        }
        "fail" if is_bad => return Err(failure("I refuse")),
        "busy" if is_bad => {
            return Err(Failure {
                class: FailureClass::Transient,
                ..failure("not now")
            });
        }
        _ => text,
    };
    Ok(vec![Verdict {
        text: through,
        end: None,
    }])
}

fn ended(text: &str, end: Ending) -> Vec<Verdict> {
    vec![Verdict {
        text: text.into(),
        end: Some(end),
    }]
}

fn mode() -> String {
    MODE.with_borrow(String::clone)
}

fn failure(message: &str) -> Failure {
    Failure {
        class: FailureClass::Permanent,
        code: "not-so".into(),
        message: message.into(),
    }
}

tidegate_sdk::bindings::export_component!(Tokens with_types_in tidegate_sdk::bindings);
tidegate_sdk::tokens::bindings::export_component!(Tokens with_types_in tidegate_sdk::tokens::bindings);
