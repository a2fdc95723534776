// Attention, first half: the scaled product of each query with each key up to its own position. The row of scores is filled to a
// multiple of 4 with a number that the softmax takes for nothing.
// Invocation: POSITIONS positions, LANES apart, for the GROUP query heads of one key head of one row, so that a key is read once
// for all of these heads and a query once for all of these positions. Grid: (positions / LANES / POSITIONS, kv_heads, rows).

@group(0) @binding(1) var<storage, read> keys: array<vec4<f32>>;      // [slots, context, kv_heads, stride / 4]
@group(0) @binding(2) var<storage, read> qkv: array<vec4<f32>>;       // [rows, heads + 2 * kv_heads, stride / 4]
@group(0) @binding(3) var<storage, read_write> scores: array<f32>;    // [rows, heads, scores]

const NOTHING: f32 = -3.0e38;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * LANES * POSITIONS + lane;
    let row = group.z;
    let entry = step.entries[row];
    if (first > (entry.z | 3u)) {
        return;
    }
    let start = cache_start(entry.x, group.y);
    let query = (row * (params.heads + 2u * params.kv_heads) + group.y * GROUP) * params.stride4;
    // A position beyond the row's own computes that one again and does not store it.
    var at: array<u32, POSITIONS>;
    var sums: array<f32, GROUP * POSITIONS>;
    for (var i = 0u; i < POSITIONS; i++) {
        at[i] = start + min(first + i * LANES, entry.z) * params.kv_heads * params.stride4;
        for (var g = 0u; g < GROUP; g++) {
            sums[i * GROUP + g] = 0.0;
        }
    }
    for (var d = 0u; d < params.stride4; d++) {
        var q: array<vec4<f32>, GROUP>;
        for (var g = 0u; g < GROUP; g++) {
            q[g] = qkv[query + g * params.stride4 + d];
        }
        for (var i = 0u; i < POSITIONS; i++) {
            let k = keys[at[i] + d];
            for (var g = 0u; g < GROUP; g++) {
                sums[i * GROUP + g] += dot(k, q[g]);
            }
        }
    }
    for (var i = 0u; i < POSITIONS; i++) {
        let position = first + i * LANES;
        if (position <= (entry.z | 3u)) {
            for (var g = 0u; g < GROUP; g++) {
                let score = select(NOTHING, sums[i * GROUP + g] * params.scale, position <= entry.z);
                scores[(row * params.heads + group.y * GROUP + g) * params.scores + position] = score;
            }
        }
    }
}
