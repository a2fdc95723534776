// Attention for software adapters, second half: softmax over the scores and the weighted sum of the values. A tile whose rows see more
// by themselves leaves its sums in the output, and those of the weights after the scores, from where they are gone on with.
// Workgroup: 8 pairs of quads of one unit of ROWS rows, a pair to a lane. Grid: (stride / 32 / QUADS, units, rows alone or tiles).

@group(0) @binding(3) var<storage, read_write> scores: array<vec4<f32>>; // [rows, heads, scores_of_head() / 4], the last 8 for the tile's sums
@group(0) @binding(5) var<storage, read_write> output: array<vec4<f32>>; // [rows, heads, stride / 4]

// Four positions beside each other.
struct Four {
    place: u32, // of the first
    left: u32,  // from there to the last that is read
}

// Adds them up; past the last its value is read again and weighs nothing.
fn multiply(
    four: Four,
    head: u32,
    own: Own,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
    sums: ptr<function, array<Pair, QUERIES>>,
) {
    let stride = params.kv_heads * width_of_head();
    let at = head_at(four.place, head);
    let v0 = pair_at(at, own);
    let v1 = pair_at(at + min(1u, four.left) * stride, own);
    let v2 = pair_at(at + min(2u, four.left) * stride, own);
    let v3 = pair_at(at + min(3u, four.left) * stride, own);
    for (var q = 0u; q < QUERIES; q++) {
        let w = (*x)[q];
        (*sums)[q].a += w.x * v0.a + w.y * v1.a + w.z * v2.a + w.w * v3.a;
        if (QUADS == 2u) {
            (*sums)[q].b += w.x * v0.b + w.y * v1.b + w.z * v2.b + w.w * v3.b;
        }
    }
}

// Positions from the four at `position` to the last.
fn left_at(position: u32, last: u32) -> u32 {
    return last - min(position, last & 0xfffffffcu);
}

// Their scales; past the last none, since what stands there may be no number.
fn scales_left(four: Four, head: u32) -> vec4<f32> {
    return select(vec4<f32>(), scales_of(four.place, head), vec4<u32>(0u, 1u, 2u, 3u) <= vec4<u32>(four.left));
}

// Weights with the scales of their values.
fn scaled(weights: vec4<f32>, scales: vec4<f32>) -> vec4<f32> {
    if (SCALED) {
        return weights * scales;
    }
    return weights;
}

// Reads of four values from `place` on what brings all that a workgroup needs of them into the cache: by themselves, reads are so many
// instructions apart that few of them wait for memory at a time.
fn touch_four(place: u32, head: u32, pair: u32) -> u32 {
    let stride = params.kv_heads * width_of_head();
    let at = head_at(place, head);
    return touch(at, pair) | touch(at + stride, pair) | touch(at + 2u * stride, pair) | touch(at + 3u * stride, pair);
}

@compute @workgroup_size(8)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    var rows: array<u32, ROWS>;
    var ends: array<u32, ROWS>;
    let part = find_part(id.z, &rows, &ends);
    // A lane past the head's end helps with the weights, and stores nothing.
    let pair = id.x * 8u + lane;
    let d = pair * QUADS;
    let own = own_of(pair);
    let head = kv_head(id.y);
    var starts: array<u32, QUERIES>;
    var limits: array<u32, QUERIES>;
    var highest: array<f32, QUERIES>;
    var totals: array<vec4<f32>, QUERIES>;
    var sums: array<Pair, QUERIES>;
    for (var q = 0u; q < QUERIES; q++) {
        starts[q] = query_of(q, id.y, &rows) * (scores_of_head() / 4u);
        limits[q] = (ends[q / HEADS] - part.begin) / GROUP + 1u;
        totals[q] = vec4<f32>();
        sums[q] = Pair(vec4<f32>(), vec4<f32>());
    }
    let carried = scores_of_head() / 4u - 8u + lane;
    if (ROWS == 1u && part.seen > 0u) {
        for (var q = 0u; q < QUERIES; q++) {
            let at = query_of(q, id.y, &rows) * params.stride4;
            totals[q] = scores[starts[q] + carried];
            sums[q].a = output[at + min(d, params.stride4 - 1u)];
            if (QUADS == 2u) {
                sums[q].b = output[at + min(d + 1u, params.stride4 - 1u)];
            }
        }
    }
    find_highest(lane, &starts, &limits, &highest);
    var place = own_place(part, part.seen, lane);
    for (var g = part.seen; g < part.groups; g++) {
        let position = part.begin + g * GROUP;
        // What the next group needs is on its way while this one is summed up.
        let next = own_place(part, min(g + 1u, part.groups - 1u), lane);
        let ahead = touch_four(next, head, id.x * 8u);
        var held: array<vec4<f32>, QUERIES>;
        var x: array<vec4<f32>, QUERIES>;
        var four: Four;
        hold_weights(g, lane, Four(place, left_at(position + lane * 4u, part.last)), head, &starts, &highest, &held, &totals);
        four = Four(place_0(part.table, position, part.last, place), left_at(position + 0u, part.last));
        weight_0(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        four = Four(place_1(part.table, position, part.last, place), left_at(position + 4u, part.last));
        weight_1(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        four = Four(place_2(part.table, position, part.last, place), left_at(position + 8u, part.last));
        weight_2(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        four = Four(place_3(part.table, position, part.last, place), left_at(position + 12u, part.last));
        weight_3(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        four = Four(place_4(part.table, position, part.last, place), left_at(position + 16u, part.last));
        weight_4(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        four = Four(place_5(part.table, position, part.last, place), left_at(position + 20u, part.last));
        weight_5(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        four = Four(place_6(part.table, position, part.last, place), left_at(position + 24u, part.last));
        weight_6(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        four = Four(place_7(part.table, position, part.last, place), left_at(position + 28u, part.last));
        weight_7(g, four, head, &starts, &highest, &held, &totals, &x);
        multiply(four, head, own, &x, &sums);
        place = next + (ahead & params.nothing);
    }
    for (var q = 0u; q < QUERIES; q++) {
        // What the row sees beyond this part it sees alone.
        let whole = ROWS == 1u || limits[q] <= part.groups;
        if (!whole && id.x == 0u) {
            scores[starts[q] + carried] = totals[q];
        }
        let total = select(1.0, with_sink(total_of(totals[q]), highest[q], query_of(q, id.y, &rows)), whole);
        let at = query_of(q, id.y, &rows) * params.stride4 + d;
        if (d < params.stride4) {
            output[at] = sums[q].a / total;
        }
        if (QUADS == 2u && d + 1u < params.stride4) {
            output[at + 1u] = sums[q].b / total;
        }
    }
}
