// Attention for software adapters, second half: softmax over the scores and the weighted sum of the values. A lane has its own
// positions, 4 of each group, and what it has summed up is added to that of the others at the end, in the order of lanes. A tile whose rows
// see more by themselves leaves the sums of its lanes after the scores, from where they are gone on with.
//
// Workgroup: PAIRS pairs of quads, as many quads as lanes, of one unit of ROWS rows. Grid: (stride / 32, units, rows alone or tiles).
//
// The host writes this out (kernels/attention.rs): a line once for each number of what it has a letter of, $K (queries) or $P (pairs).

const PAIRS: u32 = 4u;

@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [rows, heads, scores_of_head() / 4]
@group(0) @binding(5) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

// Scales of a lane's four positions, of which so many are left after the first; past the last none, since what stands there may be no
// number.
fn scales_left(place: u32, left: u32, head: u32) -> vec4<f32> {
    return select(vec4<f32>(), scales_of(place, head), vec4<u32>(0u, 1u, 2u, 3u) <= vec4<u32>(left));
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var rows: array<u32, ROWS>;
    var ends: array<u32, ROWS>;
    let part = find_part(id.z, &rows, &ends);
    let head = kv_head(id.y);
    let stride = params.kv_heads * width_of_head();
    // A pair past the head's end is the last again, and is not stored.
    let first = id.x * PAIRS;
    let own_$P = own_of(first + $Pu);
    let score_$K = query_of($Ku, id.y, &rows) * (scores_of_head() / 4u) + lane;
    let groups_$K = (ends[$Ku / HEADS] - part.begin) / GROUP + 1u;
    // One loop for all queries: software adapters end a kernel's loops after some 65,000 turns in all.
    var longest = 0u;
    longest = max(longest, groups_$K);
    var most_$K = vec4<f32>(NOTHING);
    for (var g = 0u; g < longest; g++) {
        if (g < groups_$K) { most_$K = max(most_$K, scores[score_$K + g * 8u]); }
    }
    let highest_$K = most_of_lanes(lane, max(max(most_$K.x, most_$K.y), max(most_$K.z, most_$K.w)));

    let carried = (scores_of_head() - carried_of_head()) / 4u;
    let carried_total_$K = score_$K + carried;
    let carried_$K = carried_total_$K + (1u + 2u * first) * 8u;
    var total_$K = vec4<f32>();
    var a_$P_$K = vec4<f32>();
    var b_$P_$K = vec4<f32>();
    if (ROWS == 1u && part.seen > 0u) {
        total_$K = scores[carried_total_$K];
        a_$P_$K = scores[carried_$K + 16u * $Pu];
        b_$P_$K = scores[carried_$K + 16u * $Pu + 8u];
    }
    for (var g = part.seen; g < part.groups; g++) {
        let position = part.begin + g * GROUP + lane * 4u;
        let left = part.last - min(position, part.last & 0xfffffffcu);
        let place = own_place(part, g, lane);
        let at = vec4<u32>(head_at(place, head)) + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(left)) * stride;
        var weight_$K = exp(scores[score_$K + g * 8u] - highest_$K);
        total_$K += weight_$K;
        if (SCALED) {
            let scales = scales_left(place, left, head);
            weight_$K *= scales;
        }
$VALUES
    }
    let whole_$K = ROWS == 1u || groups_$K <= part.groups;
    let sums_$K = add_lanes(lane, array<vec4<f32>, 9>(a_0_$K, b_0_$K, a_1_$K, b_1_$K, a_2_$K, b_2_$K, a_3_$K, b_3_$K, total_$K));
    let weights_$K = sums_$K[1].x + sums_$K[1].y + sums_$K[1].z + sums_$K[1].w;
    let sum_of_weights_$K = with_sink(weights_$K, highest_$K, query_of($Ku, id.y, &rows));
    let quad = 2u * first + lane;
    if (quad < params.stride4) {
        if (whole_$K) { output[query_of($Ku, id.y, &rows) * params.stride4 + quad] = sums_$K[0] / sum_of_weights_$K; }
    }
    // What a row sees beyond this part it sees alone.
    if (!whole_$K && id.x == 0u) { scores[carried_total_$K] = total_$K; }
    if (!whole_$K) { scores[carried_$K + 16u * $Pu] = a_$P_$K; }
    if (!whole_$K) { scores[carried_$K + 16u * $Pu + 8u] = b_$P_$K; }
}
