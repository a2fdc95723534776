// Weights stored as i8, four in a word, with an f16 scale for each group.

const CHUNKS: u32 = 2u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> scales: array<u32>;

// Elements 4 * quad to 4 * quad + 3 of a group; quad is below 8.
fn weight4(row: u32, group: u32, quad: u32) -> vec4<f32> {
    let at = scale_at(row, group);
    let scale = unpack2x16float(scales[at / 2u] >> (at % 2u * 16u)).x;
    return scale * vec4<f32>(unpack4xI8(values[chunk_at(row, group, quad / 4u)][quad % 4u]));
}
