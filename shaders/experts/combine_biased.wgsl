// Biases of the outputs of experts.

@group(0) @binding(5) var<storage, read> biases: array<vec4<f32>>; // [experts, width / 4]

fn shared_output(index: u32) -> vec4<f32> {
    return vec4<f32>();
}

fn bias_of(expert: u32, column: u32) -> vec4<f32> {
    return biases[expert * params.width4 + column];
}
