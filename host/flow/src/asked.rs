//! What a record asks of its stage's model: what the stage says, or what the record itself says.
//!
//! Of a stage whose records say it themselves, nothing of that is kept beside the record: it is read again from there
//! whenever it is needed. Where two questions are compared (a record that came again, and the request that a model has
//! for it), the record's request in its one canonical form is compared, see [`canonical`]: its members in the order of
//! [`AskingRecord`], without what else the record's value has.

use std::sync::Arc;

use tidegate_contract::{
    AskingRecord, Conversation, Message, ModelError, ModelTask, Parameters, Prompt, Role,
    TemplateArguments,
};
use tidegate_record::{RecordId, RecordView};
use tidegate_telemetry::plain;

use crate::answer::record_seed;
use crate::entry::Entry;
use crate::prompt::{self, Kept};
use crate::ranking;
use crate::topology::{Ask, Chosen, ModelStage, Topology, Which};

/// A seed is below this: within what a JSON number holds exactly.
const SEEDS: u64 = 1 << 53;
/// Most bytes of what is said of a value that is no request: it may quote the value.
const REASON_BYTES: usize = 4096;

/// Why a record has no question. It ends as a dead letter.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// In a sentence for a person.
    pub reason: String,
    /// Where it is the model that refuses.
    pub error: Option<ModelError>,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal {
            reason,
            error: None,
        }
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Refusal {
        Refusal {
            reason: error.to_string(),
            error: Some(error),
        }
    }
}

/// What is asked for one record.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The rendered prompt, which the entry keeps; empty where the record itself says it.
    pub text: String,
    /// What the model is asked, without a forced prefix.
    pub task: ModelTask,
    /// How the record itself wants it made.
    pub wants: Option<Arc<Wants>>,
}

/// How a record wants its answer made.
#[derive(Debug)]
pub(crate) struct Wants {
    /// The model that makes it.
    pub which: Which,
    /// The record's own over the stage's.
    pub parameters: Parameters,
    seed: Option<u64>,
}

impl Wants {
    fn of(stage: &ModelStage, which: Which, own: &AskingRecord) -> Wants {
        let usual = Parameters::default();
        let parameters = stage.chosen(which).parameters.unwrap_or(&usual);
        Wants {
            which,
            parameters: own.parameters.over(parameters),
            seed: own.parameters.seed,
        }
    }
}

/// The model of a stage that a record asks for. A model of other stages is none of this one, which answers with its own:
/// the record asks for it there. One that no stage has is a mistake of the record.
fn which_asked(
    topology: &Topology,
    stage: &ModelStage,
    own: &AskingRecord,
) -> Result<Which, Refusal> {
    let Some(name) = &own.alternative else {
        return Ok(None);
    };
    match stage.which(name) {
        Some(which) => Ok(which),
        None if topology.has_model(name) => Ok(None),
        None => {
            let name = plain(name, REASON_BYTES);
            Err(format!("alternative is {name:?}, which is no model of this pipeline").into())
        }
    }
}

