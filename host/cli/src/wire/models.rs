//! The pipeline's models onto adapters.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use tidegate_connect::remote::RemoteModel;
use tidegate_control::config::Pipeline;
use tidegate_infer::AdapterError;

use crate::exit::Failure;
use crate::models::{Adapters, HostedModel, LoraModel, Served, adapting, is_loaded, selector};

/// The pipeline's models in its order; none for one that no stage asks.
pub(crate) type Models = Vec<Option<Served>>;

/// Loads every model that a stage asks, or an adapter of it; those of other servers are open. `adapter` goes before what the pipeline file
/// says.
pub(crate) fn load(
    pipeline: &Arc<Pipeline>,
    adapter: Option<&str>,
    remote: &BTreeMap<usize, Arc<RemoteModel>>,
) -> Result<Models, Failure> {
    let adapters = Arc::new(Adapters::new(pipeline.engine));
    let mut models = Vec::new();
    for (index, model) in pipeline.models.iter().enumerate() {
        if let Some(remote) = remote.get(&index) {
            models.push(Some(Served::Remote(remote.clone())));
            continue;
        }
        if !is_loaded(pipeline, index) {
            models.push(None);
            continue;
        }
        let configured: Vec<Option<String>> = model.adapters.iter().map(selector).collect();
        let selectors = match adapter {
            // One for all models: one replica on it.
            Some(adapter) => vec![Some(adapter)],
            None => configured.iter().map(Option::as_deref).collect(),
        };
        let used = adapters
            .get_all(&selectors)
            // None that was asked for is there.
            .map_err(|error: AdapterError| Failure::usage(error))?;
        let hosted = HostedModel::load(pipeline, index, &adapters, used)
            .with_context(|| format!("model {} ({})", model.name, model.path.display()))?;
        models.push(Some(Served::Hosted(Arc::new(hosted))));
    }
    for base in 0..models.len() {
        let Some(Served::Hosted(hosted)) = models[base].clone() else {
            continue;
        };
        for (number, (index, ..)) in (1..).zip(adapting(pipeline, base)) {
            let adapted = LoraModel::new(&hosted, index, number);
            models[index] = Some(Served::Lora(Arc::new(adapted)));
        }
    }
    Ok(models)
}
