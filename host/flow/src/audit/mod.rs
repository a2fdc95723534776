//! What the audit has of a question that has ended: who asked, what was asked, and who answered with what.

mod content;

use serde_json::{Map, Value, json};
use tidegate_contract::{
    Answer, AuditLog, Audited, CommitError, Cut, Mark, Parameters, SinkError, SinkPosition,
    Structure, TaskId,
};
use tidegate_record::RecordView;

use self::content::Content;

use crate::asked;
use crate::entry::{Entry, UNKNOWN_MODEL};
use crate::topology::{ModelStage, StageKind, Topology};

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

/// A worker's view of the audit; nothing where there is none.
#[derive(Default)]
pub(crate) struct Audit(Option<Box<dyn AuditLog>>);

impl Audit {
    pub(crate) fn new(log: Option<Box<dyn AuditLog>>) -> Audit {
        Audit(log)
    }

    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// A question of this stage has ended, of a record that is part of this trace.
    pub(crate) fn ended(
        &mut self,
        topology: &Topology,
        stage: usize,
        (entry, trace): (&Entry, Option<String>),
        outcome: Outcome<'_>,
    ) -> Result<(), CommitError> {
        let Some(log) = &mut self.0 else {
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
        let mut facts = facts(topology, kind, entry, &record, outcome);
        facts.insert("trace".to_owned(), trace.into());
        let content = Content::of(kind, entry, &record, outcome);
        let audited = Audited {
            record: &name,
            stage: &described.name,
            attempt: entry.attempt,
            facts: &Value::Object(facts).to_string(),
            content: Some(&content),
            told: topology.callers_of(id.source).is_some(),
        };
        log.write(&audited).map_err(failed)
    }

    pub(crate) fn pending(&self) -> usize {
        self.0.as_ref().map_or(0, |log| log.pending())
    }

    pub(crate) fn discard(&mut self) {
        if let Some(log) = &mut self.0 {
            log.discard();
        }
    }

    pub(crate) fn flush(&mut self, cut: &mut Cut) -> Result<(), CommitError> {
        let Some(log) = &mut self.0 else {
            return Ok(());
        };
        log.witnessed(cut.witness.take());
        cut.sinks.extend(log.flush().map_err(failed)?);
        Ok(())
    }

    /// The cut that was flushed last holds, or came to nothing. Returns what the commit log is told of it.
    pub(crate) fn settled(&mut self, held: bool) -> Result<Option<SinkPosition>, CommitError> {
        match &mut self.0 {
            Some(log) => log.settled(held).map_err(failed),
            None => Ok(None),
        }
    }

    /// A task begins, and this stands beside its position. Returns what the commit log is told of it.
    pub(crate) fn begun(
        &mut self,
        task: &TaskId,
        mark: Option<&Mark>,
    ) -> Result<Option<SinkPosition>, CommitError> {
        match &mut self.0 {
            Some(log) => log.begun(task, mark).map_err(failed),
            None => Ok(None),
        }
    }

    /// The commit log has what it was told.
    pub(crate) fn logged(&mut self) {
        if let Some(log) = &mut self.0 {
            log.logged();
        }
    }

    /// The run has ended in order. Returns what the commit log is told of it.
    pub(crate) fn end(&mut self) -> Result<Option<SinkPosition>, CommitError> {
        match &mut self.0 {
            Some(log) => log.end().map_err(failed),
            None => Ok(None),
        }
    }
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
    kind: &ModelStage,
    entry: &Entry,
    record: &RecordView<'_>,
    outcome: Outcome<'_>,
) -> Map<String, Value> {
    let id = record.id();
    let mut facts = Map::new();
    let mut put = |name: &str, value: Value| drop(facts.insert(name.to_owned(), value));
    put("caller", entry.caller.as_deref().into());
    put("operators", entry.versions.to_json());
    // Of one that ends before its answer is whole, those that it has gone through so far.
    let handlers = match &entry.showing {
        Some(showing) => showing.handled_by(topology).to_json(),
        None => entry.by.handlers.to_json(),
    };
    put("handlers", handlers);
    let wants = asked::wants(kind, entry);
    let wants = wants.as_deref();
    let chosen = kind.chosen(wants.and_then(|wants| wants.which));
    let digest =
        (*entry.model != *UNKNOWN_MODEL && !entry.model.is_empty()).then_some(&*entry.model);
    // Of one that no model has taken there is none.
    let adapter = (!entry.by.adapter.is_empty()).then_some(&*entry.by.adapter);
    put(
        "model",
        json!({"name": chosen.name, "digest": digest, "adapter": adapter}),
    );
    if let Some(parameters) = asked::parameters(kind, wants) {
        put("seed", asked::seed(kind, wants, id).into());
        put("parameters", parameters_json(parameters));
    }
    match outcome {
        Outcome::Answered(answer) => {
            put("outcome", "answered".into());
            put("prompt_tokens", answer.prompt_tokens.into());
            put("tokens", crate::answer::tokens(answer).into());
            let thought = crate::answer::reasoning_tokens(answer);
            if thought > 0 {
                put("reasoning_tokens", thought.into());
            }
            put("finish", crate::answer::finish(answer).into());
        }
        Outcome::Failed(_) => put("outcome", "failed".into()),
        Outcome::Left => put("outcome", "left".into()),
    }
    facts
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
