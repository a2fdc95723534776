// How lanes of the software attention come by what they all need: each reads a part and tells the others. Needs subgroups of 8 or more.

// Quads of a head that a lane holds for all.
fn hold_queries(g: u32, lane: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>) {
    let d = g * 8u + lane;
    let inside = f32(d < params.stride4);
    for (var q = 0u; q < QUERIES; q++) {
        (*own)[q] = queries[(*starts)[q] + min(d, params.stride4 - 1u)] * inside;
    }
}

fn query_0(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 0u);
    }
}

fn query_1(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 1u);
    }
}

fn query_2(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 2u);
    }
}

fn query_3(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 3u);
    }
}

fn query_4(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 4u);
    }
}

fn query_5(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 5u);
    }
}

fn query_6(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 6u);
    }
}

fn query_7(g: u32, starts: ptr<function, array<u32, QUERIES>>, own: ptr<function, array<vec4<f32>, QUERIES>>, x: ptr<function, array<vec4<f32>, QUERIES>>) {
    for (var q = 0u; q < QUERIES; q++) {
        (*x)[q] = subgroupBroadcast((*own)[q], 7u);
    }
}
