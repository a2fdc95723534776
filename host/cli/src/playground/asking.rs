//! A question to a model of the pipeline.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_contract::{
    Answer, Conversation, Lane, Made, Makes, Message, ModelError, ModelTask, Parameters, Piece,
    Prompt, Reply, Request, RequestId, Role,
};
use tidegate_control::{Hearer, ModelAnswer, ModelQuestion, PlaygroundRefused};
use tidegate_flow::{AuditLine, LineContent};

use super::lent::Loans;
use super::{Playground, count, ports};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an answer that is of no more use has to end.
const GOING: Duration = Duration::from_secs(10);
/// How often it is looked whether anybody hears.
const TICK: Duration = Duration::from_millis(100);
/// The numbers of its requests: those of runs are below.
const REQUESTS: u64 = 1 << 63;
/// Numbers of an embedding that are shown.
const SHOWN: usize = 8;

/// What has come and was not told yet.
#[derive(Default)]
struct Heard {
    text: String,
    tokens: u32,
    ended: Option<Result<Answer, ModelError>>,
}

#[derive(Default)]
struct Letterbox {
    heard: Mutex<Heard>,
    comes: Condvar,
}

impl Letterbox {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        // Each change is whole before anything can panic.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come, after a while if nothing has.
    fn take(&self) -> Heard {
        let nothing = |heard: &mut Heard| heard.text.is_empty() && heard.ended.is_none();
        let waited = self.comes.wait_timeout_while(self.lock(), TICK, nothing);
        let (mut heard, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let tokens = heard.tokens;
        let taken = std::mem::take(&mut *heard);
        heard.tokens = tokens;
        taken
    }
}

/// Where the engine sends it.
struct Teller(Arc<Letterbox>);

impl Reply for Teller {
    fn token(&mut self, _index: u32, _token: u32, _text: &str) {}

    fn piece(&mut self, piece: &Piece<'_>) {
        if piece.lane == Lane::Content && piece.choice == 0 {
            let mut heard = self.0.lock();
            heard.text.push_str(piece.text);
            heard.tokens = piece.index.saturating_add(1);
            drop(heard);
            self.0.comes.notify_one();
        }
    }

    fn done(self: Box<Self>, result: Result<Answer, ModelError>) {
        self.0.lock().ended = Some(result);
        self.0.comes.notify_one();
    }
}

/// How it ended for whoever asked.
enum End {
    Ended(Result<Answer, ModelError>),
    /// Nobody hears it any more.
    Left,
    /// The model has not ended it in time.
    Late,
}

impl Playground {
    /// Asks a model. Returns when that has ended, or nobody hears it any more.
    pub(crate) fn ask(
        &self,
        question: &ModelQuestion,
        hearer: &dyn Hearer,
    ) -> Result<ModelAnswer, PlaygroundRefused> {
        let names = self.pipeline.models.iter().zip(&self.served);
        let mut known = names.filter_map(|(model, served)| Some((&model.name, served.as_ref()?)));
        let Some((name, served)) = known.clone().find(|(name, _)| **name == question.model) else {
            return Err(PlaygroundRefused::Unknown {
                kind: "model",
                name: question.model.clone(),
                known: known.by_ref().map(|(name, _)| name.clone()).collect(),
            });
        };
        let began = Instant::now();
        let loans = Loans::new(1, began + PATIENCE, self.tokens.clone());
        let model = loans.lend(&served.model());
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let letterbox = Arc::new(Letterbox::default());
        let facts = model.facts();
        let submitted = model.submit(Request {
            id: RequestId(REQUESTS | number),
            attempt: 1,
            seed: question.seed,
            task: task(question, model.makes())?,
            class: 0,
            deadline: None,
            reply: Box::new(Teller(letterbox.clone())),
        });
        if let Err((_, error)) = submitted {
            return Err(match error {
                ModelError::Full { .. } => PlaygroundRefused::Busy(error.to_string()),
                error => PlaygroundRefused::Refused(error.to_string()),
            });
        }
        hearer.begins();
        let end = self.hear(&letterbox, hearer, began, &loans);
        let mut answer = match &end {
            End::Ended(Ok(answer)) => told(answer),
            End::Ended(Err(error)) => failed(error.to_string()),
            End::Left => failed("nobody heard it to its end, or the pipeline is ending".to_owned()),
            End::Late => failed(format!("no answer came within {PATIENCE:?}")),
        };
        answer.ms = began.elapsed().as_secs_f64() * 1e3;
        let model = json!({"name": name, "digest": facts.digest, "adapter": facts.adapter});
        if let Err(why) = self.audit(question, model, &end, number) {
            answer.failed = Some(format!("the audit has not taken it: {why}"));
        }
        count(match end {
            End::Left => &self.questions.left,
            _ if answer.failed.is_some() => &self.questions.failed,
            _ => &self.questions.answered,
        });
        Ok(answer)
    }

