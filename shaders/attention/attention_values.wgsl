// Attention for software adapters, second half: softmax over the scores and the weighted sum of the values. A lane has its own
// positions, 4 of each group, and what it has summed up is added to that of the others at the end, in the order of lanes. A tile whose rows
// see more by themselves leaves the sums of its lanes after the scores, from where they are gone on with.
//
// Workgroup: FOURS fours of quads, of one unit of ROWS rows: as many eights of them as there are lanes for their quads, one after
// another. Grid: (stride / 4 / 4 / FOURS, units, rows alone or tiles).
//
// The host writes this out (kernels/attention/software.rs): a line once for each number of what it has a letter of, K (queries), P (fours)
// or E (eights).

@group(0) @binding(3) var<storage, read_write> scores: array<Words4>; // [rows, heads, scores_of_head() / 4]
@group(0) @binding(5) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var rows: array<u32, ROWS>;
    var ends: array<u32, ROWS>;
    let part = find_part(id.z, &rows, &ends);
    let kept = kept_of(id.y);
    // A four past the head's end is the last again, and is not stored.
    let first = id.x * FOURS;
    let own_$P = own_of(first + $Pu);
    let score_$K = query_of($Ku, id.y, &rows) * (scores_of_head() / 4u) + lane;
    let groups_$K = (ends[$Ku / HEADS] - part.begin) / GROUP + 1u;
    // One loop for all queries: software adapters end a kernel's loops after some 65,000 turns in all.
    var longest = 0u;
    longest = max(longest, groups_$K);
    var most_$K = vec4<f32>(NOTHING);
    for (var g = 0u; g < longest; g++) {
        if (g < groups_$K) { most_$K = max(most_$K, scores_at(score_$K + g * 8u)); }
    }
    let highest_$K = most_of_lanes(lane, max(max(most_$K.x, most_$K.y), max(most_$K.z, most_$K.w)));

    let carried = (scores_of_head() - carried_of_head()) / 4u;
    let carried_total_$K = score_$K + carried;
    let carried_$K = carried_total_$K + (1u + 4u * first) * 8u;
    var total_$K = vec4<f32>();
    var a_$P_$K = vec4<f32>();
    var b_$P_$K = vec4<f32>();
    var c_$P_$K = vec4<f32>();
    var d_$P_$K = vec4<f32>();
    if (ROWS == 1u && part.seen > 0u) {
        total_$K = scores_at(carried_total_$K);
        a_$P_$K = scores_at(carried_$K + 32u * $Pu);
        b_$P_$K = scores_at(carried_$K + 32u * $Pu + 8u);
        c_$P_$K = scores_at(carried_$K + 32u * $Pu + 16u);
        d_$P_$K = scores_at(carried_$K + 32u * $Pu + 24u);
    }
    for (var g = part.seen; g < part.groups; g++) {
        let position = part.begin + g * GROUP + lane;
        let blocks = blocks_of(part, g);
        let place_0 = kept.first + place_in(blocks, part, position);
        let place_1 = kept.first + place_in(blocks, part, position + 8u);
        let place_2 = kept.first + place_in(blocks, part, position + 16u);
        let place_3 = kept.first + place_in(blocks, part, position + 24u);
        let at = vec4<u32>(head_of(place_0, kept.width), head_of(place_1, kept.width), head_of(place_2, kept.width), head_of(place_3, kept.width));
        var weight_$K = exp(scores_at(score_$K + g * 8u) - highest_$K);
        total_$K += weight_$K;
        // What weighs nothing counts nothing, whatever its scale is: it may be of a position that the row does not see.
        if (SCALED) {
            let scales = vec4<f32>(scale_of(place_0, kept.width), scale_of(place_1, kept.width), scale_of(place_2, kept.width), scale_of(place_3, kept.width));
            weight_$K = select(weight_$K * scales, vec4<f32>(), weight_$K == vec4<f32>());
        }
$VALUES
    }
    let whole_$K = ROWS == 1u || groups_$K <= part.groups;
$SUMS
    let weights_$K = sums_0_$K[1].x + sums_0_$K[1].y + sums_0_$K[1].z + sums_0_$K[1].w;
    let sum_of_weights_$K = with_sink(weights_$K, highest_$K, query_of($Ku, id.y, &rows));
    let quad_$E = 4u * first + 8u * $Eu + lane;
    let output_$K = query_of($Ku, id.y, &rows) * params.stride4;
    if (quad_$E < params.stride4 && whole_$K) { output[output_$K + quad_$E] = sums_$E_$K[0] / sum_of_weights_$K; }
    // What a row sees beyond this part it sees alone.
    if (!whole_$K && id.x == 0u) { set_scores(carried_total_$K, total_$K); }
    if (!whole_$K) { set_scores(carried_$K + 32u * $Pu, a_$P_$K); }
    if (!whole_$K) { set_scores(carried_$K + 32u * $Pu + 8u, b_$P_$K); }
    if (!whole_$K) { set_scores(carried_$K + 32u * $Pu + 16u, c_$P_$K); }
    if (!whole_$K) { set_scores(carried_$K + 32u * $Pu + 24u, d_$P_$K); }
}
