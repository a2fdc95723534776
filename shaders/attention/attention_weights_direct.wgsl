// How lanes of the software attention come by the weights of a group's positions, and by where they lie: each works out all of them.

// The highest score of each query, whose row sees so many groups.
fn find_highest(
    lane: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    limits: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        var most = vec4<f32>(NOTHING);
        for (var g = 0u; g < (*limits)[q] * 8u; g++) {
            most = max(most, scores[(*starts)[q] + g]);
        }
        (*highest)[q] = max(max(most.x, most.y), max(most.z, most.w));
    }
}

fn hold_weights(
    g: u32,
    lane: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
) {
}

// The sum of a query's weights.
fn total_of(total: vec4<f32>) -> f32 {
    return total.x + total.y + total.z + total.w;
}
