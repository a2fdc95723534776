// Weights stored as f16, two in a u32. Rows are padded with zeros to a multiple of 4 elements.

@group(0) @binding(1) var<storage, read> weights: array<vec2<u32>>; // [columns, width / 4]

fn weight4(index: u32) -> vec4<f32> {
    let packed = weights[index];
    return vec4<f32>(unpack2x16float(packed.x), unpack2x16float(packed.y));
}
