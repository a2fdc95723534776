//! `tidegate model bench`.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use tidegate_infer::bench::{
    BenchOptions, BenchReport, KernelReport, SHADER_CACHES, bench as measure, measure_ready,
};
use tidegate_infer::{
    Adapter, AdapterKind, DeviceOptions, Gpu, KernelVariant, KvPrecision, MemoryReport,
};
use tidegate_weights::{Checkpoint, ModelConfig};

use super::source::Source;
use super::{kv_precision, size};
use crate::commands::numbers::{batch, count, seconds};
use crate::commands::{print, print_json};
use crate::exit::{Failure, tell};
use crate::models::available_memory;

/// Kernels that are named for people; the JSON has all of them.
const SHOWN_KERNELS: usize = 5;

/// How long the process that measures the time to ready may take: a large model that is encoded while it is loaded takes minutes.
const LONGEST_TO_READY: Duration = Duration::from_secs(15 * 60);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(10);

/// Measure how fast a model, or one with random weights, runs.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tidegate model bench examples/support-bot/model\n  \
    tidegate model bench --random 125M --quant int8 --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// About how long each rate may be measured, seconds.
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    seconds: f64,
    /// Sequences that decode together, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32], value_parser = batch)]
    batches: Vec<usize>,
    /// Positions of each sequence, separated by commas; the first is the one whose rates stand at the top.
    #[arg(long, value_delimiter = ',', default_values_t = [128, 2048], value_parser = count)]
    contexts: Vec<usize>,
    /// The kernels by name. Default: the best that pass their test on the adapter.
    #[arg(long, value_parser = ["portable", "software", "subgroup", "f16", "cooperative", "dot"])]
    kernels: Option<String>,
    /// The same bits at any batch, as pipelines run unless they say otherwise.
    #[arg(long)]
    reproducible: bool,
    /// How keys and values are kept: f32, f16 or int8.
    #[arg(long, value_name = "PRECISION", default_value = "f16", value_parser = kv_precision)]
    kv_precision: KvPrecision,
    /// Index, part of a name, or cpu.
    #[arg(long)]
    adapter: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Only measure how long this process takes to be ready: for the process that starts it.
    #[arg(long, hide = true)]
    ready: bool,
}

/// Measures a model: rates, times, and where the time goes.
pub(crate) fn bench(arguments: &Arguments) -> Result<(), Failure> {
    let adapter = Adapter::choose(arguments.adapter.as_deref()).map_err(Failure::usage)?;
    let options = options(arguments);
    if arguments.ready {
        return ready(arguments, &adapter, &options);
    }
    let checkpoint = arguments.source.checkpoint()?;
    has_room(&adapter, &checkpoint, &options)?;
    let readiness = readiness()?;
    let gpu = Gpu::open(&adapter, DeviceOptions::default())?;
    let report = measure(&gpu, &checkpoint, &options)?;
    if arguments.json {
        let json = as_json(arguments, &checkpoint, &adapter, &report, &readiness)?;
        return print_json(&format!("{json:#}"));
    }
    print(&as_text(arguments, &checkpoint, &report, &readiness))
}

fn options(arguments: &Arguments) -> BenchOptions {
    BenchOptions {
        batches: arguments.batches.clone(),
        contexts: arguments.contexts.clone(),
        kernels: arguments.kernels.as_deref().and_then(KernelVariant::named),
        reproducible: arguments.reproducible,
        kv: arguments.kv_precision,
        patience: Duration::from_secs_f64(arguments.seconds),
        ..BenchOptions::default()
    }
}

/// Refuses what no memory is left for, before it is taken: a system that runs out of memory ends who it likes.
fn has_room(
    adapter: &Adapter,
    checkpoint: &Checkpoint,
    options: &BenchOptions,
) -> anyhow::Result<()> {
    let Some(available) = available_memory(adapter.info()) else {
        return Ok(());
    };
    let mut needed = 0;
    for load in options.loads(checkpoint, adapter.info().largest_binding)? {
        needed = needed.max(MemoryReport::estimate(checkpoint, &load)?.total());
    }
    ensure!(
        needed <= available,
        "the model needs {} for these contexts and batches, and {} of this machine's memory are available; lower --contexts or --batches",
        size(needed),
        size(available)
    );
    Ok(())
}

