// Weights stored as GGUF's q6_K, kinds apart: the low four bits of q, eight in a word; its upper two, sixteen in a word; an i8
// scale for each half of a group; d, f16, of a block of 256. A weight is d * scale * (q - 32).

const CHUNKS: u32 = 1u; // of 16 bytes in a group of 32 elements

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> scales: array<u32>;
@group(0) @binding(6) var<storage, read> supers: array<u32>;
@group(0) @binding(7) var<storage, read> high: array<vec2<u32>>;

// Elements 4 * quad to 4 * quad + 3 of a group; quad is below 8.
fn weight4(row: u32, group: u32, quad: u32) -> vec4<f32> {
    let at = scale_at(row, group);
    let pair = bitcast<i32>(scales[at / 2u] << (24u - at % 2u * 16u - quad / 4u * 8u)) >> 24u;
    let factor = unpack2x16float(supers[super_at(row, group)]).x * f32(pair);
    let low = values[chunk_at(row, group, 0u)][quad / 2u] >> (quad % 2u * 16u);
    let upper = high[high_at(row, group)][quad / 4u] >> (quad % 4u * 8u);
    let q = ((vec4<u32>(low) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u))
        | (((vec4<u32>(upper) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) << vec4<u32>(4u));
    return factor * vec4<f32>(vec4<i32>(q) - vec4<i32>(32));
}
