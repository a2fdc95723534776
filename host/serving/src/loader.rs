//! The loader's thread: models are loaded while others serve.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use tidegate_contract::{EncoderOutput, Makes};

use crate::budget::Reservation;
use crate::device_model::{DeviceModel, Loaders, load_draft, load_parts};
use crate::encoding::{Encoding, EncodingLimits};
use crate::engine::Shared;
use crate::error::LoadError;
use crate::generator::{Generator, Limits, context_of};
use crate::hosted::{Core, Hosted};
use crate::model::Loaded;
use crate::options::{Draft, MOST_GUESSES, ModelSource};
use crate::pins::Pins;
use crate::replicas::{Known, Load, Peers};
use crate::request::Places;
use crate::slot::Slot;
use crate::stats::Counters;
use crate::worker::Command;

/// Before a model is loaded again: a driver that restarts takes a moment.
const PAUSE: Duration = Duration::from_millis(250);

/// What the loader is asked for.
pub(crate) enum Job {
    /// A new model.
    Load {
        number: u64,
        slot: Arc<Slot>,
        source: Box<ModelSource>,
        reservation: Reservation,
        /// Places of its queue, which replicas share.
        places: Arc<Places>,
        /// Its place among the replicas.
        place: usize,
        /// Whether it is one of several replicas.
        several: bool,
        reply: Reply,
    },
    /// The decoder or encoder of a model again.
    Reload {
        number: u64,
        name: String,
        loaders: Box<Loaders>,
    },
    /// The draft of a model again, which goes on meanwhile.
    Draft {
        number: u64,
        name: String,
        vocabulary: usize,
        loaders: Box<Loaders>,
    },
}

/// Tells the caller of a load.
pub(crate) struct Reply {
    pub(crate) result: Sender<Result<Arc<Loaded>, LoadError>>,
    /// The caller has gone.
    pub(crate) abandoned: Arc<AtomicBool>,
}

