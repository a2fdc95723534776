//! How the records of a project's samples come out with one component and with the next.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tidegate_contract::{Processed, Slot as _};
use tidegate_control::config::{StageKind, load};
use tidegate_operator::{ComponentSlot, Engine, Grants, SlotOptions};
use tidegate_record::OutcomesView;
use tidegate_trial::{BATCH, Became, Lines, answer_all, read_records};

use crate::exit::Failure;

/// Most records that are shown.
const SHOWN: usize = 10;
/// Most differences of a record that are shown.
const SHOWN_OF_RECORD: usize = 5;
/// How long all samples may take.
const LONGEST: Duration = Duration::from_secs(30);
/// The one time that operators see: the same for both, so that only the operator differs.
const CLOCK: i64 = 1_700_000_000_000_000;

/// The configuration of a stage in a pipeline file; none where the file has no such stage or is wrong by now.
pub(super) fn config(pipeline: &Path, slot: &str) -> String {
    let pipeline = load(pipeline).ok();
    let stages = pipeline.iter().flat_map(|pipeline| &pipeline.stages);
    match stages
        .filter(|stage| stage.name == slot)
        .map(|stage| &stage.kind)
        .next()
    {
        Some(StageKind::Operator(operator)) => {
            serde_json::Value::Object(operator.config.clone()).to_string()
        }
        _ => "{}".to_owned(),
    }
}

/// What changes between two components, for a person; nothing where nothing does.
pub(super) fn changed(
    engine: &Engine,
    (before, now): (&[u8], &[u8]),
    file: &Path,
    config: &str,
    grants: Grants,
) -> Result<String, Failure> {
    // What ran may import what the manifest no longer grants.
    let before = outcomes(engine, before, file, config, Grants::ALL)?;
    let now = outcomes(engine, now, file, config, grants)?;
    let pairs = before.iter().zip(&now).enumerate();
    let differ: Vec<_> = pairs
        .map(|(record, (before, now))| before.differences(now, &format!("record {}", record + 1)))
        .filter(|differences| !differences.is_empty())
        .collect();
    let mut text = String::new();
    if differ.is_empty() {
        return Ok(text);
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let _ = writeln!(
        text,
        "  {name}: {} of {} records come out otherwise",
        differ.len(),
        now.len()
    );
    for differences in differ.iter().take(SHOWN) {
        for difference in differences.iter().take(SHOWN_OF_RECORD) {
            let _ = writeln!(
                text,
                "  {}\n    was  {}\n    now  {}",
                difference.place, difference.expected, difference.came
            );
        }
        if let more @ 1.. = differences.len().saturating_sub(SHOWN_OF_RECORD) {
            let _ = writeln!(text, "    and {more} more of this record");
        }
    }
    if let more @ 1.. = differ.len().saturating_sub(SHOWN) {
        let _ = writeln!(text, "  and {more} more");
    }
    Ok(text)
}

/// What becomes of each record.
fn outcomes(
    engine: &Engine,
    component: &[u8],
    file: &Path,
    config: &str,
    grants: Grants,
) -> Result<Vec<Became>, Failure> {
    let options = SlotOptions {
        grants,
        config: config.to_owned(),
        ..SlotOptions::new("samples")
    };
    let slot = ComponentSlot::new(engine, options, component, "samples")?;
    let (_, mut operator) = slot.instance()?;
    let outputs = operator.version().outputs.clone();
    let until = Some(Instant::now() + LONGEST);
    let mut came = Vec::new();
    for batch in read_records(file, Lines::Records, BATCH, CLOCK)? {
        let in_time = answer_all(&mut *operator, &batch, until, |_, processed| {
            match processed {
                Processed::Answer {
                    count, outcomes, ..
                } => {
                    let view = OutcomesView::parse(&outcomes, count, outputs.len() as u16)?;
                    came.extend(view.iter().map(|outcome| Became::of(&outcome, &outputs)));
                }
                Processed::Poison(cause) => came.push(Became::failed(&cause.reason)),
                Processed::Untried { .. } => {}
            }
            Ok::<_, Failure>(())
        })?;
        if !in_time {
            return Err(anyhow!("they take longer than {} s", LONGEST.as_secs()).into());
        }
    }
    Ok(came)
}
