//! The pipeline as the workers run it: names resolved, ports attached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{
    Aggregation, Callers, CommitPoint, Model, Parameters, Partition, PromptTemplate, RequestId,
    Role, Slot, TaskId, TemplateArguments, TokenFeed,
};

use crate::makers::Outdated;

/// A pipeline ready to run.
pub struct Topology {
    /// Sources in the order of the pipeline; a record's id names them by index.
    pub sources: Vec<Source>,
    /// Stages in order; targets of a stage are later stages or sinks.
    pub stages: Vec<Stage>,
    /// Names of the sinks.
    pub sinks: Vec<String>,
    /// What makes a cut hold.
    pub commit_point: CommitPoint,
    /// Most records of a batch.
    pub batch: usize,
    /// Most bytes of a batch, one larger record excepted.
    pub batch_bytes: usize,
    /// Longest time between two cuts while something happens.
    pub cut_interval: Duration,
    /// Those who wait for what becomes of records, where a source has such.
    pub callers: Option<Called>,
    /// How long a stopping run waits for what is in flight of sources that keep positions by themselves: another process
    /// that reads on would ask again.
    pub drain: Duration,
}

/// Those who wait, and where they are answered. All sources that have such are read by one worker.
pub struct Called {
    /// Those who wait.
    pub callers: Arc<dyn Callers>,
    /// The sinks that answer them, by index. A record brings one answer of a model to each: of the stages on its way, that
    /// of the first in this order. One that is not named here answers nobody there.
    pub sinks: BTreeMap<usize, Vec<Heard>>,
    /// Whether older versions of operators than those of their slots have had a part in answers.
    pub outdated: Outdated,
}

/// A stage that asks a model for what callers may be answered with at a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its index.
    pub stage: usize,
    /// Whether it writes what the sink takes. Then, if nothing behind it can change that, its answer is shown as it is made.
    pub writes: bool,
}

/// A source of the topology.
pub struct Source {
    /// Its name.
    pub name: String,
    /// Who takes its records.
    pub targets: Vec<Target>,
    /// Whether its partitions are there from the beginning and stay (files), or come and go (topics).
    pub fixed: bool,
    /// Who keeps where reading goes on.
    pub positions: Positions,
    /// Whether somebody waits for what becomes of each record: see [`Topology::callers`]. What was read of such a source
    /// never comes again ([`Positions::Nobody`]), and no offset is used twice, not by a later run either. Its tasks do not
    /// go back when a cut comes to nothing: whoever waits was told, and is not told again. What other sinks were given of
    /// it since the last cut is lost with the cut.
    pub called: bool,
    /// Whether it gives something now and then only: a worker that has nothing to do waits with another source.
    pub beside: bool,
    /// What each partition is (a file's path), so that a changed input is noticed. Where partitions come and go, the one
    /// thing they are all part of (`kafka topic tickets`).
    pub identities: Vec<String>,
    /// What tells its partitions from those of the same identity that are read elsewhere, and stays the same over a
    /// restart: an input is no other's though its path or name is. So records of two of them are in two traces.
    pub apart: String,
}

/// Who keeps where reading of a source goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// The cuts alone.
    Cuts,
    /// The cuts, and the source itself, which is told after each what is done: a topic whose cuts go into the log.
    CutsAndSource,
    /// Nobody: what was read cannot be read again.
    Nobody,
}

impl Source {
    /// Whether what it gives is another input in each run, though its name and its offsets are the same: nothing of it can
    /// be read again, and nobody is told what becomes of a record.
    pub(crate) fn is_read_once(&self) -> bool {
        self.positions == Positions::Nobody && !self.called
    }

    /// What a partition is, if that is known.
    pub(crate) fn identity(&self, partition: u32) -> Option<&str> {
        let index = if self.fixed { partition as usize } else { 0 };
        self.identities.get(index).map(String::as_str)
    }
}

/// Who takes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A later stage.
    Stage(usize),
    /// A sink.
    Sink(usize),
}

/// A stage of the topology.
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Who takes its main output; nobody means the records end here.
    pub targets: Vec<Target>,
    /// What it does.
    pub kind: StageKind,
}

/// What a stage does.
pub enum StageKind {
    /// Runs a component.
    Operator(OperatorStage),
    /// Asks a model.
    Model(Box<ModelStage>),
}

