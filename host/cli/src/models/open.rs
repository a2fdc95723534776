//! A model's files, opened and held against each other: everything that can be known without a device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail, ensure};
use tidegate_contract::{GgufVocabulary, Makes};
use tidegate_control::config::Model;
use tidegate_infer::MappedFiles;
use tidegate_text::{LoadError, Tokenizer};
use tidegate_weights::{
    Architecture, Checkpoint, EncoderConfig, EncoderHead, Lora, ReadFile, ReadWhole, TextPrompts,
};
use tracing::warn;

/// A model's files.
pub(crate) struct ModelFile {
    /// Where they lie.
    pub(crate) path: PathBuf,
    /// Configuration and weights.
    pub(crate) checkpoint: Arc<Checkpoint>,
    /// The tokenizer of its directory, or of its GGUF file.
    pub(crate) tokenizer: Arc<Tokenizer>,
}

impl ModelFile {
    /// Opens a directory or a `.gguf` file. Weights are mapped, not read. Whether its chat template can be used is for the
    /// stages to say that render it.
    pub(crate) fn open(path: &Path, splits: Splits<'_>) -> anyhow::Result<ModelFile> {
        let checkpoint = open_checkpoint(path)?;
        let tokenizer = open_tokenizer(path, &checkpoint, splits)?;
        Ok(ModelFile {
            path: path.to_owned(),
            checkpoint: Arc::new(checkpoint),
            tokenizer: Arc::new(tokenizer),
        })
    }

    /// Opens what a pipeline file names.
    pub(crate) fn of(model: &Model) -> anyhow::Result<ModelFile> {
        ModelFile::open(&model.path, Splits::Named(model.pre_tokenizer.as_deref()))
    }

    /// The same with low-rank adapters, which were opened for it.
    pub(crate) fn adapted(&self, loras: Vec<Lora>) -> anyhow::Result<ModelFile> {
        Ok(ModelFile {
            path: self.path.clone(),
            checkpoint: Arc::new(open_checkpoint(&self.path)?.adapted(loras)),
            tokenizer: self.tokenizer.clone(),
        })
    }

    /// Token ids the model knows.
    pub(crate) fn vocabulary(&self) -> usize {
        vocabulary(&self.checkpoint)
    }

    /// Positions it was made for.
    pub(crate) fn own_context(&self) -> usize {
        match self.checkpoint.architecture() {
            Architecture::Decoder(config) => config.context,
            Architecture::Encoder(config) => config.context,
        }
    }

    /// What it makes.
    pub(crate) fn makes(&self) -> Makes {
        match self.checkpoint.architecture() {
            Architecture::Decoder(_) => Makes::Text,
            Architecture::Encoder(config) => match config.head {
                EncoderHead::Embedding(_) => Makes::Embeddings,
                EncoderHead::Classification(_) => Makes::Labels,
                EncoderHead::TokenClassification(_) => Makes::Entities,
                EncoderHead::Relevance(_) => Makes::Relevance,
            },
        }
    }

    /// Its labels, if it has a head that makes scores of them.
    pub(crate) fn labels(&self) -> Vec<String> {
        let config = self.checkpoint.encoder();
        config.map_or_else(Vec::new, |config| config.head.labels().to_vec())
    }

    /// What may stand before its texts, if it makes vectors of them.
    pub(crate) fn prompts(&self) -> &TextPrompts {
        static NONE: TextPrompts = TextPrompts::NONE;
        let config = self.checkpoint.encoder();
        config.map_or(&NONE, |config| &config.prompts)
    }

    /// The token that is exactly this text.
    pub(crate) fn token_id(&self, text: &str) -> Option<u32> {
        match self.tokenizer.encode_literal(text).ok()?.as_slice() {
            [token] => Some(*token),
            _ => None,
        }
    }

    /// The name of its directory or file.
    pub(crate) fn name(&self) -> String {
        name(&self.path)
    }
}

