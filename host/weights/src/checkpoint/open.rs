//! Opening a model by its path.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::{Checkpoint, ReadFile, Source, json, read};
use crate::config::{Architecture, Beside, ConfigError};
use crate::error::CheckpointError;
use crate::gguf::Gguf;
use crate::reencoding::Losses;
use crate::safetensors::{Store, Weights};

/// What a JSON file beside the weights should be.
const CONFIGURATION: &str = "a model configuration";

impl Checkpoint {
    /// Opens a directory with `config.json` and safetensors files, or a `.gguf` file. Only headers are read.
    ///
    /// # Errors
    /// A file cannot be read or is damaged, or the model is absurd or not implemented.
    pub fn open(path: &Path, files: &dyn ReadFile) -> Result<Checkpoint, CheckpointError> {
        // A directory cannot be read as a file, whatever its name.
        if path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
            && !path.is_dir()
        {
            return open_gguf(path, files);
        }
        let config_path = path.join("config.json");
        let no_model = || CheckpointError::NoModel {
            path: path.to_owned(),
        };
        let config_bytes = read(files, &config_path)?.ok_or_else(no_model)?;
        let config = json(&config_path, (*config_bytes).as_ref(), CONFIGURATION)?;
        let beside = Beside {
            modules: optional(files, &path.join("modules.json"))?,
            pooling: optional(files, &path.join("1_Pooling").join("config.json"))?,
            sentence: optional(files, &path.join("sentence_bert_config.json"))?,
            named: optional(files, &path.join("config_sentence_transformers.json"))?,
            generation: optional(files, &path.join("generation_config.json"))?,
        };
        let wrong = |source| match source {
            ConfigError::Beside { file, source } => CheckpointError::Config {
                path: path.join(file),
                source: *source,
            },
            source => CheckpointError::Config {
                path: config_path,
                source,
            },
        };
        let architecture = Architecture::from_json(&config, &beside).map_err(wrong)?;
        let store = Store::open(path, files)?.ok_or_else(no_model)?;
        Ok(Checkpoint {
            path: path.to_owned(),
            source: Source::Safetensors {
                weights: Weights::new(store, &architecture),
                config: config_bytes,
                beside: Box::new(beside),
            },
            architecture,
            encoding: None,
            exact: false,
            losses: Losses::default(),
            loras: Vec::new(),
        })
    }
}

fn open_gguf(path: &Path, files: &dyn ReadFile) -> Result<Checkpoint, CheckpointError> {
    let (gguf, architecture) = Gguf::open(path, files)?;
    Ok(Checkpoint {
        path: path.to_owned(),
        architecture,
        source: Source::Gguf(Box::new(gguf)),
        encoding: None,
        exact: false,
        losses: Losses::default(),
        loras: Vec::new(),
    })
}

fn optional<T: DeserializeOwned>(
    files: &dyn ReadFile,
    path: &Path,
) -> Result<Option<T>, CheckpointError> {
    match read(files, path)? {
        None => Ok(None),
        Some(bytes) => json(path, (*bytes).as_ref(), CONFIGURATION).map(Some),
    }
}
