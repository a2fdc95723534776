// Weights stored as bf16, two in a word: the upper half of an f32 each, so that widening is exact.

const CHUNKS: u32 = 4u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;

// Elements 4 * quad to 4 * quad + 3 of a group; quad is below 8.
fn weight4(row: u32, group: u32, quad: u32) -> vec4<f32> {
    let chunk = values[chunk_at(row, group, quad / 2u)];
    let pair = select(chunk.xy, chunk.zw, quad % 2u == 1u);
    return bitcast<vec4<f32>>(vec4<u32>(pair.x << 16u, pair.x & 0xffff0000u, pair.y << 16u, pair.y & 0xffff0000u));
}
