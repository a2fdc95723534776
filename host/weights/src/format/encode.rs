//! Floats as they are stored: in a float format, or in groups of [`GROUP`], this project's int8 and int4.
//!
//! Int8: the scale is the greatest magnitude / 127, as in q8_0. Int4: q4_0's rule (the greatest element becomes -8) wastes
//! steps where that element stands alone, so that 19 scales about it are tried: for each the nearest numbers are taken,
//! and the numbers win whose best scale (least squares) leaves the least sum of squared errors. That scale is rounded to
//! f16, the nearest numbers are taken again, and q4_0's own pair is kept where it is better after all.

use half::{bf16, f16};

use super::{Format, GROUP};

/// Appends `floats` in a float format; what is none is taken for [`Format::F32`].
pub(crate) fn encode_floats(format: Format, floats: &[f32], bytes: &mut Vec<u8>) {
    let floats = floats.iter();
    match format {
        Format::F16 => floats.for_each(|x| bytes.extend(f16::from_f32(*x).to_le_bytes())),
        Format::Bf16 => floats.for_each(|x| bytes.extend(bf16::from_f32(*x).to_le_bytes())),
        _ => floats.for_each(|x| bytes.extend(x.to_le_bytes())),
    }
}

/// Appends a row, a multiple of [`GROUP`] long, in [`Format::Int4`]; any other format is taken for [`Format::Int8`].
pub(crate) fn encode_groups(
    format: Format,
    floats: &[f32],
    values: &mut Vec<u8>,
    scales: &mut Vec<u8>,
) {
    for group in floats.as_chunks::<GROUP>().0 {
        match format {
            Format::Int4 => encode_int4(group, values, scales),
            _ => encode_int8(group, values, scales),
        }
    }
}

/// Appends one group of int8: its scale to `scales`, its 32 numbers to `values`.
pub(crate) fn encode_int8(group: &[f32; GROUP], values: &mut Vec<u8>, scales: &mut Vec<u8>) {
    let greatest = group.iter().fold(0f32, |most, x| most.max(x.abs()));
    let scale = storable(greatest / 127.0);
    let inverse = inverse(scale);
    values.extend(
        group
            .iter()
            .map(|x| round((x * inverse).clamp(-127.0, 127.0)) as i8 as u8),
    );
    scales.extend(scale.to_le_bytes());
}

/// Appends one group of int4: its scale to `scales`, its 16 bytes (elements 2j low and 2j + 1 high) to `values`.
pub(crate) fn encode_int4(group: &[f32; GROUP], values: &mut Vec<u8>, scales: &mut Vec<u8>) {
    let (scale, numbers) = best_int4(group);
    scales.extend(scale.to_le_bytes());
    values.extend(
        numbers
            .as_chunks::<2>()
            .0
            .iter()
            .map(|[low, high]| (*low as u8) | ((*high as u8) << 4)),
    );
}

/// Numbers in 0..=15 and the scale s for `s · (q - 8)`.
fn best_int4(group: &[f32; GROUP]) -> (f16, [f32; GROUP]) {
    let greatest = group.iter().fold(
        0f32,
        |most, x| if x.abs() > f32::abs(most) { *x } else { most },
    );
    let plain = storable(greatest / -8.0);
    let numbers = nearest(group, inverse(plain));
    if plain == f16::ZERO {
        return (plain, numbers);
    }
    // With numbers q and the scale Σxq / Σq² the squared error is Σx² - (Σxq)² / Σq².
    let (mut fitting, mut most) = (plain, 0f32);
    for step in -9..=9i8 {
        let numbers = nearest(group, (-8.0 + 0.1 * f32::from(step)) / greatest);
        let (mut product, mut square) = ([0f32; 4], [0f32; 4]);
        for (x, q) in group
            .as_chunks::<4>()
            .0
            .iter()
            .zip(numbers.as_chunks::<4>().0)
        {
            for lane in 0..4 {
                let q = q[lane] - 8.0;
                product[lane] += x[lane] * q;
                square[lane] += q * q;
            }
        }
        let (product, square): (f32, f32) = (product.iter().sum(), square.iter().sum());
        let explained = product * product / square;
        if explained > most {
            (fitting, most) = (storable(product / square), explained);
        }
    }
    let fitted = nearest(group, inverse(fitting));
    if squared_error(group, fitting, &fitted) < squared_error(group, plain, &numbers) {
        (fitting, fitted)
    } else {
        (plain, numbers)
    }
}

fn nearest(group: &[f32; GROUP], inverse: f32) -> [f32; GROUP] {
    group.map(|x| round((x * inverse).clamp(-8.0, 7.0)) + 8.0)
}

/// The nearest whole number to one below 2^22 in magnitude: added to 3 · 2^22 nothing of a float is left behind the
/// point. `f32::round` is a call of the C library on processors that are not known to have an instruction for it.
fn round(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    (x + SHIFT) - SHIFT
}

fn squared_error(group: &[f32; GROUP], scale: f16, numbers: &[f32; GROUP]) -> f32 {
    let scale = scale.to_f32();
    let errors = group
        .iter()
        .zip(numbers)
        .map(|(x, q)| x - scale * (q - 8.0));
    errors.map(|error| error * error).sum()
}

/// The nearest f16 that is finite.
fn storable(scale: f32) -> f16 {
    f16::from_f32(scale.clamp(-f16::MAX.to_f32(), f16::MAX.to_f32()))
}

fn inverse(scale: f16) -> f32 {
    let scale = scale.to_f32();
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
