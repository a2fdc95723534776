//! What of an answer has been shown, so that the audit has it however the question ends.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tidegate_contract::{
    Answer, AuditContent, AuditDoor, Audited, DoorShut, Made, Model, ModelError, ModelFacts, Shown,
};
use tidegate_control::{Hearer, ModelQuestion};

/// How a question ended for whoever asked.
pub(super) enum End {
    Ended(Result<Answer, ModelError>),
    /// Nobody hears it any more.
    Left,
    /// The model has not ended it in time.
    Late,
}

/// A question, with what was shown of its answer.
pub(super) struct Showing {
    question: ModelQuestion,
    record: String,
    model: Arc<dyn Model>,
    /// The model's when it was asked.
    facts: ModelFacts,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    text: String,
    /// It has its line: nothing more is shown.
    is_written: bool,
}

/// The line of a question, until it has ended.
pub(super) struct Place {
    pub(super) showing: Arc<Showing>,
    door: Option<(Arc<dyn AuditDoor>, u64)>,
}

impl Place {
    /// Of a question that is about to be asked; where there is no audit it has no door.
    pub(super) fn begin(
        question: &ModelQuestion,
        record: String,
        model: Arc<dyn Model>,
        door: Option<Arc<dyn AuditDoor>>,
    ) -> Result<Place, DoorShut> {
        let showing = Arc::new(Showing {
            question: question.clone(),
            record,
            facts: model.facts(),
            model,
            so_far: Mutex::default(),
        });
        let begun = door.map(|door| {
            let place = door.begin(showing.clone())?;
            Ok((door, place))
        });
        Ok(Place {
            door: begun.transpose()?,
            showing,
        })
    }

    /// It was not asked, so it has no line.
    pub(super) fn unasked(self) {
        if let Some((door, place)) = self.door {
            // Where the run has just ended, its line says that it was left.
            let _ = door.end(place, None);
        }
    }

    /// It has ended. An error says why that has no line.
    pub(super) fn end(self, end: &End) -> Result<(), DoorShut> {
        let Some((door, place)) = self.door else {
            return Ok(());
        };
        let mut so_far = self.showing.lock();
        if so_far.is_written {
            return Err(DoorShut::Ended);
        }
        let mut taken = Ok(());
        self.showing.line(&so_far.text, end, &mut |audited| {
            taken = door.end(place, Some(audited));
        });
        so_far.is_written = taken.is_ok();
        taken
    }
}

impl Showing {
    fn lock(&self) -> MutexGuard<'_, SoFar> {
        // Each change is whole before anything can panic.
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows more of the answer, unless its line is written.
    pub(super) fn show(&self, text: &str, tokens: u32, hearer: &dyn Hearer) -> bool {
        let mut so_far = self.lock();
        if so_far.is_written {
            return false;
        }
        so_far.text.push_str(text);
        hearer.hears(text, tokens);
        true
    }