    /// Tells what comes, until it has ended, nobody hears it, or the pipeline ends.
    fn hear(
        &self,
        letterbox: &Letterbox,
        hearer: &dyn Hearer,
        began: Instant,
        loans: &Loans,
    ) -> End {
        let end = loop {
            let heard = letterbox.take();
            if !heard.text.is_empty() {
                hearer.hears(&heard.text, heard.tokens);
            }
            if let Some(ended) = heard.ended {
                return End::Ended(ended);
            }
            if !hearer.is_there() || self.controls.is_stopping() {
                break End::Left;
            }
            // The model knows of this time too, and has its own words for it.
            if began.elapsed() > PATIENCE + GOING {
                break End::Late;
            }
        };
        loans.call_in();
        // Its place is free for the next one when the model has let go of this one.
        let called_in = Instant::now();
        while called_in.elapsed() < GOING && letterbox.take().ended.is_none() {}
        end
    }

    /// Who was answered what, if that is written.
    fn audit(
        &self,
        question: &ModelQuestion,
        model: Value,
        end: &End,
        number: u64,
    ) -> Result<(), String> {
        if self.pipeline.audit.is_none() {
            return Ok(());
        }
        let mut facts = json!({
            "caller": null, "trace": null, "operators": [], "handlers": [], "model": model,
            "seed": question.seed,
            "parameters": {"max_tokens": question.max_tokens, "temperature": question.temperature},
        });
        let mut content = json!({"asked": question.prompt});
        if let Some(system) = &question.system {
            content["system"] = json!(system);
        }
        match end {
            End::Ended(Ok(answer)) => {
                let told = told(answer);
                facts["outcome"] = json!("answered");
                facts["prompt_tokens"] = json!(told.prompt_tokens);
                facts["tokens"] = json!(told.tokens);
                facts["finish"] = json!(told.finish);
                match &answer.made {
                    Made::Choices(choices) => {
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
                }
            }
            End::Ended(Err(error)) => {
                facts["outcome"] = json!("failed");
                content["reason"] = json!(error.to_string());
            }
            End::Left | End::Late => facts["outcome"] = json!("left"),
        }
        let line = AuditLine {
            record: format!("playground/model/{}/{number}", super::now_micros()),
            stage: String::new(),
            attempt: 0,
            facts: facts.to_string(),
            content: Some(LineContent(content.to_string())),
        };
        self.controls.audit(&line, ports::AUDIT)
    }
}

/// What a model of this kind is asked.
fn task(question: &ModelQuestion, makes: Makes) -> Result<ModelTask, PlaygroundRefused> {
    let text = question.prompt.clone();
    if makes != Makes::Text {
        if question.system.is_some() || question.raw {
            let why = "this model reads texts and writes none: it takes a prompt alone";
            return Err(PlaygroundRefused::Refused(why.to_owned()));
        }
        return Ok(ModelTask::Encode { text });
    }
    let prompt = match question.raw {
        true => Prompt::Raw(text),
        false => {
            let system = question.system.iter();
            let system = system.map(|text| Message::new(Role::System, text));
            let messages: Vec<_> = system.chain([Message::new(Role::User, text)]).collect();
            Prompt::Chat(Conversation::from(messages))
        }
    };
    Ok(ModelTask::Generate {
        prompt,
        forced_prefix: Vec::new(),
        parameters: Parameters {
            max_tokens: question.max_tokens,
            temperature: question.temperature,
            ..Parameters::default()
        },
    })
}

fn failed(why: String) -> ModelAnswer {
    ModelAnswer {
        failed: Some(why),
        ..ModelAnswer::default()
    }
}

fn told(answer: &Answer) -> ModelAnswer {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut told = ModelAnswer {
        prompt_tokens: answer.prompt_tokens,
        queued_ms: ms(answer.timings.queued),
        prefill_ms: ms(answer.timings.prefill),
        decode_ms: ms(answer.timings.decode),
        ..ModelAnswer::default()
    };
    match &answer.made {
        Made::Choices(choices) => {
            if let Some(choice) = choices.first() {
                told.finish = choice.finish.name().to_owned();
                told.tokens = u32::try_from(choice.tokens.len()).unwrap_or(u32::MAX);
            }
        }
        Made::Embedding(vector) => {
            let shown = vector.iter().take(SHOWN).copied();
            told.embedding = Some((vector.len(), shown.collect()));
        }
        Made::Labels(labels) => told.labels = labels.clone(),
    }
    told
}
