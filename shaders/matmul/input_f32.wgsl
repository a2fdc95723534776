// The input of a matmul in f32.

@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>; // [rows, width / 4]
