//! `tidegate model info`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use tidegate_contract::{BLOCK, ScoreScale};
use tidegate_control::config::{DEFAULT_CONTEXT, Engine};
use tidegate_infer::{
    Adapter, AdapterError, DecoderOptions, DeviceOptions, Gpu, GpuEncoder, KvPrecision,
    MemoryReport,
};
use tidegate_text::{ChatMessage, Tokenizer};
use tidegate_weights::{
    Architecture, Checkpoint, EncoderConfig, EncoderHead, Experts, ModelConfig, Reencoded, Stored,
    TensorError,
};

use super::found;
use super::gguf::{GgufFile, in_lines};
use super::held_out::{change, held_out, loss};
use super::{kv_precision, size};
use crate::commands::numbers::count;
use crate::commands::{print, print_json};
use crate::exit::{Failure, with_causes};
use crate::models::{
    Fits, Loss, Splits, available_memory, encoder_options, open_checkpoint, open_tokenizer,
    what_fits, with_loras,
};

/// Show a model's architecture, parameters, memory by part, tokenizer, and what fits on the adapter; of what is refused what it
/// is, and what would work; of a low-rank adapter what it adapts.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate model info examples/support-bot/model\n  \
    tidegate model info --memory 8GiB llama-3.2-1b.Q4_K_M.gguf\n  \
    tidegate model info --kv-precision int8 --loss --text held-out.txt models/qwen2.5-1.5b")]
