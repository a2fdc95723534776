//! What the codec promises.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod csv;
mod cut;
mod encode;
mod json;
mod time;
mod tokens;

use tidegate_codec::{Decoder, DecoderOptions, Input};
use tidegate_record::{Batch, BatchBuilder};

/// The records and the reasons that pieces of input become.
fn decode(options: DecoderOptions, pieces: &[&[u8]]) -> (Batch, Vec<String>) {
    let mut decoder = Decoder::new(options).unwrap();
    decode_with(&mut decoder, pieces)
}

fn decode_with(decoder: &mut Decoder, pieces: &[&[u8]]) -> (Batch, Vec<String>) {
    let mut batch = BatchBuilder::default();
    let mut reasons = Vec::new();
    for piece in pieces {
        let input = Input {
            value: Some(piece),
            ..Input::default()
        };
        if let Err(malformed) = decoder.decode(&input, &mut batch) {
            reasons.push(malformed.reason);
        }
    }
    (batch.finish(0), reasons)
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

fn values(batch: &Batch) -> Vec<String> {
    batch
        .view()
        .records()
        .map(|record| text(record.value()).unwrap())
        .collect()
}

fn keys(batch: &Batch) -> Vec<Option<String>> {
    batch
        .view()
        .records()
        .map(|record| text(record.key()))
        .collect()
}