/// What is asked for the record of an entry.
pub(crate) fn asked(
    topology: &Topology,
    stage: &ModelStage,
    entry: &Entry,
    record: &RecordView<'_>,
) -> Result<Asked, Refusal> {
    if !says_itself(stage) {
        let text = match entry.prompt.is_empty() {
            true => question(stage, record)?,
            false => entry.prompt.clone(),
        };
        return Ok(Asked {
            task: task(stage, &text)?,
            text,
            wants: None,
        });
    }
    let own = read(record)?;
    let seed = own.parameters.seed;
    if let Some(seed) = seed.filter(|seed| *seed >= SEEDS) {
        return Err(format!("seed is {seed}, must be below {SEEDS}").into());
    }
    // What is known already is not what the record says where the model that it names was given up.
    let wants = match &entry.wants {
        Some(known) => known.clone(),
        None => Arc::new(Wants::of(stage, which_asked(topology, stage, &own)?, &own)),
    };
    let chosen = stage.chosen(wants.which);
    let fits = |text: &str| prompt::fits(chosen, text);
    match &own.prompt {
        Some(text) => fits(text)?,
        None if own.messages.is_empty() => {
            return Err(
                "value has no messages and no prompt: there is nothing to ask"
                    .to_owned()
                    .into(),
            );
        }
        None => {
            let texts: usize = own
                .messages
                .iter()
                .map(|message| message.content.len())
                .sum();
            // A token has at least one byte.
            if texts > chosen.prompt_tokens {
                let texts = own.messages.iter().map(|message| message.content.as_str());
                fits(&texts.collect::<String>())?;
            }
        }
    }
    let (system, usual) = match &stage.ask {
        Ask::Generate {
            system,
            template_arguments,
            ..
        } => (system.as_deref(), template_arguments.clone()),
        Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } | Ask::Rerank { .. } => {
            (None, TemplateArguments::default())
        }
    };
    let mut own = own;
    own.template_arguments = (own.template_arguments.over(&usual))
        .map_err(|error| format!("template_arguments: {error}"))?;
    Ok(Asked {
        text: String::new(),
        task: ModelTask::Generate {
            prompt: own.into_prompt(system),
            forced_prefix: Vec::new(),
            parameters: wants.parameters.clone(),
        },
        wants: Some(wants),
    })
}

/// The question of a stage for a record as a text: what was rendered, and what of the record goes with it.
fn question(stage: &ModelStage, record: &RecordView<'_>) -> Result<String, Refusal> {
    let text = prompt::render(stage, record)?;
    match &stage.ask {
        Ask::Rerank { documents, .. } => match Kept::of(&text) {
            Kept::Text(query) => ranking::question(query.to_owned(), documents, record),
            Kept::Messages(_) => Err(no_text()),
        },
        Ask::Generate { .. } | Ask::Embed | Ask::Classify { .. } | Ask::Recognize { .. } => {
            Ok(text)
        }
    }
}

/// What a stage asks with its question.
fn task(stage: &ModelStage, text: &str) -> Result<ModelTask, Refusal> {
    let kept = Kept::of(text);
    let (raw, system, template_arguments, parameters) = match &stage.ask {
        Ask::Generate {
            raw,
            system,
            template_arguments,
            parameters,
            ..
        } => (raw, system, template_arguments, parameters),
        Ask::Rerank { .. } => return ranking::task(text),
        Ask::Embed | Ask::Classify { .. } => {
            return match kept {
                Kept::Text(text) => Ok(ModelTask::Encode { text: text.into() }),
                Kept::Messages(_) => Err(no_text()),
            };
        }
        Ask::Recognize { aggregation, .. } => {
            return match kept {
                Kept::Text(text) => Ok(ModelTask::Recognize {
                    text: text.into(),
                    aggregation: *aggregation,
                }),
                Kept::Messages(_) => Err(no_text()),
            };
        }
    };
    let prompt = match (raw, kept) {
        (true, Kept::Text(text)) => Prompt::Raw(text.into()),
        (true, Kept::Messages(_)) => return Err(no_text()),
        (false, kept) => {
            let system = system.iter().map(|text| Message::new(Role::System, text));
            let messages = match kept {
                Kept::Messages(messages) => messages,
                Kept::Text(text) => system.chain([Message::new(Role::User, text)]).collect(),
            };
            let last = messages.last().map(|message| message.role);
            Prompt::Chat(Conversation {
                messages,
                continues: last == Some(Role::Assistant),
                reasoning_apart: true,
                template_arguments: template_arguments.clone(),
                ..Conversation::default()
            })
        }
    };
    Ok(ModelTask::Generate {
        prompt,
        forced_prefix: Vec::new(),
        parameters: parameters.as_ref().clone(),
    })
}

