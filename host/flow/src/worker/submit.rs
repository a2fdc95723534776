//! Giving models the records whose turn it is.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_contract::{
    Message, ModelError, ModelTask, Partition, Prompt, Request, RequestId, Role,
};

use super::{MAX_SUBMITTED, TaskReply, Worker};
use crate::answer::record_seed;
use crate::entry::{Entry, State, UNKNOWN_MODEL};
use crate::error::FlowError;
use crate::topology::{Ask, ModelStage, StageKind};

impl Worker {
    /// Gives models the records whose turn it is, as far as models and limits take them.
    pub(super) fn submit(&mut self) -> Result<(), FlowError> {
        for (stage, request) in self.kept.expired(Instant::now()) {
            self.cancel(stage, request);
        }
        // Partitions take turns in being the first, so that a busy one does not take every place that comes free.
        self.turn = self.turn.wrapping_add(1);
        for stage in 0..self.shared.topology.stages.len() {
            let mut partitions = self.tasks.asking();
            let first = self.turn % partitions.len().max(1);
            partitions.rotate_left(first);
            for partition in partitions {
                let more = self.submit_stage(partition, stage);
                if let Some(mut task) = self.tasks.get_mut(partition) {
                    task.counts.add(std::mem::take(&mut self.output.counts));
                }
                if !more? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the model still takes requests.
    fn submit_stage(&mut self, partition: Partition, stage: usize) -> Result<bool, FlowError> {
        let topology = self.shared.topology.clone();
        let StageKind::Model(kind) = &topology.stages[stage].kind else {
            return Ok(true);
        };
        let Some(mut task) = self.tasks.get_mut(partition) else {
            return Ok(true);
        };
        let mut from = 0;
        while let Some(number) = task.waiting[stage].next_ready(from) {
            from = number + 1;
            if self.submitted >= MAX_SUBMITTED {
                return Ok(false);
            }
            let Some(entry) = task.waiting[stage].get(number) else {
                continue;
            };
            let Some(record) = entry.view() else { continue };
            let id = record.id();
            let prompt = if entry.prompt.is_empty() {
                crate::prompt::render(kind, &record)
            } else {
                Ok(entry.prompt.clone())
            };
            let prompt = match prompt {
                Ok(prompt) => prompt,
                Err(reason) => {
                    task.bury_entry(stage, number, &reason, &mut self.output)?;
                    task.send_answers(stage, &mut self.output)?;
                    continue;
                }
            };
            let digest = kind.model.facts().digest;
            if *entry.model != *digest {
                task.waiting[stage].change(number, |entry| entry.goes_to(&digest));
            }
            let Some(entry) = task.waiting[stage].get(number) else {
                continue;
            };
            match self
                .kept
                .take(&(partition, stage, entry.id), &prompt, &digest)
            {
                None => {}
                Some(Err(other)) => kind.model.cancel(RequestId(other)),
                Some(Ok(kept)) => {
                    let request = kept.request;
                    task.waiting[stage].change(number, |entry| {
                        entry.prompt = prompt;
                        entry.tokens = kept.tokens;
                        entry.state = State::Submitted(request);
                    });
                    match kept.answer {
                        None => drop(self.requests.insert(request, (partition, stage, number))),
                        Some(answer) => {
                            task.on_answer(stage, number, request, answer, &mut self.output)?;
                        }
                    }
                    continue;
                }
            }
            let request = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
            let reply = TaskReply {
                sender: self.sender.clone(),
                request,
                tokens: entry.tokens.clone(),
                meters: self.output.meters.clone(),
            };
            let attempt = entry.attempt + 1;
            let result = kind.model.submit(Request {
                id: RequestId(request),
                attempt,
                seed: record_seed(kind.seed, id),
                task: task_of(kind, &prompt, entry),
                class: kind.class,
                deadline: kind.deadline.map(|deadline| Instant::now() + deadline),
                reply: Box::new(reply),
            });
            // Replaced just now: which of the two has it is not known, and neither is whose tokens will come.
            let replaced = kind.model.facts().digest != digest;
            match result {
                Ok(()) => {
                    self.submitted += 1;
                    self.requests.insert(request, (partition, stage, number));
                    task.waiting[stage].change(number, |entry| {
                        entry.prompt = prompt;
                        entry.state = State::Submitted(request);
                        if replaced {
                            entry.model = UNKNOWN_MODEL.into();
                        }
                    });
                }
                // No room, or unloaded: it may come back.
                Err((_, ModelError::Full { .. } | ModelError::Unknown(_))) => return Ok(false),
                Err((_, error @ ModelError::Closed)) => {
                    return Err(FlowError::Model {
                        name: topology.stages[stage].name.clone(),
                        why: error.to_string(),
                    });
                }
                Err((_, error)) => {
                    self.output.counts.requests += 1;
                    self.output.counts.failed += 1;
                    task.bury_entry(stage, number, &error.to_string(), &mut self.output)?;
                    task.send_answers(stage, &mut self.output)?;
                }
            }
        }
        Ok(true)
    }
}

/// What the model is asked for a record.
fn task_of(stage: &ModelStage, prompt: &str, entry: &Entry) -> ModelTask {
    match &stage.ask {
        Ask::Generate {
            raw,
            system,
            parameters,
        } => {
            let system = system.iter().map(|text| (Role::System, text.clone()));
            let messages = system.chain([(Role::User, prompt.to_owned())]);
            ModelTask::Generate {
                prompt: match raw {
                    true => Prompt::Raw(prompt.to_owned()),
                    false => Prompt::Chat(
                        messages
                            .map(|(role, content)| Message { role, content })
                            .collect(),
                    ),
                },
                forced_prefix: entry.tokens.to_vec(),
                parameters: parameters.as_ref().clone(),
            }
        }
        Ask::Embed | Ask::Classify { .. } => ModelTask::Encode {
            text: prompt.to_owned(),
        },
    }
}