/// The name of a model's directory or file.
pub(super) fn name(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Stands in a directory as long as a conversion into it has not ended.
pub(crate) const MARK: &str = ".tidegate-conversion";

/// Opens the weights and checks that they are whole.
pub(crate) fn open_checkpoint(path: &Path) -> anyhow::Result<Checkpoint> {
    // Its files may be whole and on disk, or not; and what it costs was not measured.
    ensure!(
        std::fs::symlink_metadata(path.join(MARK)).is_err(),
        "{} holds {MARK}: a conversion into it is under way, or was interrupted; wait for its end, or run `tidegate model convert` into it \
         again, which begins anew",
        path.display()
    );
    open_converted(path)
}

/// The same of a directory that this process has just converted a model into.
pub(crate) fn open_converted(path: &Path) -> anyhow::Result<Checkpoint> {
    std::fs::metadata(path).with_context(|| format!("cannot open {}", path.display()))?;
    let checkpoint = Checkpoint::open(path, &MappedFiles)?;
    checkpoint.check()?;
    Ok(checkpoint)
}

/// Opens a low-rank adapter of a model. Its numbers are mapped, not read.
pub(crate) fn open_lora(path: &Path, base: &Checkpoint) -> anyhow::Result<Lora> {
    lora(path, base, &MappedFiles)
}

/// Reads a low-rank adapter of a model: what it is, and what goes onto the device, now and when that is loaded again, are the
/// bytes that its files have now. They are small, and other programs write them anew in their place.
pub(crate) fn read_lora(path: &Path, base: &Checkpoint) -> anyhow::Result<Lora> {
    lora(path, base, &ReadWhole)
}

fn lora(path: &Path, base: &Checkpoint, files: &dyn ReadFile) -> anyhow::Result<Lora> {
    let base = base.decoder().with_context(|| {
        format!(
            "{} makes no text, and is not adapted",
            base.path().display()
        )
    })?;
    Ok(Lora::open(path, base, files)?)
}

/// A model with low-rank adapters.
pub(crate) fn with_loras(base: Checkpoint, paths: &[PathBuf]) -> anyhow::Result<Checkpoint> {
    let loras = paths.iter().map(|path| open_lora(path, &base));
    let loras = loras.collect::<anyhow::Result<Vec<Lora>>>()?;
    Ok(base.adapted(loras))
}

/// What is named for GGUF files that do not say how their texts are split.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Splits<'a> {
    /// For this file, by `pre-tokenizer` or `--pre-tokenizer`: it must be of use.
    Named(Option<&'a str>),
    /// For another in whose place this one is opened, or beside it: of use if this one needs it.
    IfNeeded(Option<&'a str>),
}

/// The tokenizer of encoders in GGUF files. Of others the converter does not write all that is to be known.
const WORD_PIECE: &str = "bert";

/// The tokenizer of a directory, or of a GGUF file, whose tokens the model all knows.
pub(crate) fn open_tokenizer(
    path: &Path,
    checkpoint: &Checkpoint,
    splits: Splits<'_>,
) -> anyhow::Result<Tokenizer> {
    let tokenizer = if path.is_dir() {
        if let Splits::Named(Some(name)) = splits {
            bail!(
                "{} has a tokenizer.json, which says how texts are split: leave out the pre-tokenizer {name:?}",
                path.display()
            );
        }
        Tokenizer::from_dir(path)?
    } else {
        let vocabulary = checkpoint
            .gguf_vocabulary()
            .with_context(|| format!("{} has no tokenizer", path.display()))?;
        // A decoder for embeddings has its own.
        let encodes = |encoder: &EncoderConfig| encoder.decoder.is_none();
        if checkpoint.encoder().is_some_and(encodes) && vocabulary.model != WORD_PIECE {
            bail!(
                "tokenizer.ggml.model is {:?}, supported: {WORD_PIECE} (WordPiece) for encoders; give the directory that the file was \
                 converted from",
                vocabulary.model
            );
        }
        of_gguf(&vocabulary, splits)?
    };
    ensure!(
        tokenizer.vocabulary() <= vocabulary(checkpoint),
        "the tokenizer has {} tokens, the model only {}",
        tokenizer.vocabulary(),
        vocabulary(checkpoint)
    );
    Ok(tokenizer)
}

fn of_gguf(vocabulary: &GgufVocabulary, splits: Splits<'_>) -> anyhow::Result<Tokenizer> {
    let lacks = Tokenizer::lacks_pre_tokenizer(vocabulary);
    let named = match splits {
        Splits::Named(name) => name,
        Splits::IfNeeded(name) => name.filter(|_| lacks),
    };
    if let Some(name) = named {
        return Ok(Tokenizer::from_gguf_split_as(vocabulary, name)?);
    }
    let tokenizer = Tokenizer::from_gguf(vocabulary);
    if lacks && tokenizer.is_ok() {
        warn!(
            "tokenizer.ggml.pre is `default`, which converters also write where they do not know how a model splits texts: \
             `tidegate model info` says what is likely, pre-tokenizer or --pre-tokenizer names it"
        );
    }
    tokenizer.map_err(|error| match error {
        LoadError::Gguf { key, reason } if lacks && key == "tokenizer.ggml.pre" => {
            let choices = match vocabulary.pre {
                // All that are known were listed.
                Some(_) => "one of them".to_owned(),
                None => format!("one of {}", Tokenizer::pre_tokenizers().join(", ")),
            };
            anyhow!(
                "{key}: {reason}; or name what the model's makers use by the key pre-tokenizer of the model in the pipeline \
                 file, or by --pre-tokenizer: {choices}"
            )
        }
        error => error.into(),
    })
}

fn vocabulary(checkpoint: &Checkpoint) -> usize {
    match checkpoint.architecture() {
        Architecture::Decoder(config) => config.vocabulary,
        Architecture::Encoder(config) => config.vocabulary,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn golden(name: &str) -> PathBuf {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference/tests/golden");
        goldens.join(name)
    }

    #[test]
    fn a_directory_that_a_conversion_has_not_ended_in_is_no_model() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden("bert-f16").join(file), path.join(file)).unwrap();
        }
        open_checkpoint(path).unwrap();
        fs::write(path.join(MARK), "").unwrap();
        let error = open_checkpoint(path).unwrap_err().to_string();
        assert!(error.contains("holds .tidegate-conversion: "), "{error}");
        assert!(
            error.contains("run `tidegate model convert` into it again"),
            "{error}"
        );
        open_converted(path).unwrap();
        // A file beside one is not what is being written.
        let file = path.join("model.gguf");
        fs::copy(golden("gguf-bert-f16/model.gguf"), &file).unwrap();
        open_checkpoint(&file).unwrap();
    }

    #[test]
    fn an_encoder_in_gguf_with_another_tokenizer_is_refused_by_that() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other.gguf");
        for name in ["gguf-bert-f16", "gguf-nomic-bert-f16"] {
            let path = golden(name).join("model.gguf");
            ModelFile::open(&path, Splits::Named(None)).unwrap();
            let mut bytes = fs::read(path).unwrap();
            let key = b"tokenizer.ggml.model";
            let at = bytes.windows(key.len()).position(|found| found == key);
            // After the key come the kind of the value and its length.
            let at = at.unwrap() + key.len() + 4 + 8;
            assert_eq!(&bytes[at..at + 4], b"bert");
            bytes[at..at + 4].copy_from_slice(b"gpt2");
            fs::write(&other, bytes).unwrap();
            for named in [None, Some("gpt-2")] {
                let Err(error) = ModelFile::open(&other, Splits::Named(named)) else {
                    panic!("{name} with {named:?} is opened");
                };
                assert_eq!(
                    error.to_string(),
                    "tokenizer.ggml.model is \"gpt2\", supported: bert (WordPiece) for encoders; give the directory that the file \
                     was converted from"
                );
            }
        }
        // A decoder for embeddings has the tokenizer of decoders.
        let decoder = golden("gguf-qwen3-embedding-bf16/model.gguf");
        ModelFile::open(&decoder, Splits::IfNeeded(None)).unwrap();
    }
}
