//! `tidegate model plan`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::json;
use tidegate_infer::sheet::{
    CostSheet, DeviceProfile, DispatchSheet, PROFILES, SheetOptions, StepSheet,
};
use tidegate_infer::{
    Adapter, DecoderOptions, DeviceOptions, Gpu, GpuDecoder, KernelVariant, KvPrecision, LoadError,
    MemoryReport, measure_copy_bandwidth,
};
use tidegate_weights::Checkpoint;

use super::source::Source;
use super::{kv_precision, size};
use crate::commands::numbers::{batch, count};
use crate::commands::{print, print_json};
use crate::exit::{Failure, with_causes};
use crate::models::{available_memory, with_loras};

/// Bytes of a device profile at most.
const LONGEST_PROFILE: u64 = 64 << 10;

/// Show what a step of a model costs on a device: dispatches, bytes, arithmetic, and the time they take at peak rates.
///
/// Without --device, on the adapter at hand, beside the time that each dispatch takes there.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate model plan --random 8B --device h100 --batch 32 --context 2048\n  \
    tidegate model plan examples/support-bot/model")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// h100, h200, 4090, m3, igpu, or a TOML file that describes a device. Default: the adapter at hand.
    #[arg(long, value_name = "NAME|FILE")]
    device: Option<String>,
    /// Sequences that decode together.
    #[arg(long, default_value_t = 1, value_parser = batch)]
    batch: usize,
    /// Positions of each sequence.
    #[arg(long, default_value_t = 128, value_parser = count)]
    context: usize,
    /// Rows of the chunk of a prompt that is counted beside it, at most --context.
    #[arg(long, default_value_t = 256, value_parser = batch)]
    chunk: usize,
    /// The kernels by name. Default: the best for the device.
    #[arg(long, value_parser = ["portable", "software", "subgroup", "f16", "cooperative", "dot"])]
    kernels: Option<String>,
    /// The same bits at any batch, as pipelines run unless they say otherwise.
    #[arg(long)]
    reproducible: bool,
    /// How keys and values are kept: f32, f16 or int8.
    #[arg(long, value_name = "PRECISION", default_value = "f16", value_parser = kv_precision)]
    kv_precision: KvPrecision,
    /// Without --device: index, part of a name, or cpu.
    #[arg(long, conflicts_with = "device")]
    adapter: Option<String>,
    /// The directory of a low-rank adapter, which is loaded with the model; several times for several, which sequences go through
    /// in turn.
    #[arg(long, value_name = "DIRECTORY")]
    lora: Vec<PathBuf>,
    /// Print JSON, with each dispatch by itself.
    #[arg(long)]
    json: bool,
}

/// Shows what a step of a model costs.
pub(crate) fn plan(arguments: &Arguments) -> Result<(), Failure> {
    let steps = SheetOptions {
        batch: arguments.batch,
        context: arguments.context,
        chunk: arguments.chunk,
    };
    let options = DecoderOptions {
        kernels: arguments.kernels.as_deref().and_then(KernelVariant::named),
        reproducible: arguments.reproducible,
        kv: arguments.kv_precision,
        ..steps.decoder()
    };
    let checkpoint;
    let sheet = match &arguments.device {
        Some(device) => {
            let device = profile(device).map_err(|error| Failure::usage(with_causes(&error)))?;
            checkpoint = with_loras(arguments.source.checkpoint()?, &arguments.lora)?;
            CostSheet::planned(&checkpoint, &device, &options, steps).map_err(failed)?
        }
        None => {
            let adapter = Adapter::choose(arguments.adapter.as_deref()).map_err(Failure::usage)?;
            checkpoint = with_loras(arguments.source.checkpoint()?, &arguments.lora)?;
            at_hand(&adapter, &checkpoint, &options, steps)?
        }
    };
    if arguments.json {
        let mut json = serde_json::to_value(&sheet).context("the sheet is no JSON")?;
        json["model"] = json!(arguments.source.name());
        json["quant"] = json!(arguments.source.quant());
        json["kv_precision"] = json!(arguments.kv_precision.name());
        json["batch"] = json!(steps.batch);
        json["context"] = json!(steps.context);
        return print_json(&format!("{json:#}"));
    }
    print(&as_text(arguments, &checkpoint, &sheet))
}