impl Reply {
    pub(crate) fn tell(&self, result: Result<Arc<Loaded>, LoadError>) {
        let _ = self.result.try_send(result);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}

/// Does jobs until nobody can send more.
pub(crate) fn run(jobs: &Receiver<Job>, shared: &Shared) {
    while let Ok(job) = jobs.recv() {
        if shared.closed.load(Ordering::Acquire) {
            continue;
        }
        match job {
            Job::Load {
                number,
                slot,
                source,
                reservation,
                places,
                place,
                several,
                reply,
            } => {
                if reply.is_abandoned() {
                    continue;
                }
                let known = several.then(Arc::default);
                let of_all = (places, place, known);
                match load(shared, number, &slot, *source, reservation, of_all) {
                    Ok(hosted) => {
                        let loaded = Command::Loaded(Box::new(hosted), reply);
                        // Dropped with the command, the reply tells the caller `Closed`.
                        let _ = shared.commands.send(loaded);
                    }
                    Err(error) => reply.tell(Err(error)),
                }
            }
            Job::Reload {
                number,
                name,
                mut loaders,
            } => {
                std::thread::sleep(PAUSE);
                let parts =
                    load_parts(&name, &mut loaders, true).map_err(|error| error.to_string());
                let reloaded = Command::Reloaded {
                    number,
                    loaders,
                    parts,
                };
                let _ = shared.commands.send(reloaded);
            }
            Job::Draft {
                number,
                name,
                vocabulary,
                mut loaders,
            } => {
                std::thread::sleep(PAUSE);
                let draft = match &mut loaders.draft {
                    Some(load) => {
                        load_draft(&name, load, vocabulary).map_err(|error| error.to_string())
                    }
                    None => Err("there is none".to_owned()),
                };
                let loaded = Command::DraftLoaded {
                    number,
                    loaders,
                    draft,
                };
                let _ = shared.commands.send(loaded);
            }
        }
    }
}

fn load(
    shared: &Shared,
    number: u64,
    slot: &Arc<Slot>,
    source: ModelSource,
    mut reservation: Reservation,
    (places, place, known): (Arc<Places>, usize, Option<Arc<Known>>),
) -> Result<Hosted, LoadError> {
    let name = &slot.name;
    let options = source.options;
    let mut loaders = Loaders {
        load: source.load,
        draft: options.draft.map(|Draft { load, .. }| load),
        pins: Pins::default(),
    };
    let parts = load_parts(name, &mut loaders, false)?;
    let memory = parts.memory();
    reservation
        .resize(memory)
        .map_err(|free| LoadError::Budget {
            name: name.clone(),
            needed: memory,
            free,
            budget: shared.budget.limit(),
        })?;
    let counters = Arc::new(Counters::of(&options.loras));
    Counters::set(
        &counters.memory,
        usize::try_from(memory).unwrap_or(usize::MAX),
    );
    let mut end_tokens = options.end_tokens;
    end_tokens.extend(source.tokenizer.eos());
    end_tokens.sort_unstable();
    end_tokens.dedup();
    let mut loaded = Loaded {
        number,
        place,
        load: Arc::new(Load::of(&source.facts.adapter)),
        facts: source.facts,
        loras: options.loras,
        makes: Makes::Text,
        vocabulary: 0,
        context: 0,
        types: 1,
        end_tokens,
        most_choices: options.most_choices.max(1),
        truncate: options.truncate,
        aging: options.aging,
        places,
        counters: Arc::clone(&counters),
        away: AtomicBool::new(false),
        again_at: AtomicU64::new(0),
        relieved: AtomicBool::new(false),
        asked: OnceLock::new(),
        known: known.clone(),
        peers: Peers::new(),
        compiler: OnceLock::new(),
        thoughts: OnceLock::new(),
        thoughts_before_calls: OnceLock::new(),
        tokenizer: source.tokenizer,
    };
    let core = match parts {
        DeviceModel::Decoder(mut decoder, draft) => {
            let shape = decoder.shape().clone();
            if loaded.tokenizer.vocabulary() > shape.vocabulary {
                return Err(LoadError::Vocabulary {
                    name: name.clone(),
                    tokenizer: loaded.tokenizer.vocabulary(),
                    model: shape.vocabulary,
                });
            }
            let limits = Limits {
                step_tokens: options.step_tokens.max(1),
                prefill_tokens: options.prefill_tokens,
                step_time: options.step_time,
                sequences: options.sequences.max(1),
                aging: options.aging,
                look_ahead: options.look_ahead.min(MOST_GUESSES),
                end_tokens: loaded.end_tokens.clone(),
            };
            loaded.vocabulary = shape.vocabulary;
            loaded.context = context_of(&shape);
            for structure in &options.structures {
                loaded
                    .compile(structure)
                    .map_err(|error| LoadError::Failed {
                        name: name.clone(),
                        reason: error.to_string(),
                    })?;
            }
            let sequences = limits.clone().within(&shape).sequences;
            loaded.facts.sequences = u32::try_from(sequences).unwrap_or(u32::MAX);
            let pins = Pins::new(name, options.pins, &shape)?;
            pins.write(name, decoder.as_mut())?;
            loaders.pins = pins.clone();
            let generator = Generator::new(shape, limits, counters, draft, (pins, known));
            Core::generating(decoder, generator)
        }
        DeviceModel::Encoder(encoder) => {
            let scores = match encoder.output() {
                EncoderOutput::Embedding | EncoderOutput::Relevance(_) => 0,
                EncoderOutput::Scores | EncoderOutput::TokenScores => encoder.width(),
            };
            if options.labels.len() != scores {
                return Err(LoadError::Labels {
                    name: name.clone(),
                    scores,
                    labels: options.labels.len(),
                });
            }
            loaded.makes = match encoder.output() {
                EncoderOutput::Embedding => Makes::Embeddings,
                EncoderOutput::Scores => Makes::Labels,
                EncoderOutput::TokenScores => Makes::Entities,
                EncoderOutput::Relevance(_) => Makes::Relevance,
            };
            loaded.types = encoder.types();
            loaded.context = encoder.context().min(encoder.max_rows());
            let texts = options.sequences.max(1);
            loaded.facts.sequences = u32::try_from(texts.min(encoder.max_rows())).unwrap_or(1);
            let limits = EncodingLimits {
                step_tokens: options
                    .step_tokens
                    .max(loaded.context)
                    .min(encoder.max_rows()),
                texts,
                aging: options.aging,
                width: encoder.width(),
                output: encoder.output(),
                labels: options.labels,
            };
            Core::encoding(encoder, Encoding::new(limits, counters))
        }
    };
    loaded.facts.context = u32::try_from(loaded.context).unwrap_or(u32::MAX);
    Ok(Hosted::new(
        Arc::new(loaded),
        Arc::clone(slot),
        core,
        loaders,
        reservation,
    ))
}
