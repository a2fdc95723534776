// Rotary positions: queries and keys are turned in place. Invocation: elements i and i + half of one head of a row.
// Grid: (2 * heads * half / LANES, rows).

struct Params {
    heads: u32,
    stride: u32, // elements of a head, padded
    half: u32,   // pairs of a head that turn
    unused: u32,
}

@group(0) @binding(2) var<storage, read> angles: array<vec2<f32>>;  // [context, half] of (cos, sin)
@group(0) @binding(3) var<storage, read_write> qkv: array<f32>;     // [rows, 3 * heads, stride]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = group.x * LANES + lane;
    if (index >= 2u * params.heads * params.half) {
        return;
    }
    let i = index % params.half;
    // Where the row stands in its text.
    let angle = angles[step.entries[group.y].x * params.half + i];
    let at = (group.y * 3u * params.heads + index / params.half) * params.stride + i;
    let x = qkv[at];
    let y = qkv[at + params.half];
    qkv[at] = x * angle.x - y * angle.y;
    qkv[at + params.half] = y * angle.x + x * angle.y;
}
