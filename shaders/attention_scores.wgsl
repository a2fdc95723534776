// Attention, first half: the scaled product of each query with each key up to its own position.
// Invocation: one position for the GROUP query heads of one key head of one row, so that a key is read once for all of them.
// Grid: (positions / LANES, kv_heads, rows).

@group(0) @binding(1) var<storage, read> keys: array<vec4<f32>>;      // [slots, context, kv_heads, stride / 4]
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;       // [rows, heads + 2 * kv_heads, stride / 4]
@group(0) @binding(3) var<storage, read_write> scores: array<f32>;    // [rows, heads, context]

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let position = group.x * LANES + lane;
    let row = group.z;
    let entry = step.entries[row];
    if (position > entry.z) {
        return;
    }
    let key = cache_start(entry.x, group.y) + position * params.kv_heads * params.stride4;
    let query = (row * (params.heads + 2u * params.kv_heads) + group.y * GROUP) * params.stride4;
    var sums: array<f32, GROUP>;
    for (var g = 0u; g < GROUP; g++) {
        sums[g] = 0.0;
    }
    for (var d = 0u; d < params.stride4; d++) {
        let k = keys[key + d];
        for (var g = 0u; g < GROUP; g++) {
            sums[g] += dot(k, qkv[query + g * params.stride4 + d]);
        }
    }
    for (var g = 0u; g < GROUP; g++) {
        scores[(row * params.heads + group.y * GROUP + g) * params.context + position] = sums[g] * params.scale;
    }
}
