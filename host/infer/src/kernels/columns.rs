//! The text of products for GPUs: what a lane does with each row and octet, written out.

use super::source::{for_each_lane, shader};
use crate::matrix::{Description, StorageFormat};

/// The kernel's own files, for so many rows.
pub(super) fn source(stored: StorageFormat, rows: u32) -> String {
    let Description { texts, columns, .. } = stored.description();
    let octets = for_each_lane(columns.octets(), shader!("matmul/matmul_octet.wgsl"));
    let text = shader!("matmul/matmul_columns.wgsl").replace("$OCTETS", &octets);
    texts.columns.to_owned() + "\n" + &for_each("$R", rows, &text)
}

/// Every line with a letter once for each of so many numbers, which stand for it.
pub(super) fn for_each(letter: &str, count: u32, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let times = if line.contains(letter) { count } else { 1 };
        for number in 0..times {
            out += &line.replace(letter, &number.to_string());
            out.push('\n');
        }
    }
    out
}
