//! What the audit has of a question that has ended: who asked, what was asked, and who answered with what.

use serde_json::{Map, Value, json};
use tidegate_contract::{
    Answer, AuditLog, Audited, CallerId, CommitError, Cut, Made, Parameters, SinkError, Structure,
};
use tidegate_record::RecordView;

use crate::asked;
use crate::entry::{Entry, UNKNOWN_MODEL};
use crate::topology::{Ask, ModelStage, StageKind, Topology};

/// The header by which a trace goes on (W3C Trace Context).
const TRACE: &str = "traceparent";

/// How a question ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome<'a> {
    /// With an answer.
    Answered(&'a Answer),
    /// With none, and why.
    Failed(&'a str),
    /// Whoever asked has gone. What was made until then may have been shown.
    Left,
}

/// A line of the audit that is of no record of this run.
#[derive(Clone, Debug)]
pub struct AuditLine {
    /// What was asked about, in the place of a record: no source can be called so.
    pub record: String,
    /// What is nobody's secret: a JSON object, as text.
    pub facts: String,
    /// What was asked and answered: a JSON object, as text.
    pub content: String,
}

/// A worker's view of the audit; nothing where there is none.
#[derive(Default)]
pub(crate) struct Audit {
    log: Option<Box<dyn AuditLog>>,
    /// Lines of no record that are not flushed. Nothing brings them again, so they are kept when a cut comes to nothing.
    beside: Vec<AuditLine>,
    /// A cut came to nothing: they are to be collected again.
    forgotten: bool,
}

impl Audit {
    pub(crate) fn new(log: Option<Box<dyn AuditLog>>) -> Audit {
        Audit {
            log,
            beside: Vec::new(),
            forgotten: false,
        }
    }

    /// Takes a line of no record. Returns whether there is an audit that has it.
    pub(crate) fn add(&mut self, line: AuditLine) -> Result<bool, CommitError> {
        let Some(log) = &mut self.log else {
            return Ok(false);
        };
        if !self.forgotten {
            write(log.as_mut(), &line)?;
        }
        self.beside.push(line);
        Ok(true)
    }

    /// A question of this stage has ended.
    pub(crate) fn ended(
        &mut self,
        topology: &Topology,
        stage: usize,
        entry: &Entry,
        outcome: Outcome<'_>,
    ) -> Result<(), CommitError> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let (Some(described), Some(record)) = (topology.stages.get(stage), entry.view()) else {
            return Ok(());
        };
        let StageKind::Model(kind) = &described.kind else {
            return Ok(());
        };
        let id = record.id();
        let source = topology.sources.get(usize::from(id.source));
        let source = source.map_or("", |source| source.name.as_str());
        let name = format!("{source}/{}/{}/{}", id.partition, id.offset, id.emit);
        let facts = facts(topology, (&described.name, kind), entry, &record, outcome);
        let content = content(kind, entry, &record, outcome);
        let audited = Audited {
            record: &name,
            facts: &Value::Object(facts).to_string(),
            content: &Value::Object(content).to_string(),
        };
        log.write(&audited).map_err(failed)
    }

    pub(crate) fn pending(&self) -> usize {
        let lines = self.beside.iter().filter(|_| self.forgotten);
        let forgotten: usize = lines
            .map(|line| line.facts.len() + line.content.len())
            .sum();
        forgotten + self.log.as_ref().map_or(0, |log| log.pending())
    }

    pub(crate) fn discard(&mut self) {
        if let Some(log) = &mut self.log {
            log.discard();
        }
        self.forgotten = !self.beside.is_empty();
    }

    pub(crate) fn flush(&mut self, cut: &mut Cut) -> Result<(), CommitError> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        if std::mem::take(&mut self.forgotten) {
            let mut beside = self.beside.iter();
            beside.try_for_each(|line| write(log.as_mut(), line))?;
        }
        cut.sinks.extend(log.flush().map_err(failed)?);
        self.beside.clear();
        Ok(())
    }
}

fn write(log: &mut dyn AuditLog, line: &AuditLine) -> Result<(), CommitError> {
    let audited = Audited {
        record: &line.record,
        facts: &line.facts,
        content: &line.content,
    };
    log.write(&audited).map_err(failed)
}

fn failed(error: SinkError) -> CommitError {
    CommitError::Sink {
        sink: "audit".to_owned(),
        error,
    }
}

/// What is nobody's secret.
fn facts(
    topology: &Topology,
    (stage, kind): (&str, &ModelStage),
    entry: &Entry,
    record: &RecordView<'_>,
    outcome: Outcome<'_>,
) -> Map<String, Value> {
    let id = record.id();
    let mut facts = Map::new();
    let mut put = |name: &str, value: Value| drop(facts.insert(name.to_owned(), value));
    let callers = topology.callers_of(id.source);
    let caller = callers.and_then(|callers| callers.name(CallerId::from(id)));
    put("caller", caller.as_deref().into());
    put("trace", trace(record).into());
    put("stage", stage.into());
    put(
        "operators",
        serde_json::from_str(&entry.versions).unwrap_or_default(),
    );
    let handlers = kind.tokens.iter().filter_map(|index| {
        let stage = topology.stages.get(*index)?;
        let StageKind::Operator(operator) = &stage.kind else {
            return None;
        };
        let version = operator.slot.version();
        Some(json!({"slot": stage.name, "digest": version.digest, "revision": version.revision.digest}))
    });
    put("handlers", handlers.collect());
    let wants = asked::wants(kind, entry);
    let wants = wants.as_deref();
    let chosen = kind.chosen(wants.and_then(|wants| wants.which));
    let digest =
        (*entry.model != *UNKNOWN_MODEL && !entry.model.is_empty()).then_some(&*entry.model);
    put(
        "model",
        json!({"name": chosen.name, "digest": digest, "adapter": chosen.model.facts().adapter}),
    );
    put("attempt", entry.attempt.into());
    if let Some(parameters) = asked::parameters(kind, wants) {
        put("seed", asked::seed(kind, wants, id).into());
        put("parameters", parameters_json(parameters));
    }
    match outcome {
        Outcome::Answered(answer) => {
            put("outcome", "answered".into());
            put("prompt_tokens", answer.prompt_tokens.into());
            put("tokens", crate::answer::tokens(answer).into());
            put("finish", crate::answer::finish(answer).into());
        }
        Outcome::Failed(_) => put("outcome", "failed".into()),
        Outcome::Left => put("outcome", "left".into()),
    }
    facts
}

