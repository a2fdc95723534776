//! What a model is run by: loaded, and tried before it serves.

use tidegate_contract::{Decoder, Encoder, EncoderText, Sampling, StepSequence};

use crate::error::LoadError;
use crate::generator::DraftModel;
use crate::guard::{guarded_encode, guarded_load, guarded_logits, guarded_step};
use crate::options::{LoadDecoder, LoadEncoder, ModelLoader};
use crate::pins::Pins;

/// How a model's parts are loaded, kept to do it again.
pub(crate) struct Loaders {
    pub(crate) load: ModelLoader,
    pub(crate) draft: Option<LoadDecoder>,
    /// What is computed before a decoder serves.
    pub(crate) pins: Pins,
}

/// What was loaded.
pub(crate) enum DeviceModel {
    Decoder(Box<dyn Decoder>, Option<Box<DraftModel>>),
    Encoder(Box<dyn Encoder>),
}

impl DeviceModel {
    /// Bytes they hold on the device.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            DeviceModel::Decoder(decoder, draft) => {
                decoder.memory() + draft.as_ref().map_or(0, |draft| draft.memory())
            }
            DeviceModel::Encoder(encoder) => encoder.memory(),
        }
    }
}

/// Loads a model's parts and lets each make something, so that what cannot is found here, and drivers compile what
/// they compile late. What is pinned is computed. A model that has served already serves again without its draft, if only that cannot be loaded.
///
/// # Errors
/// A part cannot be loaded, or fails its first step.
pub(crate) fn load_parts(
    name: &str,
    loaders: &mut Loaders,
    has_served: bool,
) -> Result<DeviceModel, LoadError> {
    let load = match &mut loaders.load {
        ModelLoader::Encoder(load) => return load_encoder(name, load),
        ModelLoader::Decoder(load) => load,
    };
    let mut decoder = guarded_load(load).map_err(|reason| failed(name, reason))?;
    try_decoder(name, decoder.as_mut())?;
    loaders.pins.write(name, decoder.as_mut())?;
    let vocabulary = decoder.shape().vocabulary;
    let draft = loaders.draft.as_mut();
    let draft = match draft.map(|load| load_draft(name, load, vocabulary)) {
        Some(Err(error)) if has_served => {
            tracing::error!(model = name, %error, "the draft model could not be loaded again with its model");
            None
        }
        draft => draft.transpose()?,
    };
    Ok(DeviceModel::Decoder(decoder, draft))
}

/// Loads a model's draft, which must have the model's vocabulary.
///
/// # Errors
/// It has another, cannot be loaded, or fails its first step.
pub(crate) fn load_draft(
    name: &str,
    load: &mut LoadDecoder,
    vocabulary: usize,
) -> Result<Box<DraftModel>, LoadError> {
    let mut draft =
        guarded_load(load).map_err(|reason| failed(name, format!("its draft model: {reason}")))?;
    let own = draft.shape().vocabulary;
    if own != vocabulary {
        return Err(LoadError::DraftVocabulary {
            name: name.into(),
            draft: own,
            model: vocabulary,
        });
    }
    try_decoder(name, draft.as_mut())?;
    Ok(Box::new(DraftModel::new(draft)))
}

fn failed(name: &str, reason: String) -> LoadError {
    LoadError::Failed {
        name: name.into(),
        reason,
    }
}

fn load_encoder(name: &str, load: &mut LoadEncoder) -> Result<DeviceModel, LoadError> {
    let mut encoder = guarded_load(load).map_err(|reason| failed(name, reason))?;
    try_encoder(name, encoder.as_mut())?;
    Ok(DeviceModel::Encoder(encoder))
}

fn at_least(name: &str, what: &'static str, value: usize, least: usize) -> Result<(), LoadError> {
    match value >= least {
        true => Ok(()),
        false => Err(LoadError::Shape {
            name: name.into(),
            what,
            value,
            least,
        }),
    }
}

fn try_decoder(name: &str, decoder: &mut dyn Decoder) -> Result<(), LoadError> {
    let shape = decoder.shape().clone();
    at_least(name, "vocabulary", shape.vocabulary, 1)?;
    at_least(name, "context", shape.context, 2)?;
    at_least(name, "KV blocks", shape.blocks, 1)?;
    at_least(name, "rows of a step", shape.max_rows, 1)?;
    at_least(name, "samples of a step", shape.max_samples, 1)?;
    let step = |lora| {
        [StepSequence {
            lora,
            position: 0,
            tokens: vec![0],
            blocks: vec![0],
            samples: vec![Sampling::default()],
        }]
    };
    let first_step = |name: &str, error| LoadError::FirstStep {
        name: name.into(),
        error,
    };
    let mut logits = Vec::new();
    for lora in 0..=u32::try_from(shape.loras).unwrap_or(u32::MAX) {
        let through = match lora {
            0 => name.to_owned(),
            lora => format!("{name} through its adapter {lora}"),
        };
        guarded_logits(decoder, &step(lora), &mut logits)
            .map_err(|error| first_step(&through, error))?;
        finite(&through, &logits)?;
    }
    guarded_step(decoder, &step(0), &mut Vec::new()).map_err(|error| first_step(name, error))
}

fn try_encoder(name: &str, encoder: &mut dyn Encoder) -> Result<(), LoadError> {
    at_least(name, "width", encoder.width(), 1)?;
    at_least(name, "context", encoder.context(), 1)?;
    at_least(name, "rows of a step", encoder.max_rows(), 1)?;
    let mut vectors = Vec::new();
    guarded_encode(encoder, &[EncoderText::single(&[0])], &mut vectors).map_err(|error| {
        LoadError::FirstStep {
            name: name.into(),
            error,
        }
    })?;
    finite(name, &vectors)
}

fn finite(name: &str, numbers: &[f32]) -> Result<(), LoadError> {
    match numbers.iter().position(|number| !number.is_finite()) {
        Some(index) => Err(LoadError::NotFinite {
            name: name.into(),
            index,
            of: numbers.len(),
            value: numbers[index].to_string(),
        }),
        None => Ok(()),
    }
}
