// Attention for software adapters, first half: the score of each query with each key that its row sees. A row of scores begins at a
// multiple of 4 positions and is filled to one with a number that the softmax takes for nothing.
// Invocation: POSITIONS positions, LANES apart, for one unit of one row, so that a key is read once for all heads of the unit and a
// query once for all of these positions. Grid: (positions / LANES / POSITIONS, units, rows).

@group(0) @binding(2) var<storage, read> keys: array<Kv>;           // [blocks, BLOCK, kv_heads, stride / 4]
@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>; // [rows, heads, stride / 4]
@group(0) @binding(5) var<storage, read_write> scores: array<f32>;  // [rows, heads, scratch]

const NOTHING: f32 = -3.0e38;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.z;
    let entry = step.entries[row];
    let seen = first_seen(entry.z);
    let begin = seen & 0xfffffffcu;
    let end = entry.z | 3u;
    let first = begin + group.x * LANES * POSITIONS + lane;
    if (first > end) {
        return;
    }
    let query = (row * params.heads + group.y * HEADS) * params.stride4;
    // A position beyond the row's own computes that one again and does not store it.
    var at: array<u32, POSITIONS>;
    var sums: array<f32, HEADS * POSITIONS>;
    for (var i = 0u; i < POSITIONS; i++) {
        let place = paged(entry.x, min(first + i * LANES, entry.z));
        at[i] = (place * params.kv_heads + kv_head(group.y)) * params.stride4;
        for (var g = 0u; g < HEADS; g++) {
            sums[i * HEADS + g] = 0.0;
        }
    }
    for (var d = 0u; d < params.stride4; d++) {
        var q: array<vec4<f32>, HEADS>;
        for (var g = 0u; g < HEADS; g++) {
            q[g] = queries[query + g * params.stride4 + d];
        }
        for (var i = 0u; i < POSITIONS; i++) {
            let k = from_kv(keys[at[i] + d]);
            for (var g = 0u; g < HEADS; g++) {
                sums[i * HEADS + g] += dot(k, q[g]);
            }
        }
    }
    for (var i = 0u; i < POSITIONS; i++) {
        let position = first + i * LANES;
        if (position <= end) {
            let inside = position >= seen && position <= entry.z;
            for (var g = 0u; g < HEADS; g++) {
                let score = select(NOTHING, score_of(sums[i * HEADS + g]), inside);
                scores[(row * params.heads + group.y * HEADS + g) * params.scratch + position - begin] = score;
            }
        }
    }
}
