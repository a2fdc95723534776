// Attention for software adapters, first half: the score of each query with each key that its row sees. What the row does not see of
// the groups of its part is filled with a number that the softmax makes nothing of.
//
// To tell all lanes one element of a query costs these adapters as much as three products, so CHUNK quads of all queries are told once, and
// keys go by. Of wider heads a score goes on with the sum of the chunks before.
//
// Workgroup: SPAN groups of positions for one unit of ROWS rows; a lane has 4 positions of each.
// Grid: (groups / SPAN, units, rows alone or tiles).
//
// The host writes this out (kernels/attention.rs): a line once for each number of what it has a letter of, $K (queries) or $P (pairs
// of quads of a chunk).

@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;      // [rows, heads, stride / 4]
@group(0) @binding(5) var<storage, read_write> scores: array<f32>;       // [rows, heads, scores_of_head()]

// A quad of the query that begins at `start`; past the head's end, zero.
fn query_at(start: u32, quad: u32) -> vec4<f32> {
    return queries[start + min(quad, params.stride4 - 1u)] * f32(quad < params.stride4);
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var rows: array<u32, ROWS>;
    var ends: array<u32, ROWS>;
    let part = find_part(id.z, &rows, &ends);
    let start = part.seen + id.x * SPAN;
    let end = min(start + SPAN, part.groups);
    let stride = params.kv_heads * width_of_head();
    let query_$K = query_of($Ku, id.y, &rows) * params.stride4;
    let score_$K = query_of($Ku, id.y, &rows) * scores_of_head() + lane * 4u;
    let end_$K = ends[$Ku / HEADS];
    for (var chunk = 0u; chunk < params.stride4; chunk += CHUNK) {
        let own_$P = own_of(chunk / 2u + $Pu);
$QUERIES
        for (var g = start; g < end; g++) {
            let position = part.begin + g * GROUP + lane * 4u;
            // Past the last position its key is read again.
            let left = part.last - min(position, part.last & 0xfffffffcu);
            let place = own_place(part, g, lane);
            let first = head_at(place, kv_head(id.y));
            var scales = vec4<f32>(1.0);
            if (SCALED) {
                scales = scales_of(place, kv_head(id.y));
            }
            for (var four = 0u; four < 4u; four++) {
                let at = first + min(four, left) * stride;
                let score = g * GROUP + four;
                var sum_$K = 0.0;
                if (SEVERAL == 1u && chunk > 0u) { sum_$K = scores[score_$K + score]; }
$KEY
                // These adapters run through both branches of what is not known when they compile.
                if (SEVERAL == 0u || chunk + CHUNK >= params.stride4) {
                    let here = position + four;
                    if (SCALED) { sum_$K *= scales[four]; }
                    sum_$K = select(NOTHING, score_of(sum_$K), here >= first_seen(end_$K) && here <= end_$K);
                }
                scores[score_$K + score] = sum_$K;
            }
        }
    }
}
