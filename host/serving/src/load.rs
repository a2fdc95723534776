//! From a model's directory to a running engine.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidegate_contract::ModelFacts;
use tidegate_text::Tokenizer;

use super::{Engine, EngineOptions, Reload};
use crate::config::{ConfigError, ModelConfig};
use crate::decoder::{DecodeError, Decoder, DecoderOptions, GpuDecoder, LoadError, StepRow};
use crate::device::{Adapter, AdapterError};
use crate::weights::{Weights, WeightsError};

/// The files that make a model what it is, in the order of the digest.
const DIGESTED: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

/// How a model is loaded and served.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Slots, positions and rows. A context above the model's own is cut down to it.
    pub decoder: DecoderOptions,
    /// Queue and batching; the end tokens of `config.json` are added.
    pub engine: EngineOptions,
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadModelError {
    /// `config.json` is missing or not of a model that is supported.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tokenizer or its configuration is missing or broken.
    #[error(transparent)]
    Tokenizer(#[from] tidegate_text::LoadError),
    /// The weights are missing or broken.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// There is no adapter like that.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The model does not run on the adapter.
    #[error(transparent)]
    Decoder(#[from] LoadError),
    /// The tokenizer knows tokens that the model does not.
    #[error("the tokenizer has {tokenizer} tokens, the model only {model}")]
    Vocabulary {
        /// Tokens of `tokenizer.json`.
        tokenizer: usize,
        /// `vocab_size` of `config.json`.
        model: usize,
    },
    /// A file could not be read for the digest.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The first step failed.
    #[error("the model fails its first step: {0}")]
    FirstStep(#[from] DecodeError),
    /// The first step gave numbers that are none.
    #[error("the model fails its first step: logit {index} of {of} is {value}")]
    NotFinite {
        /// Which logit.
        index: usize,
        /// How many there are.
        of: usize,
        /// What it is.
        value: f32,
    },
}

/// Loads a model's directory onto an adapter and starts its engine.
///
/// `adapter` chooses as [`Adapter::choose`] does. A first step is run, so that a model that cannot answer is told
/// here. When the device is lost the model is loaded again from the same directory.
///
/// # Errors
/// A file that is missing or broken, an adapter that is not there or too small, a tokenizer that does not fit.
pub fn load_model(
    directory: impl AsRef<Path>,
    adapter: Option<&str>,
    options: LoadOptions,
) -> Result<Engine, LoadModelError> {
    let directory = directory.as_ref().to_owned();
    let config = ModelConfig::from_dir(&directory)?;
    let tokenizer = Tokenizer::from_dir(&directory)?;
    if tokenizer.vocabulary() > config.vocabulary {
        return Err(LoadModelError::Vocabulary {
            tokenizer: tokenizer.vocabulary(),
            model: config.vocabulary,
        });
    }
    let chosen = Adapter::choose(adapter)?;
    let mut decoder_options = options.decoder;
    decoder_options.context = decoder_options.context.min(config.context);
    let mut engine_options = options.engine;
    engine_options.end_tokens.extend(&config.eos_tokens);

    let decoder = load_decoder(&directory, &chosen, &config, &decoder_options)?;
    let facts = ModelFacts {
        name: name(&directory),
        digest: digest(&directory)?,
        adapter: chosen.info().to_string(),
        context: decoder_options.context as u32,
        sequences: decoder_options.slots as u32,
    };
    let selector = adapter.map(str::to_owned);
    let reload: Reload = Box::new(move || {
        let again = || -> Result<Box<dyn Decoder>, LoadModelError> {
            let chosen = Adapter::choose(selector.as_deref())?;
            load_decoder(&directory, &chosen, &config, &decoder_options)
        };
        again().map_err(|e| e.to_string())
    });
    Ok(Engine::start_reloading(
        decoder,
        Some(reload),
        Arc::new(tokenizer),
        facts,
        engine_options,
    ))
}

fn load_decoder(
    directory: &Path,
    adapter: &Adapter,
    config: &ModelConfig,
    options: &DecoderOptions,
) -> Result<Box<dyn Decoder>, LoadModelError> {
    let weights = Weights::open(directory)?;
    let mut decoder: Box<dyn Decoder> =
        Box::new(GpuDecoder::load(adapter, config, weights, options.clone())?);
    first_step(decoder.as_mut())?;
    Ok(decoder)
}

/// Runs one row, so that drivers compile what they compile late, and looks at the logits.
fn first_step(decoder: &mut dyn Decoder) -> Result<(), LoadModelError> {
    let mut logits = Vec::new();
    decoder.step(
        &[StepRow {
            slot: 0,
            token: 0,
            position: 0,
            wants_logits: true,
        }],
        &mut logits,
    )?;
    match logits.iter().position(|logit| !logit.is_finite()) {
        Some(index) => Err(LoadModelError::NotFinite {
            index,
            of: logits.len(),
            value: logits[index],
        }),
        None => Ok(()),
    }
}

/// The directory's name, also when it is given as `.` or with a slash at its end.
fn name(directory: &Path) -> String {
    let whole = directory
        .canonicalize()
        .unwrap_or_else(|_| directory.to_owned());
    whole.file_name().map_or_else(
        || "model".into(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// `sha256:` and the digest of the model's files, one after another.
fn digest(directory: &Path) -> Result<String, LoadModelError> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for file in DIGESTED {
        let file = directory.join(file);
        let failed = |source| LoadModelError::Read {
            file: file.clone(),
            source,
        };
        let mut opened = File::open(&file).map_err(failed)?;
        loop {
            let read = opened.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
        }
    }
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(format!("sha256:{digits}"))
}