/// A stage that runs a component.
pub struct OperatorStage {
    /// Where its instances come from.
    pub slot: Arc<dyn Slot>,
    /// Digest of the component that the pipeline file names.
    pub configured: String,
    /// Who takes its named outputs.
    pub named: BTreeMap<String, Vec<Target>>,
    /// How often it may send one record to retry.
    pub retries: u32,
}

/// The class of a stage that says none.
pub const USUAL_CLASS: u8 = 5;

/// A stage that asks a model.
pub struct ModelStage {
    /// The model's name in the pipeline.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Models that answer in its place, where a record says so: see [`AskingRecord`](tidegate_contract::AskingRecord).
    pub alternatives: Vec<Alternative>,
    /// What it is asked.
    pub ask: Ask,
    /// The user message, or the text to be encoded.
    pub prompt: PromptTemplate,
    /// Indexes of the parts of `prompt` that are cut alike when it is too long, all of one text; of a chat, among the parts of
    /// all its turns.
    pub truncate: Vec<usize>,
    /// Most tokens of the rendered `prompt`, or of all turns together.
    pub prompt_tokens: usize,
    /// Seed; each record has its own, derived from this and its id.
    pub seed: u64,
    /// Lower goes first; of none it is [`USUAL_CLASS`]. Records of callers go first by their callers' class, or by this
    /// one if that is the later.
    pub class: Option<u8>,
    /// In which order answers leave.
    pub order: Order,
    /// Most records of a task that wait here.
    pub max_in_flight: usize,
    /// Most of one key that are with the model at once.
    pub max_in_flight_per_key: usize,
    /// Longest wait for an answer.
    pub deadline: Option<Duration>,
    /// The stages whose operators handle the tokens of answers, in order.
    pub tokens: Vec<usize>,
    /// Where the tokens of answers go as they are made, after those handlers.
    pub token_feeds: Vec<Arc<dyn TokenFeed>>,
    /// How often a record is sent when the device fails, the first time included.
    pub attempts: u32,
    /// Where the answer goes beside the private attributes.
    pub into: AnswerInto,
    /// Name of the attribute, and of the member, that the answer becomes.
    pub field: String,
}

/// A model that answers in the place of a stage's own.
pub struct Alternative {
    /// Its name in the pipeline, by which records ask for it.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Most tokens of what it is asked.
    pub prompt_tokens: usize,
    /// How it generates: as the stage says, in its own tokens.
    pub parameters: Box<Parameters>,
}

/// Which model of a stage: none is its own, else one of its alternatives by index.
pub(crate) type Which = Option<usize>;

/// A model of a stage, and how it is asked.
#[derive(Clone, Copy)]
pub(crate) struct Chosen<'a> {
    pub(crate) name: &'a str,
    pub(crate) model: &'a Arc<dyn Model>,
    pub(crate) prompt_tokens: usize,
    /// Where it is asked for an answer.
    pub(crate) parameters: Option<&'a Parameters>,
}

/// A turn of a chat, as it is rendered for each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTurn {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: PromptTemplate,
}

/// What a model is asked.
pub enum Ask {
    /// An answer to a chat, or to a text as it is.
    Generate {
        /// Whether the prompt goes to the model as it is, without a chat template.
        raw: bool,
        /// The system message; none of a raw prompt.
        system: Option<String>,
        /// Whether the record's value is an [`AskingRecord`](tidegate_contract::AskingRecord), which says what is asked
        /// and how, in the place of the rendered prompt.
        from_record: bool,
        /// The turns of a chat, in the place of `prompt` and the system message; none where those are asked. One of the
        /// assistant at the end is the beginning of the answer.
        turns: Vec<PromptTurn>,
        /// What the chat template is given beside the messages.
        template_arguments: TemplateArguments,
        /// The member, and the attribute, that the reasoning becomes; it is dropped where there is none.
        reasoning: Option<String>,
        /// How to generate.
        parameters: Box<Parameters>,
    },
    /// The vector of a text.
    Embed,
    /// The likeliest label of a text.
    Classify {
        /// Least probability of a label; below it the text has none.
        threshold: f32,
        /// Who takes records of a label; those of other labels, or none, are the main output.
        routes: BTreeMap<String, Vec<Target>>,
    },
    /// The entities in a text.
    Recognize {
        /// How tokens become entities.
        aggregation: Aggregation,
        /// Least probability of an entity; one below it is not told.
        threshold: f32,
    },
    /// How well documents answer a query, which is the rendered prompt.
    Rerank {
        /// Where the list of documents stands in the value.
        documents: Vec<String>,
        /// How many of the best are told; none is all.
        top: Option<usize>,
    },
}

