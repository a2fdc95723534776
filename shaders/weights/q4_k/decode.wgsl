// Weights stored as GGUF's q4_K, kinds apart: q of four bits, eight in a word; s (low byte) and m of a group; d and dmin, f16,
// of a block of 256. A weight is d * s * q - dmin * m.

const CHUNKS: u32 = 1u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> scales: array<u32>;
@group(0) @binding(6) var<storage, read> supers: array<u32>;

// Elements 4 * quad to 4 * quad + 3 of a group; quad is below 8.
fn weight4(row: u32, group: u32, quad: u32) -> vec4<f32> {
    let at = scale_at(row, group);
    let pair = scales[at / 2u] >> (at % 2u * 16u);
    let factors = unpack2x16float(supers[super_at(row, group)]) * vec2<f32>(vec2<u32>(pair, pair >> 8u) & vec2<u32>(255u));
    let word = values[chunk_at(row, group, 0u)][quad / 2u] >> (quad % 2u * 16u);
    let q = (vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
    return factors.x * vec4<f32>(q) - vec4<f32>(factors.y);
}