/// What was asked and answered, which is only written sealed.
fn content(
    kind: &ModelStage,
    entry: &Entry,
    record: &RecordView<'_>,
    outcome: Outcome<'_>,
) -> Map<String, Value> {
    let mut content = Map::new();
    let mut put = |name: &str, value: Value| drop(content.insert(name.to_owned(), value));
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    if let Some(key) = record.key() {
        put("key", text(key));
    }
    if let Ask::Generate {
        system: Some(system),
        ..
    } = &kind.ask
    {
        put("system", system.as_str().into());
    }
    // Of a record that says itself what is asked, that is the prompt.
    match entry.prompt.is_empty() {
        false => put("prompt", entry.prompt.as_str().into()),
        true => put("asked", record.value().map_or(Value::Null, text)),
    }
    let private = record.attributes().map(|pair| {
        let value = pair.value.map_or(Value::Null, text);
        (pair.name.to_owned(), value)
    });
    let private: Map<String, Value> = private.collect();
    if !private.is_empty() {
        put("private", private.into());
    }
    match outcome {
        Outcome::Answered(answer) => match &answer.made {
            Made::Choices(choices) => {
                let choices = choices.iter().map(|choice| {
                    let calls = choice.calls.iter();
                    let calls = calls.map(|call| json!({"name": call.name, "arguments": call.arguments}));
                    json!({
                        "text": choice.text, "reasoning": choice.reasoning, "calls": calls.collect::<Value>(),
                        "tokens": choice.tokens, "finish": choice.finish.name(),
                    })
                });
                put("choices", choices.collect());
            }
            Made::Embedding(vector) => put("embedding", json!(vector)),
            Made::Labels(labels) => put("labels", json!(labels)),
        },
        Outcome::Failed(reason) => {
            put("reason", reason.into());
            put("tokens", entry.tokens.to_vec().into());
        }
        Outcome::Left => put("tokens", entry.tokens.to_vec().into()),
    }
    content
}

fn parameters_json(parameters: &Parameters) -> Value {
    let structure = parameters
        .structure
        .as_ref()
        .map(|structure| match structure {
            Structure::JsonSchema(_) => "json-schema",
            Structure::Regex(_) => "regex",
            Structure::Grammar(_) => "grammar",
            Structure::Choice(_) => "choice",
        });
    json!({
        "max_tokens": parameters.max_tokens,
        "temperature": parameters.temperature,
        "top_k": parameters.top_k,
        "top_p": parameters.top_p,
        "min_p": parameters.min_p,
        "repetition_penalty": parameters.repetition_penalty,
        "presence_penalty": parameters.presence_penalty,
        "frequency_penalty": parameters.frequency_penalty,
        "n": parameters.n,
        "structure": structure,
    })
}

/// The trace that a record is part of, if it says a valid one.
fn trace(record: &RecordView<'_>) -> Option<String> {
    let header = record.headers().last(TRACE)?.value?;
    let header = std::str::from_utf8(header).ok()?;
    let trace = header.split('-').nth(1)?;
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let valid = trace.len() == 32 && trace.bytes().all(is_hex) && trace.bytes().any(|b| b != b'0');
    valid.then(|| trace.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tidegate_contract::SinkPosition;

    use super::*;

    /// Lines that are collected, and those that are flushed.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<(Vec<String>, Vec<String>)>>);

    impl AuditLog for Lines {
        fn write(&mut self, audited: &Audited<'_>) -> Result<(), SinkError> {
            self.0.lock().unwrap().0.push(audited.record.to_owned());
            Ok(())
        }

        fn pending(&self) -> usize {
            self.0.lock().unwrap().0.len()
        }

        fn flush(&mut self) -> Result<Option<SinkPosition>, SinkError> {
            let (collected, flushed) = &mut *self.0.lock().unwrap();
            flushed.append(collected);
            Ok(None)
        }

        fn discard(&mut self) {
            self.0.lock().unwrap().0.clear();
        }

        fn position(&self) -> Option<SinkPosition> {
            None
        }
    }

    #[test]
    fn a_line_of_no_record_is_written_once_however_many_cuts_come_to_nothing() {
        let lines = Lines::default();
        let line = |record: &str| AuditLine {
            record: record.to_owned(),
            facts: "{}".to_owned(),
            content: "{}".to_owned(),
        };
        let mut audit = Audit::new(Some(Box::new(lines.clone())));
        assert!(audit.add(line("one")).unwrap());
        audit.discard();
        assert!(audit.pending() > 0, "it asks for the next cut");
        assert!(audit.add(line("two")).unwrap());
        audit.discard();
        audit.flush(&mut Cut::default()).unwrap();
        assert_eq!(audit.pending(), 0);
        assert!(audit.add(line("three")).unwrap());
        audit.flush(&mut Cut::default()).unwrap();
        audit.discard();
        audit.flush(&mut Cut::default()).unwrap();
        assert_eq!(lines.0.lock().unwrap().1, ["one", "two", "three"]);
        assert!(!Audit::default().add(line("none")).unwrap());
    }
}
