// Rotary positions: queries and keys are turned in place. Invocation: elements i and i + half of one head of a row.
// Grid: (turned * half / LANES, rows).

struct Params {
    turned: u32, // heads of queries and keys
    stride: u32, // elements of a head, padded
    half: u32,   // pairs of a head that turn
    heads: u32,  // all heads of a row, those of values too
}

@group(0) @binding(2) var<storage, read> angles: array<vec2<f32>>;  // [context, half] of (cos, sin)
@group(0) @binding(3) var<storage, read_write> qkv: array<f32>;     // [rows, heads, stride]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = group.x * LANES + lane;
    if (index >= params.turned * params.half) {
        return;
    }
    let i = index % params.half;
    // Where the row stands in its text.
    let angle = angles[step.entries[group.y].x * params.half + i];
    let at = (group.y * params.heads + index / params.half) * params.stride + i;
    let x = qkv[at];
    let y = qkv[at + params.half];
    qkv[at] = x * angle.x - y * angle.y;
    qkv[at + params.half] = y * angle.x + x * angle.y;
}