/// What is out of range is a matter of what was asked for, in this command's words.
fn failed(error: LoadError) -> Failure {
    let text = match &error {
        LoadError::Option { what, .. } => match *what {
            "context" => format!("--{error}"),
            "blocks" | "max_rows" | "max_samples" => {
                format!("{error}; lower --batch, --context or --chunk")
            }
            _ => format!("{error}; lower --batch or --context"),
        },
        LoadError::BufferTooLarge {
            what, bytes, limit, ..
        } => format!(
            "{what} of {}: more than the {} that the device can bind; lower --batch or --context",
            size(*bytes),
            size(*limit)
        ),
        LoadError::Variant { .. } => error.to_string(),
        _ => return error.into(),
    };
    Failure::usage(text)
}

/// A profile by its name, or from a file.
fn profile(device: &str) -> anyhow::Result<DeviceProfile> {
    if let Some(profile) = DeviceProfile::named(device) {
        return Ok(profile);
    }
    let path = Path::new(device);
    let known = PROFILES.join(", ");
    let file = std::fs::metadata(path)
        .with_context(|| format!("--device {device:?} is neither a file nor one of {known}"))?;
    ensure!(file.is_file(), "{device} is no regular file");
    ensure!(
        file.len() <= LONGEST_PROFILE,
        "{device} has {} bytes; a device is described in at most {LONGEST_PROFILE}",
        file.len()
    );
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {device}"))?;
    let profile: DeviceProfile =
        toml::from_str(&text).with_context(|| format!("{device} describes no device"))?;
    match profile.check() {
        Ok(()) => Ok(profile),
        Err(wrong) => bail!("{device}: {wrong}"),
    }
}

/// The sheet of a model that is loaded for it.
fn at_hand(
    adapter: &Adapter,
    checkpoint: &Checkpoint,
    options: &DecoderOptions,
    steps: SheetOptions,
) -> Result<CostSheet, Failure> {
    if let Some(available) = available_memory(adapter.info()) {
        let needed = MemoryReport::estimate(checkpoint, options);
        has_room(needed.map_err(failed)?.total(), available)?;
    }
    let gpu = Gpu::open(adapter, DeviceOptions::default())?;
    let device = DeviceProfile::at_hand(&gpu, measure_copy_bandwidth(&gpu)?);
    let mut decoder = GpuDecoder::load(&gpu, checkpoint, options).map_err(failed)?;
    CostSheet::measured(&mut decoder, &device, steps).map_err(failed)
}

/// Refuses what no memory is left for.
fn has_room(needed: u64, available: u64) -> anyhow::Result<()> {
    ensure!(
        needed <= available,
        "the model needs {}, and {} of this machine's memory are available; --device shows what it would cost elsewhere \
         without loading it",
        size(needed),
        size(available)
    );
    Ok(())
}

fn as_text(arguments: &Arguments, checkpoint: &Checkpoint, sheet: &CostSheet) -> String {
    let device = &sheet.device;
    let mut text = format!(
        "model     {}\ndevice    {}: {:.0} GB/s, cache {}, {} multiprocessors\nkernels   {}\nweights   {}\nKV cache  {}\n",
        arguments.source.line(checkpoint),
        device.name,
        device.bandwidth / 1e9,
        size(device.cache),
        device.multiprocessors,
        sheet.kernels,
        size(sheet.weights_bytes),
        arguments.kv_precision.name(),
    );
    let layers = checkpoint.decoder().map_or(0, |config| config.layers.len());
    let sequences = match arguments.batch {
        1 => "one sequence".to_owned(),
        batch => format!("{batch} sequences"),
    };
    text += &format!("\ndecode, {sequences} at {} positions\n", arguments.context);
    text += &step(&sheet.decode, layers);
    text += &format!(
        "\nprefill, {} rows that end at {} positions\n",
        sheet.prefill.rows, arguments.context
    );
    text += &step(&sheet.prefill, layers);
    text
}

