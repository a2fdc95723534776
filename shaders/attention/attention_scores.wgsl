// Attention for software adapters, first half: the score of each query with each key that its row sees. What the row does not see of
// the groups of its part is filled with a number that the softmax makes nothing of.
// Workgroup: SPAN groups of positions for one unit of ROWS rows; a lane has 4 positions of each.
// Grid: (groups / SPAN, units, rows alone or tiles).

@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;      // [rows, heads, stride / 4]
@group(0) @binding(5) var<storage, read_write> scores: array<vec4<f32>>; // [rows, heads, scores_of_head() / 4]

fn multiply(
    pair: u32,
    at: vec4<u32>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
    y: ptr<function, array<vec4<f32>, QUERIES>>,
    sums: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    // Past the head's end a query is zero.
    let own = own_of(pair);
    let k0 = pair_at(at.x, own);
    let k1 = pair_at(at.y, own);
    let k2 = pair_at(at.z, own);
    let k3 = pair_at(at.w, own);
    for (var q = 0u; q < QUERIES; q++) {
        let v = (*x)[q];
        let w = (*y)[q];
        (*sums)[q] += vec4<f32>(dot(k0.a, v), dot(k1.a, v), dot(k2.a, v), dot(k3.a, v));
        (*sums)[q] += vec4<f32>(dot(k0.b, w), dot(k1.b, w), dot(k2.b, w), dot(k3.b, w));
    }
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var rows: array<u32, ROWS>;
    var ends: array<u32, ROWS>;
    let part = find_part(id.z, &rows, &ends);
    var starts: array<u32, QUERIES>;
    for (var q = 0u; q < QUERIES; q++) {
        starts[q] = query_of(q, id.y, &rows) * params.stride4;
    }
    let start = part.seen + id.x * SPAN;
    let end = min(start + SPAN, part.groups);
    for (var g = start; g < end; g++) {
        let position = part.begin + g * GROUP + lane * 4u;
        // Past the last position its key is read again.
        let left = part.last - min(position, part.last & 0xfffffffcu);
        let place = own_place(part, g, lane);
        let stride = params.kv_heads * width_of_head();
        let at = vec4<u32>(head_at(place, kv_head(id.y))) + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(left)) * stride;
        var sums: array<vec4<f32>, QUERIES>;
        for (var q = 0u; q < QUERIES; q++) {
            sums[q] = vec4<f32>();
        }
        for (var d = 0u; d * 8u < params.stride4; d++) {
            var own: array<vec4<f32>, QUERIES>;
            var x: array<vec4<f32>, QUERIES>;
            var y: array<vec4<f32>, QUERIES>;
            hold_queries(d, lane, &starts, &own);
            query_0(d, &starts, &own, &x);
            query_1(d, &starts, &own, &y);
            multiply(d * 4u + 0u, at, &x, &y, &sums);
            query_2(d, &starts, &own, &x);
            query_3(d, &starts, &own, &y);
            multiply(d * 4u + 1u, at, &x, &y, &sums);
            query_4(d, &starts, &own, &x);
            query_5(d, &starts, &own, &y);
            multiply(d * 4u + 2u, at, &x, &y, &sums);
            query_6(d, &starts, &own, &x);
            query_7(d, &starts, &own, &y);
            multiply(d * 4u + 3u, at, &x, &y, &sums);
        }
        let scales = scales_of(place, kv_head(id.y));
        let positions = vec4<u32>(position) + vec4<u32>(0u, 1u, 2u, 3u);
        for (var q = 0u; q < QUERIES; q++) {
            let own = ends[q / HEADS];
            let inside = (positions >= vec4<u32>(first_seen(own))) & (positions <= vec4<u32>(own));
            var sum = sums[q];
            if (SCALED) {
                sum *= scales;
            }
            let score = vec4<f32>(score_of(sum.x), score_of(sum.y), score_of(sum.z), score_of(sum.w));
            let head = query_of(q, id.y, &rows);
            scores[head * (scores_of_head() / 4u) + g * 8u + lane] = select(vec4<f32>(NOTHING), score, inside);
        }
    }
}
