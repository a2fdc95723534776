// How lanes of the software attention come by the weights of a group's positions, and by where they lie: each works out all of them.

// The highest score of each query.
fn find_highest(groups: u32, lane: u32, starts: ptr<function, array<u32, QUERIES>>, highest: ptr<function, array<f32, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        var most = vec4<f32>(NOTHING);
        for (var g = 0u; g < groups * 8u; g++) {
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

fn hold_place(table: u32, position: u32, last: u32, lane: u32) -> u32 {
    return 0u;
}

// The sum of a query's weights.
fn total_of(total: vec4<f32>) -> f32 {
    return total.x + total.y + total.z + total.w;
}

fn weight_0(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 0u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_0(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 0u, last & 0xfffffffcu));
}

fn weight_1(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 1u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_1(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 4u, last & 0xfffffffcu));
}

fn weight_2(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 2u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_2(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 8u, last & 0xfffffffcu));
}

fn weight_3(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 3u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_3(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 12u, last & 0xfffffffcu));
}

fn weight_4(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 4u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_4(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 16u, last & 0xfffffffcu));
}

fn weight_5(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 5u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_5(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 20u, last & 0xfffffffcu));
}

fn weight_6(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 6u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_6(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 24u, last & 0xfffffffcu));
}

fn weight_7(
    g: u32,
    starts: ptr<function, array<u32, QUERIES>>,
    highest: ptr<function, array<f32, QUERIES>>,
    own: ptr<function, array<vec4<f32>, QUERIES>>,
    totals: ptr<function, array<vec4<f32>, QUERIES>>,
    x: ptr<function, array<vec4<f32>, QUERIES>>,
) {
    for (var q = 0u; q < QUERIES; q++) {
        let weight = exp(scores[(*starts)[q] + g * 8u + 7u] - (*highest)[q]);
        (*x)[q] = weight;
        (*totals)[q] += weight;
    }
}

fn place_7(table: u32, position: u32, last: u32, place: u32) -> u32 {
    return paged(table, min(position + 28u, last & 0xfffffffcu));
}
