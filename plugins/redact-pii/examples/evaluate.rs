//! Measures what `redact-pii` finds against sentences with labelled spans, as those of microsoft/presidio-research:
//!
//! ```text
//! cargo run --release -p redact-pii --example evaluate -- sentences.json [--split held-out|development|all] [--misses]
//! ```
//!
//! The sentences were made from templates. Rows with the same template stay together: a row's template is its text with
//! the labelled spans masked, joined with the rows that share its `template_id`. A hash of the template puts it into one
//! of two halves. The rules were written looking at `development` only; `held-out` is the measure.
//!
//! Two ways to count. Overlap: a find counts if it overlaps a labelled span of its type, a label if a find of its type
//! overlaps it. Exact: both borders are the same. Types that are labelled but not looked for (names, places, dates ...)
//! do not count; a find where one of them stands is a wrong find.

#[path = "evaluate/measure.rs"]
mod measure;
#[path = "evaluate/rows.rs"]
mod rows;

use std::process::ExitCode;

use measure::{Count, KINDS, report};
use rows::{Row, Split, read};

fn main() -> ExitCode {
    let mut path = None;
    let mut split = Split::HeldOut;
    let mut misses = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--split" => match arguments.next().as_deref().and_then(Split::named) {
                Some(named) => split = named,
                None => return fail("--split takes held-out, development or all"),
            },
            "--misses" => misses = true,
            _ => path = Some(argument),
        }
    }
    let Some(path) = path else {
        return fail(
            "usage: evaluate SENTENCES.json [--split held-out|development|all] [--misses]",
        );
    };
    if misses && split != Split::Development {
        return fail(
            "--misses shows sentences, and those held out are not to be looked at: use --split development",
        );
    }
    let rows: Vec<Row> = match read(path.as_ref()) {
        Ok(rows) => rows.into_iter().filter(|row| split.has(row)).collect(),
        Err(error) => return fail(&format!("{path}: {error}")),
    };
    let templates: std::collections::BTreeSet<u64> = rows.iter().map(|row| row.template).collect();
    println!(
        "{} rows from {} templates, split: {}",
        rows.len(),
        templates.len(),
        split.name()
    );
    let mut counts = KINDS.map(|(kind, label)| (kind, label, Count::default()));
    for row in &rows {
        measure::row(row, &mut counts, misses);
    }
    report(&counts);
    ExitCode::SUCCESS
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}
