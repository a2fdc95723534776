// Epilogue: rows of gate and up alternate in the weights, and the output is activation(gate) * up, half as wide.

@group(0) @binding(3) var<storage, read_write> output: array<vec2<f32>>; // [rows, columns / 4]

fn store(row: u32, column4: u32, sums: vec4<f32>) {
    output[row * params.stride + params.first + column4] = activate(sums.xz) * sums.yw;
}
