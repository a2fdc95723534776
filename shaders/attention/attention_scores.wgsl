// Attention for software adapters, first half: the score of each query with each key that its row sees. What the row does not see of
// the groups of its tile is filled with a number that the softmax makes nothing of.
// Workgroup: SPAN groups of positions for one unit of ROWS rows; a lane has 4 positions of each. Grid: (groups / SPAN, units, rows / ROWS).

@group(0) @binding(2) var<storage, read> keys: array<Kv>;                // [blocks, BLOCK, kv_heads, stride / 4]
@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;      // [rows, heads, stride / 4]
@group(0) @binding(5) var<storage, read_write> scores: array<vec4<f32>>; // [rows, heads, scores_of_head() / 4]

fn multiply(
    d: u32,
    at: vec4<u32>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
    sums: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    // Past the head's end a query is zero.
    let own = min(d, params.stride4 - 1u);
    let k0 = from_kv(keys[at.x + own]);
    let k1 = from_kv(keys[at.y + own]);
    let k2 = from_kv(keys[at.z + own]);
    let k3 = from_kv(keys[at.w + own]);
    for (var q = 0u; q < QUERIES; q++) {
        let v = (*x)[q];
        (*sums)[q] += vec4<f32>(dot(k0, v), dot(k1, v), dot(k2, v), dot(k3, v));
    }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = id.z * ROWS;
    if (!is_mine(first)) {
        return;
    }
    let entry = step.entries[first];
    let last = entry.z + ROWS - 1u;
    let begin = first_seen(entry.z) / GROUP * GROUP;
    let groups = (last - begin) / GROUP + 1u;
    let unit = first * params.heads + id.y * HEADS;
    var starts: array<u32, QUERIES>;
    for (var q = 0u; q < QUERIES; q++) {
        starts[q] = (unit + q / HEADS * params.heads + q % HEADS) * params.stride4;
    }
    for (var g = id.x * SPAN; g < min((id.x + 1u) * SPAN, groups); g++) {
        let position = begin + g * GROUP + lane * 4u;
        // Past the last row's position its key is read again.
        let quad = min(position, last & 0xfffffffcu);
        let left = last - quad;
        let places = vec4<u32>(paged(entry.x, quad)) + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(left));
        let at = (places * params.kv_heads + kv_head(id.y)) * params.stride4;
        var sums: array<vec4<f32>, QUERIES>;
        for (var q = 0u; q < QUERIES; q++) {
            sums[q] = vec4<f32>();
        }
        for (var d = 0u; d * 8u < params.stride4; d++) {
            var own: array<vec4<f32>, QUERIES>;
            var x: array<vec4<f32>, QUERIES>;
            hold_queries(d, lane, &starts, &own);
            query_0(d, &starts, &own, &x);
            multiply(d * 8u + 0u, at, &x, &sums);
            query_1(d, &starts, &own, &x);
            multiply(d * 8u + 1u, at, &x, &sums);
            query_2(d, &starts, &own, &x);
            multiply(d * 8u + 2u, at, &x, &sums);
            query_3(d, &starts, &own, &x);
            multiply(d * 8u + 3u, at, &x, &sums);
            query_4(d, &starts, &own, &x);
            multiply(d * 8u + 4u, at, &x, &sums);
            query_5(d, &starts, &own, &x);
            multiply(d * 8u + 5u, at, &x, &sums);
            query_6(d, &starts, &own, &x);
            multiply(d * 8u + 6u, at, &x, &sums);
            query_7(d, &starts, &own, &x);
            multiply(d * 8u + 7u, at, &x, &sums);
        }
        let positions = vec4<u32>(position) + vec4<u32>(0u, 1u, 2u, 3u);
        for (var q = 0u; q < QUERIES; q++) {
            let end = entry.z + q / HEADS;
            let inside = (positions >= vec4<u32>(first_seen(end))) & (positions <= vec4<u32>(end));
            let sum = sums[q];
            let score = vec4<f32>(score_of(sum.x), score_of(sum.y), score_of(sum.z), score_of(sum.w));
            let head = unit + q / HEADS * params.heads + q % HEADS;
            scores[head * (scores_of_head() / 4u) + g * 8u + lane] = select(vec4<f32>(NOTHING), score, inside);
        }
    }
}
