//! What one record costs Fluvio's SmartModule engine: nanoseconds, in batches of 256, for the filter that the boundary
//! bench of Tidegate runs. Encoding the batch is not timed, since a broker has it encoded. Prints JSON: by size of the
//! value in bytes, the smallest of the rounds.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use fluvio_smartengine::{SmartEngine, SmartModuleChainBuilder, SmartModuleConfig};
use fluvio_smartmodule::dataplane::smartmodule::SmartModuleInput;
use fluvio_smartmodule::{Record, RecordData, SMARTMODULE_TIMESTAMPS_VERSION};

const RECORDS: usize = 256;
const SIZES: [usize; 3] = [128, 1024, 8192];
const ROUNDS: usize = 60;
const CALLS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: fluvio-engine-bench FILTER.wasm")?;
    let module = std::fs::read(path)?;
    let mut found = BTreeMap::new();
    for size in SIZES {
        let input = SmartModuleInput::try_from_records(records(size), SMARTMODULE_TIMESTAMPS_VERSION)?;
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            // Anew for each round: the memory of an instance grows with every call, up to its limit.
            let config = SmartModuleConfig::builder()
                .smartmodule_names(vec!["filter".to_owned()])
                .build()?;
            let chain = SmartModuleChainBuilder::from((config, module.clone()));
            let mut chain = chain.initialize(&SmartEngine::new())?;
            let inputs: Vec<_> = (0..CALLS).map(|_| input.clone()).collect();
            let began = Instant::now();
            let mut kept = 0;
            for input in inputs {
                kept += chain.process(input)?.successes.len();
            }
            best = best.min(began.elapsed());
            assert_eq!(kept, CALLS * RECORDS / 2, "half of the records stay");
        }
        found.insert(size, best.as_secs_f64() * 1e9 / (CALLS * RECORDS) as f64);
    }
    let figures: Vec<String> = found.iter().map(|(size, ns)| format!("\"{size}\": {ns:.1}")).collect();
    println!("{{{}}}", figures.join(", "));
    Ok(())
}

/// The records of the boundary bench.
fn records(size: usize) -> Vec<Record> {
    (0..RECORDS)
        .map(|offset| {
            let value: Vec<u8> = (0..size).map(|at| (at * 7 + offset) as u8).collect();
            Record::new_key_value(RecordData::from("user-0042"), RecordData::from(value))
        })
        .collect()
}
