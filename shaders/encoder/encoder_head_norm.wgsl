// RMSNorm of every query and key head of a row, in place. Invocation: one head of a row. Grid: (normed heads / LANES, rows).

struct Params {
    queries: u32, // heads of queries, which come first
    normed: u32,  // heads of queries and keys
    stride4: u32, // a head, padded, / 4; the padding of everything is zero
    heads: u32,   // all heads of a row, those of values too
    dim: u32,     // true width of a head
    epsilon: f32,
    unused_0: u32,
    unused_1: u32,
}

@group(0) @binding(2) var<storage, read> weights: array<vec4<f32>>;   // [2, stride / 4]: of queries, then of keys
@group(0) @binding(3) var<storage, read_write> qkv: array<vec4<f32>>; // [rows, heads, stride / 4]
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x * LANES + lane;
    if (head >= params.normed) {
        return;
    }
    let at = (group.y * params.heads + head) * params.stride4;
    var squares = 0.0;
    for (var k = 0u; k < params.stride4; k++) {
        squares += dot(qkv[at + k], qkv[at + k]);
    }
    let scale = inverseSqrt(squares / f32(params.dim) + params.epsilon);
    let weight = select(0u, params.stride4, head >= params.queries);
    for (var k = 0u; k < params.stride4; k++) {
        qkv[at + k] = qkv[at + k] * scale * weights[weight + k];
    }
}
