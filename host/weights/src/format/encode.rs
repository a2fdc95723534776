//! Floats to groups of [`GROUP`]: this project's int8 and int4.
//!
//! Int8: the scale is the greatest magnitude / 127, as in q8_0. Int4: q4_0's rule (the greatest element becomes -8) wastes
//! steps where that element stands alone, so that other scales are tried too: for each of 19 about that one the nearest
//! numbers are taken, then the scale that fits those numbers best (least squares), and of all the pairs the one with the
//! least sum of squared errors is kept. q4_0's own is among them, so that no group is worse by it.

use half::f16;

use super::GROUP;

/// Appends one group of int8: its scale to `scales`, its 32 numbers to `values`.
pub(crate) fn encode_int8(group: &[f32; GROUP], values: &mut Vec<u8>, scales: &mut Vec<u8>) {
    let greatest = group.iter().fold(0f32, |most, x| most.max(x.abs()));
    let scale = storable(greatest / 127.0);
    let inverse = inverse(scale);
    values.extend(
        group
            .iter()
            .map(|x| (x * inverse).round().clamp(-127.0, 127.0) as i8 as u8),
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
    let mut best = (plain, nearest(group, inverse(plain)));
    let mut least = squared_error(group, best.0, &best.1);
    if plain == f16::ZERO {
        return best;
    }
    for step in -9..=9i8 {
        let numbers = nearest(group, (-8.0 + 0.1 * f32::from(step)) / greatest);
        let (mut product, mut square) = (0f32, 0f32);
        for (x, q) in group.iter().zip(&numbers) {
            product += x * (q - 8.0);
            square += (q - 8.0) * (q - 8.0);
        }
        if square == 0.0 {
            continue;
        }
        let scale = storable(product / square);
        let numbers = nearest(group, inverse(scale));
        let error = squared_error(group, scale, &numbers);
        if error < least {
            (best, least) = ((scale, numbers), error);
        }
    }
    best
}

fn nearest(group: &[f32; GROUP], inverse: f32) -> [f32; GROUP] {
    group.map(|x| (x * inverse).round().clamp(-8.0, 7.0) + 8.0)
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