pub(crate) struct Arguments {
    /// A directory with config.json, safetensors and tokenizer.json, a .gguf file, or the directory of a low-rank adapter.
    path: PathBuf,
    /// Index, part of a name, or cpu.
    #[arg(long)]
    adapter: Option<String>,
    /// Sequences to count memory for.
    #[arg(long, default_value_t = 32, value_parser = count)]
    sequences: usize,
    /// Positions of a sequence. Default: the model's own, at most 2048.
    #[arg(long, value_parser = count)]
    context: Option<usize>,
    /// How keys and values are kept: f32, f16 or int8.
    #[arg(long, value_name = "PRECISION", default_value = "f16", value_parser = kv_precision)]
    kv_precision: KvPrecision,
    /// Load the model and say what keys and values so kept cost in held-out loss, beside f32.
    #[arg(long)]
    loss: bool,
    /// The text for --loss. Default: a text of some 509 words that comes with the program.
    #[arg(long, requires = "loss")]
    text: Option<PathBuf>,
    /// Memory that may be used, to say what fits. Default on a software adapter: what the machine has available.
    #[arg(long, value_parser = tidegate_control::config::size)]
    memory: Option<u64>,
    /// How byte-level BPE of a GGUF file that does not say so splits its texts, as tokenizer.ggml.pre would name it.
    #[arg(long, value_name = "NAME")]
    pre_tokenizer: Option<String>,
    /// The directory of a low-rank adapter of the model, whose memory is counted too; several times for several.
    #[arg(long, value_name = "DIRECTORY")]
    lora: Vec<PathBuf>,
    /// Where PATH is a low-rank adapter: the model that it is to fit. Default: what the adapter names, if it lies here.
    #[arg(long, value_name = "MODEL", conflicts_with = "lora")]
    base: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Shows a model's architecture, parameters, memory by part, tokenizer, and what fits.
pub(crate) fn info(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.path;
    if let Some(told) = found::lora(path, arguments.base.as_deref(), arguments.json) {
        return told;
    }
    if arguments.base.is_some() {
        return Err(Failure::usage(format_args!(
            "--base is of a low-rank adapter, and {} is none",
            path.display()
        )));
    }
    let file = GgufFile::at(path);
    let checkpoint = match (open_checkpoint(path), &file) {
        (Ok(checkpoint), _) => checkpoint,
        (Err(error), Some(file)) => return Err(file.refused(error, arguments.json)?),
        (Err(error), None) => return Err(found::refused(path, error, arguments.json)?),
    };
    let checkpoint = with_loras(checkpoint, &arguments.lora)?;
    let splits = Splits::Named(arguments.pre_tokenizer.as_deref());
    let tokenizer = open_tokenizer(path, &checkpoint, splits);
    let chosen = Adapter::choose(arguments.adapter.as_deref());
    if let (Some(_), Err(error)) = (&arguments.adapter, &chosen) {
        return Err(Failure::usage(error));
    }
    let budget = AdapterBudget::of(&chosen, arguments.memory);
    let formats = formats(&checkpoint)?;
    let mut report = match checkpoint.architecture() {
        Architecture::Decoder(config) => decoder(&checkpoint, config, arguments, &budget)?,
        Architecture::Encoder(config) => encoder(&checkpoint, config, arguments)?,
    };
    if arguments.loss {
        let cost = kv_cost(arguments, &checkpoint, &tokenizer, &chosen)?;
        report.lines.push(("  KV loss", cost.text(arguments)));
        report.json["kv_loss"] = cost.json(arguments);
    }
    match &file {
        None => report.lines.push(("stored as", formats.text())),
        Some(file) => {
            report.lines.extend(file.lines());
            report.lines.extend(file.stored());
            report.json["gguf"] = file.json();
        }
    }
    for lora in checkpoint.loras() {
        let numbers = tidegate_telemetry::count(lora.parameters() as u64);
        let text = format!(
            "{}: {numbers} parameters beside {} matrices, rank up to {}",
            lora.path().display(),
            lora.matrices(),
            lora.most_rank()
        );
        report.lines.push(("low-rank adapter", text));
    }
    let loras = checkpoint.loras().iter().map(|lora| {
        json!({
            "path": lora.path().display().to_string(), "parameters": lora.parameters(), "matrices": lora.matrices(),
            "rank": lora.most_rank(), "digest": lora.digest(),
        })
    });
    report.json["loras"] = loras.collect();
    report.json["loads"] = json!(true);
    report.json["stored_bytes"] = json!(formats.0);
    report.lines.extend(held(&checkpoint, &mut report.json)?);
    let nearest = match (&tokenizer, &file) {
        (Err(error), Some(file)) => file.nearest_tokenizer(&checkpoint, Some(error)),
        // It may say `default` because its converter did not know better.
        (Ok(_), Some(file)) if arguments.pre_tokenizer.is_none() => {
            file.nearest_tokenizer(&checkpoint, None)
        }
        (Err(_), None) => Some(NEAREST_TOKENIZER.to_owned()),
        _ => None,
    };
    report.json["nearest"] = json!(nearest);
    let nearest = nearest.map(|nearest| match &tokenizer {
        Ok(_) => (
            "splits texts",
            format!(
                "as `default`, which converters also write for what they do not know: {nearest}"
            ),
        ),
        Err(_) => ("what would work", nearest),
    });
    let thoughts = (tokenizer.as_ref().ok())
        .filter(|_| report.makes_text)
        .map(thoughts);
    let (text, tokenizer) = described(&tokenizer, report.makes_text);
    report.lines.push(("tokenizer", text));
    report.json["tokenizer"] = tokenizer;
    if let Some((text, json)) = thoughts {
        report.lines.push(("thoughts", text));
        report.json["thoughts"] = json;
    }
    report.lines.extend(nearest);
    report.lines.push(("adapter", budget.text()));
    report.json["adapter"] = json!(budget.adapter);
    report.json["budget_bytes"] = json!(budget.budget);
    let adapters: Vec<String> = Adapter::list()
        .iter()
        .map(|adapter| adapter.info().to_string())
        .collect();
    report.json["adapters"] = json!(adapters);
    if arguments.json {
        return print_json(&format!("{:#}", report.json));
    }
    print(&in_lines(&report.lines))
}

/// What would work where a directory has no tokenizer, or one that cannot be used.
const NEAREST_TOKENIZER: &str = "the model's own tokenizer.json beside config.json; where its makers publish another file, transformers' \
    AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY) writes it";

/// A name and what is said of it.
pub(super) type Line = (&'static str, String);

/// What is said, for people and for programs.
struct Report {
    lines: Vec<Line>,
    json: Value,
    makes_text: bool,
}

/// The adapter, and how much of its memory may be used.
struct AdapterBudget {
    adapter: String,
    budget: Option<u64>,
    why: &'static str,
}

impl AdapterBudget {
    fn of(chosen: &Result<Adapter, AdapterError>, memory: Option<u64>) -> AdapterBudget {
        let adapter = match chosen {
            Ok(adapter) => adapter.info().to_string(),
            Err(error) => error.to_string(),
        };
        let available = |adapter: &Adapter| available_memory(adapter.info());
        let (budget, why) = match memory {
            Some(memory) => (Some(memory), "as --memory says"),
            None => (
                chosen.as_ref().ok().and_then(available),
                "of this machine's memory are available",
            ),
        };
        AdapterBudget {
            adapter,
            budget,
            why,
        }
    }

    fn text(&self) -> String {
        match self.budget {
            Some(budget) => format!("{}; {} {}", self.adapter, size(budget), self.why),
            None => format!(
                "{}; drivers do not tell how much memory is free, so say it with --memory to see what fits",
                self.adapter
            ),
        }
    }
}

/// What keys and values in less than f32 cost.
struct KvCost {
    text: String,
    before: Loss,
    after: Loss,
}

/// Measures it on the adapter.
fn kv_cost(
    arguments: &Arguments,
    checkpoint: &Checkpoint,
    tokenizer: &anyhow::Result<Tokenizer>,
    adapter: &Result<Adapter, AdapterError>,
) -> Result<KvCost, Failure> {
    if checkpoint.decoder().is_none() {
        return Err(Failure::usage(
            "--loss is for models that make text: an encoder keeps no keys and values",
        ));
    }
    let tokenizer = match tokenizer {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            return Err(Failure::usage(format_args!(
                "--loss needs the tokenizer, which cannot be used: {}",
                with_causes(error)
            )));
        }
    };
    let (text, tokens) = held_out(arguments.text.as_deref(), tokenizer, 2)?;
    let adapter = match adapter {
        Ok(adapter) => adapter,
        Err(error) => return Err(Failure::usage(error)),
    };
    let gpu = Gpu::open(adapter, DeviceOptions::default())?;
    Ok(KvCost {
        text,
        before: loss(&gpu, checkpoint, &tokens, KvPrecision::F32)?,
        after: loss(&gpu, checkpoint, &tokens, arguments.kv_precision)?,
    })
}

impl KvCost {
    fn text(&self, arguments: &Arguments) -> String {
        let [nats, percent] = change(self.before, self.after);
        format!(
            "{:.4} nats a token with the KV cache in f32, {:.4} in {} ({nats:+.4}, {percent:+.2} %), on {} ({} tokens)",
            self.before.nats,
            self.after.nats,
            arguments.kv_precision.name(),
            self.text,
            self.before.tokens,
        )
    }

