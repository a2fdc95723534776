// Epilogue: a bias is added to the sums, and the output is their activation.

@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, columns / 4]
@group(0) @binding(8) var<storage, read> bias: array<vec4<f32>>;         // [columns / 4]

fn store(row: u32, column4: u32, sums: vec4<f32>) {
    let biased = sums + bias[params.first + column4];
    output[row * params.stride + params.first + column4] = vec4<f32>(activate(biased.xy), activate(biased.zw));
}