/// Seconds until a process that has just been started can be asked.
struct Readiness {
    /// With an empty shader cache.
    cold: Value,
    /// With the cache that the cold one left.
    warm: Value,
}

/// Starts this program twice, with a shader cache of its own that is empty at first.
fn readiness() -> anyhow::Result<Readiness> {
    let cache = tempfile::Builder::new()
        .prefix("tidegate-bench-")
        .tempdir()
        .context("cannot make a directory for compiled shaders")?;
    Ok(Readiness {
        cold: ready_of_a_process(cache.path())?,
        warm: ready_of_a_process(cache.path())?,
    })
}

fn ready_of_a_process(cache: &Path) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(with_ready(std::env::args_os().skip(1)));
    for variable in SHADER_CACHES {
        command.env(variable, cache);
    }
    let output = output_within(&mut command, LONGEST_TO_READY)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let said = said.trim().trim_start_matches("tidegate: ");
        bail!(
            "the process that measures the time to ready ended with {}: {said}",
            output.status
        );
    }
    // Its log.
    tell(format_args!("{said}"));
    serde_json::from_slice(&output.stdout)
        .context("the process that measures the time to ready said something else")
}

/// The arguments of this process for one that measures the time to ready. All behind a `--` would be a model.
fn with_ready(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let end = arguments.iter().position(|argument| argument == "--");
    arguments.insert(end.unwrap_or(arguments.len()), "--ready".into());
    arguments
}

/// What a process says until it ends, which is ended if it takes longer than that.
fn output_within(command: &mut Command, longest: Duration) -> anyhow::Result<Output> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start another process")?;
    // Beside each other, so that it waits for neither to be read.
    let [out, log] = [child.stdout.take().map(read), child.stderr.take().map(read)];
    Ok(Output {
        status: ended_within(&mut child, longest)?,
        stdout: heard(out)?,
        stderr: heard(log)?,
    })
}

/// How a process ends; it is ended if it takes longer than that.
fn ended_within(child: &mut Child, longest: Duration) -> anyhow::Result<ExitStatus> {
    let until = Instant::now() + longest;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            other => {
                // It may have ended by itself since.
                let _ = child.kill();
                let _ = child.wait();
                other.context("the process that measures the time to ready is lost")?;
                bail!(
                    "the process that measures the time to ready was not ready within {} s and was ended",
                    longest.as_secs_f64()
                );
            }
        }
    }
}

type Reading = JoinHandle<io::Result<Vec<u8>>>;

