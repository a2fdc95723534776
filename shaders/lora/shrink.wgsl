// What both kernels of A x share: rows that have an adapter times its A, `[rank, width]`.

struct Params {
    width4: u32,
    stride: u32, // numbers of a row of `low`
    norm_width: f32,
    norm_epsilon: f32,
}

@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;     // of each slot [width / 4, rank]
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>; // [rows, width / 4]
@group(0) @binding(3) var<storage, read_write> low: array<f32>;   // [rows, stride]
@group(0) @binding(4) var<uniform> params: Params;
