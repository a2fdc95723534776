// gpt-oss's experts between gate and up, which come in turn, and down: biases, and a gate that is cut off.
// Invocation: 4 elements of one row, for each of its experts. Grid: (width / 4 / LANES, rows).

struct Params {
    width4: u32, // of the output of an expert; gate and up are twice as wide
    chosen: u32, // experts of a row
    slots: u32,  // routes of a row
    unused_0: u32,
    slope: f32,
    limit: f32,
    unused_1: f32,
    unused_2: f32,
}

@group(0) @binding(1) var<storage, read> routes: array<vec2<u32>>;       // [rows, slots] of (expert, weight)
@group(0) @binding(2) var<storage, read> input: array<vec4<f32>>;        // [rows, chosen, width / 2]
@group(0) @binding(3) var<storage, read_write> output: array<vec4<f32>>; // [rows, chosen, width / 4]
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<storage, read> biases: array<vec4<f32>>;       // [experts, width / 2]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * LANES + lane;
    if (column >= params.width4) {
        return;
    }
    let row = group.y;
    for (var s = 0u; s < params.chosen; s++) {
        let expert = routes[row * params.slots + s].x;
        let pair = row * params.chosen + s;
        let at = 2u * (pair * params.width4 + column);
        let bias = 2u * (expert * params.width4 + column);
        let low = input[at] + biases[bias];
        let high = input[at + 1u] + biases[bias + 1u];
        let gate = min(vec4<f32>(low.xz, high.xz), vec4<f32>(params.limit));
        let up = clamp(vec4<f32>(low.yw, high.yw), vec4<f32>(-params.limit), vec4<f32>(params.limit));
        output[pair * params.width4 + column] = (up + 1.0) * (gate / (1.0 + exp(-params.slope * gate)));
    }
}
