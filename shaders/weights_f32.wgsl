// Weights stored as f32. Rows are padded with zeros to a multiple of 4 elements.

@group(0) @binding(1) var<storage, read> weights: array<vec4<f32>>; // [columns, width / 4]

fn weight4(index: u32) -> vec4<f32> {
    return weights[index];
}
