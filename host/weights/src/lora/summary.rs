//! What a low-rank adapter says of itself, without its base.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::{CONFIG, WEIGHTS};
use crate::checkpoint::{ReadFile, json, read};
use crate::error::CheckpointError;
use crate::safetensors::Store;

/// What the files of an adapter say. Nothing of it was held against a base.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoraSummary {
    /// `peft_type` of `adapter_config.json`.
    pub kind: Option<String>,
    /// `r`.
    pub rank: Option<u64>,
    /// `lora_alpha`.
    pub alpha: Option<f64>,
    /// `base_model_name_or_path`: the model that it was trained on.
    pub base: Option<String>,
    /// The modules that its tensors adapt, by the last part of their names (`q_proj`), in order of the alphabet.
    pub targets: Vec<String>,
    /// Tensors of `adapter_model.safetensors`.
    pub tensors: usize,
    /// Which of its two files are not there.
    pub missing: Vec<&'static str>,
}

impl LoraSummary {
    /// What a directory says that has one of an adapter's files or both; nothing if it has neither.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub fn read(path: &Path, files: &dyn ReadFile) -> Result<Option<LoraSummary>, CheckpointError> {
        let mut summary = LoraSummary::default();
        let config = path.join(CONFIG);
        match read(files, &config)? {
            None => summary.missing.push(CONFIG),
            Some(bytes) => {
                let said: Map<String, Value> = json(
                    &config,
                    (*bytes).as_ref(),
                    "the configuration of an adapter",
                )?;
                let text = |key: &str| said.get(key).and_then(Value::as_str).map(str::to_owned);
                summary.kind = text("peft_type");
                summary.base = text("base_model_name_or_path").filter(|name| !name.is_empty());
                summary.rank = said.get("r").and_then(Value::as_u64);
                summary.alpha = said.get("lora_alpha").and_then(Value::as_f64);
            }
        }
        match Store::open_file(&path.join(WEIGHTS), files)? {
            None => summary.missing.push(WEIGHTS),
            Some(store) => {
                let names: Vec<&str> = store.names().collect();
                summary.tensors = names.len();
                let module = |name: &&str| {
                    let (module, _) = name.split_once(".lora_")?;
                    Some(module.rsplit('.').next().unwrap_or(module).to_owned())
                };
                let targets: BTreeSet<String> = names.iter().filter_map(module).collect();
                summary.targets = targets.into_iter().collect();
            }
        }
        Ok((summary.missing.len() < 2).then_some(summary))
    }
}
