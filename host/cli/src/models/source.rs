//! What an engine needs to put a model onto its adapter, and to put it there again when the device failed.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::{Decoder, Encoder, Makes, ModelFacts};
use tidegate_control::config::{Engine, Model};
use tidegate_infer::{
    AdapterKind, DecoderOptions, EncoderOptions, Gpu, GpuDecoder, GpuEncoder, LoadError,
    MemoryReport,
};
use tidegate_serving::{
    Draft, LoadDecoder, LoadEncoder, ModelLoader, ModelOptions, ModelSource, Pin, pinned_blocks,
};
use tidegate_telemetry::{Work, WorkKind};
use tidegate_weights::Checkpoint;

use super::fit::{context, end_tokens};
use super::gpu::UsedAdapter;
use super::open::{ModelFile, name, open_checkpoint};
use super::sizes::{decoder_options, encoder_options, kernels};
use crate::terminal::works;

/// How long a step should take while prompts are read beside answers: with a GPU, and with software.
const STEP: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// The model in these files, to be loaded by an engine of the adapter, and what is pinned of it.
pub(crate) fn source(
    model: &Model,
    engine: Engine,
    adapter: &Arc<UsedAdapter>,
    file: &ModelFile,
    (digest, pins): (&str, Vec<Pin>),
) -> anyhow::Result<ModelSource> {
    let context = context(model, file);
    let facts = ModelFacts {
        name: file.name(),
        digest: digest.to_owned(),
        adapter: adapter.info().to_string(),
        context: context as u32,
        sequences: model.sequences as u32,
    };
    let software = adapter.info().kind == AdapterKind::Software;
    let mut options = ModelOptions {
        queue: model.queue,
        step_tokens: engine.step_tokens,
        step_time: STEP[usize::from(software)],
        sequences: model.sequences,
        end_tokens: end_tokens(file),
        labels: file.labels(),
        ..ModelOptions::default()
    };
    let checkpoint = file.checkpoint.clone();
    let (bytes, load) = match file.makes() {
        Makes::Text => {
            let pinned = pinned_blocks(&pins);
            let sizes = decoder_options(model, engine, &checkpoint, context, pinned)?;
            options.pins = pins;
            if let Some(path) = &model.draft {
                let draft = Arc::new(open_checkpoint(path)?);
                let own = draft.decoder().map_or(context, |config| config.context);
                // It writes all of each prompt itself.
                let sizes = DecoderOptions {
                    context: context.min(own),
                    ..decoder_options(model, engine, &checkpoint, context, 0)?
                };
                options.draft = Some(Draft {
                    bytes: MemoryReport::estimate(&draft, &sizes)?.total(),
                    load: decoder(adapter.clone(), draft, sizes),
                });
            }
            let bytes = MemoryReport::estimate(&checkpoint, &sizes)?.total();
            (
                bytes,
                ModelLoader::Decoder(decoder(adapter.clone(), checkpoint, sizes)),
            )
        }
        Makes::Embeddings | Makes::Labels | Makes::Entities | Makes::Relevance => {
            let sizes = EncoderOptions {
                kernels: kernels(model),
                reproducible: model.reproducible,
                ..encoder_options(engine, context)
            };
            let bytes = GpuEncoder::estimate(&checkpoint, &sizes)?.total();
            (
                bytes,
                ModelLoader::Encoder(encoder(adapter.clone(), checkpoint, sizes)),
            )
        }
    };
    Ok(ModelSource {
        tokenizer: file.tokenizer.clone(),
        facts,
        bytes,
        load,
        options,
    })
}

fn decoder(
    adapter: Arc<UsedAdapter>,
    checkpoint: Arc<Checkpoint>,
    options: DecoderOptions,
) -> LoadDecoder {
    on_device(adapter, move |gpu| {
        let work = loading(&checkpoint);
        let told = |done, of| work.done_of(done, of);
        let decoder = GpuDecoder::load_told(gpu, &checkpoint, &options, &told)?;
        Ok(Box::new(decoder) as Box<dyn Decoder>)
    })
}

fn encoder(
    adapter: Arc<UsedAdapter>,
    checkpoint: Arc<Checkpoint>,
    options: EncoderOptions,
) -> LoadEncoder {
    on_device(adapter, move |gpu| {
        let work = loading(&checkpoint);
        let told = |done, of| work.done_of(done, of);
        let encoder = GpuEncoder::load_told(gpu, &checkpoint, &options, &told)?;
        Ok(Box::new(encoder) as Box<dyn Encoder>)
    })
}

/// Hashes the model's files.
pub(super) fn digest(file: &ModelFile) -> anyhow::Result<String> {
    let work = works().begin(WorkKind::Read, &file.name());
    let told = &mut |done, of| work.done_of(done, of);
    Ok(file.checkpoint.digest_told(told)?)
}

/// Lists that a model goes onto its adapter.
pub(crate) fn loading(checkpoint: &Checkpoint) -> Work {
    works().begin(WorkKind::Load, &name(checkpoint.path()))
}

/// Loads onto the adapter's open device; onto another one when the first has failed.
fn on_device<T>(
    adapter: Arc<UsedAdapter>,
    load: impl Fn(&Gpu) -> Result<T, LoadError> + Send + 'static,
) -> Box<dyn FnMut() -> Result<T, String> + Send> {
    let mut seen = None;
    Box::new(move || {
        let gpu = adapter.device(&mut seen).map_err(|e| e.to_string())?;
        load(&gpu).map_err(|e| e.to_string())
    })
}