/// Turns were asked before the pipeline file was changed, and the stage now asks a text.
fn no_text() -> Refusal {
    let reason =
        "the messages that it was asked before a restart are no text, which the stage asks now";
    reason.to_owned().into()
}

impl Asked {
    /// The question as a text: the same for the same question.
    pub(crate) fn canonical(&self, stage: &ModelStage, entry: &Entry) -> String {
        match says_itself(stage) {
            true => canonical(stage, entry),
            false => self.text.clone(),
        }
    }

    /// What the model is asked where it has made these tokens already.
    pub(crate) fn going_on(self, made: Vec<u32>) -> ModelTask {
        match self.task {
            ModelTask::Generate {
                prompt, parameters, ..
            } => ModelTask::Generate {
                prompt,
                forced_prefix: made,
                parameters,
            },
            encode => encode,
        }
    }
}

/// The seed of a record's answer: its own, or one of the stage's.
pub(crate) fn seed(stage: &ModelStage, wants: Option<&Wants>, id: RecordId) -> u64 {
    let own = wants.and_then(|wants| wants.seed);
    own.unwrap_or_else(|| record_seed(stage.seed, id))
}

/// The same of an entry.
pub(crate) fn canonical(stage: &ModelStage, entry: &Entry) -> String {
    if !says_itself(stage) {
        return entry.prompt.clone();
    }
    let own = entry.view().map(|record| read(&record));
    match own {
        Some(Ok(own)) => written(&own),
        _ => String::new(),
    }
}

fn written(own: &AskingRecord) -> String {
    // Strings, numbers and lists of them only: this cannot fail.
    serde_json::to_string(own).unwrap_or_default()
}

/// How the answer of an entry was to be made, where a model was asked for a text.
pub(crate) fn wants(stage: &ModelStage, entry: &Entry) -> Option<Arc<Wants>> {
    if entry.wants.is_some() {
        return entry.wants.clone();
    }
    if !says_itself(stage) {
        return None;
    }
    // The answer was there before a restart.
    let own = read(&entry.view()?).ok()?;
    let name = own.alternative.as_ref();
    let which = name.and_then(|name| stage.which(name)).flatten();
    Some(Arc::new(Wants::of(stage, which, &own)))
}

/// How the answer of an entry is to be made by the stage's own model, where the record says it itself.
pub(crate) fn wants_own_model(stage: &ModelStage, entry: &Entry) -> Option<Arc<Wants>> {
    if !says_itself(stage) {
        return None;
    }
    let own = read(&entry.view()?).ok()?;
    Some(Arc::new(Wants::of(stage, None, &own)))
}

/// Which model of a stage an entry is for.
pub(crate) fn which(stage: &ModelStage, entry: &Entry) -> Which {
    // Where there is one, no record needs to be read for it.
    match stage.alternatives.is_empty() {
        true => None,
        false => wants(stage, entry).and_then(|wants| wants.which),
    }
}

/// The model of a stage that an entry is for.
pub(crate) fn chosen<'a>(stage: &'a ModelStage, entry: &Entry) -> Chosen<'a> {
    stage.chosen(which(stage, entry))
}

/// The parameters that an answer was made with.
pub(crate) fn parameters<'a>(
    stage: &'a ModelStage,
    wants: Option<&'a Wants>,
) -> Option<&'a Parameters> {
    let own = wants.map(|wants| &wants.parameters);
    own.or(stage.chosen(None).parameters)
}

/// Whether its records say themselves what is asked.
fn says_itself(stage: &ModelStage) -> bool {
    matches!(
        &stage.ask,
        Ask::Generate {
            from_record: true,
            ..
        }
    )
}

fn read(record: &RecordView<'_>) -> Result<AskingRecord, Refusal> {
    let value = record.value().unwrap_or_default();
    serde_json::from_slice(value).map_err(|error| {
        let reason = format!("value is no request to a model: {error}");
        plain(&reason, REASON_BYTES).into_owned().into()
    })
}
