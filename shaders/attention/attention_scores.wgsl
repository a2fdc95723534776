// Attention for software adapters, first half: the score of each query with each key that its row sees. What the row does not see of
// the groups of its part is filled with a number that the softmax makes nothing of.
//
// To tell all lanes one element of a query costs these adapters as much as three products, so CHUNK quads of all queries are told once, and
// keys go by. Of wider heads a score goes on with the sum of the chunks before.
//
// Workgroup: SPAN groups of positions for one unit of ROWS rows; a lane has 4 positions of each, and takes them in turns.
// Grid: (groups / SPAN, units, rows alone or tiles).
//
// The host writes this out (kernels/attention/software.rs): a line once for each number of what it has a letter of, K (queries), P (fours
// of quads of a chunk) or F (positions at once).

@group(0) @binding(3) var<storage, read> queries: array<vec4<f32>>;      // [rows, heads, stride / 4]
@group(0) @binding(5) var<storage, read_write> scores: array<Words4>; // [rows, heads, scores_of_head() / 4]

// Element `i` of four.
fn nth(x: vec4<f32>, i: u32) -> f32 {
    return select(select(x.x, x.y, i == 1u), select(x.z, x.w, i == 3u), i >= 2u);
}

// A quad of the query that begins at `start`; past the head's end, zero.
fn query_at(start: u32, quad: u32) -> vec4<f32> {
    return queries[start + min(quad, params.stride4 - 1u)] * f32(quad < params.stride4);
}

// What all lanes have, as a number of each lane's own. A compiler that sees that they have the same keeps it once, and spreads it over
// the lanes before every product; that `lane / 8u` is zero it does not see.
fn own_of_lane(x: vec4<f32>, lane: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) | vec4<u32>(lane / 8u));
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var rows: array<u32, ROWS>;
    var ends: array<u32, ROWS>;
    let part = find_part(id.z, &rows, &ends);
    let start = part.seen + id.x * SPAN;
    let end = min(start + SPAN, part.groups);
    let query_$K = query_of($Ku, id.y, &rows) * params.stride4;
    let score_$K = query_of($Ku, id.y, &rows) * (scores_of_head() / 4u) + lane;
    let end_$K = ends[$Ku / HEADS];
    let seen_$K = first_seen(end_$K);
    let kept = kept_of(id.y);
    let scale = params.scale;
    let softcap = params.softcap;
    for (var chunk = 0u; chunk < params.stride4; chunk += CHUNK) {
        let own_$P = own_of(chunk / 4u + $Pu);
        let is_last = SEVERAL == 0u || chunk + CHUNK >= params.stride4;
$QUERIES
        for (var g = start; g < end; g++) {
            let blocks = blocks_of(part, g);
            var before_$K = vec4<f32>();
            if (SEVERAL == 1u && chunk > 0u) { before_$K = scores_at(score_$K + g * 8u); }
            var all_$K = vec4<f32>();
            $TURNS
                // Past the last position its key is read again.
                let here_$F = part.begin + g * GROUP + (turn + $Fu) * 8u + lane;
                let place_$F = kept.first + place_in(blocks, part, here_$F);
                let at_$F = head_of(place_$F, kept.width);
                var sum_$F_$K = nth(before_$K, turn + $Fu);
$KEY
                var scale_$F = 1.0;
                if (SCALED) { scale_$F = scale_of(place_$F, kept.width); }
                // These adapters run through both branches of what is not known when they compile.
                if (is_last) {
                    if (SCALED) { sum_$F_$K *= scale_$F; }
                    sum_$F_$K = select(NOTHING, score_by(sum_$F_$K, scale, softcap), here_$F >= seen_$K && here_$F <= end_$K);
                }
                all_$K = select(all_$K, vec4<f32>(sum_$F_$K), vec4<u32>(0u, 1u, 2u, 3u) == vec4<u32>(turn + $Fu));
            }
            set_scores(score_$K + g * 8u, all_$K);
        }
    }
}
