//! A question to a model of the pipeline.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_contract::{
    Aggregation, Answer, Conversation, Lane, Made, Makes, Message, ModelError, ModelTask,
    Parameters, Piece, Prompt, Reply, Request, RequestId, Role,
};
use tidegate_control::{Hearer, ModelAnswer, ModelQuestion, PlaygroundRefused};

use super::lent::Loans;
use super::shown::{End, Place, Showing};
use super::{Playground, count};

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

impl Playground {
    /// Asks a model. Returns when that has ended, or nobody hears it any more.
    pub(crate) fn ask(
        &self,
        question: &ModelQuestion,
        hearer: &dyn Hearer,
    ) -> Result<ModelAnswer, PlaygroundRefused> {
        let names = self.pipeline.models.iter().zip(&self.served);
        let mut known = names.filter_map(|(model, served)| Some((&model.name, served.as_ref()?)));
        let Some((_, served)) = known.clone().find(|(name, _)| **name == question.model) else {
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
        let task = task(question, model.makes())?;
        let name = self.name("model", number);
        let place =
            Place::begin(question, name, served.model(), self.audit.clone()).map_err(|why| {
                PlaygroundRefused::Busy(format!("the audit takes no question: {why}"))
            })?;
        let submitted = model.submit(Request {
            id: RequestId(REQUESTS | number),
            attempt: 1,
            seed: question.seed,
            task,
            class: 0,
            deadline: None,
            reply: Box::new(Teller(letterbox.clone())),
        });
        if let Err((_, error)) = submitted {
            place.unasked();
            return Err(match error {
                ModelError::Full { .. } => PlaygroundRefused::Busy(error.to_string()),
                error => PlaygroundRefused::Refused(error.to_string()),
            });
        }
        hearer.begins();
        let end = self.hear((&letterbox, &place.showing), hearer, began, &loans);
        let mut answer = match &end {
            End::Ended(Ok(answer)) => told(answer),
            End::Ended(Err(error)) => failed(error.to_string()),
            End::Left => failed("nobody heard it to its end, or the pipeline is ending".to_owned()),
            End::Late => failed(format!("no answer came within {PATIENCE:?}")),
        };
        if let Err(why) = place.end(&end) {
            // What has no line is not told.
            answer = failed(format!("the audit has not taken its end: {why}"));
        }
        answer.ms = began.elapsed().as_secs_f64() * 1e3;
        count(match end {
            // Nobody waited for it, or its time was over: nothing has failed.
            End::Left | End::Late | End::Ended(Err(ModelError::Expired { .. })) => {
                &self.questions.left
            }
            _ if answer.failed.is_some() => &self.questions.failed,
            _ => &self.questions.answered,
        });
        Ok(answer)
    }

    /// Tells what comes, until it has ended, nobody hears it, or the pipeline ends.
    fn hear(
        &self,
        (letterbox, showing): (&Letterbox, &Showing),
        hearer: &dyn Hearer,
        began: Instant,
        loans: &Loans,
    ) -> End {
        let end = loop {
            let heard = letterbox.take();
            if !heard.text.is_empty() && !showing.show(&heard.text, heard.tokens, hearer) {
                break End::Left;
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
}

/// What a model of this kind is asked.
fn task(question: &ModelQuestion, makes: Makes) -> Result<ModelTask, PlaygroundRefused> {
    let text = question.prompt.clone();
    if makes == Makes::Relevance {
        let why = "this model scores pairs of texts, and a question is one text; try a record on its stage";
        return Err(PlaygroundRefused::Refused(why.to_owned()));
    }
    if makes != Makes::Text {
        if question.system.is_some() || question.raw {
            let why = "this model reads texts and writes none: it takes a prompt alone";
            return Err(PlaygroundRefused::Refused(why.to_owned()));
        }
        return Ok(match makes {
            Makes::Entities => ModelTask::Recognize {
                text,
                aggregation: Aggregation::default(),
            },
            _ => ModelTask::Encode { text },
        });
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
            // It is from 0 to 2.
            temperature: question.temperature as f32,
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
        Made::Entities(entities) => told.entities = Some(entities.clone()),
        // A question is one text, and has no such answer.
        Made::Relevance(_) => {}
    }
    told
}
