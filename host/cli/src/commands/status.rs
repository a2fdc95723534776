//! `tidegate status`.

use clap::Args;
use tidegate_control::{RevisionReport, RunState, Tone};

use super::host::{HostArguments, client};
use super::{print, print_json};
use crate::exit::Failure;
use crate::models::remote_line;

/// Show how a running pipeline stands.
#[derive(Args)]
#[command(after_help = "Example:\n  tidegate status --pipeline pipeline.toml")]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Shows how a running host stands.
pub(crate) fn status(arguments: &Arguments) -> Result<(), Failure> {
    let report = client(&arguments.host)?.status()?;
    if arguments.json {
        return print_json(&serde_json::to_string_pretty(&report)?);
    }
    let state = match report.state {
        RunState::Starting => "starting",
        RunState::Running => "running",
        RunState::Draining => "draining",
    };
    let records = &report.records;
    let latency = &report.latency_ms;
    let split = match records.split {
        0 => String::new(),
        split => format!("  from splits {split}"),
    };
    let mut text = format!(
        "{}: {state} for {:.1} s\n",
        report.pipeline, report.uptime_seconds
    );
    for trouble in &report.troubles {
        text += &format!("{:<9} {}\n", word(trouble.tone), trouble.text);
    }
    text += &format!(
        "records   in {}  out {}  dropped {}  dead {}{split}  in flight {}, since the state \
         directory was made\nlatency   p50 {:.2} ms  p95 {:.2} ms  p99 {:.2} ms\n",
        records.input,
        records.output,
        records.dropped,
        records.dead,
        records.in_flight,
        latency.p50,
        latency.p95,
        latency.p99,
    );
    if let Some(adapter) = &report.adapter {
        text += &format!(
            "tokens    {} ({:.0}/s) on {adapter}\n",
            report.tokens, report.tokens_per_second
        );
    }
    if let Some(gateway) = &report.gateway {
        text += &format!(
            "gateway   {}  answered {}  waiting {}\n",
            gateway.url, gateway.answered, gateway.waiting
        );
        for shed in gateway.shed.iter().filter(|shed| shed.requests > 0) {
            let step = match shed.step.as_str() {
                "refused" => "refused".to_owned(),
                number => format!("step {number}"),
            };
            text += &format!(
                "  under load, source {}: {step} {}\n",
                shed.source, shed.requests
            );
        }
    }
    text += &format!(
        "swaps     {}, longest wait {:.2} ms\n",
        report.swaps, report.max_swap_wait_ms
    );
    if let Some(audit) = &report.audit {
        let (lines, path) = (audit.lines, audit.path.display());
        text += &format!("audit     {lines} lines in {path}, head {}\n", audit.head);
    }
    for work in &report.progress {
        text += &format!("progress  {work}\n");
    }
    for model in &report.models {
        text += &super::model::line(model);
    }
    for model in &report.remote {
        text += &remote_line(model);
    }
    for slot in &report.slots {
        let label = if slot.label.is_empty() {
            String::new()
        } else {
            format!(" ({})", slot.label)
        };
        text += &format!(
            "slot {}: {} {} {}{label}, generation {}, in {} out {} dropped {} dead {}\n",
            slot.slot,
            slot.name,
            slot.version,
            slot.digest,
            slot.generation,
            slot.counters.input,
            slot.counters.output,
            slot.counters.dropped,
            slot.counters.dead,
        );
        for revision in &slot.revisions {
            text += &line(revision);
        }
    }
    print(&text)
}

/// How bad something is, in a word.
fn word(tone: Tone) -> &'static str {
    match tone {
        Tone::Bad => "wrong",
        Tone::Warn => "look",
    }
}

/// A revision on one line, or two if it is run no more.
fn line(revision: &RevisionReport) -> String {
    let digits = revision.revision.trim_start_matches("sha256:");
    let outcomes = revision.outcomes.iter().filter(|(_, number)| **number > 0);
    let mut outcomes: String = outcomes
        .map(|(name, number)| format!("{name} {number}, "))
        .collect();
    outcomes.truncate(outcomes.trim_end_matches(", ").len());
    let outcomes = match outcomes.is_empty() {
        true => String::new(),
        false => format!(" ({outcomes})"),
    };
    let mut text = format!(
        "  revision {}{}: {} records{outcomes}, failed {}, lost instances {}, {} ms in {} instances, {:.1} MiB\n",
        digits.get(..16).unwrap_or(digits),
        if revision.runs { "" } else { ", before" },
        revision.records,
        revision.failed,
        revision.lost_instances,
        revision.guest_ms,
        revision.instances,
        revision.memory as f64 / f64::from(1 << 20),
    );
    if let Some(why) = &revision.tripped {
        text += &format!("    is run no more: {why}\n");
    }
    text
}
