//! What the benches of components have in common: a batch and an operator as large as one likes, and what the system says
//! of memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tidegate_record::{Batch, BatchBuilder, NewRecord, RecordId};

/// The smallest operator: everything passes.
const PASS: &[u8] = include_bytes!("../../host/operator/tests/fixtures/released/0.1.0/pass.wasm");

/// A batch of so many records, with a key and a value of so many bytes each.
pub fn batch(records: usize, size: usize) -> Batch {
    let mut builder = BatchBuilder::default();
    for offset in 0..records {
        let value: Vec<u8> = (0..size).map(|at| (at * 7 + offset) as u8).collect();
        let record = NewRecord {
            id: RecordId {
                offset: offset as u64,
                ..RecordId::default()
            },
            event_time: Some(1_700_000_000_000_000),
            key: Some(b"user-0042"),
            value: Some(&value),
            ..NewRecord::default()
        };
        builder.push(&record).unwrap();
    }
    builder.finish(1_700_000_000_000_000)
}

/// An operator of about so many bytes, nearly all of them code that is compiled and never called.
pub fn operator_of(bytes: usize) -> Vec<u8> {
    // local.get 0, i32.const, i32.mul, i32.const, i32.add, local.set 0: sixty times.
    let body = |number: u32| {
        let mut code = vec![0];
        for turn in 0..60u32 {
            code.extend([0x20, 0, 0x41]);
            leb(&mut code, (number ^ turn) & 0x3f_ffff);
            code.extend([0x6c, 0x41]);
            leb(&mut code, (turn * 37) & 0x1f_ffff);
            code.extend([0x6a, 0x21, 0]);
        }
        code.extend([0x20, 0, 0x0b]);
        code
    };
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut total = 0;
    while total < bytes {
        let code = body(bodies.len() as u32 * 7919);
        total += code.len() + 3;
        bodies.push(code);
    }
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // One type: from a number to a number.
    section(&mut module, 1, &[1, 0x60, 1, 0x7f, 1, 0x7f]);
    let mut functions = Vec::new();
    leb(&mut functions, bodies.len() as u32);
    functions.resize(functions.len() + bodies.len(), 0);
    section(&mut module, 3, &functions);
    let mut codes = Vec::new();
    leb(&mut codes, bodies.len() as u32);
    for body in &bodies {
        leb(&mut codes, body.len() as u32);
        codes.extend(body);
    }
    section(&mut module, 10, &codes);
    let mut component = PASS.to_vec();
    section(&mut component, 1, &module);
    component
}

/// The smallest operator with this in a custom section, so that it is a component of its own.
pub fn named(operator: &[u8], name: &str) -> Vec<u8> {
    let mut custom = Vec::new();
    leb(&mut custom, name.len() as u32);
    custom.extend(name.as_bytes());
    let mut component = operator.to_vec();
    section(&mut component, 0, &custom);
    component
}

fn section(into: &mut Vec<u8>, id: u8, content: &[u8]) {
    into.push(id);
    leb(into, content.len() as u32);
    into.extend(content);
}

fn leb(into: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// CPU seconds so far of this process and of its children that have ended, in ticks of 10 ms: fields 14 to 17 of
/// /proc/self/stat. None where there is no /proc.
pub fn cpu_seconds() -> Option<[f64; 2]> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let own = (ticks(11)? + ticks(12)?) / 100.0;
    Some([own, (ticks(13)? + ticks(14)?) / 100.0])
}

/// Bytes of memory of this process by a name of `/proc/self/status`, such as `VmRSS`. None where there is no /proc.
pub fn memory(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line
        .trim_start_matches(':')
        .trim()
        .strip_suffix(" kB")?
        .parse()
        .ok()?;
    Some(kibibytes << 10)
}