/// Reads to the end.
fn read(mut from: impl Read + Send + 'static) -> Reading {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

/// What was read.
fn heard(reading: Option<Reading>) -> anyhow::Result<Vec<u8>> {
    let heard = reading.and_then(|reading| reading.join().ok());
    let heard = heard.context("another process cannot be listened to")?;
    heard.context("another process cannot be listened to")
}

/// In the other process: measures itself once and says what it found as JSON.
fn ready(arguments: &Arguments, adapter: &Adapter, options: &BenchOptions) -> Result<(), Failure> {
    let began = Instant::now();
    let checkpoint = arguments.source.checkpoint()?;
    let files = began.elapsed().as_secs_f64();
    let ready = measure_ready(adapter, &checkpoint, options)?;
    let report = json!({
        "ready_s": files + ready.open_s + ready.load_s,
        "open_s": ready.open_s,
        "load_s": ready.load_s,
        "first_token_s": ready.first_token_s,
    });
    print_json(&report.to_string())
}

fn as_json(
    arguments: &Arguments,
    checkpoint: &Checkpoint,
    adapter: &Adapter,
    report: &BenchReport,
    readiness: &Readiness,
) -> anyhow::Result<Value> {
    let mut json = serde_json::to_value(report)?;
    json["model"] = json!(arguments.source.name());
    json["quant"] = json!(arguments.source.quant());
    json["parameters"] = json!(checkpoint.decoder().map(ModelConfig::parameters));
    json["software"] = json!(adapter.info().kind == AdapterKind::Software);
    json["kv_precision"] = json!(arguments.kv_precision.name());
    json["reproducible"] = json!(arguments.reproducible);
    json["time_to_ready_s"] = json!({
        "cold": readiness.cold["ready_s"], "warm": readiness.warm["ready_s"],
    });
    json["time_to_first_token_s"] = json!({
        "cold": readiness.cold["first_token_s"], "warm": readiness.warm["first_token_s"],
    });
    Ok(json)
}

fn as_text(
    arguments: &Arguments,
    checkpoint: &Checkpoint,
    report: &BenchReport,
    readiness: &Readiness,
) -> String {
    let seconds = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let mut text = format!(
        "model          {}\nadapter        {}\nkernels        {}\n\
         memory         weights {}, KV cache {} in {}{}\n\
         ready          {:.2} s with an empty shader cache, {:.2} s with a full one\n\
         first token    {:.3} s after that, {:.3} s\n\
         copy           {:.2} GB/s\n",
        arguments.source.line(checkpoint),
        report.adapter,
        report.kernels,
        size(report.weights_bytes),
        size(report.kv_cache_bytes),
        arguments.kv_precision.name(),
        if report.shared_blocks {
            " shared by all sequences"
        } else {
            ""
        },
        seconds(&readiness.cold["ready_s"]),
        seconds(&readiness.warm["ready_s"]),
        seconds(&readiness.cold["first_token_s"]),
        seconds(&readiness.warm["first_token_s"]),
        report.copy_bandwidth_bytes_per_s / 1e9,
    );
    for context in &report.contexts {
        text += &format!(
            "\nat {} positions\n  prefill      {:.1} tokens/s, in submissions of {:.0} ms\n",
            context.context, context.prefill_tokens_per_s, context.prefill_submission_ms
        );
        let missing = context.kernels_missing.as_deref();
        let prefill = context.prefill_kernels.as_deref();
        text += &format!("               {}\n", kernels(prefill, missing));
        for (batch, rate) in &context.decode_tokens_per_s {
            let share = context.bandwidth_share.get(batch).copied().unwrap_or(0.0);
            let submission = context.decode_submission_ms.get(batch).copied();
            text += &format!(
                "  decode {batch:>3}   {rate:.1} tokens/s, {:.1} % of the copy bandwidth, in submissions of {:.0} ms\n",
                share * 100.0,
                submission.unwrap_or(0.0)
            );
            let times = context.decode_kernels.get(batch).map(Vec::as_slice);
            text += &format!("               {}\n", kernels(times, missing));
        }
    }
    text
}

/// The kernels that take most of a step, or why that is not known.
fn kernels(times: Option<&[KernelReport]>, missing: Option<&str>) -> String {
    let Some(times) = times else {
        let why = missing.unwrap_or("not asked for");
        return format!("no times by kernel: {why}");
    };
    let mut times: Vec<&KernelReport> = times.iter().collect();
    times.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    let shown = times.iter().take(SHOWN_KERNELS);
    let shown: Vec<String> = shown
        .map(|time| format!("{} {:.2} ms", time.kernel, time.ms))
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_measures_itself_is_told_so_before_what_can_only_be_a_model() {
        let with = |arguments: &[&str]| -> Vec<String> {
            let arguments = with_ready(arguments.iter().map(OsString::from));
            let words = arguments.into_iter().map(OsString::into_string);
            words.collect::<Result<_, _>>().unwrap()
        };
        assert_eq!(
            with(&["model", "bench", "folder", "--json"]),
            ["model", "bench", "folder", "--json", "--ready"]
        );
        assert_eq!(
            with(&["model", "bench", "--json", "--", "--folder"]),
            ["model", "bench", "--json", "--ready", "--", "--folder"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_process_that_does_not_end_is_ended_and_one_that_says_much_is_heard() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let error = output_within(&mut shell("exec sleep 1000"), LOOK).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("not ready within 0.01 s"), "{error}");
        // More than a pipe has room for, on both.
        let script = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; exit 3";
        let output = output_within(&mut shell(script), LONGEST_TO_READY).unwrap();
        assert_eq!(output.status.code(), Some(3));
        let said = [&output.stdout, &output.stderr].map(Vec::len);
        assert_eq!(said, [300_000, 200_000]);
    }
}
