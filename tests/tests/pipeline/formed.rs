//! Answers with a form whose tokens are handled: what leaves the stage has the form, or is a dead letter.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_contract::{
    AnswerEnd, AnswerLane, Finish, Handling, KeptRevision, Made, Operator, OperatorError,
    OperatorVersion, Processed, Slot, Structure, Through, TokenHandler,
};
use tidegate_flow::{AnswerInto, Ask, ModelStage, OperatorStage, Stage, StageKind, Target};
use tidegate_record::{Batch, Fields, OutcomesBuilder};

use crate::native::{Scripted, answer, asking, made, run_stages};

/// Passes records; on tokens it writes `high` for `low` and a quote for `Q`, and ends an answer before `STOP` or `BAD`.
#[derive(Clone)]
struct Changes(Arc<OperatorVersion>);

impl TokenHandler for Changes {
    fn open(&mut self, _: u64, _: &AnswerLane<'_>) -> Result<(), OperatorError> {
        Ok(())
    }
    fn step(&mut self, _: u64, text: &str, _: bool) -> Result<Through, OperatorError> {
        for (word, end) in [("STOP", AnswerEnd::Stop), ("BAD", AnswerEnd::Filtered)] {
            if let Some((before, _)) = text.split_once(word) {
                return Ok(Through {
                    text: before.into(),
                    end: Some(end),
                });
            }
        }
        Ok(Through {
            text: text.replace("Q", "\"").replace("low", "high"),
            end: None,
        })
    }
    fn close(&mut self, _: u64) {}
}

impl Operator for Changes {
    fn process(&mut self, batch: &Batch) -> Result<Vec<Processed>, OperatorError> {
        let mut outcomes = OutcomesBuilder::default();
        for _ in 0..batch.len() {
            outcomes.pass();
        }
        Ok(vec![Processed::Answer {
            first: 0,
            count: batch.len(),
            outcomes: outcomes.finish(),
            effects: None,
        }])
    }
    fn version(&self) -> &Arc<OperatorVersion> {
        &self.0
    }
}

impl Slot for Changes {
    fn generation(&self) -> u64 {
        1
    }
    fn instance(&self) -> Result<(u64, Box<dyn Operator>), OperatorError> {
        Ok((1, Box::new(self.clone())))
    }
    fn handles_tokens(&self) -> bool {
        true
    }
    fn tokens(&self) -> Result<Handling, OperatorError> {
        Ok(Handling {
            generation: 1,
            version: self.0.clone(),
            handler: Box::new(self.clone()),
        })
    }
    fn version(&self) -> Arc<OperatorVersion> {
        self.0.clone()
    }
}

/// What becomes of an answer with a form: the member of its record, or why it is a dead letter.
fn becomes(structure: Structure, text: &str, finish: Finish) -> Result<Value, String> {
    let text = text.to_owned();
    let model = Scripted::new(move |_, _| {
        let Made::Choices(mut choices) = answer(text.clone(), vec![1]).made else {
            unreachable!("it is a text");
        };
        choices[0].finish = finish;
        Ok(made(Made::Choices(choices)))
    });
    let mut asks = ModelStage {
        tokens: vec![1],
        into: AnswerInto::Member,
        ..asking(model, "{n}")
    };
    let Ask::Generate { parameters, .. } = &mut asks.ask else {
        unreachable!("it asks for a text");
    };
    parameters.structure = Some(structure);
    let slot = Changes(Arc::new(OperatorVersion {
        name: "changes".into(),
        version: "1.0.0".into(),
        digest: "sha256:0".into(),
        reads: Fields::ALL,
        outputs: Vec::new(),
        revision: KeptRevision::default(),
    }));
    let stages = vec![
        Stage {
            name: "ask".into(),
            targets: vec![Target::Stage(1)],
            kind: StageKind::Model(Box::new(asks)),
        },
        Stage {
            name: "changes".into(),
            targets: vec![Target::Sink(0)],
            kind: StageKind::Operator(OperatorStage {
                slot: Arc::new(slot),
                configured: "sha256:0".into(),
                named: Default::default(),
                retries: 3,
            }),
        },
    ];
    let left = run_stages(stages, &["out"], &[r#"{"n":1}"#]);
    match left.lines("out").as_slice() {
        [line] => Ok(line["answer"].clone()),
        _ => Err(left.lines("dead-letters")[0]["reason"].to_string()),
    }
}

#[test]
fn what_handlers_leave_of_a_form_goes_on_only_if_it_still_has_it() {
    let schema = || Structure::JsonSchema("{}".into());
    let choices = || Structure::Choice(vec!["low".into(), "high".into()]);
    let regex = || Structure::Regex("[a-z]*".into());
    for (structure, text, expected) in [
        (schema(), r#"{"a":"low"}"#, json!({"a": "high"})),
        (schema(), r#"{"a":1}STOP"#, json!({"a": 1})),
        (choices(), "low", json!("high")),
        (regex(), "as it was", json!("as it was")),
    ] {
        assert_eq!(becomes(structure, text, Finish::End), Ok(expected));
    }
    for (structure, text) in [
        (schema(), r#"{"a":"b STOP c"}"#),
        (schema(), r#"{"a":"b BAD c"}"#),
        (schema(), r#"{"a":"Q"}"#),
        (choices(), "hSTOP"),
        (regex(), "a low"),
        (regex(), "aBAD"),
    ] {
        let why = becomes(structure, text, Finish::End).unwrap_err();
        let says = "answer does not have the form that was asked for: handlers of tokens";
        assert!(why.contains(says), "{text}: {why}");
    }
    // Servers filter as well.
    let why = becomes(schema(), r#"{"a":"b"#, Finish::Filtered).unwrap_err();
    assert!(why.contains("it was filtered"), "{why}");
}
