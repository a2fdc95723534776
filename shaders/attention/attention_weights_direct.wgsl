// How lanes of the software attention come by the weights of a group's positions, and by where they lie: each works out all of them.

// The highest score of each query, whose row sees so many groups.
fn find_highest(
    lane: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    limits: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
) {
    // One loop over positions for all queries: software adapters end a kernel's loops after some 65,000 turns in all.
    var longest = 0u;
    var most: array<vec4<f32>, QUERIES>;
    for (var q = 0u; q < QUERIES; q++) {
        longest = max(longest, (*limits)[q]);
        most[q] = vec4<f32>(NOTHING);
    }
    for (var g = 0u; g < longest * 8u; g++) {
        for (var q = 0u; q < QUERIES; q++) {
            if (g < (*limits)[q] * 8u) {
                most[q] = max(most[q], scores[(*starts)[q] + g]);
            }
        }
    }
    for (var q = 0u; q < QUERIES; q++) {
        (*highest)[q] = max(max(most[q].x, most[q].y), max(most[q].z, most[q].w));
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
}

// The sum of a query's weights.
fn total_of(total: vec4<f32>) -> f32 {
    return total.x + total.y + total.z + total.w;
}
