//! A model as `tidegate run` loads it from a pipeline file that says its path and sequences only.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_contract::{BLOCK, Decoder, ModelFacts};
use tidegate_infer::{
    Adapter, AdapterKind, DecoderOptions, DeviceOptions, Gpu, GpuDecoder, MappedFiles, MemoryReport,
};
use tidegate_serving::{
    Engine, EngineOptions, LoadDecoder, ModelHandle, ModelLoader, ModelOptions, ModelSource,
};
use tidegate_text::Tokenizer;
use tidegate_weights::Checkpoint;

/// What a pipeline file means where it says nothing.
const CONTEXT: usize = 2048;
const QUEUE: usize = 256;
const STEP_TOKENS: usize = 256;
const LEAST_SAMPLES: usize = 64;
/// Of a GPU and of a software adapter.
const STEP_TIMES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// Opens a directory or a .gguf file.
pub(crate) fn open(
    path: &Path,
    sequences: usize,
    adapter: Option<&str>,
) -> anyhow::Result<(Engine, ModelHandle)> {
    let adapter = Adapter::choose(adapter)?;
    let checkpoint = Checkpoint::open(path, &MappedFiles)
        .with_context(|| format!("cannot open {}", path.display()))?;
    checkpoint.check()?;
    let tokenizer = match path.is_dir() {
        true => Tokenizer::from_dir(path)?,
        false => Tokenizer::from_gguf(&checkpoint.gguf_vocabulary().context("no tokenizer")?)?,
    };
    let config = checkpoint.decoder().context("the model makes no text")?;
    let context = config.context.min(CONTEXT);
    let sizes = DecoderOptions {
        context,
        blocks: sequences * context.div_ceil(BLOCK),
        max_rows: STEP_TOKENS,
        max_samples: sequences.clamp(LEAST_SAMPLES, STEP_TOKENS),
        reproducible: true,
        ..DecoderOptions::default()
    };
    let mut end_tokens = config.eos_tokens.clone();
    end_tokens.extend(tokenizer.end_tokens());
    end_tokens.sort_unstable();
    end_tokens.dedup();
    let software = adapter.info().kind == AdapterKind::Software;
    let options = ModelOptions {
        queue: QUEUE,
        step_tokens: STEP_TOKENS,
        step_time: STEP_TIMES[usize::from(software)],
        sequences,
        end_tokens,
        ..ModelOptions::default()
    };
    let facts = ModelFacts {
        name: "bench".into(),
        digest: checkpoint.digest()?,
        adapter: adapter.info().to_string(),
        context: context as u32,
        sequences: sequences as u32,
    };
    let bytes = MemoryReport::estimate(&checkpoint, &sizes)?.total();
    let load: LoadDecoder = Box::new(move || {
        let gpu = Gpu::open(&adapter, DeviceOptions::default()).map_err(|e| e.to_string())?;
        let decoder = GpuDecoder::load(&gpu, &checkpoint, &sizes).map_err(|e| e.to_string())?;
        Ok(Box::new(decoder) as Box<dyn Decoder>)
    });
    let source = ModelSource {
        tokenizer: Arc::new(tokenizer),
        facts,
        bytes,
        load: ModelLoader::Decoder(load),
        options,
    };
    let engine = Engine::start(EngineOptions::default());
    let model = engine.load("bench", source)?;
    Ok((engine, model))
}
