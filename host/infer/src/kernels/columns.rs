//! The text of products for GPUs: what a lane does with each row and octet, written out.

use super::source::{for_each_lane, shader};
use crate::matrix::StorageFormat;

/// What a lane reads of a unit of the width.
fn unit(stored: StorageFormat) -> &'static str {
    match stored {
        StorageFormat::F32 => shader!("weights/columns_f32.wgsl"),
        StorageFormat::F16 | StorageFormat::Bf16 => shader!("weights/columns_halves.wgsl"),
        StorageFormat::Int8 => shader!("weights/columns_int8.wgsl"),
        StorageFormat::Int4 => shader!("weights/columns_int4.wgsl"),
        StorageFormat::Q4K => shader!("weights/columns_q4k.wgsl"),
        StorageFormat::Q6K => shader!("weights/columns_q6k.wgsl"),
    }
}

/// The kernel's own files, for so many rows.
pub(super) fn source(stored: StorageFormat, rows: u32) -> String {
    // As `OCTETS` says in the files above.
    let octets = if stored.is_float() { 1 } else { 4 };
    let octets = for_each_lane(octets, shader!("matmul/matmul_octet.wgsl"));
    let text = shader!("matmul/matmul_columns.wgsl").replace("$OCTETS", &octets);
    unit(stored).to_owned() + "\n" + &for_each_row(rows, &text)
}

/// Every line with `$R` once for each row.
fn for_each_row(rows: u32, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let times = if line.contains("$R") { rows } else { 1 };
        for row in 0..times {
            out += &line.replace("$R", &row.to_string());
            out.push('\n');
        }
    }
    out
}