fn step(step: &StepSheet, layers: usize) -> String {
    let seconds = &step.seconds;
    let milliseconds = |seconds: f64| seconds * 1e3;
    let mut text = format!(
        "  dispatches  {} for {layers} layers{}\n  \
           bytes       reads {}, {:.3} times the {} of weights, keys and values; writes {}\n  \
           arithmetic  {} multiply-adds\n  \
           time        {:.3} ms at peak rates: memory {:.3}, arithmetic {:.3}, gaps {:.3}; {:.0} tokens/s\n",
        step.dispatches.len(),
        match step.passes {
            1 => String::new(),
            passes => format!(", in {passes} passes"),
        },
        size(step.read_bytes),
        step.read_share(),
        size(step.least_bytes),
        size(step.written_bytes),
        tidegate_telemetry::count(step.multiply_adds),
        milliseconds(seconds.total),
        milliseconds(seconds.memory),
        milliseconds(seconds.arithmetic),
        milliseconds(seconds.gaps),
        step.tokens_per_s(),
    );
    if let Some(measured) = step.measured_ms {
        text += &format!("  measured    {measured:.3} ms for all dispatches\n");
    }
    text += &table(&step.dispatches, step.measured_ms.is_some());
    text
}

/// Dispatches that are alike, together.
struct Alike {
    first: DispatchSheet,
    count: usize,
    seconds: f64,
    read: u64,
    measured: f64,
}

/// A line for those that are alike, those that take longest first.
fn table(dispatches: &[DispatchSheet], measured: bool) -> String {
    let mut lines: Vec<Alike> = Vec::new();
    for dispatch in dispatches {
        let like = |line: &&mut Alike| {
            let first = &line.first;
            (first.kernel, first.workgroups, first.needed_bytes)
                == (dispatch.kernel, dispatch.workgroups, dispatch.needed_bytes)
        };
        let milliseconds = dispatch.measured_ms.unwrap_or(0.0);
        match lines.iter_mut().find(like) {
            Some(line) => {
                line.count += 1;
                line.seconds += dispatch.seconds;
                line.read += dispatch.read_bytes;
                line.measured += milliseconds;
            }
            None => lines.push(Alike {
                first: *dispatch,
                count: 1,
                seconds: dispatch.seconds,
                read: dispatch.read_bytes,
                measured: milliseconds,
            }),
        }
    }
    let weight = |line: &Alike| {
        if measured {
            line.measured
        } else {
            line.seconds
        }
    };
    lines.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let mut text = format!(
        "     n  {:18} {:>16} {:>7} {:>5} {:>11} {:>11} {:>9} {:>5} {:>10}{}\n",
        "kernel",
        "workgroups",
        "each mp",
        "lanes",
        "needs",
        "reads",
        "barriers",
        "banks",
        "peak us",
        if measured { "   measured" } else { "" }
    );
    for line in &lines {
        let first = &line.first;
        let [straight, looped] = first.barriers;
        let barriers = match looped {
            0 => straight.to_string(),
            looped => format!("{straight}+{looped}n"),
        };
        text += &format!(
            "{:>6}  {:18} {:>16} {:>7.1} {:>5} {:>11} {:>11} {:>9} {:>5} {:>10.1}",
            line.count,
            first.kernel,
            first.workgroups.map(|axis| axis.to_string()).join(" x "),
            first.workgroups_each,
            first.lanes,
            size(first.needed_bytes * line.count as u64),
            size(line.read),
            barriers,
            first.bank_conflicts,
            line.seconds * 1e6,
        );
        if measured {
            text += &format!(" {:>10.1}", line.measured * 1e3);
        }
        text += "\n";
    }
    text
}
