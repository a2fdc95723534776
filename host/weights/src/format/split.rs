//! Stored blocks to their numbers, each kind apart and in the order of the elements.

use half::{bf16, f16};

use super::decode::scale_and_minimum;
use super::{Format, GROUP, RowParts, SUPER_BLOCK};

/// Appends the numbers of whole blocks in `bytes` to `parts`.
pub(crate) fn split(format: Format, bytes: &[u8], parts: &mut RowParts) {
    match format {
        Format::F32 | Format::F16 | Format::Bf16 => parts.values.extend_from_slice(bytes),
        Format::Int8 => {
            for block in bytes.as_chunks::<34>().0 {
                parts.scales.extend_from_slice(&block[..2]);
                parts.values.extend_from_slice(&block[2..]);
            }
        }
        Format::Int4 => {
            for block in bytes.as_chunks::<18>().0 {
                parts.scales.extend_from_slice(&block[..2]);
                pair(block[2..].iter().map(|b| b & 15), &mut parts.values);
                pair(block[2..].iter().map(|b| b >> 4), &mut parts.values);
            }
        }
        Format::Q4K => {
            for block in bytes.as_chunks::<144>().0 {
                parts.supers.extend_from_slice(&block[..4]);
                for group in 0..8 {
                    let (scale, minimum) = scale_and_minimum(&block[4..16], group);
                    parts.scales.extend([scale, minimum]);
                }
                for bytes in block[16..].chunks_exact(32) {
                    pair(bytes.iter().map(|b| b & 15), &mut parts.values);
                    pair(bytes.iter().map(|b| b >> 4), &mut parts.values);
                }
            }
        }
        Format::Q6K => bytes
            .as_chunks::<210>()
            .0
            .iter()
            .for_each(|block| q6_k(block, parts)),
    }
}

/// The first element that cannot be finite, and the element or scale that makes it so.
///
/// A product of a finite scale and any quantized number is finite in f32, so that scales are all that is looked at.
pub(crate) fn not_finite(format: Format, parts: &RowParts) -> Option<(usize, f32)> {
    let find = |values: &mut dyn Iterator<Item = f32>, elements_each: usize| {
        let (at, value) = values.enumerate().find(|(_, value)| !value.is_finite())?;
        Some((at * elements_each, value))
    };
    let half = |bytes: &[u8; 2]| f16::from_le_bytes(*bytes).to_f32();
    let values = &parts.values;
    match format {
        Format::F32 => find(
            &mut values.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)),
            1,
        ),
        Format::F16 => find(&mut values.as_chunks().0.iter().map(half), 1),
        Format::Bf16 => find(
            &mut values
                .as_chunks()
                .0
                .iter()
                .map(|b| bf16::from_le_bytes(*b).to_f32()),
            1,
        ),
        Format::Int8 | Format::Int4 => {
            find(&mut parts.scales.as_chunks().0.iter().map(half), GROUP)
        }
        // Two for each block: half a block each leads to the block's first or middle element, which both hold it.
        Format::Q4K => find(
            &mut parts.supers.as_chunks().0.iter().map(half),
            SUPER_BLOCK / 2,
        ),
        Format::Q6K => find(
            &mut parts.supers.as_chunks().0.iter().map(half),
            SUPER_BLOCK,
        ),
    }
}

/// Two nibbles to a byte, the first of them low.
fn pair(nibbles: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    let mut nibbles = nibbles;
    while let (Some(low), Some(high)) = (nibbles.next(), nibbles.next()) {
        out.push(low | (high << 4));
    }
}

fn q6_k(block: &[u8; 210], parts: &mut RowParts) {
    parts.scales.extend_from_slice(&block[192..208]);
    parts.supers.extend_from_slice(&block[208..]);
    for half in 0..2 {
        let low = &block[64 * half..][..64];
        let high = &block[128 + 32 * half..][..32];
        for quarter in 0..4 {
            let nibbles = &low[32 * (quarter % 2)..][..32];
            pair(
                nibbles.iter().map(|b| (b >> (4 * (quarter / 2))) & 15),
                &mut parts.values,
            );
            for four in high.as_chunks::<4>().0 {
                let uppers = four.map(|b| (b >> (2 * quarter)) & 3);
                parts
                    .high
                    .push(uppers[0] | (uppers[1] << 2) | (uppers[2] << 4) | (uppers[3] << 6));
            }
        }
    }
}
