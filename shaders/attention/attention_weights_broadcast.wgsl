// How lanes of the software attention come by the weights of a group's positions, and by where they lie: each works out four and
// tells the others. Needs subgroups of 8 or more.

// The highest score of each query, whose row sees so many groups.
fn find_highest(
    lane: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    limits: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        var most = vec4<f32>(NOTHING);
        for (var g = 0u; g < (*limits)[q]; g++) {
            most = max(most, scores[(*starts)[q] + g * 8u + lane]);
        }
        let mine = max(max(most.x, most.y), max(most.z, most.w));
        var all = max(subgroupBroadcast(mine, 0u), subgroupBroadcast(mine, 1u));
        all = max(all, max(subgroupBroadcast(mine, 2u), subgroupBroadcast(mine, 3u)));
        all = max(all, max(subgroupBroadcast(mine, 4u), subgroupBroadcast(mine, 5u)));
        (*highest)[q] = max(all, max(subgroupBroadcast(mine, 6u), subgroupBroadcast(mine, 7u)));
    }
}

fn hold_weights(
    g: u32,
    lane: u32,
    four: Four,
    head: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    let scales = scales_left(four, head);
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + lane] - (*highest)[q]);
        (*own)[q] = scaled(weight, scales);
        (*totals)[q] += weight;
    }
}

// The sum of a query's weights.
fn total_of(total: vec4<f32>) -> f32 {
    let mine = total.x + total.y + total.z + total.w;
    let low = subgroupBroadcast(mine, 0u) + subgroupBroadcast(mine, 1u) + subgroupBroadcast(mine, 2u) + subgroupBroadcast(mine, 3u);
    let high = subgroupBroadcast(mine, 4u) + subgroupBroadcast(mine, 5u) + subgroupBroadcast(mine, 6u) + subgroupBroadcast(mine, 7u);
    return low + high;
}
