//! The model that a command measures: a file, or one of a known shape with random weights.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use clap::{ArgGroup, Args};
use tidegate_weights::{Checkpoint, Format, ModelConfig};

use crate::models::open_checkpoint;

/// What random weights are stored in, if nothing else is asked for.
const RANDOM: Format = Format::F16;

/// Which model, and what its matrices are stored in.
#[derive(Args)]
#[group(skip)]
#[command(group(ArgGroup::new("what").required(true).args(["model", "random"])))]
pub(super) struct Source {
    /// The model: a directory or a .gguf file.
    model: Option<PathBuf>,
    /// A model of a known shape with random weights.
    #[arg(long, value_name = "SIZE", value_parser = ["125M", "1B", "8B"])]
    random: Option<String>,
    /// What the matrices are stored in. Default: what a model has them in, and f16 for random weights.
    #[arg(long, value_parser = ["f32", "f16", "int8", "int4"])]
    quant: Option<String>,
}

impl Source {
    /// The model, or the random one, in the format asked for. A model's matrices are encoded when they are read.
    pub(super) fn checkpoint(&self) -> anyhow::Result<Checkpoint> {
        let quant = self.quant.as_deref().and_then(format);
        match (&self.model, &self.random) {
            (Some(path), _) => {
                let checkpoint = open_checkpoint(path)?;
                ensure!(
                    checkpoint.decoder().is_some(),
                    "{} is an encoder; this is for models that make text",
                    path.display()
                );
                match quant {
                    None => Ok(checkpoint),
                    Some(format) => checkpoint.encoded(format).with_context(|| {
                        format!("matrices cannot be encoded to {}", format.name())
                    }),
                }
            }
            (None, Some(name)) => {
                let config = ModelConfig::preset(name)
                    .with_context(|| format!("no shape is named {name:?}"))?;
                Ok(Checkpoint::random(config, quant.unwrap_or(RANDOM), 1))
            }
            (None, None) => Err(anyhow!("give a model, or --random with a size")),
        }
    }

    /// What the matrices are stored in, where that is known before they are read.
    pub(super) fn quant(&self) -> Option<&str> {
        match self.model {
            Some(_) => self.quant.as_deref(),
            None => Some(self.quant.as_deref().unwrap_or(RANDOM.name())),
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        match (&self.model, &self.random) {
            (Some(path), _) => path.display().to_string(),
            (None, name) => name.clone().unwrap_or_default(),
        }
    }

    /// The model in a line.
    pub(super) fn line(&self, checkpoint: &Checkpoint) -> String {
        let parameters = checkpoint.decoder().map_or(0, ModelConfig::parameters);
        format!(
            "{}, {} parameters{}",
            self.name(),
            tidegate_telemetry::count(parameters),
            match (&self.random, self.quant()) {
                (Some(_), Some(quant)) => format!(" with random weights, {quant}"),
                (None, Some(quant)) => format!(", matrices as {quant}"),
                _ => String::new(),
            }
        )
    }
}

fn format(name: &str) -> Option<Format> {
    [Format::F32, Format::F16, Format::Int8, Format::Int4]
        .into_iter()
        .find(|format| format.name() == name)
}
