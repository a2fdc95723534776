//! `tidegate status`.

use tidegate_control::RunState;

use super::deploy::client;
use super::print;
use crate::HostArguments;
use crate::exit::Failure;

/// Shows how a running host stands.
pub(crate) fn status(host: &HostArguments, as_json: bool) -> Result<(), Failure> {
    let report = client(host)?.status()?;
    if as_json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
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
        "{}: {state} for {:.1} s\nrecords   in {}  out {}  dropped {}  dead {}{split}  in flight {}, since the state \
         directory was made\nlatency   p50 {:.2} ms  p95 {:.2} ms  p99 {:.2} ms\n",
        report.pipeline,
        report.uptime_seconds,
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
    text += &format!(
        "swaps     {}, longest wait {:.2} ms\n",
        report.swaps, report.max_swap_wait_ms
    );
    for model in &report.models {
        text += &super::model::line(model);
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
        if let Some(trouble) = &slot.trouble {
            let tasks = match trouble.tasks {
                1 => "1 task".to_owned(),
                tasks => format!("{tasks} tasks"),
            };
            text += &format!(
                "  cannot answer in {tasks}, for {} s; its records wait and it is tried again: {}\n",
                trouble.seconds,
                trouble.reason.lines().next().unwrap_or_default(),
            );
        }
    }
    print(&text)
}
