//! Models onto adapters.

use std::sync::Arc;

use anyhow::Context;
use tidegate_contract::Model as _;
use tidegate_control::config::{AdapterChoice, Model, Pipeline, StageKind};
use tidegate_infer::serving::{Engine, EngineOptions, LoadModelError, LoadOptions, load_model};
use tidegate_infer::{DecoderOptions, ModelConfig, Weights};
use tidegate_text::{ChatMessage, Tokenizer};

use crate::commands::model::DEFAULT_CONTEXT;
use crate::exit::Failure;
use crate::wire::stages::TEMPLATE_TOKENS;

/// The engines of a pipeline's models, in its order.
pub(crate) type Engines = Vec<Arc<Engine>>;

/// Rows of a step: every sequence's next token and room for prompts beside them.
const PREFILL_ROWS: usize = 64;

/// Reads what can be read of every model without a device, and whether its stages fit it: mistakes of the
/// configuration.
pub(crate) fn check(pipeline: &Pipeline) -> Result<(), Failure> {
    let mut mistakes = Vec::new();
    for (index, model) in pipeline.models.iter().enumerate() {
        let mistake =
            |why: String| format!("{}: model.{}: {why}", pipeline.file.display(), model.name);
        let own = match own_context(model) {
            Ok(own) => own,
            Err(error) => {
                mistakes.push(mistake(format!("{error:#}")));
                continue;
            }
        };
        if let Some(asked) = model.context.filter(|asked| *asked > own) {
            mistakes.push(mistake(format!(
                "context = {asked} exceeds the model's own of {own} positions"
            )));
            continue;
        }
        let context = model.context.unwrap_or(own.min(DEFAULT_CONTEXT));
        for stage in &pipeline.stages {
            let StageKind::Model(kind) = &stage.kind else {
                continue;
            };
            if kind.model != index {
                continue;
            }
            let room = context.saturating_sub(kind.max_tokens + TEMPLATE_TOKENS);
            if room == 0 || kind.prompt_tokens.is_some_and(|tokens| tokens > room) {
                mistakes.push(format!(
                    "{}: stage.{}: max-tokens = {} leaves {room} positions of {context} for the prompt{}",
                    pipeline.file.display(),
                    stage.name,
                    kind.max_tokens,
                    kind.prompt_tokens.map_or_else(String::new, |tokens| format!(", prompt-tokens = {tokens} needs more")),
                ));
            }
        }
    }
    if mistakes.is_empty() {
        Ok(())
    } else {
        Err(Failure::Usage(mistakes.join("\n")))
    }
}

/// Positions the model was made for, after its files were looked at.
fn own_context(model: &Model) -> anyhow::Result<usize> {
    let config = ModelConfig::from_dir(&model.path)?;
    Weights::open(&model.path)?.check(&config)?;
    let tokenizer = Tokenizer::from_dir(&model.path)?;
    anyhow::ensure!(
        tokenizer.vocabulary() <= config.vocabulary,
        "the tokenizer has {} tokens, the model only {}",
        tokenizer.vocabulary(),
        config.vocabulary
    );
    tokenizer.render_chat(&[ChatMessage {
        role: "user",
        content: "hello",
    }])?;
    Ok(config.context)
}

/// Loads every model of the pipeline.
pub(crate) fn load(pipeline: &Pipeline, adapter: Option<&str>) -> Result<Engines, Failure> {
    let mut engines = Vec::new();
    for model in &pipeline.models {
        let configured = match &model.adapter {
            AdapterChoice::Any => None,
            AdapterChoice::Cpu => Some("cpu".to_owned()),
            AdapterChoice::Index(index) => Some(index.to_string()),
            AdapterChoice::Named(name) => Some(name.clone()),
        };
        let selector = adapter.or(configured.as_deref());
        let failed = || format!("model {} ({})", model.name, model.path.display());
        let own = ModelConfig::from_dir(&model.path)
            .with_context(failed)?
            .context;
        let context = model.context.unwrap_or(own.min(DEFAULT_CONTEXT));
        let options = LoadOptions {
            decoder: DecoderOptions {
                slots: model.sequences,
                context,
                max_rows: model.sequences + PREFILL_ROWS,
                ..DecoderOptions::default()
            },
            engine: EngineOptions {
                queue: model.queue,
                ..EngineOptions::default()
            },
        };
        let engine = load_model(&model.path, selector, options).map_err(|error| match error {
            // The adapter that was asked for is not there.
            LoadModelError::Adapter(error) => Failure::usage(error),
            other => Failure::Run(anyhow::Error::new(other).context(failed())),
        })?;
        tracing::info!(
            model = model.name,
            adapter = engine.facts().adapter,
            "model loaded"
        );
        engines.push(Arc::new(engine));
    }
    Ok(engines)
}
