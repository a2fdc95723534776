//! `tidegate model convert`.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::json;
use tidegate_infer::{Adapter, DecoderOptions, DeviceOptions, Gpu};
use tidegate_telemetry::WorkKind;
use tidegate_text::Tokenizer;
use tidegate_weights::{Checkpoint, ConvertReport, Format, convert as write};

use super::held_out::{Encoded, EncodedChange, change as change_of, encoded, held_out, loss};
use super::size;
use crate::commands::{print, print_json};
use crate::exit::Failure;
use crate::models::{Loss, MARK, ModelFile, Splits, open_converted};
use crate::terminal::works;

/// Files that say how texts become tokens, and when an answer ends; copied as they are.
const TOKENIZER_FILES: [&str; 8] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "LICENSE",
    "LICENSE.txt",
];

/// What a conversion writes of an encoder beside its weights: of files, and of a directory with one.
const SENTENCE_FILES: [&str; 3] = [
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];
const POOLING: &str = "1_Pooling";

const MARK_TEXT: &str = "A conversion into this directory is under way, or was interrupted: the next one begins anew.\n";

/// Write a model with its matrices in 8 or 4 bits, and say what that costs: in held-out loss, or in how far an encoder's vectors or
/// scores move.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate model convert models/qwen2.5-1.5b models/qwen2.5-1.5b-int8 --to int8\n  \
    tidegate model convert tiny.gguf tiny-int4 --to int4 --text held-out.txt")]
pub(crate) struct Arguments {
    /// The model: a directory or a .gguf file.
    source: PathBuf,
    /// An empty or new directory.
    destination: PathBuf,
    /// How matrices are stored.
    #[arg(long, value_enum)]
    to: QuantizedFormat,
    /// The text on which both are compared. Default: a text of some 509 words that comes with the program.
    #[arg(long)]
    text: Option<PathBuf>,
    /// Index, part of a name, or cpu.
    #[arg(long)]
    adapter: Option<String>,
    /// How byte-level BPE of a GGUF file that does not say so splits its texts, as tokenizer.ggml.pre would name it.
    #[arg(long, value_name = "NAME")]
    pre_tokenizer: Option<String>,
    /// Do not measure the loss.
    #[arg(long, conflicts_with = "text")]
    no_loss: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A format that models are converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QuantizedFormat {
    /// Eight bits, a scale for 32 elements.
    Int8,
    /// Four bits, a scale for 32 elements.
    Int4,
}

impl QuantizedFormat {
    fn format(self) -> Format {
        match self {
            QuantizedFormat::Int8 => Format::Int8,
            QuantizedFormat::Int4 => Format::Int4,
        }
    }
}

/// Tokens that a text must have to tell a model by: each but the first of a decoder's is foreseen.
fn least_tokens(checkpoint: &Checkpoint) -> usize {
    match checkpoint.decoder() {
        Some(_) => 2,
        None => 1,
    }
}

/// What a conversion costs on a text.
struct Change {
    text: String,
    cost: Cost,
}

enum Cost {
    /// Both losses.
    Loss { before: Loss, after: Loss },
    /// Of an encoder.
    Encoded(EncodedChange),
}

/// What a model makes of the held-out text.
enum Made {
    Loss(Loss),
    Encoded(Encoded),
}

impl Made {
    fn by(
        gpu: &Gpu,
        checkpoint: &Checkpoint,
        tokenizer: &Tokenizer,
        tokens: &[u32],
    ) -> anyhow::Result<Made> {
        let usual = DecoderOptions::default().kv;
        Ok(match checkpoint.decoder() {
            Some(_) => Made::Loss(loss(gpu, checkpoint, tokens, usual)?),
            None => Made::Encoded(encoded(gpu, checkpoint, tokenizer, tokens)?),
        })
    }

