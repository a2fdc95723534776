//! Models onto adapters.

use std::sync::Arc;

use anyhow::Context;
use tidegate_contract::Model as _;
use tidegate_control::config::{AdapterChoice, Pipeline};
use tidegate_infer::serving::{Engine, EngineOptions, LoadOptions, load_model};
use tidegate_infer::{DecoderOptions, ModelConfig};

use crate::commands::model::DEFAULT_CONTEXT;
use crate::exit::Failure;

/// The engines of a pipeline's models, in its order.
pub(crate) type Engines = Vec<Arc<Engine>>;

/// Rows of a step: every sequence's next token and room for prompts beside them.
const PREFILL_ROWS: usize = 64;

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
        let engine = load_model(&model.path, selector, options).with_context(failed)?;
        tracing::info!(
            model = model.name,
            adapter = engine.facts().adapter,
            "model loaded"
        );
        engines.push(Arc::new(engine));
    }
    Ok(engines)
}