    fn json(&self, arguments: &Arguments) -> Value {
        let [nats, percent] = change(self.before, self.after);
        json!({
            "text": self.text, "tokens": self.before.tokens, "kv_precision": arguments.kv_precision.name(),
            "f32": self.before.nats, "so_kept": self.after.nats, "change": nats, "change_percent": percent,
        })
    }
}

fn decoder(
    checkpoint: &Checkpoint,
    config: &ModelConfig,
    arguments: &Arguments,
    budget: &AdapterBudget,
) -> Result<Report, Failure> {
    let sequences = arguments.sequences;
    let context = arguments
        .context
        .unwrap_or(config.context.min(DEFAULT_CONTEXT));
    let rows = Engine::default().step_tokens;
    let counted = DecoderOptions {
        context,
        blocks: sequences * context.div_ceil(BLOCK),
        max_rows: rows,
        max_samples: sequences.min(rows),
        kv: arguments.kv_precision,
        ..DecoderOptions::default()
    };
    let memory = MemoryReport::estimate(checkpoint, &counted)?;
    let fits = match budget.budget {
        Some(budget) => what_fits(checkpoint, &counted, config.context, budget)?,
        None => Vec::new(),
    };
    let block = memory.kv_cache / counted.blocks as u64;
    let sequence = block * context.div_ceil(BLOCK) as u64;
    let windows = config.layers.iter().filter_map(|layer| layer.window);
    let window = windows.clone().min();
    let mut lines = vec![
        ("architecture", config.architecture.clone()),
        ("parameters", tidegate_telemetry::count(config.parameters())),
        (
            "layers",
            format!(
                "{}, hidden {}, feed-forward {}",
                config.layers.len(),
                config.hidden,
                config.intermediate
            ),
        ),
        (
            "attention",
            format!(
                "{} heads, {} key/value heads of {}{}",
                config.heads,
                config.kv_heads,
                config.head_dim,
                window.map_or_else(String::new, |window| format!(
                    "; {} layers see {window} positions",
                    windows.count()
                ))
            ),
        ),
        (
            "vocabulary",
            format!(
                "{}{}",
                config.vocabulary,
                if config.tied {
                    ", head tied to the embedding"
                } else {
                    ""
                }
            ),
        ),
        ("context", config.context.to_string()),
        (
            "memory",
            format!("{} for {}", size(memory.total()), room(sequences, context)),
        ),
        ("  weights", size(memory.weights)),
        (
            "  KV cache",
            format!(
                "{} in {}: {} a sequence, {} a block of {BLOCK}",
                size(memory.kv_cache),
                counted.kv.name(),
                size(sequence),
                size(block)
            ),
        ),
        ("  activations", size(memory.activations)),
    ];
    if let Some(experts) = &config.experts {
        lines.insert(3, ("experts", experts_line(config, experts)));
    }
    for fit in &fits {
        let Fits { context, sequences } = fit;
        lines.push(("  fits", room(*sequences, *context)));
    }
    let fits: Vec<Value> = fits
        .iter()
        .map(|fit| json!({"context": fit.context, "sequences": fit.sequences}))
        .collect();
    let json = json!({
        "architecture": config.architecture, "makes": "text", "parameters": config.parameters(),
        "layers": config.layers.len(), "hidden": config.hidden, "intermediate": config.intermediate,
        "experts": config.experts.as_ref().map(|experts| json!({
            "count": experts.count, "chosen": experts.chosen, "intermediate": experts.intermediate,
            "shared": experts.shared, "layers": experts.layers.iter().filter(|has| **has).count(),
            "active_parameters": config.active_parameters()})),
        "heads": config.heads, "kv_heads": config.kv_heads, "head_dim": config.head_dim, "window": window,
        "vocabulary": config.vocabulary, "context": config.context, "tied": config.tied,
        "memory_bytes": {"weights": memory.weights, "kv_cache": memory.kv_cache,
            "kv_sequence": sequence, "kv_block": block,
            "activations": memory.activations, "total": memory.total()},
        "counted_for": {"sequences": sequences, "context": context, "kv_precision": counted.kv.name()},
        "fits": fits,
    });
    Ok(Report {
        lines,
        json,
        makes_text: true,
    })
}

/// What a model with experts has of them, for people.
fn experts_line(config: &ModelConfig, experts: &Experts) -> String {
    let layers = experts.layers.iter().filter(|has| **has).count();
    let shared = experts
        .shared
        .map_or_else(String::new, |width| format!(", and one of {width} for all"));
    format!(
        "{} of {} a token, feed-forward {}{shared}, in {layers} layers; {} parameters a token",
        experts.chosen,
        experts.count,
        experts.intermediate,
        tidegate_telemetry::count(config.active_parameters())
    )
}

/// So many sequences of a length, for people.
fn room(sequences: usize, context: usize) -> String {
    match sequences {
        0 => format!("no sequence of {context} positions"),
        1 => format!("1 sequence of {context} positions"),
        more => format!("{more} sequences of {context} positions"),
    }
}

/// How an encoder knows where tokens stand, and how far its rows see.
fn positions_of(config: &EncoderConfig) -> String {
    let how = match config.positions {
        0 => "rotary",
        _ => "learned",
    };
    let near = config.layers.iter().filter_map(|layer| layer.reach);
    match near.clone().max() {
        None if config.causal => format!("{how}; tokens see those before them"),
        None => how.to_owned(),
        Some(reach) => {
            let side = if config.causal {
                "before them"
            } else {
                "to each side"
            };
            let (near, all) = (near.count(), config.layers.len());
            format!("{how}; in {near} of {all} layers tokens see {reach} {side}")
        }
    }
}

/// A line end in a name begins no other line.
fn in_one_line(text: &str) -> String {
    let of = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    text.chars().map(of).collect()
}

/// The names of what may stand before texts.
fn prompts_of(config: &EncoderConfig) -> Option<String> {
    let prompts = &config.prompts;
    let names: Vec<String> = (prompts.named.keys())
        .map(|name| format!("{name:?}"))
        .collect();
    let usual = match &prompts.usual {
        None => "none of them where a stage names none".to_owned(),
        Some(name) => format!("{name:?} where a stage names none"),
    };
    (!names.is_empty()).then(|| format!("{}; {usual}", names.join(", ")))
}

fn encoder(
    checkpoint: &Checkpoint,
    config: &EncoderConfig,
    arguments: &Arguments,
) -> Result<Report, Failure> {
    let context = arguments
        .context
        .unwrap_or(config.context.min(DEFAULT_CONTEXT));
    let counted = encoder_options(Engine::default(), context);
    let memory = GpuEncoder::estimate(checkpoint, &counted)?;
    let positions = positions_of(config);
    let (makes, head) = match &config.head {
        EncoderHead::Embedding(_) => ("embeddings", format!("vectors of {}", config.hidden)),
        EncoderHead::Classification(labels) => ("labels", in_one_line(&labels.join(", "))),
        EncoderHead::TokenClassification(labels) => ("entities", in_one_line(&labels.join(", "))),
        EncoderHead::Relevance(scale) => (
            "scores of pairs of texts",
            match scale {
                ScoreScale::Raw => "any number".to_owned(),
                ScoreScale::Sigmoid => "0 to 1, by the logistic function".to_owned(),
            },
        ),
    };
    let mut lines = vec![
        ("architecture", config.architecture.clone()),
        ("makes", format!("{makes}: {head}")),
        ("parameters", tidegate_telemetry::count(config.parameters())),
        (
            "layers",
            format!(
                "{}, hidden {}, feed-forward {}, {} heads",
                config.layers.len(),
                config.hidden,
                config.intermediate,
                config.heads
            ),
        ),
        ("positions", positions.clone()),
        ("vocabulary", config.vocabulary.to_string()),
        ("context", config.context.to_string()),
        (
            "memory",
            format!("{} for texts of {context} tokens", size(memory.total())),
        ),
        ("  weights", size(memory.weights)),
        ("  activations", size(memory.activations)),
    ];
    if let Some(prompts) = prompts_of(config) {
        lines.insert(2, ("prompts", prompts));
    }
    let labels = match config.head.labels() {
        [] => Value::Null,
        labels => json!(labels),
    };
    let json = json!({
        "architecture": config.architecture, "makes": makes, "labels": labels, "prompts": &config.prompts.named,
        "default_prompt_name": &config.prompts.usual,
        "parameters": config.parameters(), "layers": config.layers.len(), "hidden": config.hidden,
        "intermediate": config.intermediate, "heads": config.heads, "vocabulary": config.vocabulary,
        "context": config.context, "positions": positions, "memory_bytes": {"weights": memory.weights, "activations": memory.activations,
            "total": memory.total()}, "counted_for": {"context": context},
    });
    Ok(Report {
        lines,
        json,
        makes_text: false,
    })
}

/// Bytes on disk by format.
struct Formats(BTreeMap<&'static str, u64>);

impl Formats {
    fn text(&self) -> String {
        let mut formats: Vec<_> = self.0.iter().collect();
        formats.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
        let formats = formats
            .iter()
            .map(|(format, bytes)| format!("{format} {}", size(**bytes)));
        formats.collect::<Vec<_>>().join(", ")
    }
}

fn formats(checkpoint: &Checkpoint) -> Result<Formats, TensorError> {
    let mut formats = BTreeMap::new();
    let mut add = |format: Stored, bytes: u64| {
        *formats.entry(format.name()).or_insert(0) += bytes;
    };
    match checkpoint.architecture() {
        Architecture::Decoder(config) => {
            for tensor in config.tensors() {
                let tensor = checkpoint.tensor(tensor)?;
                add(tensor.stored(), tensor.stored_bytes());
            }
        }
        Architecture::Encoder(config) => {
            for tensor in config.tensors() {
                let tensor = checkpoint.encoder_tensor(tensor)?;
                add(tensor.stored(), tensor.stored_bytes());
            }
        }
    }
    Ok(Formats(formats))
}

/// What is held in another format than it is stored in, and what that costs in memory.
fn held(checkpoint: &Checkpoint, json: &mut Value) -> Result<Option<Line>, TensorError> {
    let all = checkpoint.reencoded()?;
    let (stored, held) = all.iter().fold((0, 0), |(stored, held), of| {
        (stored + of.stored_bytes, held + of.handed_on_bytes)
    });
    let list = all.iter().map(|of| {
        json!({"stored": of.stored.makers_name(), "held": of.held.name(), "tensors": of.tensors, "stored_bytes": of.stored_bytes,
            "held_bytes": of.handed_on_bytes})
    });
    json["reencoded"] = list.collect();
    Ok((!all.is_empty()).then(|| {
        let each = |name: fn(&Reencoded) -> &'static str| {
            let mut names: Vec<&str> = all.iter().map(name).collect();
            names.sort_unstable();
            names.dedup();
            names.join(", ")
        };
        let text = format!(
            "{} in {}, {} more than in the file: no kernel reads {}; what that loses is logged when it is loaded",
            size(held),
            each(|of| of.held.name()),
            size(held.saturating_sub(stored)),
            each(|of| of.stored.makers_name())
        );
        ("held as", text)
    }))
}

/// Between which tags a model thinks, as far as its chat template says.
fn thoughts(tokenizer: &Tokenizer) -> (String, Value) {
    let form = tokenizer.answer_form();
    match form.reasons {
        true => {
            let (begins, ends) = (form.reasoning.0.text(), form.reasoning.1.text());
            // Some have a line in them.
            let shown = |tag: &str| tag.trim_end().to_owned();
            (
                format!("{} ... {}", shown(begins), shown(ends)),
                json!({"begins": begins, "ends": ends}),
            )
        }
        false => ("none".to_owned(), Value::Null),
    }
}

/// Whether tokenizer and chat template can be used.
fn described(tokenizer: &anyhow::Result<Tokenizer>, makes_text: bool) -> (String, Value) {
    let tokenizer = match tokenizer {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            let error = with_causes(error);
            return (format!("cannot be used: {error}"), json!({"error": error}));
        }
    };
    let tokens = tokenizer.vocabulary();
    if !makes_text {
        return (format!("{tokens} tokens"), json!({"tokens": tokens}));
    }
    let greeting = ChatMessage {
        role: "user",
        content: "hello",
    };
    let rendered = tokenizer.render_chat(&[greeting]);
    let (template, json) = match (&rendered, tokenizer.has_chat_template()) {
        (Ok(_), true) => ("its own chat template".to_owned(), json!("own")),
        (Ok(_), false) => (
            "no chat template: prompts are User: ..., Assistant:".to_owned(),
            json!("none"),
        ),
        (Err(error), _) => (
            format!("its chat template cannot be used: {error}"),
            json!({"error": error.to_string()}),
        ),
    };
    (
        format!("{tokens} tokens, {template}"),
        json!({"tokens": tokens, "chat_template": json, "bos": tokenizer.bos(), "eos": tokenizer.eos()}),
    )
}