    /// What `after` costs beside it, where both make the same.
    fn cost(&self, after: &Made) -> Option<Cost> {
        match (self, after) {
            (Made::Loss(before), Made::Loss(after)) => Some(Cost::Loss {
                before: *before,
                after: *after,
            }),
            (Made::Encoded(before), Made::Encoded(after)) => {
                Some(Cost::Encoded(EncodedChange::of(before, after)))
            }
            _ => None,
        }
    }
}

/// Converts a model and says what that costs.
pub(crate) fn convert(arguments: &Arguments) -> Result<(), Failure> {
    if is_same(&arguments.destination, &arguments.source) {
        return Err(Failure::usage(format_args!(
            "{} is the model itself: convert into another directory",
            arguments.destination.display()
        )));
    }
    let splits = Splits::Named(arguments.pre_tokenizer.as_deref());
    let source = ModelFile::open(&arguments.source, splits)?;
    // What can be wrong with the measurement, or with the model, is said before an hour of work.
    let measured = if arguments.no_loss {
        None
    } else {
        let (text, tokens) = held_out(
            arguments.text.as_deref(),
            &source.tokenizer,
            least_tokens(&source.checkpoint),
        )?;
        let adapter = Adapter::choose(arguments.adapter.as_deref()).map_err(Failure::usage)?;
        Some((text, tokens, adapter))
    };
    let destination = Destination::begin(&arguments.destination)?;
    let done = convert_into(&source, arguments, measured);
    if done.is_err() {
        destination.undo();
    }
    let (report, change) = done?;
    if arguments.json {
        print_json(&format!(
            "{:#}",
            as_json(arguments, &report, change.as_ref())
        ))
    } else {
        print(&as_text(arguments, &report, change.as_ref()))
    }
}

/// Measures the model, writes the other, and measures that.
fn convert_into(
    source: &ModelFile,
    arguments: &Arguments,
    measured: Option<(String, Vec<u32>, Adapter)>,
) -> anyhow::Result<(ConvertReport, Option<Change>)> {
    let before = measured.map(|(text, tokens, adapter)| {
        let gpu = Gpu::open(&adapter, DeviceOptions::default())?;
        let before = Made::by(&gpu, &source.checkpoint, &source.tokenizer, &tokens)?;
        anyhow::Ok((gpu, text, tokens, before))
    });
    let before = before.transpose()?;
    let (report, converted) = write_all(source, arguments)?;
    let change = before.map(|(gpu, text, tokens, before)| {
        let after = Made::by(&gpu, &converted, &source.tokenizer, &tokens)?;
        anyhow::Ok(before.cost(&after).map(|cost| Change { text, cost }))
    });
    let change = change.transpose().map(Option::flatten).with_context(|| {
        let written = arguments.destination.display();
        format!("what {written} costs cannot be measured, it is taken away again")
    })?;
    // From here on it is a model like any other.
    std::fs::remove_file(arguments.destination.join(MARK))
        .with_context(|| format!("cannot remove {MARK}"))?;
    Ok((report, change))
}

/// The directory that a model is converted into. It held nothing when the conversion began, and says so itself as long as
/// that goes on. Only what a conversion writes is ever taken away.
struct Destination<'a> {
    directory: &'a Path,
    /// Whether the directory itself was made.
    new: bool,
    /// The mark, locked: another conversion into the directory can tell this one from one that was interrupted.
    _mark: File,
}

impl Destination<'_> {
    fn begin(directory: &Path) -> Result<Destination<'_>, Failure> {
        let wrong = |why: &str| Failure::usage(format_args!("{} {why}", directory.display()));
        let cannot_write = || format!("cannot write into {}", directory.display());
        let there = match std::fs::read_dir(directory) {
            Ok(mut entries) => Some(entries.next().is_none()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(wrong(&format!("cannot be used: {error}"))),
        };
        if there == Some(false) {
            // Not followed: what a link leads to is not ours to write.
            let mark = std::fs::symlink_metadata(directory.join(MARK));
            if !mark.is_ok_and(|mark| mark.is_file()) {
                let why =
                    "is there already and not empty: convert into an empty or a new directory";
                return Err(wrong(why));
            }
        }
        std::fs::create_dir_all(directory).with_context(cannot_write)?;
        let mark = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(directory.join(MARK))
            .with_context(cannot_write)?;
        if let Err(TryLockError::WouldBlock) = mark.try_lock() {
            return Err(wrong("is what another conversion is writing at the moment"));
        }
        // Where there are no locks the mark alone must do.
        let destination = Destination {
            directory,
            new: there.is_none(),
            _mark: mark,
        };
        // What a conversion left that was interrupted. Nothing else came from one, so nothing is taken away beside it.
        let entries = std::fs::read_dir(directory).with_context(cannot_write)?;
        for entry in entries {
            let entry = entry.with_context(cannot_write)?;
            let name = entry.file_name();
            if !is_written(&name) && !is_pooling(&entry.path()) {
                let why = format!(
                    "holds {name:?} beside what an interrupted conversion left: move it elsewhere, or convert into another \
                     directory"
                );
                return Err(wrong(&why));
            }
        }
        destination.clear(false);
        std::fs::write(directory.join(MARK), MARK_TEXT).with_context(cannot_write)?;
        Ok(destination)
    }

    /// Takes away what was written, and the directory if it was made.
    fn undo(&self) {
        self.clear(true);
        if self.new {
            let _ = std::fs::remove_dir(self.directory);
        }
    }

    /// Takes away what was written. What is told is why the conversion failed, not that something stays.
    fn clear(&self, with_mark: bool) {
        // First what makes the others a model, and last what tells of them.
        let _ = std::fs::remove_file(self.directory.join("config.json"));
        let entries = std::fs::read_dir(self.directory).into_iter().flatten();
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == POOLING {
                clear_pooling(&entry.path());
            } else if is_written(&name) && name != MARK {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        if with_mark {
            let _ = std::fs::remove_file(self.directory.join(MARK));
        }
    }
}

