// Attention for software adapters, second half: softmax over the scores and the weighted sum of the values.
// Workgroup: 32 elements of one unit of ROWS rows, four to a lane. Grid: (stride / 32, units, rows / ROWS).

@group(0) @binding(2) var<storage, read> values: array<Kv>;              // [blocks, BLOCK, kv_heads, stride / 4]
@group(0) @binding(3) var<storage, read> scores: array<vec4<f32>>;       // [rows, heads, scores_of_head() / 4]
@group(0) @binding(5) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

// Adds up four positions from `place` on; past the last row's, `left` away, its value is read again and weighs nothing.
fn multiply(
    place: u32,
    left: u32,
    own: u32,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
    sums: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    let stride = params.kv_heads * params.stride4;
    let v0 = from_kv(values[place * stride + own]);
    let v1 = from_kv(values[(place + min(1u, left)) * stride + own]);
    let v2 = from_kv(values[(place + min(2u, left)) * stride + own]);
    let v3 = from_kv(values[(place + min(3u, left)) * stride + own]);
    for (var q = 0u; q < QUERIES; q++) {
        let w = (*x)[q];
        (*sums)[q] += w.x * v0 + w.y * v1 + w.z * v2 + w.w * v3;
    }
}

// Positions from the four at `position` to the last.
fn left_at(position: u32, last: u32) -> u32 {
    return last - min(position, last & 0xfffffffcu);
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
    // A lane past the head's end helps with the weights, and stores nothing.
    let d = id.x * 8u + lane;
    let element = kv_head(id.y) * params.stride4 + min(d, params.stride4 - 1u);
    var starts: array<u32, QUERIES>;
    var highest: array<f32, QUERIES>;
    var totals: array<vec4<f32>, QUERIES>;
    var sums: array<vec4<f32>, QUERIES>;
    for (var q = 0u; q < QUERIES; q++) {
        starts[q] = (unit + q / HEADS * params.heads + q % HEADS) * (scores_of_head() / 4u);
        totals[q] = vec4<f32>();
        sums[q] = vec4<f32>();
    }
    find_highest(groups, lane, &starts, &highest);
    for (var g = 0u; g < groups; g++) {
        let position = begin + g * GROUP;
        var own: array<vec4<f32>, QUERIES>;
        var x: array<vec4<f32>, QUERIES>;
        hold_weights(g, lane, &starts, &highest, &own, &totals);
        let place = hold_place(entry.x, position, last, lane);
        weight_0(g, &starts, &highest, &own, &totals, &x);
        multiply(place_0(entry.x, position, last, place), left_at(position + 0u, last), element, &x, &sums);
        weight_1(g, &starts, &highest, &own, &totals, &x);
        multiply(place_1(entry.x, position, last, place), left_at(position + 4u, last), element, &x, &sums);
        weight_2(g, &starts, &highest, &own, &totals, &x);
        multiply(place_2(entry.x, position, last, place), left_at(position + 8u, last), element, &x, &sums);
        weight_3(g, &starts, &highest, &own, &totals, &x);
        multiply(place_3(entry.x, position, last, place), left_at(position + 12u, last), element, &x, &sums);
        weight_4(g, &starts, &highest, &own, &totals, &x);
        multiply(place_4(entry.x, position, last, place), left_at(position + 16u, last), element, &x, &sums);
        weight_5(g, &starts, &highest, &own, &totals, &x);
        multiply(place_5(entry.x, position, last, place), left_at(position + 20u, last), element, &x, &sums);
        weight_6(g, &starts, &highest, &own, &totals, &x);
        multiply(place_6(entry.x, position, last, place), left_at(position + 24u, last), element, &x, &sums);
        weight_7(g, &starts, &highest, &own, &totals, &x);
        multiply(place_7(entry.x, position, last, place), left_at(position + 28u, last), element, &x, &sums);
    }
    for (var q = 0u; q < QUERIES; q++) {
        let total = total_of(totals[q]);
        if (d < params.stride4) {
            output[(unit + q / HEADS * params.heads + q % HEADS) * params.stride4 + d] = sums[q] / total;
        }
    }
}