impl Stage {
    /// Who takes any of its outputs.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = Target> {
        let named = match &self.kind {
            StageKind::Operator(kind) => Some(&kind.named),
            StageKind::Model(kind) => match &kind.ask {
                Ask::Classify { routes, .. } => Some(routes),
                _ => None,
            },
        };
        let named = named.into_iter().flat_map(BTreeMap::values).flatten();
        self.targets.iter().chain(named).copied()
    }
}

impl ModelStage {
    /// One of its models.
    pub(crate) fn chosen(&self, which: Which) -> Chosen<'_> {
        match which.and_then(|which| self.alternatives.get(which)) {
            Some(other) => Chosen {
                name: &other.name,
                model: &other.model,
                prompt_tokens: other.prompt_tokens,
                parameters: Some(&other.parameters),
            },
            None => Chosen {
                name: &self.name,
                model: &self.model,
                prompt_tokens: self.prompt_tokens,
                parameters: match &self.ask {
                    Ask::Generate { parameters, .. } => Some(parameters),
                    Ask::Embed
                    | Ask::Classify { .. }
                    | Ask::Recognize { .. }
                    | Ask::Rerank { .. } => None,
                },
            },
        }
    }

    /// The templates that are rendered for a record: of its turns, or the prompt.
    pub(crate) fn templates(&self) -> Vec<&PromptTemplate> {
        match &self.ask {
            Ask::Generate { turns, .. } if !turns.is_empty() => {
                turns.iter().map(|turn| &turn.content).collect()
            }
            _ => vec![&self.prompt],
        }
    }

    /// Whose turn its records are: those of a caller have a class of their own.
    pub(crate) fn class(&self, of_caller: Option<u8>) -> u8 {
        let own = self.class;
        let later = of_caller.map(|class| class.max(own.unwrap_or_default()));
        later.or(own).unwrap_or(USUAL_CLASS)
    }

    /// The model of a name, if it is one of the stage's.
    pub(crate) fn which(&self, name: &str) -> Option<Which> {
        if name == self.name {
            return Some(None);
        }
        let mut others = self.alternatives.iter();
        others.position(|other| other.name == name).map(Some)
    }

    /// A request is of no more use, whichever of its models has it: to the others it is nothing.
    pub(crate) fn cancel(&self, request: RequestId) {
        self.model.cancel(request);
        for other in &self.alternatives {
            other.model.cancel(request);
        }
    }

    /// A request has said enough, whichever of its models has it.
    pub(crate) fn end(&self, request: RequestId) {
        self.model.end(request);
        for other in &self.alternatives {
            other.model.end(request);
        }
    }
}

/// Where an answer goes. Private attributes are set in every case: see `ARCHITECTURE.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerInto {
    /// It becomes a member of the JSON object that the value is; of another value it takes the place.
    Member,
    /// It becomes the value.
    Value,
    /// The value stays.
    Attributes,
}

/// In which order answers leave a model stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Records of one key in the order they came; records without key as they are finished.
    Key,
    /// All records of a partition in the order they came.
    Partition,
    /// As they are finished.
    None,
}

impl Topology {
    /// Index of the stage with this name.
    pub(crate) fn stage(&self, name: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.name == name)
    }

    /// Whether any stage has a model of this name.
    pub(crate) fn has_model(&self, name: &str) -> bool {
        self.stages.iter().any(|stage| match &stage.kind {
            StageKind::Model(kind) => kind.which(name).is_some(),
            StageKind::Operator(_) => false,
        })
    }

    /// What the task of a partition is called in cuts.
    pub(crate) fn task_id(&self, partition: Partition) -> TaskId {
        let source = self.sources.get(usize::from(partition.source));
        TaskId {
            source: source.map_or(String::new(), |source| source.name.clone()),
            partition: partition.number,
        }
    }

    /// Those who wait for records of a source, if somebody does.
    pub(crate) fn callers_of(&self, source: u16) -> Option<&dyn Callers> {
        let called = self.callers.as_ref()?;
        let source = self.sources.get(usize::from(source))?;
        source.called.then_some(called.callers.as_ref())
    }

    /// Index of the source with this name.
    pub(crate) fn source(&self, name: &str) -> Option<usize> {
        self.sources.iter().position(|source| source.name == name)
    }
}