/// Whether a path is the directory of an encoder's pooling, with nothing in it but what a conversion writes.
fn is_pooling(path: &Path) -> bool {
    let real = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let written = |name: &OsStr| name == "config.json" || name == ".config.json.part";
    let alone = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .all(|name| name.is_ok_and(|name| written(&name)))
    };
    path.file_name() == Some(OsStr::new(POOLING)) && real && alone(path)
}

/// Takes it away, if it is that.
fn clear_pooling(path: &Path) {
    if is_pooling(path) {
        for name in ["config.json", ".config.json.part"] {
            let _ = std::fs::remove_file(path.join(name));
        }
        let _ = std::fs::remove_dir(path);
    }
}

/// Whether a conversion writes files of this name, whole or as `.NAME.part`.
fn is_written(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let part = name.strip_prefix('.');
    let name = part
        .and_then(|part| part.strip_suffix(".part"))
        .unwrap_or(name);
    let weights = name
        .strip_prefix("model")
        .is_some_and(|rest| rest.ends_with(".safetensors"));
    weights
        || ["config.json", "model.safetensors.index.json", MARK].contains(&name)
        || TOKENIZER_FILES.contains(&name)
        || SENTENCE_FILES.contains(&name)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// The tokenizer first: the weights' `config.json` comes last of all, and without it there is no model.
fn write_all(
    source: &ModelFile,
    arguments: &Arguments,
) -> anyhow::Result<(ConvertReport, Checkpoint)> {
    copy_tokenizer(source, &arguments.destination)?;
    let work = works().begin(WorkKind::Convert, &source.name());
    let told = &mut |done, of| work.done_of(done, of);
    let report = write(
        &source.checkpoint,
        arguments.to.format(),
        &arguments.destination,
        told,
    )?;
    drop(work);
    Ok((report, open_converted(&arguments.destination)?))
}

/// Tokenizer files as they are, or made from a GGUF file.
fn copy_tokenizer(source: &ModelFile, destination: &Path) -> anyhow::Result<()> {
    if !source.path.is_dir() {
        return Ok(source.tokenizer.save(destination)?);
    }
    for name in TOKENIZER_FILES {
        let (from, to) = (source.path.join(name), destination.join(name));
        if from.is_file() {
            std::fs::copy(&from, &to)
                .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        }
    }
    Ok(())
}

fn as_json(
    arguments: &Arguments,
    report: &ConvertReport,
    change: Option<&Change>,
) -> serde_json::Value {
    json!({
        "source": arguments.source,
        "destination": arguments.destination,
        "format": arguments.to.format().name(),
        "files": report.files,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
        "quantized": report.quantized,
        "left_as_they_are": report.left_as_they_are,
        "loss": change.and_then(|of| match &of.cost {
            Cost::Loss { before, after } => {
                let [nats, percent] = change_of(*before, *after);
                Some(json!({
                    "text": of.text, "tokens": before.tokens, "before": before.nats, "after": after.nats, "change": nats,
                    "change_percent": percent,
                }))
            }
            Cost::Encoded(_) => None,
        }),
        "encoded": change.and_then(|of| match &of.cost {
            Cost::Encoded(change) => Some(change.json(&of.text)),
            Cost::Loss { .. } => None,
        }),
    })
}

fn as_text(arguments: &Arguments, report: &ConvertReport, change: Option<&Change>) -> String {
    let mut text = format!(
        "{}: {} matrices in {}, {} -> {}\n",
        arguments.destination.display(),
        report.quantized,
        arguments.to.format().name(),
        size(report.bytes_before),
        size(report.bytes_after),
    );
    if !report.left_as_they_are.is_empty() {
        text += &format!(
            "left as they are, their rows are no multiple of 32: {}\n",
            report.left_as_they_are.join(", ")
        );
    }
    match change {
        None => {}
        Some(Change {
            text: name,
            cost: Cost::Loss { before, after },
        }) => {
            let [nats, percent] = change_of(*before, *after);
            text += &format!(
                "held-out loss on {name} ({} tokens): {:.4} -> {:.4} nats a token ({nats:+.4}, {percent:+.2} %)\n",
                before.tokens, before.nats, after.nats,
            );
        }
        Some(Change {
            text: name,
            cost: Cost::Encoded(change),
        }) => text += &format!("{}\n", change.text(name)),
    }
    text
}
