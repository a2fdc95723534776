//! How fast `redact-pii` looks through text, natively:
//!
//! ```text
//! cargo run --release -p redact-pii --example throughput
//! ```

use std::hint::black_box;
use std::time::Instant;

use redact_pii::find::{Kinds, find};

/// Bytes looked through for each figure.
const TOTAL: usize = 256 << 20;

fn main() {
    let plain = "The parcel arrived on time but the box was open, and one of the two cups is broken. \
                 What can we do about it? I would rather have a new one than my money back.\n";
    let busy = "Order 48213 of 2024-03-05 14:22:10, 3 items at 19.99 each: write to maria.lopez@example.com \
                or call +46 8 928 571 38 before 18:00; paid with 4111 1111 1111 1111 from 10.20.30.40.\n";
    for (name, line) in [
        ("text without personal data", plain),
        ("a find every 40 bytes", busy),
    ] {
        for size in [1 << 10, 64 << 10] {
            let text = line.repeat(size / line.len() + 1);
            let mut found = Vec::new();
            let rounds = TOTAL / text.len();
            let started = Instant::now();
            for _ in 0..rounds {
                found.clear();
                find(black_box(&text), Kinds::ALL, &mut found);
                black_box(&found);
            }
            let seconds = started.elapsed().as_secs_f64();
            let speed = (rounds * text.len()) as f64 / seconds / 1e6;
            println!(
                "{name}, {} bytes at a time: {speed:.0} MB/s, {} finds each",
                text.len(),
                found.len()
            );
        }
    }
}