    fn line(&self, shown: &str, end: &End, take: &mut dyn FnMut(&Audited<'_>)) {
        let question = &self.question;
        // Replaced meanwhile: which of the two has answered is not known.
        let digest =
            Some(&self.facts.digest).filter(|digest| **digest == self.model.facts().digest);
        let mut facts = json!({
            "caller": null, "trace": null, "operators": [], "handlers": [],
            "model": {"name": question.model, "digest": digest, "adapter": self.facts.adapter},
            "seed": question.seed,
            "parameters": {
                "max_tokens": question.max_tokens, "temperature": question.temperature,
                "raw": question.raw,
            },
        });
        let mut content = json!({"asked": question.prompt});
        if let Some(system) = &question.system {
            content["system"] = json!(system);
        }
        match end {
            End::Ended(Ok(answer)) => answered(answer, &mut facts, &mut content),
            End::Ended(Err(error)) => {
                facts["outcome"] = json!("failed");
                content["reason"] = json!(error.to_string());
                content["shown"] = json!(shown);
            }
            End::Left | End::Late => {
                facts["outcome"] = json!("left");
                content["shown"] = json!(shown);
            }
        }
        take(&Audited {
            record: &self.record,
            stage: "",
            attempt: 0,
            facts: &facts.to_string(),
            content: Some(&Text(content)),
            told: true,
        });
    }
}

impl Shown for Showing {
    fn close(&self, line: &mut dyn FnMut(&Audited<'_>)) {
        let mut so_far = self.lock();
        if !std::mem::replace(&mut so_far.is_written, true) {
            self.line(&so_far.text, &End::Left, line);
        }
    }
}

struct Text(Value);

impl AuditContent for Text {
    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        Ok(serde_json::to_writer(to, &self.0)?)
    }
}

fn answered(answer: &Answer, facts: &mut Value, content: &mut Value) {
    facts["outcome"] = json!("answered");
    facts["prompt_tokens"] = json!(answer.prompt_tokens);
    let (mut tokens, mut finish) = (0, "");
    match &answer.made {
        Made::Choices(choices) => {
            if let Some(choice) = choices.first() {
                (tokens, finish) = (choice.tokens.len(), choice.finish.name());
            }
            let choices = choices.iter().map(|choice| {
                json!({
                    "text": choice.text, "reasoning": choice.reasoning, "calls": [],
                    "tokens": choice.tokens, "finish": choice.finish.name(),
                })
            });
            content["choices"] = choices.collect();
        }
        Made::Embedding(vector) => content["embedding"] = json!(vector),
        Made::Labels(labels) => content["labels"] = json!(labels),
        Made::Entities(entities) => content["entities"] = json!(entities),
        Made::Relevance(scores) => content["relevance"] = json!(scores),
    }
    facts["tokens"] = json!(tokens);
    facts["finish"] = json!(finish);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::playground::lent::tests::Keeper;

    /// Lines as they are taken, and the question that is under way.
    #[derive(Default)]
    struct Lines {
        taken: Mutex<Vec<(Value, Value)>>,
        open: Mutex<Option<Arc<dyn Shown>>>,
        is_shut: AtomicBool,
    }

    impl Lines {
        fn add(&self, audited: &Audited<'_>) {
            let mut content = Vec::new();
            audited.content.unwrap().write(&mut content).unwrap();
            let facts = serde_json::from_str(audited.facts).unwrap();
            let line = (facts, serde_json::from_slice(&content).unwrap());
            self.taken.lock().unwrap().push(line);
        }

        fn shut(&self) {
            self.is_shut.store(true, Ordering::Relaxed);
            let open = self.open.lock().unwrap().take();
            open.unwrap().close(&mut |audited| self.add(audited));
        }
    }

    impl AuditDoor for Lines {
        fn take(&self, _: &Audited<'_>) -> Result<(), DoorShut> {
            Err(DoorShut::Ended)
        }

        fn begin(&self, question: Arc<dyn Shown>) -> Result<u64, DoorShut> {
            *self.open.lock().unwrap() = Some(question);
            Ok(1)
        }

        fn end(&self, _: u64, audited: Option<&Audited<'_>>) -> Result<(), DoorShut> {
            if self.is_shut.load(Ordering::Relaxed) {
                return Err(DoorShut::Ended);
            }
            audited.into_iter().for_each(|audited| self.add(audited));
            Ok(())
        }
    }

    #[derive(Default)]
    struct Heard(Mutex<String>);

    impl Hearer for Heard {
        fn begins(&self) {}

        fn hears(&self, text: &str, _tokens: u32) {
            self.0.lock().unwrap().push_str(text);
        }

        fn is_there(&self) -> bool {
            true
        }
    }

    fn begun(lines: &Arc<Lines>, keeper: &Arc<Keeper>) -> Place {
        let question = ModelQuestion {
            model: "support".into(),
            prompt: "hello".into(),
            raw: true,
            ..ModelQuestion::default()
        };
        let door = Some(lines.clone() as Arc<dyn AuditDoor>);
        Place::begin(
            &question,
            "playground/model/1/2".into(),
            keeper.clone(),
            door,
        )
        .unwrap()
    }

    #[test]
    fn what_was_shown_is_in_the_line_however_the_question_ends() {
        let (lines, keeper) = (Arc::<Lines>::default(), Arc::<Keeper>::default());
        let heard = Heard::default();
        let ends = [
            (End::Left, "left", Value::Null),
            (End::Late, "left", Value::Null),
            (
                End::Ended(Err(ModelError::Closed)),
                "failed",
                json!(ModelError::Closed.to_string()),
            ),
        ];
        for (end, outcome, reason) in ends {
            let place = begun(&lines, &keeper);
            assert!(place.showing.show("Hello ", 1, &heard));
            assert!(place.showing.show("you", 2, &heard));
            place.end(&end).unwrap();
            let (facts, content) = lines.taken.lock().unwrap().pop().unwrap();
            assert_eq!(facts["outcome"], outcome);
            assert_eq!(facts["parameters"]["raw"], true);
            assert_eq!(facts["model"]["digest"], "");
            assert_eq!(
                (&content["shown"], &content["reason"]),
                (&json!("Hello you"), &reason)
            );
        }
        // A model that was replaced meanwhile.
        let place = begun(&lines, &keeper);
        *keeper.digest.lock().unwrap() = "sha256:other".into();
        place.end(&End::Left).unwrap();
        let (facts, _) = lines.taken.lock().unwrap().pop().unwrap();
        assert_eq!(facts["model"]["digest"], Value::Null);
    }

    #[test]
    fn what_was_shown_before_the_run_ended_is_in_its_last_lines_and_nothing_is_shown_then() {
        let (lines, keeper) = (Arc::<Lines>::default(), Arc::<Keeper>::default());
        let heard = Heard::default();
        let place = begun(&lines, &keeper);
        assert!(place.showing.show("Hello", 1, &heard));
        lines.shut();
        assert!(!place.showing.show(" you", 2, &heard));
        assert_eq!(*heard.0.lock().unwrap(), "Hello");
        assert_eq!(place.end(&End::Left), Err(DoorShut::Ended));
        let taken = lines.taken.lock().unwrap();
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].1["shown"], "Hello");
    }
}
