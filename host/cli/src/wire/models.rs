//! The pipeline's models onto adapters.

use std::sync::Arc;

use anyhow::Context;
use tidegate_control::config::{Pipeline, StageKind};
use tidegate_infer::AdapterError;

use crate::exit::Failure;
use crate::models::{Adapters, HostedModel, Served, open_remote, selector};

/// The pipeline's models in its order; none for one that no stage asks.
pub(crate) type Models = Vec<Option<Served>>;

/// Loads every model that a stage asks. `adapter` goes before what the pipeline file says.
pub(crate) fn load(pipeline: &Arc<Pipeline>, adapter: Option<&str>) -> Result<Models, Failure> {
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let mut models = Vec::new();
    for (index, model) in pipeline.models.iter().enumerate() {
        let asks = |kind: &StageKind| matches!(kind, StageKind::Model(stage) if stage.asks(index));
        if !pipeline.stages.iter().any(|stage| asks(&stage.kind)) {
            models.push(None);
            continue;
        }
        if let Some(remote) = &model.remote {
            let remote = open_remote(pipeline, index, remote)?;
            models.push(Some(Served::Remote(Arc::new(remote))));
            continue;
        }
        let configured = selector(&model.adapter);
        let used = adapters
            .get(adapter.or(configured.as_deref()))
            // The adapter that was asked for is not there.
            .map_err(|error: AdapterError| Failure::usage(error))?;
        let hosted = HostedModel::load(pipeline, index, &adapters, &used)
            .with_context(|| format!("model {} ({})", model.name, model.path.display()))?;
        models.push(Some(Served::Hosted(Arc::new(hosted))));
    }
    Ok(models)
}
