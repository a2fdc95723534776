// Rotary embedding and KV write in one: queries are rotated in place, keys rotated into the cache, values copied into it.
// Invocation: elements i and i + head_dim / 2 of one head of one row.
// Grid: ((heads + 2 * kv_heads) * head_dim / 2 / LANES, rows).

struct Params {
    heads: u32,
    kv_heads: u32,
    half: u32,    // head_dim / 2
    stride: u32,  // a head, padded to a multiple of 4 elements; the padding of queries and cache is zero
    context: u32, // positions per slot
    unused_0: u32,
    unused_1: u32,
    unused_2: u32,
}

@group(0) @binding(2) var<storage, read> angles: array<vec2<f32>>;     // [context, head_dim / 2] of (cos, sin)
@group(0) @binding(3) var<storage, read_write> qkv: array<f32>;        // [rows, heads + 2 * kv_heads, stride]
@group(0) @binding(4) var<uniform> params: Params;
@group(0) @binding(5) var<storage, read_write> keys: array<f32>;       // [slots, context, kv_heads, stride]
@group(0) @binding(6) var<storage, read_write> values: array<f32>;     // [slots, context, kv_heads, stride]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = group.x * LANES + lane;
    let heads = params.heads + 2u * params.kv_heads;
    if (index >= heads * params.half) {
        return;
    }
    let head = index / params.half;
    let i = index % params.half;
    let entry = step.entries[group.y];
    let source = (group.y * heads + head) * params.stride + i;
    let a = qkv[source];
    let b = qkv[source + params.half];
    // In the cache, where this row's heads begin.
    let cached = (entry.x * params.context + entry.z) * params.kv_heads;
    if (head >= params.heads + params.kv_heads) {
        let target_index = (cached + head - params.heads - params.kv_heads) * params.stride + i;
        values[target_index] = a;
        values[target_index + params.half] = b;
        return;
    }
    let angle = angles[entry.z * params.half + i];
    let low = a * angle.x - b * angle.y;
    let high = b * angle.x + a * angle.y;
    if (head >= params.heads) {
        let target_index = (cached + head - params.heads) * params.stride + i;
        keys[target_index] = low;
        keys[target_index + params.half] = high;
    } else {
        qkv[source] = low;
        qkv[source + params.half] = high;
    }
}
