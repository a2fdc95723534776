// A bias added to rows of sums, and these to the output where it is a residual stream (ADD).
// Invocation: 4 elements of one row. Grid: (width / 4 / LANES, rows).

struct Params {
    width4: u32,
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(1) var<storage, read> bias: array<vec4<f32>>;         // [width / 4]
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;        // [rows, width / 4]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, width / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * LANES + lane;
    if (column >= params.width4) {
        return;
    }
    let index = group.y * params.width4 + column;
    let sum = input[index] + bias[column];
    if (ADD == 1u) {
        output[index] += sum;
    } else {
        output[index] = sum;
    }
}
