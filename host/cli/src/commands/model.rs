//! `tidegate model`.

use std::path::Path;

use serde_json::json;
use tidegate_infer::{Adapter, DecoderOptions, MemoryReport, ModelConfig, Weights};

use super::print;
use crate::exit::Failure;

/// Positions that are counted for a sequence unless the model has fewer.
pub(crate) const DEFAULT_CONTEXT: usize = 2048;

/// Shows a model's architecture, parameters, memory by part, and what fits.
pub(crate) fn info(
    directory: &Path,
    adapter: Option<&str>,
    sequences: usize,
    as_json: bool,
) -> Result<(), Failure> {
    let config = ModelConfig::from_dir(directory)?;
    let weights = Weights::open(directory)?;
    let context = config.context.min(DEFAULT_CONTEXT);
    let options = DecoderOptions {
        slots: sequences.max(1),
        context,
        ..DecoderOptions::default()
    };
    let memory = MemoryReport::estimate(&config, &weights, &options)?;
    let chosen = Adapter::choose(adapter);
    if let (Some(_), Err(error)) = (adapter, &chosen) {
        return Err(Failure::usage(error));
    }
    let adapters: Vec<String> = Adapter::list()
        .iter()
        .map(|adapter| adapter.info().to_string())
        .collect();
    let adapter = match &chosen {
        Ok(adapter) => adapter.info().to_string(),
        Err(error) => error.to_string(),
    };
    if as_json {
        let report = json!({
            "architecture": config.architecture, "parameters": config.parameters(),
            "layers": config.layers, "hidden": config.hidden, "intermediate": config.intermediate,
            "heads": config.heads, "kv_heads": config.kv_heads, "head_dim": config.head_dim,
            "vocabulary": config.vocabulary, "context": config.context, "tied": config.tied,
            "memory_bytes": {"weights": memory.weights, "kv_cache": memory.kv_cache,
                "activations": memory.activations, "total": memory.total()},
            "counted_for": {"sequences": options.slots, "context": context},
            "adapter": adapter, "adapters": adapters,
        });
        return print(&format!("{report:#}\n"));
    }
    let per_sequence = memory.kv_cache / options.slots as u64;
    print(&format!(
        "architecture   {}\nparameters     {}\nlayers         {}, hidden {}, feed-forward {}\n\
         attention      {} heads, {} key/value heads of {}\nvocabulary     {}{}\ncontext        {}\n\
         memory         {} for {} sequences of {} positions\n  weights      {}\n  kv cache     {} ({} a sequence)\n  \
         activations  {}\nadapter        {adapter}\n",
        config.architecture,
        tidegate_telemetry::count(config.parameters()),
        config.layers,
        config.hidden,
        config.intermediate,
        config.heads,
        config.kv_heads,
        config.head_dim,
        config.vocabulary,
        if config.tied {
            ", head tied to the embedding"
        } else {
            ""
        },
        config.context,
        size(memory.total()),
        options.slots,
        context,
        size(memory.weights),
        size(memory.kv_cache),
        size(per_sequence),
        size(memory.activations),
    ))
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / (1 << 20) as f64;
    if mebibytes >= 1024.0 {
        format!("{:.2} GiB", mebibytes / 1024.0)
    } else {
        format!("{mebibytes:.2} MiB")
    }
}
