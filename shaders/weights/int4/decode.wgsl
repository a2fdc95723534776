// Weights stored as four-bit integers in two's complement, eight in a word from the lowest bits on, with an f16 scale for each
// group.

const CHUNKS: u32 = 1u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> scales: array<u32>;

// Elements 4 * quad to 4 * quad + 3 of a group; quad is below 8.
fn weight4(row: u32, group: u32, quad: u32) -> vec4<f32> {
    let at = scale_at(row, group);
    let scale = unpack2x16float(scales[at / 2u] >> (at % 2u * 16u)).x;
    let word = values[chunk_at(row, group, 0u)][quad / 2u] >> (quad % 2u * 16u);
    let upper = bitcast<vec4<i32>>(vec4<u32>(word) << vec4<u32>(28u, 24u, 20u, 16u));
    return scale * vec4<f32>(upper >> vec4<u32>(28u));
}
