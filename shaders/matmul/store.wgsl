// Epilogue: the sums are the output.

@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, columns / 4]

fn store(row: u32, column4: u32, sums: vec4<f32>) {
    output[row * params.stride + params.first + column4] = sums;
}
