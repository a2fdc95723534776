// Weights stored as f32.

const CHUNKS: u32 = 8u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;

// Elements 4 * quad to 4 * quad + 3 of a group; quad is below 8.
fn weight4(row: u32, group: u32, quad: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(values[chunk_at(row, group, quad)]);
}
