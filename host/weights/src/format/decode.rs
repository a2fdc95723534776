//! Stored blocks to f32.

use half::{bf16, f16};

use super::{Format, GROUP};

/// Appends the elements of whole blocks in `bytes`; a last block that is cut short is left out.
pub(crate) fn decode(format: Format, bytes: &[u8], out: &mut Vec<f32>) {
    match format {
        Format::F32 => out.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
        Format::F16 => out.extend(
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| f16::from_le_bytes(*b).to_f32()),
        ),
        Format::Bf16 => out.extend(
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| bf16::from_le_bytes(*b).to_f32()),
        ),
        Format::Int8 => {
            for block in bytes.as_chunks::<34>().0 {
                let scale = half_at(block, 0);
                out.extend(block[2..].iter().map(|q| f32::from(*q as i8) * scale));
            }
        }
        Format::Int4 => {
            for block in bytes.as_chunks::<18>().0 {
                let scale = half_at(block, 0);
                out.extend(block[2..].iter().map(|b| nibble(b & 15) * scale));
                out.extend(block[2..].iter().map(|b| nibble(b >> 4) * scale));
            }
        }
        Format::Q4K => bytes
            .as_chunks::<144>()
            .0
            .iter()
            .for_each(|block| q4_k(block, out)),
        Format::Q6K => bytes
            .as_chunks::<210>()
            .0
            .iter()
            .for_each(|block| q6_k(block, out)),
    }
}

/// Appends the elements of one row whose values and scales are stored apart ([`Format::Int8`], [`Format::Int4`]).
pub(crate) fn decode_apart(format: Format, values: &[u8], scales: &[u8], out: &mut Vec<f32>) {
    let scales = scales
        .as_chunks()
        .0
        .iter()
        .map(|b| f16::from_le_bytes(*b).to_f32());
    if format == Format::Int4 {
        for (group, scale) in values.chunks_exact(GROUP / 2).zip(scales) {
            out.extend(
                group
                    .iter()
                    .flat_map(|b| [nibble(b & 15) * scale, nibble(b >> 4) * scale]),
            );
        }
    } else {
        for (group, scale) in values.chunks_exact(GROUP).zip(scales) {
            out.extend(group.iter().map(|q| f32::from(*q as i8) * scale));
        }
    }
}

fn nibble(q: u8) -> f32 {
    f32::from(i16::from(q) - 8)
}

pub(super) fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The six-bit scale and minimum of group `group` (0..8) out of the 12 bytes that hold them (`get_scale_min_k4`).
pub(super) fn scale_and_minimum(packed: &[u8], group: usize) -> (u8, u8) {
    if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        (
            (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4),
            (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4),
        )
    }
}

/// `dequantize_row_q4_K`: d, dmin, 12 bytes of scales, then 4 times 32 bytes, each two groups: low nibbles, high nibbles.
fn q4_k(block: &[u8; 144], out: &mut Vec<f32>) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let packed = &block[4..16];
    for (pair, bytes) in block[16..].chunks_exact(32).enumerate() {
        for (half, shift) in [(0, 0), (1, 4)] {
            let (scale, minimum) = scale_and_minimum(packed, 2 * pair + half);
            let (scale, minimum) = (d * f32::from(scale), dmin * f32::from(minimum));
            out.extend(
                bytes
                    .iter()
                    .map(|b| scale * f32::from((b >> shift) & 15) - minimum),
            );
        }
    }
}

/// `dequantize_row_q6_K`: 128 bytes of low nibbles, 64 of upper pairs, 16 scales, d; in two halves of 128 elements.
fn q6_k(block: &[u8; 210], out: &mut Vec<f32>) {
    let d = half_at(block, 208);
    for half in 0..2 {
        let low = &block[64 * half..][..64];
        let high = &block[128 + 32 * half..][..32];
        let scales = &block[192 + 8 * half..][..8];
        for quarter in 0..4 {
            for i in 0..32 {
                let nibble = (low[32 * (quarter % 2) + i] >> (4 * (quarter / 2))) & 15;
                let upper = (high[i] >> (2 * quarter)) & 3;
                let q = i16::from(nibble | (upper << 4)) - 32;
                let scale = scales[2 * quarter + i / 16] as i8;
                out.push(d * f32::from(scale) * f32::from(q));
            }
        }
    }
}
