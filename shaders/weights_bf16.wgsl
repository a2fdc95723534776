// Weights stored as bf16, two in a u32: the upper half of an f32 each, so that widening is exact.
// Rows are padded with zeros to a multiple of 4 elements.

@group(0) @binding(1) var<storage, read> weights: array<vec2<u32>>; // [columns, width / 4]

fn weight4(index: u32) -> vec4<f32> {
    let packed = weights[index];
    let bits = vec4<u32>(packed.x << 16u, packed.x & 0xffff0000u, packed.y << 16u, packed.y & 0xffff0000u);
    return bitcast<vec4<f32>>(bits);
}
