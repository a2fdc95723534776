//! Requests to models.

use std::time::{Duration, Instant};

use tidegate_contract::{Answer, Made, ModelError};
use tidegate_record::{Batch, RecordView};
use tidegate_telemetry::trace::{Room, Span, SpanKind, TraceId, Value, came_with, names};

use super::named::place;
use super::{Traced, Traces};
use crate::asked;
use crate::entry::Entry;
use crate::topology::{Ask, ModelStage};

/// What a model was asked, and what came of it.
pub(crate) struct Asking<'a> {
    pub stage: usize,
    pub kind: &'a ModelStage,
    pub entry: &'a Entry,
    pub result: &'a Result<Answer, ModelError>,
}

impl Traces {
    /// What a request of this entry to another server goes on with; none if it is not traced.
    pub(crate) fn traceparent(&self, stage: usize, entry: &Entry) -> Option<String> {
        let record = entry.view()?;
        let traced = self.of(&record)?;
        let span = traced.of_model(record.id(), stage, entry.attempt);
        Some(traced.span(span).traceparent())
    }

    /// The trace of an entry's record, for the log.
    pub(crate) fn of_entry(&self, entry: &Entry) -> Option<TraceId> {
        Some(self.of(&entry.view()?)?.trace)
    }

    /// The trace of a record, recorded or not, for the audit: as it came, whatever operators have written since.
    pub(crate) fn named(record: &RecordView<'_>) -> Option<TraceId> {
        Some(Traced::read(record.note()?)?.trace)
    }

    /// Notes the traces that records came with where nothing is traced, for the audit.
    pub(crate) fn note_came(&self, batch: Batch) -> Batch {
        if self.tracer.is_on() {
            return batch;
        }
        let mut notes = Vec::new();
        for (index, record) in batch.view().records().enumerate() {
            let headers = record.headers().map(|header| (header.name, header.value));
            if let Some((came, state)) = came_with(headers) {
                // Behind the run in which it was read.
                let mut note = record.note().unwrap_or_default().to_vec();
                Traced::as_it_came(&came, &state).write(&mut note);
                notes.push((index, note));
            }
        }
        match notes.is_empty() {
            true => batch,
            false => batch.noted(notes),
        }
    }

    /// A model has answered, or refused.
    pub(crate) fn answered(&self, of: &Asking<'_>) {
        let Some(record) = of.entry.view() else {
            return;
        };
        let Some(traced) = self.of(&record).filter(|_| was_tried(of.result)) else {
            return;
        };
        let Some(room) = self.tracer.room() else {
            return;
        };
        let id = record.id();
        let wants = asked::wants(of.kind, of.entry);
        let chosen = of.kind.chosen(wants.as_ref().and_then(|wants| wants.which));
        let operation = match &of.kind.ask {
            Ask::Generate { raw: false, .. } => names::CHAT,
            Ask::Generate { raw: true, .. } => names::TEXT_COMPLETION,
            Ask::Embed => names::EMBEDDINGS,
            Ask::Classify { .. } => names::CLASSIFY,
            Ask::Recognize { .. } => names::RECOGNIZE,
            Ask::Rerank { .. } => names::RERANK,
        };
        let is_remote = chosen.model.is_remote();
        let (kind, provider) = match is_remote {
            true => (SpanKind::Client, names::REMOTE_PROVIDER),
            false => (SpanKind::Internal, names::OWN_PROVIDER),
        };
        let span = traced.of_model(id, of.stage, of.entry.attempt);
        let stage = &self.named.stages[of.stage].name;
        let name = format!("{operation} {}", chosen.name);
        let mut span = Span::untimed(traced.span(span), Some(traced.entry), kind, name)
            .with(names::GEN_AI_OPERATION, operation)
            .with(names::GEN_AI_PROVIDER, provider)
            .with(names::GEN_AI_REQUEST_MODEL, chosen.name.to_owned())
            .with(names::STAGE, stage.clone())
            .with(names::ATTEMPT, of.entry.attempt + 1)
            .with(names::RECORD, place(id));
        if let Some(parameters) = asked::parameters(of.kind, wants.as_deref()) {
            span.set(names::GEN_AI_REQUEST_MAX_TOKENS, parameters.max_tokens);
            let seed = asked::seed(of.kind, wants.as_deref(), id);
            span.set(names::GEN_AI_REQUEST_SEED, seed);
            if parameters.n > 1 {
                span.set(names::GEN_AI_REQUEST_CHOICES, parameters.n);
            }
        }
        traced.state.clone_into(&mut span.state);
        let now = Instant::now();
        match of.result {
            Ok(answer) => {
                let model = chosen.model.facts().name;
                self.with_answer((span, room), answer, model, of.entry, now);
            }
            Err(error) => {
                let kind = error_kind(error);
                span.set(names::ERROR_TYPE, kind);
                span.fail(kind);
                let began = of.entry.submitted.unwrap_or(now);
                room.take(span.lasting(began, now));
            }
        }
    }

    fn with_answer(
        &self,
        (mut span, room): (Span, Room),
        answer: &Answer,
        model: String,
        entry: &Entry,
        now: Instant,
    ) {
        let times = answer.timings;
        let parts = [
            ("queue", times.queued),
            ("prefill", times.prefill),
            ("decode", times.decode),
        ];
        let whole: Duration = parts.iter().map(|(_, time)| *time).sum();
        let began = entry.submitted.or_else(|| now.checked_sub(whole));
        let began = began.unwrap_or(now);
        span.set(names::GEN_AI_RESPONSE_MODEL, model);
        span.set(names::GEN_AI_INPUT_TOKENS, answer.prompt_tokens);
        if let Made::Choices(choices) = &answer.made {
            span.set(names::GEN_AI_OUTPUT_TOKENS, crate::answer::tokens(answer));
            let reasons = choices.iter().map(|choice| choice.finish.name().into());
            span.set(
                names::GEN_AI_FINISH_REASONS,
                Value::Texts(reasons.collect()),
            );
        }
        let mut from = began;
        for (name, time) in parts {
            let until = from + time;
            if time.is_zero() {
                continue;
            }
            if let Some(room) = self.tracer.room()
                && let Some(context) = self.tracer.begin(Some(&span.context))
            {
                let parent = Some(span.context.span);
                let part = Span::untimed(context, parent, SpanKind::Internal, name);
                room.take(part.lasting(from, until));
            }
            from = until;
        }
        room.take(span.lasting(began, from.max(began)));
    }
}

/// Whether a model has made anything of a request. One that it has put off, or had no room for, was no try of it.
fn was_tried(result: &Result<Answer, ModelError>) -> bool {
    let put_off = matches!(
        result,
        Err(ModelError::Full { .. }
            | ModelError::Unknown(_)
            | ModelError::Remote {
                again: true,
                after: Some(_),
                ..
            })
    );
    !put_off
}

/// In which way a model has failed, in a word.
fn error_kind(error: &ModelError) -> &'static str {
    match error {
        ModelError::Closed => "closed",
        ModelError::Cancelled => "cancelled",
        ModelError::Expired { .. } | ModelError::Hopeless { .. } => "deadline",
        ModelError::Device(_) => "device",
        ModelError::Remote { .. } => "remote",
        _ => "refused",
    }
}
