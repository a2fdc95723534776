//! What one record costs an Extism plug-in: nanoseconds, for what benches/benches/sdk.rs measures, with a call for each
//! record, and with a call for a batch of 256. Prints JSON in the form of that bench. A batch is encoded and its answer
//! taken apart in the time that is measured, as Tidegate's is; there is nothing in Extism that does it.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use extism::{Manifest, Plugin, Wasm};

const RECORDS: usize = 256;
const SIZES: [usize; 2] = [200, 1024];
const WARMING: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1500);

fn records(size: usize) -> Vec<Vec<u8>> {
    let value = |offset| (0..size).map(|at| (at * 7 + offset) as u8).collect();
    (0..RECORDS).map(value).collect()
}

/// The shortest and the median, in nanoseconds for each record.
fn measured(mut call: impl FnMut() -> Result<(), extism::Error>) -> Result<String, extism::Error> {
    let began = Instant::now();
    while began.elapsed() < WARMING {
        call()?;
    }
    let mut calls = Vec::new();
    let began = Instant::now();
    while began.elapsed() < MEASURED {
        let began = Instant::now();
        call()?;
        calls.push(began.elapsed());
    }
    calls.sort_unstable();
    let each = |call: Duration| call.as_secs_f64() * 1e9 / RECORDS as f64;
    let (shortest, median) = (each(calls[0]), each(calls[calls.len() / 2]));
    Ok(format!(
        "{{\"shortest\": {shortest:.1}, \"median\": {median:.1}, \"calls\": {}}}",
        calls.len()
    ))
}

fn one_by_one(plugin: &mut Plugin, mode: &str, values: &[Vec<u8>]) -> Result<(), extism::Error> {
    for value in values {
        let answer: &[u8] = plugin.call(mode, value.as_slice())?;
        match mode {
            "filter" => assert_eq!(answer, [u8::from(value[10] % 2 == 0)]),
            _ => drop(black_box(answer.to_vec())),
        }
    }
    Ok(())
}

fn together(plugin: &mut Plugin, mode: &str, values: &[Vec<u8>]) -> Result<(), extism::Error> {
    let mut batch = Vec::new();
    for value in values {
        batch.extend_from_slice(&(value.len() as u32).to_le_bytes());
        batch.extend_from_slice(value);
    }
    let answer: &[u8] = plugin.call(format!("{mode}_batch"), batch.as_slice())?;
    match mode {
        "filter" => assert_eq!(answer.len(), values.len()),
        _ => assert_eq!(answer, batch.as_slice()),
    }
    drop(black_box(answer.to_vec()));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: extism-bench OPERATOR.wasm")?;
    let manifest = Manifest::new([Wasm::file(path)]);
    let mut plugin = Plugin::new(&manifest, [], false)?;
    type Run = fn(&mut Plugin, &str, &[Vec<u8>]) -> Result<(), extism::Error>;
    let ways: [(&str, Run); 2] = [
        ("Extism, a call for each record", one_by_one),
        ("Extism, a call for a batch", together),
    ];
    let mut found = Vec::new();
    for (way, run) in ways {
        let mut figures = Vec::new();
        for mode in ["filter", "echo"] {
            for size in SIZES {
                let values = records(size);
                let each = measured(|| run(&mut plugin, mode, &values))?;
                figures.push(format!("\"{mode} {size}\": {each}"));
            }
        }
        found.push(format!(
            "\"{way}\": {{\"ns_per_record\": {{{}}}}}",
            figures.join(", ")
        ));
    }
    println!("{{{}}}", found.join(", "));
    Ok(())
}
